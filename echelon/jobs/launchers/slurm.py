"""Jobs of SLURM, submitted and watched by submitit, whose files lie in ``.submitit`` of the runs folder."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from echelon.jobs.launchers import Launcher, LauncherError, Request, one_line

submitit = importlib.import_module("submitit")

FOLDER = ".submitit"
ASK_S = 30.0
"""Least time between two questions about the jobs of the cluster [s]."""
DEFAULT_MINUTES = 1440
WARNING_S = 300
"""Time before the limit of a job at which it is asked to save and end [s]."""
WORDS = ("partition", "account", "qos", "constraint")
"""Options that SLURM takes as they are."""


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command on the host of a job and return its exit code.

    Before the time limit SLURM sends SIGUSR2, maybe to every process of the job: they ignore it, and the command gets
    SIGTERM instead, upon which a supervisor lets its job save.
    """
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    child = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGUSR2, lambda *_: child.terminate())
    return child.wait()


class SlurmEngine:
    """The jobs of one user."""

    def __init__(self, launcher: Launcher) -> None:
        self._options = launcher.options
        self._asked_at = -ASK_S

    def submit(self, request: Request) -> str:
        options = self._options
        parameters = {name: options[name] for name in WORDS if name in options}
        if "mem" in options:
            parameters["mem"] = f"{options['mem']}GB"
        try:
            executor = submitit.SlurmExecutor(request.home / FOLDER)
            executor.update_parameters(
                job_name=request.name,
                time=int(options.get("time", DEFAULT_MINUTES)),
                cpus_per_task=request.cpus,
                signal_delay_s=WARNING_S,
                **({"gpus_per_node": request.gpus} if request.gpus else {}),
                **parameters,
            )
            job = executor.submit(run_command, tuple(request.command), dict(request.environment))
        except (
            submitit.core.utils.FailedSubmissionError,
            RuntimeError,
            OSError,
            ValueError,
            subprocess.SubprocessError,
        ) as error:
            raise LauncherError(f"slurm refuses {request.name!r}: {one_line(error)}") from None
        return str(job.job_id)

    def is_active(self, handle: str) -> bool:
        watcher = submitit.SlurmJob.watcher
        watcher.register_job(handle)
        is_due = time.monotonic() - self._asked_at >= ASK_S
        if is_due:
            self._asked_at = time.monotonic()
        return not watcher.is_done(handle, mode="force" if is_due else "cache")

    def cancel(self, handle: str) -> None:
        try:
            submitit.SlurmJob(FOLDER, handle).cancel()
        except (OSError, subprocess.SubprocessError) as error:
            raise LauncherError(f"slurm does not cancel job {handle}: {one_line(error)}") from None


def open_engine(launcher: Launcher) -> SlurmEngine:
    """Return the engine of this host's SLURM."""
    return SlurmEngine(launcher)
