"""The dashboard: a feed thread reads run folders, frozen pictures travel in messages, panels draw them."""
