"""The rollout buffer of one update, and how it is divided into minibatches.

``dones[t] = 1`` means that step t starts an episode: the boundary lies before observation t. ``next_done`` says the
same of the step after the last. A termination is followed by value 0. A truncation (time limit) adds the discounted
value of the final observation as ``truncation_bonus`` and is then a boundary too. A mech's death is no boundary; it
clears ``alive``. Steps of the dead enter no loss, but their rewards reach the steps before the death.

For an update the rollout is divided into chunks (spans of steps whose time order is kept), chunks into units (a chunk
for a drawn set of rows), and units are shuffled into minibatches. Sequences of which no step enters a loss, such as
those of absent mechs, are not evaluated, nor are the steps of the dead in others. A minibatch is evaluated in
micro-batches, which threads work on; their number never changes the result.

Shapes: ``T step, N learner row, D observation, A action, C chunk, H recurrent state, L chunk step, B sequence``.
"""

from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from echelon.rl.action_distribution import discrete_choices
from echelon.rl.lstm_state import LSTMState
from echelon.rl.packed_obs import PackedRollout, PackedRows
from echelon.sim.arsenal import Chassis
from echelon.training.runtime.devices import upload

LONG_ROLLOUT = 1000
"""Number of steps above which advantages are accumulated in float64."""
MAX_MICRO_BATCHES = 8
"""Largest number of micro-batches of a minibatch."""
MICRO_BATCH_ROWS = 1280
"""Steps times sequences of a micro-batch; a minibatch of exactly one is still divided in two."""


PROGRAM_ROWS, MAX_PROGRAM_SLICES = 320, 32
"""The same for micro-batches that native programs compute."""


class Truncation(NamedTuple):
    """Episodes that the time limit ended after one step."""

    step: int
    rows: Tensor
    """Learner rows [K] of these episodes."""
    obs: Tensor
    """Their final observations [K, D]."""


class RolloutRow(NamedTuple):
    """What a rollout stores of one step, without the time axis."""

    obs: Tensor
    actions: Tensor
    logprobs: Tensor
    rewards: Tensor
    dones: Tensor
    values: Tensor
    alive: Tensor
    present: Tensor
    labels: Tensor | None


@dataclass(eq=False)
class RolloutBuffer:
    """Tensors of one rollout, allocated once and overwritten by each collection; float32 ``[T, N]`` unless noted."""

    obs_rows: Tensor
    """Observations [T+1, N, D], float32 or bfloat16; the environment writes row t in place; row T is the one after the
    last step."""
    actions: Tensor
    """[T, N, A]"""
    logprobs: Tensor
    rewards: Tensor
    dones: Tensor
    values: Tensor
    """In raw reward units."""
    advantages: Tensor
    returns: Tensor
    alive: Tensor
    """1 where the mech was alive at the start of the step"""
    present: Tensor
    """1 where the episode has a mech in this row; other rows enter no loss"""
    truncation_bonus: Tensor
    roles: Tensor
    """Mech class id of each row [N] int8, set by ``set_roles``"""
    start_age: Tensor
    """Steps from the episode start to step 0, if step 0 starts none [N]; infinite where unknown"""
    next_done: Tensor
    """[N]"""
    next_value: Tensor
    """[N]"""
    next_alive: Tensor
    """[N]"""
    dead_value: Tensor
    """Value of a dead mech []"""
    team_size: int = 1
    """Neighbouring rows that are a team."""
    updates_behind: int = 0
    """Updates from the weights that played the rollout to those that its update begins with."""
    gae_computed: bool = False
    truncations: list[Truncation] = field(default_factory=list)
    """Where ``truncation_bonus`` comes from, so that it can be revalued."""
    labels: Tensor | None = None
    """Actions of the teacher [T, N, A]; None in a run without one"""
    central: Tensor | None = None
    """True states [T+1, B, S] as the B teams of neighbouring rows view them; None where no critic reads them"""
    role_rows: list[Tensor] = field(default_factory=list)
    """Rows of each mech class, in order of its id"""

    @classmethod
    def create(
        cls,
        num_steps: int,
        num_agents: int,
        obs_dim: int,
        action_dim: int,
        device: torch.device | str = "cpu",
        *,
        has_labels: bool = False,
        obs_dtype: torch.dtype = torch.float32,
    ) -> "RolloutBuffer":
        """Return a zeroed rollout of T = ``num_steps`` steps and N = ``num_agents`` rows."""

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        flat = (num_steps, num_agents)
        names = ("logprobs", "rewards", "dones", "values", "advantages", "returns", "truncation_bonus")
        stored: dict[str, Any] = {name: zeros(*flat) for name in names}
        return cls(
            obs_rows=zeros(num_steps + 1, num_agents, obs_dim, dtype=obs_dtype),
            actions=zeros(*flat, action_dim),
            alive=torch.ones(flat, device=device),
            present=torch.ones(flat, device=device),
            roles=torch.zeros(num_agents, dtype=torch.int8, device=device),
            start_age=torch.full((num_agents,), torch.inf, device=device),
            next_done=zeros(num_agents),
            next_value=zeros(num_agents),
            next_alive=torch.ones(num_agents, device=device),
            dead_value=torch.zeros((), device=device),
            labels=zeros(*flat, action_dim) if has_labels else None,
            **stored,
        )

    def copy_from(self, other: "RolloutBuffer") -> None:
        """Become equal to ``other``, in the same tensors."""
        for item in fields(self):
            own, new = getattr(self, item.name), getattr(other, item.name)
            if isinstance(own, Tensor):
                own.copy_(new)
            else:
                setattr(self, item.name, copy(new))

    def set_roles(self, roles: Tensor) -> None:
        """Set the mech class id of each row ``[N]``."""
        self.roles.copy_(roles)
        self.role_rows = rows_by_role(self.roles)

    def row(self, t: int) -> RolloutRow:
        return RolloutRow(self.obs_rows[t], *(None if x is None else x[t] for x in self._stored()))  # type: ignore[arg-type]

    def new_row(self) -> RolloutRow:
        return RolloutRow(*(None if x is None else torch.zeros_like(x) for x in self.row(0)))  # type: ignore[arg-type]

    def put(self, index: Tensor, row: RolloutRow) -> None:
        """Copy a step, except for its observations, to the step ``index [1]``, which is not read."""
        for target, values in zip(self._stored(), row[1:], strict=True):
            if target is not None and values is not None:
                target.index_copy_(0, index, values.unsqueeze(0))

    def _stored(self) -> tuple[Tensor | None, ...]:
        return tuple(getattr(self, name) for name in RolloutRow._fields[1:])

    @property
    def obs(self) -> Tensor:
        return self.obs_rows[:-1]

    @property
    def num_steps(self) -> int:
        return self.actions.shape[0]

    @property
    def num_agents(self) -> int:
        return self.actions.shape[1]

    def begin(self) -> None:
        """Start the next rollout where the last one ended: its last observation becomes row 0."""
        self.start_age.copy_(self.ages()[-1] + 1)
        self.obs_rows[0].copy_(self.obs_rows[-1])
        if self.central is not None:
            self.central[0].copy_(self.central[-1])
        self.clear()

    def clear(self) -> None:
        """Clear truncations and the advantage flag of the last collection."""
        self.truncation_bonus.zero_()
        self.truncations.clear()
        self.gae_computed = False

    def ages(self) -> Tensor:
        """Return the steps since the start of the episode ``[T, N]``."""
        age, ages = self.start_age, torch.empty_like(self.dones)
        for t in range(self.num_steps):
            age = torch.where(self.dones[t] > 0, 0.0, age)
            ages[t] = age
            age = age + 1
        return ages

    def compute_gae(
        self, next_value: Tensor, next_done: Tensor, gamma: float, gae_lambda: float, next_alive: Tensor | None = None
    ) -> None:
        """Fill ``advantages`` and ``returns`` in place, without gradient (Schulman et al., 2016).

        ``next_value [N]`` is the value of the observation after the last step, ``next_done [N]`` is 1 where an
        episode ended with the last step, ``next_alive [N]`` where the mech is alive after it, by default all. The
        value of a dead mech, who observes nothing, is ``dead_value``.
        """
        assert next_value.shape == next_done.shape == (self.num_agents,), "next_value and next_done must be [N]"
        dtype = torch.float64 if self.num_steps > LONG_ROLLOUT else torch.float32
        with torch.no_grad():
            value, done = next_value.to(dtype), next_done.to(dtype)
            self.next_value.copy_(value)
            self.next_done.copy_(done)
            if next_alive is not None:
                self.next_alive.copy_(next_alive)
            value = torch.where(self.next_alive > 0, value, self.dead_value)
            values = torch.where(self.alive > 0, self.values, self.dead_value).to(dtype)
            bonus = torch.where(self._dead_at_truncation(), gamma * self.dead_value, self.truncation_bonus)
            advantage = torch.zeros_like(value)
            for t in reversed(range(self.num_steps)):
                step_value = values[t]
                reward = self.rewards[t].to(dtype) + bonus[t]
                not_done = 1.0 - done
                delta = reward + gamma * value * not_done - step_value
                advantage = delta + gamma * gae_lambda * not_done * advantage
                self.advantages[t].copy_(advantage)
                value, done = step_value, self.dones[t].to(dtype)
            torch.add(self.advantages, values, out=self.returns)
        self.gae_computed = True

    def returns_of_dead(self, next_done: Tensor, gamma: float) -> Tensor:
        """Return three sums over the steps of dead mechs ``[3]``, given ``next_done`` of ``compute_gae`` ``[N]``.

        They are discounted rewards until episode or rollout ends, the discount of what follows the rollout, and the
        number of steps.
        """
        truncated, dead = self._dead_at_truncation(), self.present * (1.0 - self.alive)
        rewards, discount = torch.zeros_like(next_done), torch.ones_like(next_done)
        sums, done = torch.zeros(2, device=dead.device), next_done
        for t in reversed(range(self.num_steps)):
            rewards = self.rewards[t] + gamma * (1.0 - done) * rewards
            discount = gamma * torch.where(truncated[t], 1.0, (1.0 - done) * discount)
            sums += (dead[t] * torch.stack((rewards, discount))).sum(1)
            done = self.dones[t]
        return torch.cat((sums, dead.sum().unsqueeze(0)))

    def _dead_at_truncation(self) -> Tensor:
        """Return whether a row is of a dead mech [T, N] where its team is truncated."""
        teams = (self.truncation_bonus != 0).unflatten(-1, (-1, self.team_size))
        return teams.any(-1, keepdim=True).expand_as(teams).flatten(-2) & (self.truncation_bonus == 0)

    def require_ready(self) -> None:
        """Raise ``ValueError`` unless advantages and returns were computed or filled in by hand."""
        if not (self.gae_computed or bool(self.advantages.any())):
            raise ValueError("rollout has no advantages and returns; call compute_gae before update")


class Unit(NamedTuple):
    """A chunk for some rows: steps ``first`` to ``end``, excluded."""

    chunk: int
    first: int
    end: int
    rows: Tensor
    """Ascending learner rows [B]."""


@dataclass(frozen=True)
class ChunkStates:
    """Recurrent states at the start of every chunk, ``h`` and ``c`` each ``[C, N, H]``, detached."""

    h: Tensor
    c: Tensor

    @classmethod
    def create(cls, chunks: int, rows: int, hidden: int, device: torch.device | str) -> "ChunkStates":
        shape = (chunks, rows, hidden)
        return cls(torch.zeros(shape, device=device), torch.zeros(shape, device=device))

    def store(self, chunk: int, state: LSTMState) -> None:
        """Copy ``state [1, N, H]`` in as that of ``chunk``."""
        self.h[chunk].copy_(state.h[0])
        self.c[chunk].copy_(state.c[0])

    def of(self, units: list[Unit]) -> LSTMState:
        """Return the state ``[1, B, H]`` of the sequences of ``units``, concatenated."""
        return LSTMState(
            h=torch.cat([self.h[u.chunk].index_select(0, u.rows) for u in units]).unsqueeze(0),
            c=torch.cat([self.c[u.chunk].index_select(0, u.rows) for u in units]).unsqueeze(0),
        )


@dataclass(eq=False)
class Minibatch:
    """Sequences of one minibatch; tensors ``[L, B]`` unless noted."""

    obs: Tensor | PackedRows
    """[L, B, D], or the rows [L, B] of a packed rollout."""
    actions: Tensor
    """[L, B, A]"""
    dones: Tensor
    state: LSTMState
    """Recurrent state before the first step, [1, B, H]."""
    noise: Tensor
    """Standard normal draws of the entropy estimate [L, B, A]."""
    advantages: Tensor
    returns: Tensor
    """On the scale of the value loss."""
    old_logprobs: Tensor
    policy_weights: Tensor
    """Weight of each step in the policy loss; they sum to 1."""
    value_weights: Tensor
    """Weight of each step in the value loss; they sum to 1."""
    rows: Tensor
    """Number of steps in the value loss []; the weight of the minibatch among others and among ranks."""
    labels: Tensor | None = None
    """Actions of the teacher [L, B, A], where they enter the loss."""
    alive: Tensor | None = None
    """Whether each step is evaluated [L, B] bool; None evaluates all."""
    living: Tensor | None = None
    """The flattened steps [K] that the minibatch has, L * B for padding: then only ``dones`` is ``[L, B]``."""


def chunk_length(steps: int, requested: int, num_minibatches: int) -> int:
    """Return the steps per chunk: ``requested``, or the rollout divided by the minibatches if that is 0."""
    return min(steps, requested or max(1, steps // num_minibatches))


def chunk_spans(steps: int, length: int) -> list[tuple[int, int]]:
    """Return first step and end of every chunk; the last may be shorter."""
    return [(first, min(first + length, steps)) for first in range(0, steps, length)]


def plan_minibatches(
    steps: int, rows: int, length: int, num_minibatches: int, *, draws_rows: bool = False
) -> list[list[Unit]]:
    """Return shuffled minibatches of equally long units; torch's CPU generator decides the order.

    With fewer chunks than minibatches each chunk is divided among groups of rows: neighbours, or with ``draws_rows``
    rows drawn at random, again in each call. Units of a shorter last chunk come last, so that ranks, each of which
    shuffles by itself, make equally many minibatches.
    """
    spans = chunk_spans(steps, length)
    groups = min(rows, -(-num_minibatches // len(spans)))
    order = torch.randperm(rows, device="cpu") if draws_rows else torch.arange(rows)
    edges = [rows * g // groups for g in range(groups + 1)]
    members = [order[left:right].sort().values for left, right in zip(edges, edges[1:], strict=False)]
    units = [Unit(chunk, first, end, of) for chunk, (first, end) in enumerate(spans) for of in members]
    per_minibatch = max(1, len(units) // num_minibatches)
    shuffled = [units[i] for i in torch.randperm(len(units), device="cpu").tolist()]
    full_length = [u for u in shuffled if u.end - u.first == length]
    shorter = [u for u in shuffled if u.end - u.first != length]
    return [part[i : i + per_minibatch] for part in (full_length, shorter) for i in range(0, len(part), per_minibatch)]


def upload_plan(plan: list[list[Unit]], device: torch.device) -> list[list[Unit]]:
    units = [unit for part in plan for unit in part]
    rows = upload(torch.cat([unit.rows for unit in units]), device).split([len(unit.rows) for unit in units])
    moved = iter([unit._replace(rows=of) for unit, of in zip(units, rows, strict=True)])
    return [[next(moved) for _ in part] for part in plan]


def gather(source: Tensor, units: list[Unit]) -> Tensor:
    """Return the parts ``[L, B, ...]`` of ``source [T, N, ...]`` that ``units`` name, concatenated."""
    parts = [
        source[u.first : u.end] if len(u.rows) == source.shape[1] else source[u.first : u.end].index_select(1, u.rows)
        for u in units
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def gather_minibatch(
    buffer: RolloutBuffer,
    states: ChunkStates,
    returns: Tensor,
    counted: Tensor,
    units: list[Unit],
    *,
    scored: Tensor | None = None,
    packed: PackedRollout | None = None,
    skips_idle: bool = False,
    has_labels: bool = False,
) -> Minibatch:
    """Return the minibatch of ``units``, with fresh noise.

    ``returns [T, N]`` are on the scale of the value loss; ``counted [T, N]`` is 1 for steps that enter a loss and
    ``scored [T, N]`` for those of them that enter the policy loss, by default all. With ``skips_idle`` sequences
    without a counted step are left out: their weight is 0, so loss and gradient are the same.
    ``packed`` are the observations of the rollout, where its minibatches gather from them.
    With ``has_labels`` the minibatch has the labels of the rollout.
    """
    shape = (units[0].end - units[0].first, sum(len(u.rows) for u in units), buffer.actions.shape[-1])
    noise = torch.randn(shape, device=buffer.actions.device)
    if skips_idle:
        active = gather(counted, units).any(0)
        if not bool(active.all()):
            # a minibatch without any active sequence keeps one, so that ranks stay in step
            active[0] |= ~active.any()
            parts = active.split([len(u.rows) for u in units])
            units = [u._replace(rows=u.rows[part]) for u, part in zip(units, parts, strict=True) if bool(part.any())]
            noise = noise[:, active]
    actions = gather(buffer.actions, units)
    value_weights = gather(counted, units)
    policy_weights = value_weights if scored is None else value_weights * gather(scored, units)
    rows = value_weights.sum()
    return Minibatch(
        obs=gather(buffer.obs, units) if packed is None else PackedRows(packed, gather(packed.index, units)),
        actions=actions,
        dones=gather(buffer.dones, units),
        state=states.of(units),
        noise=noise,
        advantages=gather(buffer.advantages, units),
        returns=gather(returns, units),
        old_logprobs=gather(buffer.logprobs, units),
        policy_weights=policy_weights / policy_weights.sum().clamp_min(1.0),
        value_weights=value_weights / rows.clamp_min(1.0),
        rows=rows,
        labels=gather(buffer.labels, units) if has_labels and buffer.labels is not None else None,
        alive=None if packed is None else gather(buffer.alive, units) > 0,
    )


def micro_batch_slices(length: int, sequences: int, *, by_program: bool = False) -> list[slice]:
    """Return the ranges of sequences that form the micro-batches of a minibatch of ``length`` steps.

    ``by_program``: threads hold no lock while they compute them, so there are more, and an even number.
    """
    rows, most = (PROGRAM_ROWS, MAX_PROGRAM_SLICES) if by_program else (MICRO_BATCH_ROWS, MAX_MICRO_BATCHES)
    full = length * sequences // rows
    if by_program:
        full += full % 2
    count = min(sequences, most, max(full, 2)) if full else 1
    edges = [sequences * m // count for m in range(count + 1)]
    return [slice(left, right) for left, right in zip(edges, edges[1:], strict=False)]


def rows_by_role(roles: Tensor) -> list[Tensor]:
    """Return the rows of each mech class among ``roles [N]``, in order of its id."""
    return [(roles == int(chassis)).nonzero().flatten() for chassis in Chassis]


def rollout_statistics(buffer: RolloutBuffer) -> dict[str, Any]:
    """Return the logged statistics of a rollout, over living mechs: device tensors, not yet copied to the host.

    Call it before advantages are normalized.
    """
    present, alive = buffer.present, buffer.alive
    variance = _variance(buffer.returns, alive, 0)
    residual = _variance(buffer.returns - buffer.values, alive, 0)
    return {
        "explained_variance": torch.where(variance > 0, 1.0 - residual / variance, 0.0),
        "adv_std": _variance(buffer.advantages, alive).sqrt(),
        "value_std": _variance(buffer.values, alive).sqrt(),
        "return_std": _variance(buffer.returns, alive).sqrt(),
        "reward_std": _variance(buffer.rewards, present).sqrt(),
        "dead_share": 1.0 - alive.sum() / present.sum().clamp_min(1.0),
    }


def _variance(x: Tensor, weight: Tensor, correction: int = 1) -> Tensor:
    """Return the variance of the elements of weight 1; 0 for fewer than two."""
    weight = weight.double()
    x, count = torch.where(weight > 0, x.double(), 0.0), weight.sum()
    mean = (x * weight).sum() / count.clamp_min(1.0)
    squares = ((x - mean).square() * weight).sum()
    return torch.where(count > 1, squares / (count - correction).clamp_min(1.0), 0.0)


def agreement(buffer: RolloutBuffer) -> dict[str, Any]:
    """Return in which share of its living steps the learner samples the teacher's choice, by part and their mean.

    They are device tensors, not yet copied to the host.
    """
    assert buffer.labels is not None, "agreement needs labels"
    own, taught = discrete_choices(buffer.actions), discrete_choices(buffer.labels)
    living = buffer.alive * buffer.present
    count = living.sum().clamp_min(1.0)
    by_part = {name: ((own[name] == taught[name]) * living).sum() / count for name in own}
    mean = sum(by_part.values()) / len(by_part) if by_part else float("nan")
    return {"agreement": mean, "agreement_by_part": by_part}
