"""Learning in battles: a short run in a small environment, and a long one of a preset."""

from dataclasses import replace

import pytest

from echelon.config import EvalConfig, OpponentConfig, TeacherConfig, WorldConfig
from echelon.config.presets import quickstart
from echelon.telemetry.events import Event, EventEpisodes, EventEval
from echelon.training.loop import run

STEPS, QUICKSTART_STEPS = 110_000, 2_500_000
EDGE = 30
"""Map edge [vox]."""
SECONDS = 20.0
"""Duration of an episode [s]."""
SHARE = 5
"""The first and the last 1/SHARE of the episodes are compared; some 300 are played in all."""


@pytest.mark.long
def test_tiny_battle_win_rate_rises():
    base = quickstart()
    opponents = OpponentConfig(skill="trivial", weapon_prob_start=0.2, weapon_prob_end=0.2)
    world = WorldConfig(size_x=EDGE, size_y=EDGE, size_z=16)
    config = replace(
        base,
        num_envs=32,
        bank_maps=16,
        total_steps=STEPS,
        max_minutes=0.0,
        env=replace(base.env, world=world, max_episode_seconds=SECONDS),
        ppo=replace(base.ppo, rollout_steps=32, num_minibatches=8, update_epochs=2),
        teacher=TeacherConfig(),
        opponents=opponents,
        eval=EvalConfig(every_updates=0, seeds=10, skill="trivial", weapon_prob=0.2, record_seeds=0),
    )
    seen: list[Event] = []
    run(config, seen.append, lambda: False)
    ended = [e for e in seen if isinstance(e, EventEpisodes)]
    first, last = (
        sum(e.wins for e in part) / sum(e.count for e in part)
        for part in (ended[: len(ended) // SHARE], ended[-len(ended) // SHARE :])
    )
    before, after = (e for e in seen if isinstance(e, EventEval))
    assert first <= 0.35 and last >= 0.6, f"{first:.0%} of the first battles were won and {last:.0%} of the last"
    assert before.win_rate <= 0.3 and after.win_rate >= 0.65, f"{before.win_rate:.0%}, then {after.win_rate:.0%}"


@pytest.mark.slow
def test_quickstart_beats_easy_pilots():
    seen: list[Event] = []
    run(replace(quickstart(), total_steps=QUICKSTART_STEPS, max_minutes=0.0), seen.append, lambda: False)
    evaluations = [e for e in seen if isinstance(e, EventEval)]
    assert evaluations[0].win_rate <= 0.1
    assert evaluations[-1].win_low > 0.5
