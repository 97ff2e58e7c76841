"""Options of the recipe: the trust region, averages of weights, largest advantages, prioritised opponents."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from echelon.config import EvalConfig, MixConfig, OpponentConfig, TeacherConfig
from echelon.config.presets import get_preset
from echelon.rl.checkpoint import open_checkpoint
from echelon.training.evaluator import Evaluator
from echelon.training.opponents.pool import FLOOR, OpponentMix, Priorities, scripted_name
from echelon.training.ppo.optimizer import LR_FACTOR_RATIO, LR_FACTOR_START, RAW_WEIGHTS, LearningRate, WeightAverage
from echelon.training.session import Session
from tests.training.runs import assert_equal_weights, assert_resumes_exactly, run, weights
from tests.training.support import N, model_of, rollout_of, trainer_of

LR = 1e-2


def test_learning_rate_follows_the_divergence_from_update_to_update():
    trainer = trainer_of(model_of(), lr=LR, critic_lr_mult=3.0)
    rate = LearningRate(trainer.optimizer, trainer.config, trainer.device)
    limit = trainer.config.kl_lr_target
    rate.begin(4)
    factors = []
    for kl in (5.0, 0.2 * limit, 0.5 * limit, 0.3 * limit, 9.0, 9.0, 9.0):
        rate.follow(torch.tensor(kl))
        factors.append(float(rate.factor) / LR_FACTOR_START)
    expected = [1.0, 1.0, 1.0, LR_FACTOR_RATIO, 1.0, 1.0, 1.0]
    assert factors == pytest.approx(expected), "not by the first minibatch, and never below the start"
    rates = [float(group["lr"]) for group in trainer.optimizer.param_groups]
    assert rates == pytest.approx([LR * LR_FACTOR_START, 3 * LR * LR_FACTOR_START])
    rate.begin(100)
    for _ in range(60):
        rate.follow(torch.tensor(0.0))
    assert float(rate.factor) == 1.0
    rate.follow(torch.tensor(torch.nan))
    rate.follow(torch.tensor(9.0))
    assert float(rate.factor) == pytest.approx(1.0 / LR_FACTOR_RATIO)


def test_factor_of_the_learning_rate_is_saved_and_reported():
    model, other = model_of(), model_of()
    trainer, again = trainer_of(model, kl_lr_target=1e-6), trainer_of(other)
    metrics = trainer.update(rollout_of(model), model.initial_state(N))
    assert metrics["lr_factor"] == pytest.approx(LR_FACTOR_RATIO**-11)
    again.load_state_dict(trainer.state_dict())
    assert float(again.learning_rate.factor) == pytest.approx(metrics["lr_factor"])


@pytest.mark.long
@pytest.mark.parametrize("preset", ["quickstart", "league"])
def test_first_update_from_the_champion_stays_in_the_trust_region(preset):
    config = get_preset(preset)
    config = replace(
        config, start_from="champion", teacher=TeacherConfig(), num_envs=8, bank_maps=4, threads=1, device="cpu",
        opponents=replace(config.opponents, mix=MixConfig(), rating_seeds=0, past_every_updates=0),
    )  # fmt: skip
    with Session(config) as session:
        session.begin()
        session.set_progress()
        session.collector.collect()
        session.collector.bootstrap(config.ppo.gae_lambda)
        buffer, trainer, start = session.buffer, session.trainer, session.collector.start_state
        trainer.update(buffer, start, session.collector.chunk_states)
        ratio = trainer._score_rollout(buffer, start, 32)[0] - buffer.logprobs
        kl = ((ratio.exp() - 1.0 - ratio) * buffer.alive).sum() / buffer.alive.sum()
    assert 1e-5 < float(kl) < 0.05


def test_advantage_share_filters_the_policy_loss_but_not_the_value_loss(monkeypatch):
    seen = []
    model = model_of()
    buffer, trainer = rollout_of(model), trainer_of(model, advantage_share=0.25, update_epochs=1)
    gradients_of = trainer.minibatch_update.gradients_of
    monkeypatch.setattr(
        trainer.minibatch_update, "gradients_of", lambda batch: seen.append(batch) or gradients_of(batch)
    )
    trainer.update(buffer, model.initial_state(N))
    living = int((buffer.alive * buffer.present).sum())
    scored = [batch.advantages[batch.policy_weights > 0].abs() for batch in seen]
    assert sum(len(part) for part in scored) == round(0.25 * living)
    left_out = torch.cat([batch.advantages[batch.policy_weights == 0] for batch in seen])
    assert min(part.min() for part in scored) > left_out[left_out.abs() > 0].abs().median()
    assert sum(int((batch.value_weights > 0).sum()) for batch in seen) == living


def test_weight_average_is_the_mean_at_first_and_decays_afterwards():
    model = model_of()
    average, expected = WeightAverage(model, 0.75), None
    for update in range(6):
        with torch.no_grad():
            model.core.critic.bias.fill_(float(update**2))
            model.obs_normalizer.shift.fill_(float(update))
        average.update(update)
        share = max(0.25, 1 / (update + 1))
        expected = update**2 if expected is None else expected + share * (update**2 - expected)
        assert float(average.policy.core.critic.bias) == pytest.approx(expected)
        assert float(average.policy.obs_normalizer.shift[0]) == update, "statistics are the newest"
    assert not any(p.requires_grad for p in average.policy.parameters())
    off = WeightAverage(model, 0.0)
    assert off.policy is model and not off.state_dict()


def test_average_is_evaluated_saved_and_played_and_resumes_exactly(small_run, tmp_path, monkeypatch):
    evaluated, evaluate = [], Evaluator.evaluate

    def spy(self, policy, *args):
        evaluated.append({name: tensor.clone() for name, tensor in policy.state_dict().items()})
        return evaluate(self, policy, *args)

    monkeypatch.setattr(Evaluator, "evaluate", spy)
    config = small_run(
        ppo={"obs_norm": True, "ema_decay": 0.6, "lr_schedule": "linear"},
        eval=EvalConfig(seeds=1, every_updates=4, at_start=False),
        opponents=OpponentConfig(mix=MixConfig(scripted=1.0, past=1.0), past_every_updates=2, rating_seeds=0),
        max_updates=4,
        num_envs=4,
    )
    *_, resumed = assert_resumes_exactly(config, tmp_path, 2)
    played, state = weights(resumed), open_checkpoint(resumed.checkpoint).state()
    raw, name = state[RAW_WEIGHTS], "core.critic.weight"
    assert not torch.equal(played[name], raw[name])
    assert_equal_weights(evaluated[0], played)
    snapshot = state["opponents"]["source"]["weights"]["past:2"]
    assert not torch.equal(snapshot[name], raw[name])


def test_priorities_follow_a_running_win_rate():
    priorities = Priorities(2.0)
    assert priorities.factor("new") == 0.25
    for _ in range(1000):
        priorities.record("weak", "win")
        priorities.record("strong", "loss")
        priorities.record("even", "draw")
    assert priorities.factor("weak") == pytest.approx(FLOOR**2) and priorities.factor("strong") > 0.99
    assert priorities.factor("even") == pytest.approx(0.25)
    for _ in range(200):
        priorities.record("weak", "loss")
    assert priorities.factor("weak") > 0.6, "old results are forgotten"
    copy = Priorities(2.0)
    copy.load_state_dict(priorities.state_dict())
    assert copy.win_rates == priorities.win_rates
    copy.exponent = 0.0
    assert copy.factor("weak") == 1.0


def pool_of(pfsp: float) -> OpponentMix:
    mix = MixConfig(scripted=0.0, easy=1.0, expert=1.0, past=2.0)
    pool = OpponentMix(OpponentConfig(mix=mix, pfsp=pfsp), 5, model_of)
    for update in (0, 7):
        pool.add(model_of(), update)
    return pool


def test_pfsp_samples_levels_and_snapshots_by_losses():
    pool, plain = pool_of(1.0), pool_of(0.0)
    outcomes = {scripted_name("easy"): "win", scripted_name("expert"): "loss", "past:0": "win", "past:7": "draw"}
    for _ in range(400):
        for name, outcome in outcomes.items():
            pool.record_outcome(name, outcome)
            plain.record_outcome(name, outcome)
    factors = {name: pool.priorities.factor(name) for name in outcomes}
    total = sum(factors.values())  # every opponent has the base weight 1
    episodes = [(env, episode) for env in range(40) for episode in range(100)]
    counts = Counter(pool.draw_many(episodes))
    chi_square = sum((counts[n] - 4000 * f / total) ** 2 / (4000 * f / total) for n, f in factors.items())
    assert chi_square < 16.3, counts  # 0.999 quantile at 3 degrees of freedom
    even = Counter(plain.draw_many(episodes))
    assert all(900 < even[name] < 1100 for name in outcomes), even
    again = pool_of(1.0)
    again.load_state_dict(pool.state_dict())
    assert [again.draw(e, 3) for e in range(50)] == [pool.draw(e, 3) for e in range(50)]


def test_pfsp_records_outcomes_of_a_run(small_run, tmp_path):
    opponents = OpponentConfig(mix=MixConfig(scripted=0.0, easy=1.0, past=1.0), pfsp=2.0, rating_seeds=0)
    result, _ = run(small_run(opponents=opponents, max_updates=3, num_envs=4), tmp_path)
    rates = open_checkpoint(result.checkpoint).state()["opponents"]["source"]["win_rates"]
    assert rates and rates.keys() <= {"heuristic:easy", "past:0"}
