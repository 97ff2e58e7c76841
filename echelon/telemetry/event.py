"""Base class of the records of jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar, dataclass_transform


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Event:
    """Base of all records. Its methods serve all of them: those that ``dataclass`` compiles for each delay commands."""

    kind: ClassVar[str] = ""
    time: float = field(default_factory=time.time)
    """Time of writing [s since the epoch]."""

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


EventType = TypeVar("EventType", bound=Event)


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,))
def record(cls: type[EventType]) -> type[EventType]:
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
