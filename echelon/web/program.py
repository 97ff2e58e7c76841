"""Programs of a backend as C++ that calls Warp's kernels, with every array as a variable.

Pointers have 4 bytes in WebAssembly, so the compiler lays the argument structs out: they are declared member by member
as Warp's own C++ declares them, with ``Array`` for every ``wp::array_t``. All arguments are constants; an array
that is not zero when the code is written begins with its values. Exported are ``run_NAME`` for each program and the
address of each array that the backend knows by name, ``array_NAME``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from warp._src.codegen import Struct, StructInstance, Var
from warp._src.context import ModuleBuilder
from warp._src.types import is_array, type_is_vector

from echelon.sim.backend import CPU_BLOCK, Backend, Program
from echelon.sim.structs import numpy_layout

RUN, ARRAY, CONSTANT = "run_", "array_", "constant_"
DIMS = 4
HEAD = """\
#define WP_TILE_BLOCK_DIM 1
#define WP_NO_CRT
#include "builtin.h"

struct Array { void* data; void* grad; int shape[4]; int strides[4]; unsigned short ndim, flags; };
using Reference = wp::array_t<wp::int32>;
static_assert(sizeof(Array) == sizeof(Reference));
static_assert(__builtin_offsetof(Array, shape) == __builtin_offsetof(Reference, shape));
static_assert(__builtin_offsetof(Array, strides) == __builtin_offsetof(Reference, strides));
static_assert(__builtin_offsetof(Array, ndim) == __builtin_offsetof(Reference, ndim));
template <class T, int N> struct Vector { T component[N]; };
struct Launch { void (*entry)(const void*, const void*); const void* bounds; const void* arguments; };

extern "C" int _wp_isfinite(double x) { return __builtin_isfinite(x); }
extern "C" int _wp_isnan(double x) { return __builtin_isnan(x); }
extern "C" int _wp_isinf(double x) { return __builtin_isinf(x); }
"""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """C++ of programs, and what its arrays are."""

    program: str
    modules: Mapping[str, str]
    """Warp's C++ of each module with kernels of the programs, by name."""
    arrays: Mapping[str, Mapping[str, Any]]
    """Element type ``dtype`` and ``shape`` of each array that the backend knows by name, as numpy has them."""
    exports: tuple[str, ...]


def write_sources(backend: Backend, programs: Mapping[str, Program]) -> Sources:
    """Return the C++ of ``programs``, with the present values of all arrays as initial ones.

    The backend is of one environment on the CPU.
    """
    (shard,) = backend.shards
    bound = {name: [(x.kernel, *backend.bind(x, shard)) for x in program] for name, program in programs.items()}
    bound = {name: [row for row in rows if all(row[1])] for name, rows in bound.items()}
    # first of all, since the symbols of kernels are known once their module is written
    modules = {m.name: _module_source(m) for m in dict.fromkeys(k.module for rows in bound.values() for k, *_ in rows)}
    writer = _Writer({array.ptr: name for name, array in reversed(backend.arrays.items()) if is_array(array)})
    for name, rows in bound.items():
        writer.add_program(name, rows)
    exports = (*(f"{RUN}{name}" for name in programs), *(f"{ARRAY}{name}" for name in writer.named))
    return Sources(program=writer.text(), modules=modules, arrays=writer.named, exports=exports)


def _module_source(module: Any) -> str:
    options = module.resolve_options(wp.config) | {"block_dim": CPU_BLOCK, "output_arch": None}
    return ModuleBuilder(module, options, target="cpu").codegen("cpu")


class _Writer:
    """Declarations of C++ in the order in which they depend on each other."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self.named: dict[str, dict[str, Any]] = {}
        self._arrays: dict[int, str] = {}
        self._declared: dict[str, str] = {}
        """Declarations by the name that they declare."""
        self._constants: dict[str, str] = {}
        """Names of constants by type and value."""
        self._launches: list[str] = []
        self._programs: list[str] = []

    def text(self) -> str:
        launches = ("static const Launch launches[] = {", *(f"    {row}," for row in self._launches), "};")
        return "\n".join((HEAD, *self._declared.values(), *launches, *self._programs, ""))

    def add_program(self, name: str, bound: list[tuple[Any, tuple[int, ...], list[Any]]]) -> None:
        order = ", ".join(str(self._launch(*row)) for row in bound)
        self._programs.append(
            f'extern "C" void {RUN}{name}() {{\n    static const short order[] = {{{order}}};\n'
            "    for (int i : order)\n        launches[i].entry(launches[i].bounds, launches[i].arguments);\n}"
        )

    def _launch(self, kernel: Any, dims: tuple[int, ...], values: list[Any]) -> int:
        entry = f"{kernel.get_mangled_name()}_cpu_forward"
        kinds = {argument.label: argument.type for argument in kernel.adj.args}
        members = ", ".join(self._value(value, kind) for value, kind in zip(values, kinds.values(), strict=True))
        if entry not in self._declared:
            self._declared[entry] = f'extern "C" void {entry}(const void*, const void*);'
            self._struct(f"{entry}_arguments", kinds)
        bounds = self._constant(f"wp::launch_bounds_t<{len(dims)}>", f"{{{{{_join(dims)}}}, {math.prod(dims)}, 1}}")
        row = f"{{{entry}, &{bounds}, &{self._constant(f'{entry}_arguments', f'{{{members}}}')}}}"
        if row not in self._launches:
            self._launches.append(row)
        return self._launches.index(row)

    def _struct(self, name: str, kinds: Mapping[str, Any]) -> None:
        members = " ".join(f"{self._type(kind)} {label};" for label, kind in kinds.items())
        self._declared[name] = f"struct {name} {{ {members} }};"

    def _type(self, kind: Any) -> str:
        """Return the C++ type of a kernel parameter or struct member; declares it where it is a struct."""
        if is_array(kind):
            return "Array"
        if type_is_vector(kind):
            return f"Vector<{Var.type_to_ctype(kind._wp_scalar_type_)}, {kind._length_}>"
        if isinstance(kind, Struct):
            if kind.native_name not in self._declared:
                self._struct(kind.native_name, {label: member.type for label, member in kind.vars.items()})
            return kind.native_name
        return Var.type_to_ctype(kind)

    def _value(self, value: Any, kind: Any) -> str:
        """Return a constant expression for a value."""
        if is_array(kind):
            shape, strides = (_join((*row, *[0] * (DIMS - len(row)))) for row in (value.shape, value.strides))
            return f"{{{self._storage(value)}, nullptr, {{{shape}}}, {{{strides}}}, {value.ndim}, 0}}"
        if isinstance(value, StructInstance):
            members = {label: self._value(getattr(value, label), var.type) for label, var in kind.vars.items()}
            return self._constant(self._type(kind), f"{{{', '.join(members.values())}}}")
        if type_is_vector(kind):
            return f"{{{{{', '.join(self._value(x, kind._wp_scalar_type_) for x in value)}}}}}"
        bits = np.dtype(wp.dtype_to_numpy(kind)).type(value).tobytes()
        return f"__builtin_bit_cast({self._type(kind)}, wp::uint{8 * len(bits)}({int.from_bytes(bits, 'little')}ull))"

    def _constant(self, kind: str, value: str) -> str:
        """Return the name of a constant; equal ones share one."""
        name = self._constants.setdefault(f"{kind} {value}", f"{CONSTANT}{len(self._constants)}")
        self._declared.setdefault(name, f"static constexpr {kind} {name} = {value};")
        return name

    def _storage(self, array: Any) -> str:
        """Return the name of the variable with the elements of an array, a null pointer if it has none."""
        if not array.size:
            return "nullptr"
        if array.ptr not in self._arrays:
            name = self._names.get(array.ptr)
            symbol = self._arrays[array.ptr] = f"{ARRAY}{name}" if name else f"{ARRAY}{len(self._arrays)}"
            if name and not isinstance(array.dtype, Struct):
                shape, dtype = numpy_layout(array)
                self.named[name] = {"dtype": dtype.name, "shape": shape}
            content = np.ascontiguousarray(array.numpy()).tobytes()
            initial = content.rstrip(b"\0")
            values = f" = {{{_join(initial)}}}" if initial else ""
            self._declared[symbol] = f'extern "C" {{ alignas(16) unsigned char {symbol}[{len(content)}]{values}; }}'
        return self._arrays[array.ptr]


def _join(values: Any) -> str:
    return ", ".join(map(str, values))
