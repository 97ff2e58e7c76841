"""Builds the preload library of ``syscalls.c``, runs Python code below it, and reads what it recorded."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = struct.Struct("<IIIIqQQ")
KINDS = {
    "c": "create", "o": "open", "w": "write", "s": "sync", "r": "rename", "x": "exchange", "u": "unlink", "d": "rmdir",
    "m": "mkdir", "t": "truncate", "a": "mark",
}  # fmt: skip
LIMIT_S = 1200.0
MARKS: list[str] = []


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A successful operation; paths are relative to the recorded folder."""

    kind: str
    path: str
    target: str = ""
    offset: int = 0
    data: bytes = b""
    inode: int = 0


@cache
def library() -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("recording system calls needs Linux and a C compiler (cc)")
    built = Path(mkdtemp(prefix="echelon-syscalls-")) / "syscalls.so"
    source = Path(__file__).with_name("syscalls.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl", "-lpthread"], check=True)
    return built


def environment(under: Path, **settings: str) -> dict[str, str]:
    """Return the environment of a process whose operations below ``under`` are recorded or failed."""
    required = {"LD_PRELOAD": str(library()), "RELIABILITY_UNDER": str(under), "PYTHONPATH": str(ROOT)}
    return {**os.environ, **required, **settings}


def record(argv: Sequence[str], under: Path, trace: Path) -> list[Operation]:
    done = subprocess.run(
        [sys.executable, *argv],
        env=environment(under, RELIABILITY_TRACE=str(trace)),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return read_trace(trace, under)


def read_trace(trace: Path, under: Path) -> list[Operation]:
    raw, at, found = trace.read_bytes(), 0, []
    base = os.path.realpath(under)

    def relative(start: int, size: int) -> str:
        return os.path.normpath(os.path.relpath(raw[start : start + size].decode(), base)) if size else ""

    while at < len(raw):
        kind, first, second, _, offset, length, inode = HEAD.unpack_from(raw, at)
        at += HEAD.size
        name = KINDS[chr(kind)]
        path = raw[at : at + first].decode() if name == "mark" else relative(at, first)
        target, data = relative(at + first, second), raw[at + first + second : at + first + second + length]
        found.append(Operation(kind=name, path=path, target=target, offset=offset, data=data, inode=inode))
        at += first + second + length
    return found


def by_protocol(operations: Sequence[Operation]) -> dict[str, list[Operation]]:
    """Return the operations and marks of each protocol, with paths relative to its folder."""
    found: dict[str, list[Operation]] = {}
    name = ""
    for operation in operations:
        folder, _, path = operation.path.partition("/")
        if operation.kind != "mark":
            target = operation.target.partition("/")[2]
            found[folder].append(replace(operation, path=path or ".", target=target))
        elif operation.path.startswith("protocol "):
            name = operation.path.removeprefix("protocol ")
            found[name] = []
        else:
            found[name].append(operation)
    return found


def mark(text: str) -> None:
    """Record, in a process below the library, that something is acknowledged."""
    MARKS.append(text)
    ctypes.CDLL(None).reliability_mark(text.encode())
