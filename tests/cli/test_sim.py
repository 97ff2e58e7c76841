"""``echelon sim``: the table of a seed is always the same, and mistakes are one line."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from echelon.runs import list_runs, runs_home
from echelon_cli import output
from tests.cli.conftest import parsed

SMALL = ("--size", "40", "--height", "12", "--seconds", "6", "--matches", "4")

SCHEMA = {
    "blue": str, "red": str, "matches": int, "planned": int, "first_seed": int, "seeds": int, "swap": bool,
    "task": dict, "pilots": list, "sides": list, "ends": list, "seconds": dict, "teams": list, "weapons": list,
    "classes": list, "deaths": list, "rows": list, "note": str, "run": str, "replays": int, "upsets": int,
    "fault": str, "stopped": bool, "speed": dict,
}  # fmt: skip
WINS = {"name", "matches", "wins", "draws", "losses", "win_rate", "win_low", "win_high"}
FIGURES = {
    "mechs", "kills", "deaths", "survived", "damage", "taken", "friendly", "shots", "accuracy", "zone_s", "life_s",
    "shutdowns", "knockdowns",
}  # fmt: skip


def outcome(echelon, *words):
    code, out, err = echelon("sim", *SMALL, *words, "--json")
    assert code == output.DONE, err
    return parsed(out)


def without_speed(found):
    return {key: value for key, value in found.items() if key != "speed"}


def test_sim_results_are_independent_of_batching(echelon):
    first = outcome(echelon, "--red", "easy")
    assert without_speed(outcome(echelon, "--red", "easy", "--envs", "3")) == without_speed(first)
    assert outcome(echelon, "--red", "easy", "--seed", "9")["rows"] != first["rows"]
    assert first["swap"] and first["seeds"] == 2
    assert [(row["blue"], row["red"]) for row in first["rows"][:2]] == [("medium", "easy"), ("easy", "medium")]


def test_sim_json_schema(echelon):
    found = outcome(echelon)
    assert {key: type(value) for key, value in found.items()} == SCHEMA
    for row in found["pilots"]:
        assert set(row) == {*WINS, "blue", "red"} and set(row["blue"]) == WINS - {"name"}
    assert all(set(row) == WINS for row in found["sides"])
    assert all(set(row) == {"pilot", "class", *FIGURES} for row in found["classes"])
    assert all(set(row) == {"pilot", "zone_score", *FIGURES} for row in found["teams"])
    assert sum(row["matches"] for row in found["ends"]) == found["matches"] == len(found["rows"]) == 4
    assert [row["seed"] for row in found["rows"]] == [0, 1, 2, 3]
    kills = [sum(row["kills"] for row in found["weapons"] if row["pilot"] == team["pilot"]) for team in found["teams"]]
    assert kills == [team["kills"] for team in found["teams"]]
    assert not runs_home().exists(), "nothing is kept unless it is asked for"


def test_sim_plays_fair_maps_unless_any_are_requested(echelon):
    short = ("--seconds", "1", "--matches", "2")
    fair, every = outcome(echelon, *short), outcome(echelon, *short, "--maps", "any")
    assert (fair["task"]["maps"], every["task"]["maps"]) == ("path", "any") and fair["rows"] != every["rows"]
    limited = outcome(echelon, *short, "--max-distance-ratio", "1.1", "--red", "easy", "--no-swap")
    assert limited["task"] == {**fair["task"], "fair": 1.1} and not limited["swap"]


def test_sim_prints_tables(echelon):
    code, out, _ = echelon("sim", *SMALL, "--swap")
    assert code == output.DONE
    for words in ("medium against medium: 4 matches", "95 % interval", "deaths by cause", "agent-steps/s",
                  "each seed is played once", "elimination", "combat", "weapons"):  # fmt: skip
        assert words in out, words


def test_sim_recorded_matches_are_found_by_watch(echelon):
    found = outcome(echelon, "--record", "2")
    (run,) = list_runs()
    assert run.id == found["run"] and "-sim-" in run.id and found["replays"] == 2
    assert [bool(row["replay"]) for row in found["rows"]] == [True, True, False, False]
    matches = parsed(echelon("replay", "list", run.id, "--json")[1])
    assert len(matches) == 2 and all(match["complete"] for match in matches)
    assert parsed(echelon("runs", "list", "--json")[1])[0]["state"] == "completed"
    by_seed = {match["seed"]: match["winner"] for match in matches}
    winners = {row["seed"]: row["winner"] for row in found["rows"]}
    assert by_seed == {seed: winners[seed] for seed in by_seed}
    assert echelon("world", run.id, "--plain")[0] == output.DONE
    assert echelon("runs", "rm", run.id, "--yes")[0] == output.DONE


def test_sim_records_only_upsets_or_every_match(echelon):
    found = outcome(echelon, "--record", "upsets", "--seconds", "15")
    fewer = min(found["pilots"], key=lambda row: row["wins"])["wins"]
    even = found["pilots"][0]["wins"] == found["pilots"][1]["wins"]
    assert found["upsets"] == found["replays"] == (0 if even else fewer)
    assert outcome(echelon, "--record", "all", "--matches", "2", "--seconds", "1")["replays"] == 2


@pytest.mark.long
def test_sim_interrupt_prints_finished_matches(repository, tmp_path):
    words = (*SMALL[:-1], "5000", "--seconds", "2", "--envs", "2", "--json", "--record", "3")
    process = subprocess.Popen(
        [sys.executable, "-m", "echelon_cli.main", "sim", *words],
        cwd=repository,
        env={**os.environ, "ECHELON_HOME": str(tmp_path / "runs")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while len(list((tmp_path / "runs").glob("*/replays/*.ecr"))) < 3 and process.poll() is None:
            assert time.monotonic() < deadline  # the third begins when one of the first two is over
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == output.STOPPED, err
    found = json.loads(out)
    assert found["stopped"] and 0 < found["matches"] < 5000 == found["planned"]
