"""Programs of a policy against its modules, which are their oracle: actions, terms of the loss and gradients."""

from __future__ import annotations

import threading
from dataclasses import asdict

import pytest
import torch

from echelon.config import ModelConfig
from echelon.rl.build import build_model
from echelon.rl.host_program import HostPolicy, Program, has_program
from echelon.rl.regime import HOST, sharing_weights
from echelon.rl.weights import policy_from
from echelon.training import rollout
from echelon.training.ppo.host.program import trains_by_program
from echelon.training.ppo.teacher import Teaching
from echelon.training.ppo.trainer import PPOTrainer
from echelon.training.rollout import RolloutBuffer, Unit
from echelon.training.runtime.threads import ThreadPool
from tests.rl.policies import ACTIONS, MAP_WIDTH, OBS_DIM, observations, small_policy
from tests.training.support import trainer_of

PLAIN = HOST._replace(native=False)
STEPS, ROWS = 20, 12


@pytest.fixture(autouse=True)
def unwritten_activations_are_no_numbers(monkeypatch):
    monkeypatch.setattr(Program, "_buffer", lambda self, count: self._keep(torch.full((count,), torch.nan)))


def policies(hidden_dim: int = 16):
    """Return a policy that programs evaluate, and one with the same weights that its modules do."""
    policy = small_policy("hybrid mingru", hidden_dim=hidden_dim)
    assert policy.core.log_std_max is not None
    policy.core.log_std_max.fill_(0.1)  # so that some are bounded
    policy.core.log_std_min = -0.1
    return policy, sharing_weights(policy, PLAIN)


def played(policy, *, labels: bool) -> RolloutBuffer:
    """Return a rollout of the policy with deaths, ends of episodes, empty and full sets, and old log-probabilities."""
    torch.manual_seed(1)
    buffer = RolloutBuffer.create(STEPS, ROWS, OBS_DIM, ACTIONS, has_labels=labels)
    for t, row in enumerate(buffer.obs_rows):
        row.copy_(observations(ROWS, share=(0.0, 0.3, 1.0)[t % 3]))
    for part in (buffer.advantages, buffer.returns, buffer.logprobs):
        part.normal_()
    buffer.dones.copy_((torch.rand(STEPS, ROWS) < 0.1).float())
    dead = torch.zeros(ROWS, dtype=torch.bool)
    for t in range(STEPS):
        dead = (dead & (buffer.dones[t] == 0)) | (torch.rand(ROWS) < 0.1)
        buffer.alive[t] = (~dead).float()
    buffer.alive[:, 3] = 0.0
    state = policy.initial_state(ROWS)
    with torch.no_grad():
        for t in range(STEPS):
            buffer.actions[t], logprob, _, state = policy.sample(buffer.obs[t], state, buffer.dones[t])
            buffer.logprobs[t] = logprob + 0.3 * buffer.logprobs[t]
    if buffer.labels is not None:
        buffer.labels.uniform_(-1.3, 1.3)
    return buffer


def found(trainer: PPOTrainer, buffer: RolloutBuffer):
    """Return terms and gradients by name of all steps but the first four, in one minibatch."""
    update, model = trainer.minibatch_update, trainer.model
    states = rollout.ChunkStates.create(1, ROWS, model.lstm_hidden_dim, "cpu")
    torch.manual_seed(2)
    states.h.normal_()
    update.begin(buffer, STEPS)
    batch = rollout.gather_minibatch(
        buffer,
        states,
        buffer.returns,
        buffer.alive * buffer.present,
        [Unit(0, 4, STEPS, torch.arange(ROWS))],
        packed=update.packed,
        has_labels=trainer.teaching.has_labels,
    )
    terms, gradients = update.gradients_of(batch)
    assert gradients is not None
    summed = {}
    for micro_batch in gradients:
        for (name, _), part in zip(model.named_parameters(), micro_batch, strict=True):
            if part is not None:
                summed[name] = summed.get(name, 0.0) + part
    return terms, summed


CASES = {
    "ppo": ({}, Teaching()),
    "no value norm": ({"value_norm": False}, Teaching()),
    "imitation": ({}, Teaching(has_labels=True, imitates=True, coef=0.7)),
    "both": ({"ent_coef": 0.05}, Teaching(has_labels=True, coef=0.7)),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_terms_and_gradients_of_a_program_are_those_of_the_modules(case, threads, monkeypatch):
    options, teaching = CASES[case]
    monkeypatch.setattr(rollout, "PROGRAM_ROWS", 50)
    results = []
    for policy in policies():
        trainer = trainer_of(policy, **{"ent_coef": 0.3, **options})
        trainer.minibatch_update._programs and setattr(trainer.minibatch_update._programs, "_pool", ThreadPool(threads))
        trainer.return_normalizer.mean.fill_(0.4)
        trainer.return_normalizer.var.fill_(2.0)
        trainer.set_progress(0.0, teaching)
        results.append(found(trainer, played(policy, labels=teaching.has_labels)))
    (terms, gradients), (expected_terms, expected) = results
    torch.testing.assert_close(tuple(terms), tuple(expected_terms), rtol=1e-4, atol=1e-5)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=2e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_a_program_is_as_wide_as_its_policy():
    for hidden_dim in (16, 32, 128):
        policy, plain = policies(hidden_dim)
        assert has_program(policy) and not has_program(plain)
        results = [found(trainer_of(p), played(policy, labels=False))[1] for p in (policy, plain)]
        for name, gradient in results[0].items():
            torch.testing.assert_close(gradient, results[1][name], rtol=2e-4, atol=2e-5)


def test_other_policies_have_no_program():
    for name in ("suite", "hybrid", "mingru", "classic hybrid", "mingru without memory"):
        assert not has_program(small_policy(name))
    policy = small_policy("hybrid mingru")
    config = trainer_of(policy).config
    assert trains_by_program(policy, config)
    next(policy.parameters()).requires_grad_(False)
    assert not trains_by_program(policy, config) and not has_program(policy.double())


def test_a_loss_that_is_not_finite_has_no_gradient():
    policy, _ = policies()
    trainer, buffer = trainer_of(policy), played(policy, labels=False)
    with torch.no_grad():
        policy.core.encoder.fusion[0].weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="loss at"):
        trainer.update(buffer, policy.initial_state(ROWS))


@pytest.mark.parametrize("stochastic", [False, True])
def test_steps_of_a_program_are_those_of_the_modules(stochastic):
    policy, plain = policies()
    program, rows = HostPolicy(policy), 40
    state = expected_state = policy.initial_state(rows)
    torch.manual_seed(3)
    for share in (0.3, 0.0, 1.0, 0.6):
        obs, done = observations(rows, share=share), (torch.rand(rows) < 0.3).float()
        noise = torch.randn(rows, policy.noise_dim + 4)
        with torch.inference_mode():
            if stochastic:
                *expected, expected_state = plain.sample(obs, expected_state, done, noise[:, : policy.noise_dim])
                *got, state = program.sample(obs, state, done, noise)
            else:
                *expected, expected_state = plain.act(obs, expected_state, done)
                *got, state = program(obs, state, done)
            for part, other in zip((*got, state.h), (*expected, expected_state.h), strict=True):
                torch.testing.assert_close(part, other, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))


@torch.inference_mode()
def test_a_policy_that_is_loaded_while_others_act_acts():
    config = ModelConfig(kind="suite", hidden_dim=16, lstm_hidden_dim=16, action_head="hybrid", recurrence="mingru")
    sizes = {"obs_dim": OBS_DIM, "action_dim": ACTIONS, "map_width": MAP_WIDTH}
    weights = build_model(config, **sizes).state_dict()
    policy = policy_from({"model_cfg": asdict(config), **sizes}, weights)
    program = HostPolicy(policy)
    program(observations(4, share=0.3), policy.initial_state(4))


def test_a_row_is_the_same_alone_as_among_others():
    policy, _ = policies()
    program, obs = HostPolicy(policy), observations(200, share=0.4)
    state, noise = policy.initial_state(200), torch.randn(200, policy.noise_dim)
    state.h.normal_()
    whole = program.sample(obs, state, torch.zeros(200), noise)
    for row in (0, 97, 199):
        part = slice(row, row + 1)
        own = state._replace(h=state.h[:, part], c=state.c[:, part])
        alone = program.sample(obs[part], own, torch.zeros(1), noise[part])
        for got, expected in zip(
            (*alone[:3], alone[3].h[0]), (*(x[part] for x in whole[:3]), whole[3].h[0, part]), strict=True
        ):
            assert torch.equal(got, expected)


def test_what_is_made_ahead_is_made_when_the_rest_is_left_out():
    made, may_end = [], threading.Event()

    def items():
        for i in range(3):
            may_end.wait()
            made.append(i)
            yield i

    with ThreadPool(2) as pool:
        threading.Timer(0.05, may_end.set).start()
        assert list(pool.ahead(items())) == [0, 1, 2]
        made.clear()
        ahead = pool.ahead(items())
        assert next(ahead) == 0 and made == [0]
        pool.map(lambda _: may_end.clear(), range(2))
        threading.Timer(0.05, may_end.set).start()
        ahead.close()
        assert made[:2] == [0, 1]
