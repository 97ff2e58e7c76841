"""Tickets of the queue: ``queue`` in a runs folder, with a ticket for each queued run.

A queued run has a supervisor process from the start. It waits (``waiter``) until no earlier ticket wants its device and
a slot of the device is free. There is no daemon and no other state:

- ``tickets/RUN`` is the request. It is written once, locked by the run's supervisor, and deleted when the run has
  ended, so a ticket without a supervisor gets a new one (``Queue.revive``).
- ``slots/cpu.0`` names a run that works on a device. The processes of the run lock it. A run on a CPU takes one slot of
  ``cpu``, a run on GPUs a slot of each. Runs that do not wait take slots too, even where all are in use.
- ``order`` lists the runs that a user has moved. The others follow in the order of their tickets.
- ``settings.json`` has the numbers of slots, the launcher, and whether the queue is paused.

The module is import-light: two hundred supervisors may wait.
"""

import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, starmap
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from echelon.files import atomic_write, fsync, make_folder, open_own
from echelon.jobs import lock
from echelon.jobs.usage import VISIBLE_VARIABLE, gpu_count, gpu_processes, has_gpu, visible_gpu

FOLDER = "queue"
PYTHON_MODULE = (sys.executable, "-P", "-m")
"""Command prefix that runs a module without importing from the current folder."""
WAITER = (*PYTHON_MODULE, "echelon.jobs.waiter")
"""Command of a waiting supervisor; a run folder follows."""
MAX_BYTES = 1 << 16
"""Size above which a file of the queue counts as damaged."""
MAX_TICKETS = 10_000
MAX_WAITERS = 200
"""Tickets whose supervisors wait at the same time; later ones get theirs as the queue advances."""
LOOKS_PER_CHECK = 10
"""Looks of a supervisor at the queue between two looks at the supervisor before it."""
MIN_FREE_BYTES = 64 << 20
CPU, GPU, AUTO = "cpu", "cuda", "auto"
MAX_SLOTS = 256
DEVICE = re.compile(r"cpu|cuda:\d{1,3}")
CONFIG_SECTIONS = {"arena": "arena", "eval": "eval"}
"""Section of a spec's configuration that names the device, by kind of job; the others have it at the top."""


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """Request to start a run."""

    run: str
    kind: str
    """Row of ``kinds.KINDS``."""
    device: str = CPU
    """``cpu``, ``cuda`` or ``cuda:N``."""
    processes: int = 1
    arguments: list[str] = field(default_factory=list)
    """Arguments of the first session; session, size of the metrics and time are those of the request."""
    session: str = ""
    metrics_bytes: int = 0
    inode: int = 0
    """Number of the run's folder, which a copy does not have."""
    queued_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a queue."""

    paused: bool = False
    slots: dict[str, int] = field(default_factory=dict)
    """Runs at a time by device; one where a device is missing."""
    launcher: str = ""
    """Launcher on whose hosts the runs start; empty for this machine."""
    at_once: int = 1

    @property
    def launcher_name(self) -> str:
        return self.launcher.partition(":")[0]


class Queue:
    """The queue of the runs folder ``home``."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / FOLDER
        self._tickets, self._slots = self.folder / "tickets", self.folder / "slots"
        self._order, self._settings = self.folder / "order", self.folder / "settings.json"

    @contextlib.contextmanager
    def editing(self) -> Iterator[None]:
        """Exclude other processes that change tickets or take slots; ``ValueError`` where one does not end."""
        make_folder(self._tickets)
        make_folder(self._slots)
        refusal = ValueError(f"queue {str(self.folder)!r} is being changed by another process; try again")
        with lock.locked(self.folder / "lock", refusal):
            yield

    def runs(self) -> list[str]:
        times: dict[str, tuple[int, str]] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._tickets) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if not entry.name.startswith("."):
                        times[entry.name] = entry.stat(follow_symlinks=False).st_mtime_ns, entry.name
        moved = [name for name in dict.fromkeys(read_text(self._order).splitlines()) if name in times]
        return moved + sorted(times.keys() - set(moved), key=times.__getitem__)

    def ticket(self, run: str) -> Ticket | None:
        """Return the ticket of a run; None without one, and where it is damaged."""
        try:
            return parsed(Ticket, read_text(self._tickets / run), run=run)
        except OSError:
            return None

    def add(self, ticket: Ticket) -> int:
        """Append a ticket and return the number of those before it; the caller holds ``editing``."""
        names = self.runs()
        if ticket.run in names:
            raise ValueError(f"run {ticket.run!r} is in the queue already; see: echelon runs queue")
        if len(names) >= MAX_TICKETS:
            raise ValueError(f"queue has {MAX_TICKETS} runs, expected fewer")
        atomic_write(self._tickets / ticket.run, json.dumps(asdict(ticket)) + "\n")
        return len([name for name in names if name not in self.taken()])

    def remove(self, run: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._tickets / run).unlink()
            fsync(self._tickets)

    def move(self, run: str, index: int) -> None:
        """Move a run to a place among the waiting ones, 0 to start it next; the caller holds ``editing``."""
        taken = self.taken()
        names = self.runs()
        waiting = [name for name in names if name not in taken and name != run]
        waiting.insert(index, run)
        atomic_write(self._order, "".join(f"{name}\n" for name in [n for n in names if n in taken] + waiting))

    def settings(self) -> Settings:
        """Return the settings; ``ValueError`` where they are damaged: the runs may be meant for other machines."""
        if not os.path.lexists(self._settings):
            return Settings()
        found = parsed(Settings, read_text(self._settings))
        if found is None:
            raise ValueError(f"{str(self._settings)!r} is damaged; delete it and set slots and launcher again")
        return found

    def set(self, settings: Settings) -> None:
        atomic_write(self._settings, json.dumps(asdict(settings)) + "\n")

    def taken(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._slots)):
                if lock.is_held(self._slots / name):
                    found.setdefault(read_text(self._slots / name), []).append(name.rpartition(".")[0])
        return found

    def take_slots(self, run: str, devices: Iterable[str]) -> list[int]:
        """Lock a further slot of each device and return the descriptors; the caller holds ``editing``."""
        handles = []
        for device in devices:
            for number in count():
                handle = lock.acquire(self._slots / f"{device}.{number}", limit_s=0.0)
                if handle is not None:
                    os.ftruncate(handle, 0)
                    os.write(handle, run.encode())
                    handles.append(handle)
                    break
        return handles

    def blocker(self, ticket: Ticket) -> str:
        """Return the first waiting run before this one that needs its device or its launcher; empty without one."""
        taken, on_hosts = self.taken(), bool(self.settings().launcher)
        for name in self.runs():
            if name == ticket.run:
                break
            other = None if name in taken else self.ticket(name)
            if other is not None and (on_hosts or share_device(ticket.device, other.device)):
                return name
        return ""

    def free_devices(self, ticket: Ticket) -> tuple[str, ...]:
        """Return devices with free slots on which a run can start now; empty where it has to wait."""
        settings = self.settings()
        used = Counter(device for devices in self.taken().values() for device in devices)
        if settings.launcher:
            name = settings.launcher_name
            return (name,) if used[name] < settings.at_once else ()
        free = free_slots(machine_slots(settings.slots), used.elements())
        return devices_of(ticket.device, ticket.processes, free)

    def is_disk_full(self) -> bool:
        disk = os.statvfs(self.home)
        return disk.f_bavail * disk.f_frsize < MIN_FREE_BYTES

    def _startable(self, ticket: Ticket) -> tuple[str, ...]:
        if self.settings().paused or self.is_disk_full() or self.blocker(ticket):
            return ()
        return self.free_devices(ticket)

    def try_start(self, ticket: Ticket) -> tuple[tuple[str, ...], list[int]] | None:
        """Return devices for a run and descriptors of their slots, now locked; None where it has to wait."""
        if not self._startable(ticket):
            return None
        with self.editing():
            devices = self._startable(ticket)
            return (devices, self.take_slots(ticket.run, devices)) if devices else None

    def claim(self, run: str) -> int | None:
        """Lock the ticket of a run for its supervisor; None where another one has it, or there is none."""
        try:
            handle = lock.acquire(self._tickets / run, create=False)
        except FileNotFoundError:
            return None
        if handle is not None and not self.is_claimed(run, handle):
            os.close(handle)
            return None
        return handle

    def is_claimed(self, run: str, handle: int) -> bool:
        """Whether a locked ticket is still that of the run, and neither removed nor replaced."""
        try:
            return os.path.samestat(os.fstat(handle), os.lstat(self._tickets / run))
        except FileNotFoundError:
            return False

    def has_supervisor(self, run: str) -> bool:
        return lock.is_held(self._tickets / run)

    def revive(self, runs: Sequence[str] | None = None) -> list[str]:
        """Start a supervisor for each ticket, or those of ``runs``, that has none; return their runs."""
        names = self.runs()[:MAX_WAITERS] if runs is None else runs
        dead = [name for name in names if self.ticket(name) is not None and not self.has_supervisor(name)]
        if dead:
            import subprocess

            for name in dead:
                # without the attribute Popen warns on collection: the supervisor outlives this process
                subprocess.Popen(
                    [*WAITER, str(self.home / name)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                ).returncode = 0
        return dead

    def wait(self, ticket: Ticket, handle: int, poll_s: float) -> tuple[tuple[str, ...], list[int]] | None:
        """Wait until a run starts, as ``try_start``; None where its ticket was removed.

        Meanwhile the supervisor before this one is revived.
        """
        for look in count(1):
            names: list[str] = []
            with contextlib.suppress(ValueError, OSError):
                if not self.is_claimed(ticket.run, handle):
                    return None
                if found := self.try_start(ticket):
                    return found
                names = self.runs()[:MAX_WAITERS]
                if look % LOOKS_PER_CHECK == 0:
                    self.revive([names[names.index(ticket.run) - 1]])
            time.sleep(poll_s * min(5.0, 1.0 + len(names) / 50))
        raise AssertionError("unreachable")


Row = TypeVar("Row")


def read_text(path: Path) -> str:
    """Return the text of a file of the queue, up to ``MAX_BYTES``; empty without one."""
    try:
        handle = open_own(path, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    with open(handle, "rb") as file:
        return file.read(MAX_BYTES).decode(errors="replace")


def parsed(cls: type[Row], text: str, **known: str) -> Row | None:
    """Return the dataclass of a JSON text; None where it is damaged."""
    try:
        row = {**json.loads(text), **known}
        values = {name: (row[name], hint) for name, hint in get_type_hints(cls).items()}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return cls(**{name: value for name, (value, _) in values.items()}) if all(starmap(_is, values.values())) else None


def _is(value: Any, hint: Any) -> bool:
    """Whether a JSON value has a type; integers are not negative."""
    kind, items = get_origin(hint) or hint, get_args(hint)
    if type(value) is not kind or not items:
        return type(value) is kind and (kind is not int or value >= 0)
    return all(_is(item, items[-1]) for item in (value.values() if kind is dict else value))


def demand_of(kind: str, config: Mapping[str, Any]) -> tuple[str, int]:
    """Return device and processes that a spec asks for; a damaged one asks for a CPU."""
    section = config.get(CONFIG_SECTIONS[kind]) if kind in CONFIG_SECTIONS else config
    device = section.get("device") if isinstance(section, Mapping) else None
    processes = config.get("nproc", 1)
    is_known = isinstance(device, str) and re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", device)
    return str(device) if is_known else CPU, processes if type(processes) is int and processes > 0 else 1


def machine_slots(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the slots of each device of this machine: one, or the number in ``counts``."""
    devices = [CPU, *(f"{GPU}:{number}" for number in range(gpu_count()))]
    return {device: counts.get(device, 1) for device in devices}


def devices_of(device: str, processes: int, free: Mapping[str, int]) -> tuple[str, ...]:
    """Return the devices on which a run can start, by the free slots of each; empty where it has to wait.

    A device that this machine does not have is returned as it is: the start reports it.
    """
    device = resolved_device(device)
    gpus = sorted((name for name in free if name != CPU), key=lambda name: -free[name])
    if device == GPU and gpus:
        count = min(processes, len(gpus))
        chosen = [name for name in gpus if free[name] > 0][:count]
        return tuple(sorted(chosen)) if len(chosen) == count else ()
    return (device,) if free.get(device, 1) > 0 else ()


def free_slots(slots: Mapping[str, int], taken: Iterable[str]) -> dict[str, int]:
    """Return the free slots of each device; ``taken`` names the device of each slot that is in use."""
    used = Counter(taken)
    return {
        device: 0 if not used[device] and gpu_processes(device) else max(0, count - used[device])
        for device, count in slots.items()
    }


def share_device(*devices: str) -> bool:
    return len({*devices}) == 1 or (GPU in devices and CPU not in devices)


def resolved_device(device: str) -> str:
    return (GPU if has_gpu() else CPU) if device == AUTO else device


def devices_in_use(kind: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the devices that a running job uses: the first ones of its kind."""
    return devices_of(*demand_of(kind, config), dict.fromkeys(machine_slots({}), 1)) or (CPU,)


def visible_gpus(devices: Iterable[str]) -> dict[str, str]:
    numbers = [int(name.partition(":")[2]) for name in devices if name.startswith(f"{GPU}:")]
    visible = os.environ.get(VISIBLE_VARIABLE)
    return {VISIBLE_VARIABLE: ",".join(visible_gpu(number, visible) for number in numbers)} if numbers else {}


def parse_slots(text: str) -> tuple[str, int]:
    """Return device and number of slots of ``cpu=2`` or ``cuda:0=1``; ``ValueError`` for other text."""
    device, _, count = text.partition("=")
    if not DEVICE.fullmatch(device) or not count.isdecimal() or int(count[:9]) > MAX_SLOTS:
        raise ValueError(f"slots {text!r} are no DEVICE=NUMBER of at most {MAX_SLOTS}; try cpu=2 or cuda:0=1")
    return device, int(count)
