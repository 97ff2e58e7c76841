"""Kernels of a CUDA device against plain torch, and the resources that they need on one.

Tests with the mark ``kernels`` run on a GPU. Elsewhere one test runs them in a process that interprets Triton on the
CPU, which must be chosen before Triton is loaded; it multiplies no bfloat16, so float16 takes its place.
"""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from importlib.metadata import version
from importlib.util import find_spec
from unittest import mock

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from echelon.config import ModelConfig
from echelon.rl.build import build_model
from echelon.rl.deepset import Compacted, DeepSetEncoder, EntityRows
from echelon.rl.lstm_state import LSTMState
from echelon.rl.recurrent import MinGRU, scan_stepwise
from echelon.rl.regime import CUDA, set_regime
from echelon.rl.traced_policy import PolicyStack

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE, LOW = ("cpu", torch.float16) if INTERPRETED else ("cuda", torch.bfloat16)
KERNELS = CUDA._replace(encoder="device", scan="device")
pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
kernels = pytest.mark.skipif(False, reason="") if INTERPRETED else pytest.mark.gpu
STACK_BYTES, SHARED_BYTES = 128, 227 * 1024
"""Registers of a thread that may lie in memory [B], and the most that a block has on an H100 [B]."""
examples = settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate])


def sets_of(sets: int, slots: int, width: int, share: float) -> tuple[torch.Tensor, torch.Tensor, EntityRows]:
    """Return a padded tensor of entities, 1 for those that are real, and the same entities in rows with some to spare.

    What is not real is not a number.
    """
    torch.manual_seed(0)
    entities, real = torch.randn(sets, slots, width), torch.rand(sets, slots) < share
    at = Compacted.of(real, sets * slots + 7)
    rows = entities[at.sets.clamp_min(0), at.slots % slots]
    rows[at.sets < 0], entities[~real] = torch.nan, torch.nan
    moved = EntityRows(rows.to(DEVICE), *(part.to(DEVICE) for part in at))
    return entities.to(DEVICE), real.float().to(DEVICE), moved


def results(encoder: DeepSetEncoder, entities, mask, slots: int, low: torch.dtype | None) -> list[torch.Tensor]:
    with torch.autocast(DEVICE, low, enabled=low is not None):
        parts = [part for part in encoder.encode_with_keys(entities, mask, slots) if part is not None]
    torch.manual_seed(1)
    weights = [torch.randn(x.shape).to(DEVICE) for x in parts]
    used = [weight for name, weight in encoder.named_parameters() if slots or not name.startswith("key")]
    return [*parts, *torch.autograd.grad(parts, used, weights)]


def errors(got: list[torch.Tensor], expected: list[torch.Tensor]) -> list[float]:
    """Return the norm of each difference as a share of what is expected; not a number where that is."""
    pairs = [(mine.float() - plain, plain) for mine, plain in zip(got, expected, strict=True)]
    return [float(difference.norm().detach() / plain.norm().detach().clamp_min(1e-12)) for difference, plain in pairs]


@kernels
@examples
@given(
    sets=st.integers(1, 70), slots=st.integers(1, 9), width=st.integers(1, 40), hidden=st.sampled_from([16, 32, 64]),
    key_slots=st.integers(0, 4), share=st.sampled_from([0.0, 0.3, 1.0]), packed=st.booleans(),
    mode=st.sampled_from(["mean", "sum"]),
)  # fmt: skip
def test_encoded_sets_and_their_gradients_equal_those_of_plain_torch(
    sets, slots, width, hidden, key_slots, share, packed, mode
):
    entities, real, rows = sets_of(sets, slots, width, share)
    encoder = DeepSetEncoder(width, hidden, 8, mode, 16).to(DEVICE)
    inputs = (rows if packed else entities, 1.0 - real, min(key_slots, slots))
    set_regime(encoder, CUDA)
    expected = results(encoder, entities, *inputs[1:], None)
    low = errors(results(encoder, entities, *inputs[1:], LOW), expected)
    set_regime(encoder, KERNELS)
    with mock.patch("echelon.rl.device_kernels.encode_rows", side_effect=AssertionError), pytest.raises(AssertionError):
        results(encoder, *inputs, LOW)
    with mock.patch("echelon.rl.device_kernels.PROGRAMS", 3):
        mine = errors(results(encoder, *inputs, LOW), expected)
    # a rectifier whose input is nearly 0 flips in low precision
    assert all(own <= 1.5 * plain + 0.01 for own, plain in zip(mine, low, strict=True))
    if INTERPRETED:
        with mock.patch("echelon.rl.device_kernels.encodes", return_value=True):
            assert max(errors(results(encoder, *inputs, None), expected)) < 1e-5


@kernels
def test_a_set_is_encoded_alone_as_among_others():
    entities, real, _ = sets_of(40, 6, 33, 0.6)
    encoder = DeepSetEncoder(33, 128, 8, key_dim=16).to(DEVICE)
    set_regime(encoder, KERNELS)
    whole = results(encoder, entities, 1.0 - real, 3, LOW)
    for row in (0, 31, 32, 39):
        alone = results(encoder, entities[row : row + 1], 1.0 - real[row : row + 1], 3, LOW)
        assert max(errors(alone[:2], [part[row : row + 1] for part in whole[:2]])) < 1e-3


@kernels
def test_weights_that_are_not_numbers_show_in_encoding_and_keys():
    entities, real, rows = sets_of(4, 3, 5, 1.0)
    encoder = DeepSetEncoder(5, 16, 8, key_dim=16).to(DEVICE)
    set_regime(encoder, KERNELS)
    with torch.no_grad():
        encoder.phi[0].weight[0, 0] = torch.nan
        with torch.autocast(DEVICE, LOW):
            assert all(part.isnan().all() for part in encoder.encode_with_keys(rows, 1.0 - real, 3))


@kernels
@examples
@given(
    steps=st.integers(1, 9), sequences=st.integers(1, 40), hidden=st.sampled_from([1, 7, 32]),
    kept=st.sampled_from([0.0, 0.7, 1.0]), low=st.booleans(),
)  # fmt: skip
def test_scan_and_its_gradient_equal_the_stepwise_ones(steps, sequences, hidden, kept, low):
    from echelon.rl import device_kernels

    torch.manual_seed(0)
    gates = (6.0 * torch.randn(steps, sequences, 3 * hidden)).to(DEVICE, LOW if low else torch.float32)
    keep = (torch.rand(steps, sequences, 1) < kept).float().to(DEVICE)
    memory, weights = torch.randn(sequences, hidden).to(DEVICE), torch.randn(steps + 1, sequences, hidden).to(DEVICE)
    found = []
    for run, given_gates in ((device_kernels.scan, gates), (scan_stepwise, gates.float())):
        inputs = given_gates.requires_grad_(), memory.requires_grad_()
        parts = run(inputs[0], keep, inputs[1])
        found.append([*parts, *torch.autograd.grad(parts, inputs, (weights[1:], weights[0]))])
        with torch.no_grad():
            for acting, learning in zip(run(inputs[0], keep, inputs[1]), parts, strict=True):
                assert torch.equal(acting, learning)
    assert found[0][2].dtype == gates.dtype
    for got, plain in zip(*found, strict=True):
        tolerance = 1e-2 if got.dtype == LOW else 1e-5
        torch.testing.assert_close(got.float(), plain, rtol=tolerance, atol=tolerance)


@kernels
def test_mingru_chunk_equals_its_steps_and_forgets_at_episode_starts():
    torch.manual_seed(0)
    gru, x, dones = MinGRU(5, 6).to(DEVICE), torch.randn(8, 3, 5).to(DEVICE), torch.zeros(8, 3).to(DEVICE)
    dones[3] = 1
    set_regime(gru, KERNELS)
    full, empty = (LSTMState(*torch.full((2, 1, 3, 6), value).to(DEVICE)) for value in (1e30, 0.0))
    whole, end = gru(x, dones, full)
    state = empty
    for step in range(3, 8):
        y, state = gru.step(x[step], state)
        torch.testing.assert_close(y, whole[step])
    torch.testing.assert_close(state.h, end.h)
    assert not end.c.any()


@kernels
def test_stacked_policies_act_as_each_alone():
    config = ModelConfig(kind="classic", hidden_dim=4, lstm_hidden_dim=16, recurrence="mingru")
    policies = [build_model(config, 5, 3).to(DEVICE) for _ in range(2)]
    obs, (state, done) = torch.randn(2, 4, 5).to(DEVICE), (policies[0].initial_state(4), torch.zeros(2, 4).to(DEVICE))
    for policy in policies:
        set_regime(policy, KERNELS)
    stacked = LSTMState(*(part.expand(2, *part.shape) for part in state))
    actions, _ = PolicyStack(policies).act(obs, stacked, done, None)
    for own, policy, seen in zip(actions, policies, obs, strict=True):
        torch.testing.assert_close(own, policy.act(seen, state, done[0])[0])


@pytest.mark.skipif(not INTERPRETED, reason="pretends to be several devices")
@pytest.mark.parametrize(("capability", "operations"), [((8, 0), ["scan"]), ((9, 0), ["scan", "encoder"])])
def test_operations_of_a_device_depend_on_its_capability(capability, operations, monkeypatch):
    from echelon.rl import device_kernels

    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert device_kernels.operations_on(torch.device("cpu")) == operations


@pytest.mark.gpu
def test_a_captured_graph_encodes_what_its_inputs_hold_now():
    entities, real, _ = sets_of(50, 6, 33, 0.6)
    encoder = DeepSetEncoder(33, 128, 8, key_dim=16).to(DEVICE)
    set_regime(encoder, KERNELS)
    results(encoder, entities, 1.0 - real, 3, LOW)
    graph = torch.cuda.CUDAGraph()
    held = torch.zeros_like(entities)
    with torch.cuda.graph(graph), torch.no_grad(), torch.autocast(DEVICE, LOW):
        out = encoder(held, 1.0 - real)
    held.copy_(entities)
    graph.replay()
    assert max(errors([out], results(encoder, entities, 1.0 - real, 3, LOW)[:1])) < 1e-6


@pytest.mark.long
@pytest.mark.skipif(
    INTERPRETED or (find_spec("triton") and version("triton") < "3.7"),
    reason="runs the others; older ones refuse NumPy 2.4",
)
def test_interpreted_kernels_pass_the_tests_of_a_gpu():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not gpu", __file__]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and "\n8 passed, " in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.skipif(INTERPRETED, reason="compiles")
@pytest.mark.parametrize(
    "architecture", [pytest.param(90, marks=pytest.mark.long), pytest.param(100, marks=pytest.mark.slow)]
)
def test_kernels_compile_for_a_gpu_within_its_registers_and_shared_memory(architecture, tmp_path):
    env = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.rl.compiled_kernels", str(architecture)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found = {row["kernel"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert found.keys() == {"_scan", "_scan_gradient", "_encode", "_encode_gradient"}
    for row in found.values():
        assert row["stack_bytes"] <= STACK_BYTES and row["shared_bytes"] <= SHARED_BYTES, row
    assert all(found[name]["tensor_cores"] for name in ("_encode", "_encode_gradient"))
