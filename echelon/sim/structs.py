"""Structs of arrays: how kernels receive the arrays of a batch.

A struct is declared once, as a class whose attributes are ``Field`` rows. The same declaration allocates the arrays and
is a Warp struct, so a kernel takes a whole group of arrays as one parameter::

    @array_struct
    class Track:
        \"\"\"Where each mech was last seen.\"\"\"

        track_pos = Field(wp.vec3, "EM", "last known position [vox]")
        track_age = Field(wp.int32, "EM", "decisions since then")

    @wp.kernel
    def age_tracks(mechs: Mechs, track_out: Track):
        e, m = wp.tid()
        track_out.track_age[e, m] = (track_out.track_age[e, m] + 1) * mechs.alive[e, m]

    batch.add_fields(fields_of(Track))
    program = [Launch(age_tracks, "EM")]

- A field's name is the name of its array in the batch. Names are unique over all structs: adding or binding an array
  that two structs declare raises ``ValueError``. A field that several structs share is declared in one and repeated by
  reference (``tick = Episode.fields["tick"]``).
- The backend fills a struct parameter with the arrays of its fields, whatever the parameter is called. A missing array
  raises ``KeyError`` when the program is captured.
- A parameter that is written carries the suffix ``_out``; everything else is only read. A kernel that reads some fields
  of a struct and writes others takes it twice (``mechs``, ``mechs_out``): both share one memory. Fields that it writes
  it also reads through ``_out``, so that the compiler keeps one pointer for them.
- Every launch copies its structs, whole (56 bytes an array): keep structs that many kernels take small, and pass a
  kernel that needs one array of a large struct that array alone.
- A single array is a parameter named like the array, again with ``_out`` if it is written: ``fresh``, ``noise_out``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from inspect import get_annotations
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_type_hints

import numpy as np
import warp as wp

OUT = "_out"
"""Suffix of the kernel parameters that are written."""


@dataclass(frozen=True)
class Field:
    """One array: element type, shape in letters (see ``echelon.sim.state``), unit and meaning."""

    dtype: Any
    shape: str
    doc: str
    struct: str = field(default="", init=False, compare=False)
    """Name of the struct that declares it, empty outside a struct."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember the declaring struct; one that repeats the field by reference is not its declarer."""
        if not self.struct:
            object.__setattr__(self, "struct", owner.__name__)


T = TypeVar("T")

STRUCTS: list[Any] = []
"""Every struct made by ``array_struct`` in this process."""


def array_struct(cls: type[T]) -> type[T]:
    """Return the Warp struct of a class of ``Field`` rows; its attribute ``fields`` maps names to rows."""
    fields = {name: row for name, row in vars(cls).items() if isinstance(row, Field)}
    columns = type(cls.__name__, (), {"__module__": cls.__module__, "__doc__": cls.__doc__})
    columns.__annotations__ = {name: wp.array(dtype=row.dtype, ndim=len(row.shape)) for name, row in fields.items()}
    struct = wp.struct(columns)
    struct.fields = fields  # type: ignore[attr-defined]
    STRUCTS.append(struct)
    return cast(type[T], struct)


def fields_of(struct: Any) -> Mapping[str, Field]:
    return MappingProxyType(struct.fields)


def record_of(spec: type, without: Collection[str] = ()) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a Warp struct of the numeric fields of dataclass ``spec`` and the class's members.

    Flags and enums become integers. Fields ``without`` are left out.
    """
    kinds = {name: kind for name, kind in get_type_hints(spec).items() if name not in without}
    columns = {name: wp.float32 for name, kind in kinds.items() if kind is float}
    columns |= {name: wp.int32 for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, int)}

    def declare(cls: type[T]) -> type[T]:
        record = type(cls.__name__, (), {"__module__": cls.__module__, "__doc__": cls.__doc__})
        record.__annotations__ = columns | get_annotations(cls, eval_str=True)
        return cast(type[T], wp.struct(record))

    return declare


def record(struct: Any, spec: Any, **members: Any) -> Any:
    """Return a ``struct`` made by ``record_of``: the values of ``spec`` and ``members``, which take precedence."""
    row = struct()
    for name in struct.vars:
        setattr(row, name, members[name] if name in members else getattr(spec, name))
    return row


def declaration_conflict(name: str, *declarations: Field | None) -> ValueError:
    """Return the error of an array ``name`` with several declarations; None stands for an array added without one."""
    owners = {row.struct or "a field outside structs" for row in declarations if row}
    if None in declarations:
        owners |= {row.struct for row in declarations_of(name)} - owners or {"an array without a field"}
    return ValueError(
        f"array {name!r} is declared by {' and '.join(sorted(owners))}; rename one of them, "
        f'or repeat the field by reference to share it ({name} = Owner.fields["{name}"])'
    )


def declarations_of(name: str) -> list[Field]:
    """Return the declarations of array ``name`` in structs; one that is repeated by reference counts once."""
    found = {id(struct.fields[name]): struct.fields[name] for struct in STRUCTS if name in struct.fields}
    return list(found.values())


def is_array_struct(kind: Any) -> bool:
    """Whether a kernel parameter's type was made by ``array_struct``."""
    return hasattr(kind, "fields") and hasattr(kind, "instance_type")


def allocate(fields: Mapping[str, Field], length: Mapping[str, int], device: str) -> dict[str, wp.array]:
    """Allocate zeroed arrays for ``fields`` on ``device``; ``length`` is that of each shape letter."""
    return {
        name: wp.zeros(tuple(length[letter] for letter in field.shape), dtype=field.dtype, device=device)
        for name, field in fields.items()
    }


def numpy_layout(array: wp.array) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and element type of an array in numpy, where the components of vectors are a last axis."""
    scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
    return (*array.shape, *getattr(array.dtype, "_shape_", ())), np.dtype(wp.dtype_to_numpy(scalar))
