"""A storm of kills, stops and full disks over a trainer, two arena jobs on one league, and a server.

``python -m tests.reliability.storm --disturbances 300``: every wave disturbs fresh jobs until they are complete and
compares them with undisturbed ones; waves follow until the number is reached. Prints a JSON object and exits with 1
where something was lost or differs.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from echelon.arena.config import ArenaConfig
from echelon.arena.store import ENV_SETTING, Store, league_path
from echelon.jobs import control
from echelon.jobs.kinds import KINDS, JobKind
from echelon.jobs.launch import LaunchError, launch, remove, stop
from echelon.jobs.process import send_signal
from echelon.jobs.spec import JobSpec
from echelon.jobs.status import job_status
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import latest_valid, open_checkpoint
from echelon.runs import RunPaths, create_run, read_json
from echelon.server.app import SERVER_FILE
from echelon.telemetry.events import EventAlert, EventUpdate
from echelon.telemetry.log import read_events
from tests.arena.policy_files import SMALL
from tests.jobs.conftest import fill_disk, process_identity, small_disk, wait_for
from tests.jobs.stand_ins import SLOW

DISK = f"size={64 << 20}"
LEVELS = ("trivial", "easy", "medium")
UPDATES, PAUSE_S = 30, 0.15
ARENA = ArenaConfig(rounds=2, seeds=1, envs=4, threads=1, record_share=0.5, most_upsets=0)
WAVE_LIMIT_S = 900.0
CALM_S = (0.1, 1.5)
MAX_PAUSE_S, MAX_FULL_S = 2.0, 3.0
COMPARED = ("update", "global_step", "episodes", "avg_return", "pg_loss", "vf_loss", "entropy", "grad_norm")


class Wave:
    """The jobs of one home, and what disturbs them."""

    def __init__(self, home: Path, rng: random.Random, full_disks: bool) -> None:
        self.home, self.rng, self.full_disks = home, rng, full_disks
        self.done: Counter[str] = Counter()
        self.next: list[str] = []
        with Store(league_path(home)) as store:
            store.init_setting(ENV_SETTING, asdict(SMALL))
            with store.editing() as league:
                for level in LEVELS:
                    league.add_scripted(level)
        spec = JobSpec(kind="train", config={"updates": UPDATES, "pause_s": PAUSE_S, "preset": "storm"})
        self.jobs: dict[str, tuple[RunPaths, JobSpec, JobKind]] = {"trainer": (create_run("storm", home), spec, SLOW)}
        for number in range(2):
            config = {"arena": {**asdict(ARENA), "seed": number}, "preset": "arena"}
            run = RunPaths(home / f"arena-{number}")
            run.root.mkdir()
            self.jobs[f"arena-{number}"] = (run, JobSpec(kind="arena", config=config), KINDS["arena"])
        self.server: subprocess.Popen[bytes] | None = None

    def start_ended(self) -> bool:
        """Start every job that is not running or complete; return whether all are complete."""
        states = []
        for paths, spec, kind in self.jobs.values():
            state = job_status(paths).state if paths.spec.exists() else ""
            states.append(state)
            if not state or not (job_status(paths).is_alive or state == "completed"):
                with contextlib.suppress(LaunchError):  # a full disk, or an orphan that is still ending
                    launch(paths, spec, kind, ("--resume", "latest") if state else ())
        if self.server is None or self.server.poll() is not None:
            argv, quiet = [sys.executable, "-m", "echelon_cli.main", "serve"], subprocess.DEVNULL
            environment = {**os.environ, "ECHELON_HOME": str(self.home)}
            self.server = subprocess.Popen(argv, env=environment, stdout=quiet, stderr=quiet)
        return all(state == "completed" for state in states)

    def disturb(self) -> None:
        """Disturb once; every kind has its turn before one is repeated."""
        self.next = self.next or self.rng.sample(list(DISTURBANCES), k=len(DISTURBANCES))
        name = self.next.pop()
        if name != "full disk" or self.full_disks:
            DISTURBANCES[name](self)
            self.done[name] += 1

    def paths(self) -> RunPaths:
        return self.rng.choice(list(self.jobs.values()))[0]

    def signal(self, number: int) -> Callable[[], object]:
        """Signal a random process of a random job; return a function that continues it."""
        paths = self.paths()
        identity = process_identity(paths, self.rng.choice(["worker", "supervisor"]))
        send_signal(identity, number, paths)
        return lambda: send_signal(identity, signal.SIGCONT, paths)

    def pause(self) -> None:
        resume = self.signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(0, MAX_PAUSE_S))
        resume()

    def fill_disk(self) -> None:
        filler = fill_disk(self.home)
        time.sleep(self.rng.uniform(0, MAX_FULL_S))
        filler.unlink()

    def stop_while_saving(self) -> None:
        paths = self.paths()
        with contextlib.suppress(OSError):
            control.request_checkpoint(paths)
            time.sleep(self.rng.uniform(0, 0.2))
            stop(paths, now=self.rng.random() < 0.3)

    def remove_while_running(self) -> None:
        paths = self.paths()
        if job_status(paths).is_alive:
            with pytest.raises(ValueError):
                remove(paths)

    def kill_server(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.wait()

    def close(self) -> None:
        self.kill_server()
        for paths, _, _ in self.jobs.values():
            for name in ("supervisor", "worker"):
                send_signal(process_identity(paths, name), signal.SIGKILL, paths, group=True)


DISTURBANCES: dict[str, Callable[[Wave], object]] = {
    "kill": lambda wave: wave.signal(signal.SIGKILL),
    "pause": Wave.pause,
    "full disk": Wave.fill_disk,
    "stop while saving": Wave.stop_while_saving,
    "remove while running": Wave.remove_while_running,
    "kill server": Wave.kill_server,
}


def run_wave(wave: Wave, disturbances: int) -> None:
    """Disturb the jobs of a wave until they are complete, at most ``disturbances`` times."""
    deadline = time.monotonic() + WAVE_LIMIT_S
    while not wave.start_ended():
        assert time.monotonic() < deadline, {name: job_status(p) for name, (p, _, _) in wave.jobs.items()}
        time.sleep(wave.rng.uniform(*CALM_S))
        if wave.done.total() < disturbances:
            wave.disturb()


def outcome(wave: Wave) -> dict[str, Any]:
    """Return what must be equal: records and checkpoints of the trainer, matches of each arena job."""
    run = wave.jobs["trainer"][0]
    events, _ = read_events(run.metrics)
    updates = [[getattr(event, name) for name in COMPARED] for event in events if isinstance(event, EventUpdate)]
    saved = {}
    for path in run.checkpoints.glob("step-*"):
        checkpoint = open_checkpoint(path)
        files = checkpoint.manifest["files"]
        saved[path.name] = [files[name]["sha256"] for name in sorted(files) if name.endswith(".safetensors")]
    newest = latest_valid(run.checkpoints).checkpoint
    with Store(league_path(wave.home)) as store:
        columns = "job, round, number, blue, red, seed, state, winner, hp_blue, hp_red, score_blue, score_red, seconds"
        rows = store.read(
            f"SELECT {columns} FROM matches JOIN periods ON period = periods.id ORDER BY job, round, number"
        )
        changed = store.recompute()
        recorded = "SELECT job || '/' || replay FROM matches JOIN periods ON period = periods.id WHERE replay <> ''"
        replays = [row[0] for row in store.read(recorded)]
    for replay in replays:
        with Replay(wave.home / replay) as opened:
            assert opened.complete, f"replay {replay} is not complete"
    return {
        "updates": json.dumps(updates),
        "checkpoints": saved,
        "newest": newest.path.name if newest else "",
        "matches": [tuple(row) for row in rows],
        "ratings that replaying changes": changed,
        "alerts": [event.message for event in events if isinstance(event, EventAlert)],
    }


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return a line for everything that was lost or differs."""
    wrong = [f"{name} differ" for name in ("updates", "newest", "matches") if found[name] != expected[name]]
    wrong += [f"rating of {name} is not that of its matches" for name in found["ratings that replaying changes"]]
    for name, hashes in expected["checkpoints"].items():
        if name not in found["checkpoints"]:
            if not any(repr(name) in alert for alert in found["alerts"]):
                wrong.append(f"{name} is missing and no alert names it")
        elif found["checkpoints"][name] != hashes:
            wrong.append(f"{name} differs")
    return wrong


def check_server(home: Path) -> None:
    def is_healthy() -> bool:
        url = (read_json(home / SERVER_FILE) or {}).get("url", "")
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"{url}api/v1/healthz", timeout=5) as reply,
        ):
            return reply.status == 200
        return False

    wait_for(is_healthy, 30.0, lambda: "the server does not answer")


def play(folder: Path, seed: int, disturbances: int) -> tuple[Counter[str], dict[str, Any]]:
    """Play one wave in ``folder``; return its disturbances by name, and its outcome."""
    folder.mkdir()
    with small_disk(folder, DISK) as mounted:
        wave = Wave(folder, random.Random(seed), mounted)
        try:
            run_wave(wave, disturbances)
            wave.start_ended()
            check_server(folder)
            return wave.done, outcome(wave)
        finally:
            wave.close()


def storm(disturbances: int, seed: int) -> dict[str, Any]:
    """Play waves until the number of disturbances is reached; return counts and differences."""
    done, wrong = Counter[str](), list[str]()
    began, waves = time.monotonic(), 0
    with TemporaryDirectory(prefix="echelon-storm-") as name:
        _, expected = play(Path(name) / "calm", seed, 0)
        while done.total() < disturbances:
            waves += 1
            more, found = play(Path(name) / f"wave-{waves}", seed + waves, disturbances - done.total())
            done += more
            wrong += [f"wave {waves}: {line}" for line in differences(found, expected)]
            print(f"wave {waves}: {dict(more)}", file=sys.stderr, flush=True)
    return {
        "disturbances": dict(done), "waves": waves, "wrong": wrong,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--disturbances", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = storm(options.disturbances, options.seed)
    print(json.dumps(result, indent=1))
    return bool(result["wrong"])


if __name__ == "__main__":
    sys.exit(main())
