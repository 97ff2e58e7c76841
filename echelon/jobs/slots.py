"""Slots of devices: how many runs work on a device at the same time, and which devices are free.

A run on a CPU takes one slot of ``cpu``, a run on GPUs a slot of each. Runs that do not wait take slots too, even where
all are in use. A GPU on which another program computes is not free.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from echelon.jobs.usage import VISIBLE_VARIABLE, gpu_count, gpu_processes, has_gpu, visible_gpu

CPU, GPU, AUTO = "cpu", "cuda", "auto"
MAX_SLOTS = 256
DEVICE = re.compile(r"cpu|cuda:\d{1,3}")
"""Name of a device with slots."""
CONFIG_SECTIONS = {"arena": "arena", "eval": "eval"}
"""Section of a spec's configuration that names the device, by kind of job; the others have it at the top."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Devices that a run asks for."""

    device: str
    """``auto``, ``cpu``, ``cuda`` or ``cuda:N``."""
    processes: int = 1


def demand_of(kind: str, config: Mapping[str, Any]) -> Demand:
    """Return what a spec asks for; a damaged one asks for a CPU."""
    section = config.get(CONFIG_SECTIONS[kind]) if kind in CONFIG_SECTIONS else config
    device = section.get("device") if isinstance(section, Mapping) else None
    processes = config.get("nproc", 1)
    return Demand(
        device=device if isinstance(device, str) and re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", device) else CPU,
        processes=processes if type(processes) is int and processes > 0 else 1,
    )


def machine_slots(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the slots of each device of this machine: one, or the number in ``counts``."""
    devices = [CPU, *(f"{GPU}:{number}" for number in range(gpu_count()))]
    return {device: counts.get(device, 1) for device in devices}


def devices_of(demand: Demand, free: Mapping[str, int]) -> tuple[str, ...] | None:
    """Return the devices on which a run can start now; None where it has to wait.

    ``free`` has the free slots of each device. A device that this machine does not have is returned as it is: the start
    reports it.
    """
    device = resolved_device(demand.device)
    gpus = sorted((name for name in free if name != CPU), key=lambda name: -free[name])
    if device == GPU and gpus:
        count = min(demand.processes, len(gpus))
        chosen = [name for name in gpus if free[name] > 0][:count]
        return tuple(sorted(chosen)) if len(chosen) == count else None
    if device not in free:
        return (device,)
    return (device,) if free[device] > 0 else None


def free_slots(slots: Mapping[str, int], taken: Iterable[str]) -> dict[str, int]:
    """Return the free slots of each device; ``taken`` names the device of each slot that is in use."""
    used = Counter(taken)
    return {
        device: 0 if not used[device] and gpu_processes(device) else max(0, count - used[device])
        for device, count in slots.items()
    }


def resolved_device(device: str) -> str:
    """Return ``cuda`` or ``cpu`` for ``auto``."""
    return (GPU if has_gpu() else CPU) if device == AUTO else device


def devices_in_use(demand: Demand) -> tuple[str, ...]:
    """Return the devices that a running job uses: the first ones of its kind."""
    return devices_of(demand, dict.fromkeys(machine_slots({}), 1)) or (CPU,)


def visible_gpus(devices: Iterable[str]) -> dict[str, str]:
    """Return the variable that shows a process these GPUs alone; none without GPUs."""
    numbers = [int(name.partition(":")[2]) for name in devices if name.startswith(f"{GPU}:")]
    visible = os.environ.get(VISIBLE_VARIABLE)
    return {VISIBLE_VARIABLE: ",".join(visible_gpu(number, visible) for number in numbers)} if numbers else {}


def parse_slots(text: str) -> tuple[str, int]:
    """Return device and number of slots of ``cpu=2`` or ``cuda:0=1``; ``ValueError`` for other text."""
    device, _, count = text.partition("=")
    if not DEVICE.fullmatch(device) or not count.isdecimal() or int(count[:9]) > MAX_SLOTS:
        raise ValueError(f"slots {text!r} are no DEVICE=NUMBER of at most {MAX_SLOTS}; try cpu=2 or cuda:0=1")
    return device, int(count)
