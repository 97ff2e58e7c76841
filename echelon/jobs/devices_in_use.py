"""Devices in use by running jobs that are not of the queue, which take slots all the same."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from pathlib import Path

from echelon.jobs import lock
from echelon.jobs.process import identity_from
from echelon.jobs.slots import CPU, Demand, demand_of, devices_of, machine_slots
from echelon.runs import RunPaths, list_runs, read_json

COORDINATORS = ("sweep", "queue")
"""Kinds of jobs that compute nothing themselves: the runs that they start do."""


def outside_jobs(home: Path | None, queued: Collection[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield kind and devices of each job that runs on this machine, except those ``queued``."""
    for paths in list_runs(home):
        if paths.id not in queued and lock.is_held(paths.lock) and not _is_elsewhere(paths):
            spec = read_json(paths.spec) or {}
            kind, config = str(spec.get("kind", "")), spec.get("config")
            yield kind, devices_in_use(demand_of(kind, config if isinstance(config, dict) else {}))


def outside_devices(home: Path, queued: Collection[str]) -> list[str]:
    """Return the devices of the running jobs that are not of the queue, one for each slot that they take."""
    return [device for _, devices in outside_jobs(home, queued) for device in devices]


def devices_in_use(demand: Demand) -> tuple[str, ...]:
    """Return the devices that a running job uses: the first ones of its kind."""
    return devices_of(demand, dict.fromkeys(machine_slots({}), 1)) or (CPU,)


def _is_elsewhere(paths: RunPaths) -> bool:
    """Whether the supervisor of a run works on another host."""
    supervisor = identity_from((read_json(paths.processes) or {}).get("supervisor"))
    return supervisor is not None and supervisor.host != socket.gethostname()
