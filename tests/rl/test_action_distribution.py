"""The action distribution: what the simulator reads of a sample, the log-probability of any action, and edge cases."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from echelon.actions import CHANCES, SWITCH_NAMES, TARGET_DIM, TARGET_START, ActionIndex
from echelon.rl import squash
from echelon.rl.action_distribution import (
    GAUSSIAN,
    HYBRID,
    LABEL_LIMIT,
    LABEL_STD,
    SWITCHES,
    UNAVAILABLE,
    ActionDistribution,
    ActionParameters,
    discrete_choices,
    quantised,
    take,
    take_columns,
)
from echelon.rl.regime import HOST, compiled
from echelon.sim import step
from echelon.sim.arsenal import Chassis
from tests.parity.scenes import cluttered_field

A = 18
CHOICES = [len(selector.codes) for selector in HYBRID.selectors]
GAUSSIAN_COLUMNS = [*range(4)]


def parameters(*lead: int, scale: float = 1.0) -> ActionParameters:
    logits = HYBRID.stack([scale * torch.randn(*lead, count) for count in CHOICES])
    return ActionParameters(scale * torch.randn(*lead, A), 0.3 * torch.randn(*lead, A), logits)


def certain(switches: tuple[int, ...], choices: tuple[int, ...]) -> ActionParameters:
    """Return parameters ``[1, ...]`` whose samples have these switches and choices."""
    location = torch.zeros(1, A)
    location[0, list(SWITCHES)] = torch.tensor(switches) * 100.0 - 50.0
    one_hot = [torch.eye(count)[choice][None] * 50.0 for count, choice in zip(CHOICES, choices, strict=True)]
    return ActionParameters(location, torch.zeros(1, A), HYBRID.stack(one_hot))


def concatenated(items: list[ActionParameters]) -> ActionParameters:
    return ActionParameters(*(torch.cat(parts) for parts in zip(*items, strict=True)))


@pytest.mark.parametrize("layout", [HYBRID, GAUSSIAN], ids=["hybrid", "gaussian"])
def test_chances_are_the_frequencies_of_what_the_simulator_reads_in_samples(layout):
    torch.manual_seed(1)
    own = parameters(1)
    logits = layout.stack([torch.randn(1, len(s.codes)) for s in layout.selectors]) if layout.selectors else None
    own = own._replace(logits=logits)
    distribution, draws = ActionDistribution(A, layout), 40_000
    many = ActionParameters(*(None if x is None else x.expand(draws, *x.shape[1:]) for x in own))
    sampled = distribution.sample(many, torch.randn(draws, distribution.noise_dim))
    chances = dict(zip(CHANCES, distribution.chances(own)[0].tolist(), strict=True))
    read = quantised(sampled)
    for name, column in zip(SWITCH_NAMES, (ActionIndex[name.upper()] for name in SWITCH_NAMES), strict=True):
        assert chances[name] == pytest.approx((read[:, column] > 0).float().mean().item(), abs=0.012), name
    target = discrete_choices(sampled)["target"]
    for choice, name in enumerate(CHANCES[: TARGET_DIM + 1]):
        expected = (target == choice).float().mean().item() if layout.selectors else 0.0
        assert chances[name] == pytest.approx(expected, abs=0.012), name


def test_every_discrete_combination_is_read_by_the_simulator_as_sampled():
    torch.manual_seed(0)
    wanted = list(product(product((0, 1), repeat=len(SWITCHES)), product(*map(range, CHOICES))))
    field = cluttered_field(0, envs=math.ceil(len(wanted) / 10), boxes=0)
    try:
        envs, mechs = field["alive"].shape
        rows = [wanted[i % len(wanted)] for i in range(envs * mechs)]
        given = concatenated([certain(*row) for row in rows])
        distribution = ActionDistribution(A, HYBRID)
        team = field["team"][0]
        hostile = np.array([np.flatnonzero(team != own)[:TARGET_DIM] for own in team])
        contacts = np.full((envs, *field["contact"].shape[1:]), -1)
        contacts[..., :TARGET_DIM] = hostile
        field.put("alive", 1)
        field.put("chassis", Chassis.SCOUT)
        field.put("contact", contacts)
        for action in (
            distribution.sample(given, torch.randn(len(rows), distribution.noise_dim)),
            distribution.mode(given),
        ):
            stored = (action * 127).round().to(torch.int8)
            for sent in (action, stored.float() / 127):
                field.batch.set("actions", sent.view(envs, mechs, A).numpy())
                field.play("decide", step.read_actions)
                trigger, vent, filtered = (field[name].reshape(-1) for name in ("trigger", "vent", "hostile_only"))
                slot, sort = (field[name].reshape(-1) for name in ("focus_slot", "sort_mode"))
                ewar = field["ecm"].reshape(-1) + 2 * field["eccm"].reshape(-1)
                read = zip(
                    trigger & 1, vent, trigger >> 2 & 1, trigger >> 3 & 1, filtered, slot % 6, ewar, sort, strict=True
                )
                assert [tuple(map(int, row)) for row in read] == [(*on, *chosen) for on, chosen in rows]
                assert np.array_equal(trigger >> 1 & 1, np.array([chosen[1] > 0 for _, chosen in rows]))
                assert torch.allclose(
                    distribution.log_prob(given, sent)[:5], distribution.log_prob(given, action)[:5], atol=0.5
                )
    finally:
        field.batch.close()


def test_log_prob_reads_any_action_as_the_simulator_does():
    """Foreign actions, such as those of scripted pilots, are scored as the choice that the simulator makes of them."""
    torch.manual_seed(1)
    distribution, count = ActionDistribution(A, HYBRID), 400
    action = torch.randn(count, A).mul(0.7).clamp(-1.0, 1.0)
    action[torch.rand(count, A) < 0.2] = 0.0
    action[:50, ActionIndex.SECONDARY] = torch.tensor([0.003, 0.005, 0.5, 0.507, 0.51]).repeat(10)
    given = parameters(count)
    q = np.rint(action.numpy() * np.float32(127))
    target = np.where(q[:, 9:14].max(1) > 0, q[:, 9:14].argmax(1), 5)
    secondary = (q[:, 6] > 0).astype(int) + (q[:, 6] > 64)
    expected = squash.log_prob(*(x[:, GAUSSIAN_COLUMNS] for x in (given.location, given.log_std, action)))
    for column in SWITCHES:
        chance = torch.sigmoid(given.location[:, column])
        expected += torch.where(torch.from_numpy(q[:, column] > 0), chance, 1 - chance).log()
    for index, choice in enumerate((target, secondary, q[:, 14:17].argmax(1))):
        own = given.logits[:, index, : CHOICES[index]]
        expected += own.log_softmax(-1)[torch.arange(count), torch.from_numpy(choice)]
    assert torch.allclose(distribution.log_prob(given, action), expected, atol=1e-4)


def test_choices_of_different_selectors_are_sampled_independently():
    torch.manual_seed(8)
    distribution, count = ActionDistribution(A, HYBRID), 40_000
    logits = HYBRID.stack([torch.zeros(count, width) for width in CHOICES])
    given = ActionParameters(torch.zeros(count, A), torch.zeros(count, A), logits)
    action = distribution.sample(given, torch.randn(count, distribution.noise_dim))
    chosen = distribution._decode(quantised(action), logits)[..., 0]
    parts = [torch.eye(width)[choice] for width, choice in zip(CHOICES, chosen.T, strict=True)]
    parts.append((action[:, list(SWITCHES)] > 0).float())
    parts.append(squash.unsquash(action[:, GAUSSIAN_COLUMNS]))
    columns = [column for part in parts for column in part.T]
    group = [number for number, part in enumerate(parts) for _ in part.T]
    correlation = torch.corrcoef(torch.stack(columns)).abs()
    pairs = [(i, j) for i in range(len(group)) for j in range(i) if group[i] != group[j]]
    assert max(float(correlation[pair]) for pair in pairs) < 0.03


def test_mode_is_the_likeliest_discrete_choice():
    torch.manual_seed(3)
    distribution, given = ActionDistribution(A, HYBRID), parameters(64, scale=2.0)
    best = distribution.log_prob(given, distribution.mode(given))
    for _ in range(50):
        other = distribution.sample(given, torch.randn(64, distribution.noise_dim))
        other[:, GAUSSIAN_COLUMNS] = distribution.mode(given)[:, GAUSSIAN_COLUMNS]
        assert (distribution.log_prob(given, other) <= best + 1e-4).all()


def test_entropy_matches_mean_negative_log_prob():
    torch.manual_seed(4)
    distribution, count = ActionDistribution(A, HYBRID), 40_000
    one = parameters(1)
    given = ActionParameters(*(part.expand(count, *part.shape[1:]) for part in one))
    action = distribution.sample(given, torch.randn(count, distribution.noise_dim))
    _, entropies = distribution.score(given, action, torch.randn(count, A))
    assert (entropies.mean() + distribution.log_prob(given, action).mean()).abs() < 0.15
    switches = torch.distributions.Bernoulli(logits=one.location[0, list(SWITCHES)]).entropy().sum()
    selectors = sum(
        torch.distributions.Categorical(logits=one.logits[0, i, :n]).entropy() for i, n in enumerate(CHOICES)
    )
    numbers = [c for c in range(A) if c not in SWITCHES and not any(s.start <= c < s.end for s in HYBRID.selectors)]
    noise = torch.randn(1, A)
    continuous = squash.entropy(one.location[:, numbers], one.log_std[:, numbers], noise[:, numbers])
    torch.testing.assert_close(distribution.score(one, action[:1], noise)[1], continuous + switches + selectors)


def test_unavailable_choice_is_never_sampled_and_scores_as_its_fallback():
    torch.manual_seed(5)
    distribution, given = ActionDistribution(A, HYBRID), parameters(2000)
    target = torch.full((2000, 6), UNAVAILABLE)
    target[:, 5] = -30.0
    target[1000:, 2] = 0.0
    logits = HYBRID.stack([target, given.logits[:, 1, :3], given.logits[:, 2, :3]]).requires_grad_()
    given = given._replace(logits=logits)
    for action in (distribution.sample(given, 2 * torch.randn(2000, distribution.noise_dim)), distribution.mode(given)):
        assert (action[:1000, 9:14] == -1).all()
        assert not (action[1000:, [9, 10, 12, 13]] > 0).any()
    pointing = action.detach().clone()
    pointing[:, TARGET_START] = 1.0
    none = pointing.clone()
    none[:, 9:14] = -1.0
    logprob, entropies = distribution.score(given, pointing, torch.randn(2000, A))
    assert torch.equal(logprob, distribution.log_prob(given, none))
    (logprob.sum() + entropies.sum()).backward()
    assert logprob.isfinite().all() and entropies.isfinite().all() and logits.grad.isfinite().all()


def test_extreme_parameters_and_noise_stay_finite():
    distribution = ActionDistribution(A, HYBRID)
    given = parameters(8, scale=1e4)
    for noise in (torch.full((8, distribution.noise_dim), value) for value in (-40.0, 0.0, 40.0)):
        action = distribution.sample(given, noise)
        logprob, entropies = distribution.score(given, action, noise)
        assert action.abs().max() <= 1 and logprob.isfinite().all() and entropies.isfinite().all()


@pytest.mark.parametrize("layout", [GAUSSIAN, HYBRID])
def test_score_equals_log_prob_for_any_leading_axes(layout):
    torch.manual_seed(6)
    distribution, given = ActionDistribution(A, layout), parameters(3, 4)
    if layout is not HYBRID:
        given = given._replace(logits=given.logits[..., :1, :] if layout.selectors else None)
    noise = torch.randn(3, 4, distribution.noise_dim)
    action = distribution.sample(given, noise)
    logprob, entropies = distribution.score(given, action, noise)
    assert action.shape == (3, 4, A) and logprob.shape == (3, 4)
    assert torch.equal(logprob, distribution.log_prob(given, action))
    assert torch.equal(
        action[1], distribution.sample(ActionParameters(*(x if x is None else x[1] for x in given)), noise[1])
    )


def test_gaussian_layout_is_the_squashed_gaussian_bit_for_bit():
    torch.manual_seed(7)
    distribution, given, noise = ActionDistribution(A), parameters(5)._replace(logits=None), torch.randn(5, A)
    action = distribution.sample(given, noise)
    assert distribution.noise_dim == A and torch.equal(action, squash.sample(given.location, given.log_std, noise))
    assert torch.equal(distribution.mode(given), squash.squash(given.location))
    logprob, entropies = distribution.score(given, action, noise)
    assert torch.equal(logprob, squash.log_prob(given.location, given.log_std, action))
    assert torch.equal(entropies, squash.entropy(given.location, given.log_std, noise))


def test_layout_wider_than_the_action_is_rejected():
    with pytest.raises(ValueError, match="action has 17 columns"):
        ActionDistribution(17, HYBRID)


def test_imitation_loss_and_gradient_against_hand_worked_values():
    distribution = ActionDistribution(A, HYBRID)
    location = torch.zeros(1, A, requires_grad=True)
    log_std = torch.zeros(1, A, requires_grad=True)
    logits = HYBRID.stack([torch.zeros(1, count) for count in CHOICES]).requires_grad_()
    label = torch.full((1, A), -1.0)
    label[0, :4] = torch.tensor([0.0, 1.0, 64 / 127, -64 / 127])
    label[0, ActionIndex.PRIMARY] = 1.0
    label[0, TARGET_START + 2] = 0.3
    loss = distribution.imitation_loss(ActionParameters(location, log_std, logits), label)
    u = torch.tensor([0.0, math.atanh(LABEL_LIMIT), math.atanh(64 / 127), -math.atanh(64 / 127)])
    discrete = len(SWITCHES) * math.log(2) + sum(map(math.log, CHOICES))
    assert loss.item() == pytest.approx(float(0.5 * (u / LABEL_STD).square().sum()) + discrete, rel=1e-5)
    by_location, by_std, by_logits = torch.autograd.grad(loss.sum(), (location, log_std, logits), allow_unused=True)
    expected = torch.zeros(1, A)
    expected[0, :4] = -u / LABEL_STD**2
    expected[0, list(SWITCHES)] = 0.5
    expected[0, ActionIndex.PRIMARY] = -0.5
    torch.testing.assert_close(by_location, expected, msg="switches: probability minus choice")
    assert by_std is None, "the width of the policy is not trained"
    for index, (count, chosen) in enumerate(zip(CHOICES, (2, 0, 0), strict=True)):
        one_hot = torch.nn.functional.one_hot(torch.tensor(chosen), count)
        torch.testing.assert_close(by_logits[0, index, :count], 1.0 / count - one_hot)


@pytest.mark.parametrize("layout", [GAUSSIAN, HYBRID])
def test_imitation_loss_teaches_jets_that_are_off_to_stay_off(layout):
    distribution = ActionDistribution(A, layout)
    logits = HYBRID.stack([torch.zeros(1, count) for count in CHOICES]) if layout is HYBRID else None
    location = torch.zeros(1, A, requires_grad=True)
    loss = distribution.imitation_loss(ActionParameters(location, torch.zeros(1, A), logits), torch.zeros(1, A))
    (gradient,) = torch.autograd.grad(loss.sum(), location)
    expected = math.atanh(LABEL_LIMIT) / LABEL_STD**2
    assert gradient[0, ActionIndex.VERTICAL].item() == pytest.approx(expected, rel=1e-5), "the mean falls"
    others = [ActionIndex.FORWARD, ActionIndex.STRAFE, ActionIndex.YAW_RATE]
    assert not gradient[0, others].any()


def test_imitation_loss_of_unavailable_target_scores_no_target():
    distribution = ActionDistribution(A, HYBRID)
    given = certain((0,) * len(SWITCHES), (0, 0, 0))
    logits = HYBRID.stack([torch.zeros(1, count) for count in CHOICES])
    logits[0, 0, 1] = UNAVAILABLE
    label = torch.full((1, A), -1.0)
    without_target = distribution.imitation_loss(given._replace(logits=logits), label)
    label[0, TARGET_START + 1] = 1.0
    assert torch.equal(distribution.imitation_loss(given._replace(logits=logits), label), without_target)


def test_discrete_choices_name_every_switch_and_selector():
    action = torch.full((1, A), -1.0)
    action[0, ActionIndex.SECONDARY] = 1.0
    action[0, TARGET_START + 3] = 1.0
    choices = {name: int(choice) for name, choice in discrete_choices(action).items()}
    assert choices == {
        "primary": 0, "vent": 0, "tertiary": 0, "special": 0, "hostile_only": 0, "target": 3, "secondary": 2, "sort": 0,
    }  # fmt: skip
    assert list(discrete_choices(torch.zeros(1, 5))) == ["primary"]


@pytest.mark.parametrize("layout", [GAUSSIAN, HYBRID])
def test_written_gradients_match_automatic_ones(layout):
    # in float64: in float32 the automatic gradient of a saturated draw is that of a difference of nearly equal numbers
    torch.manual_seed(3)
    rows = 40
    distribution, location = ActionDistribution(A, layout), 2.0 * torch.randn(rows, A, dtype=torch.float64)
    location[:4] *= 20.0
    log_std, logits = 0.5 * torch.randn(rows, A, dtype=torch.float64) - 0.5, None
    if layout.selectors:
        logits = layout.stack([2.0 * torch.randn(rows, len(s.codes), dtype=torch.float64) for s in layout.selectors])
        logits[::3, 0, :2] = UNAVAILABLE
    given = ActionParameters(*(x if x is None else x.requires_grad_() for x in (location, log_std, logits)))
    noise = torch.randn(rows, distribution.noise_dim, dtype=torch.float64)
    action = distribution.sample(given, noise).detach()
    action[5:8] = torch.rand(3, A, dtype=torch.float64) * 2 - 1
    action[8] = 1.0
    weights = torch.randn(2, rows, dtype=torch.float64)
    results = []
    for regime in (HOST, compiled(HOST)):
        distribution.regime = regime
        logprob, entropies = distribution.score(given, action, noise)
        loss = sum((w * x).sum() for w, x in zip(weights, (logprob, entropies), strict=True))
        inputs = [x for x in given if x is not None]
        results.append([logprob, entropies, *torch.autograd.grad(loss, inputs, allow_unused=True)])
    for got, expected in zip(*results, strict=True):
        # softplus is linear above 20, where its slope is 1 - 2e-9
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-8)


def test_take_columns_has_the_values_and_gradient_of_slices():
    x = torch.randn(3, 4, A, requires_grad=True)
    for runs in (((0, 4), (14, 18)), ((5, 9),), ((0, A),)):
        got, expected = take_columns(x, runs), take(x, runs)
        weight = torch.randn_like(expected)
        assert torch.equal(got, expected)
        gradients = [torch.autograd.grad((weight * y).sum(), x)[0] for y in (got, expected)]
        assert torch.equal(*gradients)
