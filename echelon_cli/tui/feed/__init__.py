"""The feed: a thread that reads run folders, logs and the league, and posts frozen views as messages."""
