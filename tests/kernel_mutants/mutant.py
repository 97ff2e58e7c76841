"""A fault in a kernel module: one replacement in its source."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """A fault that a developer might make."""

    fault: str
    """What the kernel does wrongly, in words."""
    old: str
    """Text that occurs exactly once in the module."""
    new: str


class Kernel(NamedTuple):
    """A module of kernels, its mutants, and the tests that compare it with its oracle."""

    module: str
    tests: tuple[str, ...]
    """Tests below ``tests/``, those that catch most first."""
    mutants: tuple[Mutant, ...]

    @property
    def path(self) -> Path:
        """Source of the module; the module is not imported."""
        spec = find_spec(self.module.rpartition(".")[0])
        assert spec is not None and spec.submodule_search_locations
        return Path(spec.submodule_search_locations[0]) / f"{self.module.rpartition('.')[2]}.py"


def mutated(source: str, mutant: Mutant) -> str:
    """Return the source with the fault; ``ValueError`` unless its text occurs exactly once."""
    if (count := source.count(mutant.old)) != 1:
        raise ValueError(f"text of mutant {mutant.fault!r} occurs {count} times, expected 1; update its row")
    return source.replace(mutant.old, mutant.new)
