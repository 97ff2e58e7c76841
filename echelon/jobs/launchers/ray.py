"""Jobs of a Ray cluster: each command is a job of Ray's Jobs API, which outlives the process that submitted it."""

from __future__ import annotations

import importlib
import shlex
import time
from typing import Any

from echelon.jobs.launchers import Launcher, LauncherError, Request, one_line

_api = importlib.import_module("ray.job_submission")

ASK_S = 2.0
"""Least time between two questions about the jobs of the cluster [s]."""


class RayEngine:
    """The jobs of one cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._asked_at = -ASK_S
        self._active: frozenset[str] | None = None
        """Handles of the jobs that wait or run; None where the cluster did not answer."""

    def submit(self, request: Request) -> str:
        try:
            handle = self._client.submit_job(
                entrypoint=f"exec {shlex.join(request.command)}",
                entrypoint_num_cpus=request.cpus,
                entrypoint_num_gpus=request.gpus or None,
                runtime_env={"env_vars": dict(request.environment)},
                metadata={"run": request.name},
            )
        except (RuntimeError, OSError) as error:
            raise LauncherError(f"ray refuses {request.name!r}: {one_line(error)}") from None
        self._asked_at = -ASK_S
        return str(handle)

    def is_active(self, handle: str) -> bool:
        if time.monotonic() - self._asked_at >= ASK_S:
            self._asked_at = time.monotonic()
            self._active = self._list()
        return self._active is None or handle in self._active

    def _list(self) -> frozenset[str] | None:
        try:
            found = self._client.list_jobs()
        except (RuntimeError, OSError):
            return None
        going = (_api.JobStatus.PENDING, _api.JobStatus.RUNNING)
        return frozenset(str(job.submission_id) for job in found if job.status in going)

    def cancel(self, handle: str) -> None:
        try:
            self._client.stop_job(handle)
        except (RuntimeError, OSError) as error:
            raise LauncherError(f"ray does not stop job {handle}: {one_line(error)}") from None


def open_engine(launcher: Launcher) -> RayEngine:
    """Return the engine of the cluster at the launcher's address; ``LauncherError`` where it does not answer."""
    address = launcher.options.get("address")
    try:
        return RayEngine(_api.JobSubmissionClient(address))
    except (RuntimeError, OSError, ValueError) as error:
        raise LauncherError(f"ray at {address or 'this host'} cannot be reached: {one_line(error)}") from None
