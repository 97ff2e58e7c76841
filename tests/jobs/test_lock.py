"""The lock of a running job: one holder, probes without effect, and errors of the system."""

import errno
import fcntl
import os
from collections.abc import Callable

import pytest

from echelon.jobs import lock

RETRY_S, LIMIT_S = 0.25, 1.0
"""Retry and limit of these tests [s]; sums of them are exact."""


class Clock:
    """A clock that only sleeping moves; ``on_sleep`` is called with each sleep [s]."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(lock, "time", clock)
    monkeypatch.setattr(lock, "PROBE_RETRY_S", RETRY_S)
    return clock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "supervisor.lock"


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_lock_is_held_until_its_descriptor_is_closed(path):
    handle = lock.acquire(path)
    assert handle is not None and not os.get_inheritable(handle)
    assert lock.is_held(path)
    os.close(handle)
    assert not lock.is_held(path)


def test_acquire_creates_a_file_that_others_can_probe(path):
    before = os.umask(0o022)
    try:
        handle = lock.acquire(path)
    finally:
        os.umask(before)
    assert handle is not None
    os.close(handle)
    assert path.stat().st_mode & 0o777 == 0o644 and path.read_bytes() == b""


def test_acquire_keeps_the_content_of_an_existing_file(path):
    path.write_text("of an older version")
    handle = lock.acquire(path)
    assert handle is not None
    os.write(handle, b"OF")
    os.close(handle)
    assert path.read_text() == "OF an older version"


def test_acquire_gives_up_a_held_lock_after_the_limit(path, clock):
    holder = lock.acquire(path)
    before = open_descriptors()
    assert lock.acquire(path, LIMIT_S) is None
    assert clock.slept == [RETRY_S] * 4, "the last try is at the limit"
    assert lock.acquire(path, 0.0) is None and len(clock.slept) == 4, "one try without a limit to wait for"
    assert open_descriptors() == before and lock.is_held(path)
    os.close(holder)


def test_acquire_outlasts_a_probe(path, clock):
    path.touch()
    probe = os.open(path, os.O_RDONLY)
    fcntl.flock(probe, fcntl.LOCK_SH)
    clock.on_sleep = lambda: os.close(probe)
    handle = lock.acquire(path)
    assert handle is not None and clock.slept == [RETRY_S]
    os.close(handle)


def test_is_held_changes_nothing(path):
    assert not lock.is_held(path) and not path.exists()
    path.touch(mode=0o444)
    before = open_descriptors()
    probe = os.open(path, os.O_RDONLY)
    fcntl.flock(probe, fcntl.LOCK_SH)
    assert not lock.is_held(path), "probes do not exclude each other"
    os.close(probe)
    handle = os.open(path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert lock.is_held(path)
    os.close(handle)
    assert open_descriptors() == before


def test_is_held_does_not_wait_for_a_pipe(path):
    os.mkfifo(path)
    assert not lock.is_held(path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EINTR])
def test_is_held_without_lock_support_is_false(path, monkeypatch, number):
    def fail(handle: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    path.touch()
    before = open_descriptors()
    monkeypatch.setattr(fcntl, "flock", fail)
    assert not lock.is_held(path) and open_descriptors() == before


def test_is_held_survives_a_failing_close(path, monkeypatch):
    path.touch()
    close = os.close

    def fail(handle: int) -> None:
        close(handle)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", fail)
        held = lock.is_held(path)
    assert held is False
