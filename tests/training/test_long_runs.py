"""Properties of longer runs: flat memory, sane gradient norms, returns on the scale of the loss.

The quick ones train on the fake environment; the slow ones, by hand, on battles.
"""

from __future__ import annotations

import gc
import math

import pytest
import torch

from echelon.config import EvalConfig, MixConfig, OpponentConfig
from echelon.jobs.config_layers import resolve
from echelon.telemetry.events import EventEpisodes, EventUpdate
from echelon.training import loop
from echelon.training.ppo.trainer import PPOTrainer
from tests.training.fakes import FakeEnv
from tests.training.runs import of, run

UPDATES = 40


def live_bytes() -> int:
    """Return the bytes of all reachable tensors."""
    gc.collect()
    live_sizes = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in gc.get_objects() if _is_tensor(t)
    }
    return sum(live_sizes.values())


def _is_tensor(thing: object) -> bool:
    # others' lazy objects answer isinstance by importing what they stand for; tensors of a tracer take no memory
    return type(thing) in (torch.Tensor, torch.nn.Parameter)


@pytest.mark.long
def test_updates_leak_no_tensor_memory(small_run, tmp_path):
    opponents = OpponentConfig(
        mix=MixConfig(scripted=1.0, past=1.0, self_play=1.0), past_every_updates=5, past_keep=2, rating_seeds=1
    )
    config = small_run(
        max_updates=31, total_steps=10**6, save_every=5, opponents=opponents,
        eval=EvalConfig(seeds=1, every_updates=5, at_start=True),
    )  # fmt: skip
    live_sizes: list[int] = []

    def on_event(event):
        if isinstance(event, EventUpdate) and event.update % 5 == 1:
            live_sizes.append(live_bytes())

    loop.run(config, on_event, lambda: 0, run_dir=tmp_path, make_env=FakeEnv)
    first = live_sizes[2]
    """Both snapshots and the rating environments exist by then."""
    assert len(live_sizes) == 7 and max(live_sizes[2:]) - first <= 2048, (
        f"tensors take {live_sizes} bytes at updates 1, 6, ..."
    )


@pytest.mark.long
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_normalized_returns_have_unit_spread_at_any_reward_scale(small_run, scale, monkeypatch):
    spreads: list[float] = []
    keep = PPOTrainer.update

    def update(self, buffer, *args):
        metrics = keep(self, buffer, *args)
        spreads.append(float(self.return_normalizer.normalize(buffer.returns).std()))
        return metrics

    class Scaled(FakeEnv):
        def step(self, row: int = 0) -> None:
            super().step(row)
            self.results.rewards.mul_(scale)

    monkeypatch.setattr(PPOTrainer, "update", update)
    # hardly learning, for what is learned makes returns alike, and the statistics are those of the whole run
    _, events = run(small_run(max_updates=25, total_steps=10**6, ppo={"lr": 1e-6}), make_env=Scaled)
    assert len(spreads) == 25 and all(0.7 < spread < 1.3 for spread in spreads), spreads
    assert all(e.vf_loss < 3.0 for e in of(events, EventUpdate)), "the value loss does not feel the scale of the reward"


@pytest.mark.long
def test_gradient_norms_stay_sane_over_40_updates(small_run):
    config = small_run(max_updates=UPDATES, total_steps=10**6, num_envs=16)
    updates = of(run(config)[1], EventUpdate)
    vanished = sum(u.grad_norm < 0.1 for u in updates) / UPDATES
    assert len(updates) == UPDATES and vanished <= 0.1, f"{vanished:.0%} of the updates have hardly a gradient"
    assert all(math.isfinite(u.grad_norm_max) and u.grad_norm <= u.grad_norm_max for u in updates)
    assert all((u.grad_norm_max > config.ppo.max_grad_norm) == (u.grad_clipped_share > 0) for u in updates)


@pytest.mark.slow
def test_training_overfits_one_map(tmp_path):
    changes = {
        "bank_maps": 1, "bank_spare": 1, "max_minutes": 0.0, "total_steps": 6_000_000, "eval.every_updates": 0,
        "eval.at_start": False, "eval.record_seeds": 0, "opponents.mix.medium": 0.0,
    }  # fmt: skip
    recent: list[EventEpisodes] = []

    def on_event(event):
        if isinstance(event, EventEpisodes):
            recent.append(event)
            del recent[:-20]

    win_rate = lambda: sum(e.wins for e in recent) / max(1, sum(e.count for e in recent))  # noqa: E731
    ready = lambda: len(recent) == 20 and win_rate() > 0.95  # noqa: E731
    loop.run(resolve("quickstart", None, changes).config, on_event, lambda: int(ready()), run_dir=tmp_path)
    assert win_rate() > 0.9, f"{win_rate():.0%} of the newest {sum(e.count for e in recent)} battles on one map"


@pytest.mark.slow
def test_short_chunks_learn_as_well_as_long_ones(small_run):
    final = {}
    for length, batches in ((32, 8), (128, 2)):
        ppo = {"rollout_steps": 128, "tbptt_chunk_length": length, "num_minibatches": batches, "lr": 5e-3}
        _, events = run(small_run(num_envs=16, total_steps=60_000, ppo=ppo))
        final[length] = of(events, EventUpdate)[-1].avg_return
    assert final[32] >= final[128] - 0.2 * abs(final[128]), final
