"""Tensors and plain values from files of any origin: nothing is run, and sizes are bounded.

``torch.save`` files are read by a table of the pickle instructions that they need (``OPCODES``), which makes nothing
but plain values and tensors of stored bytes. It takes less than 256 MiB beside the tensors, which have no more bytes
than the file. Every function raises ``ValueError`` in plain words; ``OSError`` where the system cannot read the file.
"""

from __future__ import annotations

import contextlib
import math
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as _load_arrays
from safetensors.torch import load_file as _load_tensors
from torch import Tensor

from echelon.state_files import is_utf8, open_regular

HEADER_LENGTH_BYTES = 8
DESCRIPTORS = "/dev/fd"
"""Folder of the open files of this process by number."""
MAX_HEADER_BYTES = 1 << 20
"""Largest header of a safetensors file; one of a policy or an environment has some 20 KiB."""
MAX_PICKLE_BYTES = 16 << 20
"""Largest structure of a ``torch.save`` file; tensors are stored beside it."""
MAX_OPCODES = 500_000
"""Most pickle instructions of a structure; a training state has some 15,000. Each takes some 200 bytes."""
MAX_DIRECTORY_BYTES = 2 << 20
"""Longest piece read of an archive, and with it the longest list of its parts: some 30,000."""
MAX_DIMENSIONS = 16
CHUNK_BYTES = 1 << 20
STRUCTURE, STORAGE, BYTE_ORDER = "data.pkl", "data/", "byteorder"
PICKLE_SUFFIX = ".pkl"
INVALID = (
    *(SafetensorError, RuntimeError, EOFError, KeyError, TypeError, AttributeError, IndexError, ValueError),
    *(OverflowError, struct.error, zipfile.BadZipFile),
)
"""Errors of the libraries for damaged files."""
REASON_CHARS = 200
T = TypeVar("T")


class _UnsafeError(Exception):
    """A structure asks for something that is neither a tensor nor a plain value."""


def load_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name."""
    with _checked_name(path) as name:
        return _read(path, lambda: _load_tensors(name, device=str(device)))


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors file by name."""
    with _checked_name(path) as name:
        return _read(path, lambda: _load_arrays(name))


def load_plain(path: Path) -> dict[str, Any]:
    """Return the dict of tensors and plain values in a ``torch.save`` file, on the CPU."""
    with open_regular(path) as file:
        data = _read(path, lambda: _Structure(_Archive(file)).value())
    if not isinstance(data, dict):
        raise ValueError(
            f"file {path.name!r} holds a {type(data).__name__}, expected a dict of tensors and plain values"
        )
    return data


def _read(path: Path, load: Callable[[], T]) -> T:
    try:
        return load()
    except _UnsafeError as error:
        raise ValueError(
            f"file {path.name!r} is unsafe: it asks to run {str(error)[:REASON_CHARS]!r}, expected only tensors and "
            "plain values; nothing was run, do not open it with other programs"
        ) from None
    except INVALID as error:
        if isinstance(error, zipfile.BadZipFile):
            raise ValueError(f"file {path.name!r} is damaged, expected what torch.save writes") from None
        reason = (str(error).splitlines() or [""])[0][:REASON_CHARS]
        raise ValueError(f"file {path.name!r} is damaged: {reason or type(error).__name__}") from None


@contextlib.contextmanager
def _checked_name(path: Path) -> Iterator[str]:
    """Give a name of a safetensors file that is UTF-8, as the library needs, while the file is open.

    ``ValueError`` unless its header fits in the file and in the budget.
    """
    with open_regular(path) as file:
        length = int.from_bytes(file.read(HEADER_LENGTH_BYTES), "little")
        size = file.seek(0, 2)
        if length > min(MAX_HEADER_BYTES, size - HEADER_LENGTH_BYTES):
            limit = f"expected at most {MAX_HEADER_BYTES} and less than the file"
            raise ValueError(f"file {path.name!r} is damaged: its header has {length} bytes, {limit}")
        yield str(path) if is_utf8(str(path)) else f"{DESCRIPTORS}/{file.fileno()}"


class _Bounded:
    """A file for ``zipfile`` that reads no long pieces, such as the list of the parts of an archive, at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, MAX_DIRECTORY_BYTES + 1) if size >= 0 else MAX_DIRECTORY_BYTES + 1)
        if len(data) > MAX_DIRECTORY_BYTES:
            raise ValueError(f"its list of parts has more than {MAX_DIRECTORY_BYTES} bytes")
        return data


class _Archive:
    """The parts of a ``torch.save`` file: one structure and the bytes of tensors, all uncompressed."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(_Bounded(file))  # type: ignore[arg-type]
        parts = self._zip.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED or part.file_size != part.compress_size for part in parts):
            raise ValueError("it has compressed parts, expected what torch.save writes")
        if sum(part.file_size for part in parts) > file.seek(0, 2):
            raise ValueError("its parts overlap, expected what torch.save writes")
        # torch and some systems find parts by names without case
        structures = [part.filename for part in parts if part.filename.lower().endswith(PICKLE_SUFFIX)]
        folder = parts[0].filename.split("/")[0] + "/" if parts else ""
        if structures != [folder + STRUCTURE] or len({part.filename.lower() for part in parts}) < len(parts):
            raise ValueError(f"expected one structure {folder + STRUCTURE!r} and no name twice")
        self._parts = {part.filename.removeprefix(folder): part for part in parts}
        if self._parts[STRUCTURE].file_size > MAX_PICKLE_BYTES:
            raise ValueError(f"its structure has more than {MAX_PICKLE_BYTES} bytes")
        if BYTE_ORDER in self._parts and self.read(BYTE_ORDER).tobytes() != b"little":
            raise ValueError("its numbers are not little-endian")

    def size(self, name: str) -> int:
        """Return the bytes of a part."""
        return self._parts[name].file_size

    def read(self, name: str) -> memoryview:
        """Return the content of a part, in memory of torch."""
        return self.tensor(name).numpy().data

    def tensor(self, name: str) -> Tensor:
        """Return the content of a part as bytes (size,) uint8."""
        out = torch.empty(self.size(name), dtype=torch.uint8)
        view, done = out.numpy().data, 0
        with self._zip.open(self._parts[name]) as source:
            while count := source.readinto(view[done : done + CHUNK_BYTES]):  # type: ignore[attr-defined]
                done += count
        if done != len(view):
            raise ValueError(f"part {name!r} ends early")
        return out


@dataclass(frozen=True)
class _Global:
    """A name that a structure refers to, one of ``CALLS`` or ``DTYPES``."""

    name: str


class _Structure:
    """The value of the structure of an archive, made on a stack by the functions of ``OPCODES``."""

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._storages: dict[str, Tensor] = {}
        self._room = 0

    def value(self) -> Any:
        """Return the value; ``ValueError`` and other ``INVALID`` where it is none of tensors and plain values."""
        opcodes = pickletools.genops(self._archive.read(STRUCTURE).tobytes())
        for count, (opcode, arg, _) in enumerate(opcodes):
            if opcode.name not in OPCODES:
                raise ValueError(f"its structure has the instruction {opcode.name}, expected what torch.save writes")
            if count >= MAX_OPCODES:
                raise ValueError(f"its structure has more than {MAX_OPCODES} instructions")
            OPCODES[opcode.name](self, arg)
        return self._stack.pop()

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def mark(self, _: None) -> None:
        self._marks.append(len(self._stack))

    def since_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def last(self, count: int) -> list[Any]:
        if count > len(self._stack):
            raise ValueError("its structure lacks values")
        items = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return items

    def put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise ValueError(f"its structure appends to a {type(target).__name__}")
        target.extend(items)

    def update(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError(f"its structure sets items of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # others, such as deep tuples, could exhaust the stack of the process when they are hashed
            if not isinstance(key, str | int | float):
                raise ValueError(f"its structure has a key that is a {type(key).__name__}")
            target[key] = value

    def name(self, arg: str) -> None:
        if arg not in CALLS and arg not in DTYPES:
            raise _UnsafeError(arg.replace(" ", "."))
        self._stack.append(_Global(arg))

    def call(self, _: None) -> None:
        target, args = self.last(2)
        if not isinstance(target, _Global) or target.name not in CALLS or type(args) is not tuple:
            raise ValueError("its structure calls a plain value")
        self._stack.append(CALLS[target.name](self, *args))

    def build(self, _: None) -> None:
        """Drop the attributes of an ordered dict; torch stores versions of modules there that safetensors lack too."""
        target, _state = self.last(2)
        if not isinstance(target, OrderedDict):
            raise ValueError(f"its structure sets attributes of a {type(target).__name__}")
        self._stack.append(target)

    def storage(self, _: None) -> None:
        """Push the numbers (count,) of a stored part; its type, name and count are on the stack."""
        tag, kind, key, _device, count = self._stack.pop()
        if tag != "storage" or not isinstance(kind, _Global) or type(key) is not str or type(count) is not int:
            raise ValueError("its structure refers to something else than stored numbers")
        if key not in self._storages:
            dtype, size = DTYPES[kind.name], self._archive.size(STORAGE + key)
            if size != count * dtype.itemsize:
                raise ValueError(f"part {STORAGE + key!r} has {size} bytes, expected {count} numbers")
            self._storages[key] = self._archive.tensor(STORAGE + key).view(dtype)
            self._room += size
        self._stack.append(self._storages[key])

    def tensor(
        self,
        numbers: Tensor,
        offset: int,
        size: tuple[int, ...],
        strides: tuple[int, ...],
        requires_grad: bool,
        *_hooks: object,
    ) -> Tensor:
        """Return a tensor of ``numbers`` [count]; ``ValueError`` where it is larger or reaches past them."""
        if not isinstance(numbers, Tensor) or not isinstance(size, tuple) or not isinstance(strides, tuple):
            raise ValueError("its structure has an invalid tensor")
        bounds = (offset, *size, *strides)
        if len(size) != len(strides) or len(size) > MAX_DIMENSIONS or any(type(n) is not int or n < 0 for n in bounds):
            raise ValueError("its structure has a tensor of an invalid shape")
        count = math.prod(size)
        end = offset + sum((n - 1) * step for n, step in zip(size, strides, strict=True)) + 1 if count else 0
        self._room -= count * numbers.element_size()
        if max(count, end) > numbers.numel() or self._room < 0:
            raise ValueError(f"its structure has a tensor {list(size)} larger than the stored numbers")
        made = torch.empty(0, dtype=numbers.dtype).set_(numbers.untyped_storage(), offset, size, strides)
        return made.requires_grad_() if requires_grad is True else made


Action = Callable[[_Structure, Any], None]


def _same(_: _Structure, __: Any) -> None:
    """Do nothing."""


PUSHED = ("BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT")
"""Instructions that hold a plain value."""
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
OPCODES: dict[str, Action] = {
    **dict.fromkeys(("PROTO", "STOP"), _same),
    **dict.fromkeys(PUSHED, _Structure.push),
    **{name: lambda machine, _, value=value: machine.push(value) for name, value in CONSTANTS.items()},
    **{f"TUPLE{n}": lambda machine, _, n=n: machine.push(tuple(machine.last(n))) for n in (1, 2, 3)},
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Structure.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Structure.get),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "MARK": _Structure.mark,
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.update(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.since_mark()),
    "GLOBAL": _Structure.name,
    "REDUCE": _Structure.call,
    "BUILD": _Structure.build,
    "BINPERSID": _Structure.storage,
}
"""What each pickle instruction does that ``torch.save`` writes for tensors and plain values."""
CALLS: dict[str, Callable[..., Any]] = {
    "collections OrderedDict": lambda _: OrderedDict(),
    "torch._utils _rebuild_tensor_v2": _Structure.tensor,
}
DTYPES = {
    f"torch {name}Storage": dtype
    for name, dtype in {
        **{"Double": torch.float64, "Float": torch.float32, "Half": torch.float16, "BFloat16": torch.bfloat16},
        **{"Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8},
        **{"Byte": torch.uint8, "Bool": torch.bool},
    }.items()
}
"""Types of stored numbers by the names of torch."""
