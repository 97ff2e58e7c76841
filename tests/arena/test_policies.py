"""Policy cache and grouped inference."""

from dataclasses import replace

import pytest
import torch

from echelon.arena.policies import BLOCK_ROWS, GroupedPolicies, LRUPolicyCache
from echelon.config import ModelConfig
from echelon.rl.host_program import has_program
from echelon.rl.traced_policy import TracedPolicies
from tests.arena.policy_files import SMALL, policy, shape_of

SHAPE = shape_of(SMALL)
WIDE = ModelConfig(hidden_dim=16, lstm_hidden_dim=32)
NATIVE = replace(WIDE, recurrence="mingru", action_head="hybrid")


class Tracked:
    """Fake policy that records its device."""

    training = False
    where = "accelerator"

    def cpu(self):
        self.where = "cpu"
        return self


def filled(size, count):
    cache, policies = LRUPolicyCache(size), [Tracked() for _ in range(count)]
    for n, one in enumerate(policies):
        cache.put(str(n), one)
    return cache, policies


def test_cache_evicts_least_recently_used_to_cpu():
    cache, policies = filled(20, 50)
    assert len(cache) == 20 and cache.names() == [str(n) for n in range(30, 50)]
    assert [one.where for one in policies] == ["cpu"] * 30 + ["accelerator"] * 20


def test_cache_get_refreshes_entry():
    cache, _ = filled(3, 3)
    assert cache.get("0") is not None and cache.get("9") is None
    cache.put("3", Tracked())
    assert cache.names() == ["2", "0", "3"]


def test_cache_never_evicts_pinned_policies():
    cache, policies = filled(2, 2)
    for name in ("0", "1", "0"):
        cache.pin(name)
    cache.put("2", Tracked())
    assert "0" in cache and "1" in cache and policies[0].where == "accelerator"
    cache.unpin("0")
    assert "0" in cache, "pinned twice, unpinned once"
    for name in ("1", "0"):
        cache.unpin(name)
    assert len(cache) == 2 and cache.names() == ["1", "2"] or cache.names() == ["0", "1"]


def test_cache_rejects_policies_in_training_mode():
    with pytest.raises(ValueError, match="expected evaluation mode"):
        LRUPolicyCache().put("x", policy(1).train())
    with pytest.raises(ValueError, match="cache size is 0"):
        LRUPolicyCache(0)


def actions_of(rows, groups, steps=3, threads=1, noise=None):
    """Return the actions of each step for ``rows`` of random observations; ``groups`` assigns policies to rows."""
    torch.manual_seed(0)
    obs = torch.randn(steps, 200, SHAPE["obs_dim"])
    grouped = GroupedPolicies(len(rows), SHAPE["action_dim"], threads=threads)
    for one, assigned in groups:
        grouped.assign([rows.index(row) for row in assigned if row in rows], one)
    draw = [None if noise is None else noise[rows] for _ in range(steps)]
    found = [grouped.act(obs[t][rows], draw[t]).clone() for t in range(steps)]
    grouped.close()
    return found


@pytest.mark.parametrize("model", [WIDE, NATIVE])
def test_grouped_actions_are_independent_of_batch(model):
    one, two = policy(1), policy(2, model=model)
    assert has_program(two) == (model is NATIVE)
    groups = [(one, range(0, 200, 2)), (two, range(1, 200, 2))]
    noise = torch.randn(200, max(one.noise_dim, two.noise_dim))
    for draw in (None, noise):
        whole = actions_of(list(range(200)), groups, noise=draw)
        rows = [7, 3, 150, 4, 199, 12]
        few = actions_of(rows, groups, threads=2, noise=draw)
        for t in range(3):
            assert torch.equal(whole[t][rows], few[t]), f"decision {t}"
    assert len({tuple(row.tolist()) for row in whole[0]}) == 200


@pytest.mark.parametrize("threads", [1, 2])
def test_grouped_policies_run_in_inference_mode(monkeypatch, threads):
    seen, keep = [], TracedPolicies.act_function

    def watched(self, one, *, stochastic):
        act = keep(self, one, stochastic=stochastic)
        return lambda *given: seen.append(torch.is_inference_mode_enabled()) or act(*given)

    monkeypatch.setattr(TracedPolicies, "act_function", watched)
    actions_of(list(range(6)), [(policy(1), range(3)), (policy(2), range(3, 6))], threads=threads)
    assert len(seen) == 6 and all(seen), "two policies, three decisions"


def test_grouped_actions_match_single_policy_actions():
    one, two = policy(1), policy(2, model=NATIVE)
    obs = torch.randn(4, 12, SHAPE["obs_dim"])
    grouped = GroupedPolicies(12, SHAPE["action_dim"])
    grouped.assign(range(5), one)
    grouped.assign(range(5, 12), two)
    for pilot, rows in ((one, slice(0, 5)), (two, slice(5, 12))):
        state, done = pilot.initial_state(rows.stop - rows.start), torch.ones(rows.stop - rows.start)
        grouped.reset(range(12))
        for t in range(4):
            alone, state = pilot.act(obs[t, rows], state, done)
            done = torch.zeros_like(done)
            assert torch.allclose(grouped.act(obs[t])[rows], alone, atol=1e-5)
        assert torch.allclose(grouped.state_of(rows.start).h[0, 0], state.h[0, 0], atol=1e-5)


def test_assign_resets_only_assigned_rows():
    one, two = policy(1), policy(2)
    obs = torch.randn(20, SHAPE["obs_dim"])
    grouped = GroupedPolicies(20, SHAPE["action_dim"])
    grouped.assign(range(20), one)
    grouped.act(obs)
    before = [grouped.state_of(row).h.clone() for row in range(20)]
    grouped.assign(range(5, 10), two)
    for row in range(20):
        now = grouped.state_of(row).h
        assert torch.equal(now, torch.zeros_like(now) if 5 <= row < 10 else before[row])
    grouped.assign(range(10, 15), one)
    assert not grouped.state_of(12).h.any(), "assigning the same policy again resets its state as well"
    assert torch.equal(grouped.state_of(17).h, before[17])


def test_unassigned_rows_are_not_computed():
    large, small = BLOCK_ROWS
    rows = large + small + 1
    grouped = GroupedPolicies(2 * large, SHAPE["action_dim"])
    grouped.assign(range(rows), policy(1))
    grouped.act(torch.randn(2 * large, SHAPE["obs_dim"]))
    sizes = [(block.count, len(block.rows)) for block in grouped._grouped(stochastic=False)]
    assert sizes == [(large, large), (small, small), (1, small)]
    assert grouped.actions[:rows].any(1).all() and not grouped.actions[rows:].any()
    with pytest.raises(ValueError, match="has no policy"):
        grouped.state_of(rows)


@pytest.mark.parametrize("model", [WIDE, NATIVE])
def test_rows_that_do_not_act_change_no_other_row(model):
    one = policy(1, model=model)
    obs, acting = torch.randn(3, 50, SHAPE["obs_dim"]), torch.rand(50) < 0.5
    every, some = (GroupedPolicies(50, SHAPE["action_dim"]) for _ in range(2))
    for grouped in (every, some):
        grouped.assign(range(50), one)
        grouped.act(obs[0])
    before = some.actions.clone()
    for step in obs[1:]:
        every.act(step)
        some.act(step, acting=acting.numpy())
    assert torch.equal(some.actions[acting], every.actions[acting])
    assert torch.equal(some.actions[~acting], before[~acting])


def test_nonfinite_actions_are_zeroed_and_flagged():
    grouped = GroupedPolicies(6, SHAPE["action_dim"])
    grouped.assign(range(3), policy(1, broken=True))
    grouped.assign(range(3, 6), policy(2))
    actions = grouped.act(torch.randn(6, SHAPE["obs_dim"]))
    assert grouped.nonfinite.tolist() == [True] * 3 + [False] * 3 and torch.isfinite(actions).all()
    grouped.assign(range(3), policy(3))
    assert not grouped.nonfinite.any()


def test_recurrent_state_is_on_policy_device():
    grouped = GroupedPolicies(4, SHAPE["action_dim"])
    grouped.assign(range(2), policy(1))
    grouped.assign(range(2, 4), policy(2).to("meta"))
    grouped._grouped(stochastic=False)
    assert {str(device) for device in grouped._states} == {"cpu", "meta"}
    assert grouped.state_of(0).h.device.type == "cpu" and grouped.state_of(3).h.device.type == "meta"


def test_assign_rejects_action_dim_mismatch():
    with pytest.raises(ValueError, match=f"has {SHAPE['action_dim']} action columns, expected 9"):
        GroupedPolicies(4, 9).assign([0], policy(1))
