"""``echelon arena``: every sub-command as somebody types it."""

import json
import sqlite3
import subprocess
import sys

import pytest

from echelon.arena.glicko2 import Glicko2Rating
from echelon.arena.store import DEFAULT_LEVELS, Store, league_path
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.jobs.tickets import Queue
from echelon.replay.find import find_replay
from echelon.runs import create_run, find_run, match_id
from echelon.server.catalogue import ReplayCatalogue
from echelon_cli.arena_job import open_league
from echelon_cli.main import run
from tests.arena.policy_files import save

SHORT = ("--seeds", "1", "--set", "env.world.size_x=40", "--set", "env.world.size_y=40", "--set", "env.world.size_z=12",
         "--set", "env.max_episode_seconds=5", "--set", "env.num_packs=1")  # fmt: skip
LOOKS = ("standings", "standings --behaviour", "matches", "head-to-head")


def reported(capsys, *words, code=0):
    """Run a command with --json and return what it printed last."""
    assert run(["arena", *words, "--json"]) == code
    lines = capsys.readouterr().out
    return json.loads(lines)


def test_arena_run_plays_rounds_and_shows_ratings(capsys):
    assert run(["arena", "run", *SHORT, "--record-share", "0.1"]) == 0
    text = capsys.readouterr().out
    assert "round 1 of 1 rated" in text and "recorded replays/" in text and "medium" in text
    table = reported(capsys, "standings")
    assert {row["name"] for row in table["entries"]} == set(DEFAULT_LEVELS) and table["unfinished"] == []
    assert all(row["games"] == 8 for row in table["entries"])
    assert next(row for row in table["entries"] if row["name"] == "medium")["rating"] == 1500
    remaining = reported(capsys, "matches", "--recorded")
    assert len(remaining) == 2 and (find_run(remaining[0]["job"]).root / remaining[0]["replay"]).is_file()
    for row in remaining:
        file = find_replay(row["replay"].rpartition("/")[2])
        match = ReplayCatalogue().find(match_id(row["job"], file.name))
        shown = match.run, match.summary["blue"], match.summary["red"]
        assert shown == (row["job"], row["blue_name"], row["red_name"])
        assert ("blue", "red", "draw")[match.summary["winner"]] == row["winner"]
    assert len(reported(capsys, "matches", "--entry", "hard", "-n", "3")) == 3
    pairs = reported(capsys, "head-to-head")
    assert len(pairs["pairs"]) == 20 and all(p["score_low"] <= p["score"] <= p["score_high"] for p in pairs["pairs"])
    game = pairs["metagame"]
    assert (game["pairs"], game["unplayed"], game["population"]) == (10, 0, 50)
    assert {row["id"].partition(":")[2] for row in game["entries"]} == set(DEFAULT_LEVELS)
    for weight in ("nash", "alpha_rank"):
        assert sum(row[weight] for row in game["entries"]) == pytest.approx(1.0)
    assert all(row["nash_averaged"] < 0.5 + 1e-9 and row["matches"] == 8 for row in game["entries"])
    assert reported(capsys, "edit", "--recompute") == {"periods": 1, "changed": {}}
    with open_league() as store, store.editing() as league:
        league.entries["heuristic:hard"].rating = Glicko2Rating(rating=1234.0)
    (changed,) = reported(capsys, "edit", "--recompute")["changed"].values()
    assert changed["before"]["rating"] == 1234 != changed["after"]["rating"]
    medium = reported(capsys, "standings", "medium")
    assert medium["style"]["mechs"] == 40 and len(medium["history"]) == 1
    assert reported(capsys, "edit", "--remove", "expert")["done"] == "retired"
    assert {row["name"] for row in reported(capsys, "standings", "--behaviour")} == set(DEFAULT_LEVELS) - {"expert"}
    assert run(["arena", "run", "--set", "env.world.size_x=80"]) == 2
    assert "already plays another game" in capsys.readouterr().err
    for line in (*LOOKS, "standings easy", "edit --recompute"):
        assert run(["arena", *line.split()]) == 0 and capsys.readouterr().out.strip()


def test_arena_run_of_one_entry_has_its_id(capsys, monkeypatch):
    monkeypatch.setattr(Queue, "revive", lambda queue, runs=None: [])
    queued = reported(capsys, "run", "--only", "hard", "--seed", "5", "--queue")
    assert read_spec(find_run(queued["id"])).config["arena"]["only"] == ["heuristic:hard"]
    assert run(["arena", "run", "--only", "nobody"]) == 3


def test_arena_add_and_remove_entries(capsys, tmp_path):
    added = reported(capsys, "add", str(save(tmp_path / "one", 1)), "trivial", "--label", "first")
    assert [row["name"] for row in added] == ["first", "trivial"]
    again = reported(capsys, "add", str(save(tmp_path / "two", 2)), "--kind", "exploiter", "--target", "first")
    assert again[0]["kind"] == "exploiter"
    with Store(league_path()) as store:
        league = store.league()
        assert league.entries[again[0]["id"]].meta["target"] == added[0]["id"]
        assert len(league.entries) == len(DEFAULT_LEVELS) + 2
    assert reported(capsys, "edit", "--remove", "first")["done"] == "removed"
    for name, fault in (("nobody", "not in the league"), ("e", "ambiguous")):
        assert f"entry '{name}' is {fault}" in reported(capsys, "edit", "--remove", name, code=3)["error"]
    assert reported(capsys, "add", str(tmp_path / "nowhere"), code=3)
    assert reported(capsys, "edit", "--keep", "0") == []


def test_arena_export_and_import_round_trip(capsys, tmp_path, monkeypatch):
    reported(capsys, "add", "medium")
    assert reported(capsys, "export", str(tmp_path / "league.json"))["entries"] == len(DEFAULT_LEVELS)
    before = reported(capsys, "standings")
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "elsewhere"))
    assert len(reported(capsys, "add", str(tmp_path / "league.json"))["added"]) == len(DEFAULT_LEVELS)
    assert reported(capsys, "add", str(tmp_path / "league.json")) == {"added": [], "known": len(DEFAULT_LEVELS)}
    assert reported(capsys, "standings") == before
    assert "does not exist" in reported(capsys, "add", str(tmp_path / "none.json"), code=1)["error"]


def test_arena_resume_rejects_other_jobs(capsys):
    paths = create_run("quickstart")
    write_spec(paths, JobSpec(kind="train", config={}))
    assert run(["arena", "run", "--resume", paths.id]) == 2
    assert "is of kind 'train', expected an arena job" in capsys.readouterr().err
    other = create_run("arena")
    write_spec(other, JobSpec(kind="arena", config={"arena": {}}))
    assert run(["train", "--resume", other.id]) == 2
    assert "is of kind 'arena', expected a training run" in capsys.readouterr().err


def test_arena_reading_needs_no_writable_disk(capsys, tmp_path, monkeypatch):
    reported(capsys, "add", "medium")
    connect = sqlite3.connect

    def reading(name, **how):
        if "mode=ro" not in name:
            raise sqlite3.OperationalError("attempt to write a readonly database")
        return connect(name, **how)

    monkeypatch.setattr(sqlite3, "connect", reading)
    for line in (*LOOKS, "standings medium"):
        reported(capsys, *line.split())
    assert reported(capsys, "export", str(tmp_path / "league.json"))["entries"] == len(DEFAULT_LEVELS)
    assert "readonly database" in reported(capsys, "edit", "--remove", "medium", code=1)["error"]


def test_arena_reading_loads_no_simulator(repository, capsys):
    reported(capsys, "add", "medium")
    script = (
        "import sys; from echelon_cli.main import run; "
        "run(['arena', 'standings', '--json']); run(['arena', 'standings', '--behaviour']); "
        "print([m for m in ('torch', 'warp', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip().splitlines()[-1] == "[]", done.stdout + done.stderr
