"""Kinds of background jobs: each row names the module that a supervisor runs, and tells what lists show of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from echelon.jobs.tickets import PYTHON_MODULE

RANKS = "echelon.jobs.ranks"


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """One kind of job."""

    module: str
    """Run as ``python -m module RUN [arguments]``."""
    summary: str
    max_processes: int = 1
    """Most processes; a spec may come from others."""
    has_plan: bool = True
    """Whether it works through a plan; else it waits for people, makes no progress and does not count as running."""

    def command(self, run: Path, arguments: Sequence[str] = (), processes: int = 1, nodes: int = 1) -> list[str]:
        """Return the command of a session with ``processes`` on each of ``nodes``."""
        count = f"{nodes}x{processes}" if nodes > 1 else str(processes)
        launcher = [RANKS, count] if nodes * processes > 1 else []
        return [*PYTHON_MODULE, *launcher, self.module, str(run), *arguments]


KINDS: dict[str, JobKind] = {
    "train": JobKind(module="echelon.jobs.worker", summary="train a policy", max_processes=256),
    "arena": JobKind(module="echelon.jobs.arena_worker", summary="play rounds of the league", max_processes=1024),
    "shard": JobKind(module="echelon.jobs.shards", summary="play matches of an arena job on another host"),
    "eval": JobKind(module="echelon.jobs.evaluations", summary="evaluate a policy on held-out seeds"),
    "sweep": JobKind(module="echelon.jobs.sweeps.worker", summary="run the trials of a sweep"),
    "play": JobKind(module="echelon.jobs.play_worker", summary="play matches with human pilots", has_plan=False),
}


def has_plan(kind: str) -> bool:
    """Whether a job of a kind has progress; recorded matches have none, and an unknown kind is taken for training."""
    return not kind or (kind in KINDS and KINDS[kind].has_plan)
