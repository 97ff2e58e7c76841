"""The feed thread: polls the followers that the active screen has subscribed to and posts the views that have changed.

It runs twice a second and never touches a widget; widgets never read files. Nothing is posted while nothing changes, so
an idle screen costs nothing.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from echelon_cli.tui.feed.follower import RunFollower
from echelon_cli.tui.feed.logs import LogFollower
from echelon_cli.tui.feed.messages import FeedFailed, FileFollower, ViewChanged
from echelon_cli.tui.feed.runs import RunsFollower

POLL_S = 0.5

BACKLOG_PAUSE_S = 0.004
"""Pause between two parts of a long history, which yields to the screen's thread."""

MAX_FOLLOWERS = 8
"""Followers that stay in memory beside those subscribed to, so that returning to a run is immediate."""

Topic = tuple[str, Path | None]
"""What is followed, such as ``run``, and its folder or file; None for the folder of all runs."""

RUNS: Topic = ("runs", None)


def follower_of(topic: Topic, home: Path | None) -> FileFollower:
    """Return a new follower; those of rarely opened screens are imported on use."""
    kind, path = topic
    if kind == "runs":
        return RunsFollower(home)
    if kind == "matches":
        from echelon_cli.tui.feed.matches import MatchesFollower

        return MatchesFollower(home)
    if kind == "league":
        from echelon_cli.tui.feed.league import LeagueFollower

        return LeagueFollower(home)
    assert path is not None, f"{kind} has no folder or file"
    if kind == "sweep":
        from echelon_cli.tui.feed.sweep import SweepFollower

        return SweepFollower(path)
    return LogFollower(path) if kind == "log" else RunFollower(path)


class Feed(threading.Thread):
    """Polls the followers of the current topics until it is stopped."""

    def __init__(self, post: Callable[[Message], object], home: Path | None = None, poll_s: float = POLL_S) -> None:
        """Post messages through ``post``, which must be thread-safe."""
        super().__init__(name="echelon-feed", daemon=True)
        self._post, self._home, self._poll_s = post, home, poll_s
        self.topics: tuple[Topic, ...] = (RUNS,)
        self._followers: OrderedDict[Topic, FileFollower] = OrderedDict()
        self._posted: set[Topic] = set()
        self._wake, self._stopping = threading.Event(), threading.Event()

    def subscribe(self, *topics: Topic) -> None:
        """Replace the topics; a view of each is posted at the next poll, of the run list where it has changed."""
        self.topics, self._posted = topics, self._posted & {RUNS}
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            has_backlog = False
            try:
                has_backlog = self.poll()
            except Exception as error:
                # any file may be damaged: the dashboard reports it and continues
                self._post(FeedFailed(f"{type(error).__name__}: {error}"))
            self._wake.wait(BACKLOG_PAUSE_S if has_backlog else self._poll_s)

    def poll(self) -> bool:
        """Read everything subscribed to once, post what has changed, and return whether a backlog remains."""
        topics = self.topics
        for topic in topics:
            follower = self._followers.get(topic) or follower_of(topic, self._home)
            self._followers[topic] = follower
            self._followers.move_to_end(topic)
            if follower.poll() or topic not in self._posted:
                self._posted.add(topic)
                self._post(ViewChanged(follower.view))
        while len(self._followers) > MAX_FOLLOWERS + len(topics):
            self._followers.popitem(last=False)
        return any(self._followers[topic].behind for topic in topics)
