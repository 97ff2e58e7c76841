"""``echelon replay branch`` prints win probabilities, records typical continuations, and refuses in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from echelon.arena.named_pilots import level_pilot
from echelon.play.match import NewMatch, begin_match
from echelon.replay.reader import Replay
from echelon_cli import output
from tests.arena.policy_files import save
from tests.arena.recorded_matches import record_matches, small_game
from tests.replay.golden import SMALL


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A match of 12 s in which a policy that is not found flies B1."""
    return record_matches(tmp_path_factory.mktemp("recorded"), small_game(seconds=12.0))[0].path


def test_branch_reports_continuations_effect_and_replays(echelon, recorded, tmp_path):
    changes = ("--without", "R2@0:10", "--for", "0.5", "--set", "blue=easy", "--set", "B2=heuristic:expert")
    options = (*changes, "--runs", "3", "--out", str(tmp_path), "--json")
    code, out, error = echelon("replay", "branch", str(recorded), *options)
    assert code == output.DONE, error
    found = json.loads(out)
    assert (found["at_s"], found["played_from_s"], found["runs"]) == (10.0, 10.0, 3)
    assert found["parent"]["set"] == {"blue": "easy", "B2": "expert"}
    assert (found["parent"]["still"], found["parent"]["window"]) == (["R2"], 2)
    assert found["blue"]["low"] <= found["blue"]["score"] <= found["blue"]["high"]
    assert found["effect"]["side"] == "red" and found["effect"]["low"] <= 0.0 <= found["effect"]["high"]
    assert [row["number"] for row in found["continuations"]] == [0, 1, 2]
    assert all(Path(file).is_file() for file in found["replays"].values())
    code, out, _ = echelon("replay", "verify", found["replays"]["median"], "--json")
    assert code == output.DONE and json.loads(out)["ok"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the moment is missing, expected --at M:SS or --without MECH@M:SS"),
        (("--at", "0:10"), "blue was flown by 'trivial', whose policy is not found; name a pilot with --set blue=PIL"),
        (("--at", "noon"), "at is 'noon', expected a time as 0:21 or 21.5"),
        (("--at", "0:10", "--set", "B9=easy"), "set has mech 'B9', expected blue, red or one of: B1, B2"),
        (("--at", "0:10", "--set", "blue=nobody"), "set has pilot 'nobody', expected a level ("),
        (("--at", "0:10", "--changes", "laser"), "changes has 'laser', expected NAME=NUMBER"),
        (("--at", "0:10", "--set", "B1=easy", "--changes", "laser.colour=1"), "laser.colour"),
        (("--at", "9:59", "--set", "B1=easy"), "moment is at 599 s, expected 0 to 12 s"),
        (("--at", "0:10", "--without", "B2@0:11"), "expected one moment; leave out --at"),
    ],
)
def test_branch_refuses_in_one_line(echelon, recorded, options, message):
    code, _, error = echelon("replay", "branch", str(recorded), *options, "--runs", "1")
    assert code != output.DONE and message in " ".join(error.split()), error


def test_branch_refuses_a_match_without_actions(echelon):
    code, _, error = echelon("replay", "branch", str(SMALL), "--at", "0:02")
    assert code != output.DONE and "has no actions" in error


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """A match of 4 s in which a human flies B1, expert its team mates and medium the hostiles."""
    path = tmp_path_factory.mktemp("played") / "played-001.ecr"
    pilots = {"mates": level_pilot("expert"), "hostiles": level_pilot("medium")}
    match = begin_match(NewMatch(env=small_game(seconds=4.0), seed=3, **pilots), path, {})
    while not match.over:
        match.tick(np.full((1, 18), 40, np.int8))
    match.finish()
    return path


def test_branch_continues_a_match_of_a_human_with_the_pilots_of_the_team(echelon, played, tmp_path):
    options = ("--runs", "2", "--out", str(tmp_path), "--json")
    code, out, error = echelon("replay", "branch", str(played), "--at", "0:00.5", *options)
    assert code == output.DONE, error
    found = json.loads(out)
    assert (found["teams"], found["parent"]["set"]) == (["expert", "medium"], {})
    with Replay(found["replays"]["median"]) as continued:
        assert continued.header["pilots"]["script"][0] == continued.header["pilots"]["script"][1] > 0
    assert echelon("replay", "branch", found["replays"]["median"], "--at", "0:01", "--runs", "1")[0] == output.DONE


def test_branch_of_mixed_pilots_is_continued_with_them(echelon, played, tmp_path):
    policy = str(save(tmp_path / "policy", 1, env=small_game(seconds=4.0)))
    options = ("--runs", "1", "--json")
    changed = ("--set", f"B2={policy}", "--out", str(tmp_path / "first"))
    code, out, error = echelon("replay", "branch", str(played), "--at", "0:00.5", *changed, *options)
    assert code == output.DONE, error
    found = json.loads(out)
    assert found["teams"] == [f"{policy} and expert", "medium"] and found["parent"]["set"] == {"B2": policy}
    again = ("--at", "0:01", "--out", str(tmp_path / "second"), *options)
    code, out, error = echelon("replay", "branch", found["replays"]["median"], *again)
    assert code == output.DONE, error
    again = json.loads(out)
    assert (again["teams"], again["parent"]["set"]) == (found["teams"], {})
    with Replay(found["replays"]["median"]) as one, Replay(again["replays"]["median"]) as two:
        pilots = one.header["pilots"]
        assert pilots["names"][:3] == ["heuristic:expert", policy, "heuristic:expert"] and pilots["checkpoints"][1]
        assert pilots == two.header["pilots"]
