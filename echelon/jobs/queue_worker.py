"""The process that starts the runs of the queue: ``python -m echelon.jobs.queue_worker RUN``, started by a supervisor.

Every run gets a supervisor, so it continues when this process ends. A run that its machine or a signal interrupted
resumes from its newest checkpoint; one that has completed, failed or been stopped has ended. Whether a run has begun is
read from its folder, under whose lock its supervisor refuses a second start, so a kill at any time starts none twice.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from echelon.files import error_text
from echelon.jobs import control, lock, placement, worker
from echelon.jobs.devices_in_use import devices_in_use, outside_devices
from echelon.jobs.exits import session_end
from echelon.jobs.kinds import KINDS, JobKind
from echelon.jobs.launch import LEAGUE_KEY, StartError, has_orphan, launch
from echelon.jobs.queue_launcher import read_launcher
from echelon.jobs.queue_marker import remove_marker, session_id
from echelon.jobs.queue_store import RUNNING, STARTING, WAITING, Entry, QueueStore, StoreError, open_queue
from echelon.jobs.slots import CPU, devices_of, free_slots, machine_slots, shared_devices
from echelon.jobs.spec import read_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.jobs.usage import VISIBLE_VARIABLE, disk_free_mb, visible_gpu
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths, read_json
from echelon.telemetry.events import Event, EventAlert, EventEnd, EventStart

POLL_S = 1.0
"""Time between looks at the runs [s]."""
MAX_CRASHES = 3
"""Crashes in a row without progress after which a run is not resumed again."""
RETRY_S = 10.0
"""Time until a run that could not start is tried again [s]."""
MIN_FREE_MB = 64.0
"""Free disk space below which no run starts [MiB]."""
RESUME = ("--resume", "latest")
DEFINITE = ("completed", "stopped", "failed", "lost")
"""States of sessions that are not resumed."""


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    state: str
    reason: str = ""


@dataclass(frozen=True)
class Interrupted:
    """A run that has to be resumed."""

    reason: str
    crashed: bool = False
    step: int = 0
    dropped: bool = False
    """Whether its launcher has dropped it before it started."""


class Dispatcher:
    """Starts the runs of a queue on free devices and records how they end."""

    def __init__(self, home: Path, kinds: Mapping[str, JobKind] = KINDS) -> None:
        self.home = home
        self.kinds = kinds
        self.notices: list[str] = []
        """What happened since the caller emptied the list."""
        self._is_first = True
        self._retry_at: dict[str, float] = {}
        """Time of the next attempt to start a run, on the monotonic clock [s]."""

    def step(self) -> bool:
        """Look at every entry, start what can start, and return whether there is more to do."""
        store, notices = open_queue(self.home)
        self.notices += notices
        with store:
            if self._is_first:
                store.reopen()
                store.adopt()
                self._is_first = False
            for entry in store.entries():
                self._update(store, entry)
            if not store.is_paused:
                self._start_waiting(store)
            return not store.close_if_idle()

    def _update(self, store: QueueStore, entry: Entry) -> None:
        """Record what has become of an entry since the last look."""
        paths = RunPaths(self.home / entry.run)
        found = observe(paths, entry)
        if isinstance(found, Ended):
            remove_marker(paths)
            store.end(entry, found.state, found.reason)
            self.notices.append(f"{entry.run} {found.state}" + (f": {found.reason}" if found.reason else ""))
        elif found == RUNNING and entry.state != RUNNING:
            if not entry.devices:  # a user has started it, or the file was built again
                store.claim(entry, devices_in_use(entry.demand))
            store.set_running(entry)
        elif isinstance(found, Interrupted) and entry.state != WAITING:
            if found.dropped:
                self._retry_at[entry.run] = time.monotonic() + RETRY_S
            crashes = entry.crashes + 1 if found.step <= entry.crashed_at_step else 1
            store.set_waiting(entry, found.reason, crashes=crashes if found.crashed else None, step=found.step)
        elif found == WAITING and entry.state != WAITING:
            store.set_waiting(entry)

    def _start_waiting(self, store: QueueStore) -> None:
        """Start the entries that wait, in order; one that cannot start holds back those that need its devices."""
        waiting = store.entries((WAITING,))
        if not waiting:
            return
        taken = [device for entry in store.entries((STARTING, RUNNING)) for device in entry.devices]
        launcher = read_launcher(self.home)
        outside = [] if launcher else outside_devices(self.home, {entry.run for entry in store.entries()})
        slots = {launcher.name: launcher.at_once} if launcher else machine_slots(store.slots())
        free = free_slots(slots, [*taken, *outside])
        if disk_free_mb(self.home) < MIN_FREE_MB:
            return _explain(store, waiting[0], f"disk of {str(self.home)!r} is nearly full")
        now = time.monotonic()
        for entry in waiting:
            if self._retry_at.get(entry.run, 0.0) > now:
                continue
            devices = launcher.devices(free) if launcher else devices_of(entry.demand, free)
            if devices is None:
                for name in shared_devices(entry.demand, free):
                    free[name] = 0
                _explain(store, entry, _why(entry, outside))
                continue
            if self._start(store, entry, devices, launcher.text if launcher else ""):
                free = {name: count - (name in devices) for name, count in free.items()}

    def _start(self, store: QueueStore, entry: Entry, devices: tuple[str, ...], launcher: str) -> bool:
        """Start or resume a run on these devices, or submit it to a launcher; return whether it does."""
        paths = RunPaths(self.home / entry.run)
        session = session_id(paths)
        is_first = session == entry.session
        if not store.claim(entry, devices):
            return False
        try:
            if (kind := self.kinds.get(entry.kind)) is None:
                raise ValueError(f"job is of kind {entry.kind!r}, expected one of: {', '.join(self.kinds)}")
            arguments = entry.arguments if is_first else RESUME
            launch(
                paths, read_spec(paths), kind, arguments, (LEAGUE_KEY,),
                session=session, environment={} if ":" in entry.demand.device else _visible(devices),
                launcher=launcher,
            )  # fmt: skip
        except (StartError, OSError) as error:
            if session_id(paths) == session and not lock.is_held(paths.lock):
                store.set_waiting(entry, error_text(error))
                self._retry_at[entry.run] = time.monotonic() + RETRY_S
            return False  # the next look finds a session that has begun
        except ValueError as error:
            remove_marker(paths)
            store.end(entry, "failed", str(error))
            self.notices.append(f"{entry.run} failed: {error}")
            return False
        store.set_running(entry)
        self.notices.append(f"{entry.run} {'started' if is_first else 'resumed'} on {', '.join(devices)}")
        return True


def observe(paths: RunPaths, entry: Entry) -> str | Ended | Interrupted:
    """Return what has become of the run of an entry: ``waiting``, ``running``, how it ended, or what interrupted it."""
    try:
        session, status = session_id(paths), job_status(paths)
    except ValueError:
        return Ended("removed")
    if status.is_alive and lock.is_held(paths.lock):
        return RUNNING
    placed = placement.fate(paths)
    if placed in (placement.PENDING, placement.ACTIVE):
        return RUNNING
    if placed == placement.DROPPED:
        return Interrupted("dropped by its launcher before it started", dropped=True)
    if session == entry.session:
        return WAITING
    if has_orphan(paths):
        return RUNNING
    return _ended(paths, entry, status)


def _ended(paths: RunPaths, entry: Entry, status: JobStatus) -> Ended | Interrupted:
    """Return how a run ended whose session has begun, or what interrupted it."""
    if status.state == "failed" and (read_json(paths.exit) or {}).get("disk_full"):
        return Interrupted("the disk was full")
    if status.state == "stopped" and placement.is_preempted(paths):
        return Interrupted("preempted", step=status.global_step)
    if status.state in DEFINITE:
        return Ended(status.state, status.reason if status.state != "completed" else "")
    end = session_end(paths.metrics, entry.metrics_bytes)
    if not paths.exit.exists():
        if control.stop_requests(paths):
            return Ended("stopped", status.reason)
        if end is not None and end.reason in ("completed", "failed"):
            return Ended(end.reason, end.message)
        return Interrupted(status.reason, step=status.global_step)
    if entry.state != WAITING and entry.crashes >= MAX_CRASHES and status.global_step <= entry.crashed_at_step:
        return Ended("crashed", status.reason)
    return Interrupted(status.reason, crashed=True, step=status.global_step)


def _visible(devices: tuple[str, ...]) -> dict[str, str]:
    """Return the variable that shows a run the GPUs of its slots alone."""
    numbers = [int(name.partition(":")[2]) for name in devices if ":" in name]
    visible = os.environ.get(VISIBLE_VARIABLE)
    return {VISIBLE_VARIABLE: ",".join(visible_gpu(number, visible) for number in numbers)} if numbers else {}


def _explain(store: QueueStore, entry: Entry, reason: str) -> None:
    """Record why an entry waits, where that has changed."""
    if entry.reason != reason:
        store.set_waiting(entry, reason)


def _why(entry: Entry, outside: list[str]) -> str:
    blocked = shared_devices(entry.demand, outside)
    return f"{', '.join(sorted(set(blocked)))} is in use by runs outside of the queue" if blocked else ""


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    """Start the runs of the queue until nothing waits or runs."""
    serve(Dispatcher(paths.root.parent), link, POLL_S)


def serve(dispatcher: Dispatcher, link: RunLink, poll_s: float) -> None:
    """Dispatch until nothing is to do or a stop is requested; a full disk is waited for."""
    _emit(link, EventStart(device=CPU, preset="queue"))
    while not link.should_stop():
        problem = ""
        try:
            more = dispatcher.step()
        except (StoreError, OSError) as error:
            more, problem = True, error_text(error)
        with contextlib.suppress(OSError):
            for notice in dispatcher.notices:
                print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {notice}", flush=True)
        dispatcher.notices.clear()
        if problem:
            _emit(link, EventAlert(message=problem))
        if not more:
            return _emit(link, EventEnd(reason="completed"))
        time.sleep(poll_s)
    _emit(link, EventEnd(reason="stopped"))


def _emit(link: RunLink, event: Event) -> None:
    """Emit a record; on a full disk it is lost, the queue is not."""
    with contextlib.suppress(OSError):
        link.emit(replace(event))


if __name__ == "__main__":
    sys.exit(worker.main(work=work, phase="starting runs"))
