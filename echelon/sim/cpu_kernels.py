# type: ignore
"""Kernels on the CPU: what Warp compiles and how it launches, changed where that costs more than the kernels do.

Arguments: Warp's loop over threads passes a pointer to them, and the compiler must assume that each store of a thread
may change them. So every thread first reads all array descriptors that it may use, some hundred words, even where it
returns at once. No array can alias a local copy, so its fields stay on the stack and are read where they are used.
Only the speed depends on this: with the template of another release of Warp, kernels are compiled as they are.

Launches: a program's entry points are called from a native loop, a third of the cost of Warp's CPU graph.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import warp as wp
from warp._src import codegen

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.func_native(
    """
    #ifndef __CUDA_ARCH__
    reinterpret_cast<void (*)(wp::uint64, wp::uint64)>(entry)(bounds, arguments);
    #endif
    """
)
def call_entry(entry: wp.uint64, bounds: wp.uint64, arguments: wp.uint64):
    """Call a compiled kernel, by the addresses of its entry point, launch bounds and arguments; nothing on CUDA."""
    ...


@wp.kernel
def run_launches(entries: wp.array2d(dtype=wp.uint64)):
    """Run a launch; on the CPU the threads, and so the launches, follow each other."""
    i = wp.tid()
    call_entry(entries[i, 0], entries[i, 1], entries[i, 2])


TEMPLATE = "cpu_module_template_forward"
LOOP = "    for (size_t task_index = 0;"
CALL = "(*dim, task_index, _wp_args);"
COPY = "    wp_args_{name} arguments = *_wp_args;\n"
CALL_WITH_COPY = "(*dim, task_index, &arguments);"
FLAG = " -DECHELON_COPIES_ARGUMENTS"
"""Definition without effect; compiler flags are part of the name of a compiled kernel in Warp's cache."""


def copy_arguments_per_launch() -> bool:
    """Change the template, once per process; return whether kernels are compiled with the changed one."""
    template: str = getattr(codegen, TEMPLATE, "")
    if COPY in template:
        return True
    flags = wp.config.cpu_compiler_flags
    if template.count(LOOP) != 1 or template.count(CALL) != 1 or flags is None:
        return False
    setattr(codegen, TEMPLATE, template.replace(LOOP, COPY + LOOP).replace(CALL, CALL_WITH_COPY))
    wp.config.cpu_compiler_flags = flags + FLAG
    return True


class NativeProgram:
    """Recorded launches on the CPU that a call runs in order, without the interpreter and its lock."""

    def __init__(self, commands: Sequence[Any], keep: Any) -> None:
        self._keep = [keep, commands, [_arguments(command) for command in commands]]
        entries = [
            [
                ctypes.cast(command.hooks.forward, ctypes.c_void_p).value or 0,
                ctypes.addressof(command.params[0]),
                ctypes.addressof(arguments),
            ]
            for command, arguments in zip(commands, self._keep[-1], strict=True)
        ]
        self._call = None
        if entries:
            table = wp.array(entries, dtype=wp.uint64, device="cpu")
            command: Any = wp.launch(run_launches, dim=len(entries), inputs=[table], device="cpu", record_cmd=True)
            arguments = _arguments(command)
            self._keep += [table, command, arguments]
            self._call = (command.hooks.forward, ctypes.byref(command.params[0]), ctypes.byref(arguments))

    def __call__(self) -> None:
        if self._call:
            entry, bounds, arguments = self._call
            entry(bounds, arguments)


def _arguments(command: Any) -> ctypes.Structure:
    """Return the parameters of a launch as the struct that its entry point takes; the launch bounds come first."""
    values = command.params[1:]
    return _struct_of(tuple(map(type, values)))(*values)


@cache
def _struct_of(kinds: tuple[type, ...]) -> type[ctypes.Structure]:
    return type("Arguments", (ctypes.Structure,), {"_fields_": [(f"argument_{i}", k) for i, k in enumerate(kinds)]})
