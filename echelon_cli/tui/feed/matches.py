"""Follower of the recorded matches of all runs."""

import time
from pathlib import Path

from echelon.server.catalogue import ReplayCatalogue
from echelon_cli.tui.feed.messages import FileFollower, MatchesView


class MatchesFollower(FileFollower):
    """All recorded matches: live ones first, then newest first."""

    def __init__(self, home: Path | None) -> None:
        self.view = MatchesView()
        self._catalogue = ReplayCatalogue(home)

    def poll(self) -> bool:
        rows = tuple(match.summary for match in self._catalogue.matches())
        if self.view.loaded and rows == self.view.rows:
            return False
        self.view = MatchesView(rows, loaded=True, now=time.time())
        return True
