"""Tables on terminals of any width: no figure is ever cut, and what has no room is named."""

import shutil

import pytest

from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths
from echelon.telemetry.events import EventRound, EventStart, EventUpdate
from echelon.telemetry.log import EventLog
from echelon_cli import arena_tables, listing, output
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


@pytest.mark.parametrize("options", [(), ("--behaviour",)])
def test_league_table_keeps_every_number(echelon, columns, tables, options):
    assert echelon("arena", "add", "medium")[0] == 0
    tables.clear()
    code, out, _ = echelon("arena", "standings", *options)
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


def test_rows_read_by_several_processes_are_those_of_one(ended_run, monkeypatch):
    runs = [ended_run(f"20260101-00000{number}-quickstart-crimson-kestrel") for number in range(5)]
    alone = listing.run_rows(runs)
    monkeypatch.setattr(listing, "FEWEST_PARALLEL", 1)
    monkeypatch.setattr(listing.machine, "cores", lambda: 2)
    assert repr(listing.run_rows(runs)) == repr(alone) and [row.id for row in alone] == [run.id for run in runs]


def head_to_head(count: int) -> dict:
    """Return results of entries of which each beats those after it in three matches of four."""
    ids, pairs = [f"entry {i:02d} of a long name" for i in range(count)], []
    for one in ids:
        for other in ids:
            wins = 75 if one < other else 25
            row = {"wins": wins, "draws": 0, "losses": 100 - wins, "score": wins / 100}
            bounds = {"score_low": wins / 100 - 0.09, "score_high": wins / 100 + 0.09}
            if one != other:
                pairs.append({"id": one, "against": other, **row, **bounds})
    values = {"nash": 0.125, "support": 0.5, "alpha_rank": 0.0, "nash_averaged": 0.5, "matches": 100}
    game = {"entries": [{"id": i, **values} for i in ids], "pairs": 3, "unplayed": 1, "resamples": 99, "population": 50}
    names = [{"id": i, "name": i} for i in ids]
    return {"entries": names, "left_out": 0, "pairs": pairs, "cycles": [("a", "b", "c")], "metagame": game}


@pytest.mark.parametrize(
    ("width", "count", "cell", "legend"),
    [
        (80, 3, "75 ±9 /100", "±: half of the 95 % interval; /: matches"),
        (80, 5, "75±9/100", "/: matches"),
        (80, 7, "75±9", "matches of each pair: 100"),
        (80, 10, "75*", "*: the 95 % interval excludes 50"),
        (160, 8, "75 ±9 /100", "/: matches"),
        (160, 34, "75", "omitted (too narrow): 34"),
    ],
)
def test_head_to_head_table_uses_the_widest_cells_that_fit(capsys, monkeypatch, width, count, cell, legend):
    monkeypatch.setattr(output, "PIPE_WIDTH", width)
    output.console.cache_clear()
    arena_tables.show_pairs(head_to_head(count))
    output.console.cache_clear()
    lines = capsys.readouterr().out.splitlines()
    assert cell in [text.strip() for text in lines[1].split("  ")] and any(legend in line for line in lines)
    assert all(len(line) <= width for line in lines if not line.startswith("omitted"))
    row = next(line.split() for line in lines if "12.5%" in line)
    assert row[-5:] == ["12.5%", "50%", "-", "50.0%", "100"]
    assert lines[-2:] == [
        "1 of 3 pairs were not played and have the score that the ratings expect", "cycle: a beats b beats c beats a"
    ]  # fmt: skip
