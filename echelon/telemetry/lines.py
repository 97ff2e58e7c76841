"""Conversion of records to lines of strict JSON and back."""

import json
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

from echelon.state_files import parse_json
from echelon.telemetry.events import EVENTS, Event

MAX_RECORD_BYTES = 1 << 20
"""Length above which a line is no record; the longest ones, of a league with a thousand entries, have some 50 KiB."""

MAX_NUMBER = 2.0**63
"""Whole numbers of this size and above are no count; arithmetic with them overflows."""


SHOWN_CHARS = 60


def to_json(event: Event) -> str:
    """Return the record as one line of strict JSON without the newline; non-finite floats become null."""
    row = {"kind": event.kind, **{f.name: strict(getattr(event, f.name)) for f in fields(event)}}
    return json.dumps(row, separators=(",", ":"), allow_nan=False)


def from_json(line: str | bytes) -> Event:
    """Return the record of one line; ``ValueError`` names the invalid part.

    Unknown fields are dropped, so that files of newer versions stay readable.
    """
    if len(line) > MAX_RECORD_BYTES:
        raise ValueError(f"record has {len(line)} bytes, expected at most {MAX_RECORD_BYTES}")
    row = parse_json(line)
    kind = row.get("kind") if isinstance(row, dict) else None
    if not isinstance(kind, str) or kind not in EVENTS:
        raise ValueError(f"record {str(line[:SHOWN_CHARS])!r} has an unknown kind (have: {', '.join(EVENTS)})")
    values = {}
    for name, convert in _FIELDS[kind]:
        if name in row:
            try:
                values[name] = convert(row[name])
            except _MismatchError as error:
                raise ValueError(f"{kind}.{'.'.join((name, *error.keys))} is {error}") from None
    try:
        return EVENTS[kind](**values)
    except TypeError as error:
        raise ValueError(f"record of kind {kind!r} is incomplete: {error}") from None


def strict(value: Any) -> Any:
    """Return a value with text as keys and None for floats that are not finite, as strict JSON needs."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    return value


class _MismatchError(ValueError):
    """A JSON value does not fit its field; ``keys`` lead to it within the field, outermost first."""

    def __init__(self, value: Any, expected: str) -> None:
        super().__init__(f"{repr(value)[:SHOWN_CHARS]}, expected {expected}")
        self.keys: list[str] = []


Converter = Callable[[Any], Any]
"""Returns a JSON value as its field's type, or raises ``_MismatchError``."""


def _float(value: Any) -> float:
    """Return a number as a float; null and floats that are not finite are NaN."""
    if type(value) is float or value is None:
        return value if value is not None and math.isfinite(value) else math.nan
    if type(value) is int and abs(value) < MAX_NUMBER:
        return float(value)
    raise _MismatchError(value, "float")


def _int(value: Any) -> int:
    if type(value) is int and abs(value) < MAX_NUMBER:
        return value
    raise _MismatchError(value, "int")


def _exactly(cls: type) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is cls:
            return value
        raise _MismatchError(value, cls.__name__)

    return convert


def _list_of(item: Converter) -> Converter:
    def convert(value: Any) -> list[Any]:
        if type(value) is list:
            return [item(part) for part in value]
        raise _MismatchError(value, "list")

    return convert


def _dict_of(item: Converter) -> Converter:
    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _MismatchError(value, "dict")
        converted = {}
        for key, part in value.items():
            try:
                converted[key] = item(part)
            except _MismatchError as error:
                error.keys.insert(0, key[:SHOWN_CHARS])
                raise
        return converted

    return convert


def _converter(hint: Any) -> Converter:
    cls = get_origin(hint) or hint
    if cls in (list, dict) and (inner := get_args(hint)[-1]) is not Any:
        return (_list_of if cls is list else _dict_of)(_converter(inner))
    return {float: _float, int: _int}.get(cls) or _exactly(cls)


_FIELDS: dict[str, tuple[tuple[str, Converter], ...]] = {
    kind: tuple((name, _converter(hint)) for name, hint in get_type_hints(cls).items() if name != "kind")
    for kind, cls in EVENTS.items()
}
