"""Queued runs, and a stand-in of their sessions that can be killed at any point."""

import contextlib
import json
import os
from collections import Counter
from dataclasses import replace

import psutil
import pytest

from echelon.jobs import queue, tickets
from echelon.jobs.queue import NO_CRASHES, enqueue, open_queue
from echelon.jobs.spec import JobSpec
from echelon.runs import RunPaths, create_run, runs_home
from tests.jobs.conftest import begin_session


def put(number: int = 0, **config) -> RunPaths:
    paths = create_run(f"run{number:03}")
    enqueue(paths, JobSpec(kind="train", config={"device": "cpu", "preset": "fake", **config}))
    return paths


def order() -> list[str]:
    return open_queue().runs()


def change(**settings) -> None:
    found = open_queue()
    with found.editing():
        found.set(replace(found.settings(), **settings))


def descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


class Killed(BaseException):
    """The supervisor was killed."""


class Machine:
    """Stand-in of sessions: one ends at once, interrupted where ``interrupted`` names the run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sessions: Counter[str] = Counter()
        self.completed: Counter[str] = Counter()
        self.interrupted: Counter[str] = Counter()
        self.crashes: dict[str, queue.Crashes] = {}
        self.operations, self.kill_at = 0, -1
        monkeypatch.setattr(queue, "begin", self.begin)
        monkeypatch.setattr(queue, "start_observer", self.point(lambda paths: None))
        monkeypatch.setattr(queue, "_log_to", lambda path: None)
        monkeypatch.setattr(queue, "RETRY_S", 0.0)
        monkeypatch.setattr(tickets.Queue, "revive", lambda self, runs=None: [])
        monkeypatch.setattr(tickets.Queue, "is_disk_full", lambda self: False)
        for name in ("try_start", "take_slots", "claim", "remove"):
            monkeypatch.setattr(tickets.Queue, name, self.point(getattr(tickets.Queue, name)))
        monkeypatch.setattr(queue, "outcome", self.point(queue.outcome))

    def point(self, call):
        """Return ``call`` with a fault point before and after it."""

        def wrapped(*arguments, **named):
            self.pass_point()
            result = call(*arguments, **named)
            self.pass_point()
            return result

        return wrapped

    def pass_point(self) -> None:
        self.operations += 1
        if self.operations == self.kill_at:
            raise Killed

    @contextlib.contextmanager
    def begin(self, paths, command, *, slots, environment):
        assert slots
        self.pass_point()
        self.sessions[paths.id] += 1
        begin_session(paths, self.sessions[paths.id])
        self.pass_point()
        yield self
        self.end(paths)
        self.pass_point()

    def end(self, paths: RunPaths) -> None:
        """Record how the session ends; one that is interrupted has no record."""
        if self.interrupted[paths.id] > 0:
            self.interrupted[paths.id] -= 1
        else:
            self.completed[paths.id] += 1
            paths.exit.write_text(json.dumps({"code": 0}))

    def run(self) -> None:
        self.pass_point()

    def supervise(self, run: str) -> None:
        """Do what a waiting supervisor does at one look at the queue; a kill releases its locks."""
        found, before = open_queue(), descriptors()
        try:
            ticket = found.ticket(run)
            if ticket is None or found.claim(run) is None or (started := found.try_start(ticket)) is None:
                return
            crashes = self.crashes.get(run, NO_CRASHES)
            self.crashes[run] = queue.supervise_next_session(found, ticket, *started, crashes) or NO_CRASHES
        finally:
            for handle in descriptors() - before:
                os.close(handle)

    def drain(self) -> None:
        """Supervise all runs of the queue until it is empty; a new process takes the place of a killed one."""
        for _ in range(12):
            for run in order():
                with contextlib.suppress(Killed):
                    self.supervise(run)
        assert order() == [], "the queue does not end"


def count(paths: RunPaths, name: str) -> list[str]:
    file = paths.root / name
    return file.read_text().split() if file.exists() else []


def processes() -> list[psutil.Process]:
    home, found = str(runs_home()), []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(word.startswith(home) for word in process.cmdline()):
                found.append(process)
    return found
