"""``python -m tests.bench.orders RUN [--seeds N]``: how far a policy obeys orders, by order, as JSON.

It plays report seeds from both sides against ``expert`` with mean actions: with random orders every 10 s, which it
observes, and without orders. Then the same measure says how far it does by itself what it would be ordered.
"""

import argparse
import json
from typing import Any

import numpy as np
import torch

from echelon.actions import ORDER_NAMES
from echelon.arena.standings import policy_path
from echelon.config import PPOConfig, RunConfig
from echelon.config.seeds import eval_seeds
from echelon.env import layout
from echelon.env.observe.orders import DRAWN_S
from echelon.rl.weights import load_policy
from echelon.training.evaluation import make_eval_env, play_episodes
from echelon.training.hindsight import Hindsight
from echelon.training.policy_agent import env_config_of
from echelon.training.records import EpisodeObserver


class _Obedience(EpisodeObserver):
    """Sums obedience to the mechs' own orders, or to all orders tried, over living mech-steps with a place to be."""

    def __init__(self, env, cfg, *, ordered: bool) -> None:
        every = round(float(DRAWN_S) / cfg.dt_act)
        self.env, self.ordered, self.at = env, ordered, layout.offset("orders", layout.blocks(cfg))
        self.tried = Hindsight(env, RunConfig(env=cfg, ppo=PPOConfig(rollout_steps=every, num_minibatches=1)))
        self.tried.edges = list(range(0, cfg.max_steps + every, every))
        self.sums, self.steps = np.zeros(8), np.zeros(8, int)

    def begin(self) -> None:
        self.running = torch.ones(self.env.sizes.num_envs, dtype=torch.bool)

    def before_step(self, estimate) -> None:
        self.tried.before_step()
        own = self.env.rows.obs[0, :, self.at : self.at + layout.ORDERS.width]
        columns = torch.stack([own, *self.tried._columns[-1]], 1)
        self.has_place = (columns[..., 7:] != 0).any(-1)
        self.own = torch.where(own[:, :7].any(-1), own[:, :7].argmax(-1) + 1, 0)

    def after_step(self) -> None:
        self.tried._measure()
        results, rows = self.env.results, self.env.rows
        obeyed = self.tried._obeyed.pop()
        counts = rows.of_mechs(results.acting & (self.running & ~results.over)[:, None])[:, None] & self.has_place
        for order in range(1, 8):
            column = 0 if self.ordered else order
            chosen = counts[:, column] & (~torch.tensor(self.ordered) | (self.own == order))
            self.sums[order] += float(obeyed[chosen, column].sum())
            self.steps[order] += int(chosen.sum())
        self.running &= ~results.over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--seeds", type=int, default=50)
    options = parser.parse_args()
    loaded = load_policy(policy_path(options.run))
    cfg, found = env_config_of(loaded.meta).without_ranges(), {}
    for name, rate in (("with", 1.0), ("without", 0.0)):
        env: Any = make_eval_env(cfg, eval_seeds(options.seeds), weapon_prob=1.0, skill="expert", threads=1)
        env.engine.batch["order_rate"].fill_(rate)
        observer = _Obedience(env, cfg, ordered=rate > 0)
        records = play_episodes(loaded.policy, env, cfg.max_steps, observers=[observer])
        won = [record.winner == (record.env >= options.seeds) for record in records]
        means = observer.sums / np.maximum(observer.steps, 1)
        found[name] = {"wins": float(np.mean(won))} | {
            order: {"obedience": round(float(mean), 3), "mech_steps": int(steps)}
            for order, mean, steps in list(zip(ORDER_NAMES, means, observer.steps, strict=True))[1:]
        }
        env.close()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
