"""A policy for a browser: the operations of ``host_kernels.h`` as WebAssembly, and a policy's program as data.

The module serves every policy. The addresses of a program are those in the memory of the module, of which the lowest
part is its own.
"""

import ctypes
import itertools
from typing import Any

import torch
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.host_kernels import HEADER
from echelon.rl.host_program import FLOAT, INDEX, ActingProgram, Late, Network, has_program
from echelon.web.compile import Progress, compile_sources
from echelon.web.program import Sources

FIRST = 2 << 20
"""Address of the first number of a policy [bytes]."""
ALIGNMENT = 16
CHANGING = ("count", "noise")
"""Arguments of operations that the page sets: the number of rows, and the address of the noise or 0."""
SOURCE = f"""\
#define MATH(name, function) __attribute__((import_module("math"), import_name(#name))) float function(float)
#define expf math_exp  // the compiler would call a library for functions that it knows
#define logf math_log
#define tanhf math_tanh
#define erfcf math_erfc
extern "C" {{ MATH(exp, expf); MATH(log, logf); MATH(tanh, tanhf); MATH(erfc, erfcf); }}
namespace wp {{ typedef int int32; typedef long long int64; }}
{HEADER}
extern "C" void act(int parts, int count, int rows)
{{
    const echelon::int64 arguments[] = {{parts, count, rows}};
    echelon::run(echelon::ROWS, arguments);
}}
"""


def policy_module(progress: Progress = lambda done, total: None) -> bytes:
    """Return the WebAssembly module that every policy acts by."""
    return compile_sources(Sources(program=SOURCE, modules={}, arrays={}, exports=("act",)), progress)


def policy_files(policy: FlatPolicy, mechs: int, name: str) -> tuple[dict[str, Any], bytes]:
    """Return the description of a policy that flies at most ``mechs`` mechs, and its weights.

    ``ValueError`` where no program evaluates it. Matrices are written in half precision.
    """
    if not has_program(policy):
        raise ValueError(
            f"policy {name!r} has a network that no native program evaluates, expected a suite model with a MinGRU and "
            "a hybrid action head; try a policy that a preset trained"
        )
    network = Network(policy)
    network.weights.refresh()
    program = _PageProgram(network, mechs)
    description = {
        "mechs": mechs,
        "widths": program.widths,
        "places": program.places,
        "changing": program.changing,
        "program": program.parts,
        "parts": [[address, part.dtype == torch.float16, part.nbytes] for address, part in program.content],
        "end": program.end,
    }
    return description, b"".join(part.numpy().tobytes() for _, part in program.content)


class _PageProgram(ActingProgram):
    """A program whose addresses are those in the memory of the module."""

    def __init__(self, network: Network, rows: int) -> None:
        self.end = FIRST
        self.content: list[tuple[int, Tensor]] = []
        """Numbers that are written before the program runs, and where."""
        self._placed: dict[int, int] = {}
        core = network.core
        self.widths = {
            "obs": len(network.scale),
            "memory": core.lstm_hidden_dim,
            "noise": core.noise_dim,
            "action": core.action_dim,
        }
        super().__init__(network, rows)

    def _buffer(self, count: int) -> int:
        address = self.end
        self.end += -(-count * FLOAT // ALIGNMENT) * ALIGNMENT
        return address

    def _keep(self, x: Any) -> int:
        if isinstance(x, ctypes.Structure):  # addresses have four bytes there
            x = torch.tensor([getattr(x, name) for name, *_ in x._fields_], dtype=torch.int32)
        if x.data_ptr() not in self._placed:
            self._kept.append(x)
            part = x.half() if x.dtype == torch.float32 and x.dim() == 2 else x
            self._placed[x.data_ptr()] = address = self._buffer(x.nbytes // FLOAT)
            self.content.append((address, part))
        return self._placed[x.data_ptr()]

    def _finish(self, *parts: list[Any]) -> None:
        self.places = {name: self._floats(width) for name, width in self.widths.items()} | {"at": self._floats(2)}
        late = self._own | self.places | {f"{name}.stride": width for name, width in self.widths.items()}
        late |= {"after": late["memory"], "after.stride": late["memory.stride"]} | dict.fromkeys(CHANGING, 0)
        whole = [x for part in parts for x in part]
        values = [late[x.name] if isinstance(x, Late) else self._keep(x) if isinstance(x, Tensor) else x for x in whole]
        table = self._keep(torch.tensor(values))
        cells = [(x.name, table + INDEX * i) for i, x in enumerate(whole) if isinstance(x, Late)]
        self.changing = {name: [cell for other, cell in cells if other == name] for name in CHANGING}
        ends = [table + INDEX * n for n in itertools.accumulate(map(len, parts), initial=0)]
        self.parts = [self._keep(torch.tensor([x for pair in itertools.pairwise(ends) for x in pair])), len(parts)]
