"""A run as columns: metrics, evaluations and checkpoints as numpy arrays by name, for any table library.

    import pandas, echelon
    frame = pandas.DataFrame(echelon.runs.load("latest").metrics)

Nested fields are joined by ``/`` (``reward_terms/zone``). A column has one value per record: int64 or bool where every
record has one, else float64 with NaN for missing values; texts are str, empty where missing. Lists are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.runs import RunPaths, find_run, read_json
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EVENTS, Event, EventEval, EventUpdate
from echelon.telemetry.lines import strict
from echelon.telemetry.log import read_events

Columns = dict[str, NDArray[Any]]
"""Arrays of equal length by name."""
CHECKPOINT_FIELDS = ("id", "update", "global_step", "episodes", "obs_dim", "action_dim")


def columns(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Return the values of nested records as columns, in order of first appearance."""
    flat = [dict(_flatten(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return {name: _column([row.get(name) for row in flat]) for name in names}


def _flatten(row: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}/")
        elif not isinstance(value, (list, tuple)):
            yield f"{prefix}{name}", value


def _column(values: list[Any]) -> NDArray[Any]:
    """Return an array of values that may be None."""
    kinds = {type(value) for value in values if value is not None}
    if str in kinds:
        return np.array(["" if value is None else str(value) for value in values], str)
    if len(kinds) == 1 and None not in values and kinds <= {bool, int}:
        return np.array(values, bool if kinds == {bool} else np.int64)
    return np.array([np.nan if value is None else float(value) for value in values], np.float64)


@dataclass(frozen=True)
class RunData:
    """The data of one run, each table read when it is first asked for."""

    paths: RunPaths

    @property
    def id(self) -> str:
        return self.paths.id

    @cached_property
    def _events(self) -> list[Event]:
        return read_events(self.paths.metrics)[0]

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The request of the newest session; empty where it is damaged."""
        return read_json(self.paths.extension) or read_json(self.paths.spec) or {}

    @cached_property
    def config(self) -> dict[str, Any]:
        """Configuration of the newest session, nested as ``echelon config show --schema`` lists it."""
        return self.spec.get("config") or {}

    @cached_property
    def metrics(self) -> Columns:
        """One row per update."""
        return self.records(EventUpdate.kind)

    @cached_property
    def evals(self) -> Columns:
        """One row per evaluation: those of the training and those of ``echelon eval``, oldest first."""
        found = [event for event in self._events if isinstance(event, EventEval)]
        return _table(sorted([*found, *read_evaluations(self.paths.evals)], key=lambda event: event.time))

    @cached_property
    def checkpoints(self) -> Columns:
        """One row per checkpoint, oldest first; ``is_best`` marks the best one."""
        best = (read_json(self.paths.checkpoints / "best.json") or {}).get("checkpoint")
        rows = []
        for manifest in self.paths.checkpoints.glob("step-*/manifest.json"):
            about, folder = read_json(manifest) or {}, manifest.parent
            known = {name: about.get(name) for name in CHECKPOINT_FIELDS}
            rows.append({**known, "is_best": folder.name == best, "path": str(folder)})
        return columns(sorted(rows, key=lambda row: row["global_step"] or 0))

    def records(self, kind: str) -> Columns:
        """Return the records of a kind, such as ``update`` or ``episodes``; ``ValueError`` for an unknown one."""
        if kind not in EVENTS:
            raise ValueError(f"kind {kind!r} does not exist, expected one of {', '.join(EVENTS)}")
        return _table(event for event in self._events if event.kind == kind)


def _table(events: Iterable[Event]) -> Columns:
    return columns(strict(vars(event)) for event in events)


def load(name: str = "latest") -> RunData:
    """Return the data of the run with a name: a folder, an id, ``latest``, or an unambiguous part of an id."""
    return RunData(find_run(name))
