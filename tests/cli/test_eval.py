"""``echelon eval``: whom a policy is measured against."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from echelon.arena.store import Store, league_path
from echelon.arena.submit import submit
from echelon.config import with_fairness
from echelon.env.layout import newest
from echelon.replay.reader import Replay
from echelon_cli.commands.evaluate import Opponent, environment_of, opponent_of
from tests.arena.policy_files import SMALL, save
from tests.cli.conftest import parsed

SHORT = replace(SMALL, max_episode_seconds=4.0)
FEW = ("--seeds", "1", "--threads", "1", "--json")


def test_opponent_level_spellings_and_default():
    assert (
        opponent_of("heuristic:hard", None)
        == opponent_of("hard", None)
        == opponent_of(None, "hard")
        == Opponent("hard")
    )
    assert opponent_of(None, None).title == "heuristic:medium"


def test_eval_opponent_of_another_observation_version_is_deterministic_and_swaps_sides(echelon, tmp_path):
    one, two = save(tmp_path / "one", 1, env=SHORT), save(tmp_path / "two", 2, env=newest(SHORT))
    with Store(league_path()) as store:
        submit(store, two, label="keen-lynx")
    words = [(str(two),), ("keen-lynx", "--record")]
    found = [parsed(echelon("eval", str(one), *FEW, "--opponent", *more)[1]) for more in words]
    assert [row.pop("opponent") for row in found] == [str(two), "keen-lynx"]
    assert all(row.pop("duration_s") > 0 and row["sampled"].pop("duration_s") > 0 for row in found)
    replays = [row.pop("replays") for row in found]
    assert found[0] == found[1] and found[0]["episodes"] == 2 and [len(remaining) for remaining in replays] == [0, 2]
    with Replay(Path(replays[1][0])) as replay:
        assert "keen-lynx" in [team["name"] for team in replay.header["teams"]]


@pytest.mark.parametrize(
    ("words", "code", "expected_text"),
    [
        (("--opponent", "heuristic:hards"), 2, "level 'hards' does not exist, did you mean 'hard'?"),
        (("--opponent", "league"), 2, "try echelon arena run for all"),
        (("--opponent", "nosuch"), 3, "opponent is 'nosuch', expected a checkpoint, a run or a league entry"),
        (("--opponent", "hard", "--skill", "easy"), 2, "use one of them"),
        (("--opponent", "hard", "--ladder"), 2, "drop --opponent"),
    ],
)
def test_invalid_opponent_is_one_line_error(echelon, tmp_path, words, code, expected_text):
    done, _, err = echelon("eval", str(save(tmp_path, 1, env=SHORT)), *words)
    assert done == code and expected_text in err and err.count("\n") == 1


def test_eval_plays_the_maps_of_the_training_unless_others_are_requested(echelon, tmp_path):
    fair = with_fairness(SHORT, "path")
    for trained in (SHORT, fair):
        policy = str(save(tmp_path / trained.world.fairness, 1, env=trained))
        for words in ((), ("--maps", "any"), ("--maps", "path"), ("--maps", "any", "--ladder")):
            found = parsed(echelon("eval", policy, *FEW, *words)[1])
            assert found["maps"] == (words[1] if words else trained.world.fairness)


def test_environment_of_older_policy_has_its_maps():
    older = asdict(SHORT)
    del older["world"]["fairness"]
    assert environment_of({"env_cfg": older}) == SHORT
    assert environment_of({"env_cfg": older}, 60, "path").world == replace(
        SHORT.world, size_x=60, size_y=60, fairness="path"
    )


def test_eval_rejects_other_observation_layout(echelon, tmp_path):
    other = save(tmp_path / "two", 2, env=replace(SHORT, comm_dim=4))
    code, _, err = echelon("eval", str(save(tmp_path / "one", 1, env=SHORT)), "--opponent", str(other), *FEW)
    assert code == 1 and "has another observation layout" in err
