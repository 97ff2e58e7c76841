"""The query language of ``/`` in the list of runs and of ``--filter``: words, and comparisons of fields.

A run matches a query if it matches every term. A term is a word, a text in double quotes, or a comparison such as
``eval>50%``; ``-`` before a term negates it. ``parse`` never fails, so that a list can follow every keystroke: it
leaves out what it cannot read and reports it in one line. ``read_query`` raises instead.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from echelon.jobs.labels import Labels, read_labels
from echelon.runs import RunPaths, list_runs
from echelon_cli.foreign_text import completable
from echelon_cli.listing import RunRow, file_state
from echelon_cli.output import STATE_STYLES

Test = Callable[[RunRow, float], bool]
"""(row, time [s since the epoch]) -> whether the row matches."""

MAX_CHARS = 4096
"""Characters of a query that are read: each term takes memory and time."""
SHOWN_CHARS = 200
"""Characters of a query in a message."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": lambda a, b: math.isclose(a, b, abs_tol=1e-9),
    "!=": lambda a, b: math.isfinite(a) and not math.isclose(a, b, abs_tol=1e-9),
}
"""A NaN value matches none of them."""

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
TIME_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
TERM = re.compile(
    r"""(?P<negated>-?)(?:"(?P<quoted>[^"]*)"|(?P<name>[a-z][\w/.]*)(?P<sign>>=|<=|!=|=|>|<|:)"""
    r"""(?:"(?P<text>[^"]*)"|(?P<value>[^\s"]*))|(?P<word>[^\s"<>=]+)|(?P<stray>\S))""",
    re.IGNORECASE,
)


class QueryError(ValueError):
    """A query that cannot be parsed."""


def read_count(text: str) -> float | None:
    """Return a number with an optional unit, such as 1.5M; None for other text."""
    found = re.fullmatch(rf"({NUMBER})([kmg]?)", text.lower())
    return float(found[1]) * UNITS[found[2]] if found else None


def read_fraction(text: str) -> float | None:
    """Return a fraction, written 50%, 50 or 0.5; None for other text."""
    found = re.fullmatch(rf"({NUMBER})(%?)", text.lower())
    if not found:
        return None
    value = float(found[1])
    return value / 100 if found[2] or abs(value) > 1 else value


def read_span(text: str) -> float | None:
    """Return a time span [s], written 90s, 2h or 1h30m; None for other text."""
    if not re.fullmatch(r"(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)[smhd])+", text.lower()):
        return None
    return sum(float(n) * TIME_UNITS_S[unit] for n, unit in re.findall(r"([0-9.]+)([smhd])", text.lower()))


@dataclass(frozen=True)
class TextField:
    """A field that is searched as text."""

    text: Callable[[RunRow], str]
    example: str


@dataclass(frozen=True)
class NumberField:
    """A field that is compared; unknown values are NaN."""

    value: Callable[[RunRow, float], float]
    read: Callable[[str], float | None]
    expected: str
    example: str


def _fraction(name: str, example: str) -> NumberField:
    return NumberField(lambda row, now: getattr(row, name), read_fraction, "a fraction", example)


def _count(name: str, example: str) -> NumberField:
    return NumberField(lambda row, now: getattr(row, name), read_count, "a number", example)


def _age(row: RunRow, now: float) -> float:
    return now - row.created if row.created > 0 else math.nan


FIELDS: dict[str, TextField | NumberField] = {
    "run": TextField(lambda row: row.id, "run:heron"),
    "kind": TextField(lambda row: row.kind, "kind:eval"),
    "state": TextField(lambda row: row.state, "state:running"),
    "preset": TextField(lambda row: row.preset, "preset:quick"),
    "device": TextField(lambda row: row.device, "device:cuda"),
    "opponent": TextField(lambda row: row.opponent, "opponent:medium"),
    "group": TextField(lambda row: row.group, "group:baseline"),
    "tag": TextField(lambda row: " ".join(row.tags), "tag:paper"),
    "notes": TextField(lambda row: row.notes, "notes:diverged"),
    "status": TextField(lambda row: row.status, "status:disk"),
    "eval": _fraction("eval_rate", "eval>=60%"),
    "ladder": _fraction("ladder", "ladder>70%"),
    "wins": _fraction("win_rate", "wins>50%"),
    "progress": _fraction("progress", "progress<90%"),
    "steps": _count("steps", "steps>=1.5M"),
    "update": _count("update", "update>100"),
    "speed": _count("steps_per_s", "speed<10k"),
    "return": _count("avg_return", "return>-2"),
    "rating": _count("rating", "rating>200"),
    "age": NumberField(_age, read_span, "a time with s, m, h or d", "age<2h"),
}
"""The fields of a query by name."""

COLUMN_FIELDS = {
    "training": "wins",
    "evaluation": "eval",
    "interval": "eval",
    "against": "opponent",
    "steps/s": "speed",
    "elo": "rating",
}
"""Columns of the list of runs -> the fields that they show, where the names differ."""


@dataclass(frozen=True)
class Query:
    """A parsed query."""

    tests: tuple[Test, ...]
    problem: str = ""
    """One line about the part that could not be read, or empty."""
    typed: str = ""
    """Last word of the query, if it may be the start of a field name."""

    def matches(self, row: RunRow, now: float) -> bool:
        return all(test(row, now) for test in self.tests)

    def filter_rows(self, rows: Sequence[RunRow], now: float) -> tuple[list[RunRow], str]:
        """Return the rows to show while a query is typed, and one line about its unreadable part.

        An unfinished field name is left out where no row contains it.
        """
        found = [row for row in rows if self.matches(row, now)]
        if found or not self.typed:
            return found, self.problem
        found = [row for row in rows if all(test(row, now) for test in self.tests[:-1])]
        example = next(field.example for name, field in FIELDS.items() if name.startswith(self.typed))
        return found, self.problem or f"no run contains {self.typed!r}; try {example}"


def parse(text: str) -> Query:
    """Return the readable part of a query and its first problem."""
    tests: list[Test] = []
    problems = [f"{len(text)} characters, expected at most {MAX_CHARS}"] if len(text) > MAX_CHARS else []
    typed = ""
    for term in TERM.finditer(text[:MAX_CHARS]):
        word, test = (term["word"] or "").lower(), None
        if term["name"]:
            test = _comparison(term["name"], term["sign"], term["value"] if term["text"] is None else term["text"])
        elif term["stray"]:
            test = "a quote is not closed" if term["stray"] == '"' else f"{term['stray']!r} has no field; try eval>50%"
        elif needle := (term["quoted"] or word):
            test = _contains(needle)
        if isinstance(test, str):
            problems.append(test)
        elif test is not None:
            tests.append(_negated(test) if term["negated"] else test)
            is_last = term.end() == len(text) and not term["negated"]
            typed = word if word and is_last and any(name.startswith(word) for name in FIELDS) else ""
    return Query(tuple(tests), next(iter(problems), ""), typed)


def read_query(text: str) -> Query:
    """Return a query; raise ``QueryError`` naming the problem if any part of it cannot be parsed."""
    query = parse(text)
    if query.problem:
        raise QueryError(f"query {' '.join(text.split())[:SHOWN_CHARS]!r}: {query.problem}")
    return query


def sorted_by(rows: Sequence[RunRow], name: str, now: float) -> list[RunRow]:
    """Return rows sorted by a field, numbers from the largest, text from A; ``QueryError`` for an unknown field."""
    from echelon.jobs.config_layers import did_you_mean

    queried = FIELDS.get(COLUMN_FIELDS.get(name, name))
    if queried is None:
        raise QueryError(f"--sort is {name!r}, expected one of {', '.join(FIELDS)}{did_you_mean(name, FIELDS)}")
    if isinstance(queried, TextField):
        return sorted(rows, key=queried.text)
    values = {id(row): queried.value(row, now) for row in rows}
    return sorted(rows, key=lambda row: -values[id(row)] if math.isfinite(values[id(row)]) else math.inf)


def _negated(test: Test) -> Test:
    return lambda row, now: not test(row, now)


def _contains(text: str) -> Test:
    """Return the test for text in a run's id, kind, state, preset, device or opponent."""
    needle = text.lower()
    return lambda row, now: (
        needle in f"{row.id} {row.kind} {row.state} {row.preset} {row.device} {row.opponent}".lower()
    )


def _comparison(name: str, sign: str, value: str) -> Test | str:
    """Return the test of a comparison, or the problem of one that cannot be read."""
    from echelon.jobs.config_layers import default_values, did_you_mean

    name = name.lower()
    queried = FIELDS.get(COLUMN_FIELDS.get(name, name)) or config_field(name, sign, value)
    if queried is None:
        near = did_you_mean(name, (*FIELDS, *default_values())) or f", expected one of {', '.join(FIELDS)}"
        return f"unknown field {name!r}{near}; quote it to search as text"
    if isinstance(queried, TextField):
        if sign not in (":", "=", "!=") or not value:
            return f"{name} expects : or = and a text; try {queried.example}"
        needle = value.lower()
        if sign == ":":
            return lambda row, now: needle in queried.text(row).lower()
        return lambda row, now: (queried.text(row).lower() == needle) is (sign == "=")
    number = queried.read(value)
    if sign == ":" or number is None:
        expected = ">, >=, <, <= or =" if sign == ":" else queried.expected
        return f"{name} expects {expected}; try {queried.example}"
    compare = COMPARISONS[sign]
    return lambda row, now: compare(queried.value(row, now), number)


def config_field(name: str, sign: str, value: str) -> TextField | NumberField | None:
    """Return the field of a configuration key such as ``ppo.lr``: a number where the comparison asks for one."""
    from echelon.jobs.config_layers import default_values

    if name not in default_values():
        return None
    if sign in (">", ">=", "<", "<=") or (sign != ":" and read_count(value) is not None):
        return NumberField(
            lambda row, now: _number(config_of(row.root).get(name)), read_count, "a number", f"{name}>1e-4"
        )
    return TextField(lambda row: str(config_of(row.root).get(name, "")), f"{name}:text")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def config_of(root: Path) -> Mapping[str, Any]:
    """Return the flat configuration of a run; empty where it cannot be read. It is read again when it changed."""
    paths = RunPaths(root)
    return _config(root, (file_state(paths.spec), file_state(paths.extension)))


@lru_cache(maxsize=4096)
def _config(root: Path, states: tuple[tuple[int, int] | None, ...]) -> Mapping[str, Any]:
    from echelon.jobs.config_layers import flatten
    from echelon.jobs.spec import read_spec

    try:
        return flatten(read_spec(RunPaths(root)).config)
    except (ValueError, OSError):
        return {}


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
    from echelon.config.presets import PRESETS

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
