"""Jobs of ``echelon play`` and ``echelon serve --play``: start a session, wait for it, stop it."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from echelon_cli import output

if TYPE_CHECKING:
    from echelon.runs import RunPaths

READY_TIMEOUT_S = 120.0
"""Longest wait for a session's socket; kernels may be compiled [s]."""
POLL_S = 0.1


@contextlib.contextmanager
def play_session(options: Mapping[str, Any], *, quiet: bool) -> Iterator[RunPaths]:
    """Start a session and yield its run once it listens; it is stopped at the end.

    ``ValueError`` in one line where it does not start.
    """
    from echelon.jobs import control
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.launch import launch
    from echelon.jobs.spec import new_spec
    from echelon.jobs.status import job_status
    from echelon.runs import create_run

    paths = create_run("play")
    try:
        launch(paths, new_spec("play", {"preset": "play", "play": dict(options)}, {}), KINDS["play"])
    except ValueError:
        with contextlib.suppress(OSError):
            shutil.rmtree(paths.root)
        raise
    try:
        with output.waiting("starting the session", quiet=quiet):
            deadline = time.monotonic() + READY_TIMEOUT_S
            while not paths.play_socket.exists():
                status = job_status(paths)
                if not status.is_alive or time.monotonic() > deadline:
                    raise ValueError(f"session {paths.id!r} did not start: {status.reason or 'it does not answer'}")
                time.sleep(POLL_S)
        yield paths
    finally:
        with contextlib.suppress(OSError, ValueError):
            if job_status(paths).is_alive:
                control.request_stop(paths)


def fragment_of_session(paths: RunPaths) -> str:
    """Return the fragment of an address that joins a session; browsers send it to no server."""
    from echelon.play_channel import read_token

    return f"#play={read_token(paths)}"
