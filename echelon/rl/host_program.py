"""A policy as native programs on a CPU: its layers, activations and operations; and the program that acts.

Torch starts hundreds of small operations for a policy, and between them threads wait for the interpreter lock. A
program of ``echelon.rl.host_kernels`` has them all, with addresses of weights and activations that stay where they are,
so that a forward pass, or one with its gradient, is one call. ``echelon.training.ppo.host.program`` adds the loss. The
modules of the policy are the oracle.

Shapes: ``B or R row, D column, A action, H recurrent state, W noise``.
"""

import ctypes
import itertools
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from echelon.actions import TARGET_DIM
from echelon.env.layout import MAX_CONTACTS, MAX_SQUAD
from echelon.rl.build import FlatPolicy
from echelon.rl.deepset import DeepSetEncoder
from echelon.rl.host_kernels import BLOCK, LANES, Operation, run, scratch_width, table_of
from echelon.rl.lstm_state import LSTMState
from echelon.rl.obs_norm import OBS_CLIP
from echelon.rl.packed_obs import packing
from echelon.rl.suite_model import HOSTILE, CombatSuiteActorCritic

MOST_COLUMNS = 64
"""Columns of an action that the header has room for."""
FLOAT, INDEX = 4, 8
"""Bytes of a number and of an index."""
ACTING_ROWS = 160
"""Rows of a step that a thread computes at once, where there are enough: threads hold no lock meanwhile."""
MOST_ENTITIES = {"contacts": MAX_CONTACTS, "squad": MAX_SQUAD}


VERSION = attrgetter("_version")
ADDRESSES = ("numbers", "switches", "choices", "selectors_at", "draws", "codes")
COUNTS = ("columns", "width", "numbers_", "switches_", "selectors", "key_width")
"""What the header's Layout has, in its order."""


class _Layout(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ADDRESSES] + [(name, ctypes.c_int32) for name in COUNTS]


def _padded(width: int) -> int:
    return -(-width // LANES) * LANES


def _apart(width: int) -> int:
    """Return a distance of rows: as far apart as a power of two, they share few places of a processor's cache."""
    return width if width % 128 else width + LANES


def has_program(policy: nn.Module) -> bool:
    """Return whether programs can evaluate ``policy``: a suite model with a MinGRU and a hybrid head, on a CPU."""
    core = policy.core if isinstance(policy, FlatPolicy) else None
    if type(core) is not CombatSuiteActorCritic or core.mingru is None or not core.memory or not core.target_key_dim:
        return False
    widths = (core.hidden_dim, core.lstm_hidden_dim, core.target_key_dim)
    plain = all(p.dtype == torch.float32 for p in policy.parameters()) and core.regime.native
    return plain and core.action_dim <= MOST_COLUMNS and all(width % LANES == 0 for width in widths)


class Matrix(NamedTuple):
    """A matrix of rows: the address of the first and the distance of two, in numbers; below 0 it has one block's."""

    at: int
    stride: int

    def columns(self, first: int) -> "Matrix":
        return Matrix(self.at + FLOAT * first, self.stride)


class Pair(NamedTuple):
    """Activations and their gradients."""

    values: Matrix
    slopes: Matrix

    def columns(self, first: int) -> "Pair":
        return Pair(self.values.columns(first), self.slopes.columns(first))


class Late(NamedTuple):
    """An argument that is set for each run: a number or an address."""

    name: str


class Linears(NamedTuple):
    """Linear layers side by side, as products read them, and where their gradients lie among all."""

    depth: int
    width: int
    weight: Tensor
    """[depth, width], both padded like the others"""
    bias: Tensor
    turned: Tensor
    """[width, depth]"""
    slopes: int
    bias_slopes: int


class Weights:
    """Copies of a policy's weights as products read them, and the order of their gradients; all programs share them."""

    def __init__(self) -> None:
        self._targets: list[Tensor] = []
        self._sources: list[Tensor] = []
        self._views: dict[Tensor, tuple[Sequence[int], Sequence[int], int]] = {}
        self._versions: list[int] = []
        self.size = 0
        """Numbers of a gradient."""

    def refresh(self) -> None:
        """Copy the weights of the policy, if any has changed in place."""
        versions = list(map(VERSION, self._views))
        if versions != self._versions:
            with torch.no_grad():
                torch._foreach_copy_(self._targets, self._sources)  # pyright: ignore[reportPrivateImportUsage]
            self._versions = versions

    def gradient(self, flat: Tensor, parameters: Sequence[Tensor], unused: Collection[Tensor]) -> list[Tensor | None]:
        """Return the parts of a gradient ``flat [size]`` in the shapes of ``parameters``; None for ``unused`` ones."""
        left_out = set(map(id, unused))
        return [None if id(p) in left_out else flat.as_strided(*self._views[p]) for p in parameters]

    def vector(self, parameter: Tensor) -> tuple[Tensor, int]:
        """Return a copy of ``parameter [K]``, and where its gradient lies."""
        return self._copy(parameter, torch.empty(len(parameter))), self._slopes(parameter, (1,))

    def matrix(self, parameter: Tensor, *, turned: bool) -> tuple[Tensor, Tensor, int]:
        """Return copies of ``parameter [K, D]``, transposed and not, and where its gradient lies, maybe ``turned``."""
        height, width = parameter.shape
        copies = (
            self._copy(parameter.t(), torch.empty(width, height)),
            self._copy(parameter, torch.empty(height, width)),
        )
        return *copies, self._slopes(parameter, (1, height) if turned else (width, 1))

    def layer(self, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Linears:
        """Return layers of the same input as one: their ``weights [K, depth]`` and ``biases [K]``."""
        depth, width = weights[0].shape[1], _padded(sum(map(len, weights)))
        matrices = (torch.zeros(depth, _apart(width)), torch.zeros(width, _apart(_padded(depth))))
        tensors = matrices[0], torch.zeros(width), matrices[1]
        layer = Linears(depth, width, *tensors, self.size, self.size + depth * width)
        first = 0
        for weight, bias in zip(weights, biases, strict=True):
            part = slice(first, first + len(weight))
            self._copy(weight.t(), layer.weight[:, part])
            self._copy(bias, layer.bias[part])
            self._copy(weight, layer.turned[part, :depth])
            self._views[weight] = (weight.shape, (1, width), layer.slopes + first)
            self._views[bias] = (bias.shape, (1,), layer.bias_slopes + first)
            first = part.stop
        self.size = layer.bias_slopes + width
        return layer

    def _copy(self, source: Tensor, target: Tensor) -> Tensor:
        self._sources.append(source.detach())
        self._targets.append(target)
        return target

    def _slopes(self, parameter: Tensor, strides: Sequence[int]) -> int:
        at = self.size
        self._views[parameter] = (parameter.shape, strides, at)
        self.size += parameter.numel()
        return at


class Network:
    """The layers of a policy as ``Weights`` has them; it does not keep the policy itself."""

    def __init__(self, policy: FlatPolicy) -> None:
        core: Any = policy.core
        self.core, self.weights = core, Weights()
        self.scale, self.shift = policy.obs_normalizer.scale, policy.obs_normalizer.shift
        self._made: dict[nn.Module, Any] = {}
        layers = (core.actor_mean, core.actor_logstd_head, core.critic, core.selectors)
        biases = [core.actor_mean.bias, core.actor_logstd, core.critic.bias, core.selectors.bias]
        self.heads = self.weights.layer([layer.weight for layer in layers], biases)
        self.sets = {"contacts": core.encoder.contact_encoder, "squad": core.encoder.squad_encoder}
        for encoder in self.sets.values():
            first, second = encoder.phi[0], encoder.phi[3]
            self._made[first] = self.weights.matrix(first.weight, turned=True), self.weights.vector(first.bias)
            self._made[second] = self.weights.matrix(second.weight, turned=False), self.weights.vector(second.bias)
            if encoder.key_dim:
                self._made[encoder.key] = self.weights.matrix(encoder.key.weight, turned=False)
        for module in core.modules():
            if isinstance(module, nn.LayerNorm):
                self._made[module] = self.weights.vector(module.weight), self.weights.vector(module.bias)
            elif isinstance(module, nn.Linear) and module not in (*layers, *self._made):
                self._made[module] = self.weights.layer([module.weight], [module.bias])
        self.features = {name: encoder.phi[0].in_features for name, encoder in self.sets.items()}
        self.packing = packing(policy.obs_dim)
        self.widths = {name: sum(span.width for span in spans) for name, spans in self.packing.vectors.items()}
        """Columns of the parts of an observation that have no slots."""

    def __getitem__(self, module: nn.Module) -> Any:
        return self._made[module]

    @property
    def log_std_max(self) -> Tensor:
        assert self.core.log_std_max is not None, "a hybrid head has a bound"
        return self.core.log_std_max


def operation(kind: Operation, *arguments: Any) -> list[Any]:
    """Return an operation of a program: its number, its length and its arguments, matrices as two numbers."""
    flat: list[Any] = []
    for x in arguments:
        flat += x if isinstance(x, Matrix) else [x]
    return [kind, len(flat) + 2, *flat]


class Program:
    """Activations of at most ``rows`` rows, and the operations that compute them."""

    keeps: ClassVar[bool] = True
    """Activations are kept for a gradient."""

    def __init__(self, network: Network, rows: int) -> None:
        self.rows, self._network = rows, network
        self._kept: list[Any] = []
        self._forward: list[Any] = []
        self._backward: list[Any] = []
        self.slopes = torch.empty(network.weights.size)
        self._sets = {name: self._entities(name, width) for name, width in network.features.items()}

    def _finish(self, *parts: list[Any]) -> None:
        """Make a program of ``parts``, each of which is run for all rows before the next."""
        whole = [x for part in parts for x in part]
        self._late = [(i, x.name) for i, x in enumerate(whole) if isinstance(x, Late)]
        self._table = table_of([0 if isinstance(x, Late) else x for x in whole])
        ends = [ctypes.addressof(self._table) + INDEX * n for n in itertools.accumulate(map(len, parts), initial=0)]
        self._parts = table_of([x for pair in itertools.pairwise(ends) for x in pair])

    def _run(self, rows: int, late: Mapping[str, int]) -> None:
        """Compute ``rows`` rows, given the arguments that are set late."""
        for place, name in self._late:
            self._table[place] = late[name]
        run(Operation.ROWS, ctypes.addressof(self._parts), len(self._parts) // 2, rows)

    def _fuse(self, inputs: Pair) -> tuple[Pair, Pair]:
        """Add the encoders of all parts of an observation and their fusion; return its outputs and the targets' keys.

        ``inputs`` are the columns of all parts that have no slots.
        """
        encoder, widths = self._network.core.encoder, self._network.widths
        ends = dict(zip(widths, itertools.accumulate(widths.values()), strict=True))
        joined = self._pair(_padded(encoder.fusion[0].in_features))
        keys = self._dense_pair(TARGET_DIM * self._network.core.target_key_dim)
        at = 0
        for name, sets in self._network.sets.items():
            total, hidden = self._dense_pair(sets.rho[0].in_features), self._pair(sets.rho[0].out_features)
            self._encode_sets(name, sets, total, keys if sets.key_dim else None)
            self._linear(total, sets.rho[0], hidden, rectifies=True, wants=True)
            self._linear(hidden, sets.rho[2], joined.columns(at), wants=True)
            at += sets.output_dim
        ego = self._pair(encoder.ego_encoder[0].out_features)
        self._linear(inputs, encoder.ego_encoder[0], ego)
        self._norm(ego, encoder.ego_encoder[1], joined.columns(at))
        at += encoder.ego_encoder[0].out_features
        for name in ("suite_descriptor", "panel_stats"):
            part = inputs.values.columns(ends[name] - widths[name]), 0, widths[name]
            self._forward += operation(Operation.GATHER, *part, joined.columns(at).values)
            at += widths[name]
        tail = ends["panel_stats"]
        encoders = (encoder.map_encoder, encoder.extras_encoder)
        for layers, width in zip(encoders, encoder.tail_widths, strict=True):
            linears = [layer for layer in layers or () if isinstance(layer, nn.Linear)]
            x = inputs.columns(tail)
            for i, layer in enumerate(linears):
                y = joined.columns(at) if layer is linears[-1] else self._pair(layer.out_features)
                self._linear(x, layer, y, rectifies=True, wants=i > 0)
                x = y
            at += linears[-1].out_features if linears else 0
            tail += width
        x = joined
        for i in (0, 3):
            z, y = (self._pair(encoder.fusion[i].out_features) for _ in range(2))
            self._linear(x, encoder.fusion[i], z, wants=True)
            self._norm(z, encoder.fusion[i + 1], y)
            x = y
        return x, keys

    def _linear(
        self, x: Pair, layer: nn.Module | Linears, y: Pair, *, rectifies: bool = False, wants: bool = False
    ) -> None:
        """Add a linear layer; ``wants``: the gradient of ``x`` is computed too."""
        own = layer if isinstance(layer, Linears) else self._network[layer]
        slopes, turned = (x.slopes, _padded(own.depth)) if wants else (Matrix(0, 0), 0)
        given = x.values, own.depth
        self._forward += operation(
            Operation.LINEAR, *given, own.weight, own.weight.shape[1], own.bias, y.values, own.width, rectifies
        )
        back = (*given, y.values, rectifies, y.slopes, own.width, own.turned, own.turned.shape[1], slopes, turned)
        gradient = self._at(own.slopes, own.bias_slopes)
        self._backward = operation(Operation.LINEAR_GRADIENT, *back, *gradient) + self._backward

    def _norm(self, z: Pair, norm: nn.Module, y: Pair) -> None:
        """Add a norm of ``z``, which is normalized in place, and a rectifier."""
        (gain, gain_at), (bias, bias_at) = self._network[norm]
        inverse, width = self._floats(1), len(gain)
        self._forward += operation(Operation.NORM, z.values, z.values, inverse, gain, bias, y.values, width)
        back = (y.slopes, y.values, z.values, inverse, gain, z.slopes, *self._at(gain_at, bias_at), width)
        self._backward = operation(Operation.NORM_GRADIENT, *back) + self._backward

    def _encode_sets(self, name: str, sets: DeepSetEncoder, total: Pair, keys: Pair | None) -> None:
        *source, starts = self._sets[name]
        phi: Any = sets.phi
        first, norm, _, second, _ = phi
        (first_turned, _, first_at), (first_bias, first_bias_at) = self._network[first]
        (gain, gain_at), (norm_bias, norm_bias_at) = self._network[norm]
        (second_turned, second_plain, second_at), (second_bias, second_bias_at) = self._network[second]
        key_turned, key_plain, key_at = self._network[sets.key] if keys else (0, 0, 0)
        features, hidden, entities = first.in_features, first.out_features, MOST_ENTITIES[name]
        scratch = self._buffer(scratch_width(features, hidden, sets.key_dim))
        kept = [self._floats(entities * width) if self.keeps else 0 for width in (hidden, 1, hidden)]
        weights = (first_turned, first_bias, gain, norm_bias)
        sizes = hidden, TARGET_DIM if keys else 0, sets.key_dim, sets.aggregation == "mean", scratch, *kept
        outputs = [(total.values.at, keys.values.at if keys else 0), (total.slopes.at, keys.slopes.at if keys else 0)]
        forward = (*source, *weights, second_turned, second_bias, key_turned, *sizes, *outputs[0], starts)
        self._forward += operation(Operation.SETS, *forward)
        gradient = self._at(first_at, first_bias_at, gain_at, norm_bias_at, second_at, second_bias_at, key_at)
        back = (*source, *weights, second_plain, second_bias, key_plain, *sizes, *outputs[1], starts, *gradient)
        self._backward = operation(Operation.SETS_GRADIENT, *back) + self._backward

    def _entities(self, name: str, features: int) -> tuple[Any, ...]:
        """Return where a kind of entity lies: features, slots, offsets, chosen sets, width, and starts of the sets."""
        late = (Late(f"{name}.{part}") for part in ("features", "slots", "offsets"))
        return *late, Late("rows"), features, self._floats(2)

    def _layout(self) -> tuple[_Layout, int, int]:
        """Return where heads and actions have their parts, and the widths of a decoded action and a decoded label."""
        distribution = self._network.core.distribution
        selectors = distribution.layout.selectors
        kinds = (distribution.gaussian, distribution.switches)
        numbers, switches = ([c for run in runs for c in range(*run)] for runs in kinds)
        spans = [x for selector in selectors for x in (selector.start, len(selector.codes[0]))]
        codes = [x for selector in selectors for code in selector.codes for x in code]
        choices = [len(selector.codes) for selector in selectors]
        tables = [self._keep(torch.tensor(x)) for x in (numbers, switches, choices, spans, distribution.draws, codes)]
        counts = (distribution.action_dim, self._network.heads.width, *map(len, (numbers, switches, choices)))
        discrete = len(switches) + len(choices)
        layout = _Layout(*tables, *counts, self._network.core.target_key_dim)
        return layout, len(numbers) + discrete + 1, len(numbers) + discrete

    def _hostile(self) -> int:
        hostile = self._floats(TARGET_DIM)
        self._forward += operation(Operation.HOSTILE, *self._sets["contacts"][:-1], HOSTILE, TARGET_DIM, hostile)
        return hostile

    def _taken(self) -> tuple[list[Any], list[Any]]:
        """Return and forget the operations added so far, forward and backward."""
        taken = self._forward, self._backward
        self._forward, self._backward = [], []
        return taken

    def _pair(self, width: int) -> Pair:
        """Return activations of ``width`` numbers for each row, if they are kept, and gradients of a block."""
        stride = _apart(width)
        slopes = Matrix(self._buffer(BLOCK * stride), -stride)
        kept = Matrix(self._floats(stride), stride) if self.keeps else Matrix(self._buffer(BLOCK * stride), -stride)
        return Pair(kept, slopes)

    def _whole_pair(self, width: int) -> Pair:
        """Return activations and gradients for each row."""
        return Pair(*(Matrix(self._floats(_apart(width)), _apart(width)) for _ in range(2)))

    def _dense_pair(self, width: int) -> Pair:
        return Pair(*(Matrix(self._floats(width), width) for _ in range(2)))

    def _floats(self, width: int) -> int:
        """Return the address of a new matrix with a row of ``width`` numbers for each row."""
        return self._buffer(self.rows * width)

    def _buffer(self, count: int) -> int:
        return self._keep(torch.empty(count))

    def _keep(self, x: Any) -> int:
        """Return the address of what lives as long as the program."""
        self._kept.append(x)
        return x.data_ptr() if isinstance(x, Tensor) else ctypes.addressof(x)

    def _at(self, *places: int) -> list[int]:
        return [self.slopes.data_ptr() + FLOAT * place for place in places]


class ActingProgram(Program):
    """A step of the policy: observations as the environment writes them to actions."""

    keeps: ClassVar[bool] = False

    def __init__(self, network: Network, rows: int) -> None:
        super().__init__(network, rows)
        width = network.core.lstm_hidden_dim
        normal = network.scale, network.shift, int(OBS_CLIP)
        at, counts = Late("at"), list[Any]()
        observed = Late("obs"), Late("obs.stride"), at
        for name, entities in network.packing.entities.items():
            features, slots, offsets = self._sets[name][:3]
            mask = network.packing.masks[name]
            blocks = self._keep(torch.tensor([x for span, own in entities for x in (span.first, own)]))
            given = (*observed, mask.first, mask.width)
            counts += operation(Operation.OFFSETS, *given, offsets)
            packs = (*given, blocks, len(entities), *normal, offsets, features, slots)
            self._forward += operation(Operation.PACK, *packs)
        spans = [x for part in network.packing.vectors.values() for span in part for x in (span.first, span.width)]
        inputs = self._pair(sum(network.widths.values()))
        source = (*observed, self._keep(torch.tensor(spans)), len(spans) // 2, *normal)
        self._forward += operation(Operation.NORMALIZE, *source, inputs.values)
        memory = Matrix(self._floats(width), width)
        self._forward += operation(Operation.GATHER, Late("memory"), Late("memory.stride"), at, width, memory)
        fused, keys = self._fuse(inputs)
        gates, recurrent = self._whole_pair(3 * width), self._whole_pair(width)
        heads = self._dense_pair(network.heads.width)
        self._linear(fused, network.core.mingru.layers[0], gates)
        encode, _ = self._taken()
        steps = gates.values.at, Late("keep"), memory.at, 0, 0, 1, Late("count"), width
        strides = gates.values.stride, recurrent.values.stride
        self._linear(recurrent, network.heads, heads)
        hostile, layout = self._hostile(), self._keep(self._layout()[0])
        noise = Late("noise"), Late("noise.stride")
        least = self._keep(torch.tensor(network.core.log_std_min))
        given = (layout, network.log_std_max, heads.values.at, keys.values.at, hostile, *noise)
        self._forward += operation(Operation.ACT, *given, *map(Late, ("action", "logprob", "value")), at, least)
        after = Matrix(self._floats(width), width)
        self._forward += operation(Operation.SCATTER, Late("after"), Late("after.stride"), at, width, after)
        act, _ = self._taken()
        recur = operation(Operation.STEPS, *steps, *strides, recurrent.values.at, after.at)
        self._own = {"keep": self._keep(torch.ones(rows)), "logprob": self._floats(1), "value": self._floats(1)}
        self._finish(counts, encode, recur, act)

    def run(self, rows: Tensor, **tensors: Tensor | None) -> None:
        """Compute the rows ``rows [B]`` of observations ``obs [N, D]``, ``memory`` ``[N, H]`` and ``noise`` ``[N, W]``.

        Actions and the next memory are written to the same rows of ``action [N, A]`` and ``after [N, H]``; ``keep``,
        ``logprob`` and ``value`` are ``[B]`` and may be left out.
        """
        given = {name: x for name, x in tensors.items() if x is not None}
        strides = {f"{name}.stride": x.stride(0) for name, x in given.items()}
        addresses = {name: x.data_ptr() for name, x in given.items()}
        late = {"noise": 0, "noise.stride": 0, "count": len(rows), "at": rows.data_ptr()}
        self._run(len(rows), self._own | late | strides | addresses)

    def _entities(self, name: str, features: int) -> tuple[Any, ...]:
        most, every = MOST_ENTITIES[name], self._keep(torch.arange(self.rows))
        places = self._floats(most * features), self._floats(most), self._buffer(2 * (self.rows + 1))
        return *places, every, features, self._floats(2)


class HostPolicy:
    """The steps of a policy by programs, in as many threads as call at the same time; weights may change in place."""

    def __init__(self, policy: FlatPolicy) -> None:
        self._network, self._takes_mean = Network(policy), policy.takes_mean
        self._free: list[ActingProgram] = []

    def sample(
        self, obs: Tensor, state: LSTMState, done: Tensor, noise: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, LSTMState]:
        """Return what ``FlatPolicy.sample`` returns; without ``noise [B, W]`` the action is the likeliest."""
        core, rows = self._network.core, len(obs)
        action, after = torch.empty(rows, core.action_dim), torch.empty(rows, core.lstm_hidden_dim)
        logprob, value = torch.empty(rows), torch.empty(rows)
        outputs = {"action": action, "logprob": logprob, "value": value, "after": after}
        self._run(torch.arange(rows), obs, noise, memory=_as_rows(state.h[0]), keep=1.0 - done.float(), **outputs)
        return action, logprob, value, LSTMState(after.unsqueeze(0), torch.zeros_like(state.c))

    def __call__(
        self, obs: Tensor, state: LSTMState, done: Tensor | None = None, noise: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Return what ``FlatPolicy.act`` returns for ``obs [B, D]``."""
        noise, done = None if self._takes_mean else noise, obs.new_zeros(len(obs)) if done is None else done
        action, _, _, after = self.sample(obs, state, done, noise)
        return action, after

    def act_in(self, rows: Tensor, obs: Tensor, memory: Tensor, noise: Tensor | None, action: Tensor) -> None:
        """Write the actions of the rows ``rows [B]`` of ``obs [N, D]`` to ``action [N, A]``; renew their ``memory``.

        The ``memory [N, H]`` of a row is 0 where its episode starts.
        """
        self._run(rows, obs, noise, memory=memory, action=action, after=memory)

    def _run(self, rows: Tensor, obs: Tensor, noise: Tensor | None, **tensors: Tensor) -> None:
        self._network.weights.refresh()
        program = self._free.pop() if self._free else None
        if program is None or program.rows < len(rows):
            program = ActingProgram(self._network, len(rows))
        program.run(rows, obs=_as_rows(obs), noise=None if noise is None else _as_rows(noise), **tensors)
        self._free.append(program)


def _as_rows(x: Tensor) -> Tensor:
    """Return ``x [N, K]`` as operations read it: float32, the numbers of a row one after another."""
    return (x if x.stride(1) == 1 else x.contiguous()).float()
