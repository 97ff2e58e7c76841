"""Teachers of a training run: scripted levels, whose pilots act in every step anyway, and policies from files.

Shapes: ``E environment, M mech, N learner row, D observation, A action, H recurrent state``.
"""

import os
from pathlib import Path

import torch
from torch import Tensor

from echelon.config import EnvConfig, RunConfig, TeacherConfig
from echelon.env import layout
from echelon.rl.build import FlatPolicy
from echelon.rl.lstm_state import LSTMState
from echelon.rl.traced_policy import trace_act
from echelon.rl.weights import LoadedPolicy, check_dimensions
from echelon.runs import RunPaths
from echelon.training.batched_env import BatchedEnv
from echelon.training.hindsight import Hindsight
from echelon.training.policy_agent import env_config_of
from echelon.training.ppo.actor import forward_slices
from echelon.training.ppo.teacher import Teacher
from echelon.training.rollout import RolloutBuffer
from echelon.training.runtime.threads import ThreadPool
from echelon.training.weights import kept_policy


class ScriptedTeacher(Teacher):
    """A scripted level: labels are the actions of its pilots, who sense and remember what the mech does.

    They obey orders; with ``hindsight`` their mechs also observe orders that they obeyed without having them.
    """

    def __init__(self, env: BatchedEnv, level: str, hindsight: Hindsight | None = None) -> None:
        self.env, self.level, self.hindsight = env, level, hindsight

    def set_active(self, active: bool) -> None:
        """Let the pilots of the level act for the mechs that learn, or for none of them."""
        self.env.pilots.set_teacher(self.level if active else None)

    def label(self, obs: Tensor, done: Tensor, labels: Tensor) -> None:
        """Write the pilots' actions into ``labels [N, A]``; they read the state itself."""
        if self.hindsight is not None:
            self.hindsight.before_step()
        self.env.pilots.label()
        labels.copy_(self.env.rows.acted())

    def relabel(self, buffer: RolloutBuffer, rows: Tensor, next_done: Tensor) -> None:
        """Show ``rows [N]`` the orders that they obeyed; ``next_done [N]`` is 1 after the end of an episode."""
        if self.hindsight is not None:
            self.hindsight.relabel(buffer, rows, next_done)


class PolicyTeacher(Teacher):
    """A frozen policy: labels are its mean actions on the learner's observations, with its own recurrent state.

    A label costs one forward pass of the policy. It observes the columns that it was trained with, the first of each
    row, and remembers the episode also where the learner acts.
    """

    def __init__(self, policy: FlatPolicy, env: BatchedEnv, pool: ThreadPool | None = None) -> None:
        self.policy = policy
        device = policy.obs_normalizer.scale.device
        self.state = policy.initial_state(env.rows.count, device)
        """Recurrent state now, [1, N, H]."""
        self._act = trace_act(policy, stochastic=False)
        self._pool, self._slices = pool or ThreadPool(1), forward_slices(env.rows.count, policy.regime)

    def label(self, obs: Tensor, done: Tensor, labels: Tensor) -> None:
        """Write the policy's mean actions into ``labels [N, A]``."""
        self._pool.map(lambda rows: self._label(obs[rows], done[rows], labels[rows], rows), self._slices)

    @torch.inference_mode()
    def _label(self, obs: Tensor, done: Tensor, labels: Tensor, rows: slice) -> None:
        before = LSTMState(self.state.h[:, rows], self.state.c[:, rows])
        action, after = self._act(obs[:, : self.policy.obs_dim], before, done, None)
        labels.copy_(action)
        for part, new in zip(before, after, strict=True):
            part.copy_(new)

    def carry(self) -> dict[str, Tensor]:
        return {"teacher_h": self.state.h.clone(), "teacher_c": self.state.c.clone()}

    def load_carry(self, carry: dict[str, Tensor]) -> None:
        """Continue from the recurrent state in ``carry``; from zeros where it is of another teacher."""
        for name, part in zip(("teacher_h", "teacher_c"), self.state, strict=True):
            stored = carry.get(name)
            if stored is None or stored.shape != part.shape:
                part.zero_()
            else:
                part.copy_(stored)


def make_teacher(
    config: RunConfig,
    env: BatchedEnv,
    pool: ThreadPool,
    device: torch.device | str,
    run_dir: os.PathLike[str] | None,
    *,
    stores: bool = True,
) -> Teacher | None:
    """Return the teacher of a run, None without one; ``stores`` copies a policy into ``run_dir``."""
    cfg = config.teacher
    if cfg.level is not None:
        has_hindsight = config.env.observe_orders and config.env.order_rate > 0 and torch.device(device).type == "cpu"
        return ScriptedTeacher(env, cfg.level, Hindsight(env, config) if has_hindsight else None)
    if cfg.path is None:
        return None
    stored = RunPaths(Path(run_dir)).teacher if run_dir is not None else None
    return PolicyTeacher(teacher_policy(load_teacher(cfg, stored, device, stores=stores), config.env, env), env, pool)


def load_teacher(
    cfg: TeacherConfig, stored: Path | None, device: torch.device | str, *, stores: bool = True
) -> LoadedPolicy:
    """Return the policy of ``teacher.policy``, as ``kept_policy`` does."""
    assert cfg.path, "the teacher is a policy"
    return kept_policy("teacher.policy", cfg.policy, cfg.path, stored, device, stores=stores)


def teacher_policy(loaded: LoadedPolicy, cfg: EnvConfig, env: BatchedEnv) -> FlatPolicy:
    """Return the teacher's policy; ``ValueError`` unless it observes what the learner does."""
    check_dimensions(loaded.meta, action_dim=env.sizes.action_dim)
    own, taught = ([column.name for column in layout.columns(c)] for c in (env_config_of(loaded.meta), cfg))
    if own != taught:
        expected = f"the learner's {env.sizes.obs_dim} columns; try a teacher trained with the same env options"
        raise ValueError(f"teacher observes {len(own)} columns in another order or number, expected {expected}")
    return loaded.policy
