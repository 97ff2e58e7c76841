"""Both models: recurrence, gradients, saturation, heads, and ``FlatPolicy``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from echelon.config import ModelConfig
from echelon.rl.action_distribution import UNAVAILABLE
from echelon.rl.build import FlatPolicy, build_model
from echelon.rl.deepset import LayerNorm
from echelon.rl.lstm_state import LSTMState
from echelon.rl.model import ActorCriticLSTM
from echelon.rl.model import LSTMState as LSTMStateOfModel
from echelon.rl.recurrent import make_lstm, run_lstm
from echelon.rl.regime import DEVICE, HOST, compiled, set_regime, sharing_weights
from echelon.rl.suite_model import CombatSuiteActorCritic, SuiteObservation, flat_obs_to_suite_obs

T, B, A = 9, 6, 18
KINDS = ("classic", "suite", "classic hybrid", "suite hybrid", "classic mingru", "suite hybrid mingru")
"""Networks, and networks with the hybrid action head or another recurrence than the LSTM."""


def policy_of(kind: str, **options) -> FlatPolicy:
    torch.manual_seed(0)
    network, *parts = kind.split()
    head = "hybrid" if "hybrid" in parts else "gaussian"
    recurrence = next((part for part in parts if part.startswith("mingru")), "lstm")
    return build_model(ModelConfig(kind=network, action_head=head, recurrence=recurrence, **options), 994, A, 121)


def flat_obs(*lead: int) -> torch.Tensor:
    obs = torch.randn(*lead, 994)
    obs[..., 500:520] = (torch.rand(*lead, 20) > 0.3).float()
    obs[..., 640:652] = (torch.rand(*lead, 12) > 0.5).float()
    return obs


def suite_obs(batch: int = 4) -> SuiteObservation:
    return flat_obs_to_suite_obs(flat_obs(batch)[:, :706])


def dones(kind: str) -> torch.Tensor:
    d = torch.zeros(T, B)
    if kind == "starts":
        d[0] = 1
    if kind == "scattered":
        d[3, 1] = d[3, 2] = d[7, 1] = d[0, 4] = 1
    if kind == "every step":
        d[:] = 1
    return d


def test_lstm_state_is_an_immutable_pair_with_one_definition():
    h, c = torch.zeros(1, 2, 3), torch.ones(1, 2, 3)
    state = LSTMState(h=h, c=c)
    assert isinstance(state, tuple) and state.h is h and state.c is c and LSTMStateOfModel is LSTMState
    first, second = state
    assert first is h and second is c
    with pytest.raises(AttributeError):
        state.h = c  # type: ignore[misc]


def test_make_lstm_weights_are_orthogonal_and_biases_zero():
    lstm = make_lstm(32, 32)
    for name, weight in lstm.named_parameters():
        if "bias" in name:
            assert not weight.any()
        else:
            assert torch.allclose(weight.T @ weight, torch.eye(32), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["none", "starts", "scattered"])
def test_chunk_evaluation_equals_stepwise_evaluation(kind, pattern):
    policy, obs, d = policy_of(kind), flat_obs(T, B), dones(pattern)
    actions = torch.rand(T, B, A) * 1.8 - 0.9
    start = LSTMState(torch.randn(1, B, 128), torch.randn(1, B, 128))
    logprobs, _, values, end = policy.evaluate_actions_sequence(obs, actions, d, start)
    state = start
    for t in range(T):
        _, logprob, _, value, state = policy.get_action_and_value(obs[t], state, d[t], actions[t])
        assert torch.allclose(logprob, logprobs[t], atol=1e-4, rtol=1e-5)
        assert torch.allclose(value, values[t], atol=1e-5)
    assert torch.allclose(state.h, end.h, atol=1e-5) and torch.allclose(state.c, end.c, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_done_resets_only_its_own_sequence(kind):
    policy, obs = policy_of(kind), flat_obs(3)
    zero, full = policy.initial_state(3), LSTMState(torch.randn(1, 3, 128), torch.randn(1, 3, 128))
    done = torch.tensor([True, False, False])
    fresh = policy.get_value(obs, zero, torch.zeros(3))[0]
    after = policy.get_value(obs, full, done)[0]
    unreset = policy.get_value(obs, full, torch.zeros(3))[0]
    assert torch.allclose(after[0], fresh[0], atol=1e-6)
    assert not torch.allclose(unreset[1:], fresh[1:], atol=1e-4)
    assert torch.allclose(after[1:], unreset[1:], atol=1e-6)
    assert policy.get_value(obs, full, done)[0].grad_fn is None


def test_flat_model_gradients_reach_every_part():
    torch.manual_seed(0)
    model, obs = ActorCriticLSTM(12, 5), torch.randn(4, 12)
    _, logprob, entropy, value, _ = model.get_action_and_value(obs, model.initial_state(4), torch.zeros(4))
    (-logprob.mean()).backward(retain_graph=True)
    for module in (model.encoder, model.lstm, model.actor_mean):
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in module.parameters())
        assert any(p.grad.any() for p in module.parameters())
    model.zero_grad(set_to_none=True)
    value.mean().backward(retain_graph=True)
    assert model.critic.weight.grad.any() and next(iter(model.encoder)).weight.grad.any()
    model.zero_grad(set_to_none=True)
    entropy.mean().backward()
    assert model.actor_logstd.grad.any()


def test_last_value_gradient_reaches_first_observation():
    torch.manual_seed(0)
    model, obs = ActorCriticLSTM(12, 5), torch.randn(5, 2, 12, requires_grad=True)
    out = model.evaluate_actions_sequence(obs, torch.zeros(5, 2, 5), torch.zeros(5, 2), model.initial_state(2))
    out[2][-1].sum().backward()
    assert obs.grad[0].any()
    assert all(p.grad is not None and p.grad.any() for p in model.encoder.parameters())


def test_episode_start_stops_gradient():
    model, obs = ActorCriticLSTM(12, 5), torch.randn(5, 1, 12, requires_grad=True)
    d = torch.zeros(5, 1)
    d[3] = 1
    out = model.evaluate_actions_sequence(obs, torch.zeros(5, 1, 5), d, model.initial_state(1))
    out[2][-1].sum().backward()
    assert not obs.grad[:3].any() and obs.grad[3:].any()


def test_fewer_than_half_of_tanh_outputs_saturate():
    torch.manual_seed(0)
    model, x = ActorCriticLSTM(200, 9), torch.randn(256, 200)
    for layer in model.encoder:
        x = layer(x)
        if isinstance(layer, nn.Tanh):
            assert (x.abs() > 0.99).float().mean() < 0.5


def test_suite_fusion_ends_with_norm_and_relu_without_tanh():
    encoder = CombatSuiteActorCritic(A).encoder
    assert [type(layer) for layer in list(encoder.fusion)[-2:]] == [LayerNorm, nn.ReLU]
    assert not any(isinstance(layer, nn.Tanh) for layer in encoder.modules())


def test_log_prob_gradient_reaches_both_set_encoders():
    torch.manual_seed(0)
    model, obs = CombatSuiteActorCritic(A), suite_obs()
    _, logprob, _, _, _ = model.get_action_and_value(obs, model.initial_state(4), torch.zeros(4))
    logprob.mean().backward()
    for part in (model.encoder.contact_encoder, model.encoder.squad_encoder):
        assert any(p.grad is not None and p.grad.any() for p in part.parameters())


def test_fully_masked_contacts_get_zero_gradient():
    model, obs = CombatSuiteActorCritic(A), suite_obs()
    contacts = obs.contacts.clone().requires_grad_()
    masked = SuiteObservation(**{**obs.__dict__, "contacts": contacts, "contact_mask": torch.ones(4, 20)})
    model.get_action_and_value(masked, model.initial_state(4), torch.zeros(4))[1].mean().backward()
    assert contacts.grad is not None and not contacts.grad.any()


@pytest.mark.parametrize("kind", ["classic", "suite", "classic hybrid"])
def test_log_std_depends_on_observation_and_is_bounded(kind):
    core = policy_of(kind).core
    nn.init.normal_(core.actor_logstd_head.weight, std=0.5)
    out = core.heads(torch.tensor([[1.0] * 128, [-1.0] * 128])).action
    assert not torch.allclose(out.log_std[0], out.log_std[1])
    extreme = core.heads(torch.full((1, 128), 1e6)).action.log_std
    assert extreme.min() >= -20 and extreme.max() <= 2


def test_sampled_action_has_no_gradient_and_act_returns_the_mean():
    policy, obs = policy_of("suite"), flat_obs(3)
    action = policy.get_action_and_value(obs, policy.initial_state(3), torch.zeros(3))[0]
    action.numpy()
    mean, _ = policy.act(obs, policy.initial_state(3), torch.zeros(3))
    again, _ = policy.act(obs, policy.initial_state(3), torch.zeros(3))
    assert torch.equal(mean, again) and mean.shape == (3, A)


def test_target_frequencies_match_logits_which_get_a_gradient():
    policy = policy_of("classic hybrid")
    core, n = policy.core, 20_000
    nn.init.zeros_(core.selectors.weight)
    logits = core.selectors.bias.data[:6].copy_(torch.tensor([0.5, 0.0, -1.0, 1.0, 0.2, 0.7]))
    obs = torch.zeros(1, 994).expand(n, -1)
    action, logprob, _, _, _ = policy.get_action_and_value(obs, policy.initial_state(n), torch.zeros(n))
    slots = action[:, 9:14]
    assert set(slots.unique().tolist()) == {-1.0, 1.0} and (slots > 0).sum(1).max() == 1
    picked = torch.where((slots > 0).any(1), slots.argmax(1), 5)
    shares = torch.bincount(picked, minlength=6) / n
    assert torch.allclose(shares, logits.softmax(0), atol=0.015)
    again = policy.get_action_and_value(obs, policy.initial_state(n), torch.zeros(n), action)[1]
    assert torch.equal(logprob, again)
    again.mean().backward()
    assert core.selectors.bias.grad[:6].all()


def test_suite_hybrid_points_at_hostile_contacts_and_follows_them_to_another_slot():
    policy, obs = policy_of("suite hybrid"), flat_obs(40)
    with torch.no_grad():
        for weight in (policy.core.selectors.weight, policy.core.selectors.bias):
            weight.normal_()
    hostile = obs[:, :125].view(40, 5, 25)[..., 14]
    obs[:, 500:520] = 1.0
    obs[:, 500:505] = (torch.rand(40, 5) > 0.7).float()
    obs[0, 500:520] = 1.0
    selectable = (hostile > 0) & (obs[:, 500:505] == 0)
    order = torch.tensor([3, 0, 4, 2, 1])
    moved = obs.clone()
    moved[:, :125] = obs[:, :125].view(40, 5, 25)[:, order].flatten(1)
    moved[:, 500:505] = obs[:, 500:505][:, order]
    moved[:, 827:867] = obs[:, 827:867].view(40, 5, 8)[:, order].flatten(1)
    logits, after = (
        policy.core._step(policy._unpack(x), policy.initial_state(40), None)[0].action.logits[:, 0]
        for x in (obs, moved)
    )
    assert torch.allclose(after[:, :5], logits[:, order], atol=1e-4) and torch.allclose(
        after[:, 5], logits[:, 5], atol=1e-4
    )
    assert torch.equal(logits[:, :5] == UNAVAILABLE, ~selectable)
    action, _ = policy.act(obs, policy.initial_state(40), None, torch.randn(40, policy.noise_dim))
    chosen = action[:, 9:14] > 0
    assert chosen.any() and not (chosen & ~selectable).any() and not chosen[0].any()


@pytest.mark.parametrize("empty", [False, True])
def test_pointer_head_gradients_are_finite_and_reach_the_keys(empty):
    policy, obs = policy_of("suite hybrid"), flat_obs(T, B)
    if empty:
        obs[..., 500:520] = 1.0
    actions = torch.rand(T, B, A) * 2 - 1
    scores = policy.score_sequence(obs, actions, dones("none"), policy.initial_state(B))
    (scores.logprobs.sum() + scores.entropies.sum()).backward()
    assert scores.logprobs.isfinite().all() and scores.entropies.isfinite().all()
    assert all(p.grad.isfinite().all() for p in policy.parameters() if p.grad is not None)
    assert bool(policy.core.encoder.contact_encoder.key.weight.grad.any()) is not empty


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_sampled_actions_equal_the_log_probs_of_sampling(kind):
    policy, obs, d = policy_of(kind), flat_obs(T, B), dones("scattered")
    with torch.no_grad():
        for p in policy.parameters():
            p += 0.05 * torch.randn_like(p)
    state, actions, logprobs = policy.initial_state(B), [], []
    with torch.no_grad():
        for t in range(T):
            action, logprob, _, state = policy.sample(obs[t], state, d[t])
            actions.append(action)
            logprobs.append(logprob)
        scores = policy.score_sequence(obs, torch.stack(actions), d, policy.initial_state(B))
    assert torch.allclose(scores.logprobs, torch.stack(logprobs), atol=2e-3, rtol=1e-4)
    assert all(action.abs().max() <= 1 for action in actions)


def test_progress_lowers_the_bound_of_the_log_std_and_leaves_it_a_gradient():
    core = policy_of("classic hybrid", init_log_std=-0.5, log_std_end=-1.5).core
    free = policy_of("classic hybrid", init_log_std=-0.5).core
    y = torch.randn(4, 128)
    for progress, bound in ((0.0, -0.5), (0.5, -1.0), (1.0, -1.5)):
        core.set_progress(progress)
        free.set_progress(progress)
        log_std = core.heads(y).action.log_std
        assert torch.allclose(log_std, torch.full_like(log_std, bound))
        assert torch.equal(core.state_dict()["log_std_max"], torch.tensor(bound))
        log_std.sum().backward()
        assert (core.actor_logstd.grad > 0).all()
    assert torch.equal(free.heads(y).action.log_std, torch.full((4, A), -0.5))


def test_progress_leaves_a_gaussian_policy_unchanged():
    core = policy_of("classic").core
    before = {name: value.clone() for name, value in core.state_dict().items()}
    core.set_progress(1.0)
    assert "log_std_max" not in before and all(torch.equal(before[n], v) for n, v in core.state_dict().items())


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_score_sequence_compiles_without_graph_break(kind):
    policy, obs = policy_of(kind), flat_obs(3, 2)
    args = (obs, torch.zeros(3, 2, A), torch.zeros(3, 2), policy.initial_state(2))
    twin = sharing_weights(policy, compiled(HOST))
    fast = torch.compile(twin.score_sequence, fullgraph=True, backend="eager")
    noise = torch.randn(3, 2, A)
    got, expected = fast(*args, noise), policy.score_sequence(*args, noise)
    assert isinstance(got.state, LSTMState)
    assert torch.allclose(got.logprobs, expected.logprobs, atol=1e-4)
    assert torch.allclose(got.values, expected.values, atol=1e-5)


def test_obs_normalizer_skips_masks_and_entity_rows_and_clips():
    policy = policy_of("suite")
    policy.set_normalizable(torch.ones(994, dtype=torch.bool))
    norm = policy.obs_normalizer
    norm.mean.fill_(3.0)
    norm.var.fill_(4.0)
    norm.refresh()
    obs = torch.full((1, 994), 1.0)
    out = norm(obs)
    assert torch.equal(out[:, :652], obs[:, :652])
    assert torch.allclose(out[:, 652:], torch.tensor(-1.0))
    assert norm(torch.full((1, 994), 1e6))[0, -1] == 10.0


def test_wrong_tail_or_observation_width_is_rejected():
    with pytest.raises(ValueError, match="994"):
        build_model(ModelConfig(), 994, A, 0)
    policy = policy_of("suite")
    with pytest.raises(ValueError, match="993.*994"):
        policy.get_value(torch.zeros(1, 993), policy.initial_state(1), torch.zeros(1))


def test_extra_columns_have_their_own_encoder():
    policy = build_model(ModelConfig(), 994 + 14, A, 121, 14)
    with pytest.raises(ValueError, match="1008 columns.* 121 map . 9 extras"):
        build_model(ModelConfig(), 1008, A, 121, 9)
    obs = torch.rand(3, 1008, requires_grad=True)
    policy.get_action_and_value(obs, policy.initial_state(3), torch.zeros(3))[3].sum().backward()
    assert obs.grad is not None and obs.grad[:, 827:841].any() and obs.grad[:, 706:827].any()
    assert policy_of("suite").core.encoder.extras_encoder is None


def test_value_gradients_match_numeric_ones():
    torch.manual_seed(0)
    model = ActorCriticLSTM(4, 3, 6, 5).double()
    obs = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    d = torch.zeros(3, 2, dtype=torch.float64)
    d[1, 0] = 1
    state = LSTMState(*(torch.randn(1, 2, 5, dtype=torch.float64) for _ in range(2)))
    actions, noise = torch.rand(3, 2, 3, dtype=torch.float64) - 0.5, torch.randn(3, 2, 3, dtype=torch.float64)

    def scores(x):
        s = model.score_sequence(x, actions, d, state, noise)
        return s.values, s.logprobs, s.entropies

    assert torch.autograd.gradcheck(scores, (obs,))


@pytest.mark.parametrize(("pattern", "calls"), [("none", 1), ("starts", 1), ("scattered", 3), ("every step", T)])
def test_lstm_runs_one_fused_call_without_episode_starts(pattern, calls, monkeypatch):
    lstm, x, seen = make_lstm(5, 8), torch.randn(T, B, 5), []
    keep = lstm.forward
    monkeypatch.setattr(lstm, "forward", lambda *given: seen.append(1) or keep(*given))
    run_lstm(lstm, x, dones(pattern), LSTMState(torch.zeros(1, B, 8), torch.zeros(1, B, 8)))
    assert len(seen) == calls


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["none", "scattered"])
@pytest.mark.parametrize("regime", [DEVICE, compiled(HOST)], ids=["device", "compiled"])
def test_regimes_score_equal(kind, pattern, regime):
    policy, obs, d = policy_of(kind), flat_obs(T, B), dones(pattern)
    actions, noise = torch.rand(T, B, A) - 0.5, torch.randn(T, B, A)
    expected = policy.score_sequence(obs, actions, d, policy.initial_state(B), noise)
    policy = sharing_weights(policy, regime)
    got = policy.score_sequence(obs, actions, d, policy.initial_state(B), noise)
    for actual, reference in (
        (got.logprobs, expected.logprobs),
        (got.values, expected.values),
        (got.features, expected.features),
    ):
        assert torch.allclose(actual, reference, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regime", [HOST, DEVICE], ids=["host", "device"])
def test_memoryless_policy_depends_on_current_observation_only(kind, regime):
    policy, obs, d = policy_of(kind, memory=False), flat_obs(T, B), dones("scattered")
    set_regime(policy, regime)
    actions, noise = torch.rand(T, B, A) - 0.5, torch.randn(T, B, A)
    fresh, left = policy.initial_state(B), LSTMState(torch.randn(1, B, 128), torch.randn(1, B, 128))
    scores = policy.score_sequence(obs, actions, d, left, noise)
    for t in range(T):
        single = policy.get_value(obs[t], fresh, torch.zeros(B))[0]
        assert torch.allclose(scores.values[t], single, atol=1e-5)
        value, after = policy.get_value(obs[t], left, torch.zeros(B))
        assert torch.equal(value, single)
    assert torch.allclose(scores.state.h, after.h, atol=1e-5) and scores.state.c.shape == after.c.shape
    remembers = policy_of(kind).score_sequence(obs, actions, d, left, noise)
    assert not torch.allclose(remembers.values, scores.values, atol=1e-3)
