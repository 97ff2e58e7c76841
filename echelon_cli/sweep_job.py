"""Sweep jobs of ``echelon sweep`` and ``echelon ablate``: prepare, start, resume and follow them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.files import reason_of
from echelon_cli import output

if TYPE_CHECKING:
    from echelon.jobs.launchers import Launcher
    from echelon.jobs.observers import Observers
    from echelon.jobs.status import JobStatus
    from echelon.jobs.sweeps.plan import SweepPlan
    from echelon.runs import RunPaths
    from echelon_cli.follow import Follower

PLANNED = (
    "sampler", "trials", "seed", "metric", "pruning", "rungs", "reduction", "bracket", "finalists", "final_seeds",
    "at_once", "group", "launcher",
)  # fmt: skip
"""Fields of ``SweepPlan`` that the section [sweep] of a file may set; also ``steps`` and ``minutes``."""
SECTIONS = ("sweep", "vary", "config")


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What the user asks for; None leaves it to the file or the default."""

    preset: str | None = None
    overrides: Mapping[str, Any]
    vary: tuple[str, ...] = ()
    fields: Mapping[str, Any]
    """Values of ``PLANNED``, ``steps`` and ``minutes``."""


def plan_of(file: Path | None, options: SweepOptions) -> SweepPlan:
    """Return the plan of a file and of options, which precede it; ``ConfigError`` where it is invalid."""
    from echelon.jobs.config_layers import ConfigError, flatten
    from echelon.jobs.sweeps.plan import SweepPlan, prepared
    from echelon.jobs.sweeps.samplers import sampler_of
    from echelon.jobs.sweeps.space import dimensions_of, parse_dimension

    sections = read_file(file) if file else {}
    config = flatten(sections.get("config", {}))
    settings = {**sections.get("sweep", {}), **{k: v for k, v in options.fields.items() if v is not None}}
    if unknown := set(settings) - {*PLANNED, "steps", "minutes"}:
        expected = ", ".join((*PLANNED, "steps", "minutes"))
        raise ConfigError(
            f"sweep file {str(file)!r} sets {sorted(unknown)[0]!r} in [sweep], expected one of {expected}"
        )
    dimensions = {d.key: d for d in dimensions_of(sections.get("vary", {}))}
    dimensions |= {d.key: d for d in map(parse_dimension, options.vary)}
    preset = options.preset or config.pop("preset", None)
    config.pop("preset", None)
    steps, minutes = settings.pop("steps", None), settings.pop("minutes", None)
    overrides = {**config, **options.overrides, "max_minutes": minutes or 0.0}
    if steps is not None:
        overrides["total_steps"] = steps
    if minutes:
        if settings.get("pruning", "none") != "none":
            raise ConfigError(f"pruning is {settings['pruning']!r}, expected none where a trial is limited in minutes")
        settings["pruning"] = "none"
    base = base_of(preset, overrides, settings.get("at_once", 1), settings.get("launcher", ""))
    plan = prepared(SweepPlan(**base, dimensions=tuple(dimensions.values()), **settings))
    sampler_of(plan).choose()
    return plan


def read_file(file: Path) -> dict[str, Any]:
    """Return the sections of a sweep file; ``ConfigError`` where it is none."""
    import tomllib

    from echelon.jobs.config_layers import MAX_FILE_BYTES, ConfigError, parse_toml
    from echelon.state_files import read_bounded

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


def base_of(preset: str | None, overrides: Mapping[str, Any], at_once: Any, launcher: Any = "") -> dict[str, Any]:
    """Return the fields of a plan that describe the configuration before a trial's options.

    Trials that run at once share the cores; of a launcher each has cores of its own.
    """
    from echelon.jobs.config_layers import resolve
    from echelon_cli.commands.train import default_preset

    resolved = resolve(preset, None, overrides, fallback=default_preset(overrides.get("device")))
    config = resolved.config
    if isinstance(launcher, str) and launcher:
        threads = config.threads or launched(launcher).cpus
    else:
        threads = threads_each(config.threads, at_once if type(at_once) is int else 1)
    return {
        "base": {**resolved.nested(), "threads": threads},
        "provenance": resolved.provenance,
        "preset": config.preset,
        "given": dict(overrides),
    }


def launched(text: str) -> Launcher:
    """Return the launcher of a text; ``ConfigError`` where it is none."""
    from echelon.jobs.config_layers import ConfigError
    from echelon.jobs.launchers import parse_launcher

    try:
        return parse_launcher(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def threads_each(threads: int, at_once: int) -> int:
    """Return the threads of each of ``at_once`` parallel runs: ``threads`` if set, else a share of the cores."""
    if threads or at_once <= 1:
        return threads
    from echelon.sim.backend import default_threads

    return max(1, default_threads() // at_once)


def start(
    plan: SweepPlan, observers: Observers | None = None, *, as_json: bool = False, quiet: bool = False
) -> Follower:
    """Start a sweep and return its follower; its runs are grouped under its name unless the plan names a group.

    Notifications report the sweep, mirrors the curves of its trials.
    """
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.launch import launch
    from echelon.jobs.observers import write_observers
    from echelon.jobs.spec import new_spec
    from echelon.jobs.sweeps.worker import PRESET
    from echelon.runs import create_run
    from echelon_cli.follow import Follower
    from echelon_cli.tui.format import short_run_id

    paths = create_run(PRESET)
    plan = replace(plan, group=plan.group or short_run_id(paths.id))
    follower = Follower(paths, as_json=as_json, quiet=quiet, live=True)
    try:
        if observers is not None:
            write_observers(paths, observers)
        launch(paths, new_spec("sweep", {"preset": PRESET, "sweep": plan.as_dict()}, {}), KINDS["sweep"])
    except ValueError:
        if not paths.metrics.exists():
            with contextlib.suppress(OSError):
                shutil.rmtree(paths.root)
        raise
    return follower


def resume(
    name: str,
    observers: Observers | None = None,
    *,
    as_json: bool = False,
    quiet: bool = False,
    at_once: int | None = None,
) -> Follower:
    """Resume a sweep that was stopped or killed; ``at_once`` changes how many trials run at the same time."""
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.launch import launch
    from echelon.jobs.observers import write_observers
    from echelon.jobs.spec import new_spec
    from echelon.jobs.sweeps.plan import SweepPlan
    from echelon_cli.follow import Follower

    paths, spec = find_sweep(name)
    config = spec.config
    if at_once is not None:
        plan = replace(SweepPlan.from_dict(config.get("sweep")), at_once=at_once)
        config = {**config, "sweep": plan.as_dict()}
    follower = Follower(paths, as_json=as_json, quiet=quiet, live=True)
    if observers is not None:
        write_observers(paths, observers)
    launch(paths, new_spec("sweep", config, spec.provenance), KINDS["sweep"])
    return follower


def find_sweep(name: str) -> tuple[RunPaths, Any]:
    """Return folder and spec of a sweep; ``latest`` is the newest one. ``ConfigError`` for a run of another kind."""
    from echelon.jobs.config_layers import ConfigError
    from echelon.jobs.spec import read_spec
    from echelon.runs import RunNotFoundError, find_run, list_runs, read_json

    if name == "latest":
        found = next((run for run in list_runs() if (read_json(run.spec) or {}).get("kind") == "sweep"), None)
        if found is None:
            raise RunNotFoundError("no sweep in the runs folder; start one: echelon sweep --vary ppo.lr=1e-5..1e-3:log")
        return found, read_spec(found)
    paths = find_run(name)
    spec = read_spec(paths)
    if spec.kind != "sweep":
        raise ConfigError(f"run {paths.id!r} is of kind {spec.kind!r}, expected a sweep")
    return paths, spec


def follow(follower: Follower, *, detach: bool) -> int:
    """Follow a sweep until it ends or the user detaches, print its results, and return the exit code."""
    from echelon.jobs.status import job_status
    from echelon_cli.listing import job_json

    paths, as_json, before = follower.paths, follower.as_json, follower.snapshot.start
    if not as_json:
        output.print_line(f"sweep {paths.id}", style="bold")
    try:
        status = follower.follow(lambda _, snapshot: detach and snapshot.start is not before)
    except KeyboardInterrupt:
        status = job_status(paths)
    if as_json:
        output.show_json(job_json(paths, status), indent=None)
    if status.is_alive:
        if not as_json:
            _show_detached(paths)
        return output.DONE
    return _finish(paths, status, as_json)


def _show_detached(paths: RunPaths) -> None:
    from echelon.runs import command
    from echelon_cli.listing import shown_id

    name = shown_id(paths.id)
    output.print_line(f"{paths.id} continues in the background.")
    output.print_line(f"  trials: {command('sweep', 'show', name)}    screen: {command('dash', name)}")
    output.print_line(f"  stop:   {command('runs', 'stop', name)}    log: {command('runs', 'logs', '-f', name)}")


def _finish(paths: RunPaths, status: JobStatus, as_json: bool) -> int:
    from echelon.jobs.sweeps.results import read_results
    from echelon_cli.follow import next_steps
    from echelon_cli.sweep_tables import show_results

    if not as_json:
        show_results(read_results(paths))
        for line in next_steps(status):
            output.print_line(line, style="dim")
    if status.exit_code not in (output.DONE, output.STOPPED):
        message = f"sweep {status.id!r} {status.state}: {status.reason}"
        output.show_error(message, code=status.exit_code, as_json=as_json)
    return status.exit_code


def plan_lines(plan: SweepPlan) -> list[str]:
    """Return what a sweep will do, in lines."""
    rungs = ", ".join(output.count(steps) for steps in plan.rung_steps)
    pruned = "" if plan.pruning == "none" else f", of {plan.reduction} one goes on"
    at_once = " without waiting for the others" * (plan.pruning == "asha")
    what = f"{plan.trials} trials ({plan.sampler}) of preset {plan.preset}"
    lines = [f"{what}, {plan.metric} at {rungs} steps{pruned}{at_once}"]
    if plan.final_runs and not plan.variants:
        lines.append(
            f"then the best {min(plan.finalists, plan.trials)} and the unchanged one, {plan.final_seeds} seeds each"
        )
    where = f" through {plan.launcher}" if plan.launcher else ""
    lines.append(f"at most {output.count(plan.planned_steps)} steps in all, {plan.at_once} at once{where}")
    return lines
