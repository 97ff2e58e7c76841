"""Acts for the opponents of a batch: one forward pass per distinct policy, or per architecture on a device.

An ``OpponentRunner`` knows each environment's opponent, resets its recurrent state when its episode ends, and writes
the actions of all mechs that policies control. Environments in which both sides learn have no separate opponent.

Shapes: ``E environment, K opponent row, D observation, A action, H recurrent state, W noise``.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.outside import ProcessPolicy
from echelon.rl.traced_policy import Act, TracedPolicies
from echelon.training.batched_env import BatchedEnv
from echelon.training.opponents.pool import SEED_OFFSET, SELF, OpponentSource, level_of
from echelon.training.opponents.schedule import OpponentSchedule
from echelon.training.ppo.graph.capture import Replayed, record_cuda_graph
from echelon.training.runtime.devices import mixed_precision, upload
from echelon.training.runtime.threads import ThreadPool


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
        capture: bool = False,
    ) -> None:
        """Policies sample their actions, with ``deterministic`` they take the mean.

        On a GPU, ``capture`` makes their part in the steps of a rollout a CUDA graph.
        """
        self.env, self.source, self.deterministic = env, source, deterministic
        self._pool = pool
        self.device = env.opponents.obs.device
        self.amp = amp and self.device.type != "cpu"
        """Whether policies run in lower precision; on a CPU they are traced instead."""
        self_play = torch.bincount(env.rows.env, minlength=env.sizes.num_envs) == (env.rows.row_of.shape[1])
        self.self_play = self_play.tolist()
        """Whether both sides learn, per environment."""
        self.names = self._initial_names()
        """Opponent of each environment."""
        self.episodes = [0] * env.sizes.num_envs
        """Number of opponents sampled per environment."""
        self.done = torch.ones(env.opponents.count, device=self.device)
        """1 where the next step starts an episode [K]."""
        self._generator = torch.Generator(device=self.device).manual_seed(seed + SEED_OFFSET)
        self._state: LSTMState | None = None
        self._groups: list[tuple[FlatPolicy, Act, Tensor]] = []
        """Policy, its act function and its opponent rows, for each distinct policy."""
        self._traced = TracedPolicies()
        self._env_of_row = env.opponents.env.cpu().numpy()
        self._schedule: OpponentSchedule | None = None
        """Opponents of a rollout on a device, while it runs."""
        self._schedules = OpponentSchedule(env.sizes.num_envs, self.device)
        self._draws = torch.zeros(0, 0, device=self.device)
        """Noise of a step of the schedule [K, W]; without columns its policies take the mean."""
        record = None
        if capture and self.device.type == "cuda":
            memory, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self.device)
            record = partial(record_cuda_graph, memory=memory, stream=stream)
        self._act_scheduled = Replayed(self._act_in_schedule, record, warm_up=1)

    def reset(self) -> None:
        """Sample an opponent for every environment and reset all recurrent states, for the start of all episodes."""
        self.names = self._initial_names()
        self._draw(range(self.env.sizes.num_envs))
        self.done.fill_(1.0)
        for part in self._state or ():
            part.zero_()

    @torch.inference_mode()
    def act(self) -> None:
        """Write the actions of all mechs that policies control into the environment."""
        if self._schedule is not None:
            if self._draws.numel():
                self._draws.normal_(generator=self._generator)
            self._act_scheduled()
        elif self._groups:
            noise = self._noise([policy for policy, *_ in self._groups])
            self._pool.map(lambda group: self._act_group(*group, noise), self._groups)

    @torch.inference_mode()
    def values(self) -> Tensor:
        """Return the value ``[K]`` that the opponent gives each of its mechs now, where all have the same policy."""
        policy, state = self.source.policy(next(filter(_is_policy, self.names))), self._state
        assert state is not None, "_assign makes a state for policies"
        before = LSTMState(*(part[..., : policy.lstm_hidden_dim] for part in state))
        with mixed_precision(self.device, self.amp):
            return policy.get_value(self.env.opponents.obs, before, self.done)[0].float()

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
        self._act_scheduled.clear()
        if not self.deterministic:
            width = max((group.policies.noise_dim for group in self._schedules.groups), default=0)
            self._draws = torch.zeros(self.env.opponents.count, width, device=self.device)
        pilots = self.env.pilots
        pilots.schedule([[level_of(name) for name in row] for row in names])
        pilots.follow(self._schedules.slot)
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
        return self.source.policy(name) if _is_policy(name) else None

    def _noise(self, policies: Sequence[FlatPolicy]) -> Tensor | None:
        """Return the draw ``[K, W]`` of a step of ``policies``; None where they take the mean."""
        if self.deterministic:
            return None
        width = max(policy.noise_dim for policy in policies)
        return torch.randn(self.env.opponents.count, width, device=self.device, generator=self._generator)

    def after_step(self, episode_over: Tensor, any_over: bool) -> None:
        """Sample again, or go on in the schedule, and reset states where ``episode_over [E]``.

        ``any_over`` says whether that is anywhere; the caller has already read it from the device.
        """
        if self.env.opponents.count:
            self.done.copy_(self.env.opponents.of_envs(episode_over))
        if self._schedule is not None:
            self._schedule.advance(episode_over)
            self.env.pilots.follow(self._schedule.slot)
        elif any_over:
            self._draw(episode_over.nonzero().flatten().tolist())

    def histogram(self) -> dict[str, int]:
        return dict(sorted(Counter(self.names).items()))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of an exact resume, as tensors and plain values; on a GPU recurrent states are rounded."""
        state, rows = self._state, self._rows_of_policies()
        return {
            "names": list(self.names),
            "episodes": list(self.episodes),
            "done": self.done.clone(),
            "noise": self._generator.get_state(),
            "recurrent": None
            if state is None
            else LSTMState(*(part[:, rows] for part in state)).stored(torch.bfloat16 if self.amp else torch.float32),
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
            self._grow_state(state["recurrent"][0].shape[-1])
            for part, stored in zip(self._state or (), state["recurrent"], strict=True):
                rows = self._rows_of_policies() if stored.shape[1] < part.shape[1] else slice(None)
                if stored.numel():
                    part[:, rows] = stored.to(part)
        policies = {name for name in self.names if _is_policy(name)}
        self._replace({name for name in sorted(policies) if not self.source.is_ready(name)})

    def _rows_of_policies(self) -> Tensor:
        """Return the opponent rows that policies control now; the state of others is not read."""
        named = np.array([_is_policy(name) for name in self.names])
        return upload(np.flatnonzero(named[self._env_of_row]), self.device)

    def _initial_names(self) -> list[str]:
        return [SELF if is_self_play else "" for is_self_play in self.self_play]

    def _replace(self, lost: Collection[str]) -> None:
        """Sample again, from zero states, where the policy of the opponent is no longer available."""
        envs = [e for e, name in enumerate(self.names) if name in lost]
        if envs:
            self.done[torch.isin(self.env.opponents.env, torch.tensor(envs, device=self.device))] = 1.0
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
        self.env.pilots.set_skills([level_of(name) for name in self.names])
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
            wide = [torch.zeros(1, self.env.opponents.count, width, device=self.device) for _ in range(2)]
        for new, old in zip(wide, self._state or (), strict=False):
            new[..., :current].copy_(old)
        self._state = LSTMState(*wide)

    @torch.inference_mode()
    def _act_group(self, policy: FlatPolicy, act: Act, rows: Tensor, noise: Tensor | None) -> None:
        """Write the actions of the rows of one policy; no two policies share a row."""
        assert self._state is not None, "_assign makes a state for policies"
        mechs, state, width = self.env.opponents, self._state, policy.lstm_hidden_dim
        before = LSTMState(state.h[:, rows, :width], state.c[:, rows, :width])
        with mixed_precision(self.device, self.amp):
            obs = mechs.obs[rows]
            draw = None if noise is None else noise[rows, : policy.noise_dim]
            action, after = act(obs, before, self.done[rows], draw)
        state.h[:, rows, :width], state.c[:, rows, :width] = after.h.float(), after.c.float()
        mechs.flat_actions[mechs.agent[rows]] = action.float()
        if isinstance(policy, ProcessPolicy):
            self.env.pilots.take_over(mechs.agent[rows][policy.lost])

    @torch.inference_mode()
    def _act_in_schedule(self) -> None:
        """Write the actions of all mechs that policies of the schedule control."""
        schedule = self._schedules
        if not schedule.groups:
            return
        mechs = self.env.opponents
        assert self._state is not None, "begin_schedule makes a state for policies"
        noise = self._draws if self._draws.numel() else None
        inputs = (mechs.obs, self._state, self.done, noise, mechs.acted(), mechs.env)
        with mixed_precision(self.device, self.amp):
            mechs.act(schedule.act(*inputs))


def _is_policy(name: str) -> bool:
    return name not in ("", SELF) and level_of(name) is None
