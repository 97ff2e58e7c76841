"""A task of a SLURM job step: ``srun python -m echelon.jobs.slurm RUN [--preset NAME] [--set KEY=VALUE]``.

Every task of the step is one rank of a training run in a shared folder (``examples/train.sbatch``). The first task
writes the spec of a new run; a run that exists resumes from its newest checkpoint. SLURM's variables become those of
torchrun, by which a training process knows its rank.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.jobs import worker
from echelon.jobs.config_layers import parse_assignment, resolve
from echelon.jobs.leave import leave
from echelon.jobs.spec import new_spec, write_spec
from echelon.runs import RunPaths

FIRST_PORT, PORTS = 20_000, 10_000
SPEC_LIMIT_S, POLL_S = 300.0, 0.5
"""Longest wait for the spec that the first task writes, and time between checks [s]."""


def rank_environment(slurm: Mapping[str, str], head: str) -> dict[str, str]:
    """Return torchrun's variables for a task; ``ValueError`` outside a job step."""
    names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID")
    if missing := [name for name in names if not slurm.get(name, "").isdigit()]:
        raise ValueError(f"{missing[0]} is {slurm.get(missing[0], '')!r}, expected a number; start this with srun")
    rank, size, local, job = (slurm[name] for name in names)
    nodes = int(slurm.get("SLURM_NNODES") or 1)
    if int(size) % nodes:
        raise ValueError(f"SLURM_NTASKS is {size}, expected a multiple of the {nodes} nodes; try --ntasks-per-node")
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": str(int(size) // nodes),
        "MASTER_ADDR": head,
        "MASTER_PORT": str(FIRST_PORT + int(job) % PORTS),
    }


def head_node(nodes: str) -> str:
    command = ["scontrol", "show", "hostnames", nodes]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def prepare(paths: RunPaths, preset: str, assignments: Sequence[str]) -> None:
    overrides = dict(parse_assignment(text) for text in assignments)
    resolved = resolve(preset, None, overrides)
    paths.root.mkdir(parents=True, exist_ok=True)
    write_spec(paths, new_spec("train", resolved.nested(), resolved.provenance))


def await_spec(paths: RunPaths, limit_s: float = SPEC_LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not paths.spec.exists():
        if time.monotonic() > deadline:
            raise ValueError(f"{paths.spec} did not appear in {limit_s:.0f} s, expected it from the first task")
        time.sleep(POLL_S)


def main(argv: Sequence[str] | None = None) -> int:
    """Train as one rank; return 0 if the run is completed or stopped with a checkpoint, else 1."""
    parser = argparse.ArgumentParser(prog="echelon.jobs.slurm")
    parser.add_argument("run", type=Path, help="run folder, on a file system that all nodes share")
    parser.add_argument("--preset", default="gpu", help="preset of a new run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="option of a new run")
    options = parser.parse_args(argv)
    paths = RunPaths(options.run)
    try:
        os.environ.update(rank_environment(os.environ, head_node(os.environ.get("SLURM_JOB_NODELIST", ""))))
        if worker.rank() == 0 and not paths.spec.exists():
            prepare(paths, options.preset, options.set)
        await_spec(paths)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return worker.FAILED
    return worker.start([str(paths.root), "--resume", "latest"])


if __name__ == "__main__":
    leave(main())
