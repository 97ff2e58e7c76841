"""Durable changes of files and folders: after a crash at any time each has its old or its new content.

``durable`` means that a change survives a crash of the machine: data is flushed before the name that leads to it, and
the folder that holds the name after it.
"""

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
ADVICE = {
    errno.ENOENT: "create it, or name another one",
    errno.ENOTDIR: "a part of its path is a file; name another one",
    errno.EISDIR: "name a file in it",
    errno.EEXIST: "delete it, or name another one",
    errno.EACCES: "change its permissions, or name another one",
    errno.EPERM: "change its permissions, or name another one",
    errno.EROFS: "name one on another disk",
    errno.ENOSPC: "free disk space and try again",
    errno.EDQUOT: "free disk space and try again",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
}
"""What helps, by the number of a system's error."""

MAX_HOLES = 256 << 20
"""Most bytes of a file that are zeros because they were never written; reading them takes a tenth of a second."""


class IrregularFileError(OSError):
    """A folder, pipe, device or link stands where a file is expected, or a file of holes."""

    def __init__(self, path: Path | str, fault: str = "is no regular file") -> None:
        super().__init__(f"{str(path)!r} {fault}")
        self.strerror = str(self)


def reason_of(error: BaseException) -> str:
    """Return why something failed, for a message that names the file: a system's error in its words without number."""
    if isinstance(error, OSError) and error.errno is not None:
        return (error.strerror or "system error").lower()
    return str(error)


def write_fault(name: str, error: OSError) -> str:
    return f"{name} could not be written: {reason_of(error)}"


def error_text(error: BaseException) -> str:
    """Return an error as a message: one of the system begins with the file and ends with what helps."""
    if not isinstance(error, OSError) or error.errno is None or error.filename is None:
        return reason_of(error)
    advice = ADVICE.get(error.errno)
    return f"{os.fsdecode(error.filename)!r}: {reason_of(error)}" + (f"; {advice}" if advice else "")


def open_standard_streams() -> None:
    """Open the null device as each standard stream that is closed, so that no other file gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null != number:
                os.close(null)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))


def open_own(path: Path | str, flags: int, mode: int = 0o666) -> int:
    """Return a descriptor of a regular file that belongs where it is: no link is followed, no pipe is waited for.

    ``IrregularFileError`` for anything else. A new file has the permissions ``mode``.
    """
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in IRREGULAR_ERRORS and os.path.lexists(path):
            raise IrregularFileError(path) from None
        raise
    return require_regular(handle, path)


def require_regular(handle: int, path: Path | str) -> int:
    """Return the descriptor of a regular file; ``IrregularFileError``, with it closed, for one of anything else.

    So is a file with more than ``MAX_HOLES`` of holes: of a few stored bytes, it would be read for hours.
    """
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise IrregularFileError(path)
        if state.st_size > MAX_HOLES and _has_large_holes(handle, state.st_size):
            raise IrregularFileError(path, f"has more than {MAX_HOLES >> 20} MiB of holes")
    except BaseException:
        os.close(handle)
        raise
    return handle


def _has_large_holes(handle: int, size: int) -> bool:
    """Whether more than ``MAX_HOLES`` of a file of ``size`` bytes are not stored, where the system can tell."""
    at = holes = 0
    try:
        while at < size and holes <= MAX_HOLES:
            data = os.lseek(handle, at, os.SEEK_DATA)
            holes += data - at
            at = os.lseek(handle, data, os.SEEK_HOLE)
    except OSError as error:
        holes += size - at if error.errno == errno.ENXIO else 0  # no data from here on
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return holes > MAX_HOLES


def atomic_write(path: Path, data: str | bytes, *, durable: bool = True, mode: int = 0o666) -> None:
    """Replace ``path`` by ``data`` atomically: after a crash at any time it has the old or the new content.

    Writes and fsyncs a temporary file, renames it and fsyncs the folder; ``OSError`` leaves no temporary file. A write
    that is not ``durable`` skips the fsyncs and survives a crash of the process, but not of the machine.
    """
    with replacing(path, durable=durable, mode=mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a file that replaces ``path`` when the block ends; an error in it leaves ``path`` as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with os.fdopen(open_own(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
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
