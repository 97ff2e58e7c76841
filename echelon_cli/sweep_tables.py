"""Tables and JSON of sweeps: trials, statistics over training seeds, importance of options."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from echelon.jobs.sweeps.plan import RATES, UNCHANGED
from echelon_cli import output
from echelon_cli.listing import shown_id

if TYPE_CHECKING:
    from echelon.jobs.sweeps.results import SweepResults, TrialRow
    from echelon.statistics import Estimate


NO_BEST = "no best yet, the 95 % intervals overlap"


def results_json(results: SweepResults) -> dict[str, Any]:
    plan = results.plan
    row = {key: value for key, value in asdict(results).items() if key not in ("plan", "repeated", "report")}
    facts = {name: getattr(plan, name) for name in ("metric", "sampler", "vary", "rung_steps")}
    return {**row, **facts, "repeated": [asdict(each) for each in results.repeated], "progress": results.progress}


def show_results(results: SweepResults, *, limit: int | None = None) -> None:
    """Print the trials, best first, the repeated configurations, the importance of options and the best command."""
    if not results.trials:
        output.print_line("no trial has been chosen yet")
        return
    _show_trials(results, limit or len(results.trials))
    _show_repeated(results)
    _show_importance(results)
    if results.best_command:
        output.print_line()
        label = "best configuration" if results.is_clear else f"{NO_BEST}; listed first"
        output.print_line(f"{label}: {results.best}", style="bold")
        output.print_line(f"  {results.best_command}")


def _show_trials(results: SweepResults, limit: int) -> None:
    metric, shown = results.plan.metric, results.trials[:limit]
    columns = ("trial", "options", "state", "rung", "steps", metric, "95 % interval", "run")
    right = ("trial", "rung", "steps", metric, "95 % interval")
    rows = [_trial_cells(row, results) for row in shown]
    output.show_table(columns, rows, right=right, unwrapped=columns, optional=("run", "95 % interval", "rung", "steps"))
    if limit < len(results.trials):
        output.print_line(f"and {len(results.trials) - limit} more", style="dim")
    for row in shown:
        if row.message:
            output.print_line(f"trial {row.number} failed: {row.message}", style="dim")


def _trial_cells(row: TrialRow, results: SweepResults) -> tuple[object, ...]:
    measured = ("", "", "", "")
    if row.rung >= 0:
        value = metric_text(results.plan.metric, row.value)
        rung = f"{row.rung + 1} of {results.plan.rungs}"
        measured = (rung, output.count(row.global_step), value, output.interval(row.low, row.high))
    return (str(row.number), row.name, row.state, *measured, shown_id(row.run))


def metric_text(metric: str, value: float) -> str:
    return output.percent(value) if metric in RATES else output.measured(value)


def _show_repeated(results: SweepResults) -> None:
    if not results.repeated:
        return
    metric, seeds = results.plan.metric, results.plan.seeds
    right = ("seeds", metric, "95 % interval", "better", "its 95 % interval")
    rows = [
        (
            each.name,
            f"{len(each.scores)} of {seeds}",
            *_estimate_cells(metric, each.score),
            *_estimate_cells("win_rate", each.improvement),
        )
        for each in results.repeated
    ]
    optional = ("its 95 % interval", "seeds")
    output.show_table(("configuration", *right), rows, right=right, optional=optional, title="")
    which = "training seeds other than that of the search" if results.plan.search_trials else "training seeds"
    output.print_line(
        f"{metric}: mean over {which}, interval by Student's t; better: "
        f"probability that a seed is better than the same seed of {UNCHANGED}, interval by Wilson",
        style="dim",
    )


def _estimate_cells(metric: str, estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "", ""
    value, low, high = (metric_text(metric, x) for x in estimate)
    return value, "-" if low == "-" else f"{low} to {high}"


def estimate_text(metric: str, estimate: Estimate | None) -> str:
    """Return an estimate with its interval, ``-`` where there is none."""
    value, bounds = _estimate_cells(metric, estimate)
    return f"{value} ({bounds})" if bounds not in ("", "-") else value or "-"


def _show_importance(results: SweepResults) -> None:
    if not results.importance:
        return
    rows = [(key, output.percent(value)) for key, value in results.importance.items()]
    output.show_table(("option", "importance"), rows, right=("importance",), title="")
    steps = output.count(results.plan.rung_steps[0])
    output.print_line(f"fraction of the variance at {steps} steps that an option explains (PED-ANOVA)", style="dim")
