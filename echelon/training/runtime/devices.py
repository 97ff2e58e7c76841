"""The device of a training process: which one, how exact, and memory that it does not need."""

from __future__ import annotations

import os

import torch


def resolve_device(name: str, local_rank: int = 0, local_size: int = 1) -> torch.device:
    """Return the device that ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` means here.

    Of several processes on one machine each takes a CUDA device of its own.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}, wanted auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but there is no CUDA device here")
    if device.type == "cuda" and local_size > 1:
        if local_size > torch.cuda.device_count():
            raise ValueError(f"nproc is {local_size}, but there are {torch.cuda.device_count()} CUDA devices here")
        return torch.device("cuda", local_rank)
    return device


def set_determinism(device: torch.device, deterministic: bool) -> None:
    """Let cuDNN search for its fastest kernels, or allow only what gives the same bits every time."""
    torch.use_deterministic_algorithms(deterministic)
    if device.type != "cuda":
        return
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.deterministic = deterministic
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def release_cache(device: torch.device, update: int, every: int) -> None:
    """Give unused CUDA memory back after every so many updates; 0 never does."""
    if device.type == "cuda" and every and update % every == 0:
        torch.cuda.empty_cache()
