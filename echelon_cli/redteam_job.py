"""Red team jobs of ``echelon redteam``: sweeps whose variants attack a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon import champion
from echelon.config.opponents import LADDER, MixConfig, level_of
from echelon.config.presets import get_preset
from echelon.jobs.config_layers import DEFAULT_PRESET, ConfigError, default_values, flatten, resolve, unflatten
from echelon.jobs.evaluations import PolicySource, open_policy
from echelon.jobs.spec import new_spec, read_spec
from echelon.jobs.sweeps.plan import Attack, SweepPlan, Variant, configuration, plan_from, set_words
from echelon.jobs.sweeps.results import read_report
from echelon.runs import LATEST, RunNotFoundError, RunPaths, command, create_run, find_run, list_runs
from echelon_cli import job, output, sweep_job
from echelon_cli.tui.format import short_run_id

if TYPE_CHECKING:
    from echelon.jobs.observers import Observers
    from echelon.jobs.status import JobStatus
    from echelon_cli.follow import Follower

PRESET, LEAGUE = "redteam", "league"
FROM_TARGET, FROM_VALUE, FROM_NOTHING = "target", "value", "nothing"
COPY = "target"
SHARES = "10,25,50,100"
KEPT = ("num_envs", "bank_maps", "bank_spare", "bank_refresh_every", "bank_refresh_maps")
NORMS = ("ppo.obs_norm", "ppo.value_norm", "ppo.aux_coef")
"""What attackers take from the configuration of the target besides game and network.

The learner is that of the default preset whatever they attack, so that curves compare; the rest are defaults.
"""
ATTACKER = {
    "ppo.lr": 3e-4, "ppo.lr_schedule": "none", "ppo.kl_lr_target": 0.01, "opponents.mix.scripted": 0.0,
    "opponents.mix.champion": 1.0, "eval.skill": "champion", "eval.every_updates": 0, "eval.at_start": True,
    "eval.sampled": True, "eval.record_seeds": 4,
}  # fmt: skip
"""Values of all attackers. Those from the target begin where it ended, so their learning rate is small and bounded."""
OWN = ("total_steps", "start_from", "opponents.champion", "eval.skill", "eval.every_updates", "pause_steps", "nproc")
"""Fields that the red team decides alone."""
NEW_NETWORK = {"start_from": "", "ppo.lr": 1e-3}


def prepare(
    name: str,
    root: Path,
    *,
    shares: str = SHARES,
    steps: int | None = None,
    origins: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    fresh_seeds: int = 200,
    **fields: Any,
) -> tuple[SweepPlan, dict[Path, PolicySource]]:
    """Return the plan of a red team against the policy ``name``, and the policies to copy into its folder ``root``.

    ``fields`` are those of ``SweepPlan``. ``ValueError`` in one line where a policy cannot be attacked, or attack.
    """
    target, copy = _open(name, "target"), root / COPY
    own = int(target.meta.get("global_step", 0))
    total = steps or own
    if total < 1:
        raise ConfigError(f"policy {name!r} has no record of its training steps, expected --steps N")
    rungs = tuple(sorted({math.ceil(share * total) for share in shares_of(shares)}))
    own_values = {"total_steps": rungs[-1], "opponents.champion": str(copy)}
    base, copies = _base(target.meta, {**(overrides or {}), **own_values}), {copy: target}
    starts: dict[str, dict[str, Any]] = {
        FROM_TARGET: {"start_from": str(copy)},
        FROM_VALUE: {"start_from": str(copy), "opponents.value_attack": 1.0},
        FROM_NOTHING: NEW_NETWORK,
    }
    variants = []
    for each in dict.fromkeys(origins or default_origins(target)):
        if each not in starts:
            source, other = _opponent(each, target), root / f"from-{len(copies)}"
            copies[other], starts[each] = source, {"start_from": str(other), **_network(source.meta, base)}
        variants.append(Variant(name=each, params=starts[each]))
    preset = flatten(asdict(get_preset(base["preset"])))
    name = find_run(name).id if name == LATEST else name
    options = ["--steps", total, "--shares", shares, "--seeds", fields.get("seeds", 1), "--report-seeds", fresh_seeds]
    options += [word for each in variants for word in ("--from", each.name)] + set_words(overrides or {})
    values = {
        "base": unflatten(base), "preset": base["preset"], "variants": variants, "rungs": len(rungs), **fields,
        "given": {key: value for key, value in base.items() if key not in ("preset", "seed") and preset[key] != value},
        "attack": Attack(target=name, policy=COPY, checkpoint=str(target.meta["id"]), steps=own, rungs=rungs,
                         seeds=fresh_seeds, options=tuple(map(str, options))),
    }  # fmt: skip
    plan = plan_from(values)
    plan = replace(plan, base={**plan.base, "threads": sweep_job.threads_each(base["threads"], plan)})
    for variant in plan.variants:
        configuration(plan, variant.params)
    return plan, copies


def shares_of(text: str) -> list[float]:
    """Return the fractions in a list of percentages such as ``10,25,50,100``."""
    try:
        found = [float(part) / 100 for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < share <= 100 for share in found):
        raise ConfigError(f"--shares is {text!r:.80}, expected percentages above 0 (always measured); try {SHARES}")
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


def _opponent(name: str, target: PolicySource) -> PolicySource:
    """Return a policy of the target's game that attackers start from; ``ConfigError`` for one of another game."""
    source = _open(name, "--from")
    found, expected = (_interface(each.meta) for each in (source, target))
    if found != expected:
        texts = [f"{columns} columns, {layout} layout" for columns, layout in (found, expected)]
        raise ConfigError(f"--from {name!r} plays another game than the target: {texts[0]}, expected {texts[1]}")
    return source


def _interface(meta: Mapping[str, Any]) -> tuple[Any, ...]:
    from echelon.training.eval_plan import environment_of, interface_of

    return interface_of(environment_of(dict(meta)), int(meta.get("obs_dim", 0)))


def _base(meta: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of attackers by dotted key: environment, network and batch are those of the target."""
    from echelon.training.eval_plan import environment_of

    known, args = default_values(), flatten(meta.get("args") or {})
    kept = flatten(asdict(get_preset(DEFAULT_PRESET).ppo), "ppo.")
    kept |= {k: v for k, v in args.items() if k in known and (k in KEPT + NORMS or k.startswith("model."))}
    kept |= flatten(asdict(environment_of(dict(meta))), "env.") | flatten(meta["model_cfg"], "model.")
    kept |= {"ppo.gamma": kept["env.gamma"], "preset": DEFAULT_PRESET}
    values = {**known, **{f"opponents.mix.{name}": value for name, value in asdict(MixConfig()).items()}, **kept}
    return resolve(base=unflatten({**values, **ATTACKER}), overrides=overrides).values


def _network(meta: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a policy's network that differ from those of the target's."""
    network = flatten(meta["model_cfg"], "model.")
    if bool(meta.get("predict")) != (base["ppo.aux_coef"] > 0):
        network["ppo.aux_coef"] = 0.01 * bool(meta.get("predict"))  # the head that predicts observations
    return {key: value for key, value in network.items() if base.get(key, value) != value}


def start(name: str, observers: Observers | None = None, *, as_json: bool = False, **options: Any) -> Follower:
    """Start a red team with the ``options`` of ``prepare`` and return its follower; it keeps copies of the policies."""
    from echelon_cli.redteam_tables import plan_lines

    paths = create_run(PRESET)
    with job.kept_if_started(paths):
        plan, copies = prepare(name, paths.root.absolute(), **options)
        for copy, source in copies.items():
            source.copy(copy)
    for line in () if as_json else plan_lines(plan):
        output.print_line(line, style="dim")
    plan = replace(plan, group=short_run_id(paths.id))
    return sweep_job.launch(paths, {"preset": PRESET, "sweep": asdict(plan)}, observers, as_json, is_new=True)


def harden(name: str, steps: int | None, overrides: Mapping[str, Any], *, as_json: bool = False) -> Follower:
    """Start a league run of ``steps``, default the target's, from a red team's target against its attackers."""
    from echelon.arena.submit import submit
    from echelon_cli.arena_job import open_league

    paths = find(name)
    plan, report = plan_from(read_spec(paths).config["sweep"]), read_report(paths)
    trained = [each for each in report.attackers if each.rates]
    if not trained:
        raise ConfigError(f"red team {paths.id!r} has evaluated no attacker yet, expected one")
    game = {f"{section}.{key}": x for section in ("env", "model") for key, x in flatten(plan.base[section]).items()}
    game |= {key: plan.base[key] for key in KEPT}
    base = {**flatten(asdict(get_preset(LEAGUE))), **game, "ppo.gamma": game["env.gamma"], "max_minutes": 0.0}
    base |= {"total_steps": steps or report.attack.steps or report.attack.rungs[-1], "device": plan.base["device"]}
    fixed = {"start_from": str((paths.root / report.attack.policy).absolute())}
    resolved, run = resolve(base=unflatten(base), overrides={**overrides, **fixed}), create_run(LEAGUE)
    with job.kept_if_started(run):
        with open_league(create=True) as store:
            for each in trained:
                label = f"{short_run_id(paths.id)} {each.name}"
                submit(store, paths.root.parent / each.run, kind="exploiter", label=label, target=run.id)
        follower = job.start(run, new_spec("train", resolved.nested(), resolved.provenance), as_json=as_json)
    assert follower is not None
    if not as_json:
        told = f"{output.count(resolved.values['total_steps'])} steps against {len(trained)} attackers"
        again = command("redteam", run.id, *(report.attack.options or ("--steps", report.attack.rungs[-1])))
        output.print_line(f"{told}; then attack it alike: {again}", style="dim")
    return follower


def find(name: str) -> RunPaths:
    """Return the folder of a red team, for ``latest`` the newest; ``ValueError`` for a job of another kind."""
    sweeps = list_runs(kind="sweep") if name == LATEST else []
    name = next((run.id for run in sweeps if read_spec(run).config.get("preset") == PRESET), name)
    if name == LATEST:
        raise RunNotFoundError("no red team in the runs folder; start one: echelon redteam RUN")
    paths, _ = job.find_job(name, "sweep")
    read_report(paths)
    return paths


def follow(follower: Follower, *, detach: bool, as_json: bool) -> int:
    """Follow a red team until it ends or the user detaches, print its report, and return the exit code."""
    from echelon_cli.follow import show_next_steps
    from echelon_cli.redteam_tables import show_report

    def show(status: JobStatus) -> None:
        show_report(read_report(follower.paths))
        show_next_steps(status)

    return job.follow(follower, detach, show, as_json=as_json, result=lambda: asdict(read_report(follower.paths)))
