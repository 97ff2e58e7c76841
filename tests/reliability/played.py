"""Protocols that the simulator plays, and the server: a training run, an arena round, a recording, a session.

``PREPARE`` writes what a protocol finds in its folder; it runs once and its operations do not fail.
"""

import asyncio
import ctypes
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from echelon.arena.config import ArenaConfig
from echelon.arena.store import ENV_SETTING, Store, league_path
from echelon.config import EnvConfig, EvalConfig
from echelon.config.presets import get_preset
from echelon.jobs import worker
from echelon.jobs.spec import JobSpec, write_spec
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import latest_valid
from echelon.runs import RunPaths
from tests.reliability.protocols import protocol, train
from tests.reliability.recorder import mark
from tests.reliability.test_crash_states import CHECKS, check_records, check_replay_files, values
from tests.replay.synthetic import write_match

ARENA_JOB = "arena"
LEVELS = ("trivial", "easy")
RUN, WHOLE, GROWING = "20260101-000000-quickstart-calm-otter", "whole.ecr", "growing.ecr"
ATTEMPTS = 3
"""Number of requests of one address, of which the last one must succeed unless operations keep failing."""
PAUSE_S, WAIT_S = 0.05, 30.0


def launch_directly() -> None:
    """Let simulators launch their kernels one by one: capturing graphs takes most of a case, and opens no file."""
    import warp as wp

    from echelon.sim.backend import Backend

    def capture(backend: Backend, program: Any) -> Callable[[], None]:
        backend.load(program)
        commands = [
            wp.launch(launch.kernel, dim=dims, inputs=values, device=backend.device, record_cmd=True)
            for shard in backend.shards
            for launch in program
            for dims, values in [backend.bind(launch, shard)]
            if all(dims)
        ]
        return lambda: [command.launch() for command in commands].clear()

    Backend.capture = capture


def tiny_env() -> EnvConfig:
    env = get_preset("quickstart").env
    return replace(env, world=replace(env.world, size_x=30, size_y=30, size_z=16), max_episode_seconds=1.0)


@protocol
def training(root: Path) -> None:
    """Train quickstart, reduced to two updates, with an evaluation that is recorded and becomes the best."""
    preset = get_preset("quickstart")
    config = replace(
        preset,
        num_envs=2, bank_maps=1, threads=1, device="cpu", total_steps=10**6, max_updates=2, max_minutes=0.0,
        save_every=1, env=tiny_env(), model=replace(preset.model, hidden_dim=8, lstm_hidden_dim=8),
        ppo=replace(preset.ppo, rollout_steps=4, tbptt_chunk_length=4, num_minibatches=1),
        eval=EvalConfig(seeds=1, every_updates=2, at_start=False, heat_cells=4),
    )  # fmt: skip
    train(root, config)


def prepare_arena(root: Path) -> None:
    """A league of two levels, and the spec of a job."""
    with Store(league_path(root)) as store:
        store.init_setting(ENV_SETTING, asdict(tiny_env()))
        with store.editing() as league:
            for level in LEVELS:
                league.add_scripted(level)
    config = ArenaConfig(rounds=1, seeds=1, envs=1, threads=1, record_share=0.5, most_upsets=0)
    paths = RunPaths(root / ARENA_JOB)
    paths.root.mkdir()
    write_spec(paths, JobSpec(kind="arena", config={"arena": asdict(config), "preset": "arena"}))


@protocol
def arena(root: Path) -> None:
    """Play a round of the league as a job does, half of its matches recorded."""
    from echelon.jobs import arena_worker

    if worker.main([str(root / ARENA_JOB)], work=arena_worker.work, phase="playing") != worker.COMPLETED:
        raise SystemExit(worker.FAILED)
    mark("ended")


@protocol
def recording(root: Path) -> None:
    """Record two matches, one after the other, with everything that a policy sees."""
    from echelon.arena.contest import Contest, MatchSession
    from echelon.arena.match_runner import play

    contest = Contest(env=tiny_env(), pilots=LEVELS, matches=2)
    session = MatchSession(
        envs=1, threads=1, folder=root / "replays", record=frozenset(range(2)), policy_columns=True
    )  # fmt: skip
    for result in play(contest.plan, contest.pairings(), session):
        mark(f"match {result.pairing.number} {result.record.winner} {result.record.length}")
    for path in session.replays.values():
        mark(f"replay {path.name}")
    for error in session.recording_errors:
        print(error)
    mark("ended")


def prepare_server(root: Path) -> None:
    replays = root / RUN / "replays"
    write_match(replays / WHOLE, 2, worlds=replays / "worlds")
    (root / RUN / "spec.json").write_text("{}")
    with Store(league_path(root)) as store, store.editing() as league:
        league.add_scripted(LEVELS[0])


@protocol
def server(root: Path) -> None:
    """Start a server, ask it for everything, wait for a live notice, and stop it."""
    from echelon.server import app, catalogue, live, routes

    catalogue.SCAN_INTERVAL_S = routes.SCAN_INTERVAL_S = live.POLL_S = 0.01
    # a match being played, written through a name outside the folder, where no operation fails
    (root.parents[1] / GROWING).unlink(missing_ok=True)
    growth = write_match(root.parents[1] / GROWING, 3, run="growing")
    with Replay(growth) as replay:
        first = replay.chunks[0]
    data, faults = growth.read_bytes(), []
    os.truncate(growth, first.offset + first.length)
    os.link(growth, root / RUN / "replays" / GROWING)

    def ask(access: Any) -> None:
        try:
            asyncio.run(visit(app.address(access), growth, data))
        except BaseException as error:
            faults.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        app.serve(root, port=0, ready=lambda access: threading.Thread(target=ask, args=(access,)).start())
    finally:
        growth.unlink()
    if faults:
        raise RuntimeError("a client failed") from faults[0]
    mark("stopped")


async def visit(url: str, growth: Path, data: bytes) -> None:
    """Ask a server for everything it has, and wait until it reports that ``growth`` has become ``data``."""
    import aiohttp

    api = f"{url}api/v1"
    matches = json.loads(ask_until_right(f"{api}/matches", lambda body: json.loads(body)["total"] == 2))["matches"]
    whole, growing = sorted(matches, key=lambda match: match["live"])
    assert growing["live"] and whole["complete"]
    address = f"{api}/matches/{whole['id']}"
    header = json.loads(ask_until_right(address))["header"]
    for path in (f"{address}/index", f"{address}/chunks/1", f"{address}/file", f"{address}/file?world=1"):
        ask_until_right(path)
    ask_until_right(f"{api}/worlds/{header['world']['sha256']}")
    ask_until_right(f"{api}/runs", lambda body: json.loads(body)["runs"] == [{"id": RUN, "matches": 2}])
    ask_until_right(f"{api}/league")
    mark("answered")
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{api}/live") as socket:
        assert (await socket.receive_json(timeout=WAIT_S))["type"] == "match"
        await asyncio.to_thread(append, growth, data)
        while (await socket.receive_json(timeout=WAIT_S))["type"] != "ended":
            pass
    mark("notified")


def append(path: Path, whole: bytes) -> None:
    """Complete a file whose beginning is there, as a recording grows: never shorter than before."""
    with open(path, "ab", buffering=0) as file:
        file.write(whole[file.tell() :])


def ask_until_right(url: str, is_right: Callable[[bytes], bool] = bool) -> bytes:
    """Return the body of an answer; up to the last attempt, or while the disk is full, it may be a problem in JSON."""
    for _ in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=WAIT_S) as reply:
                body = reply.read()
        except urllib.error.HTTPError as error:
            body = error.read()
            problem: dict[str, Any] = json.loads(body)
            assert problem["detail"] and error.code != 500, problem
        else:
            if is_right(body):
                return body
        time.sleep(PAUSE_S)  # for the next scan
    if ctypes.CDLL(None).reliability_failed() > 1:
        return b""
    raise AssertionError(f"{url} has no right answer")


def check_training(root: Path, marks: Sequence[str]) -> None:
    check_records(root, marks)
    check_replay_files(root / "run" / "replays", {name for (name,) in values(marks, "replay")})


def check_recording(root: Path, marks: Sequence[str]) -> None:
    check_replay_files(root / "replays", {name for (name,) in values(marks, "replay")})
    assert "ended" not in marks or len(values(marks, "match")) == 2, "a match was not played"


def check_arena(root: Path, marks: Sequence[str]) -> None:
    _, changed, replays = league_outcome(root)
    assert not changed, "a rating is not that of its matches"
    check_replay_files(root / ARENA_JOB / "replays", {Path(name).name for name in replays})


def check_server(root: Path, marks: Sequence[str]) -> None:
    check_replay_files(root / RUN / "replays", {WHOLE})


PREPARE = {"arena": prepare_arena, "server": prepare_server}
PLAYED_CHECKS = {
    "training": check_training, "arena": check_arena, "recording": check_recording, "server": check_server
}  # fmt: skip
ALL_CHECKS = {**CHECKS, **PLAYED_CHECKS}


def league_outcome(root: Path) -> tuple[list[tuple[Any, ...]], dict[str, Any], list[str]]:
    with Store(league_path(root)) as store:
        assert [row[0] for row in store.read("PRAGMA integrity_check")] == ["ok"]
        columns = "number, blue, red, seed, state, winner, reason, hp_blue, hp_red, score_blue, score_red, seconds"
        rows = [tuple(row) for row in store.read(f"SELECT {columns} FROM matches ORDER BY period, number")]
        rows += [(i, entry.rating, entry.games) for i, entry in store.league().entries.items()]
        replays = [row[0] for row in store.read("SELECT replay FROM matches WHERE replay <> ''")]
        return rows, store.recompute(), replays


def training_outcome(root: Path) -> tuple[int, str]:
    found = latest_valid(root / "run" / "checkpoints").checkpoint
    return (0, "") if found is None else (found.manifest["update"], found.id)


OUTCOMES: dict[str, Callable[[Path], Any]] = {
    "records": training_outcome,
    "training": training_outcome,
    "arena": lambda root: league_outcome(root)[0],
}
"""What must be equal after a case, at the latest when the job is started again."""
