"""Lock of a running job: held by its supervisor and released by the kernel however the supervisor ends."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from echelon.files import open_own

PROBE_RETRY_S = 0.05
ACQUIRE_LIMIT_S = 1.0
"""Longest time of retries [s]; outlasts readers that only probe the lock."""


def acquire(path: Path, limit_s: float = ACQUIRE_LIMIT_S, *, create: bool = True) -> int | None:
    """Take the lock and return its file descriptor; None where another process holds it for ``limit_s``."""
    handle = open_own(path, os.O_RDWR | (os.O_CREAT if create else 0))
    deadline = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(handle)
                return None
            time.sleep(PROBE_RETRY_S)


@contextlib.contextmanager
def locked(path: Path, refusal: Exception, limit_s: float = ACQUIRE_LIMIT_S) -> Iterator[None]:
    """Hold the lock; raise ``refusal`` where another process holds it for ``limit_s``."""
    handle = acquire(path, limit_s)
    if handle is None:
        raise refusal
    try:
        yield
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock; needs read access only."""
    try:
        handle = open_own(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)
    return False
