"""Red team jobs of ``echelon redteam``: sweeps whose variants attack a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon import champion
from echelon.config.opponents import LADDER, MixConfig, level_of
from echelon.config.presets import PRESETS, get_preset
from echelon.jobs.config_layers import DEFAULT_PRESET, ConfigError, default_values, flatten, resolve, unflatten
from echelon.jobs.evaluations import PolicySource, open_policy
from echelon.jobs.spec import new_spec
from echelon.jobs.sweeps.plan import Attack, SweepPlan, Variant, configuration, plan_from
from echelon.jobs.sweeps.redteam import read_report
from echelon.runs import RunPaths, create_run
from echelon_cli import job, sweep_job
from echelon_cli.tui.format import short_run_id

if TYPE_CHECKING:
    from echelon.jobs.observers import Observers
    from echelon.jobs.status import JobStatus
    from echelon_cli.follow import Follower

PRESET = "redteam"
FROM_TARGET, FROM_NOTHING = "target", "nothing"
COPY = "target"
SHARES = "10,25,50,100"
KEPT_SECTIONS = ("env", "model", "ppo")
KEPT = ("preset", "num_envs", "bank_maps", "bank_spare", "bank_refresh_every", "bank_refresh_maps")
"""What attackers take from the configuration of the target besides sections; the rest are defaults."""
ATTACKER = {
    "ppo.lr": 3e-4, "ppo.lr_schedule": "none", "ppo.kl_lr_target": 0.01, "opponents.mix.scripted": 0.0,
    "opponents.mix.champion": 1.0, "eval.skill": "champion", "eval.every_updates": 0, "eval.at_start": False,
    "eval.record_seeds": 4,
}  # fmt: skip
"""Values of all attackers. Those from the target begin where it ended, so their learning rate is small and bounded."""
OWN = (
    "total_steps", "start_from", "opponents.champion", "opponents.champion_mean", "eval.skill", "eval.every_updates",
    "pause_steps", "max_updates", "max_episodes", "max_minutes", "nproc",
)  # fmt: skip
"""Fields that the red team decides alone."""
AUX_COEF = 0.01
"""Coefficient where another policy has a head that predicts observations, and the target has none."""
NEW_NETWORK = {"start_from": "", "ppo.lr": 1e-3}


@dataclass(frozen=True)
class Origin:
    """What attackers start from."""

    name: str
    source: PolicySource | None = None
    """None for a new network."""


@dataclass(frozen=True)
class RedTeam:
    """A red team that is to start: its plan without the paths of copies, and what is copied."""

    plan: SweepPlan
    target: PolicySource
    origins: tuple[Origin, ...]


def prepare(
    name: str,
    *,
    shares: str = SHARES,
    steps: int | None = None,
    origins: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    fresh_seeds: int = 200,
    **fields: Any,
) -> RedTeam:
    """Return the red team against the policy ``name``; ``ValueError`` in one line where it cannot be.

    ``fields`` are those of ``SweepPlan``.
    """
    target = _open(name, "target")
    own = int(target.meta.get("global_step", 0))
    total = steps or own
    if total < 1:
        raise ConfigError(f"policy {name!r} has no record of its training steps, expected --steps N")
    rungs = tuple(sorted({math.ceil(share * total) for share in shares_of(shares)}))
    found = tuple(_origin(each, target) for each in origins or default_origins(target))
    base = _base(target.meta, {"total_steps": rungs[-1], **(overrides or {})})
    variants = tuple(Variant(name=each.name, params=_params(each, base)) for each in found)
    preset = flatten(asdict(get_preset(base["preset"])))
    attack = Attack(
        target=name, policy=COPY, checkpoint=str(target.meta.get("id", "")), steps=own, rungs=rungs, seeds=fresh_seeds
    )
    given = {key: value for key, value in base.items() if key not in ("preset", "seed") and preset[key] != value}
    values = {
        "base": unflatten(base), "given": given, "preset": base["preset"], "variants": variants, "attack": attack,
        "rungs": len(rungs), **fields,
    }  # fmt: skip
    plan = plan_from(values)
    plan = replace(plan, base={**plan.base, "threads": sweep_job.threads_each(base["threads"], plan)})
    for variant in variants:
        configuration(plan, variant.params)
    return RedTeam(plan, target, found)


def shares_of(text: str) -> list[float]:
    """Return the fractions in a list of percentages such as ``10,25,50,100``."""
    try:
        found = [float(part) / 100 for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < share <= 100 for share in found):
        raise ConfigError(f"--shares is {text!r:.80}, expected percentages of the training; try {SHARES}")
    return found


def _open(name: str, what: str) -> PolicySource:
    from echelon.arena.standings import policy_path
    from echelon.rl.checkpoint import LEARNER_FILES

    if (level_of(name) or name) in LADDER and not Path(name).exists():
        expected = f"expected a policy; levels are attacked by training: echelon train --set opponents.skill={name}"
        raise ConfigError(f"{what} {name!r} is a scripted level, {expected}")
    return open_policy(policy_path(name, what), LEARNER_FILES)


def default_origins(target: PolicySource) -> list[str]:
    """Return the target, the champion where it is another policy of the same game, and nothing."""
    from echelon.rl.checkpoint import find_checkpoint

    other = find_checkpoint(champion.FOLDER).manifest
    fits = other["id"] != target.meta.get("id") and _interface(other) == _interface(target.meta)
    return [FROM_TARGET, *([champion.NAME] if fits else []), FROM_NOTHING]


def _origin(name: str, target: PolicySource) -> Origin:
    if name == FROM_NOTHING:
        return Origin(name)
    if name == FROM_TARGET:
        return Origin(name, target)
    source = _open(name, "--from")
    (columns, layout, comms), expected = _interface(source.meta), _interface(target.meta)
    if (columns, layout, comms) != expected:
        found, wanted = f"{columns} columns, {layout} layout", f"{expected[0]} columns, {expected[1]} layout"
        raise ConfigError(f"--from {name!r} plays another game than the target: {found}, expected {wanted}")
    return Origin(name, source)


def _interface(meta: Mapping[str, Any]) -> tuple[Any, ...]:
    from echelon.training.eval_plan import environment_of, interface_of

    return interface_of(environment_of(dict(meta)), int(meta.get("obs_dim", 0)))


def _base(meta: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of attackers by dotted key: environment, network and batch are those of the target."""
    from echelon.training.eval_plan import environment_of

    known, args = default_values(), flatten(meta.get("args") or {})
    kept = {k: v for k, v in args.items() if k in known and (k in KEPT or k.partition(".")[0] in KEPT_SECTIONS)}
    kept |= flatten(asdict(environment_of(dict(meta))), "env.") | flatten(meta["model_cfg"], "model.")
    kept |= {"ppo.gamma": kept["env.gamma"]}
    values = {**known, **{f"opponents.mix.{name}": value for name, value in asdict(MixConfig()).items()}, **kept}
    if values["preset"] not in PRESETS:
        values["preset"] = DEFAULT_PRESET
    whole = resolve(base=unflatten({**values, **ATTACKER}), overrides=overrides)
    return whole.values


def _params(origin: Origin, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of attackers with an origin that differ from those of all."""
    if origin.source is None:
        return NEW_NETWORK
    network = flatten(origin.source.meta["model_cfg"], "model.")
    predicts = bool(origin.source.meta.get("predict"))
    if predicts != (base["ppo.aux_coef"] > 0):
        network["ppo.aux_coef"] = AUX_COEF * predicts
    return {
        "start_from": origin.name,
        **{key: value for key, value in network.items() if base.get(key, value) != value},
    }


def start(team: RedTeam, observers: Observers | None = None, *, as_json: bool = False) -> Follower:
    """Start a red team, which keeps copies of the policies, and return its follower."""
    from echelon.jobs.observers import write_observers

    paths, plan, params = create_run(PRESET), team.plan, {}
    assert plan.attack, "prepare makes a red team"
    with job.kept_if_started(paths):
        copies = [(FROM_TARGET, team.target), *((each.name, each.source) for each in team.origins)]
        for number, (name, source) in enumerate(copies):
            if source is not None and name not in params:
                copy = (paths.root / (f"from-{number}" if number else COPY)).absolute()
                source.copy(copy)
                params[name] = str(copy)
        variants = [
            {**asdict(each), "params": {**each.params, "start_from": params.get(each.name, "")}}
            for each in plan.variants
        ]
        base = {**plan.base, "opponents": {**plan.base["opponents"], "champion": params[FROM_TARGET]}}
        given = {**plan.given, "opponents.champion": params[FROM_TARGET]}
        group = plan.group or short_run_id(paths.id)
        row = {**asdict(plan), "base": base, "given": given, "variants": variants, "group": group}
        if observers is not None:
            write_observers(paths, observers)
    spec = new_spec("sweep", {"preset": PRESET, "sweep": asdict(plan_from(row))}, {})
    follower = job.start(paths, spec, as_json=as_json, live=True)
    assert follower is not None
    return follower


def plan_json(plan: SweepPlan) -> dict[str, Any]:
    row = {key: value for key, value in asdict(plan).items() if key not in ("base", "provenance")}
    return {**row, "planned_steps": plan.planned_steps}


def find(name: str) -> RunPaths:
    """Return the folder of a red team; ``ValueError`` for a job of another kind."""
    paths, _ = job.find_job(name, "sweep")
    read_report(paths)
    return paths


def follow(follower: Follower, *, detach: bool, as_json: bool) -> int:
    """Follow a red team until it ends or the user detaches, print its report, and return the exit code."""
    from echelon_cli.follow import show_next_steps
    from echelon_cli.redteam_tables import report_json, show_report

    def show(status: JobStatus) -> None:
        show_report(read_report(follower.paths))
        show_next_steps(status)

    def result() -> dict[str, Any]:
        return report_json(read_report(follower.paths))

    return job.follow(follower, detach, show, as_json=as_json, result=result)
