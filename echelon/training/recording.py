"""Recordings of evaluation matches: which ones, their file names, and how many a run keeps.

A recording observes ``play_episodes`` step by step; ``echelon.replay`` writes the files. A disk error ends the
recording, never the evaluation.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warp as wp

from echelon.files import reason_of
from echelon.replay.header import TeamInfo
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import SUFFIX, UNDECIDED, WINNERS, WORLD_SUFFIX, WORLDS_FOLDER
from echelon.telemetry.events import EventMatch
from echelon.training.records import EpisodeObserver, Estimates

SIDES = ("blue", "red")
TRAINING_PREFIX = "u"
"""Prefix of the replays that training writes and prunes."""
UNUSED_S = 600.0
"""Age from which an unreferenced world file is deleted [s]; a younger one may belong to a match about to start."""


@dataclass(frozen=True, kw_only=True)
class RecordingPlan:
    """What to record of an evaluation batch whose policy plays blue in the first half and red in the second."""

    folder: Path
    seeds: Sequence[int]
    """Every seed of the evaluation."""
    count: int
    """Number of seeds to record, from the first; each gives two matches."""
    prefix: str
    """Prefix of the file names."""
    policy: TeamInfo
    opponent: TeamInfo
    run: str = ""
    """Id of the policy's run."""
    update: int = 0
    global_step: int = 0
    policy_columns: bool = True
    """Whether values, probabilities of choices, reward terms and observed contacts are recorded besides actions."""

    def matches(self) -> dict[int, MatchInfo]:
        about = {"run": self.run, "update": self.update, "global_step": self.global_step}
        matches = {}
        for side, name in enumerate(SIDES):
            teams = (self.policy, self.opponent) if side == 0 else (self.opponent, self.policy)
            for i, seed in enumerate(self.seeds[: self.count]):
                stem = f"{self.prefix}-s{seed}-{name}"
                matches[side * len(self.seeds) + i] = MatchInfo(name=stem, teams=teams, about=about)
        return matches


class Recording(EpisodeObserver):
    """Records the matches of a plan; ``fault`` says why it stopped early, else it is empty."""

    def __init__(self, env: Any, plan: RecordingPlan) -> None:
        self.plan = plan
        self.fault = ""
        self._matches = plan.matches()
        self._env = env
        self._recorder = Recorder(
            env.engine,
            list(self._matches),
            plan.folder,
            list(self._matches.values()),
            policy="values" if plan.policy_columns else "actions",
        )

    @property
    def paths(self) -> list[Path]:
        """Files of the recorded matches."""
        return self._recorder.paths

    def begin(self) -> None:
        self._guarded(self._recorder.begin)

    def before_step(self, estimate: Callable[[], Estimates]) -> None:
        """Store the estimates of the coming step, if policy columns are recorded."""
        if self.plan.policy_columns and not self.fault:
            batch, rows, estimates = self._env.engine.batch, self._env.rows.agent, estimate()
            wp.to_torch(batch["value"]).view(-1).index_copy_(0, rows, estimates.value.float())
            wp.to_torch(batch["chances"]).flatten(0, 1).index_copy_(0, rows, estimates.chances.float())

    def after_step(self) -> None:
        self._guarded(self._recorder.after_step)

    def finish(self, keep: int | None = None) -> list[EventMatch]:
        """Close the files and return the recorded matches; prune the folder to ``keep`` replays of training."""
        self._guarded(self._recorder.finish)
        if keep is not None:
            self._guarded(lambda: prune_replays(self.plan.folder, keep))
        if self.fault:
            return []
        winners = {env: winner for env, (winner, _) in self._recorder.outcomes.items()}
        return [
            EventMatch(
                update=self.plan.update,
                global_step=self.plan.global_step,
                path=f"{path.parent.name}/{path.name}",
                blue=match.teams[0].name,
                red=match.teams[1].name,
                seed=int(self.plan.seeds[env % len(self.plan.seeds)]),
                winner=WINNERS[winners[env]] if winners.get(env, UNDECIDED) >= 0 else "",
            )
            for (env, match), path in zip(self._matches.items(), self.paths, strict=True)
        ]

    def _guarded(self, work: Callable[[], object]) -> None:
        if self.fault:
            return
        try:
            work()
        except OSError as error:
            names = ", ".join(path.name for path in self.paths)
            self.fault = f"matches could not be recorded: {reason_of(error)} ({names})"
            self._recorder.abandon()


def prune_replays(folder: Path, keep: int) -> list[Path]:
    """Delete all but the newest ``keep`` replays of training, and unreferenced worlds; return the deleted files."""
    replays = sorted(folder.glob(f"{TRAINING_PREFIX}[0-9]*{SUFFIX}"), key=_modified)
    deleted = replays[: max(0, len(replays) - keep)]
    for path in deleted:
        path.unlink(missing_ok=True)
    return deleted + (_delete_unused_worlds(folder) if deleted else [])


def _delete_unused_worlds(folder: Path) -> list[Path]:
    """Delete the worlds that no replay refers to and return them; none is deleted where a replay cannot be read."""
    try:
        used = {_world_hash(folder / name) for name in os.listdir(folder) if name.endswith(SUFFIX)}
    except (OSError, ValueError):
        return []  # damaged, of a newer version, or a fault of the system: its world is unknown
    deleted = []
    for path in (folder / WORLDS_FOLDER).glob(f"*{WORLD_SUFFIX}"):
        with contextlib.suppress(OSError):
            if path.stem not in used and time.time() - path.stat().st_mtime > UNUSED_S:
                path.unlink()
                deleted.append(path)
    return deleted


def _modified(path: Path) -> tuple[float, str]:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime, path.name
    return 0.0, path.name


def _world_hash(path: Path) -> str:
    """Return the hash of a replay's world; ``OSError`` or ``ReplayError`` where it cannot be read."""
    with Replay(path) as replay:
        return str(replay.header["world"]["sha256"])
