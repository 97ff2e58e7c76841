"""The query language of ``/`` in the list of runs and of ``--filter``: words, fields and comparisons over run rows.

Terms are combined with ``and`` unless ``or`` or ``|`` stands between them; ``not``, ``-`` or ``!`` negates, brackets
group, quotes enclose text. ``parse`` never fails, so that a list can follow every keystroke: it drops what it cannot
read and reports it in one line. ``read_query`` raises instead. Independent of any terminal.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from echelon.runs import RunPaths, runs_home
from echelon_cli.listing import RunRow

Test = Callable[[RunRow, float], bool]
"""(row, time [s since the epoch]) -> whether the row matches."""

MAX_DEPTH = 32
"""Greatest nesting of brackets."""
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
    "==": lambda a, b: math.isclose(a, b, abs_tol=1e-9),
    "!=": lambda a, b: math.isfinite(a) and not math.isclose(a, b, abs_tol=1e-9),
}
"""A NaN value matches none of them."""

COUNT_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
TIME_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
COUNT = re.compile(rf"({NUMBER})([kmg]?)")
FRACTION = re.compile(rf"({NUMBER})(%?)")
SPAN = re.compile(r"(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)[smhd])+")
SPAN_PART = re.compile(r"([0-9.]+)([smhd])")


class QueryError(ValueError):
    """A query that cannot be parsed."""


def read_count(text: str) -> float | None:
    """Return a number with an optional unit, such as 1.5M; None for other text."""
    found = COUNT.fullmatch(text.lower())
    return float(found[1]) * COUNT_UNITS[found[2]] if found else None


def read_fraction(text: str) -> float | None:
    """Return a fraction, written 50%, 50 or 0.5; None for other text."""
    found = FRACTION.fullmatch(text.lower())
    if not found:
        return None
    value = float(found[1])
    return value / 100 if found[2] or abs(value) > 1 else value


def read_span(text: str) -> float | None:
    """Return a time span [s], written 90s, 2h or 1h30m; None for other text."""
    if not SPAN.fullmatch(text.lower()):
        return None
    return sum(float(number) * TIME_UNITS_S[unit] for number, unit in SPAN_PART.findall(text.lower()))


@dataclass(frozen=True, kw_only=True)
class TextField:
    """A field that is searched as text."""

    text: Callable[[RunRow], str]
    example: str


@dataclass(frozen=True, kw_only=True)
class NumberField:
    """A field that is compared; unknown values are NaN."""

    value: Callable[[RunRow, float], float]
    read: Callable[[str], float | None]
    expected: str
    example: str


FIELDS: dict[str, TextField | NumberField] = {
    "run": TextField(text=lambda row: row.id, example="run:heron"),
    "state": TextField(text=lambda row: row.state, example="state:running"),
    "preset": TextField(text=lambda row: row.preset, example="preset:quick"),
    "device": TextField(text=lambda row: row.device, example="device:cuda"),
    "opponent": TextField(text=lambda row: row.opponent, example="opponent:medium"),
    "group": TextField(text=lambda row: row.group, example="group:baseline"),
    "tag": TextField(text=lambda row: " ".join(row.tags), example="tag:paper"),
    "notes": TextField(text=lambda row: row.notes, example="notes:diverged"),
    "status": TextField(text=lambda row: row.status, example="status:disk"),
    "eval": NumberField(
        value=lambda row, now: row.eval_rate, read=read_fraction, expected="a fraction", example="eval>=60%"
    ),
    "ladder": NumberField(
        value=lambda row, now: row.ladder, read=read_fraction, expected="a fraction", example="ladder>70%"
    ),
    "wins": NumberField(
        value=lambda row, now: row.win_rate, read=read_fraction, expected="a fraction", example="wins>50%"
    ),
    "progress": NumberField(
        value=lambda row, now: row.progress, read=read_fraction, expected="a fraction", example="progress<90%"
    ),
    "steps": NumberField(value=lambda row, now: row.steps, read=read_count, expected="a number", example="steps>=1.5M"),
    "update": NumberField(
        value=lambda row, now: row.update, read=read_count, expected="a number", example="update>100"
    ),
    "speed": NumberField(
        value=lambda row, now: row.steps_per_s, read=read_count, expected="a number", example="speed<10k"
    ),
    "return": NumberField(
        value=lambda row, now: row.avg_return, read=read_count, expected="a number", example="return>-2"
    ),
    "rating": NumberField(
        value=lambda row, now: row.rating, read=read_count, expected="a number", example="rating>200"
    ),
    "age": NumberField(
        value=lambda row, now: now - row.created if row.created > 0 else math.nan,
        read=read_span,
        expected="a time with s, m, h or d",
        example="age<2h",
    ),
}
"""The fields of a query by name."""

FIELD_ALIASES = {
    "training": "wins",
    "evaluation": "eval",
    "interval": "eval",
    "against": "opponent",
    "name": "run",
    "id": "run",
    "steps/s": "speed",
    "elo": "rating",
    "note": "status",
}
"""Further names of fields: columns of the run list that are called otherwise, and earlier names."""

SAVED = "@"
"""First character of the name of a saved filter."""

OPERATORS = ("and", "or", "not")

VALUE = r"""\"[^"]*\"?|'[^']*'?|(?!(?:and|or|not)(?:[\s()|&]|$))[^\s()|&]+"""
TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<open>\()|(?P<close>\))|(?P<or>\|+)|(?P<and>&+)|(?P<not>[!-])|"""
    r"""(?P<quote>"[^"]*"?|'[^']*'?)|"""
    rf"""(?P<name>[a-z][\w/.]*)\s*(?P<sign>>=|<=|!=|==|=|>|<|:)\s*(?P<value>{VALUE})?|"""
    r"""(?P<word>[^\s()|&<>="]+)|(?P<stray>.)""",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Query:
    """A parsed query; ``problem`` is one line about the part that could not be parsed, or empty."""

    text: str
    matches: Test
    problem: str = ""
    fallback: Test | None = None
    """The same query without its ambiguous words: a field name that is still typed, or an unknown field."""
    hint: str = ""
    """Message for the case that only ``fallback`` matches a row."""

    def filter_rows(self, rows: Sequence[RunRow], now: float) -> tuple[list[RunRow], str]:
        """Return the rows to show while a query is typed, and one line about its unreadable part."""
        found = [row for row in rows if self.matches(row, now)]
        if not found and self.fallback is not None:
            found = [row for row in rows if self.fallback(row, now)]
            return found, self.problem or (self.hint if found else "")
        return found, self.problem


def parse(text: str) -> Query:
    """Return the readable part of a query and its first problem."""
    if len(text) > MAX_CHARS:
        return replace(parse(text[:MAX_CHARS]), problem=f"{len(text)} characters, expected at most {MAX_CHARS}")
    parser = _Parser(text)
    test = _all_of(parser.tests())
    fallback = _all_of(_Parser(text, keep_ambiguous=False).tests()) if parser.hints else None
    return Query(text, test, next(iter(parser.problems), ""), fallback, next(iter(parser.hints), ""))


def read_query(text: str) -> Query:
    """Return a query; raise ``QueryError`` naming the problem if any part of it cannot be parsed.

    ``@NAME`` is the saved filter of that name.
    """
    text = expanded(text, runs_home())
    query = parse(text)
    if query.problem:
        raise QueryError(f"query {' '.join(text.split())[:SHOWN_CHARS]!r}: {query.problem}")
    return query


def expanded(text: str, home: Path) -> str:
    """Return the query that ``@NAME`` stands for, other text as it is; ``QueryError`` where no such filter is saved."""
    from echelon.jobs.labels import saved_filters

    if not text.startswith(SAVED):
        return text
    found = saved_filters(home)
    if text[1:] not in found:
        raise QueryError(f"filter {text!r} is not saved, expected one of {', '.join(found) or 'none yet'}")
    return found[text[1:]]


def sorted_by(rows: Sequence[RunRow], name: str, now: float) -> list[RunRow]:
    """Return rows sorted by a field, numbers from the largest, text from A; ``QueryError`` for an unknown field."""
    queried = FIELDS.get(FIELD_ALIASES.get(name.lower(), name.lower()))
    if queried is None:
        near = get_close_matches(name, FIELDS, n=1)
        raise QueryError(
            f"--sort is {name!r}, expected one of {', '.join(FIELDS)}" + (f"; try {near[0]}" if near else "")
        )
    if isinstance(queried, TextField):
        return sorted(rows, key=queried.text)
    values = [queried.value(row, now) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -values[i] if math.isfinite(values[i]) else math.inf)
    return [rows[i] for i in order]


def _all_of(tests: Iterable[Test]) -> Test:
    terms = tuple(tests)
    return lambda row, now: all(test(row, now) for test in terms)


def _any_of(tests: Iterable[Test]) -> Test:
    terms = tuple(tests)
    return lambda row, now: any(test(row, now) for test in terms)


def _negated(test: Test) -> Test:
    return lambda row, now: not test(row, now)


def _contains(text: str) -> Test:
    """Return the test for text in a run's id, state, preset, device or opponent."""
    needle = text.lower()
    return lambda row, now: needle in f"{row.id} {row.state} {row.preset} {row.device} {row.opponent}".lower()


@dataclass
class _Parser:
    """Recursive-descent parser; ``keep_ambiguous=False`` drops words that may be unfinished field names."""

    source: str
    keep_ambiguous: bool = True
    problems: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    _tokens: list[re.Match[str]] = field(default_factory=list)
    _position: int = 0

    def tests(self) -> list[Test]:
        """Return the tests of the query; all must hold."""
        self._tokens = [token for token in TOKEN.finditer(self.source) if token.lastgroup != "space"]
        found = []
        while self._position < len(self._tokens):
            found.append(self._alternatives(0))
            if self._kind() == "close":
                self._next("')' closes no bracket")
        return [test for test in found if test is not None]

    def _kind(self) -> str:
        """Return the kind of the next token, empty at the end."""
        if self._position >= len(self._tokens):
            return ""
        token = self._tokens[self._position]
        if token["name"]:
            return "field"
        word = (token["word"] or "").lower()
        return word if word in OPERATORS else token.lastgroup or ""

    def _next(self, problem: str = "") -> re.Match[str]:
        self._position += 1
        if problem:
            self.problems.append(problem)
        return self._tokens[self._position - 1]

    def _alternatives(self, depth: int) -> Test | None:
        """Parse terms joined by ``or`` up to a closing bracket or the end."""
        tests = [self._conjunction(depth)]
        while self._kind() == "or":
            self._next()
            tests.append(self._conjunction(depth))
        terms = [test for test in tests if test is not None]
        if len(tests) > 1 and len(terms) < len(tests) and not self.problems:
            self.problems.append("'or' needs a term on both sides")
        return _any_of(terms) if terms else None

    def _conjunction(self, depth: int) -> Test | None:
        """Parse terms joined by ``and`` or by nothing."""
        tests = []
        while self._kind() not in ("", "or", "close"):
            if self._kind() == "and":
                self._next()
            else:
                tests.append(self._factor(depth))
        terms = [test for test in tests if test is not None]
        return _all_of(terms) if terms else None

    def _factor(self, depth: int) -> Test | None:
        """Parse one term or bracket with its negations."""
        negated, sign = False, ""
        while self._kind() == "not":
            negated, sign = not negated, self._next()[0]
        kind = self._kind()
        if kind in ("", "or", "close", "and"):
            self.problems.append(f"{sign!r} needs a term after it")
            return None
        test = self._bracket(depth) if kind == "open" else self._term(kind)
        return _negated(test) if negated and test is not None else test

    def _bracket(self, depth: int) -> Test | None:
        self._next()
        if depth >= MAX_DEPTH:
            self.problems.append(f"brackets are nested deeper than {MAX_DEPTH}")
            return None
        before = len(self.problems)
        test = self._alternatives(depth + 1)
        if self._kind() == "close":
            self._next()
            if test is None and len(self.problems) == before:
                self.problems.append("empty brackets")
        else:
            self.problems.append("a bracket is not closed")
        return test

    def _term(self, kind: str) -> Test | None:
        token = self._next()
        if kind == "field":
            return self._field(token["name"], token["sign"], token["value"] or "", token[0])
        if kind == "quote":
            text = self._unquoted(token[0])
            return _contains(text) if text else None
        if kind == "stray":
            self.problems.append(f"{token[0]!r} has no field before it; try eval>50%")
            return None
        return self._word(token)

    def _word(self, token: re.Match[str]) -> Test | None:
        """Parse a word; the last one may be the start of a field name or of an operator."""
        word = token[0].lower()
        named = next((name for name in (*FIELDS, *OPERATORS) if name.startswith(word)), "")
        if named and token.end() == len(self.source):
            usage = f"; try {FIELDS[named].example}" if named in FIELDS else ""
            self.hints.append(f"no run contains {word!r}{usage}")
            return _contains(word) if self.keep_ambiguous else None
        return _contains(word)

    def _unquoted(self, text: str) -> str:
        """Return text without the quotes around it."""
        mark = text[0]
        if len(text) < 2 or text[-1] != mark:
            self.problems.append("a quote is not closed")
        elif len(text) == 2:
            self.problems.append("empty quotes")
        return text.strip(mark)

    def _field(self, name: str, sign: str, value: str, whole: str) -> Test | None:
        """Parse a comparison: field, sign and value."""
        queried = FIELDS.get(FIELD_ALIASES.get(name.lower(), name.lower())) or config_field(name, sign, value)
        if queried is None:
            return self._unknown(name, sign, whole)
        if value[:1] in ("'", '"'):
            value = self._unquoted(value)
        if isinstance(queried, TextField):
            if sign in (":", "=", "==", "!=") and value:
                return _text_test(queried, sign, value)
            expected = "text" if sign in (":", "=", "==", "!=") else ": or ="
            self.problems.append(f"{name} expects {expected}; try {queried.example}")
            return None
        number = queried.read(value)
        if number is None or sign == ":":
            expected = ">, >=, <, <= or =" if sign == ":" else queried.expected
            self.problems.append(f"{name} expects {expected}; try {queried.example}")
            return None
        return _number_test(queried, sign, number)

    def _unknown(self, name: str, sign: str, whole: str) -> Test | None:
        """Report an unknown field; ``name:text`` is searched as text."""
        from echelon.jobs.config_layers import default_values, did_you_mean

        near = did_you_mean(name, (*FIELDS, *default_values()))
        expected = near or f", expected one of {', '.join(FIELDS)}"
        self.problems.append(f"unknown field {name!r}{expected}; quote it to search as text")
        if sign not in (":", "="):
            return None
        self.hints.append("")
        return _contains(whole) if self.keep_ambiguous else None


def config_field(name: str, sign: str, value: str) -> TextField | NumberField | None:
    """Return the field of a configuration key such as ``ppo.lr``: a number where the comparison asks for one."""
    from echelon.jobs.config_layers import default_values

    if name not in default_values():
        return None
    is_number = sign in (">", ">=", "<", "<=") or (sign != ":" and read_count(value) is not None)
    if is_number:
        return NumberField(
            value=lambda row, now: _number(config_of(row.root).get(name)),
            read=read_count,
            expected="a number",
            example=f"{name}>1e-4",
        )
    return TextField(text=lambda row: str(config_of(row.root).get(name, "")), example=f"{name}:text")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def config_of(root: Path) -> Mapping[str, Any]:
    """Return the flat configuration of a run; empty where it cannot be read. It is read again when it changed."""
    paths = RunPaths(root)
    stamps = [_stamp(path) for path in (paths.spec, paths.extension)]
    return _config(root, tuple(stamps))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        state = os.stat(path)
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size


@lru_cache(maxsize=4096)
def _config(root: Path, stamps: tuple[tuple[int, int], ...]) -> Mapping[str, Any]:
    from echelon.jobs.config_layers import flatten
    from echelon.jobs.spec import read_spec

    try:
        return flatten(read_spec(RunPaths(root)).config)
    except (ValueError, OSError):
        return {}


def _text_test(queried: TextField, sign: str, value: str) -> Test:
    needle = value.lower()
    if sign == ":":
        return lambda row, now: needle in queried.text(row).lower()
    equal = sign != "!="
    return lambda row, now: (queried.text(row).lower() == needle) is equal


def _number_test(queried: NumberField, sign: str, reference: float) -> Test:
    compare = COMPARISONS[sign]
    return lambda row, now: compare(queried.value(row, now), reference)
