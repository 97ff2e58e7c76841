"""``echelon replay branch`` prints win probabilities, records typical continuations, and refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from echelon_cli import output
from tests.arena.recorded_matches import record_matches, small_game
from tests.replay.golden import SMALL


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A match of 12 s in which a policy that is not found flies B1."""
    return record_matches(tmp_path_factory.mktemp("recorded"), small_game(seconds=12.0))[0].path


def test_branch_reports_continuations_effect_and_replays(echelon, recorded, tmp_path):
    options = ("--without", "R2@0:10", "--for", "0.5", "--set", "blue=easy", "--set", "B2=heuristic:expert")
    code, out, error = echelon(
        "replay", "branch", str(recorded), *options, "--runs", "3", "--out", str(tmp_path), "--json"
    )
    assert code == output.DONE, error
    found = json.loads(out)
    assert (found["at_s"], found["played_from_s"], found["runs"]) == (10.0, 10.0, 3)
    assert found["parent"]["set"] == {"B1": "easy", "B2": "expert", "B3": "easy", "B4": "easy", "B5": "easy"}
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
        (
            ("--at", "0:10"),
            "blue was flown by 'trivial', whose policy is not found; name a pilot with --set blue=PILOT",
        ),
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
