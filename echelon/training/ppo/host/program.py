"""Terms and gradients of the minibatches of a policy that has programs; ``losses.Gradients`` is the oracle.

Shapes: ``L chunk step, B sequence, R row of a micro-batch, N row of the rollout, A action``.
"""

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from echelon.config import PPOConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.host_kernels import Operation
from echelon.rl.host_program import FLOAT, INDEX, Late, Network, Pair, Program, has_program, operation
from echelon.rl.packed_obs import PackedRollout, PackedRows
from echelon.training.ppo.losses import Coefficients, Gradient, LossTerms
from echelon.training.rollout import Minibatch, RolloutBuffer, micro_batch_slices
from echelon.training.runtime.threads import ThreadPool

STEP_FIELDS = ("advantages", "returns", "old_logprobs", "policy_weights", "value_weights")
"""Fields of a minibatch that a program reads by step."""
LOSS = (*Coefficients._fields, "log_std_min", "log_std_max")
TERMS = tuple(name for name in LossTerms._fields if name != "aux_loss")
"""Numbers that a program is given and that it returns, in the order of the header."""


def trains_by_program(policy: nn.Module, config: PPOConfig) -> bool:
    """Return whether programs can train all of ``policy``."""
    plain = not (config.aux_coef or config.compile or config.capture or config.activation_checkpointing)
    return plain and has_program(policy) and all(p.requires_grad for p in policy.parameters())


class _Loss(ctypes.Structure):
    _fields_ = [(name, ctypes.c_float) for name in LOSS]


class _Terms(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in TERMS]


class LossProgram(Program):
    """Terms and gradient of the rows of a micro-batch."""

    def __init__(self, network: Network, rows: int) -> None:
        super().__init__(network, rows)
        self.terms, self.loss = _Terms(), _Loss()
        width, columns = network.core.lstm_hidden_dim, sum(network.widths.values())
        starts = [x for parts in self._sets.values() for x in operation(Operation.ENTITY_STARTS, *parts)]
        inputs = self._pair(columns)
        self._forward += operation(Operation.GATHER, Late("columns"), columns, Late("rows"), columns, inputs.values)
        fused, keys = self._fuse(inputs)
        gates = self._whole_pair(3 * width)
        self._linear(fused, network.core.mingru.layers[0], gates, wants=True)
        encode, encode_gradient = self._taken()

        recurrent, heads, after = self._whole_pair(width), self._dense_pair(network.heads.width), self._floats(width)
        late = map(Late, ("keep", "memory", "row_of", "first", "steps", "sequences"))
        steps = gates.values.at, *late, width, gates.values.stride, recurrent.values.stride
        self._linear(recurrent, network.heads, heads, wants=True)
        self._score(heads, keys)
        score, score_gradient = self._taken()
        self._finish(
            starts,
            encode,
            operation(Operation.STEPS, *steps, recurrent.values.at, after),
            score + score_gradient,
            operation(Operation.STEPS_GRADIENT, *steps, after, recurrent.slopes.at, gates.slopes.at),
            encode_gradient,
        )

    def run(self, rows: int, late: Mapping[str, int], loss: Sequence[float]) -> None:
        """Compute terms and gradient of ``rows`` rows, given the arguments that are set late and those of the loss."""
        self.slopes.zero_()
        for name, x in zip(LOSS, loss, strict=True):
            setattr(self.loss, name, x)
        ctypes.memset(ctypes.addressof(self.terms), 0, ctypes.sizeof(self.terms))
        self._run(rows, late)

    def _score(self, heads: Pair, keys: Pair) -> None:
        layout, own, taught = self._layout()
        hostile = self._hostile()
        tables = self._keep(layout), ctypes.addressof(self.loss)
        outputs = heads.values.at, keys.values.at, hostile, heads.slopes.at, keys.slopes.at
        data = map(Late, ("noise", "advantages", "returns", "old_logprobs", "policy_weights", "value_weights"))
        actions = Late("actions"), own, Late("labels"), taught
        given = Late("steps_of"), Late("rows"), *actions, *data, ctypes.addressof(self.terms)
        self._forward += operation(Operation.SCORE, *tables, *outputs, *given)


class ProgramGradients:
    """Terms and gradients of the minibatches of one rollout after another, on the threads of a pool."""

    def __init__(self, policy: FlatPolicy, pool: ThreadPool, coefficients: Callable[[], Coefficients]) -> None:
        self._core, self._network, self._pool, self._coefficients = policy.core, Network(policy), pool, coefficients
        self._free: list[LossProgram] = []
        """As many programs as threads, so that few activations fill the cache."""

    def begin(self, packed: PackedRollout, buffer: RolloutBuffer) -> None:
        """Prepare for the minibatches of a rollout."""
        coefficients = self._coefficients()
        self._imitates = bool(coefficients.imitates)
        self._loss = (*coefficients, self._core.log_std_min, float(self._network.log_std_max))
        distribution, labels = self._core.distribution, buffer.labels
        self._inputs = {"columns": packed.columns, "actions": distribution.decoded(buffer.actions)}
        self._labels = None if labels is None else distribution.decoded_labels(labels)
        for name, kind in packed.kinds.items():
            self._inputs |= {f"{name}.{field}": getattr(kind, field) for field in ("features", "slots", "offsets")}

    def minibatch(self, batch: Minibatch, parameters: Sequence[Tensor]) -> tuple[LossTerms, Gradient | None]:
        """Return terms and the gradient of each of ``parameters [...]``, None if the loss is not finite."""
        assert isinstance(batch.obs, PackedRows), "programs read packed rollouts"
        self._network.weights.refresh()
        length, sequences = batch.dones.shape
        alive = torch.ones(sequences, length, dtype=torch.bool) if batch.alive is None else batch.alive.t()
        sequence, step = alive.nonzero(as_tuple=True)
        order = alive.flatten().cumsum(0).view(sequences, length)
        steps_of = step * sequences + sequence
        tensors = self._inputs | {
            "steps_of": steps_of,
            "rows": batch.obs.index.flatten()[steps_of],
            "keep": (1.0 - batch.dones.t()).contiguous(),
            "memory": batch.state.h.contiguous(),
            "row_of": torch.where(alive, order - 1, -1).contiguous(),
            "noise": batch.noise.contiguous(),
            **{name: getattr(batch, name).contiguous() for name in STEP_FIELDS},
        }
        if batch.labels is not None and self._labels is not None:
            tensors["labels"] = self._labels
        shared = {"labels": 0, "steps": length} | {name: x.data_ptr() for name, x in tensors.items()}
        slices = micro_batch_slices(length, sequences, by_program=True)
        edges = [0, *order[[part.stop - 1 for part in slices], -1].tolist()]
        most = max(end - first for first, end in itertools.pairwise(edges))
        if not self._free or self._free[0].rows < most:
            self._free = [LossProgram(self._network, most + most // 4) for _ in range(self._pool.threads)]
        gradients = torch.empty(len(slices), self._network.weights.size)
        terms = torch.empty(len(slices), len(TERMS), dtype=torch.float64)

        def compute(i: int) -> None:
            part, first, late = slices[i], edges[i], dict(shared)
            late |= {"first": first, "sequences": part.stop - part.start}
            for name in ("steps_of", "rows"):
                late[name] += INDEX * first
            late["row_of"] += INDEX * length * part.start
            late["keep"] += FLOAT * length * part.start
            late["memory"] += FLOAT * self._core.lstm_hidden_dim * part.start
            program = self._free.pop()
            program.run(edges[i + 1] - first, late, self._loss)
            gradients[i], terms[i] = program.slopes, torch.frombuffer(program.terms, dtype=torch.float64)
            self._free.append(program)

        self._pool.map(compute, range(len(slices)))
        unused = (self._core.actor_logstd, self._core.actor_logstd_head.weight) if self._imitates else ()
        gradient = self._network.weights.gradient(gradients.sum(0), parameters, unused)
        own = dict(zip(TERMS, terms.sum(0).float(), strict=True))
        return LossTerms(**own, aux_loss=torch.tensor(0.0)), gradient if bool(own["loss"].isfinite()) else None
