"""What a trainer uses of its machine: cores, memory, disk and accelerator, sampled once an update.

Nothing here waits: processor time is counted from one sample to the next, and figures that a machine does not tell are
not a number. The samples become fields of ``EventUpdate``.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import psutil

MIB = 2**20

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"

NONE_VISIBLE = ("", "-1")
"""Values of it that hide every card."""

CUDA_LIBRARY = "*torch_cuda*"
"""What lies in the folder of a torch that can use one."""


class ResourceUsage:
    """Samples the use that this process makes of its machine."""

    def __init__(self, folder: Path, device: str = "") -> None:
        """Watch this process, the disk that ``folder`` lies on and the accelerator called ``cuda`` or ``cuda:N``."""
        self._folder = folder
        self._process = psutil.Process()
        self._gpu = open_gpu(device)
        self._before = (time.monotonic(), self._seconds())

    def sample(self) -> dict[str, float]:
        """Return the fields of ``EventUpdate`` that say what is used, each a number or not one."""
        now, seconds = time.monotonic(), self._seconds()
        began, used = self._before
        self._before = (now, seconds)
        busy, gpu_memory = self._gpu_use()
        return {
            "cpu_cores": (seconds - used) / (now - began) if now > began else math.nan,
            "memory_mb": self._process.memory_info().rss / MIB,
            "memory_free_mb": psutil.virtual_memory().available / MIB,
            "disk_free_mb": disk_free_mb(self._folder),
            "gpu_share": busy,
            "gpu_memory_mb": gpu_memory,
        }

    def _seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system

    def _gpu_use(self) -> tuple[float, float]:
        if self._gpu is None:
            return math.nan, math.nan
        library, handle = self._gpu
        try:
            busy = library.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0
            return busy, library.nvmlDeviceGetMemoryInfo(handle).used / MIB
        except library.NVMLError:
            return math.nan, math.nan


def disk_free_mb(folder: Path) -> float:
    """Return the room left on the disk that a folder lies on [MiB]; not a number where that cannot be told."""
    try:
        return shutil.disk_usage(folder).free / MIB
    except OSError:
        return math.nan


def open_gpu(device: str) -> tuple[Any, Any] | None:
    """Return the management library and its handle of an accelerator, None where there is none to ask.

    ``device`` is ``cuda`` or ``cuda:N``, counted among those that are visible to this process. Cards of different
    kinds are counted in the order of their slots, as CUDA does with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
    """
    if not device.startswith("cuda"):
        return None
    name = visible_gpu(int(device.partition(":")[2] or 0), os.environ.get(VISIBLE_VARIABLE))
    try:
        library = importlib.import_module("pynvml")
        library.nvmlInit()
        if name.isdigit():
            return library, library.nvmlDeviceGetHandleByIndex(int(name))
        return library, library.nvmlDeviceGetHandleByUUID(name)
    except Exception:
        # a driver and its library may disagree in many ways; training goes on without these figures
        return None


def has_gpu() -> bool:
    """Whether there is a CUDA card for this process and a torch built for it; asked without loading torch."""
    if os.environ.get(VISIBLE_VARIABLE, "0").strip() in NONE_VISIBLE or open_gpu("cuda") is None:
        return False
    torch = importlib.util.find_spec("torch")
    places = (torch.submodule_search_locations or ()) if torch else ()
    return any(any(Path(place, "lib").glob(CUDA_LIBRARY)) for place in places)


def visible_gpu(number: int, visible: str | None) -> str:
    """Return number or name, for the whole machine, of the accelerator that this process sees as ``number``."""
    if visible is None:
        return str(number)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return names[number] if number < len(names) else str(number)
