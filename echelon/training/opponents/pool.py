"""Opponents of the learner: one per environment, sampled when an episode ends; policies act in groups.

An ``OpponentSource`` samples opponents and holds their policies; ``OpponentMix`` is the one without a league: scripted
levels, the champion and snapshots of this run by weight. ``OpponentRunner`` acts for them: it knows each environment's
opponent, resets its recurrent state when its episode ends, and runs one forward pass per distinct policy. Environments
in which both sides learn have no separate opponent and are called ``self``.

Shapes: ``E environment, K opponent row, D observation, A action, H recurrent state``.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.champion import NAME as CHAMPION
from echelon.config import LADDER, OpponentConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.policy import Act
from echelon.rl.policy_stack import PolicyStack
from echelon.rl.traced_policy import TracedPolicies
from echelon.rl.weights import LoadedPolicy, policy_from
from echelon.sim.random import StreamId, draw_u32
from echelon.training.opponents.outcomes import outcome_of
from echelon.training.opponents.priorities import Priorities
from echelon.training.opponents.schedule import OpponentSchedule
from echelon.training.ppo.protocols import BatchedEnv, DeviceEnv
from echelon.training.runtime.precision import mixed_precision
from echelon.training.runtime.thread_pool import ThreadPool
from echelon.training.runtime.transfers import upload

SELF = "self"
"""Name of the opponent where both sides learn."""
SCRIPTED, PAST = "heuristic", "past"
"""Prefixes of opponent names: ``heuristic:medium``, ``past:120``; ``past`` is also a field of ``MixConfig``."""
SCRIPTED_KIND = "scripted"
"""Field of ``MixConfig`` whose level the curriculum may change."""
SEED_OFFSET = 13371
"""Added to the run's seed, so that opponents are sampled from a separate stream."""
LEVELS = ("legacy", *LADDER)


def scripted_name(level: str) -> str:
    """Return the opponent name of a scripted level."""
    return f"{SCRIPTED}:{level}"


def level_of(name: str) -> str | None:
    """Return the level of a scripted opponent, None for a policy."""
    kind, _, level = name.partition(":")
    return level if kind == SCRIPTED else None


class OpponentSource(Protocol):
    """Samples opponents and holds the policies of those that are not scripted."""

    def draw_many(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        """Return the name of the opponent of each episode: its environment and its number there."""
        ...

    def policy(self, name: str) -> FlatPolicy:
        """Return the frozen policy of an opponent."""
        ...

    def is_ready(self, name: str) -> bool:
        """Return whether the policy of an opponent is available; one that is not is never sampled again."""
        ...

    def release(self, in_use: Collection[str]) -> None:
        """Release policies that are neither in the pool nor named in ``in_use``."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class OpponentMix:
    """Scripted levels, the champion and snapshots of this run, sampled by weight."""

    def __init__(
        self,
        cfg: OpponentConfig,
        seed: int,
        make_policy: Callable[[], FlatPolicy],
        champion: LoadedPolicy | None = None,
    ) -> None:
        """``make_policy`` returns a policy of the right shape, whose weights are then loaded.

        ``champion`` is that of the mix, None where it has none.
        """
        self.cfg = cfg
        self.level: str = cfg.skill
        """Level of the opponents sampled as ``scripted``."""
        self.seed = seed + SEED_OFFSET
        self.snapshots: list[str] = []
        """Names of the snapshots in the pool, oldest first."""
        self.ratings: dict[str, float] = {}
        """Elo by snapshot."""
        self._policies: dict[str, FlatPolicy] = {}
        self._make_policy, self._champion = make_policy, champion
        weights = {f.name: float(getattr(cfg.mix, f.name)) for f in fields(cfg.mix)}
        self._weights = {name: w for name, w in weights.items() if w > 0 and name != "self_play"}
        self.priorities = Priorities(cfg.pfsp)

    def draw(self, env: int, episode: int) -> str:
        """Return an opponent sampled by weight, a function of seed, environment, episode, pool and priorities alone."""
        return self.draw_many([(env, episode)])[0]

    def draw_many(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        """Return what ``draw`` returns for every environment and episode."""
        return [self.draw_of_kind(kind, *key) for kind, key in zip(self._kinds(episodes), episodes, strict=True)]

    def kind(self, env: int, episode: int) -> str:
        """Return the kind of the opponent of an episode, a field of ``MixConfig``, whatever the pool contains."""
        return self._kinds([(env, episode)])[0]

    def _kinds(self, episodes: Sequence[tuple[int, int]]) -> list[str]:
        if not episodes:
            return []
        weights = {kind: weight * self._priority(kind) for kind, weight in self._weights.items()}
        return sample_weighted(weights, self._uniform(episodes, 0))

    def draw_of_kind(self, kind: str, env: int, episode: int) -> str:
        """Return the opponent of an episode, of a kind that is a field of ``MixConfig``."""
        if kind != PAST:
            return self._only_of_kind(kind)
        at = self._uniform([(env, episode)], 1)
        if self.priorities.exponent:
            return sample_weighted({name: self.priorities.factor(name) for name in self.snapshots}, at)[0]
        return self.snapshots[int(at[0] * len(self.snapshots))]

    def record_outcomes(self, episodes: Sequence[Any], opponents: Sequence[str]) -> None:
        """Record the outcomes of episodes, ``opponents`` naming the opponent of each."""
        for record, name in zip(episodes, opponents, strict=True):
            if name != SELF:
                self.record_outcome(name, outcome_of(record))

    def record_outcome(self, name: str, outcome: str) -> None:
        """Record the outcome of an episode against an opponent, which its priority follows."""
        self.priorities.record(name, outcome)

    def policy(self, name: str) -> FlatPolicy:
        """Return the frozen policy of a snapshot or of the champion."""
        return self._champion.policy if self._champion and name == CHAMPION else self._policies[name]

    def is_ready(self, name: str) -> bool:
        """Return whether the policy is loaded."""
        return name in self._policies or (self._champion is not None and name == CHAMPION)

    def add(self, policy: FlatPolicy, update: int) -> str:
        """Add a frozen copy of ``policy`` and return its name; beyond ``past_keep`` the pool is thinned evenly."""
        name = f"{PAST}:{update}"
        self._policies[name] = copy.deepcopy(policy).eval().requires_grad_(False)
        self.snapshots = [*(n for n in self.snapshots if n != name), name]
        if len(self.snapshots) > self.cfg.past_keep:
            del self.snapshots[most_redundant([snapshot_update(n) for n in self.snapshots])]
        return name

    def release(self, in_use: Collection[str]) -> None:
        """Release snapshots that are neither in the pool nor in use."""
        for name in [n for n in self._policies if n not in self.snapshots and n not in in_use]:
            del self._policies[name]
            self.ratings.pop(name, None)
            self.priorities.forget(name)

    def rating_opponents(self, count: int) -> list[str]:
        """Return at most ``count`` snapshots of the pool, spread from the oldest to the newest."""
        last = len(self.snapshots) - 1
        if last < count:
            return list(self.snapshots)
        steps = max(1, count - 1)
        return [self.snapshots[round(last * i / steps)] for i in range(count)] if count > 1 else [self.snapshots[-1]]

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as tensors and plain values, weights included."""
        weights = {name: policy.state_dict() for name, policy in self._policies.items()}
        state = {"level": self.level, "kept": list(self.snapshots), "ratings": dict(self.ratings), "weights": weights}
        if self._champion is not None:
            # Echelon may come with another champion by the time the run is resumed
            state["champion"] = {"meta": self._champion.meta, "weights": self._champion.policy.state_dict()}
        return {**state, "win_rates": self.priorities.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.level, self.snapshots, self.ratings = state["level"], list(state["kept"]), dict(state["ratings"])
        self.priorities.load_state_dict(state.get("win_rates", {}))
        self._policies = {}
        for name, weights in state["weights"].items():
            policy = self._make_policy()
            policy.load_state_dict(weights)
            self._policies[name] = policy.eval().requires_grad_(False)
        self._restore_champion(state.get("champion"))

    def _restore_champion(self, saved: Mapping[str, Any] | None) -> None:
        """Take the champion of a checkpoint where it is another one than the current."""
        if saved is None or self._champion is None or saved["meta"].get("id") == self._champion.meta.get("id"):
            return
        device = self._champion.policy.obs_normalizer.scale.device
        with torch.random.fork_rng(devices=[]):
            self._champion = LoadedPolicy(policy_from(saved["meta"], saved["weights"], device), saved["meta"])

    def _only_of_kind(self, kind: str) -> str:
        """Return the opponent of a kind that has only one: the champion or a scripted level."""
        return CHAMPION if kind == CHAMPION else scripted_name(self.level if kind == SCRIPTED_KIND else kind)

    def _priority(self, kind: str) -> float:
        """Return the factor on the weight of a kind: of its opponent, the mean of its snapshots, or of a new one."""
        if kind == PAST and self.snapshots:
            return sum(map(self.priorities.factor, self.snapshots)) / len(self.snapshots)
        return self.priorities.factor(self._only_of_kind(kind))

    def _uniform(self, episodes: Sequence[tuple[int, int]], draw: int) -> NDArray[np.float64]:
        """Return a uniform number in [0, 1) for each environment and episode ``[n]``."""
        env, episode = np.array(episodes, np.int64).reshape(-1, 2).T
        return draw_u32(self.seed, StreamId.AGENT, episode, env, draw) / 2.0**32


class OpponentRunner:
    """The opponents of a batch: which one each environment has, and the recurrent states of the policies."""

    def __init__(
        self,
        env: BatchedEnv,
        source: OpponentSource,
        pool: ThreadPool,
        *,
        seed: int = 0,
        amp: bool = False,
        deterministic: bool = False,
    ) -> None:
        """Policies sample their actions, with ``deterministic`` they take the mean."""
        self.env, self.source, self.deterministic = env, source, deterministic
        self._pool = pool
        self.device = env.opponent_obs.device
        self.amp = amp and self.device.type != "cpu"
        """Whether policies run in lower precision; on a CPU they are traced instead."""
        self_play = torch.bincount(env.env_of_row, minlength=env.num_envs) == (env.row_of.shape[1])
        self.self_play = self_play.tolist()
        """Whether both sides learn, per environment."""
        self.names = self._initial_names()
        """Opponent of each environment."""
        self.episodes = [0] * env.num_envs
        """Number of opponents sampled per environment."""
        self.done = torch.ones(env.opponent_rows, device=self.device)
        """1 where the next step starts an episode [K]."""
        self._generator = torch.Generator(device=self.device).manual_seed(seed + SEED_OFFSET)
        self._state: LSTMState | None = None
        self._groups: list[tuple[FlatPolicy, Act, Tensor]] = []
        """Policy, its act function and its opponent rows, for each distinct policy."""
        self._traced = TracedPolicies()
        self._env_of_row = env.env_of_opponent_row.cpu().numpy()
        self._schedule: OpponentSchedule | None = None
        """Opponents of a rollout on a device, while it runs."""
        self._schedules = OpponentSchedule(env.num_envs, self.device)

    def reset(self) -> None:
        """Sample an opponent for every environment and reset all recurrent states.

        For the start of all episodes, and for a changed pool.
        """
        self.names = self._initial_names()
        self._draw(range(self.env.num_envs))
        self.done.fill_(1.0)
        for part in self._state or ():
            part.zero_()

    @torch.inference_mode()
    def act(self) -> None:
        """Write the actions of all mechs that policies control into the environment."""
        if self._schedule is not None:
            self._act_scheduled(self._schedule)
        elif self._groups:
            noise = self._noise([policy for policy, *_ in self._groups])
            self._pool.map(lambda group: self._act_group(*group, noise), self._groups)

    def begin_schedule(self, slots: int) -> None:
        """Sample the coming ``slots`` opponents of every environment, so that no step reads the device.

        After more episodes than that an environment keeps its last opponent until ``end_schedule``.
        """
        pairs = [(e, self.episodes[e] + i) for e in self._opposed for i in range(slots)]
        drawn = iter(self.source.draw_many(pairs))
        names = [[name] * (1 + slots) for name in self.names]
        for e in self._opposed:
            names[e][1:] = [next(drawn) for _ in range(slots)]
        self._schedules.begin(names, self._policy_of, self._env_of_row)
        self._grow_state(max((group.policies.lstm_hidden_dim for group in self._schedules.groups), default=0))
        env = cast(DeviceEnv, self.env)
        env.schedule_skills([[level_of(name) for name in row] for row in names])
        env.follow_schedule(self._schedules.slot)
        self._schedule = self._schedules

    def scheduled(self, env: int, slot: int) -> str:
        """Return the opponent of an environment after ``slot`` episodes of the schedule have ended."""
        return self._schedules.name(env, slot)

    def end_schedule(self, ended: Sequence[int]) -> None:
        """Continue with the opponents after ``ended [E]`` episodes of the schedule."""
        self._schedule = None
        taken = self._schedules.taken(ended)
        for e in self._opposed:
            self.names[e] = self.scheduled(e, taken[e])
            self.episodes[e] += taken[e]
        self.source.release(set(self.names))

    @property
    def _opposed(self) -> list[int]:
        """Environments in which one side does not learn."""
        return [e for e, is_self_play in enumerate(self.self_play) if not is_self_play]

    def _policy_of(self, name: str) -> FlatPolicy | None:
        return self.source.policy(name) if name not in ("", SELF) and level_of(name) is None else None

    def _noise(self, policies: Sequence[FlatPolicy | PolicyStack]) -> Tensor | None:
        """Return the draw ``[K, W]`` of a step of ``policies``; None where they take the mean."""
        if self.deterministic:
            return None
        width = max(policy.noise_dim for policy in policies)
        return torch.randn(self.env.opponent_rows, width, device=self.device, generator=self._generator)

    def after_step(self, episode_over: Tensor, any_over: bool) -> None:
        """Sample again, or go on in the schedule, and reset states where ``episode_over [E]``.

        ``any_over`` says whether that is anywhere; the caller has already read it from the device.
        """
        if self.env.opponent_rows:
            self.done.copy_(episode_over.index_select(0, self.env.env_of_opponent_row))
        if self._schedule is not None:
            self._schedule.advance(episode_over)
            cast(DeviceEnv, self.env).follow_schedule(self._schedule.slot)
        elif any_over:
            self._draw(episode_over.nonzero().flatten().tolist())

    def set_level(self, level: str) -> None:
        """Set the level of opponents sampled as ``scripted``, also in running episodes."""
        assert isinstance(self.source, OpponentMix), "only OpponentMix has a level"
        self.source.level = level
        if "" in self.names:
            return  # no opponent has been sampled yet
        for e, is_self_play in enumerate(self.self_play):
            if not is_self_play and self.source.kind(e, self.episodes[e] - 1) == SCRIPTED_KIND:
                self.names[e] = scripted_name(level)
        self._assign()

    def histogram(self) -> dict[str, int]:
        """Return the number of environments per opponent."""
        return dict(sorted(Counter(self.names).items()))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of an exact resume, as tensors and plain values."""
        state = self._state
        return {
            "names": list(self.names),
            "episodes": list(self.episodes),
            "done": self.done.clone(),
            "noise": self._generator.get_state(),
            "recurrent": None if state is None else [state.h.clone(), state.c.clone()],
            "source": self.source.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned; raise ``ValueError`` for another batch."""
        if len(state["names"]) != len(self.names):
            raise ValueError(f"checkpoint has {len(state['names'])} opponents, expected {len(self.names)}")
        if state["done"].shape != self.done.shape:
            rows = f"checkpoint has {len(state['done'])} mechs controlled by policies, expected {len(self.done)}"
            raise ValueError(f"{rows}: opponents.mix has policy opponents in only one of the two")
        self.source.load_state_dict(state["source"])
        self.names, self.episodes = list(state["names"]), list(state["episodes"])
        self.done.copy_(state["done"])
        self._generator.set_state(state["noise"])
        self._state = None
        if state["recurrent"] is not None:
            h, c = state["recurrent"]
            self._state = LSTMState(h.to(self.device), c.to(self.device))
        policies = {name for name in self.names if name not in ("", SELF) and level_of(name) is None}
        self._replace({name for name in sorted(policies) if not self.source.is_ready(name)})

    def _initial_names(self) -> list[str]:
        return [SELF if is_self_play else "" for is_self_play in self.self_play]

    def _replace(self, lost: Collection[str]) -> None:
        """Sample again, from zero states, where the policy of the opponent is no longer available."""
        envs = [e for e, name in enumerate(self.names) if name in lost]
        if envs:
            self.done[torch.isin(self.env.env_of_opponent_row, torch.tensor(envs, device=self.device))] = 1.0
        self._sample(envs)
        self._assign()

    def _draw(self, envs: Sequence[int] | range) -> None:
        before = list(self.names)
        self._sample([e for e in envs if not self.self_play[e]])
        if self.names != before:
            self._assign()
            self.source.release(set(self.names))

    def _sample(self, envs: Sequence[int]) -> None:
        drawn = self.source.draw_many([(e, self.episodes[e]) for e in envs])
        for e, name in zip(envs, drawn, strict=True):
            self.names[e] = name
            self.episodes[e] += 1

    def _assign(self) -> None:
        """Set the scripted levels in the environment and group opponent rows by policy."""
        self.env.set_scripted_skills([level_of(name) for name in self.names])
        rows_of: dict[str, list[int]] = {}
        for row, e in enumerate(self._env_of_row.tolist()):
            if level_of(self.names[e]) is None:
                rows_of.setdefault(self.names[e], []).append(row)
        self._groups = []
        for name, rows in rows_of.items():
            policy = self.source.policy(name)
            act = self._traced.act_function(policy, stochastic=not self.deterministic)
            self._groups.append((policy, act, upload(np.array(rows), self.device)))
        self._grow_state(max((policy.lstm_hidden_dim for policy, *_ in self._groups), default=0))

    def _grow_state(self, width: int) -> None:
        """Make the recurrent states at least ``width`` wide; policies of different widths share the rows."""
        current = 0 if self._state is None else self._state.h.shape[-1]
        if width <= current:
            return
        # an ordinary tensor even when called in inference mode, so that every thread may overwrite it
        with torch.inference_mode(False):
            wide = [torch.zeros(1, self.env.opponent_rows, width, device=self.device) for _ in range(2)]
        for new, old in zip(wide, self._state or (), strict=False):
            new[..., :current].copy_(old)
        self._state = LSTMState(*wide)

    @torch.inference_mode()
    def _act_group(self, policy: FlatPolicy, act: Act, rows: Tensor, noise: Tensor | None) -> None:
        """Write the actions of the rows of one policy; no two policies share a row."""
        assert self._state is not None, "_assign makes a state for policies"
        env, state, width = self.env, self._state, policy.lstm_hidden_dim
        before = LSTMState(state.h[:, rows, :width], state.c[:, rows, :width])
        with mixed_precision(self.device, self.amp):
            obs = env.opponent_obs[:, : policy.obs_dim][rows]
            draw = None if noise is None else noise[rows, : policy.noise_dim]
            action, after = act(obs, before, self.done[rows], draw)
        state.h[:, rows, :width], state.c[:, rows, :width] = after.h.float(), after.c.float()
        env.actions.view(-1, env.action_dim)[env.agent_of_opponent_row[rows]] = action.float()

    @torch.inference_mode()
    def _act_scheduled(self, schedule: OpponentSchedule) -> None:
        """Write the actions of all mechs that policies of a schedule control."""
        if not schedule.groups:
            return
        env, mechs = self.env, self.env.agent_of_opponent_row
        assert self._state is not None, "begin_schedule makes a state for policies"
        flat = env.actions.view(-1, env.action_dim)
        noise = self._noise([group.policies for group in schedule.groups])
        inputs = (env.opponent_obs, self._state, self.done, noise, flat[mechs], env.env_of_opponent_row)
        with mixed_precision(self.device, self.amp):
            flat[mechs] = schedule.act(*inputs)


def sample_weighted(weights: Mapping[str, float], at: NDArray[np.float64]) -> list[str]:
    """Return the names at the shares ``at [n]`` in [0, 1) of the sum of ``weights``."""
    names = list(weights)
    bounds = np.cumsum(np.array(list(weights.values()), np.float64))
    found = np.searchsorted(bounds, at * bounds[-1], side="right")
    return [names[i] for i in np.minimum(found, len(names) - 1)]


def snapshot_update(name: str) -> int:
    """Return the update at which a snapshot was taken."""
    return int(name.rpartition(":")[2])


def most_redundant(updates: Sequence[int]) -> int:
    """Return the index whose removal leaves the updates most evenly spread; neither the first nor the last of many."""
    if len(updates) < 3:
        return 0
    return min(range(1, len(updates) - 1), key=lambda i: (updates[i + 1] - updates[i - 1], i))


def assign_sides(num_envs: int, cfg: OpponentConfig) -> tuple[list[str], list[str]]:
    """Return the learning side and the side of policy opponents of each environment; self-play has the last ones."""
    share = cfg.mix.self_play_share
    self_play = round(num_envs * share)
    if 0 < share < 1:
        self_play = min(max(1, self_play), num_envs - 1)
    against_opponents = num_envs - self_play
    learners = ["blue"] * against_opponents + ["both"] * self_play
    opponents = "red" if cfg.mix.uses_frozen_policies else "none"
    return learners, [opponents] * against_opponents + ["none"] * self_play
