"""Collection: play a rollout with the current policy, straight from environment tensors into the rollout buffer.

The environment writes observations into their row of the buffer, actions go into the environment's own tensor, so a
step costs one forward pass and a few copies of ``[N]`` vectors. No Python runs per environment. ``host.steps`` and
``graph.steps`` play a step; both call ``choose``, ``store`` and ``note_boundaries`` of the ``Actor``.

Shapes: ``T step, N learner row, D observation, A action, H recurrent state``.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from echelon.training.opponents.runner import OpponentRunner
from echelon.training.ppo.actor import Actor, copy_state
from echelon.training.ppo.teacher import Teaching, environments_of_learner
from echelon.training.ppo.value_attack import ValueAttack
from echelon.training.rollout import ChunkStates, RolloutBuffer, chunk_length, chunk_spans

LEARNER_BEGAN = "learner_began"
"""Key of the environments in a checkpoint whose running episode is the learner's from its first step."""
DEAD_RETURNS = "dead_returns"
DEAD_DECAY = 0.9
"""Share of the sums over steps of dead mechs that the next rollout keeps."""


@dataclass
class EndedEpisodes:
    """Episodes that ended; results of those in which a teacher acted say nothing about the learner."""

    count: int = 0
    """All of them."""
    records: list[Any] = field(default_factory=list)
    """Those in which the learner acted from the first step."""
    opponents: list[str] = field(default_factory=list)
    """The opponent of each record."""


class CollectedEpisodes:
    """Collects the records of ended episodes."""

    def __init__(self, num_envs: int) -> None:
        self._learner_acts = [True] * num_envs
        self.learner_began = [True] * num_envs
        """Whether the learner has acted in the running episode of each environment from its first step."""
        self._ended = EndedEpisodes()

    def set_learner_acts(self, learner_acts: Sequence[bool]) -> None:
        """Set the environments in which the learner acts from now on."""
        self._learner_acts = list(learner_acts)
        self.learner_began = [began and acts for began, acts in zip(self.learner_began, learner_acts, strict=True)]

    def reset(self) -> None:
        self.learner_began = list(self._learner_acts)

    def add(self, ended: Sequence[Any], opponents: Sequence[str], unrecorded: int = 0) -> None:
        """Add records of ended episodes, in order of time, where the learner acted throughout, and their opponents.

        ``unrecorded`` more have ended.
        """
        own: list[int] = []
        for i, record in enumerate(ended):
            if self.learner_began[record.env]:
                own.append(i)
            self.learner_began[record.env] = self._learner_acts[record.env]
        self._ended.count += len(ended) + unrecorded
        self._ended.records += [ended[i] for i in own]
        self._ended.opponents += [opponents[i] for i in own]

    def take(self) -> EndedEpisodes:
        taken, self._ended = self._ended, EndedEpisodes()
        return taken


@dataclass
class CollectTimes:
    """Duration of the parts of one collection [s]; on a device ``env_s`` has the learner's forward pass too."""

    env_s: float = 0.0
    forward_s: float = 0.0
    all_s: float = 0.0
    """With the values of the last observations."""


@dataclass
class RolloutParts:
    """What plays a rollout and what it is written to."""

    actor: Actor
    buffer: RolloutBuffer
    episodes: CollectedEpisodes
    opponents: OpponentRunner | None = None
    truncation_bootstraps: bool = True
    """Whether the value of the final observation is added to the reward of a truncated mech."""
    attack: ValueAttack | None = None

    def store_central(self, row: int | Tensor) -> None:
        """Store the true state before step ``row``, a number or ``[1]``, which is not read, where a critic reads it."""
        if self.buffer.central is not None:
            self.buffer.central[row] = self.actor.env.rows.central()


class Steps(Protocol):
    """How the steps of a rollout are played."""

    def begin(self) -> None: ...

    def play(self, t: int, times: CollectTimes) -> None:
        """Play step t and add to ``times``."""

    def end(self) -> None: ...

    def clear(self) -> None:
        """Drop captured graphs."""


class CollectionAborted(RuntimeError):
    """The collection was aborted half way; the rollout is unusable."""


class Collector:
    """Fills the rollout buffer, from one rollout to the next."""

    def __init__(self, parts: RolloutParts, steps: Steps, first_env: int = 0) -> None:
        """``first_env`` is the index of the first environment among those of all ranks."""
        self.parts, self.steps, self.first_env = parts, steps, first_env
        self.actor, self.buffer, self.episodes = parts.actor, parts.buffer, parts.episodes
        actor, buffer = parts.actor, parts.buffer
        self.teaching = Teaching()
        self.learner_share = 1.0
        """Share of learner rows in which the learner acts; the teacher acts in the others."""
        env, policy, config = actor.env, actor.policy, actor.config
        rows = env.rows.count
        self._env_of_row = env.rows.env.cpu()
        length = chunk_length(buffer.num_steps, config.tbptt_chunk_length, config.num_minibatches)
        self.chunk_starts = {first: c for c, (first, _) in enumerate(chunk_spans(buffer.num_steps, length))}
        self.chunk_states = ChunkStates.create(len(self.chunk_starts), rows, policy.lstm_hidden_dim, actor.device)
        self.start_state = policy.initial_state(rows, actor.device)
        """Recurrent state before step 0 of the rollout, [1, N, H]."""
        self._continues = False
        self._dead_returns = torch.zeros(3, device=actor.device)
        """Decayed sums of ``RolloutBuffer.returns_of_dead`` [3]."""
        shape = rows, env.sizes.obs_dim
        assert buffer.obs_rows.shape[1:] == shape, "rollout and environment differ in rows or columns"
        assert buffer.actions.shape[1:] == (rows, env.sizes.action_dim), "rollout and environment differ in actions"
        env.rows.attach(buffer.obs_rows)
        buffer.set_roles(env.rows.roles)
        buffer.team_size = env.rows.team_size

    def set_teaching(self, teaching: Teaching) -> None:
        """Set the teacher's part in the coming rollout: whether it labels, and where the learner acts."""
        if teaching.has_labels != self.teaching.has_labels:
            self.steps.clear()
        self.teaching = teaching
        envs = environments_of_learner(self.actor.env.sizes.num_envs, self.first_env, teaching.learner_share)
        self.episodes.set_learner_acts(envs.tolist())
        rows = envs[self._env_of_row]
        self.learner_share = float(rows.float().mean())
        self._teacher_acts = ~rows.to(self.actor.device)
        self.actor.set_teacher(teaching.has_labels, rows)

    def reset(self) -> None:
        """Start an episode in every environment; observations go to row 0."""
        if self.parts.opponents is not None:
            self.parts.opponents.reset()
        self.actor.env.reset(0)
        self.parts.store_central(0)
        self.actor.reset()
        self.buffer.start_age.zero_()
        self.episodes.reset()
        self._continues = False

    @torch.inference_mode()
    def collect(
        self,
        should_abort: Callable[[], bool] = lambda: False,
        times: CollectTimes | None = None,
        queued: Callable[[], None] = lambda: None,
    ) -> CollectTimes:
        """Fill the rollout except for its advantages, and add to ``times``.

        Raises ``CollectionAborted`` if ``should_abort`` says so. ``queued`` is called when a GPU has all steps to do.
        """
        buffer, times = self.buffer, times or CollectTimes()
        if self._continues:
            buffer.begin()
        else:
            buffer.clear()
        self._continues = True
        copy_state(self.start_state, self.actor.state)
        self.steps.begin()
        for t in range(buffer.num_steps):
            if should_abort():
                raise CollectionAborted(f"collection aborted at step {t}")
            began = time.perf_counter()
            if t in self.chunk_starts:
                self.chunk_states.store(self.chunk_starts[t], self.actor.state)
            self.actor.draw_noise()
            if self.parts.attack is not None:
                self.parts.attack.note(t)
            if self.parts.opponents is not None:
                self.parts.opponents.act()
            times.forward_s += time.perf_counter() - began
            self.steps.play(t, times)
        queued()
        began = time.perf_counter()
        self.steps.end()
        if self.actor.teacher is not None and self.teaching.has_labels:
            self.actor.teacher.relabel(buffer, self._teacher_acts, self.actor.next_done)
        times.env_s += time.perf_counter() - began
        return times

    @torch.no_grad()
    def bootstrap(self, gae_lambda: float) -> None:
        """Complete the rollout: the value of the next observation under the detached state, then advantages."""
        actor = self.actor
        if self.parts.attack is not None:
            self.parts.attack.pay(self.buffer, actor.next_done, actor.config.gamma)
        value = actor.value(self.buffer.obs_rows[-1], actor.state, actor.next_done)
        alive = actor.env.rows.of_mechs(actor.env.results.alive)
        own = self.buffer.returns_of_dead(actor.next_done, actor.config.gamma)
        rewards, discount, steps = self._dead_returns.mul_(DEAD_DECAY).add_(own)
        self.buffer.dead_value.copy_(rewards / (steps - discount).clamp_min(1.0))
        self.buffer.compute_gae(value, actor.next_done, actor.config.gamma, gae_lambda, alive)

    def carry(self) -> dict[str, Tensor]:
        """Return what the next rollout starts from, except for its observation, which a restored environment writes.

        The recurrent state has the precision of observations.
        """
        actor = self.actor
        return {
            "start_age": self.buffer.ages()[-1] + 1,
            "next_done": actor.next_done.clone(),
            DEAD_RETURNS: self._dead_returns.clone(),
            **actor.state.stored(self.buffer.obs_rows.dtype)._asdict(),
            LEARNER_BEGAN: torch.tensor(self.episodes.learner_began),
            **(actor.teacher.carry() if actor.teacher is not None else {}),
        }

    def load_carry(self, carry: dict[str, Tensor]) -> None:
        """Continue from what ``carry`` returned; the environment must have been restored to the same step."""
        actor = self.actor
        self.parts.store_central(0)
        carry = {DEAD_RETURNS: torch.zeros(3), **carry}
        if not carry["c"].numel():
            carry = {**carry, "c": torch.zeros_like(actor.state.c)}
        targets = {
            "start_age": self.buffer.start_age,
            "next_done": actor.next_done,
            DEAD_RETURNS: self._dead_returns,
            "h": actor.state.h,
            "c": actor.state.c,
        }
        for name, target in targets.items():
            if carry[name].shape != target.shape:
                raise ValueError(
                    f"checkpoint tensor {name!r} has shape {tuple(carry[name].shape)}, expected {tuple(target.shape)}"
                )
            target.copy_(carry[name])
        if actor.teacher is not None:
            actor.teacher.load_carry(carry)
        self.episodes.learner_began = carry[LEARNER_BEGAN].tolist()
        self._continues = False
