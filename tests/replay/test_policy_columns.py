"""Policy columns match contacts, actions, value estimates and rewards of each environment step."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from echelon.actions import CHANCES
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import MechFlag
from tests.replay.battles import all_frames, battle, config

SECONDS = 12.0
NAMES = ("visible", "contact", "actions", "terms", "acting", "value", "alive", "chances")


@dataclass
class Played:
    """Arrays of the batch before and after each environment step."""

    before: list[dict[str, np.ndarray]] = field(default_factory=list)
    after: list[dict[str, np.ndarray]] = field(default_factory=list)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Replay, Played, Any]:
    played, rng = Played(), np.random.default_rng(0)
    with battle(config(max_episode_seconds=SECONDS)) as env:
        env.reset()
        batch = env.engine.batch
        recorder = Recorder(env.engine, [0], tmp_path_factory.mktemp("insight"), [MatchInfo(name="m")], policy="values")
        recorder.begin()
        while not recorder.outcomes:
            batch.set("value", rng.uniform(-3, 3, (1, env.num_mechs)).astype(np.float32))
            batch.set("chances", rng.uniform(0, 1, (1, env.num_mechs, len(CHANCES))).astype(np.float32))
            played.before.append({name: batch.numpy(name)[0].copy() for name in NAMES})
            env.step()
            played.after.append({name: batch.numpy(name)[0].copy() for name in NAMES})
            recorder.after_step()
        (path,) = recorder.finish()
        teams = batch.numpy("team")[0].copy()
    with Replay(path) as replay:
        steps = len(all_frames(replay)["tick"]) - 1  # the recorder sees the end only at a later fetch
        played.before, played.after = played.before[:steps], played.after[:steps]
        yield replay, played, teams


def column(replay: Replay, name: str) -> np.ndarray:
    """Return a policy column ``[F, M, k]`` in physical values."""
    spec = next(c for c in replay.header["columns"] if c["name"] == name)
    values = all_frames(replay)[name] * spec["scale"]
    return values.reshape(len(values), replay.header["mechs"], spec["k"])


def test_header_describes_policy_columns(recorded):
    replay, played, _ = recorded
    insight = replay.header["insight"]
    assert insight["actions"][:4] == ["forward", "strafe", "vertical", "yaw_rate"]
    assert len(insight["actions"]) == played.before[0]["actions"].shape[1]
    assert insight["terms"][-1] == "terminal" and insight["estimates"] is True
    assert insight["chances"] == list(CHANCES)


def test_action_column_matches_applied_actions(recorded):
    replay, played, _ = recorded
    actions = column(replay, "action")
    assert not actions[0].any()
    for f, after in enumerate(played.after, start=1):
        applied = np.rint(np.clip(after["actions"], -1, 1) * 127) / 127 * after["acting"][:, None]
        np.testing.assert_allclose(actions[f], applied, atol=1e-6)
    assert np.abs(actions).max() > 0.9


def test_value_and_reward_columns_match_the_step(recorded):
    replay, played, _ = recorded
    value, reward = column(replay, "value")[:, :, 0], column(replay, "reward")
    for f, (before, after) in enumerate(zip(played.before, played.after, strict=True), start=1):
        np.testing.assert_allclose(value[f], before["value"] * after["acting"], atol=0.0051)
        np.testing.assert_allclose(reward[f], np.clip(after["terms"], -32.768, 32.767), atol=0.00051)
    assert np.abs(reward).max() > 0


def test_chance_column_matches_the_step(recorded):
    replay, played, _ = recorded
    chance = column(replay, "chance")
    assert chance.shape[2] == len(CHANCES) and not chance[0].any()
    for f, (before, after) in enumerate(zip(played.before, played.after, strict=True), start=1):
        np.testing.assert_allclose(chance[f], before["chances"] * after["acting"][:, None], atol=0.0051)


def test_contact_and_sees_columns_match_start_of_step(recorded):
    replay, played, teams = recorded
    contact, sees = column(replay, "contact"), column(replay, "sees").astype(int)
    flags, mechs = all_frames(replay)["flags"], len(teams)
    for f, before in enumerate(played.before, start=1):
        assert contact[f].astype(int).tolist() == before["contact"].tolist()
        bits = [[sees[f, m, j // 8] >> j % 8 & 1 for j in range(mechs)] for m in range(mechs)]
        assert bits == before["visible"].tolist()
        for m in np.flatnonzero(played.after[f - 1]["alive"]):
            known = any(before["visible"][j, m] for j in range(mechs) if teams[j] != teams[m])
            assert bool(flags[f, m] & MechFlag.SEEN) == known
    seen = flags & MechFlag.SEEN
    assert seen.any() and not seen.all()
