"""``echelon.evaluate``: an evaluation as one call in this process."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from echelon.arena.standings import policy_path
from echelon.config import EnvConfig, EvalConfig, Fairness, require, with_fairness
from echelon.config.seeds import eval_seeds
from echelon.rl import weights
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import LoadedPolicy
from echelon.tasks import find_task
from echelon.training import evaluation
from echelon.training.opponents.fixed import Opponent, find_opponents, play_against, plays_mean, scripted_level
from echelon.training.policy_agent import env_config_of

Act = Callable[[NDArray[np.float32], NDArray[np.bool_]], Any]
"""Observations ``[N, D]`` and ``first [N]``, set in the first step of an episode, to actions ``[N, A]``."""


def load_policy(path: Path | str, device: torch.device | str = "cpu") -> LoadedPolicy:
    """Return a policy by any name that a command takes: ``champion``, a run (also ``latest``), a league entry, a path.

    A path is that of a run, a checkpoint, a policy folder or an exported file.
    """
    return weights.load_policy(policy_path(str(path)), device)


def evaluate(
    policy: LoadedPolicy | Path | str | Act,
    opponent: Opponent = "medium",
    *,
    seeds: int | Sequence[int] = EvalConfig.seeds,
    env: EnvConfig | str | None = None,
    deterministic: bool = True,
    device: str = "cpu",
    maps: Fairness | None = None,
) -> evaluation.EvalStats:
    """Play every seed from both sides against an opponent and return win rate, interval and returns.

    ``policy`` is a loaded policy, a name or path as of ``load_policy``, a scripted level, or a function of any library:
    called with observations ``[N, D] float32`` and ``first [N] bool``, set in the first step of an episode, it returns
    actions ``[N, A]``. ``opponent`` is a scripted level (``trivial`` to ``expert``), ``champion``, which plays mean
    actions, or
    another policy by name, which samples them. ``seeds`` is a number of held-out seeds or the seeds themselves; two
    episodes are played per seed. ``env`` is a configuration or the name of a task (``echelon.TASKS``); it replaces the
    configuration that the policy was trained in. ``maps`` replaces the kind of its maps: ``any``, or ``path`` for maps
    with equal path costs for both teams.
    """
    task = find_task(env).config() if isinstance(env, str) else env
    level = scripted_level(policy)
    player, config = (None, task or EnvConfig()) if level else _player(policy, task, device)
    config = config if maps is None else with_fairness(config, maps)
    found = find_opponents(opponent, device)
    names = list(found.weights)
    require(len(names) == 1, "opponent", opponent, "a single one for an evaluation")
    require(level is None or not found.policies, "opponent", opponent, "a scripted level where one plays; swap the two")
    batch = evaluation.make_eval_env(
        config, eval_seeds(seeds) if isinstance(seeds, int) else seeds, weapon_prob=evaluation.FULL_WEAPON_PROB,
        skill=found.single_level or evaluation.OPPONENT, device=device, policy_opponents=bool(found.policies),
    )  # fmt: skip
    try:
        other = found.fitted(config, batch.sizes.obs_dim).policies.get(names[0])
        runner = other and play_against(batch, other.policy, deterministic=plays_mean(names[0]))
        player = player or cast(FlatPolicy, evaluation.ScriptedPolicy(batch, level))
        return evaluation.play_and_summarize(player, batch, config, deterministic=deterministic, opponents=runner)
    finally:
        batch.close()


def _player(
    policy: LoadedPolicy | Path | str | Act, env: EnvConfig | None, device: str
) -> tuple[FlatPolicy, EnvConfig]:
    """Return what plays in an evaluation, and its environment: ``env``, else that of its training."""
    if callable(policy) and not isinstance(policy, LoadedPolicy):
        require(env is not None, "env", env, "a configuration or a task, since a function has none")
        return cast(FlatPolicy, FunctionPolicy(policy)), cast(EnvConfig, env)
    loaded = policy if isinstance(policy, LoadedPolicy) else load_policy(cast("Path | str", policy), device)
    return loaded.policy, env_config_of(loaded.meta) if env is None else env


class FunctionPolicy(evaluation.StatelessPolicy):
    """A function in the place of an evaluated policy."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def act(self, obs: torch.Tensor, state: None, done: torch.Tensor, noise: Any) -> tuple[torch.Tensor, None]:
        """Return the function's actions ``[N, A]``."""
        actions = np.asarray(self._act(obs.cpu().numpy().copy(), done.cpu().numpy().astype(bool)), np.float32)
        return torch.from_numpy(actions).to(obs.device), None
