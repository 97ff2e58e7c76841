"""Labels in hindsight against plain rules, on the battles of an expert."""

from types import SimpleNamespace

import numpy as np
import torch

from echelon.actions import Order
from echelon.config import PPOConfig, RewardConfig, RunConfig
from echelon.env import layout
from echelon.training.batch_options import Maps, Pilots
from echelon.training.hindsight import Hindsight
from echelon.training.rollout import RolloutBuffer
from echelon.training.teachers import ScriptedTeacher
from echelon.training.vec_env import VectorEnv
from tests.arena.recorded_matches import small_game
from tests.oracles import orders as rules
from tests.oracles.shared import distance, heading_frame

STEPS, WINDOW, ENVS, TEAM = 60, 20, 6, 5
CONFIG = RunConfig(
    env=small_game(seconds=60.0, observe_orders=True, order_rate=1.0, reward=RewardConfig(obey=0.25)),
    ppo=PPOConfig(rollout_steps=STEPS, num_minibatches=1),
)
AT = layout.offset("orders", layout.blocks(CONFIG.env))


def state_of(env: VectorEnv, e: int) -> SimpleNamespace:
    batch = env.engine.batch
    return SimpleNamespace(**{name: batch.numpy(name)[e].copy() for name in batch.fields if "tried" not in name})


def named(s, m: int, order: Order) -> int:
    """Return the nearest visible hostile, or the nearest living packmate, -1 for neither."""
    own, hostile = range(TEAM), range(TEAM, 2 * TEAM)
    fits = {Order.FOCUS: [j for j in hostile if s.visible[m, j]], Order.SCREEN: [j for j in own if j != m]}
    return min((j for j in fits.get(order, ()) if s.alive[j]), key=lambda j: distance(s.pos[j], s.pos[m]), default=-1)


def tried(states, m: int, order: Order, first: int, spawn, flow) -> tuple[list[float], list[np.ndarray]]:
    """Return how far m obeys an order in each step of a window, and its columns of the observation."""
    mech, place, obeyed, columns = named(states[first], m, order), states[first].pos[m].copy(), [], []
    for before, after in zip(states[first : first + WINDOW], states[first + 1 : first + WINDOW + 1], strict=True):
        for s in (before, after):
            s.order_kind[m], s.order_mech[m], s.order_place[m] = order, mech, place
        goal, row = rules.goal(before, m, spawn[before.map_slot, m]), np.eye(10)[order - 1]
        if goal[2]:
            ahead, left, _ = heading_frame(np.array([*(goal[:2] - before.pos[m][:2]), 0.0]), float(before.yaw[m]))
            d = max(np.hypot(ahead, left), 1e-6)
            row[7:] = left / d, ahead / d, min(d / 15, 8)
        obeyed.append(rules.obedience(after, m, goal, flow))
        columns.append(row)
    return obeyed, columns


def test_windows_show_the_order_that_was_obeyed_most():
    with VectorEnv(ENVS, CONFIG.env, maps=Maps(ENVS), threads=1, pilots=Pilots("medium", weapon_prob=1.0)) as env:
        teacher = ScriptedTeacher(env, "expert", hindsight := Hindsight(env, CONFIG))
        teacher.set_active(True)
        buffer = RolloutBuffer.create(STEPS, ENVS * TEAM, env.sizes.obs_dim, env.sizes.action_dim, has_labels=True)
        env.rows.attach(buffer.obs_rows)
        env.engine.batch["order_rate"].zero_()
        env.reset()
        # the mechs of half of the matches have an order
        env.engine.give_orders({(e, m): (Order.RETREAT, -1) for e in range(0, ENVS, 2) for m in range(TEAM)})
        states = [[state_of(env, e)] for e in range(ENVS)]
        for t in range(STEPS):
            teacher.label(buffer.obs_rows[t], buffer.dones[t], buffer.labels[t])
            env.step(t + 1)
            buffer.alive[t] = env.rows.of_mechs(env.results.acting)
            assert not env.results.over.any(), "the matches last"
            for e in range(ENVS):
                states[e].append(state_of(env, e))
        own = np.array([[states[r // TEAM][t + 1].amounts[r % TEAM] for r in range(ENVS * TEAM)] for t in range(STEPS)])
        own = own[..., env.engine.term_names.index("obey")]
        spawn, flow = (env.engine.batch[name].numpy() for name in ("bank_spawn", "bank_flow"))
        rows, begins = torch.arange(ENVS * TEAM) < 5 * TEAM, 30
        buffer.dones[begins, 0] = 1.0
        before = buffer.obs_rows.clone().numpy()
        labels = hindsight.relabel(buffer, rows, torch.zeros(ENVS * TEAM)).numpy()
    seen = set[int]()
    for row in range(ENVS * TEAM):
        for first in range(0, STEPS, WINDOW):
            steps = slice(first, first + WINDOW)
            lives = buffer.alive[steps, row].numpy() > 0
            found = {o: tried(states[row // TEAM], row % TEAM, o, first, spawn, flow) for o in list(Order)[1:]}
            means = {o: np.mean(np.array(obeyed)[lives]) if lives.any() else 0.0 for o, (obeyed, _) in found.items()}
            best = max(means, key=lambda o: means[o])
            mine = own[steps, row]
            excess = means[best] - (mine[lives].mean() if lives.any() else 0.0)
            if abs(excess - 0.5) < 1e-3:
                continue
            is_shown = rows[row] and excess > 0.5 and not (row == 0 and first < begins < first + WINDOW)
            assert set(labels[steps, row]) == {best if is_shown else 0}, (row, first, means)
            obs, reward = before[steps, row, AT : AT + 10].copy(), np.zeros(WINDOW)
            if is_shown:
                obs[lives] = np.array(found[best][1])[lives]
                reward[lives] = 0.25 * (np.array(found[best][0]) - mine)[lives]
                seen.add(int(best))
            np.testing.assert_allclose(buffer.obs_rows[:-1][steps, row, AT : AT + 10], obs, atol=1e-4)
            np.testing.assert_allclose(buffer.rewards[steps, row], reward, atol=1e-4)
    assert seen >= {Order.HOLD, Order.ADVANCE, Order.SCREEN} and (labels[:, 5 * TEAM :] == 0).all()
    shown = labels[::WINDOW].reshape(3, ENVS, TEAM)[:, :5] > 0
    assert shown[:, 1::2].mean() > shown[:, ::2].mean(), "orders that are obeyed stay"
