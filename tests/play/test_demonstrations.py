"""Played matches as demonstrations: rows of the seats as the pilots had them, readable as other recordings."""

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.arena.contest import Pilot
from echelon.demos import load
from echelon.play.demonstrations import export_played
from echelon.play.match import NewMatch, begin_match
from tests.arena.recorded_matches import record_matches, small_game

LEVEL = Pilot(id="trivial", label="trivial", level="trivial")
assert LEVEL.level in heuristic.SKILLS
GAME = small_game(seconds=4.0)


def play(path, seed: int, seats: int):
    """Record a short match whose pilots press other keys every tick; return what its first seat observed and did."""
    draws = np.random.default_rng(seed)
    match = begin_match(NewMatch(env=GAME, seed=seed, seats=seats, mates=LEVEL, hostiles=LEVEL), path, {})
    rows, actions, rewards = [], [], []
    observations = match._pilots.observations.numpy()
    while not match.over:
        if match.now % 5 == 0:
            rows.append(observations[match.seats[0]].copy())
        inputs = draws.integers(-127, 128, (seats, 26)).astype(np.int8)
        match.tick(inputs)
        if match.now % 5 == 0:
            actions.append(inputs[0])
            rewards.append(float(match.engine.batch.row("reward", 0)[match.seats[0]]))
    match.finish()
    return np.stack(rows), np.stack(actions), np.array(rewards, np.float32)


@pytest.mark.long
def test_played_matches_are_exported_as_their_pilots_had_them(tmp_path):
    played = [play(tmp_path / f"m{seed}.ecr", seed, seats) for seed, seats in ((3, 1), (5, 2))]
    files = [tmp_path / "m3.ecr", tmp_path / "m5.ecr"]
    manifest = export_played(files, tmp_path / "demos", {}, obs_dtype="float32")
    assert (manifest.counts.episodes, manifest.policy.name, manifest.is_complete) == (2, "human", True)
    shards = list(load(tmp_path / "demos"))
    assert [shard.actions.shape[1] for shard in shards] == [1, 2]
    for shard, (rows, actions, rewards) in zip(shards, played, strict=True):
        np.testing.assert_array_equal(shard.obs[:, 0], rows)
        np.testing.assert_array_equal(shard.actions[:, 0], actions)
        np.testing.assert_array_equal(shard.rewards[:, 0], rewards)
    assert export_played(files, tmp_path / "demos", {}, obs_dtype="float32").counts == manifest.counts


@pytest.mark.long
def test_match_without_seats_is_refused(tmp_path):
    (match,) = record_matches(tmp_path, GAME)
    with pytest.raises(ValueError, match="no inputs of human pilots"):
        export_played([match.path], tmp_path / "demos", {})
