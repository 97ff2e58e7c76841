"""What every preset must hold, whatever it is tuned for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.presets import PRESETS, get_preset
from echelon.training.opponents import sides
from echelon.training.vec_env import VectorEnv

LEAST_ENVS = 4


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_trains_on_several_environments_at_once(name):
    config = get_preset(name)
    assert config.num_envs >= LEAST_ENVS


def test_a_batch_is_the_learners_of_all_environments():
    config = get_preset("quickstart")
    small = replace(config.env, world=replace(config.env.world, size_x=40, size_y=40))
    learners, opponents = sides(config.num_envs, config.opponents)
    with VectorEnv(config.num_envs, small, bank_maps=1, learners=learners, opponents=opponents) as env:
        assert env.rows == config.num_envs * small.team_size
