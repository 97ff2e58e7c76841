"""Precision, memory, determinism, devices and CUDA graphs; GPU tests are skipped without a CUDA device."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from echelon.config import ModelConfig, PPOConfig
from echelon.env.layout import END_WIDTH, FLAT_OBS_DIM
from echelon.rl.build import build_model
from echelon.rl.regime import DEVICE, set_regime
from echelon.telemetry.events import EventUpdate
from echelon.training import rollout
from echelon.training.ppo.graph.capture import CudaGraphCache
from echelon.training.ppo.teacher import Teaching
from echelon.training.ppo.trainer import PPOTrainer
from echelon.training.runtime import devices
from echelon.training.runtime.devices import release_cache, resolve_device, set_determinism
from echelon.training.runtime.process import rank_seed, seed_everything
from echelon.training.session import Session
from tests.training.fakes import FakeEnv
from tests.training.runs import collected, of, run
from tests.training.support import N, model_of, rollout_of, trainer_of, weights_of

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
READS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default, torch.ops.aten.item.default)
PEAK = """
import re, torch
from pathlib import Path
from echelon.config import PPOConfig
from echelon.training.ppo.trainer import PPOTrainer
from tests.training.test_hardware import wide_rollout
torch.set_num_threads(1)
model, buffer = wide_rollout()
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])  # of this program alone
before = peak()
config = PPOConfig(tbptt_chunk_length=64, num_minibatches=1, update_epochs=1, activation_checkpointing={on})
PPOTrainer(model, config).update(buffer, model.initial_state(buffer.num_agents))
print(peak() - before)
"""


def wide_rollout():
    """Return a model and a random rollout whose activations dominate memory."""
    torch.manual_seed(0)
    model = build_model(ModelConfig(kind="classic", hidden_dim=256, lstm_hidden_dim=256), 8, 3)
    buffer = rollout.RolloutBuffer.create(64, 768, 8, 3)
    buffer.obs_rows.normal_()
    buffer.rewards.normal_()
    buffer.compute_gae(torch.zeros(768), torch.zeros(768), 0.99, 0.95)
    return model, buffer


def update(model, **options) -> tuple[dict, list[torch.Tensor]]:
    buffer = rollout_of(model)
    return trainer_of(model, **options).update(buffer, model.initial_state(N)), weights_of(model)


@pytest.mark.parametrize(("kind", "recurrence"), [("classic", "lstm"), ("suite", "lstm"), ("classic", "mingru")])
def test_activation_checkpointing_keeps_gradients(kind, recurrence):
    config = ModelConfig(kind=kind, hidden_dim=8, lstm_hidden_dim=8, recurrence=recurrence)
    results = []
    for on in (False, True):
        torch.manual_seed(0)
        model = build_model(config, FLAT_OBS_DIM + END_WIDTH if kind == "suite" else 5, 3)
        trainer = PPOTrainer(model, PPOConfig(activation_checkpointing=on, aux_coef=0.0))
        torch.manual_seed(1)
        obs, state = torch.rand(20, 4, model.obs_dim), model.initial_state(4)
        dones, noise = (torch.rand(20, 4) < 0.1).float(), torch.randn(20, 4, 3)
        scores = trainer.gradients._forward(obs, torch.zeros(20, 4, 3), dones, state, noise, None, None)
        loss = scores.logprobs.mean() + scores.values.mean() + scores.entropies.mean()
        loss = loss + scores.features.mean() + scores.state.h.mean()
        results.append(torch.autograd.grad(loss, trainer.gradients.parameters, allow_unused=True))
    pairs = [(a, b) for a, b in zip(*results, strict=True) if a is not None]
    assert pairs and all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)


@pytest.mark.parametrize(
    "recurrence", [pytest.param("lstm", marks=pytest.mark.long), pytest.param("mingru", marks=pytest.mark.slow)]
)
def test_compile_keeps_gradients(monkeypatch, recurrence):
    """A compiled backward pass may return one tensor for two parameters, such as both biases of the recurrence."""
    monkeypatch.setattr(rollout, "MICRO_BATCH_ROWS", 8)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    results = []
    for on in (False, True):
        model = model_of(recurrence=recurrence)
        trainer, buffer = trainer_of(model, compile=on, grad_accum_steps=2), rollout_of(model)
        states = trainer.chunk_states(buffer, model.initial_state(N))
        torch.manual_seed(1)
        batch = rollout.gather_minibatch(
            buffer, states, buffer.returns, buffer.present, [rollout.Unit(0, 0, 2, torch.arange(N))]
        )
        _, shards = trainer.minibatch_update.gradients_of(batch)
        assert shards is not None and len(shards) > 1
        trainer.minibatch_update.add(shards, 1.0)
        results.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert results[0].keys() == results[1].keys()
    for name, expected in results[0].items():
        torch.testing.assert_close(results[1][name], expected, msg=name)


@pytest.mark.slow
def test_activation_checkpointing_needs_less_memory(repository):
    peaks = []
    for on in (False, True):
        done = subprocess.run(
            [sys.executable, "-c", PEAK.format(on=on)], cwd=repository, capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout.split()[-1]))
    assert peaks[1] < 0.7 * peaks[0], peaks


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_update_in_lower_precision_stays_close_to_float32(dtype):
    plain, _ = update(model_of(), update_epochs=1)
    half, _ = update(model_of(), update_epochs=1, amp=True, amp_dtype=dtype)
    assert half["amp"] and not plain["amp"] and half["loss"] == pytest.approx(plain["loss"], abs=0.05)
    assert half["optimizer_steps"] + half["overflows"] == 3 and half["nonfinite"] == 0


def test_float16_overflow_skips_step_and_lowers_scale():
    model = model_of()
    buffer, before = rollout_of(model), weights_of(model)
    trainer = trainer_of(model, amp=True, amp_dtype="float16", update_epochs=1, num_minibatches=1)
    trainer.gradients.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    metrics = trainer.update(buffer, model.initial_state(N))
    assert metrics["overflows"] == 1 and metrics["optimizer_steps"] == 0 and metrics["nonfinite"] == 0
    assert trainer.gradients.scaler.get_scale() < 2.0**120
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_loss_scale_is_saved_with_trainer():
    trainer = trainer_of(model_of(), amp=True, amp_dtype="float16")
    trainer.gradients.scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    trainer.gradients.scaler.scale(torch.ones(1))
    other = trainer_of(model_of(), amp=True, amp_dtype="float16")
    other.load_state_dict(trainer.state_dict())
    assert other.gradients.scaler.get_scale() == 64.0


@pytest.mark.parametrize(
    ("device", "bf16", "expected", "found"),
    [
        ("cpu", True, "auto", torch.bfloat16),
        ("cpu", False, "auto", None),
        ("cuda", True, "auto", torch.bfloat16),
        ("cuda", False, "auto", torch.float16),
        ("cpu", False, "bfloat16", torch.bfloat16),
        ("cuda", True, "float16", torch.float16),
    ],
)
def test_low_precision_follows_device_unless_requested(monkeypatch, device, bf16, expected, found):
    monkeypatch.setattr(devices, "has_bfloat16", lambda _: bf16)
    assert devices.low_precision(torch.device(device), expected) is found


def test_saturated_actions_keep_metrics_finite(small_run):
    config = small_run(total_steps=1500)
    config = type(config)(**{**vars(config), "model": ModelConfig(**{**vars(config.model), "init_log_std": 2.0})})
    seen = []
    with Session(config, None, FakeEnv) as session:
        session.policy.core.actor_mean.weight.data.mul_(2000.0)
        session.collector.reset()
        for _ in range(5):
            session.collector.collect()
            session.collector.bootstrap(0.95)
            metrics = session.trainer.update(session.buffer, session.collector.start_state)
            seen.append(float((session.buffer.actions.abs() > 0.999).float().mean()))
            assert all(torch.isfinite(torch.tensor(float(v))) for v in metrics.values())
    assert seen[0] > 0.3, "actions saturate"


def test_set_determinism_controls_cudnn_benchmark(monkeypatch):
    cudnn = torch.backends.cudnn
    monkeypatch.setattr(cudnn, "benchmark", cudnn.benchmark)
    monkeypatch.setattr(cudnn, "deterministic", cudnn.deterministic)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    try:
        for on in (False, True):
            set_determinism(torch.device("cuda"), on)
            assert (cudnn.benchmark, cudnn.deterministic) == (not on, on)
            assert torch.are_deterministic_algorithms_enabled() == on
    finally:
        set_determinism(torch.device("cpu"), False)
    assert not torch.are_deterministic_algorithms_enabled()


def test_release_cache_runs_every_fiftieth_cuda_update(monkeypatch):
    released = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: released.append(update_number))
    for update_number in range(1, 121):
        release_cache(torch.device("cuda"), update_number, PPOConfig().empty_cache_every)
        release_cache(torch.device("cuda"), update_number, 0)
        release_cache(torch.device("cpu"), update_number, 1)
    assert released == [50, 100]


def test_resolve_device_assigns_one_device_per_rank(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("auto", 1, 2) == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="nproc is 3, but there are 2"):
        resolve_device("cuda", 0, 3)


def test_rank_seeds_give_distinct_streams():
    draws = []
    for rank in (0, 1, 0):
        seed_everything(rank_seed(7, rank))
        draws.append(torch.rand(3))
    assert torch.equal(draws[0], draws[2]) and not torch.equal(draws[0], draws[1])


RECURRENT_HEADS = [("gaussian", "lstm"), ("hybrid", "lstm"), ("gaussian", "mingru")]


def capturing(captures: list):
    """Return a stand-in of graph capture that lists the work and rejects a read when it is replayed."""

    def capture(work):
        captures.append(work)

        def play():
            HostReads.count = 0
            with HostReads():
                result = work()
            assert HostReads.count == 0, "a graph cannot read from the device"
            return result

        return play

    return capture


def capture_by(trainer, capture) -> None:
    """Let a trainer evaluate minibatches as on a device on which the host checks them, captured by ``capture``."""
    set_regime(trainer.model, DEVICE)
    trainer.minibatch_update.graphs = CudaGraphCache(trainer.gradients.whole_gradient, capture)


@pytest.mark.long
@pytest.mark.parametrize("head", ["gaussian", "hybrid"])
def test_captured_update_follows_a_teacher_through_its_phases(head):
    results, captures = [], []
    phases = (Teaching(imitates=True, has_labels=True, coef=0.2), Teaching(has_labels=True, coef=0.1), Teaching())

    for captured in (False, True):
        model = model_of(head=head)
        buffer = rollout_of(model)
        buffer.labels = torch.rand(buffer.actions.shape, generator=torch.Generator().manual_seed(2)) * 2 - 1
        trainer = trainer_of(model)
        if captured:
            capture_by(trainer, capturing(captures))
        found = []
        for progress, teaching in enumerate(phases):
            trainer.set_progress(progress / 3, teaching)
            metrics = trainer.update(buffer, model.initial_state(N))
            found += [metrics["loss"], metrics["pg_loss"], metrics["imitation_loss"]]
            buffer.compute_gae(buffer.next_value.clone(), buffer.next_done.clone(), 0.99, 0.95)
        results.append((found, weights_of(model)))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5) and len(captures) == len(phases)
    assert results[0][0][1] == 0.0 and results[0][0][-1] == 0.0
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(results[0][1], results[1][1], strict=True))


@pytest.mark.parametrize(("head", "recurrence"), RECURRENT_HEADS)
def test_cuda_graph_is_captured_once_per_shape_without_host_reads(head, recurrence):
    """A captured update equals a plain one."""
    results, captures = [], []
    options = {"ent_coef": 0.05, "ent_coef_end": 0.0, "lr_schedule": "linear", "grad_accum_steps": 2}
    for captured in (False, True):
        model = model_of(head=head, recurrence=recurrence)
        buffer, trainer = rollout_of(model), trainer_of(model, tbptt_chunk_length=9, **options)
        if captured:
            capture_by(trainer, capturing(captures))
        for progress in (0.0, 0.5):
            trainer.set_progress(progress)
            metrics = trainer.update(buffer, model.initial_state(N))
            buffer.compute_gae(buffer.next_value.clone(), buffer.next_done.clone(), 0.99, 0.95)
        results.append((metrics["loss"], metrics["entropy"], weights_of(model)))
    assert len(captures) == 2, "chunks of nine steps and a shorter last one"
    assert results[0][:2] == pytest.approx(results[1][:2], abs=1e-5)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(results[0][2], results[1][2], strict=True))


def test_captured_nonfinite_loss_is_skipped():
    model = model_of()
    buffer, before = rollout_of(model), weights_of(model)
    buffer.advantages.fill_(float("nan"))
    trainer = trainer_of(model, nonfinite_policy="skip", update_epochs=1)
    capture_by(trainer, capturing([]))
    assert trainer.update(buffer, model.initial_state(N))["nonfinite"] == 3
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


class HostReads(TorchDispatchMode):
    """Counts reads of device values by Python."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        HostReads.count += func in READS
        return func(*args, **(kwargs or {}))


def test_collection_step_reads_at_most_three_device_values(small_run):
    with collected(small_run()) as session:
        session.collector.parts.opponents = None  # drawing one is arithmetic on the host
        HostReads.count = 0
        with HostReads():
            session.collector.collect()
    assert 0 < HostReads.count <= 3 * session.config.ppo.rollout_steps


def test_rewards_and_dones_are_gathered_without_conversion(small_run, monkeypatch):
    with Session(small_run(), None, FakeEnv) as session:
        env, buffer, collector = session.env, session.buffer, session.collector
        collector.reset()
        for name in ("tolist", "numpy", "item"):
            monkeypatch.setattr(torch.Tensor, name, lambda *_: pytest.fail("a tensor was converted"))
        env.results.rewards.copy_(torch.arange(env.results.rewards.numel()).view_as(env.results.rewards))
        env.results.over[::3] = True
        monkeypatch.setattr(env.episodes, "pop", list)
        collector.parts.opponents = None
        collector.actor.store(buffer.row(3))
        collector.steps.note_ends(3)
        assert torch.equal(buffer.rewards[3], env.rows.agent.float())
        assert torch.equal(collector.actor.next_done, (env.rows.env % 3 == 0).float())


def test_peak_memory_stays_flat_after_first_updates(small_run):
    _, events = run(small_run(max_updates=16, total_steps=10**6))
    peaks = [event.peak_memory_mb for event in of(events, EventUpdate)]
    assert len(peaks) == 16 and peaks[-1] - peaks[5] < 3.0, "within the allocator's slack"


def move(buffer, device: str) -> None:
    for name, value in vars(buffer).items():
        if torch.is_tensor(value):
            setattr(buffer, name, value.to(device))


@pytest.mark.gpu
@CUDA
def test_optimizer_state_moves_to_device():
    model = model_of()
    trainer = trainer_of(model)
    trainer.update(rollout_of(model), model.initial_state(N))
    moved = model_of().to("cuda")
    other = PPOTrainer(moved, PPOConfig(), "cuda")
    other.load_state_dict(trainer.state_dict())
    state = [v for s in other.optimizer.state.values() for v in s.values() if torch.is_tensor(v) and v.dim()]
    assert state and all(v.is_cuda for v in state)
    assert other.return_normalizer.mean.is_cuda


@pytest.mark.gpu
@CUDA
def test_cuda_update_matches_cpu_captured_and_eager():
    losses = {}
    for device, capture in (("cpu", False), ("cuda", False), ("cuda", True)):
        model = model_of()
        buffer = rollout_of(model)
        model.to(device)
        move(buffer, device)
        options = PPOConfig(tbptt_chunk_length=8, num_minibatches=1, update_epochs=2, ent_coef=0.0, capture=capture)
        trainer = PPOTrainer(model, options, device)
        assert device == "cpu" or (trainer.minibatch_update._graphs is not None) == capture
        losses[device, capture] = trainer.update(buffer, model.initial_state(N))["loss"]
    assert [*losses.values()] == pytest.approx([losses["cpu", False]] * 3, abs=1e-3)
