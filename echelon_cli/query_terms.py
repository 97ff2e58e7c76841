"""Completion of queries in a shell: fields, and values of some fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from echelon.config.presets import PRESETS
from echelon.jobs.labels import Labels, read_labels
from echelon.runs import list_runs
from echelon_cli.foreign_text import completable
from echelon_cli.output import STATE_STYLES
from echelon_cli.query import FIELDS, TextField


def complete_term(term: str) -> list[str]:
    """Return the completions of a term: a field, or a value of a field."""
    name, sign, value = term.lstrip("-").partition(":")
    before = term[: len(term) - len(name + sign + value)]
    if sign:
        known = FIELD_VALUES.get(name.lower(), tuple)()
        return [f"{before}{name}:{text}" for text in sorted(known) if text.startswith(value)]
    ending = {field: ":" if isinstance(queried, TextField) else ">" for field, queried in FIELDS.items()}
    return [f"{before}{field}{sign}" for field, sign in ending.items() if field.startswith(name)]


def _presets() -> Iterable[str]:
    return PRESETS


def _labels(read: Callable[[Labels], Iterable[str]]) -> set[str]:
    """Return a label of every run that has one; what is not printable is left out."""
    return {text for run in list_runs() for text in completable(read(read_labels(run)))}


FIELD_VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "state": lambda: STATE_STYLES,
    "preset": _presets,
    "group": lambda: _labels(lambda labels: (labels.group,)),
    "tag": lambda: _labels(lambda labels: labels.tags),
}
"""Fields with values that a shell completes."""
