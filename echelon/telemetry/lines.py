"""Records as lines of strict JSON and back, through the table ``EVENTS``."""

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
"""Type of each field of each kind."""


def to_json(event: Event) -> str:
    """Return the record as one line of strict JSON, without the newline; floats that are not finite become null."""
    row = {"kind": event.kind, **{f.name: _strict(getattr(event, f.name)) for f in fields(event)}}
    return json.dumps(row, separators=(",", ":"), allow_nan=False)


def from_json(line: str | bytes) -> Event:
    """Return the record written on one line; ``ValueError`` names what is wrong with it.

    Fields that this version does not know are dropped, so that newer files stay readable.
    """
    row = json.loads(line)
    if not isinstance(row, dict) or row.get("kind") not in EVENTS:
        raise ValueError(f"record {str(line)[:60]!r} has no known kind (have: {', '.join(EVENTS)})")
    cls, types = EVENTS[row["kind"]], _TYPES[row["kind"]]
    values = {
        name: row[name] if type(row[name]) is wanted else _plain(f"{cls.kind}.{name}", wanted, row[name])
        for name, wanted in types.items()
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


def _plain(what: str, wanted: Any, value: Any) -> Any:
    """Return a value as its field has it, whatever it holds: null as a float that is not finite, 1 as 1.0."""
    if type(value) is wanted or wanted is Any:
        return value
    cls = get_origin(wanted) or wanted
    if cls is float:
        if value is None:
            return math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):
                return float(value)
    elif isinstance(value, cls) and (cls is bool or not isinstance(value, bool)):
        inner = get_args(wanted)[-1] if cls in (dict, list) else Any
        if inner is Any:
            return value
        if cls is dict:
            return {key: _plain(f"{what}.{key}", inner, item) for key, item in value.items()}
        return [_plain(what, inner, item) for item in value]
    raise ValueError(f"{what} is {value!r}, wanted {cls.__name__}")
