"""Facts about a process that trains: what it is about to do, with which versions, and how much memory it took."""

from __future__ import annotations

import platform
import resource
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

import torch

from echelon.telemetry.events import EventStart
from echelon.training.session import Session

VERSIONS = ("echelon", "torch", "warp-lang", "numpy")


def start_event(s: Session, resumed: str) -> EventStart:
    """Return the record of a session about to train; ``resumed`` names the checkpoint it goes on from, if any."""
    return EventStart(
        device=str(s.device),
        seed=s.config.seed,
        preset=s.config.preset,
        start_update=s.counters.update,
        total_steps=s.config.total_steps,
        max_minutes=s.config.max_minutes,
        global_step=s.counters.global_step,
        episodes=s.counters.episodes,
        obs_dim=s.env.obs_dim,
        action_dim=s.env.action_dim,
        parameters=sum(p.numel() for p in s.policy.parameters()),
        num_envs=s.env.num_envs * s.world.size,
        rows=s.env.rows * s.world.size,
        threads=s.threads * s.world.size,
        rollout_steps=s.config.ppo.rollout_steps,
        run_dir="" if s.run_dir is None else str(s.run_dir),
        resume=resumed,
        versions=_versions(),
        config=asdict(s.config),
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def peak_memory_mb() -> float:
    """Return the largest resident memory of this process [MiB]."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def device_memory_mb(device: torch.device) -> float:
    """Return the largest accelerator memory so far [MiB]; 0 on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else 0.0
