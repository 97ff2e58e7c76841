"""Durable changes of files and folders: after a crash at any time each has its old or its new content.

``durable`` means that a change survives a crash of the machine: data is flushed before the name that leads to it, and
the folder that holds the name after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".tmp"
STALE_S = 600.0
"""Age from which a temporary file is one that a killed process left [s]."""
EXCHANGE_CALLS = {"linux": ("renameat2", -100), "darwin": ("renameatx_np", -2)}
"""C function that exchanges two names and its number for the working folder, by platform."""
EXCHANGE_FLAG = 2
LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT
"""Flags of opening a file to which lines are appended."""
IRREGULAR_ERRORS = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR, errno.ENODEV)
"""Errors of opening a link, a pipe without a reader, a folder, or a device without a driver."""


class IrregularFileError(OSError):
    """A folder, pipe, device or link stands where a file is expected."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{str(path)!r} is no regular file")
        self.strerror = str(self)


def open_own(path: Path | str, flags: int) -> int:
    """Return a descriptor of a regular file that belongs where it is: no link is followed, no pipe is waited for.

    ``IrregularFileError`` for anything else.
    """
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in IRREGULAR_ERRORS and os.path.lexists(path):
            raise IrregularFileError(path) from None
        raise
    return require_regular(handle, path)


def require_regular(handle: int, path: Path | str) -> int:
    """Return the descriptor of a regular file; ``IrregularFileError``, with it closed, for one of anything else."""
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise IrregularFileError(path)


def atomic_write(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Replace ``path`` by ``data`` atomically: after a crash at any time it has the old or the new content.

    Writes and fsyncs a temporary file, renames it and fsyncs the folder; ``OSError`` leaves no temporary file. A write
    that is not ``durable`` skips the fsyncs and survives a crash of the process, but not of the machine.
    """
    with replacing(path, durable=durable) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Give a file that replaces ``path`` when the block ends; an error in it leaves ``path`` as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with os.fdopen(open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno:
            error.filename, error.filename2 = str(path), None  # the temporary name is of no use to a reader
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        fsync(path.parent)


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file for an output that the user names; an existing one is replaced when the block ends.

    What is written to a device or pipe goes there, and a link stays one.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
    else:
        with replacing(target) as file:
            yield file


def write_output(path: Path, data: str | bytes) -> None:
    """Write an output that the user names, as ``output_file`` does."""
    with output_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def remove_stale(folder: Path) -> None:
    """Delete the temporary files that killed processes left in ``folder``."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
            if time.time() - path.stat().st_mtime > STALE_S:
                path.unlink()


def fsync(path: Path) -> None:
    """Flush the data of a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
