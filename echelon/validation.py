"""Validation of stored values and messages: one validator per class and process, errors in one line.

Building a validator parses the source of the class, which CPython 3.11 cannot do in two threads at once, so it is built
under a lock. pydantic is imported with the first validator, so that commands which need none start quickly.
"""

import reprlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_BUILDING = threading.Lock()
SHOWN_CHARS = 60
"""Most characters of a value in a message."""
OWN_MESSAGE = ("value_error", "assertion_error")
"""Pydantic's types of errors whose message is that of a check of ours, behind a prefix."""
UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
"""Its types for fields that a class does not have."""
MISSING = ("missing", "missing_argument", "missing_keyword_only_argument")


def validator(kind: type[T]) -> "TypeAdapter[T]":
    with _BUILDING:
        return _build(kind)


def validated(kind: type[T], values: Any, prefix: str = "", raising: type[ValueError] = ValueError) -> T:
    """Return ``values`` as an instance of ``kind``.

    The error for values that do not fit is ``raising`` in one line: ``prefix``, which says what they are, and the first
    that does not.
    """
    from pydantic import ValidationError

    try:
        return validator(kind).validate_python(values)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)[0]
        raise raising(prefix + fault(details, values)) from None


def fault(details: Mapping[str, Any], values: Any) -> str:
    """Return one of pydantic's errors about ``values`` as ``place is value, expected ...``."""
    place = place_in(values, details["loc"])
    if details["type"] in OWN_MESSAGE:
        return f"{place}: " * bool(place) + expectation(details["msg"])
    if details["type"] in UNKNOWN:
        return f"{place} does not exist in this version"
    if details["type"] in MISSING:
        return f"{'.'.join(filter(None, (place, str(details['loc'][-1]))))} is missing"
    shown = reprlib.repr(details["input"])[:SHOWN_CHARS]
    return f"{place or 'it'} is {shown}, expected {expectation(details['msg'])}"


def place_in(values: Any, parts: Iterable[str | int]) -> str:
    """Return the dotted path of an error; pydantic adds the names of types that it tried, which ``values`` lack."""
    found = []
    for part in parts:
        if isinstance(values, Mapping) and part in values:
            values = values[part]
        elif isinstance(values, Sequence) and not isinstance(values, str) and part in range(len(values)):
            values = values[int(part)]
        else:
            continue
        found.append(str(part)[:SHOWN_CHARS])
    return ".".join(found)


def expectation(message: str) -> str:
    """Return the expected value from a message of pydantic; a message of a check of ours is returned unchanged."""
    for prefix in ("Value error, ", "Assertion failed, ", "Input should be "):
        message = message.removeprefix(prefix)
    for theirs, ours in (("greater than or equal to ", "at least "), ("less than or equal to ", "at most ")):
        if message.startswith(theirs):
            return ours + message.removeprefix(theirs)
    return message


@cache
def _build(kind: type[Any]) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
