"""Export a policy as one file that runs without Echelon: TorchScript or ONNX.

The file computes one step: observations ``[B, D]``, recurrent state ``h`` and ``c`` ``[1, B, H]`` and ``done [B]`` (1
starts an episode) go in, the mean actions ``[B, A]`` and the next state come out; the observation normalizer is
included. Every export is compared with its policy before it is written, atomically.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from echelon.files import write_output
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.regime import EXPORTED, sharing_weights
from echelon.rl.weights import LoadedPolicy

INPUTS = ("obs", "h", "c", "done")
OUTPUTS = ("action", "next_h", "next_c")
BATCH = "batch"
META = "echelon.json"
TRACED_ROWS = 3
CHECKED_STEPS, CHECKED_ROWS = 6, 5
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
        difference = largest_difference(step, read(data), loaded.policy)
    if not difference <= TOLERANCE:
        raise ValueError(f"{kind} export differs from its policy by {difference:.2g}, expected at most {TOLERANCE:g}")
    # torch's own writer ends the process where the disk is full
    write_output(target, data)
    return difference


def description(loaded: LoadedPolicy) -> dict[str, Any]:
    names = (
        "id", "kind", "update", "global_step", "comm_width", "map_width", "extra_width", "env_cfg",
    )  # fmt: skip
    sizes = {name: getattr(loaded.policy, name) for name in ("obs_dim", "action_dim", "lstm_hidden_dim")}
    return {**sizes, **{name: loaded.meta[name] for name in names if name in loaded.meta}}


@torch.no_grad()
def largest_difference(first: Step, second: Step, policy: FlatPolicy) -> float:
    """Return the largest difference of two steps on the same random observations, episode starts included."""
    generator = torch.Generator().manual_seed(0)
    h, c = torch.zeros(2, 1, CHECKED_ROWS, policy.lstm_hidden_dim)
    other_h, other_c, worst = h, c, 0.0
    for step in range(CHECKED_STEPS):
        obs = torch.rand(CHECKED_ROWS, policy.obs_dim, generator=generator).round(decimals=1)
        done = torch.zeros(CHECKED_ROWS)
        done[step % CHECKED_ROWS] = float(step > 1)
        action, h, c = first(obs, h, c, done)
        again, other_h, other_c = second(obs, other_h, other_c, done)
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
    onnx = _import("onnx")
    _import("onnxscript")
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
    onnx.helper.set_model_props(model, {"echelon": json.dumps(meta)})
    return model.SerializeToString()


def read_onnx(data: bytes) -> Step:
    """Return the step of an ONNX model, run by ONNX Runtime if installed, else by the reference evaluator."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]

        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    except ImportError:
        session = _import("onnx.reference").ReferenceEvaluator(data)

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


def _import(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"package {name!r} is not installed; try pip install 'echelon[onnx]'") from None


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
