"""The device of a training process: its choice, determinism and memory cache."""

from __future__ import annotations

import os

import torch
import warp as wp

from echelon.sim.backend import start_warp


def resolve_device(name: str, local_rank: int = 0, local_size: int = 1) -> torch.device:
    """Return the device for ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    With several ranks on one machine each takes a separate CUDA device. Raises ``ValueError`` if there is none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}, expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but this machine has no CUDA device; try cpu")
    if device.type == "cuda" and local_size > 1:
        if local_size > torch.cuda.device_count():
            raise ValueError(f"nproc is {local_size}, but there are {torch.cuda.device_count()} CUDA devices")
        return torch.device("cuda", local_rank)
    return device


def free_memory(name: str) -> int | None:
    """Return the free memory of the CUDA device that ``resolve_device`` chooses [B], None for a CPU."""
    if name == "cpu" or not torch.cuda.is_available():
        return None
    local_rank, local_size = (int(os.environ.get(f"LOCAL_{part}") or 0) for part in ("RANK", "WORLD_SIZE"))
    return int(torch.cuda.mem_get_info(resolve_device(name, local_rank, local_size))[0])


def set_determinism(device: torch.device, deterministic: bool) -> None:
    """Allow only deterministic operations, or let cuDNN search for its fastest kernels; make ``device`` current."""
    torch.use_deterministic_algorithms(deterministic)
    if device.type != "cuda":
        return
    if device.index is not None:
        torch.cuda.set_device(device)  # streams and graphs belong to the current device
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.deterministic = deterministic
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def share_stream(device: torch.device | str) -> None:
    """Let Warp work on torch's current stream of a CUDA ``device``, so that each sees what the other has queued."""
    chosen = torch.device(device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda":
        start_warp()
        stream = wp.stream_from_torch(torch.cuda.current_stream(chosen))
        wp.set_stream(stream, stream.device, sync=True)


def release_cache(device: torch.device, update: int, every: int) -> None:
    """Release unused CUDA memory every ``every`` updates; 0 never does."""
    if device.type == "cuda" and every and update % every == 0:
        torch.cuda.empty_cache()
