"""Pilots of recorded matches by mech: stored names, scripted levels, and the names of teams in older files."""

from dataclasses import replace

import pytest

from echelon.agents.heuristic import script_of
from echelon.arena.contest import Pilot
from echelon.arena.named_pilots import (
    RecordedPilot,
    level_pilot,
    pilots_of_mechs,
    recorded_pilot,
    still_pilot,
    teams_of,
)
from echelon.replay.codec import ReplayError
from echelon.replay.header import TeamInfo
from echelon.replay.reader import Replay
from echelon.replay.validate import parse_header
from echelon.replay.winprob import known_rating
from tests.replay.golden import SMALL

ROSTER = [{"team": mech // 2, "name": f"{'BR'[mech // 2]}{mech % 2 + 1}", "present": True} for mech in range(4)]
EXPERT, CHAMPION = level_pilot("expert"), Pilot(id="champion", label="champion", path="c", checkpoint="c0ffee")


def header(blue: dict[str, str], *, script: tuple[int, ...] = (0, 0, 0, 0), **pilots: list[str]) -> dict[str, object]:
    return {
        "mechs": 4,
        "roster": ROSTER,
        "teams": [blue, {"name": "medium", "level": "heuristic:medium"}],
        "pilots": {"script": list(script), "weapon_prob": 1.0, **pilots},
    }


@pytest.mark.parametrize(
    ("team", "name"),
    [
        ({"name": "human and still"}, "still"),
        ({"name": "human"}, "still"),
        ({"name": "expert and human", "level": "heuristic:expert"}, "heuristic:expert"),
        ({"name": "human and otter", "policy": "otter"}, "otter"),
    ],
)
def test_pilot_of_a_human_mech_is_that_of_its_team_in_older_files(team, name):
    assert recorded_pilot(header(team), 0) == RecordedPilot(name)


def test_pilots_of_mixed_teams_are_stored_by_mech_and_read_first():
    names, checkpoints = zip(*pilots_of_mechs(4, {0: CHAMPION, 1: EXPERT, 2: still_pilot()}), strict=True)
    assert (names, checkpoints) == (("champion", "heuristic:expert", "still", ""), ("c0ffee", "", "", ""))
    blue = {"name": "champion and expert"}
    found = header(blue, script=(0, script_of("expert"), 0, 0), names=list(names), checkpoints=list(checkpoints))
    expected = [("champion", "c0ffee"), ("heuristic:expert", ""), ("still", ""), ("heuristic:medium", "")]
    assert [tuple(recorded_pilot(found, mech)) for mech in range(4)] == expected
    assert pilots_of_mechs(4, {}, found) == tuple(expected)
    assert recorded_pilot(header(blue, names=["otter"], checkpoints=["1"]), 0) == RecordedPilot("champion and expert")


def test_teams_are_named_after_pilots_and_humans():
    recorded = header({"name": "expert and human", "level": "heuristic:expert"}, script=(0, script_of("expert"), 0, 0))
    blue, red = teams_of(ROSTER, {0: EXPERT}, recorded=recorded)
    assert blue == TeamInfo(name="expert", level="heuristic:expert", rating=known_rating("expert"))
    assert red == TeamInfo(name="medium", level="heuristic:medium")  # as its file has it
    blue, red = teams_of(ROSTER, {1: CHAMPION}, (0, 3), recorded)
    assert (blue.name, blue.checkpoint, red.name) == ("champion and human", "c0ffee", "human and medium")


def test_rating_of_a_team_is_the_mean_of_its_known_pilots():
    recorded = header({"name": "otter", "policy": "otter", "rating": 1900.0})
    policy = replace(CHAMPION, rating=2100.0)
    expert = known_rating("heuristic:expert")
    assert [team.rating for team in teams_of(ROSTER, {}, recorded=recorded)] == [1900.0, None]
    mixed = teams_of(ROSTER, {0: policy, 2: EXPERT}, recorded=recorded)
    assert [team.rating for team in mixed] == [2000.0, (expert + 1500) / 2]
    assert teams_of(ROSTER, {0: CHAMPION, 1: EXPERT, 2: EXPERT, 3: EXPERT})[0].rating is None
    assert [team.rating for team in teams_of(ROSTER, {1: policy}, (0,))] == [2100.0, None]


@pytest.mark.parametrize("names", ["x", [3], ["a" * 5000]])
def test_malformed_names_are_refused(names):
    with Replay(SMALL) as replay:
        damaged = {**replay.header, "pilots": {"script": [], "weapon_prob": 1.0, "names": names}}
    with pytest.raises(ReplayError):
        parse_header(damaged, SMALL.name)
