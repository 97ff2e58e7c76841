"""Sweep jobs of ``echelon sweep``: plan, start, resume and follow them."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.files import reason_of
from echelon.jobs.config_layers import MAX_FILE_BYTES, ConfigError, flatten, parse_toml, resolve
from echelon.jobs.launchers import parse_launcher
from echelon.jobs.spec import new_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.jobs.sweeps.plan import SweepPlan, configuration, plan_from, variants_of
from echelon.runs import LATEST, RunNotFoundError, RunPaths, command, create_run, list_runs
from echelon.state_files import read_bounded
from echelon_cli import job, output
from echelon_cli.tui.format import short_run_id

if TYPE_CHECKING:
    from echelon.jobs.observers import Observers
    from echelon_cli.follow import Follower

SECTIONS = ("sweep", "vary", "config")
DERIVED = ("base", "provenance", "preset", "given", "vary", "variants")
"""Fields of ``SweepPlan`` that other sections and options determine."""


def plan_of(
    file: Path | None, preset: str | None, overrides: Mapping[str, Any], vary: Sequence[str], options: Mapping[str, Any]
) -> SweepPlan:
    """Return the plan of a file and of options, which precede it; ``ConfigError`` where it is invalid.

    ``options`` has fields of ``SweepPlan`` as the section [sweep] of a file may have them, also ``steps`` and
    ``ablate``.
    """
    from echelon.jobs.sweeps.space import corners, distribution, specs_of, split_spec
    from echelon_cli.commands.train import default_preset

    sections = read_file(file) if file else {}
    config = flatten(sections.get("config", {}))
    settings = {**sections.get("sweep", {}), **options}
    allowed = ("steps", "ablate", *(f.name for f in fields(SweepPlan) if f.name not in DERIVED))
    if unknown := set(settings) - {*allowed}:
        expected = ", ".join(allowed)
        raise ConfigError(f"sweep file {str(file)!r} sets {min(unknown)!r} in [sweep], expected one of {expected}")
    specs = specs_of(sections.get("vary", {})) | dict(map(split_spec, vary))
    preset = preset or config.pop("preset", None)
    given = {"max_minutes": 0.0, **config, **overrides}
    given.pop("preset", None)
    if "steps" in settings:
        given["total_steps"] = settings.pop("steps")
    whole = resolve(preset, None, given, fallback=default_preset(given.get("device")))
    words = settings.pop("ablate", ())
    plan = plan_from({
        "base": whole.nested(),
        "provenance": whole.provenance,
        "preset": whole.config.preset,
        "given": given,
        "vary": specs,
        "variants": variants_of(whole, words) if words else (),
        **({"rungs": 1} if words else {}),
        **settings,
    })  # fmt: skip
    plan = replace(plan, base={**plan.base, "threads": threads_each(whole.config.threads, plan)})
    for key, spec in specs.items():
        for value in corners(distribution(key, spec)):
            configuration(plan, {key: value})
    for variant in plan.variants:
        configuration(plan, variant.params)
    if specs and (plan.sampler == "grid" or _has_few_points(plan)):
        return replace(plan, sampler="grid", trials=len(plan.grid()))
    return plan


def _has_few_points(plan: SweepPlan) -> bool:
    """Whether the options have no more combinations than the search has trials, which would repeat some."""
    if any(":points" in spec for spec in plan.vary.values()):
        return False
    with contextlib.suppress(ConfigError):
        return len(plan.grid()) <= plan.trials
    return False


def threads_each(threads: int, plan: SweepPlan) -> int:
    """Return the threads of each trial: those set, else the cores of the launcher or a share of this machine's."""
    from echelon.machine import cores

    if threads:
        return threads
    if plan.launcher:
        return parse_launcher(plan.launcher).cpus
    return max(1, cores() // plan.at_once) if plan.at_once > 1 else 0


def read_file(file: Path) -> dict[str, Any]:
    """Return the sections of a sweep file; ``ConfigError`` where it is none."""
    try:
        found = parse_toml(read_bounded(file, MAX_FILE_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"sweep file {str(file)!r} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"sweep file {str(file)!r} cannot be read: {reason_of(error)}") from None
    for name, value in found.items():
        if name not in SECTIONS or not isinstance(value, dict):
            raise ConfigError(f"sweep file {str(file)!r} contains {name!r}, expected sections {', '.join(SECTIONS)}")
    return found


def start(plan: SweepPlan, observers: Observers | None = None, *, as_json: bool = False) -> Follower:
    """Start a sweep and return its follower; its runs are grouped under its name unless the plan names a group."""
    from echelon.jobs.sweeps.worker import PRESET

    paths = create_run(PRESET)
    plan = replace(plan, group=plan.group or short_run_id(paths.id))
    return launch(paths, {"preset": PRESET, "sweep": asdict(plan)}, observers, as_json, is_new=True)


def resume(
    name: str, observers: Observers | None = None, at_once: int | None = None, *, as_json: bool = False
) -> Follower:
    """Resume a sweep that was stopped or killed; ``at_once`` changes how many trials run at the same time."""
    paths, spec = find_sweep(name)
    if job_status(paths).state == "completed":
        see = command("sweep", "show", paths.id)
        raise ConfigError(f"{paths.id!r} is complete, expected a job that has stopped; see: {see}")
    config = spec.config
    if at_once is not None:
        plan = plan_from({**asdict(plan_from(config.get("sweep"))), "at_once": at_once})
        config = {**config, "sweep": asdict(plan)}
    return launch(paths, config, observers, as_json)


def launch(
    paths: RunPaths, config: dict[str, Any], observers: Observers | None, as_json: bool, is_new: bool = False
) -> Follower:
    """Launch the process of a sweep; notifications report the sweep, mirrors the curves of its trials."""
    from echelon.jobs.observers import write_observers

    with job.kept_if_started(paths, is_new):
        if observers is not None:
            write_observers(paths, observers)
    follower = job.start(paths, new_spec("sweep", config, {}), is_new=is_new, as_json=as_json, live=True)
    assert follower is not None
    return follower


def find_sweep(name: str) -> tuple[RunPaths, Any]:
    """Return folder and spec of a sweep; ``latest`` is the newest one. ``ConfigError`` for a run of another kind."""
    if name == LATEST and not list_runs(kind="sweep"):
        raise RunNotFoundError(
            "no sweep in the runs folder; start one: echelon sweep start --vary ppo.lr=1e-5..1e-3:log"
        )
    return job.find_job(name, "sweep")


def follow(follower: Follower, *, detach: bool, as_json: bool) -> int:
    """Follow a sweep until it ends or the user detaches, print its results, and return the exit code."""
    from echelon.jobs.sweeps.results import read_results
    from echelon_cli.follow import show_next_steps
    from echelon_cli.sweep_tables import show_results

    def show(status: JobStatus) -> None:
        show_results(read_results(follower.paths))
        show_next_steps(status)

    return job.follow(follower, detach, show, as_json=as_json)


def plan_lines(plan: SweepPlan) -> list[str]:
    """Return what a sweep will do, in lines."""
    lines = []
    if plan.vary:
        steps = ", ".join(output.count(steps) for steps in plan.rung_steps)
        pruned = f", one of {plan.reduction} goes on" if plan.rungs > 1 else ""
        what = f"{plan.trials} trials ({plan.sampler}) of preset {plan.preset}"
        lines.append(f"{what}, {plan.metric} at {steps} steps{pruned}")
    if plan.repeated:
        what = f"{len(plan.variants)} variants" if plan.variants else f"the best {min(plan.finalists, plan.trials)}"
        unchanged = "" if plan.variants else " and the unchanged configuration"
        lines.append(f"{what}{unchanged} of preset {plan.preset} with {plan.seeds} seeds each")
    where = f" through {plan.launcher}" if plan.launcher else ""
    lines.append(f"at most {output.count(plan.planned_steps)} steps in all, {plan.at_once} at once{where}")
    return lines
