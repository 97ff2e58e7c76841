"""Tables on terminals of any width: no figure is ever cut, and what has no room is named."""

from __future__ import annotations

import shutil

import pytest

from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths
from echelon.telemetry.events import EventRound, EventStart, EventUpdate
from echelon.telemetry.log import EventLog
from echelon_cli import arena_tables, output
from echelon_cli.commands import replay, runs
from echelon_cli.listing import run_row
from tests.replay.golden import SMALL

WIDTHS = (60, 72, 80)
RUN = "20260101-000000-quickstart-crimson-kestrel"


@pytest.fixture(params=WIDTHS)
def columns(request, monkeypatch):
    """A terminal this wide."""
    monkeypatch.setattr(output, "PIPE_WIDTH", request.param)
    output.console.cache_clear()
    yield request.param
    output.console.cache_clear()


@pytest.fixture
def tables(monkeypatch):
    """The cells of every table that is shown, by column."""
    shown = []
    show = output.show_table

    def remember(columns, rows, **how):
        rows = [tuple(row) for row in rows]
        shown.append([dict(zip(columns, map(str, row), strict=True)) for row in rows])
        show(columns, rows, **how)

    for module in (output, runs.output, replay.output, arena_tables.output):
        monkeypatch.setattr(module, "show_table", remember)
    return shown


def whole(text: str, rows: list[dict[str, str]], width: int) -> None:
    """Assert that lines fit, and that every number is complete unless its column is reported as omitted."""
    table, _, rest = text.partition("omitted (too narrow): ")
    omitted = rest.splitlines()[0].split(", ") if rest else []
    lines = table.splitlines()
    assert all(len(line) <= width for line in lines)
    shown = [name for name in rows[0] if name not in omitted]
    assert [name for name in shown if name not in lines[0]] == []
    words = table.split()
    numbers = [cell for row in rows for name, cell in row.items() if name in shown and cell[:1].isdigit()]
    assert numbers and [cell for cell in numbers if not set(cell.split()) <= set(words)] == []


def test_runs_table_keeps_every_number(echelon, ended_run, columns, tables):
    with EventLog(ended_run(RUN).metrics) as log:
        log.append(EventUpdate(update=12345, global_step=21_800_000, steps_per_s=123_456.0, avg_return=-1234.5))
    code, out, _ = echelon("runs", "list")
    assert code == 0 and "21.8M" in out and "crimson-kestrel" in out and "completed" in out and "60%" in out
    whole(out, tables[0], columns)


def test_matches_table_keeps_every_number(echelon, ended_run, columns, tables):
    paths = ended_run(RUN)
    paths.replays.mkdir()
    shutil.copy(SMALL, paths.replays / "u000004-s1-blue.ecr")
    code, out, _ = echelon("replay", "list")
    assert code == 0
    whole(out, tables[0], columns)


@pytest.mark.parametrize("command", ["standings", "entries"])
def test_league_table_keeps_every_number(echelon, columns, tables, command):
    assert echelon("arena", "add", "medium")[0] == 0
    tables.clear()
    code, out, _ = echelon("arena", command)
    assert code == 0 and "expert" in out
    whole(out, tables[0], columns)


def test_wide_terminal_shows_every_column(echelon, ended_run):
    ended_run(RUN)
    out = echelon("runs", "list")[1]
    assert RUN in out and "no room" not in out


@pytest.mark.parametrize(
    ("number", "state", "played", "progress"), [(1, "playing", 40, 0.25), (1, "rated", 80, 0.5), (2, "rated", 80, 1.0)]
)
def test_progress_of_an_arena_job_counts_its_rounds(tmp_path, number, state, played, progress):
    paths = RunPaths(tmp_path / "20260101-000000-arena-tidal-cobra")
    paths.root.mkdir(parents=True)
    write_spec(paths, JobSpec(kind="arena", config={"rounds": 2}))
    with EventLog(paths.metrics) as log:
        log.append(EventStart(device="cpu", preset="arena"))
        log.append(EventRound(round=number, state=state, rounds=2, matches=80, played=played))
    assert run_row(paths).progress == progress
