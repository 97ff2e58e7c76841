"""A league of three Ray nodes that share no disk: learner and exploiter on two, the league on the head, each killed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from echelon.arena.store import Store
from echelon.jobs.ranks import free_port
from echelon.jobs.status import job_status
from echelon.jobs.tickets import PYTHON_MODULE
from echelon.runs import RunPaths
from echelon.telemetry.events import EventAlert, EventLeague
from echelon.telemetry.log import read_events
from tests.jobs.conftest import wait_for as wait_until
from tests.jobs.test_launchers import Ray

pytestmark = pytest.mark.slow

NODES = ("node1", "node2", "node3")
HEAD, LEARNER, EXPLOITER = NODES
TINY = {
    "env.world.size_x": 30, "env.world.size_y": 30, "env.world.size_z": 16, "env.max_episode_seconds": 4.0,
    "num_envs": 3, "bank_maps": 2, "bank_refresh_every": 0, "threads": 1, "device": "cpu", "max_minutes": 0,
    "ppo.rollout_steps": 16, "ppo.tbptt_chunk_length": 8, "ppo.num_minibatches": 2, "eval.every_updates": 0,
    "eval.at_start": False, "eval.report": False, "save_every": 2, "opponents.league.path": "ray",
    "opponents.league.match_opponents": 2, "opponents.league.match_seeds": 1, "opponents.league.refresh_episodes": 30,
    "opponents.league.submit_every_updates": 4, "opponents.league.target_episodes": 10000,
}  # fmt: skip
LIMIT_S = 240.0
ROOT = Path(__file__).resolve().parents[2]


class Nodes(Ray):
    """A head and two nodes, each with a folder of its own that the others cannot see, on which commands run."""

    def __init__(self, root: Path, monkeypatch) -> None:
        self.homes = {node: root.parent / node for node in NODES}
        for home in self.homes.values():
            home.mkdir()
        monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "10")
        super().__init__(root, monkeypatch)

    def begin(self) -> None:
        super().begin()
        self.join(EXPLOITER)

    def on_node(self, node: str, command: list[str]) -> tuple[list[str], dict[str, str]]:
        others = [str(home) for other, home in self.homes.items() if other != node]
        hide = 'while [ "$1" != -- ]; do mount -t tmpfs none "$1" || exit 1; shift; done; shift; exec "$@"'
        command, env = super().on_node(node, ["unshare", "-rm", "sh", "-c", hide, "sh", *others, "--", *command])
        return command, {**env, "ECHELON_HOME": str(self.homes[node])}

    def kill_task(self, name: str) -> bool:
        """Kill the process of a task of this name, on any node; return whether there was one."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if name in " ".join(process.cmdline()) and process.environ().get(self.variable) in NODES:
                    process.kill()
                    return True
        return False

    def run(self, node: str, *words: str) -> str:
        command, env = self.on_node(node, [*PYTHON_MODULE, "echelon_cli.main", *words])
        found = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
        assert found.returncode == 0, found.stderr
        return found.stdout

    def train(self, node: str, *words: str) -> None:
        """Start or resume the run of a node."""
        sets = [word for key, value in TINY.items() for word in ("--set", f"{key}={json.dumps(value).strip(chr(34))}")]
        self.run(node, "train", *words, *([] if "--resume" in words else sets), "--detach")


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'echelon[ray]'")
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("folders cannot be hidden: unshare is refused")
    found = Nodes(tmp_path_factory.mktemp("c", numbered=True) / "ray", monkeypatch)
    yield found
    found.end()


def wait_for(condition):
    return wait_until(condition, LIMIT_S)


def the_run(home: Path) -> RunPaths:
    (found,) = (path.parent for path in home.glob("*/spec.json"))
    return RunPaths(found)


def submitted(run: RunPaths) -> int:
    """Return the update of a run's newest rated snapshot."""
    return max((event.update for event in read_events(run.metrics)[0] if isinstance(event, EventLeague)), default=-1)


def lost(run: RunPaths) -> int:
    """Return the number of a run's alerts that the league is out of reach."""
    events = read_events(run.metrics)[0]
    return sum(isinstance(event, EventAlert) and "out of reach" in event.message for event in events)


def is_playing(home: Path) -> bool:
    """Whether a round of the league is open."""
    with Store(home / "league.db", read_only=True) as store:
        return not all(period.closed for period in store.periods())


def restart(cluster: Nodes, node: str) -> None:
    """Kill a node, start it again, and resume its run there, which goes on."""
    run = the_run(cluster.homes[node])
    cluster.kill_node(node)
    wait_for(lambda: job_status(run).state == "crashed")
    cluster.join(node)
    cluster.train(node, "--resume", "latest")
    before = job_status(run).update
    wait_for(lambda: job_status(run).update > before + 2)


def finish(cluster: Nodes, node: str) -> None:
    """Let the run of a node end soon, which submits its last policy."""
    run = the_run(cluster.homes[node])
    cluster.run(node, "runs", "stop", run.id)
    wait_for(lambda: job_status(run).state == "stopped")
    cluster.train(node, "--resume", "latest", "--set", f"max_updates={job_status(run).update + 2}")
    wait_for(lambda: job_status(run).state == "completed")


def test_league_of_nodes_without_a_common_disk_is_complete_after_each_was_killed(cluster):
    cluster.train(LEARNER, "--preset", "league", "--set", "max_updates=100000")
    learner = the_run(cluster.homes[LEARNER])
    wait_for(lambda: submitted(learner) >= 0)
    target = ["--opponents", "exploiter", "--set", f"opponents.league.target={learner.id}", "--start-from", learner.id]
    cluster.train(EXPLOITER, "--preset", "league", "--set", "max_updates=100000", *target)
    exploiter = the_run(cluster.homes[EXPLOITER])
    wait_for(lambda: job_status(exploiter).update > 4)
    for node in NODES[1:]:
        wait_for(lambda node=node: any("play_part" in name for name in cluster.processes(node)))
        restart(cluster, node)
    for task in ("play_part", "SharedDesk.submit"):
        wait_for(lambda task=task: cluster.kill_task(task))
        before = submitted(learner)
        wait_for(lambda before=before: submitted(learner) > before)

    wait_for(lambda: is_playing(cluster.homes[HEAD]))
    outages = {run: lost(run) for run in (learner, exploiter)}
    cluster.kill_node(HEAD)
    wait_for(lambda: all(lost(run) > outages[run] for run in outages))
    updates = {run: job_status(run).update for run in outages}
    wait_for(lambda: all(job_status(run).update > updates[run] + 2 for run in updates))
    cluster.begin()
    before = submitted(learner)
    wait_for(lambda: submitted(learner) > before)

    for node in (EXPLOITER, LEARNER):
        finish(cluster, node)
    with Store(cluster.homes[HEAD] / "league.db") as store:
        assert all(period.closed for period in store.periods()) and store.recompute() == {}
        assert store.read("SELECT count(*) FROM matches WHERE state <> 'played'")[0][0] == 0
        entries = [entry for entry in store.league().entries.values() if entry.kind != "heuristic"]
    assert len({entry.ckpt_path for entry in entries}) == len(entries)
    assert submitted(learner) == job_status(learner).update and submitted(exploiter) == job_status(exploiter).update
    (found,) = (entry for entry in entries if entry.kind == "exploiter")
    assert found.meta["target"] in {entry.entry_id for entry in entries if entry.meta["run"] == learner.id}
    for node, home in cluster.homes.items():
        for other in cluster.homes.values():
            command, env = cluster.on_node(node, ["ls", str(other)])
            shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
            assert bool(shown) is (home == other), "a node sees its own folder alone"


def test_script_of_a_node_trains_a_league_on_every_node_and_ends_it(tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'echelon[ray]'")
    script, port = ROOT / "examples" / "league_node.sh", free_port()
    sets = [word for key, value in TINY.items() for word in ("--set", f"{key}={json.dumps(value).strip(chr(34))}")]
    env = {**os.environ, "RAY_AUTH_MODE": "disabled", "HEAD": "127.0.0.1", "PORT": str(port), "PYTHON": sys.executable}
    nodes = [
        subprocess.Popen(
            ["bash", str(script), *sets, "--set", f"max_updates={updates}"],
            env={**env, "RANK": str(rank), "ECHELON_HOME": str(tmp_path / f"node{rank}")},
        )
        for rank, updates in enumerate((6, 16))
    ]
    assert [node.wait(LIMIT_S) for node in nodes] == [0, 0]
    with Store(tmp_path / "node0" / "league.db") as store:
        updates = {
            entry.meta["run"]: entry.meta["update"] for entry in store.league().entries.values() if entry.ckpt_path
        }
        assert updates == {"league-0": 6, "league-1": 16} and store.recompute() == {}
    assert not (tmp_path / "node1" / "league.db").exists()
