"""Records the current episode of one environment into a temporary folder."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from echelon.replay.record import MatchInfo, RecordedEngine, Recorder
from echelon.replay.schema import SUFFIX

NAME = "match"


class EpisodeRecorder:
    """One episode at a time; each ``begin`` drops the previous one."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._recorder: Recorder | None = None

    def begin(self, engine: RecordedEngine, seed: int) -> None:
        self._stop()
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="echelon-")
        match = MatchInfo(name=NAME, map_seed=seed)
        self._recorder = Recorder(engine, [0], Path(self._folder.name), [match], embed_world=True)
        self._recorder.begin()

    def after_step(self, *, over: bool) -> None:
        if self._recorder is not None:
            self._recorder.after_step()
            if over:
                self._recorder.finish()
                self._recorder = None

    def read(self) -> bytes | None:
        """Return the replay file written so far; None before the first episode."""
        path = Path(self._folder.name) / f"{NAME}{SUFFIX}" if self._folder else None
        return path.read_bytes() if path is not None and path.exists() else None

    def close(self) -> None:
        self._stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _stop(self) -> None:
        if self._recorder is not None:
            self._recorder.abandon()
            self._recorder = None
