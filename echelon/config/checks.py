"""Checks of configuration values. Type and range of a field are declared by its annotation.

A range excludes values that have no meaning (a fraction above 1, a negative time) or break the arithmetic. A
configuration calls ``require_fields`` when it is constructed; pydantic reads the same annotations at the edges.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Interval

STRICT: dict[str, Any] = {"extra": "forbid", "use_attribute_docstrings": True}
"""Pydantic settings of all configuration classes: unknown keys are errors, field docstrings become descriptions."""

SHOWN_CHARS = 80
"""Characters of an invalid value in a message."""
TINY, LARGE, HOUR_S = 1e-6, 1e6, 3600.0
BILLION = 10**9

Fraction = Annotated[float, Interval(ge=0.0, le=1.0)]
NonNegative = Annotated[float, Interval(ge=0.0, le=LARGE)]
Positive = Annotated[float, Interval(ge=TINY, le=LARGE)]
Finite = Annotated[float, Interval(ge=-LARGE, le=LARGE)]
Angle = Annotated[float, Interval(ge=0.0, le=3.1416)]
Seconds = Annotated[float, Interval(ge=0.0, le=HOUR_S)]
Count = Annotated[int, Interval(ge=0, le=10**6)]
Natural = Annotated[int, Interval(ge=1, le=BILLION)]
Limit = Annotated[int, Interval(ge=0, le=BILLION)]


def require(ok: bool, name: str, value: object, expected: str) -> None:
    """Raise ``ValueError`` with field name, value and expected values in one line, unless ``ok``."""
    if not ok:
        shown = shorten(" ".join(repr(value).split()))
        raise ValueError(f"{name} is {shown}, expected {expected}")


def shorten(text: str) -> str:
    """Return a text with its middle left out where it has more than ``SHOWN_CHARS`` characters."""
    half = SHOWN_CHARS // 2
    return text if len(text) <= SHOWN_CHARS else f"{text[: half - 1]}...{text[2 - half :]}"


TypeCheck = Callable[[object], bool]
"""Whether a value has a type."""
TYPE_CHECKS: Mapping[type, tuple[TypeCheck, str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), "an integer"),
    float: (lambda value: isinstance(value, (int, float)) and not isinstance(value, bool), "a number"),
    str: (lambda value: isinstance(value, str), "a string"),
}
"""Check and description of each field type; a bool is not accepted as a number, although Python's bool is an int."""


def type_check(hint: Any) -> tuple[TypeCheck, str]:
    """Return the check and the description of a type annotation; tuples are checked by ``require_span``."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return type_check(args[0])
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in args, f"one of: {', '.join(map(str, args))}"
    if origin in (Union, UnionType):
        checks = [type_check(arm) for arm in args if arm is not NoneType]
        optional = NoneType in args
        description = ", or ".join([text for _, text in checks] + ["none"] * optional)
        return lambda value: (optional and value is None) or any(check(value) for check, _ in checks), description
    if hint in TYPE_CHECKS:
        return TYPE_CHECKS[hint]
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: isinstance(value, hint), f"a {hint.__name__}"
    return lambda value: True, "two integers, minimum and maximum"


@cache
def _type_checks(kind: type) -> tuple[tuple[str, TypeCheck, str], ...]:
    """Return name, type check and type description of every field; cached because reading annotations is slow."""
    return tuple((name, *type_check(hint)) for name, hint in get_type_hints(kind, include_extras=True).items())


@cache
def ranges_of(kind: type) -> Mapping[str, tuple[float, float]]:
    """Return minimum and maximum, ends included, of every field of a class that is annotated with a range."""
    hints = get_type_hints(kind, include_extras=True)
    ranges = {name: next((a for a in get_args(hint) if isinstance(a, Interval)), None) for name, hint in hints.items()}
    return {name: (found.ge, found.le) for name, found in ranges.items() if found is not None}  # pyright: ignore


def require_fields(config: object, prefix: str) -> None:
    """Raise ``ValueError`` for the first field of a wrong type, then for the first outside its range.

    ``prefix`` is the dotted key of the section, empty for fields of the run itself. NaN is outside every range.
    """
    for name, check, expected in _type_checks(type(config)):
        value = getattr(config, name)
        require(check(value), f"{prefix}.{name}".lstrip("."), value, expected)
    for name, (low, high) in ranges_of(type(config)).items():
        value = getattr(config, name)
        require(low <= value <= high, f"{prefix}.{name}".lstrip("."), value, range_text(low, high))


def range_text(low: float, high: float) -> str:
    """Return a range as text, large ends with all of their digits."""
    return " to ".join(f"{limit:,.0f}" if limit >= LARGE else f"{limit:g}" for limit in (low, high))


def require_span(span: object, name: str, least: int, most: int) -> None:
    """Raise ``ValueError`` unless ``span`` is None or two ascending integers from ``least`` to ``most``."""
    if span is None:
        return
    valid = isinstance(span, (tuple, list)) and len(span) == 2 and all(type(end) is int for end in span)
    require(valid, name, span, "two integers, minimum and maximum")
    low, high = span  # pyright: ignore[reportGeneralTypeIssues]
    require(low <= high, name, span, "the minimum first")
    require(least <= low and high <= most, name, span, f"{least} to {most}, the capacity")
