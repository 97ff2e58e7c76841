"""Arrays that each kernel reads and writes, from its source, and the bytes of a launch per environment.

Every array that a kernel names is counted once per launch and direction, whole: a bound for arrays of mechs, whose
threads together visit all of it. Arrays of voxels and of the map bank are not counted, since rays and box tests visit
few of their cells; what those visit is counted as rays.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import warp as wp

from echelon.sim.backend import Backend, Launch
from echelon.sim.structs import OUT, fields_of, is_array_struct

VOXEL_AXES = frozenset("XY")
"""Shape letters of arrays that hold a map."""
WHOLE = ""
"""Name that stands for a parameter which is an array itself."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that one launch moves per environment."""

    read: int
    written: int


@cache
def touched(function: Any) -> Mapping[str, frozenset[str]]:
    """Return the names of the struct fields that a kernel or device function uses, by parameter.

    Fields that called device functions use are included; a field of which only the shape is asked is not.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.func)))
    parameters = {argument.label for argument in function.adj.args}
    shapes = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "shape"}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in shapes:
            if node.value.id in parameters:
                found[node.value.id].add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in parameters:
            found[node.value.id].add(WHOLE)
        elif isinstance(node, ast.Call):
            for parameter, used in _passed(node, function):
                found[parameter] |= used
    return {name: frozenset(names) for name, names in found.items() if names}


def _passed(call: ast.Call, function: Any) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the parameters that a call passes on to a device function, and what that uses of them."""
    called = function.func.__globals__.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if not isinstance(called, wp.Function) or called.func is None:
        return
    inner = touched(called)
    for argument, value in zip(called.adj.args, call.args, strict=False):
        if isinstance(value, ast.Name):
            yield value.id, inner.get(argument.label, frozenset())


def arrays_of(launch: Launch) -> Iterator[tuple[str, bool]]:
    """Yield the name of each array of the batch that a launch uses, and whether the kernel writes it."""
    used = touched(launch.kernel)
    for argument in launch.kernel.adj.args:
        written = argument.label.endswith(OUT)
        names = used.get(argument.label, frozenset())
        if is_array_struct(argument.type):
            yield from ((name, written) for name in sorted(names & fields_of(argument.type).keys()))
        elif WHOLE in names:
            name = argument.label.removesuffix(OUT)
            given = launch.given.get(name, name)
            if isinstance(given, str):
                yield given, written


def traffic(launch: Launch, backend: Backend, num_envs: int) -> Traffic:
    """Return the bytes that a launch moves per environment, without maps and observation rows."""
    moved = {True: 0, False: 0}
    for name, written in set(arrays_of(launch)):
        field = backend.fields.get(name)
        if name in backend.per_env and not (field and VOXEL_AXES & set(field.shape)):
            moved[written] += backend.arrays[name].capacity // num_envs
    return Traffic(moved[False], moved[True])
