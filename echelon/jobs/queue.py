"""The queue of a runs folder: add runs to it, and start its job, which ends when nothing waits or runs.

The job is supervised like any other, in the hidden folder ``.queue``. There is no daemon: it starts with the next
entry, or with ``echelon queue resume``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from echelon.files import make_folder
from echelon.jobs import lock
from echelon.jobs.devices_in_use import COORDINATORS, outside_jobs
from echelon.jobs.kinds import KINDS, JobKind
from echelon.jobs.launch import POLL_S, LaunchError, launch, require_own_league
from echelon.jobs.queue_launcher import read_launcher
from echelon.jobs.queue_marker import new_marker, remove_marker, session_id, write_marker
from echelon.jobs.queue_store import STARTING, WAITING, Entry, QueueStore, StoreError, open_queue, queue_path
from echelon.jobs.slots import demand_of, shared_devices
from echelon.jobs.spec import JobSpec, new_spec, write_spec
from echelon.jobs.status import job_status
from echelon.jobs.usage import cuda_fault
from echelon.runs import RunNotFoundError, RunPaths, command, require_plain_files, runs_home

FOLDER = ".queue"
"""Folder of the queue's job, hidden from lists of runs."""
RESTART_LIMIT_S = 15.0
"""Longest wait for a job of the queue that is about to end [s]."""


def queue_job(home: str | Path | None = None) -> RunPaths:
    """Return the folder of the queue's job."""
    return RunPaths(runs_home(home) / FOLDER)


def enqueue(paths: RunPaths, spec: JobSpec, arguments: Sequence[str] = (), *, resumed: bool = False) -> int:
    """Write the spec of a run, append it to the queue and return the number of entries before it.

    ``resumed`` tells that the run has earlier sessions. The caller starts the queue's job (``ensure_started``). A run
    that is queued already, runs, or whose device does not exist is a ``ValueError``.
    """
    require_plain_files(paths)
    demand = demand_of(spec.kind, spec.config)
    if (fault := cuda_fault(demand.device)) and read_launcher(paths.root.parent) is None:
        raise ValueError(f"device is {demand.device!r}, expected cpu or auto: {fault}")
    if resumed and not job_status(paths).has_ended:
        raise ValueError(f"run {paths.id!r} is {job_status(paths).state}, expected one that has ended")
    if resumed:
        require_own_league(paths, spec)
    store, _ = open_queue(paths.root.parent)
    with store:
        for folder in (paths.log, paths.control, paths.checkpoints):
            make_folder(folder)
        write_spec(paths, spec)
        marker = new_marker(paths, tuple(arguments))
        # a marker without an entry gets one when the queue's job starts
        write_marker(paths, marker)
        try:
            return store.add(paths, marker)
        except BaseException:
            remove_marker(paths)
            raise


def is_started(home: str | Path | None = None) -> bool:
    """Whether the queue's job runs."""
    return lock.is_held(queue_job(home).lock)


def ensure_started(home: str | Path | None = None, kind: JobKind = KINDS["queue"]) -> None:
    """Start the queue's job unless it runs; one that is about to end is waited for. ``LaunchError`` where it fails."""
    paths, deadline = queue_job(home), time.monotonic() + RESTART_LIMIT_S
    make_folder(paths.root)
    while True:
        with open_queue(home)[0] as store:
            ending = store.is_closed
        if is_started(home) and not ending:
            return
        if not is_started(home):
            try:
                return launch(paths, new_spec("queue", {"preset": "queue"}, {}), kind)
            except LaunchError:
                if not is_started(home):
                    raise
        if time.monotonic() > deadline:
            raise LaunchError(f"queue in {str(paths.root)!r} does not end; try: kill its processes, then queue resume")
        time.sleep(POLL_S)


def find_entry(store: QueueStore, name: str, states: Sequence[str]) -> Entry:
    """Return the entry of a run by its id or an unambiguous part of it; ``RunNotFoundError`` where there is none."""
    entries = store.entries(states)
    exact = [entry for entry in entries if entry.run == name]
    found = exact or [entry for entry in entries if name and name in entry.run]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunNotFoundError(f"queued run {name!r} is ambiguous: {', '.join(entry.run for entry in found)}")
    raise RunNotFoundError(f"run {name!r} does not wait in the queue; see: echelon queue list --all")


def remove_entry(store: QueueStore, entry: Entry) -> bool:
    """Remove an entry that has not begun; return whether its run never had a session, so that its folder is empty.

    ``ValueError`` where it is being started.
    """
    paths = RunPaths(store.home / entry.run)
    may_start = is_started(store.home) or lock.is_held(paths.lock) or session_id(paths) != entry.session
    remove_marker(paths)
    if not store.remove(entry, starting=not may_start):
        raise ValueError(f"run {entry.run!r} is being started; try: {command('runs', 'stop', entry.run)}")
    return not entry.session and not os.path.lexists(paths.processes)


def contention(kind: str, config: dict[str, object], home: str | Path | None = None) -> str:
    """Return one line about the running jobs that share a device with one that starts now; empty without any."""
    path, demand = queue_path(home), demand_of(kind, config)
    entries: list[Entry] = []
    if path.is_file() and is_started(home):
        with QueueStore(path, read_only=True, busy_s=1.0) as store:
            entries = store.entries()
    waiting = sum(entry.state in (WAITING, STARTING) for entry in entries)
    queued = [found for entry in entries if (found := shared_devices(demand, entry.devices))]
    others = outside_jobs(runs_home(home), {entry.run for entry in entries})
    outside = [
        found for name, devices in others if name not in COORDINATORS if (found := shared_devices(demand, devices))
    ]
    if not queued and not outside:
        return ""
    counts = ((len(queued), "queued run"), (len(outside), "other run" if queued else "run"))
    runs = " and ".join(f"{count} {noun}{'s' * (count > 1)}" for count, noun in counts if count)
    devices = ", ".join(sorted({name for found in (*queued, *outside) for name in found}))
    more = f", {waiting} more wait" if queued and waiting else ""
    return f"{runs} on {devices}{more}: this one shares the device; with --queue it would wait"


__all__ = ["StoreError", "contention", "enqueue", "ensure_started", "find_entry", "is_started", "queue_job"]
