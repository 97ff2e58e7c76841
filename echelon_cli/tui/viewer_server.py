"""The replay server behind the dashboard: one that already serves these runs, or one that ends with the dashboard."""

import contextlib
import json
import os
import select
import subprocess
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from echelon.files import error_text
from echelon.jobs.tickets import PYTHON_MODULE
from echelon.runs import HOME_VARIABLE, RunPaths, match_id

START_LIMIT_S = 20.0
END_LIMIT_S = 3.0


@dataclass(frozen=True)
class ViewerAddress:
    """The address of a match in the viewer, or why there is none."""

    url: str = ""
    tunnel: str = ""
    """The ssh command that forwards the server's port to another machine; empty where none is needed."""
    opened: bool = False
    """Whether a browser was asked to open it."""
    problem: str = ""


class ViewerServer:
    """Starts the replay server when a match is opened. Blocking; called in a thread."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._process: subprocess.Popen[str] | None = None

    def open(self, match: str) -> ViewerAddress:
        """Return the address of a match, and open it in a browser where this machine has one."""
        from echelon.server.app import running_server
        from echelon_cli.commands.serve import browser_here, tunnel_to

        try:
            base = running_server(self.home) or self._start()
        except (OSError, ValueError) as error:
            return ViewerAddress(problem=error_text(error))
        url = f"{base}#match={match}"
        opened = browser_here() and webbrowser.open(url)
        return ViewerAddress(url, tunnel_to(url), opened)

    def open_replay(self, run: str, name: str) -> ViewerAddress:
        """Return the address of the match in replay file ``name`` of a run, and open it as ``open`` does."""
        if not (RunPaths(self.home / run).replays / name).is_file():
            return ViewerAddress(problem=f"replay {name!r} of run {run!r} no longer exists")
        return self.open(match_id(run, name))

    def _start(self) -> str:
        """Start a server and return its address; ``ValueError`` with the reason where it does not start."""
        self.close()
        self._process = subprocess.Popen(
            [*PYTHON_MODULE, "echelon_cli.main", "serve", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, HOME_VARIABLE: str(self.home)},
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_LIMIT_S)
        line = self._process.stdout.readline() if ready else ""
        try:
            return str(json.loads(line)["url"])
        except (ValueError, KeyError):
            self._process.kill()
            errors = self._process.stderr.read().strip().splitlines()
            raise ValueError(errors[-1] if errors else "the replay server did not start; try: echelon serve") from None

    def close(self) -> None:
        """Stop the server started here; one that was already running stays."""
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
        if self._process.poll() is None:
            self._process.kill()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._process = None
