"""Jobs of ``echelon play`` and ``echelon serve --play``: start a session, wait for it, stop it."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import new_spec
from echelon.jobs.status import job_status
from echelon.play_channel import MAX_SESSIONS
from echelon.runs import RunPaths, create_run, list_runs
from echelon_cli import output
from echelon_cli.job import kept_if_started

READY_TIMEOUT_S = 120.0
"""Longest wait for a session's socket; kernels may be compiled [s]."""
POLL_S = 0.1


class PlayJob:
    """The session of a server: ``paths`` is its run; a crashed one may be replaced."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._is_stopped = False
        self.paths = self._launch()
        self._further: list[RunPaths] = []
        self.announce: Callable[[str], object] = lambda fragment: None
        """Called with the fragment of the address of a session that takes the place of a crashed one."""

    def _launch(self) -> RunPaths:
        from echelon.jobs.launch import launch

        paths = create_run("play")
        with kept_if_started(paths):
            launch(paths, new_spec("play", {"preset": "play", "play": self._options}, {}), KINDS["play"])
        return paths

    def wait(self, further: RunPaths | None = None) -> None:
        """Wait until the session, or a further one, listens; ``ValueError`` in one line where it does not start."""
        paths, deadline = further or self.paths, time.monotonic() + READY_TIMEOUT_S
        while not paths.play_socket.exists():
            status = job_status(paths)
            if not status.is_alive or time.monotonic() > deadline:
                raise ValueError(f"session {paths.id!r} did not start: {status.reason or 'it does not answer'}")
            time.sleep(POLL_S)

    def another(self) -> RunPaths:
        """Start a further session, which ends after its pilot, and return it once it listens."""
        if sum(job_status(run).is_alive for run in list_runs(kind="play")) >= MAX_SESSIONS:
            raise ValueError(f"{MAX_SESSIONS} people fly here, as many as can; try again when one has left")
        paths = self._launch()
        self._further.append(paths)
        self.wait(paths)
        return paths

    def revive(self, paths: RunPaths) -> RunPaths | None:
        """Start another session in place of a crashed one and return its run, None where it did not crash."""
        if self._is_stopped or job_status(paths).state not in ("crashed", "failed"):
            return None
        with contextlib.suppress(OSError):
            paths.play_socket.unlink()
        self.paths = self._launch()
        self.wait()
        self.announce(fragment_of_session(self.paths))
        return self.paths

    def stop(self) -> None:
        from echelon.jobs import control

        self._is_stopped = True
        for paths in (self.paths, *self._further):
            with contextlib.suppress(OSError, ValueError):
                if job_status(paths).is_alive:
                    control.request_stop(paths)


@contextlib.contextmanager
def play_session(options: Mapping[str, Any], *, quiet: bool) -> Iterator[PlayJob]:
    """Start a session and yield it once it listens; it is stopped at the end.

    ``ValueError`` in one line where it does not start.
    """
    job = PlayJob(options)
    try:
        with output.waiting("starting the session", quiet=quiet):
            job.wait()
        yield job
    finally:
        job.stop()


def fragment_of_session(paths: RunPaths) -> str:
    """Return the fragment of an address that joins a session; browsers send it to no server."""
    from echelon.play_channel import read_token

    return f"#play={read_token(paths)}"
