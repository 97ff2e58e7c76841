"""``echelon runs``: list, show and compare training runs."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.commands.export import export
from echelon_cli.options import FilterOption, JsonFlag, RunArgument, RunsArgument

EVALS_SHOWN = 10
ROWS_SHOWN = 30
"""Results of evaluation jobs that are listed."""

CHART_COLUMNS = 100
"""Width of a chart without a terminal [columns]."""


def complete_charts(incomplete: str) -> list[str]:
    """Return the charts that start with ``incomplete``."""
    from echelon_cli.tui.panels import COMPARED

    return [name for name in COMPARED if name.startswith(incomplete)]


app = typer.Typer(help="List, show and compare runs.", no_args_is_help=True, rich_markup_mode=None)


app.command("export")(export)


@app.command("list")
def list_all(filter_query: FilterOption = None, as_json: JsonFlag = False) -> int:
    """List runs, newest first."""
    from echelon.runs import list_runs, runs_home
    from echelon_cli.listing import run_rows, shown_id
    from echelon_cli.query import read_query

    query, now = read_query(filter_query or ""), time.time()
    rows = [row for row in run_rows(list_runs()) if query.matches(row, now)]
    if as_json:
        output.show_json([row.to_dict() for row in rows])
        return output.DONE
    if not rows:
        empty = f"no runs in {runs_home()}; start one with: echelon train"
        output.print_line(f"no run matches {filter_query!r}" if filter_query else empty)
        return output.DONE
    output.show_table(
        ("run", "state", "update", "steps", "steps/s", "return", "wins", "eval", "age"),
        [
            (
                shown_id(row.id),
                output.state_text(row.state),
                row.update,
                output.count(row.steps),
                output.count(row.steps_per_s),
                output.figure(row.avg_return),
                output.percent(row.win_rate),
                output.percent(row.eval_rate),
                output.duration(now - row.created),
            )
            for row in rows
        ],
        right=("update", "steps", "steps/s", "return", "wins", "eval", "age"),
        unwrapped=("state",),
        optional=("update", "return", "steps/s", "age", "wins"),
    )
    return output.DONE


@app.command("show")
def show(run: RunArgument, as_json: JsonFlag = False) -> int:
    """Show one run: state, results, evaluations and the configuration values that are not default."""
    from echelon.jobs.config_layers import flatten
    from echelon.jobs.spec import read_spec
    from echelon.runs import find_run
    from echelon.telemetry.evaluations import evaluation_rows, read_evaluations
    from echelon_cli.eval_tables import show_evaluations
    from echelon_cli.follow import eval_line

    paths = find_run(run)
    row, spec, snapshot = describe(paths), read_spec(paths), _snapshot(paths)
    evaluations = evaluation_rows(replace(snapshot, reports=read_evaluations(paths.evals)))
    values = flatten(spec.config)
    changed = {key: values.get(key) for key in spec.provenance}
    if as_json:
        found = [asdict(evaluation) for evaluation in evaluations]
        output.show_json({**row, "evaluations": found, "config": spec.config, "provenance": spec.provenance})
        return output.DONE
    output.show_table(("", ""), [(key, _plain(key, value)) for key, value in row.items()])
    in_training = () if snapshot.is_evaluation else snapshot.evals
    if len(in_training) > EVALS_SHOWN:
        output.print_line(f"{len(in_training)} evaluations; the newest:")
    for event in in_training[-EVALS_SHOWN:]:
        output.print_line(eval_line(event))
    if evaluations:
        output.print_line()
        show_evaluations(evaluations[:ROWS_SHOWN])
        if len(evaluations) > ROWS_SHOWN:
            output.print_line(f"{len(evaluations) - ROWS_SHOWN} older: echelon runs show --json", style="dim")
    if snapshot.update and snapshot.update.agreement_by_part:
        parts = snapshot.update.agreement_by_part.items()
        output.print_line("agreement with the teacher: " + ", ".join(f"{n} {output.percent(v)}" for n, v in parts))
    for alert in snapshot.alerts:
        output.print_line(f"{alert.level}: {alert.message}", style="yellow")
    output.print_line()
    output.show_table(("not default", "value", "from"), [(k, v, spec.provenance[k]) for k, v in changed.items()])
    return output.DONE


@app.command("compare")
def compare(
    runs: RunsArgument,
    chart: Annotated[
        str | None,
        typer.Option(
            "--chart",
            metavar="NAME",
            help="Overlay a chart of the dashboard, such as wins, return, speed, losses or entropy.",
            autocompletion=complete_charts,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Compare runs: results side by side, then the configuration values that differ."""
    from echelon.jobs.config_layers import flatten
    from echelon.jobs.spec import read_spec
    from echelon.runs import find_run

    chosen = [find_run(name) for name in runs]
    rows = [describe(paths) for paths in chosen]
    configs = [flatten(read_spec(paths).config) for paths in chosen]
    keys = sorted({key for values in configs for key in values})
    differing = {key: [c.get(key) for c in configs] for key in keys if len({repr(c.get(key)) for c in configs}) > 1}
    if as_json:
        output.show_json({"runs": rows, "differing": differing})
        return output.DONE
    if chart is not None:
        _draw(chosen, chart)
        output.print_line()
    names, shown = [row["id"] for row in rows], [key for key in rows[0] if key not in ("id", "folder")]
    output.show_table(("", *names), [(key, *(_plain(key, row[key]) for row in rows)) for key in shown])
    output.print_line()
    output.show_table(("config", *names), [(key, *values) for key, values in differing.items()])
    return output.DONE


def _draw(chosen: list[Any], name: str) -> None:
    """Print a chart that overlays the runs."""
    from echelon_cli.tui import plain_text
    from echelon_cli.tui.panels import COMPARED
    from echelon_cli.tui.theme import RUN_ROLES

    if name not in COMPARED:
        raise typer.BadParameter(f"--chart {name!r} does not exist, expected one of {', '.join(COMPARED)}")
    if len(chosen) > len(RUN_ROLES):
        raise typer.BadParameter(
            f"--chart got {len(chosen)} runs, expected at most {len(RUN_ROLES)}, the number of distinct line colours"
        )
    theme = plain_text.theme_for_file(sys.stdout)
    columns = max(plain_text.MIN_WIDTH, shutil.get_terminal_size((CHART_COLUMNS, 0)).columns)
    drawn = plain_text.draw_comparison([plain_text.read_run(paths) for paths in chosen], name, columns, theme)
    plain_text.show(drawn, theme)


def describe(paths) -> dict[str, Any]:
    """Return a run's state and results as plain values."""
    from echelon.jobs.status import job_status
    from echelon_cli.listing import job_json

    status, snapshot = job_status(paths), _snapshot(paths)
    update, best = snapshot.update, snapshot.best
    nan = float("nan")
    return {
        **job_json(paths),
        "state": status.state,
        "reason": status.reason,
        "preset": status.preset,
        "created": status.created,
        "update": update.update if update else status.update,
        "global_step": snapshot.global_step,
        "progress": snapshot.progress,
        "elapsed_s": update.elapsed_s if update else 0.0,
        "episodes": snapshot.episodes.count,
        "steps_per_s": update.steps_per_s if update else nan,
        "map_stalls": update.map_stalls if update else 0,
        "avg_return": update.avg_return if update else nan,
        "win_rate": update.win_rate if update else nan,
        "imitation_loss": update.imitation_loss if update else nan,
        "agreement": update.agreement if update else nan,
        "flown_share": update.flown_share if update else nan,
        "best_win_rate": best.win_rate if best else nan,
        "last_win_rate": snapshot.evals[-1].win_rate if snapshot.evals else nan,
        "checkpoint": snapshot.checkpoints[-1].path if snapshot.checkpoints else "",
        "unreadable_lines": snapshot.skipped,
    }


def _snapshot(paths):
    from echelon.telemetry.snapshot import read_snapshot

    return read_snapshot(paths.metrics)


def _plain(key: str, value: object) -> object:
    if not isinstance(value, float):
        return value
    if key == "created":
        return output.local_time(value)
    if key.endswith("win_rate") or key in ("progress", "agreement", "flown_share"):
        return output.percent(value)
    if key.endswith("_s") and not key.endswith("per_s"):
        return output.duration(value)
    return output.figure(value)
