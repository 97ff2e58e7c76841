"""Completion of queries in a shell: fields, values of some fields, and saved filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from echelon.jobs.labels import Labels, read_labels, saved_filters
from echelon.runs import list_runs, runs_home
from echelon_cli.foreign_text import completable
from echelon_cli.output import STATE_STYLES
from echelon_cli.query import FIELD_ALIASES, FIELDS, SAVED, TextField


def complete_term(term: str, *, is_first: bool) -> list[str]:
    """Return what completes a term: a saved filter where it ``is_first``, a field, or a value of a field."""
    name, sign, value = term.lstrip("-!(").partition(":")
    before = term[: len(term) - len(name + sign + value)]
    if sign:
        known = FIELD_VALUES.get(FIELD_ALIASES.get(name.lower(), name.lower()))
        found = [f"{name}:{text}" for text in sorted(known() if known else ()) if text.startswith(value)]
    else:
        ending = {field: ":" if isinstance(queried, TextField) else ">" for field, queried in FIELDS.items()}
        found = [f"{field}{sign}" for field, sign in ending.items() if field.startswith(name)]
        if is_first and not before:
            saved = (SAVED + filter_name for filter_name in completable(saved_filters(runs_home())))
            found += [text for text in saved if text.startswith(name)]
    return [before + text for text in found]


def _states() -> Iterable[str]:
    return STATE_STYLES


def _presets() -> Iterable[str]:
    from echelon.config.presets import PRESETS

    return PRESETS


def _labels(read: Callable[[Labels], Iterable[str]]) -> set[str]:
    """Return a label of every run that has one; what is not printable is left out."""
    return {text for run in list_runs() for text in completable(read(read_labels(run)))}


FIELD_VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "state": _states,
    "preset": _presets,
    "group": lambda: _labels(lambda labels: (labels.group,)),
    "tag": lambda: _labels(lambda labels: labels.tags),
}
"""Fields with values that a shell completes."""
