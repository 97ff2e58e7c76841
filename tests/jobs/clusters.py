"""Clusters of two nodes on this machine: SLURM's stand-in and Ray, one of whose nodes a test kills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from echelon.jobs import launchers
from echelon.jobs.process import identity_from
from echelon.jobs.ranks import free_port
from echelon.runs import RunPaths, read_json
from tests.jobs import fake_slurm

VICTIM = "node2"
ASK_S = 0.3


def ask_often() -> None:
    launchers.SLURM_ASK_S = ASK_S


def environ(pid: int) -> dict[str, str]:
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}


class Slurm:
    """The stand-in with two slots on each node."""

    text = "slurm:time=10"
    variable = fake_slurm.NODE_VARIABLE

    def __init__(self, root: Path, monkeypatch) -> None:
        self._cluster = fake_slurm.Cluster(root, slots=2)
        self._cluster.install(monkeypatch)
        ask_often()

    def kill_node(self) -> None:
        self._cluster.kill_node(VICTIM)

    def end(self) -> None:
        self._cluster.end()


class Ray:
    """A head and a second node, with two cores each."""

    variable = "TEST_RAY_NODE"

    def __init__(self, root: Path, monkeypatch) -> None:
        port, dashboard = free_port(), free_port()
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
        head = [f"--port={port}", "--head", f"--dashboard-port={dashboard}", f"--temp-dir={root}"]
        try:
            self._start("node1", *head)
            self._start(VICTIM, f"--address=127.0.0.1:{port}")
        except BaseException:
            self.end()
            raise
        self.text = f"ray:address=http://127.0.0.1:{dashboard}"

    def _start(self, node: str, *options: str) -> None:
        """Start a node; on a busy machine the limits of Ray's start may be exceeded, so it is tried again."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=2", *options]
        limits = ["--object-store-memory=100000000", "--disable-usage-stats"]
        env = {**os.environ, self.variable: node, "RAY_health_check_failure_threshold": "2"}
        for _ in range(3):
            if subprocess.run([*command, *limits], env=env, capture_output=True, timeout=180).returncode == 0:
                return
        raise RuntimeError(f"{node} of Ray does not start")

    def kill_node(self) -> None:
        for _ in range(2):
            self._kill(lambda node: node == VICTIM)

    def end(self) -> None:
        for _ in range(2):
            self._kill(bool)

    def _kill(self, matches: Callable[[str], bool]) -> None:
        for process in psutil.process_iter():
            if process.pid != os.getpid() and matches(environ(process.pid).get(self.variable, "")):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)


CLUSTERS = {"slurm": ("submitit", Slurm), "ray": ("ray", Ray)}


def works_on_victim(cluster, run: RunPaths) -> bool:
    """Whether the process of a run works on the node to be killed."""
    trainer = identity_from((read_json(run.processes) or {}).get("trainer"))
    return trainer is not None and environ(trainer.pid).get(cluster.variable) == VICTIM
