"""Whom the learner meets: an opponent per environment, drawn anew when its episode ends, policies flown in groups.

An ``OpponentSource`` decides who is met next and holds the policies; ``OpponentMix`` is the one without a league:
scripted levels and snapshots of this run by weight. ``OpponentRunner`` flies them: it knows each environment's opponent,
resets its recurrent state when its episode ends, and infers once per distinct policy. Environments in which both sides
learn have no opponent of their own and are called ``self``. Shapes: ``E env, K opponent row, D observation, A action``.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any, Protocol

import torch
from torch import Tensor

from echelon.config import LADDER, OpponentConfig
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import Act, TracedPolicies
from echelon.sim.random import StreamId, draw_u32
from echelon.training.ppo.collect import BatchedEnv
from echelon.training.runtime.precision import mixed_precision
from echelon.training.runtime.thread_pool import ThreadPool

SELF = "self"
"""Name of the opponent where both sides learn."""
SCRIPTED, PAST = "heuristic", "past"
"""First parts of opponents' names: ``heuristic:medium``, ``past:120``."""
SEED_OFFSET = 13371
"""Added to the run's seed, so that opponents' draws are their own."""
LEVELS = ("legacy", *LADDER)


def scripted_name(level: str) -> str:
    """Return the name of scripted pilots of a level."""
    return f"{SCRIPTED}:{level}"


def level_of(name: str) -> str | None:
    """Return the level of scripted pilots by that name, None for a policy."""
    kind, _, level = name.partition(":")
    return level if kind == SCRIPTED else None


class OpponentSource(Protocol):
    """Who is met next, and the policies of those who are no scripted pilots; a league is another such source."""

    def draw(self, env: int, episode: int) -> str:
        """Return the name of the opponent of the ``episode``-th episode of environment ``env``."""
        ...

    def policy(self, name: str) -> FlatPolicy:
        """Return the frozen policy of that name."""
        ...

    def is_ready(self, name: str) -> bool:
        """Say whether the policy of that name can be had; one that cannot is never drawn again."""
        ...

    def release(self, in_use: Collection[str]) -> None:
        """Forget what is neither kept nor named here."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class OpponentMix:
    """Scripted levels and snapshots of this run, by weight."""

    def __init__(self, cfg: OpponentConfig, seed: int, blank: Callable[[], FlatPolicy]) -> None:
        """``blank`` makes a policy of the right shape, whose weights do not matter."""
        self.cfg = cfg
        self.level: str = cfg.skill
        """Level of the pilots drawn as ``scripted``."""
        self.seed = seed + SEED_OFFSET
        self.kept: list[str] = []
        """Names of the snapshots that can be drawn, oldest first."""
        self.ratings: dict[str, float] = {}
        self._policies: dict[str, FlatPolicy] = {}
        self._blank = blank
        weights = {f.name: float(getattr(cfg.mix, f.name)) for f in fields(cfg.mix)}
        self._weights = {name: w for name, w in weights.items() if w > 0 and name != "self_play"}

    def draw(self, env: int, episode: int) -> str:
        """Return an opponent by weight; a draw depends on seed, environment, episode and the pool alone."""
        return self.drawn_as(self.kind(env, episode), env, episode)

    def kind(self, env: int, episode: int) -> str:
        """Return as what the opponent of an episode is drawn, a name of ``MixConfig``, whatever the pool holds."""
        kinds = list(self._weights)
        bounds = torch.tensor(list(self._weights.values()), dtype=torch.float64).cumsum(0)
        at = self._unit(env, episode, 0) * float(bounds[-1])
        return kinds[min(int(torch.searchsorted(bounds, at, right=True)), len(kinds) - 1)]

    def drawn_as(self, kind: str, env: int, episode: int) -> str:
        """Return the opponent of an episode that is of this kind, a name of ``MixConfig``."""
        if kind == "past":
            return self.kept[int(self._unit(env, episode, 1) * len(self.kept))]
        return scripted_name(self.level if kind == "scripted" else kind)

    def policy(self, name: str) -> FlatPolicy:
        return self._policies[name]

    def is_ready(self, name: str) -> bool:
        return name in self._policies

    def add(self, policy: FlatPolicy, update: int) -> str:
        """Keep a frozen copy of ``policy`` as it is now; beyond ``past_keep`` the pool is thinned evenly."""
        name = f"{PAST}:{update}"
        frozen = copy.deepcopy(policy).eval().requires_grad_(False)
        self._policies[name] = frozen
        self.kept = [*(n for n in self.kept if n != name), name]
        if len(self.kept) > self.cfg.past_keep:
            del self.kept[most_redundant([update_of(n) for n in self.kept])]
        return name

    def release(self, in_use: Collection[str]) -> None:
        for name in [n for n in self._policies if n not in self.kept and n not in in_use]:
            del self._policies[name]
            self.ratings.pop(name, None)

    def rivals(self, count: int) -> list[str]:
        """Return at most ``count`` kept snapshots, spread from the oldest to the newest."""
        last = len(self.kept) - 1
        if last < count:
            return list(self.kept)
        steps = max(1, count - 1)
        return [self.kept[round(last * i / steps)] for i in range(count)] if count > 1 else [self.kept[-1]]

    def state_dict(self) -> dict[str, Any]:
        """Return everything as tensors and plain values, weights included."""
        weights = {name: policy.state_dict() for name, policy in self._policies.items()}
        return {"level": self.level, "kept": list(self.kept), "ratings": dict(self.ratings), "weights": weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.level, self.kept, self.ratings = state["level"], list(state["kept"]), dict(state["ratings"])
        self._policies = {}
        for name, weights in state["weights"].items():
            policy = self._blank()
            policy.load_state_dict(weights)
            self._policies[name] = policy.eval().requires_grad_(False)

    def _unit(self, env: int, episode: int, draw: int) -> float:
        """Return a uniform number in [0, 1)."""
        return draw_u32(self.seed, StreamId.AGENT, episode, env, draw) / 2.0**32


class OpponentRunner:
    """The opponents of a batch: who flies where, and the recurrent states of those that are policies."""

    def __init__(self, env: BatchedEnv, source: OpponentSource, pool: ThreadPool, *, seed: int = 0, amp: bool = False):
        self.env, self.source = env, source
        self._pool = pool
        self.device = env.opponent_obs.device
        self.amp = amp and self.device.type != "cpu"
        """Whether they fly in lower precision; on a CPU they are recorded, as they are."""
        mirrored = torch.bincount(env.env_of_row, minlength=env.num_envs) == (env.row_of.shape[1])
        self.mirrored = mirrored.tolist()
        """Whether both sides learn, per environment."""
        self.names = [SELF if both else "" for both in self.mirrored]
        """Who is met in each environment."""
        self.episodes = [0] * env.num_envs
        """Opponents drawn so far."""
        self.done = torch.ones(env.opponent_rows, device=self.device)
        self._noise_source = torch.Generator(device=self.device).manual_seed(seed + SEED_OFFSET)
        self._state: LSTMState | None = None
        self._groups: list[tuple[FlatPolicy, Act, Tensor]] = []
        self._recordings = TracedPolicies()

    def begin(self) -> None:
        """Draw an opponent for every environment and start all of them from a zero state.

        Episodes begin, or the source's pool is another one.
        """
        self.names = [SELF if both else "" for both in self.mirrored]
        self._draw(range(self.env.num_envs))
        self.done.fill_(1.0)
        for part in self._state or ():
            part.zero_()

    @torch.inference_mode()
    def act(self) -> None:
        """Write the actions of all mechs that policies fly into the environment."""
        if self._groups:
            width = max(policy.noise_dim for policy, *_ in self._groups)
            noise = torch.randn(self.env.opponent_rows, width, device=self.device, generator=self._noise_source)
            self._pool.map(lambda group: self._fly(*group, noise), self._groups)

    def after_step(self, over: Tensor, some: bool) -> None:
        """Note the decision just played: where ``over [E]``, draw anew and start from a zero state.

        ``some`` says whether it is over anywhere, which the caller knows already.
        """
        if self.env.opponent_rows:
            self.done.copy_(over[self.env.env_of_opponent_row])
        if some:
            self._draw(over.nonzero().flatten().tolist())

    def set_level(self, level: str) -> None:
        """Fly the environments whose opponent was drawn as ``scripted`` at another level from now on."""
        assert isinstance(self.source, OpponentMix), "only a mix has a level of its own"
        self.source.level = level
        if "" in self.names:
            return  # nobody is drawn yet
        for e, both in enumerate(self.mirrored):
            if not both and self.source.kind(e, self.episodes[e] - 1) == "scripted":
                self.names[e] = scripted_name(level)
        self._assign()

    def histogram(self) -> dict[str, int]:
        """Return in how many environments each opponent is met now."""
        return dict(sorted(Counter(self.names).items()))

    def state_dict(self) -> dict[str, Any]:
        """Return everything an exact resume needs, as tensors and plain values."""
        state = self._state
        return {
            "names": list(self.names),
            "episodes": list(self.episodes),
            "done": self.done.clone(),
            "noise": self._noise_source.get_state(),
            "recurrent": None if state is None else [state.h.clone(), state.c.clone()],
            "source": self.source.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        if len(state["names"]) != len(self.names):
            raise ValueError(f"checkpoint has {len(state['names'])} opponents, wanted {len(self.names)}")
        if state["done"].shape != self.done.shape:
            rows = f"checkpoint has {len(state['done'])} mechs that policies fly, wanted {len(self.done)}"
            raise ValueError(f"{rows}: opponents.mix meets policies only in one of the two")
        self.source.load_state_dict(state["source"])
        self.names, self.episodes = list(state["names"]), list(state["episodes"])
        self.done.copy_(state["done"])
        self._noise_source.set_state(state["noise"])
        self._state = None
        if state["recurrent"] is not None:
            h, c = state["recurrent"]
            self._state = LSTMState(h.to(self.device), c.to(self.device))
        flown = {name for name in self.names if name not in ("", SELF) and level_of(name) is None}
        self._replace({name for name in sorted(flown) if not self.source.is_ready(name)})

    def _replace(self, lost: Collection[str]) -> None:
        """Have others, from a zero state, go on where these were met, whose policies are gone."""
        envs = [e for e, name in enumerate(self.names) if name in lost]
        if envs:
            self.done[torch.isin(self.env.env_of_opponent_row, torch.tensor(envs, device=self.device))] = 1.0
        self._rename(envs)
        self._assign()

    def _draw(self, envs: Sequence[int] | range) -> None:
        before = list(self.names)
        self._rename(e for e in envs if not self.mirrored[e])
        if self.names != before:
            self._assign()
            self.source.release(set(self.names))

    def _rename(self, envs: Iterable[int]) -> None:
        for e in envs:
            self.names[e] = self.source.draw(e, self.episodes[e])
            self.episodes[e] += 1

    def _assign(self) -> None:
        """Tell the environment who flies, and group the rows of policies."""
        self.env.set_scripted_skills([level_of(name) for name in self.names])
        flown: dict[str, list[int]] = {}
        for row, e in enumerate(self.env.env_of_opponent_row.tolist()):
            if level_of(self.names[e]) is None:
                flown.setdefault(self.names[e], []).append(row)
        self._groups = []
        for name, rows in flown.items():
            policy = self.source.policy(name)
            act = self._recordings.act_of(policy, draws=True)
            self._groups.append((policy, act, torch.tensor(rows, device=self.device)))
        self._widen(max((policy.lstm_hidden_dim for policy, *_ in self._groups), default=0))

    def _widen(self, width: int) -> None:
        """Make room for policies whose recurrent state is ``width`` wide; policies of all widths share the rows."""
        have = 0 if self._state is None else self._state.h.shape[-1]
        if width <= have:
            return
        # drawn inside inference mode or not, the state must be a tensor that every thread may overwrite
        with torch.inference_mode(False):
            wide = [torch.zeros(1, self.env.opponent_rows, width, device=self.device) for _ in range(2)]
        for new, old in zip(wide, self._state or (), strict=False):
            new[..., :have].copy_(old)
        self._state = LSTMState(*wide)

    @torch.inference_mode()
    def _fly(self, policy: FlatPolicy, act: Act, rows: Tensor, noise: Tensor) -> None:
        """Decide for the rows of one policy; no two policies share a row."""
        assert self._state is not None, "a policy flies, so there is a state"
        env, state, width = self.env, self._state, policy.lstm_hidden_dim
        mine = LSTMState(state.h[:, rows, :width], state.c[:, rows, :width])
        with mixed_precision(self.device, self.amp):
            action, after = act(env.opponent_obs[rows], mine, self.done[rows], noise[rows, : policy.noise_dim])
        state.h[:, rows, :width], state.c[:, rows, :width] = after.h.float(), after.c.float()
        env.actions.view(-1, env.action_dim)[env.agent_of_opponent_row[rows]] = action.float()


def update_of(name: str) -> int:
    """Return the update at which a snapshot was taken."""
    return int(name.rpartition(":")[2])


def most_redundant(updates: Sequence[int]) -> int:
    """Return the place whose removal leaves the evenest pool: never the first or the newest, if there are others."""
    if len(updates) < 3:
        return 0
    return min(range(1, len(updates) - 1), key=lambda i: (updates[i + 1] - updates[i - 1], i))


def assign_sides(num_envs: int, cfg: OpponentConfig) -> tuple[list[str], list[str]]:
    """Return which side learns and which other policies may fly, per environment; self-play has the last ones."""
    share = cfg.mix.self_play_share
    mirrored = round(num_envs * share)
    if 0 < share < 1:
        mirrored = min(max(1, mirrored), num_envs - 1)
    alone = num_envs - mirrored
    learners = ["blue"] * alone + ["both"] * mirrored
    flown = "red" if cfg.mix.uses_frozen_policies else "none"
    return learners, [flown] * alone + ["none"] * mirrored
