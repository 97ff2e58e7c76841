"""``echelon ablate``: train a complete run and variants with one change each, and compare their last evaluations.

The variants are the trials of a sweep without pruning: ordinary background runs, one after another or several at a
time, with their own curves, checkpoints and matches. Interrupting the command stops the sweep, which can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.commands.sweep import complete_sweeps
from echelon_cli.options import ConfigOption, JsonFlag, PresetOption, SetOption, complete_keys

if TYPE_CHECKING:
    from echelon.jobs.config_layers import ResolvedConfig
    from echelon.jobs.sweeps.plan import SweepPlan
    from echelon.runs import RunPaths
    from echelon_cli.follow import Follower

WHOLE = "whole"
"""Name of the unchanged run."""


def complete_ablations(incomplete: str) -> list[str]:
    """Return the ablations and baselines that start with ``incomplete``."""
    from echelon.config.ablations import ABLATIONS, BASELINES

    return [name for name in (*ABLATIONS, *BASELINES) if name.startswith(incomplete)]


def ablate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ABLATION]...",
            help="Components to remove, or baselines, one per variant; by default all that differ from the preset.",
            autocompletion=complete_ablations,
        ),
    ] = None,
    preset: PresetOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Train baselines: PPO with and without recurrence, MAPPO, imitation.")
    ] = False,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary", metavar="KEY=VALUE[,...]", help="Another variant; may be repeated.", autocompletion=complete_keys
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="Length of each run [learner agent-steps]; default: the preset's."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.0, help="Limit each run by wall time too [min], 0: none; default: none."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", min=1, help="Training seeds per variant, counted up from the configuration's; default: 1."
        ),
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option("--at-once", min=1, help="Runs trained at the same time; they share the cores; default: 1."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="SWEEP", help="Continue one that was stopped.", autocompletion=complete_sweeps
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when the sweep of the runs has started.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="List the variants without training them.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Train variants without one component each, or baselines. Compares their last evaluations."""
    from echelon.jobs.config_layers import ConfigError, parse_assignment
    from echelon_cli import sweep_job

    if resume:
        if any((names, preset, config, assignments, baselines, vary, steps, minutes, seeds, list_them)):
            raise ConfigError("--resume continues a sweep as it was planned, expected no plan; try only --at-once")
        return _follow(*_resumed(resume, at_once, as_json, quiet=not detach), detach, as_json)
    overrides: dict[str, Any] = {"max_minutes": minutes or 0.0}
    if steps is not None:
        overrides["total_steps"] = steps
    overrides |= dict(parse_assignment(text) for text in assignments or [])
    plan = variants(preset, Path(config) if config else None, overrides, names, vary or [], baselines=baselines)
    if list_them:
        found = [{"variant": name, "changes": changes} for name, (_, changes) in plan.items()]
        output.show_json(found) if as_json else _show_plan(plan)
        return output.DONE
    listed = sweep_plan(plan, seeds or 1, at_once or 1)
    return _follow(sweep_job.start(listed, as_json=as_json, quiet=not detach), listed, detach, as_json)


def _resumed(name: str, at_once: int | None, as_json: bool, *, quiet: bool) -> tuple[Follower, SweepPlan]:
    """Resume a sweep of listed variants; ``ConfigError`` for another one."""
    from echelon.jobs.config_layers import ConfigError
    from echelon.jobs.sweeps.plan import SweepPlan
    from echelon.runs import command
    from echelon_cli import sweep_job

    paths, spec = sweep_job.find_sweep(name)
    listed = SweepPlan.from_dict(spec.config.get("sweep"))
    if not listed.variants:
        again = command("sweep", "--resume", paths.id)
        raise ConfigError(f"sweep {paths.id!r} lists no variants; try: {again}")
    return sweep_job.resume(paths.id, as_json=as_json, quiet=quiet, at_once=at_once), listed


def _follow(follower: Follower, listed: SweepPlan, detach: bool, as_json: bool) -> int:
    """Follow a sweep of listed variants, print its results, and return the exit code."""
    from echelon.runs import command
    from echelon_cli import sweep_job

    if detach:
        return sweep_job.follow(follower, detach=True)
    found: list[dict[str, Any]] = []
    try:
        for result in results_of(follower.paths, listed, as_json):
            found.append(result)
    except KeyboardInterrupt:
        if not as_json:
            output.print_line()
            output.print_line(f"stopped; continue with: {command('ablate', '--resume', follower.paths.id)}")
            output.print_line("finished variants:")
    statistics = across_seeds(found) if listed.has_seeds else {}
    if as_json:
        output.show_json([{**result, "across_seeds": statistics.get(result["variant"])} for result in found])
    else:
        show(found)
        show_statistics(statistics)
        if found and not listed.has_seeds:
            output.print_line("one training seed each: the intervals are of its evaluation; try --seeds 3", style="dim")
    return output.DONE if all(result["last_win_rate"] is not None for result in found) else output.FAILED


Variants = dict[str, "tuple[ResolvedConfig, dict[str, Any]]"]
"""Name -> (resolved configuration, its differences from the unchanged run)."""


def variants(
    preset: str | None,
    file: Path | None,
    overrides: Mapping[str, Any],
    names: Sequence[str] | None,
    vary: Sequence[str],
    *,
    baselines: bool = False,
) -> Variants:
    """Return the variants, the unchanged run first; ``ConfigError`` for unknown ones and those without effect.

    Names are those of ablations, or with ``baselines`` of baselines.
    """
    from echelon.config.ablations import ABLATIONS, BASELINES
    from echelon.jobs.config_layers import ConfigError, did_you_mean, parse_assignment, resolve

    whole = resolve(preset, file, overrides)
    plan: Variants = {WHOLE: (whole, {})}
    kind, table, title = ("baseline", BASELINES, "{}") if baselines else ("ablation", ABLATIONS, "no {}")
    for name in names or ([] if vary else table):
        if name not in table:
            near, have = did_you_mean(name, table), ", ".join(table)
            raise ConfigError(f"{kind} {name!r} does not exist{near} (have: {have})")
        changes = _differing(table[name].changes(whole.config), whole.values)
        if changes:
            plan[title.format(name)] = (resolve(preset, file, {**overrides, **changes}), changes)
        elif names:
            has = "is" if baselines else "has no"
            raise ConfigError(f"{kind} {name!r} changes nothing: this configuration {has} {table[name].description}")
    for text in vary:
        changes = dict(parse_assignment(part) for part in text.split(","))
        plan[text] = (resolve(preset, file, {**overrides, **changes}), changes)
    return plan


def _differing(changes: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that differ from ``values``, with None written as ``none``."""
    effective = {key: value for key, value in changes.items() if values[key] != value}
    return {key: "none" if value is None else value for key, value in effective.items()}


def results_of(paths: RunPaths, listed: SweepPlan, as_json: bool) -> Iterator[dict[str, Any]]:
    """Yield the results of the trials of a running sweep of listed variants in order.

    An interrupt of the caller stops the running ones and starts no others.
    """
    from echelon.jobs import launch
    from echelon.jobs.sweeps.schedule import Journal
    from echelon.runs import RunPaths
    from echelon.telemetry.log import EventFollower

    journal, follower = Journal(), EventFollower(paths.trials)
    try:
        for number, variant in enumerate(listed.variants):
            is_announced = as_json
            while number not in journal.trials or not journal.trials[number].results:
                is_alive = launch.job_status(paths).is_alive
                for event in follower.poll():
                    journal.add(event)
                if not is_announced and number in journal.trials:
                    is_announced = True
                    output.print_line(f"{variant.name}, seed {variant.seed}", style="bold")
                if not is_alive and not (number in journal.trials and journal.trials[number].results):
                    status = launch.job_status(paths)
                    raise ValueError(f"sweep {paths.id!r} {status.state}: {status.reason}")
                time.sleep(launch.POLL_S)
            row = {"variant": variant.name, "changes": variant.changes, "seed": variant.seed}
            yield row | result_of(RunPaths(paths.root.parent / journal.trials[number].choice.run))
    finally:
        if launch.job_status(paths).is_alive:
            launch.stop(paths)


def sweep_plan(plan: Variants, seeds: int, at_once: int) -> SweepPlan:
    """Return the sweep that trains every variant on every seed completely."""
    from echelon.jobs.sweeps.plan import LISTED, SweepPlan, Variant
    from echelon_cli.sweep_job import threads_each

    whole = plan[WHOLE][0]
    variants = tuple(
        Variant(name=name, changes=changes, seed=resolved.config.seed + number)
        for name, (resolved, changes) in plan.items()
        for number in range(seeds)
    )
    return SweepPlan(
        base={**whole.nested(), "threads": threads_each(whole.config.threads, at_once)},
        provenance=whole.provenance,
        preset=whole.config.preset,
        given={key: whole.values[key] for key in whole.named if key in whole.values},
        variants=variants,
        sampler=LISTED,
        trials=len(variants),
        pruning="none",
        finalists=0,
        at_once=at_once,
    )


def result_of(paths: RunPaths) -> dict[str, Any]:
    """Return id, state, last evaluation and speed of a run."""
    from echelon.jobs.status import job_status
    from echelon.telemetry.snapshot import SnapshotFeed
    from echelon_cli.listing import job_json

    status = job_status(paths)
    _, snapshot = SnapshotFeed(paths.metrics).poll()
    last, update = (snapshot.evals[-1] if snapshot.evals else None), snapshot.update
    return {
        **job_json(paths),
        "state": status.state,
        "reason": status.reason,
        "global_step": snapshot.global_step,
        "steps_per_s": update.global_step / update.elapsed_s if update and update.elapsed_s > 0 else 0.0,
        "opponent": last.opponent if last else "",
        "weapon_prob": last.weapon_prob if last else None,
        "episodes": last.episodes if last else 0,
        "last_win_rate": last.win_rate if last and last.update else None,
        "win_low": last.win_low if last else None,
        "win_high": last.win_high if last else None,
        "sampled_win_rate": last.sampled_win_rate if last else None,
        "hp_margin": last.hp_margin if last else None,
    }


def across_seeds(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return per variant the interquartile mean of the last win rates over its training seeds, with its interval.

    ``improvement`` is the probability that a seed of the variant wins more than the same seed of the unchanged run,
    None for that run itself and without a common seed.
    """
    from echelon.jobs.sweeps import results

    rates: dict[str, dict[int, float]] = {}
    for result in found:
        if result["last_win_rate"] is not None:
            rates.setdefault(result["variant"], {})[result["seed"]] = result["last_win_rate"]
    statistics = {}
    for variant, (score, better) in results.across_seeds(rates, WHOLE).items():
        estimates = {"win_rate": score, "improvement": better}
        row = {name: None if estimate is None else estimate._asdict() for name, estimate in estimates.items()}
        statistics[variant] = {"seeds": len(rates[variant]), **row}
    return statistics


def show_statistics(statistics: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a line per variant with its statistics over the training seeds; nothing without any."""
    if not statistics:
        return
    from echelon_cli.sweep_tables import show_estimation

    right = ("seeds", "wins", "95 % interval", f"better than {WHOLE}", "95 % interval of that")
    rows = [
        (variant, str(row["seeds"]), *_estimate_cells(row["win_rate"]), *_estimate_cells(row["improvement"]))
        for variant, row in statistics.items()
    ]
    output.print_line()
    output.show_table(("variant", *right), rows, right=right)
    show_estimation("wins", WHOLE)


def _estimate_cells(estimate: Mapping[str, float] | None) -> tuple[str, str]:
    """Return a percentage and its interval as text; the interval of a single seed is unknown."""
    if estimate is None:
        return "", ""
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    return output.percent(value), f"{output.percent(low)} to {output.percent(high)}" if low == low else "-"


def show(found: Sequence[Mapping[str, Any]]) -> None:
    """Print a line per run, and the evaluation task."""
    right = ("seed", "steps", "steps/s", "wins", "95 % interval", "hp margin")
    rows = [(result["variant"], *_cells(result), result["id"]) for result in found]
    output.show_table(("variant", *right, "run"), rows, right=right)
    measured = next((result for result in found if result["last_win_rate"] is not None), None)
    if measured:
        how = f"trigger probability {measured['weapon_prob']:g}, {measured['episodes']} episodes on held-out seeds"
        output.print_line(f"against {measured['opponent']}, {how}, both sides")


def _cells(result: Mapping[str, Any]) -> tuple[str, ...]:
    head = (str(result["seed"]), output.count(result["global_step"]), output.count(result["steps_per_s"]))
    if result["last_win_rate"] is None:
        return (*head, result["state"], "", "")
    interval = f"{output.percent(result['win_low'])} to {output.percent(result['win_high'])}"
    return (*head, output.percent(result["last_win_rate"]), interval, output.figure(result["hp_margin"]))


def _show_plan(plan: Variants) -> None:
    rows = [
        (name, ", ".join(f"{key}={value}" for key, value in changes.items())) for name, (_, changes) in plan.items()
    ]
    output.show_table(("variant", "changes"), rows)
