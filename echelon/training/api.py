"""``echelon.train`` and ``echelon.evaluate``: a training run and an evaluation as one call each, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from echelon.config import EnvConfig, EvalConfig, Fairness, RunConfig, with_fairness
from echelon.config.presets import get_preset
from echelon.config.seeds import eval_seeds
from echelon.rl.weights import LoadedPolicy, version_of
from echelon.telemetry.events import Event
from echelon.training.evaluation import EvalStats, evaluate_policy
from echelon.training.loop import RunResult, run
from echelon.training.policy_agent import env_config_of
from echelon.training.weights import load_policy


def train(
    config: RunConfig | str = "quickstart",
    *,
    run_dir: Path | str | None = None,
    resume: Path | str | None = None,
    emit: Callable[[Event], None] = lambda event: None,
    should_stop: Callable[[], int] = lambda: 0,
    **fields: Any,
) -> RunResult:
    """Train until the plan of ``config`` ends and return how it ended.

    ``config`` is a configuration or the name of a preset; ``fields`` replace top-level fields of it (``num_envs=16``).
    ``emit`` receives each event of the run (``echelon.telemetry.events``). ``should_stop`` is called every environment
    step: 0 continues, 1 saves and ends after this update, 2 ends at once. Checkpoints are written below ``run_dir``,
    nowhere without it; ``resume`` is a checkpoint folder or ``"latest"``.

    Raises ``ValueError`` naming the field for an impossible configuration.
    """
    plan = get_preset(config) if isinstance(config, str) else config
    known = [field.name for field in fields_of(plan)]
    for name in fields:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"try {near[0]!r}" if near else f"expected one of {', '.join(known)}"
            raise ValueError(f"field {name!r} is no field of RunConfig; {hint}")
    return run(
        replace(plan, **fields),
        emit,
        should_stop,
        run_dir=None if run_dir is None else Path(run_dir),
        resume=resume,
    )


def evaluate(
    policy: LoadedPolicy | Path | str,
    opponent: str = "medium",
    *,
    seeds: int | Sequence[int] = EvalConfig.seeds,
    env: EnvConfig | None = None,
    deterministic: bool = True,
    device: str = "cpu",
    maps: Fairness | None = None,
) -> EvalStats:
    """Play every seed from both sides against a scripted level and return win rate, interval and returns.

    ``policy`` is a loaded policy, a run folder, a checkpoint or an exported file. ``opponent`` is a scripted level
    (``trivial`` to ``expert``, or ``legacy``). ``seeds`` is a number of held-out seeds or the seeds themselves; two
    episodes are played per seed. ``env`` replaces the configuration that the policy was trained in, except for the
    version of its observations, and ``maps`` the kind of its maps: ``any``, or ``path`` for maps with equal path costs
    for both teams.
    """
    loaded = policy if isinstance(policy, LoadedPolicy) else load_policy(policy, device=device)
    env = env_config_of(loaded.meta) if env is None else replace(env, obs_version=version_of(loaded.meta))
    return evaluate_policy(
        loaded.policy,
        env if maps is None else with_fairness(env, maps),
        eval_seeds(seeds) if isinstance(seeds, int) else seeds,
        skill=opponent,
        deterministic=deterministic,
        device=device,
    )
