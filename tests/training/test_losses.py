"""Loss terms and advantage normalization against plain-Python oracles."""

from __future__ import annotations

import math
import random
import statistics

import pytest
import torch

from echelon.training.ppo.losses import (
    LossInputs,
    imitation_terms,
    largest_advantages,
    normalize_advantages,
    normalize_advantages_per_role,
    ppo_terms,
    prediction_terms,
)
from echelon.training.rollout import rows_by_role
from echelon.training.runtime.process_group import ProcessGroup

L, B = 5, 4
CLIP, ENT, VF, IMITATION, EPS = 0.2, 0.03, 0.7, 0.4, 0.1
APPROX = {"rel": 1e-5, "abs": 1e-6}
DIFFERENTIATED = ("logprobs", "values", "entropies", "imitation_losses")


def inputs(*, labels: bool = False) -> LossInputs:
    """Return random inputs with ratios on both sides of the clip range; the first steps have no weight."""
    torch.manual_seed(4)
    policy, value = torch.rand(L, B), torch.rand(L, B)
    policy[0] = value[0, :2] = 0.0
    x = LossInputs(
        advantages=torch.randn(L, B), returns=torch.randn(L, B), old_logprobs=torch.randn(L, B) * 0.3,
        logprobs=torch.randn(L, B) * 0.3, values=torch.randn(L, B), entropies=torch.rand(L, B) + 0.5,
        policy_weights=policy / policy.sum(), value_weights=value / value.sum(),
        imitation_losses=torch.rand(L, B) * 3 if labels else None,
    )  # fmt: skip
    for name in DIFFERENTIATED:
        if (tensor := getattr(x, name)) is not None:
            tensor.requires_grad_()
    return x


def weighted(weights: torch.Tensor, values: list[float]) -> float:
    return math.fsum(w * v for w, v in zip(weights.flatten().tolist(), values, strict=True))


def flat(x: LossInputs) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in x._asdict().items() if value is not None}


def ppo_oracle(x: LossInputs) -> dict[str, float]:
    """Return the terms of the clipped objective, one step at a time."""
    rows = flat(x)
    changes = [new - old for new, old in zip(rows["logprobs"], rows["old_logprobs"], strict=True)]
    ratios = [math.exp(change) for change in changes]
    policy = [-min(a * r, a * min(max(r, 1 - CLIP), 1 + CLIP)) for a, r in zip(rows["advantages"], ratios, strict=True)]
    value = [0.5 * (r - v) ** 2 for r, v in zip(rows["returns"], rows["values"], strict=True)]
    found = {
        "pg_loss": weighted(x.policy_weights, policy),
        "vf_loss": weighted(x.value_weights, value),
        "entropy": weighted(x.policy_weights, rows["entropies"]),
        "approx_kl": weighted(x.policy_weights, [r - 1 - c for r, c in zip(ratios, changes, strict=True)]),
        "clipfrac": weighted(x.policy_weights, [float(abs(r - 1) > CLIP) for r in ratios]),
        "aux_loss": 0.0,
        "imitation_loss": 0.0,
    }
    return {"loss": found["pg_loss"] - ENT * found["entropy"] + VF * found["vf_loss"], **found}


def values_of(terms) -> dict[str, float]:
    return {name: float(value.detach()) for name, value in terms._asdict().items()}


def test_ppo_terms_match_the_oracle():
    x = inputs()
    found, expected = values_of(ppo_terms(x, CLIP, ENT, VF)), ppo_oracle(x)
    assert found == pytest.approx(expected, **APPROX)
    assert 0.0 < found["clipfrac"] < 1.0, "some ratios are clipped"


def test_ppo_terms_add_the_weighted_imitation_loss():
    x = inputs(labels=True)
    expected = ppo_oracle(x)
    expected["imitation_loss"] = weighted(x.policy_weights, flat(x)["imitation_losses"])
    without = values_of(ppo_terms(x, CLIP, ENT, VF))
    assert without == pytest.approx(expected, **APPROX), "its coefficient is 0 unless given"
    expected["loss"] += IMITATION * expected["imitation_loss"]
    assert values_of(ppo_terms(x, CLIP, ENT, VF, IMITATION)) == pytest.approx(expected, **APPROX)


def test_ppo_gradients_match_the_oracle():
    """The policy is pushed only where its ratio is inside the clip range or would return to it."""
    x = inputs(labels=True)
    terms = ppo_terms(x, CLIP, ENT, VF, IMITATION)
    found = torch.autograd.grad(terms.loss, [getattr(x, name) for name in DIFFERENTIATED])
    rows = flat(x)
    for k, (w, wv) in enumerate(zip(rows["policy_weights"], rows["value_weights"], strict=True)):
        ratio, a = math.exp(rows["logprobs"][k] - rows["old_logprobs"][k]), rows["advantages"][k]
        is_clipped = ratio > 1 + CLIP if a > 0 else ratio < 1 - CLIP
        expected = (
            0.0 if is_clipped else -w * a * ratio,
            -VF * wv * (rows["returns"][k] - rows["values"][k]),
            -ENT * w,
            IMITATION * w,
        )
        assert [float(g.flatten()[k]) for g in found] == pytest.approx(expected, **APPROX)


def test_diagnostics_carry_no_gradient():
    x = inputs(labels=True)
    terms = ppo_terms(x, CLIP, ENT, VF, IMITATION)
    assert terms.loss.requires_grad
    assert not terms.approx_kl.requires_grad and not terms.clipfrac.requires_grad
    terms = imitation_terms(x, IMITATION, VF)
    assert terms.loss.requires_grad and not terms.entropy.requires_grad


def test_ratio_at_the_clip_range_is_not_clipped():
    x = inputs()._replace(old_logprobs=torch.zeros(L, B), logprobs=torch.full((L, B), math.log(1.5)))
    assert values_of(ppo_terms(x, 0.5, ENT, VF))["clipfrac"] == 0.0
    assert values_of(ppo_terms(x, 0.49, ENT, VF))["clipfrac"] == pytest.approx(1.0)


def test_terms_of_micro_batches_add_up():
    x = inputs(labels=True)
    parts = [LossInputs(*(None if v is None else v[:, columns] for v in x)) for columns in (slice(0, 1), slice(1, 4))]
    for of in (lambda x: ppo_terms(x, CLIP, ENT, VF, IMITATION), lambda x: imitation_terms(x, IMITATION, VF)):
        whole, (first, second) = values_of(of(x)), [values_of(of(part)) for part in parts]
        assert whole == pytest.approx({name: first[name] + second[name] for name in first}, **APPROX)


def test_imitation_terms_match_the_oracle():
    x = inputs(labels=True)
    rows = flat(x)
    imitation = weighted(x.policy_weights, rows["imitation_losses"])
    value = weighted(
        x.value_weights, [0.5 * (r - v) ** 2 for r, v in zip(rows["returns"], rows["values"], strict=True)]
    )
    terms = imitation_terms(x, IMITATION, VF)
    assert values_of(terms) == pytest.approx(
        {
            "loss": IMITATION * imitation + VF * value, "pg_loss": 0.0, "vf_loss": value,
            "entropy": weighted(x.policy_weights, rows["entropies"]), "approx_kl": 0.0, "clipfrac": 0.0,
            "aux_loss": 0.0, "imitation_loss": imitation,
        },
        **APPROX,
    )  # fmt: skip


def test_imitation_terms_need_labels():
    with pytest.raises(AssertionError, match="^imitation needs labels"):
        imitation_terms(inputs(), IMITATION, VF)


def test_prediction_terms_match_the_oracle():
    torch.manual_seed(5)
    predicted, observed, weight = torch.randn(L, B, 3), torch.randn(L, B, 3), torch.rand(L, B)
    starts = (torch.rand(L, B) < 0.3).float()
    expected = math.fsum(
        float(weight[t, b])
        * 0.5
        * math.fsum((float(p) - float(o)) ** 2 for p, o in zip(predicted[t, b], observed[t, b], strict=True))
        / 3
        for t in range(L)
        for b in range(B)
        if not starts[t, b]
    )
    assert float(prediction_terms(predicted, observed, starts, weight)) == pytest.approx(expected, **APPROX)


def standardized(columns: list[list[float]], alive: list[list[float]], moments=None) -> list[list[float]]:
    """Return columns of advantages minus mean over deviation of the living steps, or with given moments."""
    living = [
        a for column, lives in zip(columns, alive, strict=True) for a, one in zip(column, lives, strict=True) if one
    ]
    mean, deviation = moments or (statistics.mean(living), statistics.stdev(living))
    return [[(a - mean) / (deviation + EPS) for a in column] for column in columns]


def advantages_of(rng: random.Random, rows: int) -> torch.Tensor:
    return torch.tensor([[rng.gauss(n, 1 + n) for n in range(rows)] for _ in range(9)])


def test_normalize_advantages_matches_the_oracle(rng):
    x, alive = advantages_of(rng, 4), torch.ones(9, 4)
    alive[2:, 1] = alive[:, 3] = 0.0
    expected = standardized(x.T.tolist(), alive.T.tolist())
    normalize_advantages(x, alive, EPS)
    for column, row in zip(x.T.tolist(), expected, strict=True):
        assert column == pytest.approx(row, **APPROX)


@pytest.mark.parametrize(("living", "expected"), [(0, 1.0), (1, 1.0), (2, math.sqrt(0.5))])
def test_normalize_advantages_of_fewer_than_two_steps_only_divides_by_one(living, expected):
    x, alive = torch.tensor([[3.0], [4.0], [7.0]]), torch.zeros(3, 1)
    alive[:living] = 1.0
    mean = 3.5 if living == 2 else 0.0
    normalize_advantages(x, alive, EPS)
    assert x.flatten().tolist() == pytest.approx([(a - mean) / (expected + EPS) for a in (3.0, 4.0, 7.0)])


def test_normalize_advantages_of_constant_steps_divides_by_eps():
    x = torch.full((4, 2), 2.0)
    x[0, 0] = 2.5
    alive = torch.ones(4, 2)
    alive[0, 0] = 0.0
    normalize_advantages(x, alive, 0.25)
    assert x.flatten().tolist() == [2.0, *[0.0] * 7]


class OneOfTwo(ProcessGroup):
    """The first of two ranks; the other has one living step, with advantage 5."""

    def merge_moments(self, count, mean, squares):
        total, center = count + 1, (count * mean + 5.0) / (count + 1)
        return total, center, squares + count * (mean - center) ** 2 + (5.0 - center) ** 2


@pytest.mark.parametrize(("living", "samples"), [(1, [3.0, 5.0]), (2, [3.0, 4.0, 5.0])])
def test_normalize_advantages_counts_the_steps_of_all_ranks(living, samples):
    x, alive = torch.tensor([[3.0], [4.0], [7.0]]), torch.zeros(3, 1)
    alive[:living] = 1.0
    expected = [(a - statistics.mean(samples)) / (statistics.stdev(samples) + EPS) for a in (3.0, 4.0, 7.0)]
    normalize_advantages(x, alive, EPS, OneOfTwo())
    assert x.flatten().tolist() == pytest.approx(expected)


def test_normalize_advantages_per_role_matches_the_oracle(rng):
    """Two living steps are enough for moments of a role, one is not."""
    x, alive, roles = advantages_of(rng, 6), torch.ones(9, 6), torch.tensor([2, 0, 2, 1, 3, 0])
    alive[2:, 3] = alive[1:, 4] = alive[4:, 1] = 0.0
    columns, lives = x.T.tolist(), alive.T.tolist()
    living = [a for column, one in zip(columns, lives, strict=True) for a, on in zip(column, one, strict=True) if on]
    shared = statistics.mean(living), statistics.stdev(living)
    normalize_advantages_per_role(x, alive, rows_by_role(roles), EPS)
    for role in (0, 1, 2, 3):
        members = [n for n in range(6) if roles[n] == role]
        expected = standardized(
            [columns[n] for n in members], [lives[n] for n in members], shared if role == 3 else None
        )
        for n, row in zip(members, expected, strict=True):
            assert x[:, n].tolist() == pytest.approx(row, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.5, 3), (0.6, 4), (1.0, 6)])
def test_largest_advantages_are_those_of_greatest_magnitude(share, count):
    advantages, living = torch.tensor([[1.0, -5.0, 9.0, 2.0], [-3.0, 8.0, 4.0, -6.0]]), torch.ones(2, 4)
    living[0, 2] = living[1, 1] = 0.0
    found = largest_advantages(advantages, living, share)
    of_living = sorted((abs(float(a)) for a in advantages[living > 0]), reverse=True)
    assert sorted(abs(float(a)) for a in advantages[found > 0]) == sorted(of_living[:count])


def test_largest_advantages_include_ties_and_need_a_living_step():
    ties, ones = torch.tensor([[2.0, -2.0, 1.0]]), torch.ones(1, 3)
    assert largest_advantages(ties, ones, 0.3).tolist() == [[1.0, 1.0, 0.0]]
    assert not largest_advantages(ties, 0 * ones, 0.3).any()
