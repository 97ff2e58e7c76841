"""The kinds of background jobs: a table row names the module that a supervisor runs for each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """One kind of job."""

    module: str
    """Run as ``python -m module RUN [arguments]``."""
    summary: str

    def command(self, run: Path, arguments: Sequence[str] = ()) -> list[str]:
        """Return the argv of the process that does the work for the run in folder ``run``."""
        return [sys.executable, "-m", self.module, str(run), *arguments]


KINDS: dict[str, JobKind] = {
    "train": JobKind(module="echelon.jobs.worker", summary="train a policy"),
    "arena": JobKind(module="echelon.jobs.arena_worker", summary="play rounds of the league"),
}
