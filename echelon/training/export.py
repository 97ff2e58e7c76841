"""Export a policy as one file that runs without Echelon: TorchScript or ONNX.

The file computes one step: observations ``[B, D]``, recurrent state ``h`` and ``c`` ``[1, B, H]`` and ``done [B]`` (1
starts an episode) go in, the mean actions ``[B, A]`` and the next state come out; the observation normalizer is
included. Every export is compared with its policy before it is written, atomically.
"""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from echelon.files import write_output
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.outside import INPUTS, OUTPUTS, optional_package
from echelon.rl.outside import META as PROPERTY
from echelon.rl.regime import EXPORTED, sharing_weights
from echelon.rl.weights import LoadedPolicy
from echelon.training.batched_env import BatchedEnv
from echelon.training.evaluation import DEFAULT_LEVEL, FULL_WEAPON_PROB, ScriptedPolicy, make_eval_env, play_episodes
from echelon.training.policy_agent import env_config_of

BATCH = "batch"
META = "echelon.json"
TRACED_ROWS = 3
CHECKED_STEPS, CHECKED_ROWS, STRIDE, CHECKED_SEED = 16, 10, 8, 0
"""Steps and rows of the comparison, steps of the recorded match from one to the next, and its seed."""
NUDGE = 1e-6
"""Relative change of an observation that switches no action but those on an edge."""
TOLERANCE = 1e-4
"""Largest accepted difference of an action or state over the checked steps."""
OPSET = 18

Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


class PolicyStep(nn.Module):
    """One step of a policy with plain tensors as inputs and outputs."""

    def __init__(self, policy: FlatPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: Tensor, h: Tensor, c: Tensor, done: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean actions ``[B, A]`` and the next state ``[1, B, H]``; ``done [B]`` resets the state first."""
        action, state = self.policy.act(obs, LSTMState(h, c), done)
        return action, state.h, state.c


def export_policy(loaded: LoadedPolicy, target: Path, kind: str) -> float:
    """Write ``loaded`` to ``target`` as ``kind`` (a key of ``FORMATS``) and return its largest difference from it.

    Raises ``ValueError`` if the file computes something else, or if the package that writes it is not installed.
    """
    if kind not in FORMATS:
        raise ValueError(f"export format is {kind!r}, expected one of {', '.join(FORMATS)}")
    write, read = FORMATS[kind]
    step = PolicyStep(sharing_weights(loaded.policy.cpu().float().eval(), EXPORTED))
    with torch.no_grad():
        data = write(step, description(loaded))
        difference = largest_difference(step, read(data), checked_rows(loaded), loaded.policy.lstm_hidden_dim)
    if not difference <= TOLERANCE:
        raise ValueError(f"{kind} export differs from its policy by {difference:.2g}, expected at most {TOLERANCE:g}")
    # torch's own writer ends the process where the disk is full
    write_output(target, data)
    return difference


def description(loaded: LoadedPolicy) -> dict[str, Any]:
    names = ("id", "kind", "update", "global_step", "map_width", "extra_width", "env_cfg")
    sizes = {name: getattr(loaded.policy, name) for name in ("obs_dim", "action_dim", "lstm_hidden_dim")}
    return {**sizes, **{name: loaded.meta[name] for name in names if name in loaded.meta}}


class _Recorder(ScriptedPolicy):
    """A scripted pilot that keeps what it observes."""

    def __init__(self, env: BatchedEnv, level: str | None) -> None:
        super().__init__(env, level)
        self.rows: list[Tensor] = []

    def act(self, obs: Tensor, state: None, done: Any, noise: Any) -> tuple[Tensor, None]:
        self.rows.append(obs.clone())
        return super().act(obs, state, done, noise)


def checked_rows(loaded: LoadedPolicy) -> Tensor:
    """Return observations ``[T, B, D]``: those of a match in the environment of the policy, as they are and with noise.

    The noise moves every column. Without an environment in the metadata only noise is returned.
    """
    rows = torch.zeros(CHECKED_STEPS, CHECKED_ROWS, loaded.policy.obs_dim)
    if "env_cfg" in loaded.meta:
        batch = make_eval_env(env_config_of(loaded.meta), [CHECKED_SEED], weapon_prob=FULL_WEAPON_PROB)
        recorder = _Recorder(batch, DEFAULT_LEVEL)
        play_episodes(cast(FlatPolicy, recorder), batch, CHECKED_STEPS * STRIDE)
        batch.close()
        rows = torch.stack(recorder.rows[::STRIDE])
        rows = rows[:, :: -(-rows.shape[1] // CHECKED_ROWS)]
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))
    return torch.cat([rows, rows + noise], 1)


@torch.no_grad()
def largest_difference(first: Step, second: Step, rows: Tensor, width: int) -> float:
    """Return the largest difference of two steps on ``rows [T, B, D]``, episode starts included; ``width`` of a state.

    Actions that the smallest change of their observation switches are not compared.
    """
    h, c = torch.zeros(2, 1, rows.shape[1], width)
    other_h, other_c, worst = h, c, 0.0
    for step, obs in enumerate(rows):
        done = torch.zeros(len(obs))
        done[step % len(obs)] = float(step > 1)
        nudged = first(obs * (1.0 + NUDGE), h, c, done)[0]
        action, h, c = first(obs, h, c, done)
        again, other_h, other_c = second(obs, other_h, other_c, done)
        again = torch.where((action - nudged).abs() <= TOLERANCE, again, action)
        pairs = ((action, again), (h, other_h), (c, other_c))
        worst = max([worst, *(float((a - b).abs().max()) for a, b in pairs)])
    return worst


def example(policy: FlatPolicy) -> tuple[Tensor, ...]:
    state = torch.zeros(1, TRACED_ROWS, policy.lstm_hidden_dim)
    return torch.zeros(TRACED_ROWS, policy.obs_dim), state, state.clone(), torch.zeros(TRACED_ROWS)


def write_torchscript(step: PolicyStep, meta: dict[str, Any]) -> bytes:
    """Return a TorchScript archive with its metadata in ``echelon.json``."""
    data = io.BytesIO()
    with _quiet():
        traced = torch.jit.trace(step, example(step.policy), check_trace=False)
        torch.jit.save(traced, data, _extra_files={META: json.dumps(meta)})
    return data.getvalue()


def read_torchscript(data: bytes) -> Step:
    """Return the step of a TorchScript archive."""
    with _quiet():
        return torch.jit.load(io.BytesIO(data), map_location="cpu")


def write_onnx(step: PolicyStep, meta: dict[str, Any]) -> bytes:
    """Return an ONNX model with a dynamic batch size and its metadata in the model properties."""
    onnx = optional_package("onnx")
    optional_package("onnxscript")
    batch = torch.export.Dim(BATCH, min=1)
    shapes = {"obs": {0: batch}, "h": {1: batch}, "c": {1: batch}, "done": {0: batch}}
    with _quiet():
        program = torch.onnx.export(
            step,
            example(step.policy),
            dynamo=True,
            input_names=INPUTS,
            output_names=OUTPUTS,
            dynamic_shapes=shapes,
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    onnx.helper.set_model_props(model, {PROPERTY: json.dumps(meta)})
    return model.SerializeToString()


def read_onnx(data: bytes) -> Step:
    """Return the step of an ONNX model, run by ONNX Runtime if installed, else by the reference evaluator."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]

        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    except ImportError:
        session = optional_package("onnx.reference").ReferenceEvaluator(data)

    def step(*inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        feed = {name: tensor.numpy() for name, tensor in zip(INPUTS, inputs, strict=True)}
        action, h, c = (torch.from_numpy(array) for array in session.run(list(OUTPUTS), feed))
        return action, h, c

    return step


FORMATS: dict[str, tuple[Callable[[PolicyStep, dict[str, Any]], bytes], Callable[[bytes], Step]]] = {
    "torchscript": (write_torchscript, read_torchscript),
    "onnx": (write_onnx, read_onnx),
}
"""Writer and reader of each format."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings and output of the exporters."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
