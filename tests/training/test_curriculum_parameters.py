"""Curriculum parameters of the environment: map sizes, packs and mechanics within a fixed capacity; map refreshes."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from echelon.config import EnvConfig, RunConfig, TeacherConfig, WorldConfig
from echelon.env.env import EchelonEnv
from echelon.telemetry.events import EventUpdate
from echelon.training import map_pool
from echelon.training.batch_options import Episodes, Maps, Pilots, Sides
from echelon.training.map_pool import MapPool
from echelon.training.vec_env import VectorEnv
from tests.training.runs import assert_equal_weights, assert_resumes_exactly, battle_run, collected, of, update
from tests.training.test_vec_env import play

ENVS = 6
ROOMY = EnvConfig(world=WorldConfig(size_x=60, size_y=60), max_episode_seconds=4.0, zone_win_share=2.0)
TWO_PACKS = replace(ROOMY, num_packs=2)


def vector(cfg: EnvConfig = ROOMY, **options) -> VectorEnv:
    return VectorEnv(ENVS, cfg, **{"maps": Maps(8), **options})


def edges(env: VectorEnv) -> list[tuple[int, int]]:
    return [(int(x), int(y)) for x, y, _ in env.engine.batch.numpy("size")]


def sampled_edges(env: VectorEnv, episodes: int) -> list[int]:
    """Return the map edges of the given number of episodes of every environment."""
    found = []
    for _ in range(episodes):
        env.reset()
        found += [x for x, y in edges(env) if x == y]
    return found


def test_set_curriculum_reaches_every_environment():
    with vector(TWO_PACKS) as env:
        env.set_curriculum(weapon_prob=0.75, map_size_range=(40, 50), packs_per_team_range=(1, 1))
        env.reset()
        assert env.engine.batch.numpy("weapon_prob").ravel().tolist() == [0.75] * ENVS
        assert all(40 <= x <= 50 for x, _ in edges(env))
        assert (env.results.alive.sum(1) == 10).all()
        parameters = env.get_curriculum()
        assert parameters.keys() >= {"weapon_prob", "map_size_range", "packs_per_team_range"}
        assert (parameters["map_size_range"], parameters["packs_per_team_range"]) == ((40, 50), (1, 1))
        env.set_curriculum(map_size_range=None, packs_per_team_range=[2, 2])
        assert env.get_curriculum()["map_size_range"] == (40, 50)


def test_map_sizes_are_sampled_within_range_by_seed():
    with (
        vector(episodes=Episodes(3)) as env,
        vector(episodes=Episodes(3)) as same,
        vector(episodes=Episodes(4)) as other,
    ):
        for one in (env, same, other):
            one.set_curriculum(map_size_range=(40, 60))
        drawn = sampled_edges(env, 5)
        assert len(drawn) == 30 and min(drawn) >= 40 and max(drawn) <= 60 and len(set(drawn)) > 1
        assert sampled_edges(same, 5) == drawn and sampled_edges(other, 5) != drawn
        env.set_curriculum(map_size_range=(50, 50))
        assert set(sampled_edges(env, 5)) == {50}


def test_map_size_keeps_aspect_ratio():
    cfg = replace(ROOMY, world=WorldConfig(size_x=60, size_y=45), map_size_range=(40, 40))
    with vector(cfg) as env:
        env.reset()
        assert set(edges(env)) == {(40, 30)}
        env.set_curriculum(map_size_range=(60, 60))
        env.reset()
        assert set(edges(env)) == {(60, 45)}


def test_without_disables_mechanics_from_next_episode():
    with vector() as env:
        env.reset()
        env.set_curriculum(without=("heat", "paint"))
        assert not env.engine.batch.numpy("withheld").any()
        env.reset()
        assert env.engine.batch.numpy("withheld").tolist() == [9] * ENVS
        mixed = [("ewar",), (), ("missiles", "heat"), (), (), ("paint",)]
        env.set_curriculum(without=mixed)
        env.reset()
        assert env.engine.batch.numpy("withheld").tolist() == [4, 0, 3, 0, 0, 8]
        assert env.get_curriculum()["without"] == tuple(mixed)
        saved = env.state_dict()
        env.set_curriculum(without=())
        env.reset()
        assert not env.engine.batch.numpy("withheld").any()
        env.load_state_dict(saved)
        assert env.engine.batch.numpy("withhold").tolist() == [4, 0, 3, 0, 0, 8]


def test_parameter_overrides_differ_by_environment():
    with vector(changes=[{"heavy.hp": 100.0 + env} for env in range(ENVS)]) as env:
        env.reset()
        assert env.engine.batch.numpy("hp")[:, 0].tolist() == [100.0 + env for env in range(ENVS)]
    with pytest.raises(ValueError, match="changes is 2, expected one set per environment, 6"):
        vector(changes=[{}, {}])


@pytest.fixture(scope="module")
def ranged():
    with vector(replace(TWO_PACKS, map_size_range=(40, 60))) as env:
        yield env


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"without": ("gravity",)}, "mechanic 'gravity' does not exist, .* one of: heat, missiles, ewar, paint"),
        ({"without": [("heat",)]}, "without is 1, expected names per environment, 6"),
        ({"without": "heat"}, "without is 'heat', expected names of mechanics"),
        ({"gravity": 1}, "parameter 'gravity' does not exist, expected one of: skill, weapon_prob"),
        ({"skill": "wizard"}, "wizard"),
        ({"map_size_range": (50, 40)}, r"map_size_range is \(50, 40\), expected the minimum first"),
        ({"map_size_range": (40, 61)}, r"map_size_range is \(40, 61\), expected 20 to 60, the capacity"),
        ({"map_size_range": (10, 40)}, r"map_size_range is \(10, 40\), expected 20 to 60"),
        ({"map_size_range": 40}, "map_size_range is 40, expected two integers"),
        ({"map_size_range": (40.5, 50)}, "expected two integers"),
        ({"packs_per_team_range": (2, 1)}, "expected the minimum first"),
        ({"packs_per_team_range": (1, 3)}, r"packs_per_team_range is \(1, 3\), expected 1 to 2, the capacity"),
        ({"packs_per_team_range": (0, 1)}, "expected 1 to 2"),
        ({"map_size_range": (20, 60), "packs_per_team_range": (2, 2)}, "20x20 .* 2 packs per team"),
        ({"weapon_prob": 2.0}, "weapon_prob is 2.0, expected 0 to 1"),
    ],
)
def test_set_curriculum_rejects_impossible_value_without_change(ranged, parameters, message):
    before = ranged.get_curriculum()
    with pytest.raises(ValueError, match=message):
        ranged.set_curriculum(team_alpha=0.5, **parameters)
    assert ranged.get_curriculum() == before
    assert ranged.engine.batch.numpy("team_alpha").tolist() == [1.0]


def test_packs_vary_with_constant_shapes():
    with vector(replace(TWO_PACKS, packs_per_team_range=(1, 2)), sides=Sides("both"), episodes=Episodes(1)) as env:
        env.reset()
        shapes = env.rows.obs.shape, env.actions.shape, env.results.rewards.shape, env.rows.row_of.shape
        present = env.engine.batch.numpy("present").astype(bool)
        assert sorted(set(present.sum(1).tolist())) == [10, 20]
        small = present.sum(1) == 10
        expected = np.repeat([[True, False]] * 2, 5, axis=1).ravel()
        assert (present[small] == expected).all()
        absent = torch.from_numpy(~present)
        for _ in range(5):
            env.actions.uniform_(-1, 1)
            env.step()
            assert not env.results.alive[absent].any() and not env.results.acting[absent].any()
            assert env.results.terminated[absent].all() and not env.results.truncated[absent].any()
            assert not env.results.rewards[absent].any()
            rows = env.rows.obs[0][absent.view(-1)[env.rows.agent]]
            assert torch.equal(rows.any(0), torch.tensor([".padding" in row.name for row in env.layout]))
            assert torch.equal(env.results.present, ~absent)
        assert shapes == (env.rows.obs.shape, env.actions.shape, env.results.rewards.shape, env.rows.row_of.shape)


def test_absent_mechs_count_in_no_episode_record():
    with vector(replace(TWO_PACKS, packs_per_team_range=(1, 1))) as env:
        env.reset()
        play(env, ROOMY.max_steps)
        records = env.episodes.pop()
        assert len(records) == ENVS
        for record in records:
            assert record.present.sum() == 10 and not record.deaths[~record.present].any()


def test_small_map_plays_equal_at_any_capacity():
    exact = replace(ROOMY, world=WorldConfig(size_x=40, size_y=40))
    with (
        vector(exact, pilots=Pilots("hard"), episodes=Episodes(5)) as tight,
        vector(replace(ROOMY, map_size_range=(40, 40)), pilots=Pilots("hard"), episodes=Episodes(5)) as roomy,
    ):
        for env in (tight, roomy):
            env.reset()
        assert edges(tight) == edges(roomy) == [(40, 40)] * ENVS
        for a, b in zip(play(tight, 40), play(roomy, 40), strict=True):
            np.testing.assert_array_equal(a, b)


def map_of_each_env(env: VectorEnv) -> np.ndarray:
    """Return the bank's material of the map that each environment uses."""
    batch = env.engine.batch
    return batch.numpy("bank_material")[batch.numpy("map_slot")].copy()


@pytest.mark.parametrize("spare", [1, 8])
def test_running_episodes_keep_their_map_when_ranges_change(spare):
    with vector(maps=Maps(8, spare=spare)) as env:
        env.reset()
        before, episodes = map_of_each_env(env), env.engine.batch.numpy("episode").copy()
        env.set_curriculum(map_size_range=(40, 50))
        for _ in range(ROOMY.max_steps - 1):
            env.step()
            assert np.array_equal(map_of_each_env(env), before)
        assert np.array_equal(env.engine.batch.numpy("episode"), episodes)
        env.step()
        assert all(40 <= x <= 50 for x, _ in edges(env)), "the next episodes are within the new range"
        play(env, 2 * ROOMY.max_steps)
        pool = env.maps
        assert pool is not None and not pool._pending and len(pool.live) == 8


def test_second_range_change_within_episode_takes_effect():
    with vector(maps=Maps(8, spare=1)) as env:
        env.reset()
        play(env, 3)
        env.set_curriculum(map_size_range=(40, 44))
        play(env, ROOMY.max_steps - 3)
        env.set_curriculum(map_size_range=(50, 54))
        play(env, 2 * ROOMY.max_steps)
        assert all(50 <= x <= 54 for x, _ in edges(env))
        pool = env.maps
        assert pool is not None and sorted(pool.live) == sorted(set(pool.live)) and len(pool.live) == 8


def test_refresh_maps_replaces_the_oldest():
    with vector() as env, vector() as same:
        pool = env.maps
        assert pool is not None and same.maps is not None
        first = [pool.specs[place] for place in pool.live]
        env.reset()
        for one in (env, same):
            one.reset()
            one.maps.refresh(3)
            play(one, 2 * ROOMY.max_steps)
            one.maps.refresh(3)
            play(one, 2 * ROOMY.max_steps)
        now = [pool.specs[place] for place in pool.live]
        assert now[:2] == first[6:] and len(set(now)) == 8 and not set(now[2:]) & set(first)
        assert env.maps.statistics()["maps_used"] == 14
        assert pool.live == same.maps.live and pool.specs == same.maps.specs


def test_restored_map_pool_continues_exactly(tmp_path, monkeypatch):
    def act(env: VectorEnv) -> list[np.ndarray]:
        env.maps.refresh(2)
        return play(env, 20, seed=2)

    with vector(maps=Maps(8, spare=2), episodes=Episodes(9)) as env:
        env.reset()
        play(env, 5, seed=1)
        env.maps.refresh(3)
        env.set_curriculum(map_size_range=(40, 60), weapon_prob=0.9)
        play(env, 7, seed=1)
        assert env.maps is not None and env.maps._pending, "maps wait for a slot, which the state must contain"
        state = env.state_dict()
        expected, figures = act(env), env.maps.statistics()
    with vector(maps=Maps(8, spare=2), episodes=Episodes(9)) as other:
        other.reset()
        other.load_state_dict(state)
        assert other.get_curriculum()["map_size_range"] == (40, 60)
        for a, b in zip(act(other), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        assert other.maps.statistics()["maps_used"] == figures["maps_used"]
    with (
        vector(maps=Maps(8, spare=4)) as other,
        pytest.raises(ValueError, match="bank of 10 map slots, this run has 12"),
    ):
        other.load_state_dict(state)


def test_fixed_seeds_fix_map_sizes_and_packs():
    cfg = replace(TWO_PACKS, map_size_range=(40, 60), packs_per_team_range=(1, 2))
    seeds = [11, 12, 13, 14, 15, 16]
    with (
        vector(cfg, episodes=Episodes(seeds=seeds)) as env,
        vector(cfg, episodes=Episodes(seeds=seeds[::-1])) as turned,
    ):
        env.reset()
        turned.reset()
        assert edges(env) == edges(turned)[::-1] and len(set(edges(env))) > 1
        assert env.results.alive.sum(1).tolist() == turned.results.alive.sum(1).tolist()[::-1]
        with pytest.raises(ValueError, match="expected none with explicit seeds"):
            env.set_curriculum(map_size_range=(40, 40))
        env.set_curriculum(weapon_prob=0.5)
        single = EchelonEnv(cfg)
        observed, _ = single.reset(seed=11)
        assert single.world.size[:2] == edges(env)[0]
        assert single.sim.numpy("alive")[0].tolist() == env.results.alive[0].int().tolist()
        assert {row.shape for row in observed.values()} == {(env.sizes.obs_dim,)}
        single.close()


def run_config(**changes) -> RunConfig:
    """Return a run of seconds on maps of 30 to 40 voxels with one or two packs."""
    ranges = {"map_size_range": (30, 40), "packs_per_team_range": (1, 2)}
    return battle_run(edge=40, env={"num_packs": 2, **ranges}, bank_maps=6, teacher=TeacherConfig(), **changes)


def test_absent_mechs_enter_no_loss_and_no_statistic():
    with collected(run_config(), VectorEnv) as session:
        buffer = session.buffer
        absent = buffer.present == 0
        assert absent.any() and not (buffer.alive[absent] > 0).any()
        twin = {name: value.clone() for name, value in session.policy.state_dict().items()}
        for values in (buffer.rewards, buffer.values, buffer.returns, buffer.advantages):
            values[absent] = 1e3
        torch.manual_seed(1)
        update(session)
        disturbed = {name: value.clone() for name, value in session.policy.state_dict().items()}
    with collected(run_config(), VectorEnv) as session:
        torch.manual_seed(1)
        update(session)
        plain = session.policy.state_dict()
        assert_equal_weights(plain, disturbed)
        assert any(not torch.equal(plain[name], twin[name]) for name in plain)


@pytest.mark.long
def test_resumed_run_with_ranges_is_bit_exact(tmp_path):
    """Maps of drawn sizes and packs, of which some are replaced after every update."""
    config = run_config(bank_refresh_every=1, bank_refresh_maps=2, bank_spare=3)
    whole, _, _ = assert_resumes_exactly(config, tmp_path, 2, fields=("maps_used",), make_env=VectorEnv)
    updates = of(whole, EventUpdate)
    assert updates[-1].curriculum["map_size_range"] == (30, 40)
    assert [u.maps_used for u in updates] == [6, 8, 10, 12]
    assert all("maps" in u.phases_s for u in updates) and updates[-1].map_stalls <= 3


def test_prefetched_maps_avoid_a_stall(tmp_path, monkeypatch):
    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path))
    with vector(maps=Maps(8, workers=1)) as env:
        pool = env.maps
        assert pool is not None
        env.reset()
        env.maps.prefetch({"map_size_range": (40, 45)})
        while not all(coming.done() for coming in pool.prefetcher._pending.values()):
            time.sleep(0.02)
        env.set_curriculum(map_size_range=(40, 45))
        assert env.maps.statistics()["map_stalls"] == 0
        env.set_curriculum(map_size_range=(46, 50))
        assert env.maps.statistics()["map_stalls"] == 1 and env.maps.statistics()["map_wait_s"] > 0


TINY = EnvConfig(world=WorldConfig(size_x=28, size_y=28))


@pytest.mark.long
@pytest.mark.parametrize(("prefetching", "per_worker", "expected"), [(1, 2, 3), (1, 64, 0), (0, 2, 0)])
def test_first_maps_are_generated_by_processes_where_many_are_needed(
    tmp_path, monkeypatch, prefetching, per_worker, expected
):
    """The same by one process and by several, which only a pool that prefetches starts."""
    asked, generate = [], map_pool.generate_maps

    def counted(specs, *, workers, progress):
        asked.append(workers)
        return generate(specs, workers=min(workers, 2), progress=progress)

    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path))
    monkeypatch.setattr(map_pool, "generate_maps", counted)
    monkeypatch.setattr(map_pool, "MAPS_PER_WORKER", per_worker)
    pool = MapPool(TINY, 5, Maps(6, workers=prefetching), workers=4)
    pool.close()
    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path / "empty"))
    alone = MapPool(TINY, 5, Maps(6))
    assert asked == [expected, 0]
    np.testing.assert_array_equal(pool.bank.material, alone.bank.material)
    assert pool.bank.recipe_hashes == alone.bank.recipe_hashes
