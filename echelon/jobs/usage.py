"""Resource usage of a worker: CPU cores, memory, disk and GPU, sampled once per update.

Sampling does not block: CPU time is measured between samples, and unknown values are NaN. Samples become fields of
``EventUpdate``.
"""

import importlib
import importlib.util
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

from echelon import machine

MIB = 2**20
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
NONE_VISIBLE = ("", "-1")
DRIVER_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvhost-ctrl", "/dev/dxg")
CUDA_LIBRARY = "*torch_cuda*"


def machine_memory() -> int:
    """Memory with swap [B]."""
    found = machine.memory()
    return found.total + found.swap


class ResourceUsage:
    """Samples the resource usage of this process."""

    def __init__(self, folder: os.PathLike[str], device: str = "") -> None:
        import psutil

        self._folder = folder
        self._process = psutil.Process()
        self._gpu = open_gpu(device)
        self._last_sample = (time.monotonic(), self._cpu_seconds())

    def sample(self) -> dict[str, float]:
        """Return the usage fields of ``EventUpdate``; unknown values are NaN."""
        now, seconds = time.monotonic(), self._cpu_seconds()
        last_time, last_seconds = self._last_sample
        self._last_sample = (now, seconds)
        busy, gpu_memory = self._gpu_usage()
        return {
            "cpu_cores": (seconds - last_seconds) / (now - last_time) if now > last_time else math.nan,
            "memory_mb": self._process.memory_info().rss / MIB,
            "memory_free_mb": machine.memory().available / MIB,
            "disk_free_mb": disk_free_mb(self._folder),
            "gpu_share": busy,
            "gpu_memory_mb": gpu_memory,
        }

    def _cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system

    def _gpu_usage(self) -> tuple[float, float]:
        if self._gpu is None:
            return math.nan, math.nan
        library, handle = self._gpu
        try:
            busy = library.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0
            return busy, library.nvmlDeviceGetMemoryInfo(handle).used / MIB
        except library.NVMLError:
            return math.nan, math.nan


def disk_free_mb(folder: os.PathLike[str]) -> float:
    """NaN where unknown [MiB]."""
    try:
        return shutil.disk_usage(folder).free / MIB
    except OSError:
        return math.nan


def open_gpu(device: str) -> tuple[Any, Any] | None:
    """Return the NVML library and its handle of a GPU; None where there is none.

    ``device`` is ``cuda`` or ``cuda:N``, an index among the GPUs visible to this process. GPUs of different models are
    ordered by slot, as CUDA does with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
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
        # driver and library can mismatch in many ways; training continues without GPU usage
        return None


def has_gpu() -> bool:
    """Whether this process has a CUDA GPU and a torch build with CUDA; checked without importing torch."""
    if os.environ.get(VISIBLE_VARIABLE, "0").strip() in NONE_VISIBLE or open_gpu("cuda") is None:
        return False
    return torch_has_cuda()


def gpu_count() -> int:
    """Return the number of GPUs that this process can use; 0 for a torch build without CUDA."""
    if not has_gpu():
        return 0
    visible = os.environ.get(VISIBLE_VARIABLE)
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip()])
    found = open_gpu("cuda")
    return found[0].nvmlDeviceGetCount() if found else 0


def gpu_processes(device: str) -> int:
    """Return how many processes compute on a GPU, ``cuda:N``; 0 for other devices and where it is unknown."""
    if (found := open_gpu(device)) is None:
        return 0
    try:
        return len(found[0].nvmlDeviceGetComputeRunningProcesses(found[1]))
    except found[0].NVMLError:
        return 0


def cuda_fault(device: str) -> str:
    """Return why a CUDA device does not exist for this process; empty where it may, and for other devices."""
    if not device.startswith("cuda"):
        return ""
    if os.environ.get(VISIBLE_VARIABLE, "0").strip() in NONE_VISIBLE:
        return f"{VISIBLE_VARIABLE} hides every GPU"
    if not torch_has_cuda():
        return "this torch is built without CUDA"
    return "" if open_gpu(device) or any(map(os.path.exists, DRIVER_FILES)) else "this machine has no NVIDIA driver"


def torch_has_cuda() -> bool:
    torch = importlib.util.find_spec("torch")
    folders = (torch.submodule_search_locations or ()) if torch else ()
    return any(any(Path(folder, "lib").glob(CUDA_LIBRARY)) for folder in folders)


def visible_gpu(number: int, visible: str | None) -> str:
    """Return the machine-wide index or UUID of the GPU with index ``number`` in this process."""
    if visible is None:
        return str(number)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return names[number] if number < len(names) else str(number)
