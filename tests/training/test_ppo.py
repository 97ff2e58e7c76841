"""The PPO update: losses, chunks, minibatches, schedules and non-finite values."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch

from echelon.actions import ACTION_DIM
from echelon.config import ModelConfig, PPOConfig
from echelon.rl import squash
from echelon.rl.build import build_model
from echelon.rl.model import ActorCriticLSTM
from echelon.training import rollout
from echelon.training.normalization import NORM_EPS
from echelon.training.ppo import losses as ppo_losses
from echelon.training.ppo.trainer import PPOTrainer, ReloadCheckpoint, schedule_factor
from echelon.training.rollout import RolloutBuffer, plan_minibatches
from echelon.training.runtime.process_group import ProcessGroup
from echelon.training.runtime.threads import ThreadPool
from tests.training.support import A, D, N, T, batch_of, model_of, rollout_of, trainer_of, weights_of


def even_terms(**given):
    """Return the PPO loss terms of steps of equal weight, whose values are 1, as are those of ``given`` inputs."""
    ones = torch.ones(4, 2)
    inputs = {"advantages": ones, "returns": ones, "old_logprobs": 0 * ones, "logprobs": 0 * ones, "values": ones}
    inputs |= {"entropies": 0 * ones, **given}
    equal = torch.full_like(inputs["values"], 1.0 / inputs["values"].numel())
    return ppo_losses.ppo_terms(
        ppo_losses.LossInputs(**inputs, policy_weights=equal, value_weights=equal), 0.2, 0.01, 0.5
    )


def test_loss_terms_match_worked_examples():
    ones = torch.ones(4, 2)
    terms = even_terms(logprobs=2 * ones)
    assert float(terms.pg_loss) == pytest.approx(-1.2) and float(terms.clipfrac) == 1.0
    terms = even_terms(logprobs=0.1 * ones)
    assert float(terms.pg_loss) == pytest.approx(-math.exp(0.1)) and float(terms.clipfrac) == 0.0
    assert float(terms.approx_kl) == pytest.approx(math.exp(0.1) - 1 - 0.1, rel=1e-4)
    assert float(even_terms(values=0 * ones).vf_loss) == pytest.approx(0.5)


def test_value_loss_is_independent_of_reward_scale():
    losses = []
    for scale in (1.0, 1000.0):
        normalizer = trainer_of(model_of()).return_normalizer
        torch.manual_seed(0)
        returns = (torch.randn(500, 4) + 1) * scale
        normalizer.update(returns)
        values = returns + torch.randn(500, 4) * 0.5 * scale
        zeros = torch.zeros(500, 4)
        terms = even_terms(
            advantages=zeros, old_logprobs=zeros, logprobs=zeros, entropies=zeros,
            returns=normalizer.normalize(returns), values=normalizer.normalize(values),
        )  # fmt: skip
        losses.append(float(terms.vf_loss))
    assert losses[1] == pytest.approx(losses[0], rel=0.01)


def test_ratios_are_one_before_first_step():
    model = model_of()
    buffer = rollout_of(model)
    trainer = trainer_of(model)
    logprobs, values = trainer._score_rollout(buffer, model.initial_state(N), 8)
    assert torch.allclose(logprobs, buffer.logprobs, atol=1e-4)
    assert torch.allclose(values, buffer.values, atol=1e-4)


def test_chunk_states_match_full_replay_without_gradient():
    model = model_of()
    buffer = rollout_of(model)
    states = trainer_of(model).chunk_states(buffer, model.initial_state(N))
    state = model.initial_state(N)
    for t in range(T):
        if t % 8 == 0:
            assert torch.allclose(states.h[t // 8], state.h[0], atol=1e-5)
            assert torch.allclose(states.c[t // 8], state.c[0], atol=1e-5)
        _, state = model.get_value(buffer.obs[t], state, buffer.dones[t])
    assert states.h.grad_fn is None and not states.h.requires_grad


@pytest.mark.parametrize("draws_rows", [False, True])
def test_plan_minibatches_covers_every_step_once_by_seed(draws_rows):
    """Ranks shuffle separately and average gradients once per minibatch: their number depends on the sizes alone."""
    sizes = [(64, 320, 32, 4), (128, 320, 16, 4), *product((7, 16, 20, 36), (1, 5), (3, 8, 16), (1, 2, 5))]
    for steps, rows, length, expected in sizes:
        counts = set()
        for seed in range(4):
            torch.manual_seed(seed)
            plan = plan_minibatches(steps, rows, length, expected, draws_rows=draws_rows)
            seen = torch.zeros(steps, rows)
            for units in plan:
                assert len({u.end - u.first for u in units}) == 1, "recurrent states of one minibatch keep step"
                for u in units:
                    seen[u.first : u.end, u.rows] += 1
            assert (seen == 1).all()
            counts.add(len(plan))
        assert len(counts) == 1, (steps, rows, length, expected)

    def planned():
        plan = plan_minibatches(64, 40, 32, 8, draws_rows=draws_rows)
        return [(u.chunk, u.rows.tolist()) for units in plan for u in units]

    torch.manual_seed(3)
    first = planned()
    torch.manual_seed(3)
    assert planned() == first != planned()


def test_plan_minibatches_draws_rows_from_all_battles():
    neighbours = {tuple(u.rows.tolist()) for (u,) in plan_minibatches(64, 40, 32, 8)}
    assert neighbours == {tuple(range(10 * g, 10 * g + 10)) for g in range(4)}
    torch.manual_seed(0)
    drawn = [{tuple(u.rows.tolist()) for (u,) in plan_minibatches(64, 40, 32, 8, draws_rows=True)} for _ in range(2)]
    assert not drawn[0] & drawn[1], "drawn again for each epoch"
    assert all(max(rows) - min(rows) > 10 and list(rows) == sorted(rows) for rows in drawn[0] | drawn[1])


@pytest.mark.parametrize("idle", [[2], [0, 3, 4], [0, 1, 2, 3, 4, 5]])
def test_minibatch_without_idle_sequences_has_the_same_loss_and_gradient(idle):
    model = model_of()
    trainer, buffer = trainer_of(model, burn_in_steps=2), rollout_of(model)
    counted = torch.ones(T, N)
    counted[8:16, idle] = 0.0
    states = trainer.chunk_states(buffer, model.initial_state(N))
    rows = torch.arange(N)
    units = [rollout.Unit(1, 8, 16, rows[:4]), rollout.Unit(1, 8, 16, rows[4:])]
    found = []
    for skips in (False, True):
        torch.manual_seed(1)
        batch = rollout.gather_minibatch(buffer, states, buffer.returns, counted, units, skips_idle=skips)
        terms, gradients = trainer.minibatch_update.gradients_of(batch)
        assert gradients is not None
        found.append((batch.obs.shape[1], terms, gradients))
    (whole, terms, gradients), (trimmed, same_terms, same_gradients) = found
    assert whole == N and trimmed == max(1, N - len(idle))
    torch.testing.assert_close(tuple(terms), tuple(same_terms), atol=1e-6, rtol=1e-5)
    for a, b in zip(gradients, same_gradients, strict=True):
        for x, y in zip(a, b, strict=True):
            assert (x is None) == (y is None) and (x is None or torch.allclose(x, y, atol=1e-6))


def test_update_rejects_rollout_without_advantages():
    model = model_of()
    with pytest.raises(ValueError, match="advantages and returns"):
        trainer_of(model).update(RolloutBuffer.create(T, N, D, A), model.initial_state(N))


def test_update_changes_weights_and_returns_plain_metrics():
    model = model_of()
    buffer, before = rollout_of(model), weights_of(model)
    metrics = trainer_of(model).update(buffer, model.initial_state(N))
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(isinstance(v, (int, float)) for v in metrics.values())
    assert metrics["optimizer_steps"] == 4 * 3 and metrics["epochs"] == 4
    assert metrics["grad_norm_max"] >= metrics["grad_norm"] > 0


def test_grad_norm_metric_is_before_clipping():
    model = model_of()
    metrics = trainer_of(model, max_grad_norm=1e-4).update(rollout_of(model), model.initial_state(N))
    assert metrics["grad_norm"] > 1e-3 and metrics["grad_clipped_share"] == 1.0


def test_trainer_accepts_bare_actor_critic():
    torch.manual_seed(0)
    model = ActorCriticLSTM(D, A, 8, 8)
    assert math.isfinite(trainer_of(model).update(rollout_of(model), model.initial_state(N))["loss"])


def test_micro_batches_sum_to_whole_minibatch(monkeypatch):
    results = []
    for rows in (8, 10**6):
        monkeypatch.setattr(rollout, "MICRO_BATCH_ROWS", rows)
        model = model_of()
        buffer = rollout_of(model)
        trainer = trainer_of(model, update_epochs=1, num_minibatches=1)
        metrics = trainer.update(buffer, model.initial_state(N))
        results.append((metrics["loss"], weights_of(model)))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(results[0][1], results[1][1], strict=True))


@pytest.mark.parametrize("checkpoints", [False, True])
def test_thread_count_does_not_change_update(monkeypatch, checkpoints):
    monkeypatch.setattr(rollout, "MICRO_BATCH_ROWS", 8)
    results = []
    for threads in (1, 2):
        model = model_of()
        buffer = rollout_of(model)
        with ThreadPool(threads) as pool:
            options = PPOConfig(
                tbptt_chunk_length=8, num_minibatches=3, grad_accum_steps=2, update_epochs=1,
                activation_checkpointing=checkpoints,
            )  # fmt: skip
            metrics = PPOTrainer(model, options, "cpu", pool).update(buffer, model.initial_state(N))
        assert metrics["optimizer_steps"] == 2, "the last accumulation is partial"
        results.append(weights_of(model))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_accumulated_gradients_equal_one_large_batch():
    norms = []
    for count, steps in ((1, 1), (3, 3), (3, 5)):
        model = model_of()
        buffer = rollout_of(model)
        buffer.alive[8:16, 1:] = 0.0
        trainer = trainer_of(
            model, update_epochs=1, num_minibatches=count, grad_accum_steps=steps, ent_coef=0.0, value_norm=False
        )
        norms.append(trainer.update(buffer, model.initial_state(N))["grad_norm"])
    assert norms[1:] == pytest.approx([norms[0]] * 2, rel=1e-4), "by rows, also in a group that is not full"


def test_gradients_are_cleared_between_steps():
    """Three epochs of one minibatch equal three manual steps, each with its own gradient."""
    model, by_hand = model_of(), model_of()
    buffer = rollout_of(model)
    options = {"num_minibatches": 1, "tbptt_chunk_length": T, "ent_coef": 0.0, "update_epochs": 3, "value_norm": False}
    trainer_of(model, **options).update(buffer, model.initial_state(N))
    trainer, parameters = trainer_of(by_hand, **options), list(by_hand.parameters())
    batch = batch_of(trainer, buffer, buffer.alive)
    optimizer = torch.optim.Adam(parameters, lr=trainer.config.lr, eps=trainer.config.adam_eps)
    for _ in range(3):
        optimizer.zero_grad()
        trainer.gradients._terms_of(batch, slice(None)).loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, trainer.config.max_grad_norm)
        optimizer.step()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(weights_of(model), weights_of(by_hand), strict=True))


@pytest.mark.parametrize("policy", ["raise", "skip", "reload"])
def test_nonfinite_rewards_raise_skip_or_reload(policy):
    model = model_of()
    buffer, before = rollout_of(model), weights_of(model)
    buffer.rewards[3, 2] = float("nan")
    buffer.compute_gae(torch.zeros(N), torch.zeros(N), 0.99, 0.95)
    trainer = trainer_of(model, nonfinite_policy=policy, update_epochs=1)
    if policy != "skip":
        error = ValueError if policy == "raise" else ReloadCheckpoint
        with pytest.raises(error, match="update 1, epoch 0, minibatch 0.*pg_loss"):
            trainer.update(buffer, model.initial_state(N))
        return
    metrics = trainer.update(buffer, model.initial_state(N))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert metrics["nonfinite"] == 3 and torch.isfinite(trainer.return_normalizer.mean)


def test_value_head_has_its_own_scheduled_learning_rate():
    trainer = trainer_of(
        model_of(), lr=1e-3, critic_lr_mult=3.0, lr_schedule="linear", ent_coef=0.05, ent_coef_end=0.01
    )
    base, critic = trainer.optimizer.param_groups
    assert len(critic["params"]) == 2
    trainer.set_progress(0.5)
    assert float(base["lr"]) == pytest.approx(5e-4) and float(critic["lr"]) == pytest.approx(1.5e-3)
    assert trainer.ent_coef == pytest.approx(0.03)
    trainer.set_progress(1.0)
    assert base["lr"] == 0.0 and trainer.ent_coef == pytest.approx(0.01)


def test_progress_reaches_the_bound_of_the_action_width():
    config = ModelConfig(kind="classic", action_head="hybrid", init_log_std=-0.5, log_std_end=-1.5)
    model = build_model(config, D, ACTION_DIM)
    trainer_of(model).set_progress(0.5)
    assert float(model.core.log_std_max) == -1.0


def test_a_start_leaves_the_width_of_actions_as_it_is():
    config = ModelConfig(kind="classic", action_head="hybrid", init_log_std=-0.5, log_std_end=-1.5)
    for bound, halfway in ((-1.2, -1.35), (squash.LOG_STD_MAX, (squash.LOG_STD_MAX - 1.5) / 2)):
        model = build_model(config, D, ACTION_DIM)
        model.core.log_std_max.fill_(bound)
        trainer = trainer_of(model)
        trainer.start_from({})
        trainer.set_progress(0.0)
        assert float(model.core.log_std_max) == pytest.approx(bound)
        resumed = trainer_of(build_model(config, D, ACTION_DIM))
        resumed.load_state_dict(trainer.state_dict())
        resumed.set_progress(0.5)
        assert float(resumed.model.core.log_std_max) == pytest.approx(halfway)


def test_schedule_factor():
    assert [schedule_factor("cosine", p) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.5, 0.0])
    assert [schedule_factor("linear", p) for p in (0.0, 0.25)] == pytest.approx([1.0, 0.75])
    assert schedule_factor("none", 0.9) == 1.0
    with pytest.raises(ValueError, match="steps"):
        schedule_factor("steps", 0.0)


def test_steps_of_the_dead_change_nothing():
    results = []
    for noise in (0.0, 1e3):
        model = model_of()
        buffer = rollout_of(model)
        for part in (buffer.returns, buffer.advantages, buffer.values, buffer.logprobs):
            part += noise * (1.0 - buffer.alive)
        metrics = trainer_of(model).update(buffer, model.initial_state(N))
        results.append((weights_of(model), metrics["explained_variance"], metrics["value_std"], metrics["return_std"]))
    assert all(torch.equal(a, b) for a, b in zip(results[0][0], results[1][0], strict=True))
    assert results[0][1:] == pytest.approx(results[1][1:])


class TwoRanks(ProcessGroup):
    """One of two ranks in threads of this process; only averages are exchanged."""

    def __init__(self, rank: int, barrier: threading.Barrier, sent: list[list[torch.Tensor]]) -> None:
        super().__init__(rank, 2)
        self._barrier, self._sent = barrier, sent

    def average(self, tensors) -> None:
        self._sent[self.rank] = [tensor.clone() for tensor in tensors]
        self._barrier.wait()
        for tensor, *both in zip(tensors, *self._sent, strict=True):
            tensor.copy_(sum(both) / 2)
        self._barrier.wait()

    def any(self, flag: bool) -> bool:
        return flag

    def all_gather(self, value):
        return [value]

    def merge_moments(self, count, mean, squares):
        return count, mean, squares


@pytest.mark.parametrize("recurrence", ["lstm", "mingru"])
def test_magnet_pulls_the_policy(recurrence):
    model, magnet = model_of(0, recurrence=recurrence), model_of(3, recurrence=recurrence)
    with torch.no_grad():
        magnet.core.actor_mean.bias += 0.7
    options = {"magnet_coef": 0.1, "ema_decay": 0.9, "lr": 3e-3, "ent_coef": 0.0, "vf_coef": 0.0, "update_epochs": 1}
    trainer = trainer_of(model, magnet=magnet, **options)
    found = []
    for seed in range(60):
        buffer = rollout_of(model, seed)
        buffer.advantages.zero_()
        found.append(float(trainer.update(buffer, model.initial_state(N))["magnet_kl"]))
    assert sum(found[-10:]) < 0.5 * sum(found[:10])


def test_magnet_lowers_advantages_by_the_log_ratio():
    model, magnet = model_of(0), model_of(3)
    trainer = trainer_of(model, magnet=magnet, magnet_coef=0.5, ema_decay=0.9)
    buffer, start = rollout_of(model), model.initial_state(N)
    before, state, expected = buffer.advantages.clone(), magnet.initial_state(N), torch.empty(T, N)
    for t in range(T):
        own = slice(t, t + 1)
        scores = magnet.score_sequence(buffer.obs[own], buffer.actions[own], buffer.dones[own], state)
        expected[t], state = (buffer.logprobs[t] - scores.logprobs[0]).detach(), scores.state
    kl = trainer._pull(buffer, start, 8)
    assert float(kl) == pytest.approx(float((expected * buffer.alive).sum() / buffer.alive.sum()), rel=1e-4)
    torch.testing.assert_close(before - buffer.advantages, 0.5 * (expected - kl), atol=1e-4, rtol=1e-4)


def test_ranks_weigh_by_their_living_rows(monkeypatch):
    monkeypatch.setattr(ppo_losses, "normalize_advantages", lambda *_: None)
    options = {
        "update_epochs": 1, "num_minibatches": 1, "tbptt_chunk_length": T, "ent_coef": 0.0, "value_norm": False
    }  # fmt: skip
    barrier, sent = threading.Barrier(2), [[], []]

    whole = rollout_of(model_of())
    whole.alive[2:, 3:] = 0.0

    def norm_of(rows: slice, model, group: ProcessGroup | None = None) -> float:
        buffer = RolloutBuffer.create(T, len(range(N)[rows]), D, A)
        buffer.obs_rows.copy_(whole.obs_rows[:, rows])
        for name in ("actions", "logprobs", "dones", "advantages", "returns", "alive"):
            getattr(buffer, name).copy_(getattr(whole, name)[:, rows])
        trainer = trainer_of(model, group=group, **options)
        return trainer.update(buffer, model.initial_state(buffer.num_agents))["grad_norm"]

    with ThreadPoolExecutor(2) as pool:
        halves = [slice(0, 3), slice(3, N)]
        groups = [TwoRanks(rank, barrier, sent) for rank in (0, 1)]
        found = list(pool.map(norm_of, halves, [model_of(), model_of()], groups))
    assert found == pytest.approx([norm_of(slice(0, N), model_of())] * 2, rel=1e-4)


def test_burn_in_steps_have_zero_weight():
    model = model_of()
    buffer = rollout_of(model)
    buffer.dones.zero_()
    buffer.dones[4] = 1
    trainer = trainer_of(model, burn_in_steps=10, num_minibatches=1, tbptt_chunk_length=T)
    batch = batch_of(trainer, buffer, (buffer.ages() >= 10).float())
    assert not batch.policy_weights[4:14].any() and not batch.value_weights[4:14].any()
    assert batch.value_weights[:4].all() and batch.value_weights[14:].all()
    assert float(batch.value_weights.sum()) == pytest.approx(1.0)


def test_target_kl_stops_epochs_early():
    model = model_of()
    trainer = trainer_of(model, lr=0.5, target_kl=0.03, update_epochs=8)
    metrics = trainer.update(rollout_of(model), model.initial_state(N))
    assert metrics["epochs"] < 8 and metrics["kl"] > 0.03


def test_advantages_are_recomputed_only_on_request():
    results = []
    for again in (False, True):
        model = model_of()
        buffer = rollout_of(model)
        once = buffer.advantages.clone()
        ppo_losses.normalize_advantages(once, buffer.alive, NORM_EPS)
        trainer_of(model, recompute_advantages=again, lr=1e-2).update(buffer, model.initial_state(N))
        results.append(torch.allclose(buffer.advantages, once, atol=1e-6))
    assert results == [True, False]


def test_rollout_is_scored_once_for_divergence_and_advantages(monkeypatch):
    model = model_of()
    trainer = trainer_of(model, target_kl=10.0, recompute_advantages=True, update_epochs=3)
    score, calls = trainer._score_rollout, []
    monkeypatch.setattr(trainer, "_score_rollout", lambda *args: calls.append(args) or score(*args))
    metrics = trainer.update(rollout_of(model), model.initial_state(N))
    assert len(calls) == 2 and metrics["epochs"] == 3 and metrics["kl"] != 0


def test_evaluation_buffers_are_allocated_once():
    model = model_of()
    buffer, trainer = rollout_of(model), trainer_of(model)
    first = [x.data_ptr() for x in trainer._score_rollout(buffer, model.initial_state(N), 8)]
    assert [x.data_ptr() for x in trainer._score_rollout(buffer, model.initial_state(N), 8)] == first


def test_prediction_loss_trains_core():
    model = model_of(predict=True)
    buffer = rollout_of(model)
    buffer.advantages.zero_()
    trainer = trainer_of(model, aux_coef=0.01, ent_coef=0.0, vf_coef=0.0, tbptt_chunk_length=T)
    terms, shards = trainer.minibatch_update.gradients_of(batch_of(trainer, buffer, buffer.present))
    gradients = dict(zip(dict(model.named_parameters()), (shards or [[]])[0], strict=True))
    assert terms.aux_loss > 0, "the only nonzero loss term"
    assert all(gradients[f"core.lstm.weight_{part}_l0"].any() for part in ("ih", "hh"))


def test_trainer_state_dict_resumes_exactly():
    states = []
    for cut in (False, True):
        model = model_of()
        trainer = trainer_of(model)
        trainer.update(rollout_of(model, 1), model.initial_state(N))
        if cut:
            saved, weights = trainer.state_dict(), model.state_dict()
            model = model_of(5)
            model.load_state_dict(weights)
            trainer = trainer_of(model)
            trainer.load_state_dict(saved)
        trainer.update(rollout_of(model, 2), model.initial_state(N))
        states.append(weights_of(model))
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
