"""The rollout buffer: in-place advantages against worked examples."""

from __future__ import annotations

import pytest
import torch

from echelon.training import rollout
from echelon.training.rollout import RolloutBuffer, rollout_statistics
from echelon.training.runtime.devices import read_scalars


def filled(rewards, values=None, dones=None) -> RolloutBuffer:
    buffer = RolloutBuffer.create(num_steps=len(rewards), num_agents=1, obs_dim=2, action_dim=1, device="cpu")
    buffer.rewards[:, 0] = torch.tensor(rewards)
    if values is not None:
        buffer.values[:, 0] = torch.tensor(values)
    if dones is not None:
        buffer.dones[:, 0] = torch.tensor(dones)
    return buffer


def gae(buffer, next_value=0.0, next_done=0.0, gamma=0.99, lam=0.95) -> tuple[list[float], list[float]]:
    buffer.compute_gae(torch.tensor([next_value]), torch.tensor([next_done]), gamma, lam)
    return buffer.advantages[:, 0].tolist(), buffer.returns[:, 0].tolist()


def test_rollout_advantages_and_returns_start_as_zeros():
    buffer = RolloutBuffer.create(num_steps=10, num_agents=5, obs_dim=7, action_dim=3, device="cpu")
    assert buffer.advantages.shape == buffer.returns.shape == (10, 5)
    assert not buffer.advantages.any() and not buffer.returns.any()
    assert buffer.obs.shape == (10, 5, 7) and buffer.obs_rows.shape == (11, 5, 7)


def test_compute_gae_writes_in_place():
    buffer = filled([1.0, 2.0], [0.5, 0.5])
    before = buffer.advantages.data_ptr(), buffer.returns.data_ptr()
    gae(buffer)
    assert (buffer.advantages.data_ptr(), buffer.returns.data_ptr()) == before
    assert torch.equal(buffer.returns, buffer.advantages + buffer.values)


BONUS = 4.0
EXAMPLES = {
    "three steps": (([1.0, 2.0, 3.0], [0.5, 1.0, 1.5]), {"next_value": 2.0}, [6.90534, 5.75794, 3.48]),
    "one step": (([10.0], [5.0]), {}, [5.0]),
    "no discount": (([1.0, 2.0], [0.5, 0.25]), {"next_value": 9.0, "gamma": 0.0}, [0.5, 1.75]),
    "constant rewards are geometric": (
        ([1.0] * 6,), {"gamma": 0.9, "lam": 1.0}, [sum(0.9**k for k in range(6 - t)) for t in range(6)]),
    "a boundary isolates earlier steps": (
        ([1.0, 2.0, 3.0], [0.5, 1.0, 1.5], [0.0, 1.0, 0.0]), {"next_value": 2.0}, [0.5, 5.75794, 3.48]),
    "no next value after the end": (([1.0], [0.25]), {"next_value": 100.0, "next_done": 1.0}, [0.75]),
    "bonus of a truncation": (
        ([1.0, 1.0], None, [0.0, 1.0]), {"bonus": BONUS, "gamma": 0.5, "lam": 1.0}, [1.0 + BONUS, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_compute_gae_matches_reference_numbers(example):
    steps, options, expected = EXAMPLES[example]
    buffer = filled(*steps)
    buffer.truncation_bonus[0, 0] = options.get("bonus", 0.0)
    advantages, returns = gae(buffer, **{name: value for name, value in options.items() if name != "bonus"})
    assert advantages == pytest.approx(expected, abs=1e-4)
    assert returns == pytest.approx(
        [a + float(v) for a, v in zip(expected, buffer.values[:, 0], strict=True)], abs=1e-4
    )


def test_compute_gae_uses_double_precision_for_long_rollouts():
    torch.manual_seed(0)
    steps, gamma, lam = 4096, 0.999, 0.99
    buffer = filled((torch.randn(steps) * 100).tolist(), torch.randn(steps).tolist())
    got, _ = gae(buffer, next_value=1.0, gamma=gamma, lam=lam)
    r, v = buffer.rewards[:, 0].double(), torch.cat([buffer.values[:, 0].double(), torch.ones(1).double()])
    trace, expected = 0.0, [0.0] * steps
    for t in reversed(range(steps)):
        trace = float(r[t] + gamma * v[t + 1] - v[t]) + gamma * lam * trace
        expected[t] = trace
    assert got == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("limit", "expected"), [(3, 0.0), (2, 1.0)])
def test_compute_gae_accumulates_in_double_precision_above_limit(monkeypatch, limit, expected):
    """In float32 the one is lost beside 2^24."""
    monkeypatch.setattr(rollout, "LONG_ROLLOUT", limit)
    big = 2.0**24
    advantages, returns = gae(filled([-big, big, 1.0]), gamma=1.0, lam=1.0)
    assert advantages[0] == returns[0] == expected


def test_compute_gae_rounds_no_part_of_a_long_rollout_to_float32(monkeypatch):
    """What remains after subtracting almost equal numbers shows how they were rounded."""
    monkeypatch.setattr(rollout, "LONG_ROLLOUT", 1)
    first, second = (float(torch.tensor(x)) for x in (-0.3, 2.7))
    last = second + 0.1 * 3.0 - 3.0
    expected = [first + 0.1 * 3.0 + 0.1 * 0.5 * last, last]
    advantages, _ = gae(filled([first, second], [0.0, 3.0]), next_value=3.0, gamma=0.1, lam=0.5)
    assert advantages == pytest.approx(expected, rel=1e-6) and abs(expected[0]) < 1e-7
    big = 2.0**24
    buffer = filled([big, big], [big, big])
    buffer.truncation_bonus.fill_(1.0)
    assert gae(buffer, gamma=0.0)[0] == [1.0, 1.0]


def test_compute_gae_of_many_rows_matches_the_oracle(rng):
    steps, rows, gamma, lam = 7, 5, 0.9, 0.8
    buffer = RolloutBuffer.create(steps, rows, 2, 1)
    columns = {
        name: [[draw() for _ in range(rows)] for _ in range(steps)]
        for name, draw in (
            ("rewards", lambda: rng.gauss(0, 1)),
            ("values", lambda: rng.gauss(0, 1)),
            ("truncation_bonus", lambda: rng.choice([0.0, 2.0])),
            ("dones", lambda: rng.choice([0.0, 0.0, 1.0])),
        )
    }
    for name, values in columns.items():
        getattr(buffer, name).copy_(torch.tensor(values))
    next_value, next_done = [rng.gauss(0, 1) for _ in range(rows)], [0.0, 1.0, 0.0, 1.0, 0.0]
    buffer.compute_gae(torch.tensor(next_value), torch.tensor(next_done), gamma, lam)
    for n in range(rows):
        values = [row[n] for row in columns["values"]] + [next_value[n]]
        dones = [row[n] for row in columns["dones"]] + [next_done[n]]
        trace = 0.0
        for t in reversed(range(steps)):
            ahead = 0.0 if dones[t + 1] else 1.0
            reward = columns["rewards"][t][n] + columns["truncation_bonus"][t][n]
            trace = reward + gamma * ahead * values[t + 1] - values[t] + gamma * lam * ahead * trace
            assert float(buffer.advantages[t, n]) == pytest.approx(trace, rel=1e-5, abs=1e-5)
            assert float(buffer.returns[t, n]) == pytest.approx(trace + values[t], rel=1e-5, abs=1e-5)


def rollout_with_deaths(rng, steps: int, team: int) -> RolloutBuffer:
    """Return a rollout of two teams with deaths, an absent mech, and the end of an episode that truncates a team."""
    rows = range(2 * team)
    buffer = RolloutBuffer.create(steps, len(rows), 2, 1)
    buffer.team_size = team
    for x in (buffer.values, buffer.rewards):
        x.copy_(torch.tensor([[rng.gauss(0, 1) for _ in rows] for _ in range(steps)]))
    buffer.alive.copy_(torch.tensor([[float(t < (9, 2, 5, 4, 4, 6)[n] or t > 6) for n in rows] for t in range(steps)]))
    buffer.present[:, 1] = 0.0
    buffer.dones[7] = 1.0
    buffer.truncation_bonus[6, :team] = torch.rand(team) * buffer.alive[6, :team]
    return buffer


def test_compute_gae_continues_after_death_with_the_value_of_the_dead(rng):
    """The oracle treats each mech by itself: at a step that it does not live, its value is that of the dead."""
    steps, team, gamma, lam = 9, 3, 0.9, 0.8
    buffer = rollout_with_deaths(rng, steps, team)
    buffer.dead_value.fill_(0.7)
    next_value, next_alive = torch.randn(2 * team), torch.tensor([1.0, 0.0] * team)
    buffer.compute_gae(next_value, torch.zeros(2 * team), gamma, lam, next_alive)
    for n in range(2 * team):
        values = [float(v) if a else 0.7 for v, a in zip(buffer.values[:, n], buffer.alive[:, n], strict=True)]
        values.append(float(next_value[n]) if next_alive[n] else 0.7)
        trace = 0.0
        for t in reversed(range(steps)):
            ahead = 0.0 if t == 6 else 1.0
            bonus = 0.7 * gamma if (t, n < team, float(buffer.alive[t, n])) == (6, True, 0.0) else 0.0
            reward = float(buffer.rewards[t, n] + buffer.truncation_bonus[t, n]) + bonus
            trace = reward + gamma * ahead * values[t + 1] - values[t] + gamma * lam * ahead * trace
            assert float(buffer.advantages[t, n]) == pytest.approx(trace, rel=1e-5, abs=1e-5)
            assert float(buffer.returns[t, n]) == pytest.approx(trace + values[t], rel=1e-5, abs=1e-5)


def test_returns_of_the_dead_are_summed_to_the_end_of_the_episode(rng):
    """Rewards until the end, and the discount of what is not seen: beyond the rollout, or where a team is truncated."""
    steps, team, gamma = 9, 3, 0.9
    buffer = rollout_with_deaths(rng, steps, team)
    buffer.alive[8, 4] = 0.0
    sums = [0.0, 0.0, 0.0]
    for n in range(2 * team):
        for t in (t for t in range(steps) if not buffer.alive[t, n] and buffer.present[t, n]):
            last = 6 if t < 7 else steps - 1
            sums[0] += sum(gamma ** (s - t) * float(buffer.rewards[s, n]) for s in range(t, last + 1))
            sums[1] += gamma ** (last + 1 - t) * (last == steps - 1 or n < team)
            sums[2] += 1
    found = buffer.returns_of_dead(torch.zeros(2 * team), gamma)
    assert found.tolist() == pytest.approx(sums, rel=1e-5) and sums[2] > 5


def test_return_of_the_last_living_step_has_the_discounted_rewards_after_it():
    buffer = filled([0.0, 0.0, 1.0, 2.0], values=[0.0, 0.0, 50.0, 50.0])
    buffer.alive[2:] = 0.0
    _, returns = gae(buffer, next_done=1.0, gamma=0.5, lam=0.5)
    assert returns[1] == 0.25 * 1.0 + 0.0625 * 2.0, "what the critic says of a dead mech's zeros is not read"


def test_compute_gae_keeps_the_boundary_values_and_marks_the_rollout_ready():
    buffer = RolloutBuffer.create(2, 3, 2, 1)
    next_value, next_done = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([0.0, 1.0, 0.0])
    assert not buffer.gae_computed
    buffer.compute_gae(next_value, next_done, 0.9, 0.8)
    assert buffer.next_value.tolist() == [1.0, 2.0, 3.0] and buffer.next_done.tolist() == [0.0, 1.0, 0.0]
    assert buffer.gae_computed is True and not buffer.next_value.requires_grad
    buffer.clear()
    assert not buffer.gae_computed


@pytest.mark.parametrize(("value", "done"), [((3, 1), (3, 1)), ((3,), (2,)), ((2,), (3,)), ((1,), (1,))])
def test_compute_gae_rejects_other_shapes(value, done):
    buffer = RolloutBuffer.create(2, 3, 2, 1)
    with pytest.raises(AssertionError, match=r"^next_value and next_done must be \[N\]"):
        buffer.compute_gae(torch.zeros(value), torch.zeros(done), 0.9, 0.8)


def test_compute_gae_leaves_no_gradient():
    buffer = filled([1.0, 2.0])
    buffer.values = torch.ones(2, 1, requires_grad=True)
    gae(buffer)
    assert not buffer.advantages.requires_grad and not buffer.returns.requires_grad


def test_require_ready_rejects_missing_advantages():
    buffer = filled([1.0, 2.0])
    with pytest.raises(ValueError, match="advantages and returns"):
        buffer.require_ready()
    buffer.advantages[0] = 1.0
    buffer.require_ready()


def test_ages_count_from_episode_start_across_rollouts():
    buffer = filled([0.0] * 4, dones=[0.0, 0.0, 1.0, 0.0])
    buffer.start_age.fill_(5)
    assert buffer.ages()[:, 0].tolist() == [5, 6, 0, 1]
    buffer.obs_rows[-1] = 3.0
    buffer.begin()
    assert buffer.start_age.tolist() == [2] and (buffer.obs_rows[0] == 3).all()


def test_terminal_reward_changes_advantages_before_death():
    """Death is no boundary: the terminal reward of a dead mech reaches the steps before its death."""
    advantages = []
    for reward in (0.0, 1.0):
        buffer = filled([0.0] * 5 + [reward])
        buffer.alive[3:] = 0.0
        advantages.append(gae(buffer, next_done=1.0)[0][:3])
    assert all(after > before for before, after in zip(*advantages, strict=True))


def test_rollout_statistics_exclude_absent_and_dead_mechs():
    """Rows without a mech have undefined values, and dead mechs have no advantage."""
    torch.manual_seed(0)
    few, many = RolloutBuffer.create(20, 4, 1, 1), RolloutBuffer.create(20, 7, 1, 1)
    for name in ("values", "returns", "rewards", "advantages"):
        getattr(few, name).normal_()
        getattr(many, name).fill_(1e6)[:, :4] = getattr(few, name)
    many.present[:, 4:] = many.alive[:, 4:] = 0.0
    before, same = (read_scalars(rollout_statistics(buffer))[1] for buffer in (few, many))
    assert same == pytest.approx(before, abs=1e-5)
    few.advantages[5:, 0], few.alive[5:, 0] = 1e6, 0.0
    after = read_scalars(rollout_statistics(few))[1]
    assert after["adv_std"] < 2 and after["reward_std"] == before["reward_std"]
    assert after["dead_share"] == pytest.approx(15 / 80)
