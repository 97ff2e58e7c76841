"""``echelon sweep``: search over configuration options with background runs, and show what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from echelon_cli import output
from echelon_cli.foreign_text import completable
from echelon_cli.options import (
    CHOICES,
    JsonFlag,
    LauncherOption,
    MirrorOption,
    NotifyOption,
    SetOption,
    TrainedPresetOption,
    complete_keys,
    one_of,
)
from echelon_cli.usage import usage_errors

START = "start"


class StartsByDefault(TyperGroup):
    """A group in which ``echelon sweep FILE`` and ``echelon sweep --vary ...`` mean ``echelon sweep start ...``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [START, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=StartsByDefault,
    help="Search over configuration options with pruned runs. echelon sweep FILE starts one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def complete_sweeps(incomplete: str) -> list[str]:
    """Return the ids of sweeps that start with ``incomplete``."""
    from echelon.runs import list_runs
    from echelon_cli.tui.format import short_run_id

    ids = completable(run.id for run in list_runs() if "-sweep-" in run.id)
    return [name for name in (*ids, *(map(short_run_id, ids) if incomplete else ())) if name.startswith(incomplete)]


@app.command(START)
def start(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="TOML file with sections [sweep], [vary] and [config].")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=VALUES",
            help="Vary an option: A,B,C or LOW..HIGH, with :log, :step=S or :points=N after it; may be repeated.",
            autocompletion=complete_keys,
        ),
    ] = None,
    preset: TrainedPresetOption = None,
    assignments: SetOption = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler",
            metavar="NAME",
            help="Sampler: random, sobol, grid, tpe or cma; default: random.",
            autocompletion=one_of(*CHOICES["sampler"]),
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", help="Trials of the search; default: 16.")] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Length of a complete trial [learner agent-steps]; default: the preset's."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="Limit trials by wall time instead [min]; without pruning; default: none."),
    ] = None,
    pruning: Annotated[
        str | None,
        typer.Option(
            "--pruning",
            metavar="NAME",
            help="Pruning: halving (rungs wait), asha or none; default: halving.",
            autocompletion=one_of(*CHOICES["pruning"]),
        ),
    ] = None,
    rungs: Annotated[int | None, typer.Option("--rungs", help="Evaluations that prune trials; default: 3.")] = None,
    reduction: Annotated[
        int | None, typer.Option("--reduction", help="Of this number of trials at a rung one goes on; default: 3.")
    ] = None,
    bracket: Annotated[
        int | None, typer.Option("--bracket", help="Trials chosen together; default: all, 8 of tpe and cma.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Metric: win_rate, sampled_win_rate, hp_margin or mean_return; default: win_rate.",
            autocompletion=one_of(*CHOICES["metric"]),
        ),
    ] = None,
    finalists: Annotated[
        int | None, typer.Option("--finalists", help="Best trials repeated with other seeds; default: 3.")
    ] = None,
    final_seeds: Annotated[
        int | None, typer.Option("--final-seeds", help="Training seeds of each finalist; default: 3.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the sampler; default: 0.")] = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", help="Trials trained at the same time; they share the cores; default: 1.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="Group of the trials' runs; default: the sweep's name."),
    ] = None,
    launcher: LauncherOption = None,
    notify: NotifyOption = None,
    mirror: MirrorOption = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="SWEEP", help="Continue a sweep.", autocompletion=complete_sweeps)
    ] = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Show what would be done, and start nothing.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return when the sweep has started.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Start a sweep in the background and follow it; Ctrl-C detaches."""
    from echelon.jobs.config_layers import ConfigError, parse_assignment
    from echelon.jobs.observers import requested
    from echelon_cli import sweep_job

    with usage_errors():
        observers = requested(notify or (), mirror or ())
    fields = {
        "sampler": sampler, "trials": trials, "steps": steps, "minutes": minutes, "pruning": pruning, "rungs": rungs,
        "reduction": reduction, "bracket": bracket, "metric": metric, "finalists": finalists,
        "final_seeds": final_seeds, "seed": seed, "at_once": at_once, "group": group, "launcher": launcher,
    }  # fmt: skip
    if resume:
        given = [name for name, value in fields.items() if value is not None and name != "at_once"]
        if given or file or vary or preset or assignments:
            what = given[0] if given else "a plan"
            raise ConfigError(f"--resume continues a sweep as it was planned, expected no {what}; try only --at-once")
        return sweep_job.follow(sweep_job.resume(resume, observers, as_json=as_json, at_once=at_once), detach=detach)
    options = sweep_job.SweepOptions(
        preset=preset,
        overrides=dict(parse_assignment(text) for text in assignments or []),
        vary=tuple(vary or ()),
        fields=fields,
    )
    plan = sweep_job.plan_of(Path(file) if file else None, options)
    if plan_only:
        return _show_plan(plan, as_json)
    if not as_json:
        for line in sweep_job.plan_lines(plan):
            output.print_line(line, style="dim")
    return sweep_job.follow(sweep_job.start(plan, observers, as_json=as_json), detach=detach)


def _show_plan(plan: Any, as_json: bool) -> int:
    from echelon_cli import sweep_job

    values = {dimension.key: dimension.text() for dimension in plan.dimensions}
    if as_json:
        row = {key: value for key, value in plan.as_dict().items() if key not in ("base", "provenance", "variants")}
        facts = {"rung_steps": plan.rung_steps, "planned_steps": plan.planned_steps, "final_runs": plan.final_runs}
        output.show_json({**row, **facts, "dimensions": values})
        return output.DONE
    output.show_table(("option", "values"), list(values.items()))
    for line in sweep_job.plan_lines(plan):
        output.print_line(line)
    return output.DONE


@app.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="SWEEP", help="Id or part of it; default: the newest.", autocompletion=complete_sweeps),
    ] = "latest",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Trials shown; default: all.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show trials, finalists, importance of options, the best one."""
    from echelon.jobs.status import job_status
    from echelon.jobs.sweeps.results import read_results
    from echelon_cli import sweep_job, sweep_tables

    paths, _ = sweep_job.find_sweep(name)
    results, status = read_results(paths), job_status(paths)
    if as_json:
        output.show_json({**sweep_tables.results_json(results), "state": status.state, "folder": str(paths.root)})
        return output.DONE
    output.print_line(
        f"sweep {paths.id}: {status.state}, {output.percent(results.progress)} of its steps", style="bold"
    )
    sweep_tables.show_results(results, limit=limit)
    return output.DONE
