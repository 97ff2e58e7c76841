"""Rewards: every term, their sum, team mixing, the terminal reward and potential-based shaping."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from echelon.actions import Order
from echelon.agents.heuristic import install, script_of
from echelon.config import EnvConfig, RewardConfig
from echelon.env.reward import TERM_NAMES, reward_rules
from echelon.sim.arsenal import Chassis
from echelon.training.rollout import RolloutBuffer
from tests.env.battle import Battle
from tests.oracles import game as rules
from tests.parity.scenes import clutter, scatter, snapshot, snapshots

SCOUT, LIGHT, MEDIUM, HEAVY = Chassis
APPROACH, ZONE, DAMAGE, DEATH, TERMINAL = (
    TERM_NAMES.index(name) for name in ("approach", "zone", "damage", "death", "terminal")
)
LOUD = replace(RewardConfig(), damage=0.05, zone_lead=0.05, team_alpha=0.6)
"""Reward weights with team mixing."""


def brawl(seconds: float, reward: RewardConfig, *, ordered: bool = True, **options) -> Battle:
    made = Battle(
        envs=6, size=32, edit=clutter(np.random.default_rng(1), 6), pilots=install, max_episode_seconds=seconds,
        reward=reward, num_packs=1, seed=5, **options,
    )  # fmt: skip
    made.batch["script"].fill_(script_of("easy"))
    middle = made["zone"][0, :2]
    pos = made["pos"].copy()
    pos[..., :2] = middle + (pos[..., :2] - middle) * 0.55
    made.batch.set("pos", pos)
    made.put("hp", made["hp"] * 0.3)
    kinds = (Order.HOLD, Order.FLANK_LEFT, Order.FLANK_RIGHT, Order.RETREAT, Order.NONE)
    if ordered:
        made.engine.give_orders({(e, m): (kinds[(e + m) % 5], -1) for e in range(6) for m in range(10)})
    return made


@pytest.mark.parametrize(
    ("reward", "bootstraps"), [(RewardConfig(), True), (LOUD, True), (LOUD, False)], ids=["own", "mixed", "end"]
)
def test_reward_terms_match_the_reference_through_whole_fights(reward, bootstraps):
    battle = brawl(8.0, reward, truncation_bootstraps=bootstraps)
    seen = np.zeros(len(TERM_NAMES))
    done = np.zeros(6, bool)
    for _ in range(battle.cfg.max_steps):
        before = snapshots(battle)
        battle.step()
        for e in np.flatnonzero(~done):
            after = snapshot(battle, e)
            parts, total = rules.rewards(before[e], after, int(after.reason), int(after.winner), battle.cfg)
            amounts = rules.reward_amounts(before[e], after, int(after.reason), battle.cfg)
            for i, name in enumerate(TERM_NAMES[:-1]):
                got, expected = after.amounts[:, i], amounts[:, i]
                np.testing.assert_allclose(got, expected, atol=1e-5, err_msg=f"amount of {name}, env {e}")
            for i, name in enumerate(TERM_NAMES):
                np.testing.assert_allclose(after.terms[:, i], parts[:, i], atol=1e-5, err_msg=f"{name}, env {e}")
            np.testing.assert_allclose(after.reward, total, atol=2e-5, err_msg=f"reward, env {e}")
            seen += np.abs(amounts).sum(axis=0)
        done |= battle["over"].astype(bool)
    missing = [name for name in TERM_NAMES[:-1] if name != "assist" and seen[TERM_NAMES.index(name)] == 0]
    assert done.all() and not missing, f"no fight has an amount of {missing}"


@pytest.mark.parametrize(
    ("seconds", "endings", "bootstraps"),
    [(3.0, {rules.TIME}, True), (3.0, {rules.TIME}, False), (20.0, {rules.ZONE, rules.ELIMINATION}, True)],
)
def test_discounted_approach_reward_telescopes_to_end_potentials(seconds, endings, bootstraps):
    battle = brawl(seconds, RewardConfig(), ordered=False, truncation_bootstraps=bootstraps)
    gamma, weight = battle.cfg.gamma, battle.cfg.reward.approach
    start = [[rules.potential(s, m) for m in range(10)] for s in snapshots(battle)]
    total, steps = np.zeros((6, 10)), np.zeros((6, 10))
    last = np.zeros((6, 10))
    done, fates = np.zeros(6, bool), set()
    for t in range(battle.cfg.max_steps):
        battle.step()
        for e in np.flatnonzero(~done):
            s = snapshot(battle, e)
            acted = s.acting.astype(bool)
            total[e] += gamma**t * s.terms[:, APPROACH]
            steps[e, acted] = t + 1
            terminal = int(s.reason) in rules.terminal_reasons(battle.cfg)
            last[e] = [0.0 if terminal or not s.alive[m] else rules.potential(s, m) for m in range(10)]
            fates |= {int(s.reason)} | ({"death"} if s.died.any() else set())
        done |= battle["over"].astype(bool)
    assert fates >= endings | {"death"}
    np.testing.assert_allclose(total, weight * (gamma**steps * last - start), atol=1e-5)


@pytest.fixture(scope="module")
def field():
    return Battle(reward=replace(RewardConfig(), win=1.0, loss=-1.0, draw=0.25))


def test_terms_sum_to_the_reward_without_team_mixing(field):
    scatter(field.fresh(), np.random.default_rng(0))
    for _ in range(5):
        field.step(np.random.default_rng(1).uniform(-1, 1, field["actions"].shape))
        np.testing.assert_allclose(field["terms"].sum(axis=-1), field["reward"], atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7])
def test_team_mixing_preserves_the_team_sum(field, alpha):
    field.batch.set("team_alpha", np.array([alpha], np.float32))
    scatter(field.fresh(), np.random.default_rng(4))
    field.step(np.random.default_rng(1).uniform(-1, 1, field["actions"].shape))
    field.batch.set("team_alpha", np.array([1.0], np.float32))
    acting = field["acting"][0].astype(bool)
    assert not acting.all(), "a mech is dead"
    own, mixed = field["terms"][0].sum(axis=-1), field["reward"][0]
    for team in (slice(0, 5), slice(5, 10)):
        assert mixed[team].sum() == pytest.approx(own[team].sum(), abs=1e-5)
        np.testing.assert_allclose(mixed[team], alpha * own[team] + (1 - alpha) * own[team].mean(), atol=1e-5)
    assert mixed[~acting].all(), "the dead have their share"


@pytest.mark.parametrize(("score", "blue", "red"), [((30, 0), 1, -1), ((0, 30), -1, 1), ((30, 30), 0.25, 0.25)])
def test_dead_mechs_receive_the_terminal_reward(field, score, blue, red):
    field.fresh()
    field.place(0, MEDIUM, 5, 5)
    field.place(5, MEDIUM, 55, 55)
    field.batch.set("score", np.array([score], np.float32))
    field.step()
    assert field["terms"][0, :, TERMINAL].tolist() == [blue] * 5 + [red] * 5
    assert field["reward"][0, 1] == blue and field["reward"][0, 9] == red


@pytest.mark.parametrize(("hostile_inside", "factor"), [(True, 2.0), (False, 1.0)])
def test_damage_reward_doubles_in_a_contested_zone(field, hostile_inside, factor):
    field.fresh()
    field.place(0, HEAVY, 30, 30)
    field.place(5, HEAVY, 36, 30)
    if hostile_inside:
        field.place(6, SCOUT, 30, 36)
    else:
        field.put("pos", (37.8, 30, 2), 5)
    field.act(0, primary=1)
    field.step()
    assert field["dealt"][0, 0] > 0
    assert field["terms"][0, 0, DAMAGE] == pytest.approx(0.005 * factor * field["dealt"][0, 0], rel=1e-5)


@pytest.mark.parametrize(("hostile_inside", "price"), [(True, -1.0), (False, -2.0)])
def test_death_penalty_halves_in_a_contested_zone(field, hostile_inside, price):
    field.fresh()
    field.place(0, HEAVY, 30, 30)
    field.place(1, SCOUT, 30, 34)
    field.place(5, HEAVY, 36 if hostile_inside else 37.8, 30, yaw=np.pi)
    field.put("hp", 1.0, 0)
    field.act(5, primary=1)
    field.step()
    assert field["died"][0, 0] == 1 and field["terms"][0, 0, DEATH] == price


def test_zone_reward_goes_only_to_mechs_inside(field):
    field.fresh()
    field.place(0, SCOUT, 30, 30)
    field.place(1, SCOUT, 5, 5)
    field.place(5, SCOUT, 55, 55)
    field.step()
    assert field["terms"][0, [0, 1, 5], ZONE].tolist() == [pytest.approx(0.1), 0, 0]


@pytest.mark.parametrize(("reward", "share"), [({"zone_lead": 1.0}, 1.0), ({"zone": 1.0, "team_alpha": 0.5}, 0.1)])
def test_rewards_of_a_dead_mech_reach_the_return_of_its_last_living_step(reward, share):
    weights = {"approach": 0.0, "death": 0.0, **reward}
    battle = Battle(reward=replace(RewardConfig(), **weights)).fresh()
    battle.place(0, SCOUT, 30, 30)
    battle.place(1, SCOUT, 5, 5)
    battle.place(5, SCOUT, 55, 55)
    rollout = RolloutBuffer.create(8, 10, 1, 1)
    for t in range(8):
        if t == 3:
            battle.put("alive", 0, 1)
        battle.step()
        rollout.rewards[t] = torch.from_numpy(battle["reward"][0])
        rollout.alive[t] = torch.from_numpy(battle["acting"][0])
    assert rollout.alive[:, 1].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    rollout.compute_gae(torch.zeros(10), torch.zeros(10), battle.cfg.gamma, 1.0)
    tick = battle["zone_tick"][0, 0]
    expected = share * tick * sum(battle.cfg.gamma**t for t in range(6))
    assert expected > 0 and rollout.returns[2, 1].item() == pytest.approx(expected, rel=1e-4)


def test_paint_assist_is_rewarded_once_per_target_and_second(field):
    field.fresh()
    field.place(0, LIGHT, 30, 30)
    field.place(5, HEAVY, 33, 30)
    field.put("painted", 100, 5)
    field.put("painter", 1, 5)
    field.act(0, primary=1)
    assists = []
    for _ in range(8):
        field.put("heat", 0.0)
        field.place(1, SCOUT, 5, 5)
        field.put("painted", 100, 5)
        field.step()
        assists.append(int(field["assists"][0, 1]))
    assert assists == [1, 0, 0, 0, 1, 0, 0, 0]
    assert field["assists"][0, 0] == 0


def test_approach_mode_selects_decay_or_off():
    for mode, expected in (("decay", 1.5 * (20 - (20 - 5.5 * 0.98 * 0.25)) / 60), ("off", 0.0)):
        battle = Battle(reward=replace(RewardConfig(), approach=1.5, approach_mode=mode))
        battle.fresh()
        battle.place(0, MEDIUM, 10, 30)
        battle.place(5, MEDIUM, 55, 55)
        battle.act(0, forward=1)
        battle.step()
        assert battle["terms"][0, 0, APPROACH] == pytest.approx(expected, abs=1e-5)


def test_shaping_uses_the_configured_gamma():
    assert reward_rules(EnvConfig(gamma=0.9)).gamma == pytest.approx(0.9)
    assert EnvConfig().gamma < 1
