"""Tables and JSON of sweeps: trials, finalists with intervals, importance of options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from echelon.jobs.sweeps.plan import RATES
from echelon_cli import output
from echelon_cli.listing import shown_id

if TYPE_CHECKING:
    from echelon.jobs.sweeps.results import Finalist, SweepResults, TrialRow
    from echelon.statistics import Estimate


def results_json(results: SweepResults) -> dict[str, Any]:
    """Return the results of a sweep as JSON values."""
    plan, best = results.plan, results.best
    return {
        "id": results.id,
        "metric": plan.metric,
        "sampler": plan.sampler,
        "pruning": plan.pruning,
        "rung_steps": list(plan.rung_steps),
        "progress": results.progress,
        "options": {d.key: d.text() for d in plan.dimensions},
        "trials": [asdict(row) for row in results.trials],
        "ranking": list(results.ranking),
        "finalists": [_finalist_json(finalist) for finalist in results.finalists],
        "importance": results.importance,
        "profile_thresholds": list(results.thresholds),
        "best": None if best is None else {"name": best.name, "params": best.params, "command": results.best_command},
    }


def _finalist_json(finalist: Finalist) -> dict[str, Any]:
    row = asdict(finalist)
    for name in ("score", "improvement"):
        value: Estimate | None = getattr(finalist, name)
        row[name] = None if value is None else value._asdict()
    row["profile"] = [estimate._asdict() for estimate in finalist.profile]
    return row


def show_results(results: SweepResults, *, limit: int | None = None) -> None:
    """Print the trials, best first, the finalists, the importance of options and the best command."""
    if not results.trials:
        output.print_line("no trial has been chosen yet")
        return
    _show_trials(results, limit)
    _show_finalists(results)
    _show_importance(results)
    if results.best_command:
        output.print_line()
        output.print_line("best configuration:", style="bold")
        output.print_line(f"  {results.best_command}")


def _show_trials(results: SweepResults, limit: int | None) -> None:
    """Print a row per trial with a column per option; of listed variants with their names."""
    by_number = {row.number: row for row in results.trials}
    order = [*results.ranking, *(n for n in by_number if n not in results.ranking)]
    shown = order[: limit or len(order)]
    keys, metric = [d.key for d in results.plan.dimensions], results.plan.metric
    options = [key.rpartition(".")[2] if _is_unique(key, keys) else key for key in keys] or ["variant"]
    right = ("trial", *(name for name in options if name != "variant"), "rung", "steps", metric, "95 % interval")
    columns = ("trial", *options, "state", "rung", "steps", metric, "95 % interval", "run")
    rows = [_trial_cells(by_number[number], keys, results) for number in shown]
    output.show_table(columns, rows, right=right, unwrapped=columns, optional=("run", "95 % interval", "rung", "steps"))
    if len(shown) < len(order):
        output.print_line(f"and {len(order) - len(shown)} more", style="dim")
    for row in (by_number[number] for number in shown):
        if row.message:
            output.print_line(f"trial {row.number} failed: {row.message}", style="dim")


def _is_unique(key: str, keys: Sequence[str]) -> bool:
    """Whether no other key ends like this one."""
    last = key.rpartition(".")[2]
    return sum(other.rpartition(".")[2] == last for other in keys) == 1


def _trial_cells(row: TrialRow, keys: Sequence[str], results: SweepResults) -> tuple[object, ...]:
    options = [_option_text(row.params.get(key)) for key in keys] or [row.name]
    measured = ("", "", "", "")
    if row.rung >= 0:
        value = metric_text(results.plan.metric, row.value)
        rung = f"{row.rung + 1} of {results.plan.last_rung + 1}"
        measured = (rung, output.count(row.global_step), value, output.interval(row.low, row.high))
    return (str(row.number), *options, row.state, *measured, shown_id(row.run))


def _option_text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "none" if value is None else str(value)


def metric_text(metric: str, value: float) -> str:
    """Return a value of a sweep's metric."""
    return output.percent(value) if metric in RATES else output.figure(value)


def _show_finalists(results: SweepResults) -> None:
    if not results.finalists:
        return
    metric = results.plan.metric
    right = ("seeds", metric, "95 % interval", "better", "its 95 % interval")
    rows = [
        (
            finalist_name(results, finalist),
            f"{len(finalist.scores)} of {finalist.planned}",
            *_estimate_cells(metric, finalist.score),
            *_estimate_cells("win_rate", finalist.improvement),
        )
        for finalist in results.finalists
    ]
    is_list = bool(results.plan.variants)
    output.print_line()
    kind = "variant" if is_list else "finalist"
    output.show_table((kind, *right), rows, right=right, optional=("its 95 % interval", "seeds"))
    show_estimation(metric, results.plan.unchanged, "" if is_list else " that the search did not use")


def finalist_name(results: SweepResults, finalist: Finalist) -> str:
    """Return a finalist as tables name it: a variant by its name, a trial of the search by its number."""
    if results.plan.variants or finalist.trial < 0:
        return finalist.name
    return f"trial {finalist.trial}"


def show_estimation(metric: str, reference: str, which_seeds: str = "") -> None:
    """Print how statistics over training seeds are estimated."""
    better = f"; better: probability that a seed is better than the same seed of {reference}" if reference else ""
    output.print_line(
        f"{metric}: interquartile mean over training seeds{which_seeds}{better}; intervals by stratified bootstrap, "
        "Wilson's where all seeds agree",
        style="dim",
    )


def _estimate_cells(metric: str, estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "", ""
    value, low, high = (metric_text(metric, x) for x in estimate)
    return value, f"{low} to {high}" if math.isfinite(estimate.low) else "-"


def _show_importance(results: SweepResults) -> None:
    order = sorted(((k, v) for k, v in results.importance.items() if math.isfinite(v)), key=lambda pair: -pair[1])
    if not order:
        return
    rows = [(key, output.percent(value)) for key, value in order]
    output.print_line()
    output.show_table(("option", "importance"), rows, right=("importance",))
    steps = output.count(results.plan.rung_steps[0])
    output.print_line(f"fraction of the variance at {steps} steps that an option explains alone", style="dim")
