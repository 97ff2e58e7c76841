"""Validation of stored configurations: one validator per class and process.

Building a validator parses the source of the class, which CPython 3.11 cannot do in two threads at once, so it is built
under a lock. pydantic is imported with the first validator, so that commands which need none start quickly.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_BUILDING = threading.Lock()


def validator(kind: type[T]) -> TypeAdapter[T]:
    """Return the validator of configuration class ``kind``."""
    with _BUILDING:
        return _build(kind)


def validated(kind: type[T], values: Any) -> T:
    """Return stored ``values`` as an instance of configuration class ``kind``; pydantic's error if they do not fit."""
    return validator(kind).validate_python(values)


@cache
def _build(kind: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
