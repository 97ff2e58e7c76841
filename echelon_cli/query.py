"""The query language of ``/`` in the list of runs and of ``--filter``: words, fields and comparisons over rows of runs.

Words are joined by and unless ``or`` or ``|`` stands between them; ``not``, ``-`` or ``!`` before something turns it
round, brackets group, quotes keep text together. Reading never fails, so that it can follow every key: what is not
understood is left out and told in one line. ``read_query`` refuses it instead. Nothing here knows a terminal.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from echelon_cli.listing import RunRow

Test = Callable[[RunRow, float], bool]
"""Whether a row matches at a moment [s since the epoch]."""

DEEPEST = 32
"""Brackets within each other."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": lambda a, b: math.isclose(a, b, abs_tol=1e-9),
    "==": lambda a, b: math.isclose(a, b, abs_tol=1e-9),
    "!=": lambda a, b: math.isfinite(a) and not math.isclose(a, b, abs_tol=1e-9),
}
"""A figure that is not known matches none of them."""

COUNT_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
TIME_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
COUNT = re.compile(rf"({NUMBER})([kmg]?)")
SHARE = re.compile(rf"({NUMBER})(%?)")
SPAN = re.compile(r"(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)[smhd])+")
SPAN_PART = re.compile(r"([0-9.]+)([smhd])")


class QueryError(ValueError):
    """A query that cannot be understood."""


def read_count(text: str) -> float | None:
    """Return a number with or without a unit, such as 1.5M; None where it is none."""
    found = COUNT.fullmatch(text.lower())
    return float(found[1]) * COUNT_UNITS[found[2]] if found else None


def read_share(text: str) -> float | None:
    """Return a share, written 50%, 50 or 0.5; None where it is none."""
    found = SHARE.fullmatch(text.lower())
    if not found:
        return None
    value = float(found[1])
    return value / 100 if found[2] or abs(value) > 1 else value


def read_span(text: str) -> float | None:
    """Return a time in seconds, written 90s, 2h or 1h30m; None where it is none."""
    if not SPAN.fullmatch(text.lower()):
        return None
    return sum(float(number) * TIME_UNITS_S[unit] for number, unit in SPAN_PART.findall(text.lower()))


@dataclass(frozen=True, kw_only=True)
class Words:
    """A field of text."""

    text: Callable[[RunRow], str]
    example: str


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A field that is compared; unknown values are not numbers."""

    value: Callable[[RunRow, float], float]
    read: Callable[[str], float | None]
    wanted: str
    example: str


FIELDS: dict[str, Words | Figure] = {
    "run": Words(text=lambda row: row.id, example="run:heron"),
    "state": Words(text=lambda row: row.state, example="state:running"),
    "preset": Words(text=lambda row: row.preset, example="preset:quick"),
    "device": Words(text=lambda row: row.device, example="device:cuda"),
    "opponent": Words(text=lambda row: row.opponent, example="opponent:medium"),
    "note": Words(text=lambda row: row.reason or row.alert, example="note:disk"),
    "wins": Figure(value=lambda row, now: row.win_rate, read=read_share, wanted="a share", example="wins>50%"),
    "eval": Figure(value=lambda row, now: row.eval_rate, read=read_share, wanted="a share", example="eval>=60%"),
    "progress": Figure(value=lambda row, now: row.progress, read=read_share, wanted="a share", example="progress<90%"),
    "steps": Figure(value=lambda row, now: row.steps, read=read_count, wanted="a number", example="steps>=1.5M"),
    "update": Figure(value=lambda row, now: row.update, read=read_count, wanted="a number", example="update>100"),
    "speed": Figure(value=lambda row, now: row.steps_per_s, read=read_count, wanted="a number", example="speed<10k"),
    "return": Figure(value=lambda row, now: row.avg_return, read=read_count, wanted="a number", example="return>-2"),
    "rating": Figure(value=lambda row, now: row.rating, read=read_count, wanted="a number", example="rating>200"),
    "age": Figure(
        value=lambda row, now: now - row.created if row.created > 0 else math.nan,
        read=read_span,
        wanted="a time with s, m, h or d",
        example="age<2h",
    ),
}
"""What rows can be asked for by name."""

OTHER_NAMES = {"name": "run", "id": "run", "steps/s": "speed", "elo": "rating"}

JOINTS = ("and", "or", "not")

VALUE = r"""\"[^"]*\"?|'[^']*'?|(?!(?:and|or|not)(?:[\s()|&]|$))[^\s()|&]+"""
TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<open>\()|(?P<close>\))|(?P<or>\|+)|(?P<and>&+)|(?P<not>[!-])|"""
    r"""(?P<quote>"[^"]*"?|'[^']*'?)|"""
    rf"""(?P<name>[a-z][\w/]*)\s*(?P<sign>>=|<=|!=|==|=|>|<|:)\s*(?P<value>{VALUE})?|"""
    r"""(?P<word>[^\s()|&<>="]+)|(?P<stray>.)""",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Query:
    """A query that was read; ``problem`` says in one line what was not understood, empty where all was."""

    text: str
    matches: Test
    problem: str = ""
    without: Test | None = None
    """The same without what may not be meant as text: a name that is still typed, or a field that does not exist."""
    hint: str = ""
    """What is said where only ``without`` finds something."""

    def chosen(self, rows: Sequence[RunRow], now: float) -> tuple[list[RunRow], str]:
        """Return the rows to show while a query is typed, and in one line what is not understood of it."""
        found = [row for row in rows if self.matches(row, now)]
        if not found and self.without is not None:
            found = [row for row in rows if self.without(row, now)]
            return found, self.problem or (self.hint if found else "")
        return found, self.problem


def parse(text: str) -> Query:
    """Return what can be understood of a query."""
    reader = _Reader(text)
    test = _all_of(reader.tests())
    doubted = _all_of(_Reader(text, doubtful=False).tests()) if reader.doubts else None
    return Query(text, test, next(iter(reader.problems), ""), doubted, next(iter(reader.doubts), ""))


def read_query(text: str) -> Query:
    """Return a query that is understood whole; raise ``QueryError``, naming what was wanted, where it is not."""
    query = parse(text)
    if query.problem:
        raise QueryError(f"query {' '.join(text.split())!r}: {query.problem}")
    return query


def _all_of(tests: Iterable[Test]) -> Test:
    kept = tuple(tests)
    return lambda row, now: all(test(row, now) for test in kept)


def _any_of(tests: Iterable[Test]) -> Test:
    kept = tuple(tests)
    return lambda row, now: any(test(row, now) for test in kept)


def _opposite(test: Test) -> Test:
    return lambda row, now: not test(row, now)


def _contains(text: str) -> Test:
    """Return the test for text anywhere in what a run is called by."""
    wanted = text.lower()
    return lambda row, now: wanted in f"{row.id} {row.state} {row.preset} {row.device} {row.opponent}".lower()


@dataclass
class _Reader:
    """One pass over the tokens of a query; with ``doubtful`` off, what may not be meant as text is left out."""

    source: str
    doubtful: bool = True
    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    _tokens: list[re.Match[str]] = field(default_factory=list)
    _at: int = 0

    def tests(self) -> list[Test]:
        """Return tests that must all hold."""
        self._tokens = [token for token in TOKEN.finditer(self.source) if token.lastgroup != "space"]
        found = []
        while self._at < len(self._tokens):
            found.append(self._either(0))
            if self._kind() == "close":
                self._next("')' closes no bracket")
        return [test for test in found if test is not None]

    def _kind(self) -> str:
        """Return what comes next, empty at the end."""
        if self._at >= len(self._tokens):
            return ""
        token = self._tokens[self._at]
        if token["name"]:
            return "field"
        word = (token["word"] or "").lower()
        return word if word in JOINTS else token.lastgroup or ""

    def _next(self, problem: str = "") -> re.Match[str]:
        self._at += 1
        if problem:
            self.problems.append(problem)
        return self._tokens[self._at - 1]

    def _either(self, depth: int) -> Test | None:
        """Read alternatives up to a closing bracket or the end."""
        tests = [self._both(depth)]
        while self._kind() == "or":
            self._next()
            tests.append(self._both(depth))
        kept = [test for test in tests if test is not None]
        if len(tests) > 1 and len(kept) < len(tests) and not self.problems:
            self.problems.append("'or' wants something on both sides")
        return _any_of(kept) if kept else None

    def _both(self, depth: int) -> Test | None:
        """Read what must hold together."""
        tests = []
        while self._kind() not in ("", "or", "close"):
            if self._kind() == "and":
                self._next()
            else:
                tests.append(self._one(depth))
        kept = [test for test in tests if test is not None]
        return _all_of(kept) if kept else None

    def _one(self, depth: int) -> Test | None:
        """Read one thing, turned round as often as it says."""
        turned, sign = False, ""
        while self._kind() == "not":
            turned, sign = not turned, self._next()[0]
        kind = self._kind()
        if kind in ("", "or", "close", "and"):
            self.problems.append(f"{sign!r} wants something after it")
            return None
        test = self._bracket(depth) if kind == "open" else self._term(kind)
        return _opposite(test) if turned and test is not None else test

    def _bracket(self, depth: int) -> Test | None:
        self._next()
        if depth >= DEEPEST:
            self.problems.append(f"more than {DEEPEST} brackets within each other")
            return None
        before = len(self.problems)
        test = self._either(depth + 1)
        if self._kind() == "close":
            self._next()
            if test is None and len(self.problems) == before:
                self.problems.append("brackets with nothing in them")
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
            self.problems.append(f"{token[0]!r} compares nothing, wanted such as wins>50%")
            return None
        return self._word(token)

    def _word(self, token: re.Match[str]) -> Test | None:
        """Read text; the last word may be the beginning of a field's name or of a joint."""
        word = token[0].lower()
        named = next((name for name in (*FIELDS, *JOINTS) if name.startswith(word)), "")
        if named and token.end() == len(self.source):
            usage = f", wanted such as {FIELDS[named].example}" if named in FIELDS else ""
            self.doubts.append(f"no run has {word!r}{usage}")
            return _contains(word) if self.doubtful else None
        return _contains(word)

    def _unquoted(self, text: str) -> str:
        """Return text without the quotes around it."""
        mark = text[0]
        if len(text) < 2 or text[-1] != mark:
            self.problems.append("a quote is not closed")
        elif len(text) == 2:
            self.problems.append("quotes with nothing in them")
        return text.strip(mark)

    def _field(self, name: str, sign: str, value: str, whole: str) -> Test | None:
        """Read a field, what it is compared by, and the value."""
        asked = FIELDS.get(OTHER_NAMES.get(name.lower(), name.lower()))
        if asked is None:
            return self._unknown(name, sign, whole)
        if value[:1] in ("'", '"'):
            value = self._unquoted(value)
        if isinstance(asked, Words):
            if sign in (":", "=", "==", "!=") and value:
                return _text_test(asked, sign, value)
            wanted = "text" if sign in (":", "=", "==", "!=") else ": or ="
            self.problems.append(f"{name} wants {wanted}, such as {asked.example}")
            return None
        number = asked.read(value)
        if number is None or sign == ":":
            wanted = ">, >=, <, <= or =" if sign == ":" else asked.wanted
            self.problems.append(f"{name} wants {wanted}, such as {asked.example}")
            return None
        return _figure_test(asked, sign, number)

    def _unknown(self, name: str, sign: str, whole: str) -> Test | None:
        """Say which fields there are; what is no comparison is looked for as it is written."""
        self.problems.append(f"{name!r} is no field, wanted {', '.join(FIELDS)}; as text in quotes")
        if sign not in (":", "="):
            return None
        self.doubts.append("")
        return _contains(whole) if self.doubtful else None


def _text_test(asked: Words, sign: str, value: str) -> Test:
    wanted = value.lower()
    if sign == ":":
        return lambda row, now: wanted in asked.text(row).lower()
    equal = sign != "!="
    return lambda row, now: (asked.text(row).lower() == wanted) is equal


def _figure_test(asked: Figure, sign: str, wanted: float) -> Test:
    compare = COMPARISONS[sign]
    return lambda row, now: compare(asked.value(row, now), wanted)
