"""Files of a run, a league or a user that are valid in form and wrong in content raise declared errors only.

200 cases run by default and 100,000 by hand (``-m fuzz``). A case that once failed is a row of ``CORPUS``.
"""

import contextlib
import dataclasses
import json
import random
import shutil
import sqlite3
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echelon.arena import database, standings
from echelon.arena.behaviour import style_means
from echelon.arena.league import League
from echelon.arena.metagame import cross_play
from echelon.arena.store import Store
from echelon.config import RunConfig
from echelon.jobs.config_layers import flatten, resolve, validate
from echelon.jobs.environment import flat_environment, read_environment
from echelon.jobs.exits import exit_record
from echelon.jobs.spec import JobSpec, read_spec
from echelon.jobs.status import job_status
from echelon.jobs.sweeps.plan import SweepPlan
from echelon.jobs.sweeps.results import read_results
from echelon.rl.checkpoint import MANIFEST, describe, find_checkpoint, latest_valid
from echelon.rl.weights import load_policy
from echelon.runs import RunPaths, list_runs, runs_home
from echelon.telemetry.events import EVENTS, EventRung, EventTrial
from echelon.telemetry.lines import to_json
from echelon_cli import arena_tables, output, sweep_tables
from echelon_cli.commands import runs as runs_command
from echelon_cli.follow import Follower
from echelon_cli.listing import run_row
from tests.cli.hostile_home import event_of
from tests.hostile_values import LONG, damage, mutate
from tests.tui.test_league import play

DEFAULT_CASES, ALL_CASES = 40, 20_000
"""Cases of each of the six kinds of files."""

amount = pytest.mark.parametrize(
    "cases", [DEFAULT_CASES, pytest.param(ALL_CASES, marks=pytest.mark.fuzz)], ids=["default", "all"]
)

MAX_BYTES = 256 << 20
"""Memory that reading one file may take."""


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    resolved = resolve("quickstart")
    return dataclasses.asdict(JobSpec(kind="train", config=resolved.nested(), provenance=resolved.provenance))


def state_files(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the state files of a run by name."""
    identity = {"pid": 2**22 + 1, "create_time": 1.0, "boot_id": "b", "host": "h"}
    return {
        "spec.json": spec,
        "resume.json": spec,
        "exit.json": {"time": 1.0, "code": 1, "signal": None, "message": "m", "update": 3, "checkpoint": "step-1"},
        "proc.json": {"supervisor": identity, "worker": identity},
        "progress.json": {"time": 1.0, "monotonic": 1.0, "boot_id": "b", "phase": "training", "update": 1},
        "labels.json": {"group": "g", "tags": ["a", "b"], "notes": "n"},
        "environment.json": {
            "python": "3.11",
            "git": {"commit": "c", "dirty": True, "diff_sha256": "d"},
            "packages": {"torch": "2.13"},
            "devices": {"cpu": "c", "gpus": ["g"]},
        },
    }


def show_sweep(paths: RunPaths) -> None:
    """Read a sweep as its command and the dashboard do; only ``ValueError`` may be raised."""
    with contextlib.suppress(ValueError):
        found = read_results(paths)
        output.show_json(sweep_tables.results_json(found))
        sweep_tables.show_results(found)


def show_run(paths: RunPaths) -> None:
    """Read a run as lists, tables, followers, supervisor and resume do; only ``ValueError`` may be raised."""
    assert paths in list_runs()
    row = run_row(paths)
    output.show_json(row.to_dict())
    output.show_table(("run", "steps", "age"), [(row.id, output.count(row.steps), output.duration(1 - row.created))])
    exit_record(paths, -9, earlier_bytes=0, oom=False)
    follower = Follower(paths)
    for cls in EVENTS.values():
        follower.show(event_of(cls))
    with contextlib.suppress(ValueError):
        job_status(paths)
    with contextlib.suppress(ValueError):
        runs_command.show(str(paths.root))
    flat_environment(read_environment(paths))
    show_sweep(paths)
    with contextlib.suppress(ValueError):
        values = read_spec(paths)
        flatten(values.config)
        validate(values.config, values.provenance)


@amount
def test_state_files_raise_only_declared_errors(cases, spec, capsys):
    paths = RunPaths(runs_home() / "20260101-000000-quickstart-calm-fox")
    paths.root.mkdir(parents=True)
    good = state_files(spec)
    events = [to_json(event_of(cls)) for cls in EVENTS.values()]
    for seed in range(cases):
        rng = random.Random(seed)
        for name, value in good.items():
            data = json.dumps(mutate(value, rng) if rng.random() < 0.5 else value).encode()
            (paths.root / name).write_bytes(damage(data, rng) if rng.random() < 0.1 else data)
            if name != "spec.json" and rng.random() < 0.2:
                (paths.root / name).unlink()
        lines = [json.dumps(mutate(json.loads(line), rng)) if rng.random() < 0.5 else line for line in events]
        data = "\n".join([*lines, ""]).encode()
        paths.metrics.write_bytes(damage(data, rng) if rng.random() < 0.1 else data)
        paths.evals.write_bytes(damage(data, rng) if rng.random() < 0.1 else data)
        with case(seed):
            show_run(paths)
        capsys.readouterr()


def sweep_files(spec: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return the spec and the journal of a sweep with rungs and finalists."""
    vary = {"ppo.lr": "1e-5..1e-3:log", "model.recurrence": "lstm,mingru"}
    plan = SweepPlan(base=spec["config"], provenance=spec["provenance"], vary=vary, trials=4, rungs=2)
    journal: list[Any] = []
    for number in range(6):
        params = {"ppo.lr": 1e-4 * (number + 1), "model.recurrence": "lstm"} if number < 5 else {}
        name = ("", "", "", "", "trial 0", "unchanged")[number]
        journal.append(EventTrial(number=number, run=f"r{number}", params=params, seed=number, name=name))
        for rung, state in ((0, "started"), (0, "evaluated"), (1, "started"), (1, ("evaluated", "failed")[number % 2])):
            value = {"value": 0.1 * number, "low": 0.0, "high": 0.9} if state == "evaluated" else {}
            journal.append(EventRung(trial=number, rung=rung, state=state, global_step=rung + 1, **value))
    config = {"sweep": dataclasses.asdict(plan)}
    return {**spec, "kind": "sweep", "config": config}, [json.loads(to_json(e)) for e in journal]


@amount
def test_sweeps_raise_only_declared_errors(cases, spec, capsys):
    paths = RunPaths(runs_home() / "20260101-000000-sweep-calm-fox")
    paths.root.mkdir(parents=True)
    good, journal = sweep_files(spec)
    for seed in range(cases // 4):
        rng = random.Random(seed)
        changed = {**good, "config": {"sweep": mutate(good["config"]["sweep"], rng)}} if rng.random() < 0.5 else good
        paths.spec.write_text(json.dumps(changed))
        lines = "\n".join(json.dumps(mutate(row, rng) if rng.random() < 0.2 else row) for row in journal) + "\n"
        paths.trials.write_bytes(damage(lines.encode(), rng) if rng.random() < 0.1 else lines.encode())
        with case(seed):
            run_row(paths)
            show_sweep(paths)
        capsys.readouterr()


@contextlib.contextmanager
def case(seed: int):
    """Name the case in which something other than a declared error is raised."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"case {seed} raised {type(error).__name__}: {error}") from error


@pytest.fixture
def saved(tmp_path) -> Path:
    """A run with two checkpoints of a small policy."""
    from tests.training.test_checkpoint import save

    for step in (1, 2):
        save(tmp_path / "run" / "checkpoints", step)
    return tmp_path / "run"


def with_right_checksums(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest that lists its files as they are."""
    if isinstance(manifest.get("files"), dict):
        for name in [*manifest["files"]]:
            with contextlib.suppress(OSError, ValueError):
                manifest["files"][name] = describe(folder / name)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def mutate_tensors(data: bytes, rng: random.Random) -> bytes:
    """Return a safetensors file with a changed header of the right length."""
    length = struct.unpack("<Q", data[:8])[0]
    header = mutate(json.loads(data[8 : 8 + length]), rng)
    raw = json.dumps(header).encode()
    size = rng.choice((len(raw),) * 8 + (0, 2**20 + 1, 2**40, 2**64 - 1))
    return struct.pack("<Q", size) + raw + data[8 + length :]


def read_checkpoint(folder: Path) -> None:
    """Read a run's newest checkpoint as a resume and an evaluation do."""
    with contextlib.suppress(ValueError):
        load_policy(folder.parent)
    with contextlib.suppress(ValueError):
        find_checkpoint(folder.parent)
    found = latest_valid(folder)
    assert found.checkpoint is not None, "the other checkpoint is whole"
    for read in ("weights", "state", "environment", "carry"):
        with contextlib.suppress(ValueError):
            getattr(found.checkpoint, read)()
    assert found.checkpoint.step >= 0 and found.checkpoint.id


@amount
def test_checkpoints_raise_only_declared_errors(cases, saved):
    step = max(saved.glob("**/step-2"))
    whole = {path.name: path.read_bytes() for path in step.iterdir()}
    for seed in range(cases):
        rng = random.Random(seed)
        for name, data in whole.items():
            (step / name).write_bytes(data)
        name = rng.choice([*whole])
        manifest = json.loads(whole[MANIFEST])
        if name == MANIFEST:
            manifest = mutate(manifest, rng)
        elif name.endswith(".safetensors"):
            (step / name).write_bytes(mutate_tensors(whole[name], rng))
        else:
            state = mutate({"counters": {"update": 1}, "trainer": {"$tensor": "rng"}, "gate": [], "opponents": {}}, rng)
            data = json.dumps(state).encode()
            (step / name).write_bytes(damage(data, rng) if rng.random() < 0.5 else data)
        if isinstance(manifest, dict):
            with_right_checksums(step, manifest)
        else:
            (step / MANIFEST).write_text(json.dumps(manifest))
        best = mutate({"checkpoint": "step-2", "id": "x", "eval": {}}, rng)
        (step.parent / "best.json").write_text(json.dumps(best))
        with case(seed):
            read_checkpoint(step.parent)


SQL_VALUES = (
    None, -1, 0, 2**62, 1e308, float("inf"), "", "²", "\x1b", LONG, b"\xff\x00", "[]", "{", "[" * 100_000, "null",
    '{"label":["a"]}', '{"label":{"a":1}}', "heuristic", "played", "blue", "draw",
)  # fmt: skip
SCHEMA_CHANGES = (
    "DROP TABLE matches",
    "ALTER TABLE entries RENAME COLUMN rating TO points",
    "PRAGMA user_version = 7",
    "DROP TABLE styles; CREATE VIEW styles AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
    "SELECT 'a' AS entry, 'b' AS name, x AS value FROM n",
    "ALTER TABLE styles ADD COLUMN bomb AS (hex(zeroblob(100000000)))",
)


def read_league(path: Path) -> None:
    """Read a league as every command and the dashboard do; only ``ValueError`` may be raised."""
    from echelon_cli.tui.feed.league import read_league as read_view

    for read in (
        lambda store: arena_tables.show_standings(
            {"entries": standings.standings(store, retired=True), "unfinished": standings.unfinished_rounds(store)}
        ),
        lambda store: arena_tables.show_matches(standings.matches(store, limit=20)),
        lambda store: arena_tables.show_pairs(cross_play(store, retired=True)),
        lambda store: arena_tables.show_entries(
            [{**r, "style": style_means(standings.style_sums(store, r["id"]))} for r in standings.standings(store)]
        ),
        lambda store: store.league().as_dict(),
    ):
        with contextlib.suppress(ValueError), Store(path, read_only=True) as store:
            read(store)
    with contextlib.suppress(ValueError):
        read_view(path)


@amount
def test_leagues_raise_only_declared_errors(cases, tmp_path, capsys):
    whole, path = tmp_path / "whole.db", tmp_path / "league.db"
    play(whole, 2)
    with sqlite3.connect(whole) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    for seed in range(cases // 4):
        rng = random.Random(seed)
        shutil.copy(whole, path)
        database._CHECKED.clear()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            tables = [
                name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            ]
            for _ in range(rng.randint(1, 3)):
                table = rng.choice(tables)
                column = rng.choice([row[1] for row in db.execute(f"PRAGMA table_info({table})")])
                with contextlib.suppress(sqlite3.IntegrityError):
                    one = "" if rng.random() < 0.3 else f"WHERE rowid = (SELECT max(rowid) FROM {table})"
                    db.execute(f"UPDATE {table} SET {column} = ? {one}", (rng.choice(SQL_VALUES),))
            if rng.random() < 0.1:
                db.executescript(rng.choice(SCHEMA_CHANGES))
        if rng.random() < 0.1:
            path.write_bytes(damage(path.read_bytes(), rng))
        with case(seed):
            read_league(path)
        capsys.readouterr()


@amount
def test_league_files_raise_only_declared_errors(cases, tmp_path):
    play(tmp_path / "league.db", 1)
    with Store(tmp_path / "league.db") as store:
        good = store.league().as_dict()
    path = tmp_path / "league.json"
    for seed in range(cases - cases // 4):
        rng = random.Random(seed)
        data = json.dumps(mutate(good, rng)).encode()
        path.write_bytes(damage(data, rng) if rng.random() < 0.1 else data)
        with case(seed), contextlib.suppress(ValueError):
            League.load(path).as_dict()


def toml(value: Any) -> str:
    """Return a value as inline TOML; null is left out."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value if v is not None) + "]"
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if value != value else "inf"
    return json.dumps(value)


@amount
def test_config_files_raise_only_declared_errors(cases, tmp_path):
    path = tmp_path / "config.toml"
    good = dataclasses.asdict(RunConfig())
    good.pop("preset")
    for seed in range(cases):
        rng = random.Random(seed)
        chosen = {key: good[key] for key in rng.sample([*good], 3)}
        changed = mutate(chosen, rng)
        rows = changed.items() if isinstance(changed, dict) else [("x", changed)]
        data = "\n".join(f"{json.dumps(k)} = {toml(v)}" for k, v in rows if v is not None).encode()
        path.write_bytes(damage(data, rng) if rng.random() < 0.1 else data)
        with case(seed), contextlib.suppress(ValueError):
            resolve(None, path)


CORPUS: tuple[tuple[str, bytes], ...] = (
    ("spec.json", b"[" * 100_000),
    ("exit.json", b'{"message":' * 990 + b"1" + b"}" * 990),
    ("spec.json", b'{"kind":"train","config":{"preset":["a"]},"provenance":["a"],"created":NaN}'),
    ("spec.json", b'{"kind":"train","config":{"ppo":3,"ppo.lr":1}}'),
    ("proc.json", b'{"supervisor":{"pid":1e400,"create_time":1,"boot_id":"","host":""}}'),
    ("exit.json", b'{"code":1,"message":"' + b"x" * (2 << 20) + b'"}'),
    ("metrics.jsonl", b'{"kind":["a"]}\n'),
    ("metrics.jsonl", b'{"kind":"update","update":1,"global_step":' + b"9" * 400 + b"}\n"),
    ("metrics.jsonl", b'{"kind":"alert","message":"m","time":1e300}\n'),
)
"""Files that once broke a list of all runs, by name."""


@pytest.mark.parametrize(("name", "data"), CORPUS, ids=range(len(CORPUS)))
def test_damaged_state_file_costs_its_own_run_only(echelon, ended_run, monkeypatch, name, data):
    monkeypatch.setattr("echelon.jobs.status.LAUNCH_LIMIT_S", 0.1)  # `wait` waits that long for a start
    whole = ended_run("20260101-000000-quickstart-keen-newt")
    (ended_run("20260102-000000-quickstart-calm-fox").root / name).write_bytes(data)
    for words in (("runs", "list"), ("dash", "--once"), ("replay", "list")):
        code, out, err = echelon(*words)
        assert code == 0 and "internal error" not in err
        assert words == ("replay", "list") or (whole.id.rpartition("-")[2] in out and "fox" in out + err)
    for words in (("runs", "show", "fox"), ("config", "show", "--run", "fox"), ("runs", "wait", "fox")):
        assert "internal error" not in echelon(*words)[2]


def test_damaged_spec_keeps_the_replays_of_its_run(echelon, ended_run):
    from tests.replay.synthetic import write_match

    paths = ended_run("20260102-000000-quickstart-calm-fox")
    write_match(paths.replays / "match.ecr")
    for spoil in (lambda: paths.spec.write_bytes(b"[" * 100_000), lambda: (paths.spec.unlink(), paths.spec.mkdir())):
        spoil()
        assert "match.ecr" in echelon("replay", "list")[1]
        assert echelon("replay", "info", "fox")[0] == 0


@pytest.mark.parametrize("name", ["step-²", "step-٣", "step-", f"step-{'9' * 200}", "step-1x"])
def test_folder_that_is_no_checkpoint_is_ignored(saved, name):
    folder = max(saved.glob("**/step-2")).parent
    (folder / name).mkdir()
    assert latest_valid(folder).checkpoint is not None


@pytest.mark.parametrize("name", [LONG, "../state.json", "/etc/passwd", "a\0b", "model.safetensors/"])
def test_manifest_that_names_another_file_is_damaged_and_the_search_falls_back(saved, name):
    step = max(saved.glob("**/step-2"))
    manifest = json.loads((step / MANIFEST).read_text())
    manifest["files"][name] = {"size": 0, "sha256": ""}
    (step / MANIFEST).write_text(json.dumps(manifest))
    found = latest_valid(step.parent)
    assert found.checkpoint is not None and found.checkpoint.step == 1
    assert len(found.notices) == 1 and len(found.notices[0]) < 300


@pytest.mark.long
@pytest.mark.parametrize("piece", [b"[],", b'{"a":{}},'])
def test_state_file_of_greatest_size_stays_in_its_budget(ended_run, piece):
    paths = ended_run("20260102-000000-quickstart-calm-fox")
    data = b'{"kind":"alert","message":[' + piece * ((1 << 20) // len(piece) - 20) + b"0]}"
    paths.exit.write_bytes(data)
    paths.metrics.write_bytes(data + b"\n")
    tracemalloc.start()
    run_row(paths)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MAX_BYTES / 2


def test_config_file_of_greatest_size_is_rejected(tmp_path):
    path = tmp_path / "config.toml"
    for data in (b"a = 1\n" * 10_000, b"a = " + b"[" * 30_000, b".".join([b"a"] * 10_000) + b" = 1"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"config\.toml|config key"):
            resolve(None, path)
