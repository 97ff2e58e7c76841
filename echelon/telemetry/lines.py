"""Conversion of records to lines of strict JSON and back."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

from echelon.telemetry.events import EVENTS, Event

_TYPES: dict[str, dict[str, Any]] = {
    kind: {name: hint for name, hint in get_type_hints(cls).items() if name != "kind"} for kind, cls in EVENTS.items()
}
"""Type of each field by kind."""


def to_json(event: Event) -> str:
    """Return the record as one line of strict JSON without the newline; non-finite floats become null."""
    row = {"kind": event.kind, **{f.name: _strict(getattr(event, f.name)) for f in fields(event)}}
    return json.dumps(row, separators=(",", ":"), allow_nan=False)


def from_json(line: str | bytes) -> Event:
    """Return the record of one line; ``ValueError`` names the invalid part.

    Unknown fields are dropped, so that files of newer versions stay readable.
    """
    row = json.loads(line)
    if not isinstance(row, dict) or row.get("kind") not in EVENTS:
        raise ValueError(f"record {str(line)[:60]!r} has an unknown kind (have: {', '.join(EVENTS)})")
    cls, types = EVENTS[row["kind"]], _TYPES[row["kind"]]
    values = {
        name: row[name] if type(row[name]) is expected else _convert(f"{cls.kind}.{name}", expected, row[name])
        for name, expected in types.items()
        if name in row
    }
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"record of kind {cls.kind!r} is incomplete: {error}") from None


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value


def _convert(name: str, expected: Any, value: Any) -> Any:
    """Return a JSON value converted to the type of its field, recursively: null to NaN, 1 to 1.0."""
    if type(value) is expected or expected is Any:
        return value
    cls = get_origin(expected) or expected
    if cls is float:
        if value is None:
            return math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):
                return float(value)
    elif isinstance(value, cls) and (cls is bool or not isinstance(value, bool)):
        inner = get_args(expected)[-1] if cls in (dict, list) else Any
        if inner is Any:
            return value
        if cls is dict:
            return {key: _convert(f"{name}.{key}", inner, item) for key, item in value.items()}
        return [_convert(name, inner, item) for item in value]
    raise ValueError(f"{name} is {value!r}, expected {cls.__name__}")
