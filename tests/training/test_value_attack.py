"""The shaped reward of a value attack, against plain loops over steps, environments and mechs."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from echelon.config import MixConfig, OpponentConfig
from echelon.training.session import Session
from tests.training.runs import battle_run

COEF, ENVS = 0.5, 2


def test_value_attack_rewards_the_fall_of_the_value_of_the_opponent(monkeypatch):
    opponents = OpponentConfig(mix=MixConfig(scripted=0.0, champion=1.0), value_attack=COEF)
    config = battle_run(env={"max_episode_seconds": 2.0, "truncation_bootstraps": False}, num_envs=ENVS)
    with Session(replace(config, opponents=opponents)) as session:
        collector, buffer, mechs, potentials = session.collector, session.buffer, session.env.opponents, []
        attack, champion = collector.parts.attack, session.source.champion
        assert attack and champion
        note, state = attack.note, champion.policy.initial_state(mechs.count)

        def checked(t: int) -> None:
            nonlocal state
            alive = session.env.results.alive.flatten().tolist()
            value, state = champion.policy.get_value(mechs.obs, state, session.opponents.done.clone())
            rows = list(zip(value.tolist(), mechs.env.tolist(), mechs.agent.tolist(), strict=True))
            living = [[v for v, env, agent in rows if env == e and alive[agent]] for e in range(ENVS)]
            potentials.append([-sum(values) / max(1, len(values)) for values in living])
            note(t)

        monkeypatch.setattr(attack, "note", checked)
        collector.reset()
        with torch.no_grad():
            collector.collect()
            rewards, gamma = buffer.rewards.clone(), config.ppo.gamma
            collector.bootstrap(0.95)
        assert attack.potential.tolist() == [pytest.approx(row, abs=1e-4) for row in potentials]
        ends = torch.cat((buffer.dones[1:], collector.actor.next_done.unsqueeze(0)))
        assert ends.any() and attack.potential.std() > 0
        for t, (row, e) in product(range(buffer.num_steps), enumerate(session.env.rows.env.tolist())):
            after = 0.0 if ends[t, row] else gamma * potentials[t + 1][e]
            paid = float(buffer.rewards[t, row] - rewards[t, row])
            assert paid == pytest.approx(COEF * (after - potentials[t][e]), abs=1e-4), (t, row)
