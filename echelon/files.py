"""Durable changes of files and folders: after a crash at any time each has its old or its new content.

``durable`` means that a change survives a crash of the machine: data is flushed before the name that leads to it, and
the folder that holds the name after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"
STALE_S = 600.0
"""Age from which a temporary file is one that a killed process left [s]."""
EXCHANGE_CALLS = {"linux": ("renameat2", -100), "darwin": ("renameatx_np", -2)}
"""C function that exchanges two names and its number for the working folder, by platform."""
EXCHANGE_FLAG = 2


def atomic_write(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Replace ``path`` by ``data`` atomically: after a crash at any time it has the old or the new content.

    Writes and fsyncs a temporary file, renames it and fsyncs the folder; ``OSError`` leaves no temporary file. A write
    that is not ``durable`` skips the fsyncs and survives a crash of the process, but not of the machine.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        fsync(path.parent)


def remove_stale(folder: Path) -> None:
    """Delete the temporary files that killed processes left in ``folder``."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
            if time.time() - path.stat().st_mtime > STALE_S:
                path.unlink()


def fsync(path: Path) -> None:
    """Flush the data of a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Create a folder and its missing parents, and flush the entry of each to the disk."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        if not (exist_ok and folder.is_dir()):
            folder.mkdir(exist_ok=exist_ok or folder is not path)
            fsync(folder.parent)


def exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two files or folders atomically; return False where the system cannot do it."""
    name, here = EXCHANGE_CALLS.get(sys.platform, ("", 0))
    call = getattr(ctypes.CDLL(None), name, None) if name else None
    return call is not None and call(here, os.fsencode(first), here, os.fsencode(second), EXCHANGE_FLAG) == 0
