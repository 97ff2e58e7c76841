"""Registers, stack, code and parameters of every kernel, compiled for a CUDA architecture on any machine.

Warp's compiler needs neither a GPU nor a driver. ``python -m tests.parity.cuda_kernels`` compiles every module with
kernels, one after the other, for the block sizes that its launches have, and prints what the cubins say. They lie in
Warp's kernel cache under the names by which a process with a GPU looks for them, so that it compiles nothing.
"""

import json
import re
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import warp as wp

import echelon
from echelon.sim.backend import BLOCK, NARROW_BLOCK, start_warp

ARCH = 90
"""CUDA compute capability of H100 and H200."""
KERNEL_MARK = "\n@wp.kernel"
NARROW = re.compile(r"^    \w+ = wp\.tid\(\)$", re.MULTILINE)
"""First statement of a kernel with one thread per environment, or per map, mech or row."""
ENTRY = "_cuda_kernel_forward"
"""Suffix of a kernel's symbol in a cubin."""
INFO, INFO_OF, TEXT_OF = ".nv.info", ".nv.info.", ".text."
"""Sections of a cubin: attributes of all kernels, attributes and code of one."""
REGISTERS, FRAME_BYTES, STACK_BYTES, PARAMETER_BYTES = 0x2F, 0x11, 0x12, 0x19
"""Attributes of those sections: the first three name a kernel by its symbol, the last stands in its own section."""
SIZED, HALF_WORD = 0x04, 0x03
"""Formats of an attribute: a value of given size, and one in the two bytes after the attribute's number."""
SYMBOL_TABLE = 2
"""Type of an ELF section that holds symbols."""

WARP_THREADS = 32
SM_REGISTERS, SM_WARPS, SM_BLOCKS = 65_536, 64, 32
"""Registers, warps and blocks that a multiprocessor of H100 and H200 holds at once."""
REGISTER_UNIT = 256
"""Registers that are allocated to a warp at a time."""


@dataclass(frozen=True)
class KernelResources:
    """What one kernel needs on the device."""

    module: str
    kernel: str
    registers: int
    """Registers of a thread."""
    stack_bytes: int
    """Local memory of a thread, arrays and spilled registers [B]."""
    code_bytes: int
    """Machine code [B]; an instruction takes 16."""
    parameter_bytes: int
    """Parameters of a launch [B]."""
    block: int = BLOCK
    """Threads of a block."""

    def occupancy(self, block: int = 0) -> float:
        """Return the fraction of a multiprocessor's warps that can be resident, with ``block`` threads a block."""
        block = block or self.block
        warps = -(-block // WARP_THREADS)
        of_warp = -(-self.registers * WARP_THREADS // REGISTER_UNIT) * REGISTER_UNIT
        blocks = min(SM_REGISTERS // of_warp // warps, SM_WARPS // warps, SM_BLOCKS)
        return blocks * warps / SM_WARPS


@dataclass(frozen=True)
class CompiledModule:
    """One module of kernels, its time and what its kernels need."""

    name: str
    seconds: float
    """CPU time to compile it, or to find it in the cache [s]."""
    kernels: tuple[KernelResources, ...]


class Cubin:
    """The sections and symbols of a cubin, a 64-bit little-endian ELF file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("cubin is not a 64-bit little-endian ELF file, expected one that nvrtc wrote")
        (table,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        contents = [data[at : at + length] for _, _, _, _, at, length, *_ in headers]
        self.sections = {_name(contents[names], row[0]): body for row, body in zip(headers, contents, strict=True)}
        """Contents by name."""
        self.symbols: list[str] = []
        """Names of the symbols, by index."""
        for row, body in zip(headers, contents, strict=True):
            if row[1] == SYMBOL_TABLE:
                self.symbols = [_name(contents[row[6]], at) for at, *_ in struct.iter_unpack("<IBBHQQ", body)]

    def attributes(self, section: str) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the value of each attribute of a section."""
        body, at = self.sections.get(section, b""), 0
        while at < len(body):
            kind, number, value = struct.unpack_from("<BBH", body, at)
            at += 4
            if kind == SIZED:
                yield number, body[at : at + value]
                at += value
            else:
                yield number, struct.pack("<H", value)

    def by_symbol(self, number: int) -> dict[str, int]:
        """Return the value of an attribute for each symbol that has it."""
        pairs = (struct.unpack("<II", value) for kind, value in self.attributes(INFO) if kind == number)
        return {self.symbols[symbol]: value for symbol, value in pairs}

    def parameter_bytes(self, symbol: str) -> int:
        """Return the size of a kernel's parameters [B]."""
        sizes = [value for number, value in self.attributes(INFO_OF + symbol) if number == PARAMETER_BYTES]
        return struct.unpack("<H", sizes[0])[0] if sizes else 0


def _name(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def block_of(kernel: Any) -> int:
    """Return the block size of a kernel's launches, which follows from the dimensions of its threads."""
    return NARROW_BLOCK if NARROW.search(kernel.adj.source) else BLOCK


def resources(module: Any, cubin: Cubin) -> tuple[KernelResources, ...]:
    """Return what each kernel of a module needs; ``ValueError`` for one that the cubin lacks."""
    registers, frames, stacks = (cubin.by_symbol(number) for number in (REGISTERS, FRAME_BYTES, STACK_BYTES))
    rows = []
    for key, kernel in sorted(module.kernels.items()):
        symbol = kernel.get_mangled_name() + ENTRY
        if symbol not in registers:
            raise ValueError(
                f"cubin of {module.name} has no kernel {symbol!r}, expected one of: {', '.join(registers)}"
            )
        rows.append(
            KernelResources(
                module=module.name,
                kernel=key,
                registers=registers[symbol],
                stack_bytes=max(frames.get(symbol, 0), stacks.get(symbol, 0)),
                code_bytes=len(cubin.sections[TEXT_OF + symbol]),
                parameter_bytes=cubin.parameter_bytes(symbol),
                block=block_of(kernel),
            )
        )
    return tuple(rows)


def kernel_modules() -> list[Any]:
    """Return the Warp modules of all files of the package that declare a kernel, by name."""
    root = Path(echelon.__file__).parent
    files = sorted(path for path in root.rglob("*.py") if KERNEL_MARK in path.read_text(encoding="utf-8"))
    names = [".".join(("echelon", *path.relative_to(root).with_suffix("").parts)) for path in files]
    return [wp.get_module(import_module(name).__name__) for name in names]


def compile_module(module: Any, folder: Path | None = None, arch: int = ARCH) -> CompiledModule:
    """Compile a module into ``folder``, by default Warp's cache, and read its cubins; cached cubins are only read."""
    began = time.process_time()
    default, rows = module.options["block_dim"], []
    for block in sorted({block_of(kernel) for kernel in module.kernels.values()}):
        module.options["block_dim"] = block
        (path,) = wp.compile_aot_module(module, arch=arch, module_dir=folder, use_ptx=False)
        rows += [row for row in resources(module, Cubin(Path(path).read_bytes())) if row.block == block]
    module.options["block_dim"] = default
    return CompiledModule(module.name, time.process_time() - began, tuple(sorted(rows, key=lambda row: row.kernel)))


def compile_all(names: Sequence[str] = ()) -> Iterator[CompiledModule]:
    """Compile the modules one by one: all, or those whose name contains one of ``names``."""
    start_warp()
    for module in kernel_modules():
        if not names or any(name in module.name for name in names):
            yield compile_module(module)


def main(arguments: Sequence[str]) -> None:
    """Print a table of the modules whose names contain one of the arguments, or JSON lines with ``--json``."""
    as_json = "--json" in arguments
    total = 0.0
    for done in compile_all([word for word in arguments if word != "--json"]):
        total += done.seconds
        if as_json:
            print(json.dumps(asdict(done)), flush=True)
            continue
        print(f"{done.name} {done.seconds:.2f} s", flush=True)
        for row in done.kernels:
            print(
                f"  {row.kernel:28s} {row.registers:4d} registers, occupancy {row.occupancy():4.0%}, stack"
                f" {row.stack_bytes:5d} B, code {row.code_bytes:7d} B, parameters {row.parameter_bytes:5d} B"
            )
    if not as_json:
        print(f"{total:.1f} s of CPU time")


if __name__ == "__main__":
    main(sys.argv[1:])
