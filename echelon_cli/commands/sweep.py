"""``echelon sweep``: search over configuration options, or compare variants, with background runs; show the results."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from echelon.jobs.config_layers import ConfigError
from echelon.jobs.status import job_status
from echelon.runs import list_runs
from echelon_cli import options, output, sweep_job, sweep_tables
from echelon_cli.foreign_text import completable
from echelon_cli.options import CHOICES, argument, complete_keys, one_of, option, overrides_of, usage_errors
from echelon_cli.tui.format import short_run_id

app = typer.Typer(
    help="Search over configuration options, or compare variants.", no_args_is_help=True, rich_markup_mode=None
)


def complete_sweeps(incomplete: str) -> list[str]:
    ids = completable(run.id for run in list_runs(kind="sweep"))
    return [name for name in (*ids, *(map(short_run_id, ids) if incomplete else ())) if name.startswith(incomplete)]


def complete_ablations(incomplete: str) -> list[str]:
    from echelon.config.ablations import ABLATIONS, BASELINES

    return one_of("ablations", "baselines", *ABLATIONS, *BASELINES)(incomplete)


@app.command("start")
def start(
    file: Annotated[str | None, argument("FILE", "TOML file with sections [sweep], [vary] and [config].")] = None,
    vary: Annotated[
        list[str] | None,
        option(
            "--vary", "Values A,B,C or LOW..HIGH[:log|:step=S|:points=N]; may be repeated.", "KEY=VALUES", complete_keys
        ),
    ] = None,
    ablate: Annotated[
        list[str] | None,
        option(
            "--ablate", "Variants: NAME, all ablations or baselines, or KEY=VALUE[,...].", "NAME", complete_ablations
        ),
    ] = None,
    preset: options.TrainedPreset = None,
    assignments: options.Set = None,
    sampler: Annotated[
        str | None,
        option("--sampler", "Sampler: random, grid or tpe; default: random.", "NAME", one_of(*CHOICES["sampler"])),
    ] = None,
    trials: Annotated[int | None, option("--trials", "Trials of the search; default: 16.")] = None,
    steps: Annotated[
        int | None, option("--steps", "Length of a complete trial [learner agent-steps]; default: the preset's.")
    ] = None,
    rungs: Annotated[int | None, option("--rungs", "Evaluations that prune trials, 1: no pruning; default: 3.")] = None,
    metric: Annotated[
        str | None,
        option(
            "--metric",
            "Metric: win_rate (default), sampled_win_rate, mean_hp_margin or mean_return.",
            "NAME",
            one_of(*CHOICES["metric"]),
        ),
    ] = None,
    seeds: Annotated[int | None, option("--seeds", "Training seeds of each variant or finalist; default: 3.")] = None,
    at_once: Annotated[int | None, option("--at-once", "Trials at once; they share the cores; default: 1.")] = None,
    launcher: options.Launcher = None,
    notify: options.Notify = None,
    mirror: options.Mirror = None,
    resume: Annotated[str | None, option("--resume", "Continue a sweep.", "SWEEP", complete_sweeps)] = None,
    plan_only: Annotated[bool, option("--plan", "Show what would be done, and start nothing.")] = False,
    detach: options.Detach = False,
    as_json: options.Json = False,
) -> int:
    """Start a sweep in the background and follow it; Ctrl-C detaches."""
    from echelon.jobs.observers import requested

    with usage_errors():
        observers = requested(notify or (), mirror or ())
    given = {
        "sampler": sampler, "trials": trials, "steps": steps, "rungs": rungs, "metric": metric, "seeds": seeds,
        "at_once": at_once, "launcher": launcher, "ablate": ablate,
    }  # fmt: skip
    settings = {name: value for name, value in given.items() if value is not None}
    if resume:
        if file or vary or preset or assignments or settings.keys() - {"at_once"}:
            raise ConfigError("--resume continues a sweep as it was planned, expected no plan; try only --at-once")
        follower = sweep_job.resume(resume, observers, at_once, as_json=as_json)
        return sweep_job.follow(follower, detach=detach, as_json=as_json)
    overrides = overrides_of(assignments)
    plan = sweep_job.plan_of(Path(file) if file else None, preset, overrides, vary or (), settings)
    if plan_only:
        show_plan(plan, sweep_job.plan_lines(plan), as_json)
        return output.DONE
    if not as_json:
        for line in sweep_job.plan_lines(plan):
            output.print_line(line, style="dim")
    follower = sweep_job.start(plan, observers, as_json=as_json)
    return sweep_job.follow(follower, detach=detach, as_json=as_json)


def show_plan(plan: Any, lines: Sequence[str], as_json: bool) -> None:
    """Print the options with their values or the variants with their changes, and ``lines`` with the budget."""
    rows = list(plan.vary.items())
    rows += [(each.name, ", ".join(f"{k}={v}" for k, v in each.params.items())) for each in plan.variants]
    if as_json:
        row = {key: value for key, value in asdict(plan).items() if key not in ("base", "provenance")}
        output.show_json({**row, "rung_steps": plan.rung_steps, "planned_steps": plan.planned_steps})
        return
    output.show_table(("variant", "changes") if plan.variants else ("option", "values"), rows)
    for line in lines:
        output.print_line(line)


@app.command("show")
def show(
    name: Annotated[str, argument("SWEEP", "Id or part of it; default: the newest.", complete_sweeps)] = "latest",
    limit: Annotated[int | None, option("--limit", "Trials shown; default: all.", min=1)] = None,
    as_json: options.Json = False,
) -> None:
    """Show trials and the best configuration, or a red team's report."""
    from echelon.jobs.sweeps.results import read_report, read_results
    from echelon_cli.redteam_tables import show_report

    paths, _ = sweep_job.find_sweep(name)
    results, status = read_results(paths), job_status(paths)
    if as_json:
        row = asdict(read_report(paths)) if results.report else sweep_tables.results_json(results)
        output.show_json({**row, "state": status.state, "folder": str(paths.root)})
        return
    kind, progress = "red team" if results.report else "sweep", output.percent(results.progress)
    output.print_line(f"{kind} {paths.id}: {status.state}, {progress} done", style="bold")
    if results.report:
        show_report(read_report(paths))
    else:
        sweep_tables.show_results(results, limit=limit)
