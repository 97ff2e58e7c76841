"""Seeds of 64 bits, as numpy takes them, wherever a seed is accepted; smaller ones mean what they meant."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.arena.config import ArenaConfig
from echelon.arena.contest import Contest
from echelon.config import EnvConfig, RunConfig, WorldConfig
from echelon.config.seeds import EPISODE_SEEDS, MAX_SEED, folded, require_seed
from echelon.env.env import EchelonEnv
from echelon.env.gym_vector import EchelonVectorEnv
from echelon.gen.generate import MAP_SEEDS, generate
from echelon.play.config import PlayConfig
from echelon.training.batch_options import Episodes, Maps
from echelon.training.vec_env import VectorEnv

SMALL = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=1.0)


def _env(seed: Any) -> Any:
    env = EchelonEnv(SMALL)
    return env.reset(seed=seed)[0]["blue_0"]


def _vector(seed: Any) -> Any:
    return EchelonVectorEnv(1, SMALL, maps=1).reset(seed=seed)[0]


def _batch(seed: Any) -> Any:
    with VectorEnv(1, SMALL, maps=Maps(1), episodes=Episodes(seeds=[seed])) as env:
        env.reset()
        return env.rows.obs[0].numpy().copy()


TAKERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "EchelonEnv": (_env, EPISODE_SEEDS),
    "EchelonVectorEnv": (_vector, EPISODE_SEEDS),
    "VectorEnv": (_batch, EPISODE_SEEDS),
    "map": (lambda seed: generate(SMALL.world, seed, num_packs=1, zone_radius_vox=8.0).material, MAP_SEEDS),
    "contest": (
        lambda seed: [
            pair.seed for pair in Contest(env=SMALL, pilots=("easy", "hard"), matches=2, first_seed=seed).pairings()
        ][:1],
        EPISODE_SEEDS,
    ),
}


@pytest.mark.parametrize(("take", "limit"), TAKERS.values(), ids=TAKERS)
def test_seed_of_64_bits_is_that_of_its_hash(take, limit):
    assert np.array_equal(take(MAX_SEED), take(folded(MAX_SEED, limit)))
    with pytest.raises(ValueError, match=f"seed is {2**64}, expected an integer from 0 to {MAX_SEED}"):
        take(2**64)


def test_settings_take_seeds_of_64_bits_and_refuse_others():
    for kind in (RunConfig, ArenaConfig, PlayConfig):
        assert kind(seed=MAX_SEED).seed == MAX_SEED
        with pytest.raises(ValueError, match="seed"):
            kind(seed=-1)
    with pytest.raises(ValueError, match=f"seed is {2**64}, expected an integer from 0 to {MAX_SEED}"):
        replace(RunConfig(), seed=2**64)


@given(seed=st.integers(0, MAX_SEED), limit=st.sampled_from([2**30, EPISODE_SEEDS, MAP_SEEDS]))
def test_folded_seed_is_below_the_limit_and_keeps_smaller_ones(seed, limit):
    found = folded(seed, limit)
    assert found < limit and found == folded(found, limit) == require_seed(np.uint64(seed), limit=limit)
    assert found == seed or seed >= limit
