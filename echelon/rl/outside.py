"""Policies that are no network of Echelon: ONNX models, and agents that are programs of any language.

Both are files wherever a policy is one: ``onnx:FILE`` is the model itself, ``process:CMD`` a small file that names the
command, in the folder ``agents`` of the runs. A copy of such a file runs only where its user has named the command.
Shapes: N row, D observation column, A action, H recurrent state.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import weakref
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from echelon.actions import ACTION_DIM, ACTION_NAMES, CHANCES
from echelon.agent_files import named_agent
from echelon.config import PACK_SIZE, EnvConfig
from echelon.config.presets import PRESETS
from echelon.env.layout import columns
from echelon.rl.agent_process import AgentTeams
from echelon.rl.build import FlatPolicy
from echelon.rl.checkpoint import env_config_of
from echelon.rl.lstm_state import LSTMState
from echelon.rl.obs_norm import ObsNormalizer
from echelon.state_files import open_regular

ONNX_BYTE = b"\x08"
"""First byte of a model; the ninth of a safetensors file that begins so is a brace."""
MAX_BYTES = 1 << 30
"""Largest model that is read."""
GAME = "quickstart"
"""Preset whose game agents and models without a description play."""
INPUTS, OUTPUTS = ("obs", "h", "c", "done"), ("action", "next_h", "next_c")
"""Names of the tensors of a model; all but the observations and the actions may be missing."""
META = "echelon"
"""Property of a model with the description of its policy as JSON."""


class OutsidePolicy(FlatPolicy):
    """What matches ask of a policy, for one without weights: it has no value and cannot be trained."""

    core: Any = None
    described: Mapping[str, Any] = {}
    """Metadata that its file has."""

    def __init__(self, obs_dim: int, width: int) -> None:
        nn.Module.__init__(self)
        self.obs_dim, self.lstm_hidden_dim, self.noise_dim, self.action_dim = obs_dim, width, 0, ACTION_DIM
        self.obs_normalizer = ObsNormalizer(obs_dim)
        self.eval()

    def _apply(self, fn: Any, recurse: bool = True) -> OutsidePolicy:
        """Stay on the CPU."""
        return self

    def initial_state(self, batch_size: int, device: torch.device | str | None = None) -> LSTMState:
        """Return a zero state ``[1, N, H]``."""
        return LSTMState(*torch.zeros(2, 1, batch_size, self.lstm_hidden_dim, device=device))

    def estimate(self, obs: Any, lstm_state: LSTMState, done: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return values ``[N]`` and probabilities of choices ``[N, C]``, which are unknown: zeros."""
        return obs.new_zeros(len(obs)), obs.new_zeros(len(obs), len(CHANCES))


class OnnxPolicy(OutsidePolicy):
    """A policy that ONNX Runtime computes, row by row of any number."""

    def __init__(self, data: bytes, name: str) -> None:
        """``ValueError`` for a model whose tensors are not those of ``INPUTS`` and ``OUTPUTS``."""
        runtime = optional_package("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        try:
            session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ValueError(f"{name!r} is not an ONNX model: {str(error).splitlines()[0]}") from None
        shapes = {tensor.name: tensor.shape for tensor in session.get_inputs()}
        have = tuple(tensor.name for tensor in session.get_outputs())
        fits = {"obs"} <= shapes.keys() <= set(INPUTS) and "action" in have and ("h" in shapes) == ("next_h" in have)
        if not fits:
            raise ValueError(
                f"model {name!r} has inputs {', '.join(shapes)} and outputs {', '.join(have)}, "
                f"expected obs and action, and for a memory {', '.join(INPUTS[1:])} and {', '.join(OUTPUTS[1:])}"
            )
        super().__init__(int(shapes["obs"][-1]), int(shapes["h"][-1]) if "h" in shapes else 0)
        self.described = json.loads(session.get_modelmeta().custom_metadata_map.get(META, "{}"))
        self._session, self._inputs, self._outputs = session, list(shapes), [n for n in OUTPUTS if n in have]

    def act(
        self, observations: Tensor, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[N, A]`` and the next state of observations ``[N, D]``; ``done [N]`` of 1 resets it."""
        given = (observations, *state, observations.new_zeros(len(observations)) if done is None else done)
        feed = {n: x.float().cpu().numpy() for n, x in zip(INPUTS, given, strict=True) if n in self._inputs}
        found = dict(zip(self._outputs, self._session.run(self._outputs, feed), strict=True))
        action, h, c = (torch.from_numpy(found[n]).to(observations) if n in found else None for n in OUTPUTS)
        assert action is not None
        return action, LSTMState(state.h if h is None else h, state.c if c is None else c)


class ProcessPolicy(OutsidePolicy):
    """A program that flies packs of five; the state of a row is the number of its pack and its place there."""

    def __init__(self, command: str, folder: str, env: EnvConfig) -> None:
        names = [column.name for column in columns(env)]
        super().__init__(len(names), 1)
        game = {"columns": names, "actions": list(ACTION_NAMES), "mechs": PACK_SIZE, "step_s": env.dt_act}
        self.packs = AgentTeams(command=command, folder=folder, game=game, num_actions=ACTION_DIM)
        self.lost = torch.zeros(0, dtype=torch.bool)
        """Rows ``[N]`` of the last call that a scripted pilot has to fly."""
        weakref.finalize(self, self.packs.close)

    def act(
        self, observations: Tensor, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return actions ``[N, A]`` and the next state of observations ``[N, D]``; ``done [N]`` of 1 starts a match.

        Rows that start one are those of whole packs, one after another; ``ValueError`` for others.
        """
        numbers, places = (part[0, :, 0].cpu().numpy().astype(np.int64) for part in state)
        starts = numbers == 0 if done is None else (numbers == 0) | (done.cpu().numpy() != 0)
        if count := int(starts.sum()):
            if count % PACK_SIZE:
                raise ValueError(f"an agent flies packs of {PACK_SIZE} mechs, got {count} mechs")
            numbers[starts] = np.repeat(self.packs.begin(count // PACK_SIZE), PACK_SIZE)
            places[starts] = np.arange(count) % PACK_SIZE
        rows = {int(number): np.flatnonzero(numbers == number) for number in np.unique(numbers)}
        values = observations.float().cpu().numpy()
        actions = np.zeros((len(values), self.action_dim), np.float32)
        given = {number: (places[at].tolist(), values[at]) for number, at in rows.items()}
        for number, action in self.packs.act(given).items():
            actions[rows[number]] = action
        self.lost = torch.from_numpy(np.isin(numbers, list(self.packs.lost))).to(observations.device)
        h, c = (torch.from_numpy(part).to(observations).reshape(1, -1, 1) for part in (numbers, places))
        return torch.from_numpy(actions).to(observations), LSTMState(h, c)


def read_outside(path: Path) -> tuple[OutsidePolicy, dict[str, Any]] | None:
    """Return the policy of a model or of an agent's file; None for a file that is neither.

    ``ValueError`` for a model that cannot be used, and for a command that its user has not named.
    """
    with open_regular(path) as file:
        head = file.read(9)
        if head[:1] not in (b"{", ONNX_BYTE) or head[8:] == b"{":
            return None
        data = head + file.read(MAX_BYTES)
    env, digest = PRESETS[GAME]().env, hashlib.sha256(data).hexdigest()[:16]
    if head[:1] == ONNX_BYTE:
        policy: OutsidePolicy = OnnxPolicy(data, path.name)
        meta = {"name": path.stem, **policy.described}
        env = env_config_of(meta) if "env_cfg" in meta else env
    else:
        agent = named_agent(data, path)
        policy, meta = ProcessPolicy(agent["agent"], agent["folder"], env), {"name": agent["agent"]}
    own = {"kind": "outside", "obs_dim": policy.obs_dim, "action_dim": policy.action_dim, "env_cfg": asdict(env)}
    return policy, {"update": 0, **meta, **own, "id": digest}


def optional_package(name: str) -> Any:
    """Return a package of the extra ``onnx``; ``ValueError`` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"package {name!r} is not installed; try pip install 'echelon[onnx]'") from None
