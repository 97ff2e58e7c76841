"""Launchers: engines that start a supervised command on a host of a cluster, such as ``ray`` or ``slurm``.

A launcher is named with its options in one text, ``slurm:partition=gpu,time=240``. The engine decides on which host and
when a command starts; the run folder, on storage that all hosts share, has everything else. The engines are optional
packages, imported on use.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from echelon.jobs.usage import VISIBLE_VARIABLE

MAX_CHARS = 500
VALUE = re.compile(r"[\w.:/@%+-]+")
"""Value of an option: it becomes a word of a command or a line of a batch script."""
PASSED = re.compile(r"(ECHELON|OMP|MKL|WARP|TORCH|CUDA)_\w+|PYTHONPATH")
"""Environment variables that a command gets from the process that submits it; the engine chooses the GPUs."""
NUMBERS = ("cpus", "gpus", "time", "mem")


class LauncherError(ValueError):
    """A launcher is not installed, cannot be reached, or refuses a command."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A command for one host."""

    name: str
    command: Sequence[str]
    home: Path
    """Runs folder, which all hosts share."""
    cpus: int
    gpus: int
    environment: Mapping[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """Starts commands on hosts and says which of them have not ended."""

    def submit(self, request: Request) -> str:
        """Submit a command and return its handle, by which another process finds it."""
        ...

    def is_active(self, handle: str) -> bool:
        """Whether a command waits or runs; True where the engine does not answer."""
        ...

    def cancel(self, handle: str) -> None:
        """End a command that waits or runs."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Row:
    module: str
    summary: str
    options: Mapping[str, str]
    """Description by option."""


ENGINES: dict[str, _Row] = {
    "ray": _Row(
        module="echelon.jobs.launchers.ray",
        summary="the Jobs API of a Ray cluster",
        options={
            "address": "of its dashboard, http://HEAD:8265; default: a cluster of this host or RAY_ADDRESS",
            "cpus": "cores of a job; default: 1",
            "gpus": "GPUs of a job; default: what its device asks for",
        },
    ),
    "slurm": _Row(
        module="echelon.jobs.launchers.slurm",
        summary="SLURM, through submitit",
        options={
            "partition": "partition", "account": "account", "qos": "quality of service", "constraint": "node features",
            "time": "limit of a job [min]; default: 1440", "mem": "memory of a job [GB]",
            "cpus": "cores of a job; default: 1", "gpus": "GPUs of a job; default: what its device asks for",
        },
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """A launcher with its options."""

    name: str
    options: Mapping[str, str]

    @property
    def cpus(self) -> int:
        """Cores of a job."""
        return int(self.options.get("cpus", 1))

    def gpus(self, device: str, processes: int) -> int:
        """Return the GPUs of a job on a device."""
        return int(self.options.get("gpus", processes if device.startswith("cuda") else 0))


def parse_launcher(text: str) -> Launcher:
    """Return the launcher of ``NAME[:OPTION=VALUE,...]``; ``ValueError`` for other text. Nothing is imported."""
    name, _, rest = text[:MAX_CHARS].partition(":")
    if name not in ENGINES:
        raise ValueError(f"launcher {name[:40]!r} does not exist, expected one of: {', '.join(ENGINES)}")
    options: dict[str, str] = {}
    for word in filter(None, rest.split(",")):
        key, _, value = word.partition("=")
        if key not in ENGINES[name].options:
            expected = ", ".join(ENGINES[name].options)
            raise ValueError(f"launcher {name} has no option {key[:40]!r}, expected one of: {expected}")
        if not VALUE.fullmatch(value) or (key in NUMBERS and not (value.isdecimal() and len(value) < 8)):
            raise ValueError(f"option {key} of launcher {name} is {value[:40]!r}, expected {_expected(key)}")
        options[key] = value
    return Launcher(name=name, options=options)


def _expected(key: str) -> str:
    return "a number" if key in NUMBERS else "letters, digits and . : / @ % + - _"


@lru_cache(maxsize=8)
def open_engine(text: str) -> Engine:
    """Return the engine of a launcher; ``LauncherError`` where its package is missing or it cannot be reached."""
    launcher = parse_launcher(text)
    try:
        return importlib.import_module(ENGINES[launcher.name].module).open_engine(launcher)
    except ImportError as error:
        install = f"pip install 'echelon[{launcher.name}]'"
        raise LauncherError(f"launcher {launcher.name} is not installed ({error}); try: {install}") from None


def passed_environment() -> dict[str, str]:
    """Return the environment variables that a submitted command gets."""
    return {k: v for k, v in os.environ.items() if PASSED.fullmatch(k) and k != VISIBLE_VARIABLE}


def one_line(error: object) -> str:
    """Return the message of an engine's error as one line of bounded length."""
    text: Any = " ".join(str(error).split())
    return text[:MAX_CHARS]
