"""``echelon runs``: list, show and compare training runs."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from echelon.config.presets import PRESETS
from echelon.jobs.config_layers import ConfigError, default_values, did_you_mean, flatten, resolve
from echelon.jobs.environment import flat_environment, read_environment
from echelon.jobs.labels import change_labels, variant_names
from echelon.jobs.spec import read_spec
from echelon.runs import command, find_run, list_runs, require_home, runs_home
from echelon.telemetry.evaluations import evaluation_rows, read_evaluations, training_rows
from echelon.telemetry.snapshot import read_snapshot
from echelon_cli import eval_tables, options, output
from echelon_cli.commands.export import export
from echelon_cli.commands.logs import logs
from echelon_cli.commands.queue import queue
from echelon_cli.commands.stop import stop, wait
from echelon_cli.commands.tidy import rm, tidy
from echelon_cli.help import Sections
from echelon_cli.listing import job_json, opponent_name, run_rows, shown_id
from echelon_cli.options import CHOICES, argument, complete_keys, complete_labels, complete_sides, one_of, option
from echelon_cli.output import Column
from echelon_cli.query import FIELDS, config_of, read_query, sorted_by
from echelon_cli.run_facts import describe, shown_facts

LISTED = 50
"""Runs that are listed by default."""
EVALS_SHOWN, ROWS_SHOWN = 10, 30
"""Evaluations in training and results of evaluation jobs that are listed."""
MAX_ALERT_CHARS = 2_000
"""Characters shown of an alert; a hostile record has a million."""

CHART_COLUMNS = 100
"""Width of a chart without a terminal [columns]."""


def complete_fields(incomplete: str) -> list[str]:
    return [name for name in FIELDS if name.startswith(incomplete)]


FIND, CONTROL, DISK = "Find and compare", "Follow and stop", "Disk space"
"""Headings of the help."""


def complete_columns(incomplete: str) -> list[str]:
    """Return the lists of columns that complete the last name of ``incomplete``."""
    before, comma, last = incomplete.rpartition(",")
    keys = [key.removesuffix("=") for key in complete_keys(last)]
    names = [name for name in (*LABEL_COLUMNS, "variant") if name.startswith(last)]
    return [f"{before}{comma}{name}" for name in (*names, *keys)]


app = typer.Typer(
    cls=Sections,
    help="Runs: list, compare, follow, stop, queue, label, export, delete.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


SortOption = Annotated[
    str | None,
    option(
        "--sort", "Sort by a field of --filter: largest first, text from A; default: newest.", "FIELD", complete_fields
    ),
]


ColumnsOption = Annotated[
    str | None, option("--columns", "More columns, such as group,tags,notes,variant,ppo.lr.", "NAMES", complete_columns)
]
LABEL_COLUMNS: dict[str, Callable[[Any], str]] = {
    "group": lambda row: row.group or "-",
    "tags": lambda row: " ".join(row.tags) or "-",
    "notes": lambda row: row.notes or "-",
}


@app.command("list", rich_help_panel=FIND)
def list_all(
    filter_query: options.Filter = None,
    sort: SortOption = None,
    columns: ColumnsOption = None,
    limit: Annotated[
        int | None, option("--limit", "Most runs; 0: all; default: 50, with --json all.", short="-n", min=0)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List runs and other jobs, newest first. Runs of one group are named by what differs in their configurations."""
    require_home()
    query, now, found = read_query(filter_query or ""), time.time(), list_runs()
    most = (limit if limit is not None else 0 if as_json else LISTED) or len(found)
    # without a condition on their rows, rows beyond the limit are not read
    read = found if filter_query or sort else found[:most]
    rows = [row for row in run_rows(read) if query.matches(row, now)]
    if sort is not None:
        rows = sorted_by(rows, sort, now)
    hidden = (len(rows) if read is found else len(found)) - most
    rows = rows[:most]
    if as_json:
        output.show_json([row.to_dict() for row in rows])
        return
    if not rows:
        empty = f"no runs in {runs_home()}; start one with: echelon train"
        output.print_line(f"no run matches {filter_query!r}" if filter_query else empty)
        return
    names = [name.strip() for name in (columns or "").split(",") if name.strip()]
    if not names and len(rows) > 1 and rows[0].group and len({row.group for row in rows}) == 1:
        names = ["variant"]
    more = {"kind": {row.root: row.kind or "-" for row in rows}} if len({row.kind for row in rows}) > 1 else {}
    more |= {name: dict(zip((row.root for row in rows), cells, strict=True)) for name, cells in _columns(rows, names)}
    output.show_rows(
        [
            RUN,
            *(Column(name, lambda row, cells=cells: cells[row.root]) for name, cells in more.items()),
            *RUNS,
            Column("age", lambda row: output.age(row.created, now), right=True, rank=3),
        ],
        rows,
    )
    if hidden > 0:
        output.print_line(f"{hidden} more; -n 0 lists all", style="dim")


RUN = Column("run", lambda row: shown_id(row.id))
RUNS = (
    Column("state", lambda row: output.state_text(row.state), whole=True),
    Column("preset", lambda row: row.preset or "-", whole=True, rank=2),
    Column("steps", lambda row: output.count(row.steps), right=True),
    Column("evaluation", lambda row: output.rate(row.eval_rate, row.eval_low, row.eval_high), right=True),
    Column("against", lambda row: opponent_name(row.opponent) if row.eval_rate == row.eval_rate else "-", whole=True,
           rank=1),
    Column("ladder", lambda row: output.rate(row.ladder, row.ladder_low, row.ladder_high), right=True, rank=4),
    Column("training", lambda row: output.percent(row.win_rate), right=True, rank=5),
    Column("steps/s", lambda row: output.count(row.steps_per_s), right=True, rank=6),
)  # fmt: skip


def _columns(rows: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield name and cells of further columns; ``ConfigError`` for a field that does not exist."""
    for name in names:
        if name in LABEL_COLUMNS:
            yield name, [LABEL_COLUMNS[name](row) for row in rows]
        elif name == "variant":
            yield name, variant_names([config_of(row.root) for row in rows])
        elif name in default_values():
            yield name, [str(config_of(row.root).get(name, "-")) for row in rows]
        else:
            hint = did_you_mean(name, (*LABEL_COLUMNS, "variant", *default_values()))
            expected = ", ".join((*LABEL_COLUMNS, "variant"))
            raise ConfigError(
                f"--columns is {name!r}, expected {expected} or a field of the configuration{hint}; "
                "see: echelon config show"
            )


@app.command("label", rich_help_panel=FIND)
def label(
    runs: options.Runs,
    group: Annotated[
        str | None, option("--group", "Put the runs into a group; '' takes them out.", "NAME", complete_labels("group"))
    ] = None,
    tag: Annotated[list[str] | None, option("--tag", "Add a tag; repeatable.", "WORD", complete_labels("tag"))] = None,
    untag: Annotated[
        list[str] | None, option("--untag", "Remove a tag; may be repeated.", "WORD", complete_labels("tag"))
    ] = None,
    notes: Annotated[str | None, option("--notes", "Replace the notes.", "TEXT")] = None,
    as_json: options.Json = False,
) -> None:
    """Show or change group, tags and notes of runs. --filter 'group:NAME tag:WORD' finds them."""
    chosen = [find_run(name) for name in runs]
    found = [
        (paths, change_labels(paths, group=group, add=tag or (), remove=untag or (), notes=notes)) for paths in chosen
    ]
    if as_json:
        output.show_json([job_json(paths, **asdict(labels)) for paths, labels in found])
        return
    output.show_table(
        ("run", "group", "tags", "notes"),
        [(shown_id(p.id), found.group or "-", " ".join(found.tags) or "-", found.notes or "-") for p, found in found],
    )


@app.command("show", rich_help_panel=FIND)
def show(run: options.Run, as_json: options.Json = False) -> None:
    """Show one run: state, results, evaluations, configuration."""
    paths = find_run(run)
    row, spec, snapshot = describe(paths), read_spec(paths), read_snapshot(paths.metrics)
    evaluations = evaluation_rows(replace(snapshot, reports=read_evaluations(paths.evals)))
    in_training = training_rows(snapshot)
    values = flatten(spec.config)
    changed = {key: values.get(key) for key in spec.provenance}
    if as_json:
        found = [asdict(evaluation) for evaluation in evaluations]
        trained = [asdict(evaluation) for evaluation in in_training]
        more = {"evaluations": found, "training_evaluations": trained}
        output.show_json({**row, **more, "config": spec.config, "provenance": spec.provenance})
        return
    output.show_table(("", ""), [(facts[0], facts[1](row)) for facts in shown_facts([row])])
    others = command("runs", "show", paths.id, "--json")
    eval_tables.show_newest(eval_tables.TRAINING_EVALUATIONS, in_training, EVALS_SHOWN, others)
    eval_tables.show_newest(eval_tables.EVALUATIONS, evaluations, ROWS_SHOWN, others)
    if snapshot.update and snapshot.update.agreement_by_part:
        parts = snapshot.update.agreement_by_part.items()
        output.print_line("agreement with the teacher: " + ", ".join(f"{n} {output.percent(v)}" for n, v in parts))
    for alert in snapshot.alerts:
        output.print_line(f"{alert.level}: {alert.message[:MAX_ALERT_CHARS]}", style="yellow")
    rows = [(k, v, spec.provenance[k]) for k, v in changed.items()]
    output.show_table(("not default", "value", "from"), rows, title="")


@app.command("compare", rich_help_panel=FIND)
def compare(
    names: Annotated[list[str], argument("RUN|PRESET", "Runs, or presets.", complete_sides)],
    chart: Annotated[
        str | None,
        option("--chart", "Overlay a dashboard chart, such as wins or return.", "NAME", one_of(*CHOICES["chart"])),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare runs or presets: results, and values that differ."""
    sides = [None if name in PRESETS else find_run(name) for name in names]
    chosen = [paths for paths in sides if paths is not None]
    rows = [describe(paths) for paths in chosen]
    configs = [
        resolve(name).values if paths is None else flatten(read_spec(paths).config)
        for name, paths in zip(names, sides, strict=True)
    ]
    if len(chosen) == len(names):
        configs = [
            values | flat_environment(read_environment(paths)) for values, paths in zip(configs, chosen, strict=True)
        ]
    keys = sorted({key for values in configs for key in values})
    differing = {key: [c.get(key) for c in configs] for key in keys if len({repr(c.get(key)) for c in configs}) > 1}
    if as_json:
        output.show_json({"runs": rows, "differing": differing})
        return
    if chart is not None:
        _draw(chosen, chart)
        output.print_line()
    if rows:
        shown = [(label, *map(text, rows)) for label, text in shown_facts(rows) if label not in ("run", "folder")]
        output.show_table(("", *(shown_id(row["id"]) for row in rows)), shown)
        output.print_line()
    titles = [name if paths is None else shown_id(paths.id) for name, paths in zip(names, sides, strict=True)]
    if differing:
        output.show_table(("config", *titles), [(key, *values) for key, values in differing.items()])
    else:
        output.print_line("the configurations do not differ")


def _draw(chosen: list[Any], name: str) -> None:
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


app.command("export", rich_help_panel=FIND)(export)
app.command("logs", rich_help_panel=CONTROL)(logs)
app.command("wait", rich_help_panel=CONTROL)(wait)
app.command("stop", rich_help_panel=CONTROL)(stop)
app.command("queue", rich_help_panel=CONTROL)(queue)
app.command("tidy", rich_help_panel=DISK)(tidy)
app.command("rm", rich_help_panel=DISK)(rm)
