"""No power loss during a durable protocol loses what was acknowledged, or leaves damage that a reader believes."""

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from echelon.arena.store import Store
from echelon.jobs.evaluations import append_evaluation
from echelon.jobs.spec import read_spec
from echelon.jobs.tickets import Queue
from echelon.replay.reader import Replay
from echelon.replay.writer import store_world, world_payload
from echelon.rl.checkpoint import latest_valid
from echelon.rl.tensor_files import load_metadata
from echelon.runs import RunPaths, list_runs, read_json
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EventAlert, EventCheckpoint, EventEnd, EventEval, EventEvalBatch, EventUpdate
from echelon.telemetry.log import read_events
from echelon.training import checkpoint as checkpoints
from tests.reliability.crash_states import CrashState, crash_states
from tests.reliability.protocols import WORLD_SEEDS
from tests.reliability.recorder import Operation, by_protocol, record
from tests.replay.synthetic import material


def values(marks: Sequence[str], kind: str) -> list[list[str]]:
    return [words.split(" ", 2)[1:] for words in marks if words.split(" ")[0] == kind]


def check_checkpoint(root: Path, marks: Sequence[str]) -> None:
    folder = root / "checkpoints"
    checkpoints.recover(folder)
    newest = latest_valid(folder).checkpoint
    saved = values(marks, "saved")
    if saved:
        assert newest is not None and newest.step >= int(saved[-1][0]), f"resume falls below step {saved[-1][0]}"
        if newest.step == int(saved[-1][0]) and len(saved) > 2:
            assert newest.id == saved[-1][1], "an older version of the step is back"
    if newest is not None:
        assert newest.state()["counters"] == {"update": newest.step} and newest.weights()["w"].isfinite().all()
    if values(marks, "best"):
        best = checkpoints.read_best(folder)
        assert best is not None and checkpoints.open_checkpoint(folder / best["checkpoint"]).step == 2


def check_records(root: Path, marks: Sequence[str]) -> None:
    paths = RunPaths(root / "run")
    checkpoints.recover(paths.checkpoints)
    newest = latest_valid(paths.checkpoints).checkpoint
    saved = values(marks, "saved")
    assert not saved or newest is not None and newest.step >= int(saved[-1][0]), f"resume falls below {saved[-1]}"
    events, _ = read_events(paths.metrics)
    written = [event for event in events if isinstance(event, EventUpdate)]
    numbers = [event.update for event in written]
    assert numbers == sorted(set(numbers)), "a record is there twice"
    recorded = {event.id for event in events if isinstance(event, EventCheckpoint)}
    assert {ident for _, ident in saved} <= recorded, "the record of a checkpoint is lost"
    if "ended" in marks:
        assert isinstance(events[-1], EventEnd), "the end is not recorded"
        if not any(isinstance(event, EventAlert) and checkpoints.BEST in event.message for event in events):
            best = checkpoints.read_best(paths.checkpoints)
            assert best is not None and checkpoints.open_checkpoint(paths.checkpoints / best["checkpoint"])
    if newest is not None:
        covered = list(range(1, newest.manifest["update"] + 1))
        assert numbers[: len(covered)] == covered, "the checkpoint is newer than the records"


def check_replay(root: Path, marks: Sequence[str]) -> None:
    folder = root / "replays"
    acknowledged = {name for (name,) in values(marks, "replay")}
    check_replay_files(folder, acknowledged)
    for seed in set(WORLD_SEEDS):
        world = store_world(folder / "worlds", world_payload(material(seed)))
        assert world.stat().st_size > 0, "storing a world heals what a crash left of it"
        for name in acknowledged:
            with Replay(folder / name) as opened:
                if opened.header["world"]["sha256"] == world.stem:
                    assert opened.world


def check_replay_files(folder: Path, acknowledged: Collection[str]) -> None:
    """Open every replay of a folder as viewers do; those that were acknowledged are complete."""
    for path in sorted(folder.glob("*.ecr")):
        try:
            with Replay(path) as opened:
                for number in range(len(opened.chunks)):
                    opened.chunk(number)
                complete = opened.complete
                assert opened.world
        except ValueError:
            complete = False
        assert complete or path.name not in acknowledged, f"replay {path.name} is damaged"
    assert set(acknowledged) <= {path.name for path in folder.glob("*.ecr")}


def check_league(root: Path, marks: Sequence[str]) -> None:
    path = root / "home" / "league.db"
    if not path.is_file():
        assert not marks, "the league is gone"
        return
    with Store(path) as store:
        assert [row[0] for row in store.read("PRAGMA integrity_check")] == ["ok"]
        entries = store.league().entries
        assert "entries" not in marks or len(entries) == 2
        rows = {row["number"]: row["winner"] for row in store.read("SELECT number, winner FROM matches")}
        assert len(rows) == (3 if "planned" in marks else len(rows)) and len(rows) in (0, 3)
        for number, winner in values(marks, "match"):
            assert rows[int(number)] == winner, f"match {number} is lost"
        for (ratings,) in values([m.replace(" ", "\t").replace("\t", " ", 1) for m in marks], "rated"):
            stored = {i: entry.rating.rating for i, entry in entries.items()}
            assert stored == json.loads(ratings.replace("\t", " ")), "ratings are lost"


def check_job(root: Path, marks: Sequence[str]) -> None:
    runs = list_runs(root / "new" / "home")
    specs, exits = values(marks, "spec"), values(marks, "exit")
    if specs:
        assert len(runs) == 1, "the run is gone"
        assert read_spec(runs[0]).config["number"] >= int(specs[-1][0])
    if exits:
        ended = read_json(runs[0].exit)
        assert ended is not None and ended["code"] >= int(exits[-1][0])


def check_queue(root: Path, marks: Sequence[str]) -> None:
    found = Queue(root / "home")
    order = found.runs()
    queued = {name for (name,) in values(marks, "queued")}
    # the second run is removed after the third was queued
    lasting = queued - {"second"} if "third" in queued else queued
    assert lasting <= {run for run in order if found.ticket(run)}, "a run is lost"
    assert all(read_spec(RunPaths(found.home / name)).kind == "train" for name in lasting)
    assert not values(marks, "removed") or "second" not in order, "a removed run is back"
    assert not values(marks, "moved") or order[0] == "third", "a run is back at its place"
    assert not values(marks, "slots") or found.settings().slots == {"cpu": 2}, "a setting is lost"


def check_evaluation(root: Path, marks: Sequence[str]) -> None:
    events, _ = read_events(root / "job" / "matches.jsonl")
    recorded = [event.batch for event in events if isinstance(event, EventEvalBatch)]
    assert recorded == list(range(len(recorded))) and len(recorded) >= len(values(marks, "batch")), "a batch is lost"
    path, finished = root / "run" / "evals.jsonl", {job for (job,) in values(marks, "result")}
    assert finished <= {event.job for event in read_evaluations(path)}, "a result is lost"
    if path.parent.is_dir():
        for job in ("first", "second"):
            result = EventEval(update=1, global_step=1, opponent="hard", episodes=2, win_rate=0.5, job=job)
            append_evaluation(path, result)
        jobs = [event.job for event in read_events(path)[0] if isinstance(event, EventEval)]
        assert sorted(jobs) == ["first", "second"], "a resumed job adds its result once"


def check_policy(root: Path, marks: Sequence[str]) -> None:
    path = root / "league" / "policy.safetensors"
    assert path.exists() or not marks, "the policy is gone"
    if path.exists():
        assert load_metadata(path)["number"] >= max([int(n) for (n,) in values(marks, "policy")], default=0)


CHECKS: dict[str, Callable[[Path, Sequence[str]], None]] = {
    "checkpoint": check_checkpoint,
    "records": check_records,
    "replay": check_replay,
    "league": check_league,
    "job": check_job,
    "policy": check_policy,
    "evaluation": check_evaluation,
    "queue": check_queue,
}
REDUNDANT: dict[str, dict[tuple[str, int], str]] = {
    "records": {
        ("run", 0): "entry of the checkpoints' folder: the first sync of the records flushes the same folder",
        ("run/checkpoints", 2): "entry of the last checkpoint: marking it as the best flushes the same folder",
    },
    "league": {
        ("home/league.db-journal", 0): "content of the first journal: its second sync flushes it with its header",
        ("home/league.db-wal", 0): "header of the log: the sync of its first transaction flushes it too",
        ("home/league.db-wal", 1): "the schema: nothing is acknowledged before the next transaction",
        ("home/league.db-wal", 8): "the log before it is copied: each transaction has flushed it",
    },
    "evaluation": {("run", 1): "entry of the results: the first one has flushed it"},
    "replay": {("replays", 0): "entry of the folder of worlds: closing the first replay flushes the same folder"},
}
"""Syncs that may be removed without a loss, as path and number among the syncs of this path, with the reason."""
FAILURES = (AssertionError, ValueError, OSError, KeyError, EOFError, RuntimeError, sqlite3.Error)
ENOUGH = 10
"""Number of violations after which a protocol is not explored further."""
Passed = dict[bytes, int]
"""Number of marks that a crash state was checked with, by its hash; the promise held."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Operation]]:
    known: dict[str, list[Operation]] = {}

    def operations(name: str) -> list[Operation]:
        if name not in known:
            # one process plays all but the longest, as most of its time is its start
            names = [name] if name == "records" else [each for each in CHECKS if each != "records"]
            folder = tmp_path_factory.mktemp(name)
            for each in names:
                (folder / "root" / each).mkdir(parents=True)
            argv = ["-m", "tests.reliability.protocols", str(folder / "root"), *names]
            known.update(by_protocol(record(argv, folder / "root", folder / "trace")))
        return known[name]

    return operations


def violations(
    name: str,
    operations: Sequence[Operation],
    folder: Path,
    *,
    every: int = 1,
    enough: int = ENOUGH,
    passed: Passed | None = None,
) -> tuple[int, list[str]]:
    """Return the number of crash states and a line for each that breaks the protocol's promise.

    Of ``every`` states one is checked. States in ``passed``, with at least their marks, are known to keep the promise;
    states that keep it are added.
    """
    found: list[str] = []
    states = list(crash_states(operations))
    for state in states[::every]:
        if passed is not None and len(state.acknowledged) <= passed.get(state.digest, -1):
            continue
        if fault := _check(name, state, folder / "state"):
            found.append(f"{state.cause}: {fault}")
            if len(found) == enough:
                break
        elif passed is not None:
            passed[state.digest] = len(state.acknowledged)
    return len(states), found


def _check(name: str, state: CrashState, root: Path) -> str:
    root.mkdir()
    state.write(root)
    try:
        CHECKS[name](root, state.acknowledged)
    except FAILURES as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    finally:
        shutil.rmtree(root)
    return ""


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in memory for crash states, whose checks wait for no disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


def by_cost(without: Collection[str] = (), **marked: Sequence[str]) -> list[Any]:
    """Return every protocol as a parameter, with the mark that ``marked`` lists it under."""
    marks = {name: getattr(pytest.mark, mark) for mark, names in marked.items() for name in names}
    return [pytest.param(name, marks=[marks[name]] if name in marks else []) for name in CHECKS if name not in without]


# the test below begins with this one of the league
@pytest.mark.parametrize("name", by_cost(["league"], long=["records", "checkpoint", "replay", "job"]))
def test_power_loss_loses_nothing_acknowledged(name, recorded, memory):
    count, found = violations(name, recorded(name), memory)
    assert found == [] and count > 10, f"{count} states"


def test_power_loss_loses_no_checkpoint_in_a_sample_of_states(recorded, memory):
    count, found = violations("checkpoint", recorded("checkpoint"), memory, every=7)
    assert found == [] and count > 1000, f"{count} states"


@pytest.mark.parametrize("name", by_cost(["queue"], long=["league"], slow=["records", "checkpoint"]))
def test_removed_sync_loses_something_acknowledged(name, recorded, memory):
    operations, passed = recorded(name), {}
    assert violations(name, operations, memory, enough=1, passed=passed)[1] == []
    unnoticed, numbers = [], Counter()
    for index, operation in enumerate(operations):
        if operation.kind == "sync":
            without = [*operations[:index], *operations[index + 1 :]]
            if not violations(name, without, memory, enough=1, passed=passed)[1]:
                unnoticed.append((operation.path, numbers[operation.path]))
            numbers[operation.path] += 1
    assert unnoticed == list(REDUNDANT.get(name, {})), f"of {numbers.total()} syncs"


def test_league_without_syncs_of_its_log_loses_matches(recorded, memory):
    without = [o for o in recorded("league") if not (o.kind == "sync" and o.path.endswith("-wal"))]
    assert any("is lost" in fault for fault in violations("league", without, memory)[1])


def test_crash_states_cover_data_names_and_order():
    operations = [
        Operation(kind="create", path="a", inode=1),
        Operation(kind="write", path="a", data=b"old!", inode=1),
        Operation(kind="sync", path="a"),
        Operation(kind="sync", path="."),
        Operation(kind="create", path="b", inode=2),
        Operation(kind="write", path="b", data=b"new!", inode=2),
        Operation(kind="rename", path="b", target="a", inode=2),
        Operation(kind="mark", path="done"),
    ]
    states = {state.files for state in crash_states(operations) if state.acknowledged == ("done",)}
    contents = {dict(files).get("a") for files in states}
    assert contents == {b"old!", b"new!", b"ne", b"", bytes(4)}
    assert {b"new!", b""} <= {dict(files).get("b") for files in states if dict(files)["a"] == b"old!"}
    synced = [*operations[:6], Operation(kind="sync", path="b"), *operations[6:]]
    synced = [*synced[:-1], Operation(kind="sync", path="."), synced[-1]]
    last = {state.files for state in crash_states(synced) if state.acknowledged == ("done",)}
    assert last == {(("a", b"new!"),)}


def test_unseen_rename_is_found_by_inode():
    operations = [
        Operation(kind="create", path="a", inode=1),
        Operation(kind="open", path="b", inode=1),
        Operation(kind="sync", path="b"),
        Operation(kind="sync", path="."),
        Operation(kind="mark", path="done"),
    ]
    states = [state.files for state in crash_states(operations) if state.acknowledged]
    assert states == [(("b", b""),)]
