"""The kinds of background jobs: a table row names the module that a supervisor runs for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from echelon.jobs.process import PYTHON_MODULE

RANKS = "echelon.jobs.ranks"
"""Starts several processes of a kind."""


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """One kind of job."""

    module: str
    """Run as ``python -m module RUN [arguments]``."""
    summary: str

    def command(self, run: Path, arguments: Sequence[str] = (), processes: int = 1) -> list[str]:
        """Return the argv of what does the work for the run in folder ``run``: one process, or several together."""
        together = [RANKS, str(processes)] if processes > 1 else []
        return [*PYTHON_MODULE, *together, self.module, str(run), *arguments]


KINDS: dict[str, JobKind] = {
    "train": JobKind(module="echelon.jobs.worker", summary="train a policy"),
    "arena": JobKind(module="echelon.jobs.arena_worker", summary="play rounds of the league"),
}
