"""The query language over runs: matches, reported problems, and robustness against any text."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from echelon_cli import query
from echelon_cli.listing import RunRow
from echelon_cli.query import COLUMN_FIELDS, FIELDS, Query, QueryError, parse, read_query
from echelon_cli.tui.widgets.run_table import COLUMNS
from tests.cli.conftest import parsed

NOW = 1_000_000.0
HOUR = 3600.0

ROWS = [
    RunRow(
        id="amber-fox", root=Path("amber-fox"), state="running", preset="quickstart", device="cpu",
        opponent="heuristic:medium", created=NOW - HOUR, progress=0.3, update=120, steps=1_200_000,
        steps_per_s=14_000.0, avg_return=-1.5, win_rate=0.55, eval_rate=0.5, rating=310.0,
    ),
    RunRow(
        id="brave-owl", root=Path("brave-owl"), state="completed", preset="standard", device="cuda:0",
        opponent="league", created=NOW - 50 * HOUR, progress=1.0, update=900, steps=40_000_000,
        steps_per_s=220_000.0, avg_return=2.5, win_rate=0.8, eval_rate=0.75, rating=1650.0,
    ),
    RunRow(
        id="calm-elk", root=Path("calm-elk"), state="failed", preset="quickstart", created=NOW - 90,
        reason="No space left on device",
    ),
]  # fmt: skip
ALL = ["amber-fox", "brave-owl", "calm-elk"]


def found(text: str) -> list[str]:
    """Who matches a query that must be understood whole."""
    query = read_query(text)
    return [row.id for row in ROWS if query.matches(row, NOW)]


def typed(text: str) -> tuple[list[str], str]:
    """Who is shown while a query is typed, and what is said of it."""
    rows, problem = parse(text).filter_rows(ROWS, NOW)
    return [row.id for row in rows], problem


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ALL),
        ("QUICK fox", ["amber-fox"]),
        ("quick completed", []),
        ("-quick", ["brave-owl"]),
        ("quick -fox", ["calm-elk"]),
        ("-fox -owl", ["calm-elk"]),
        ("fox quick", ["amber-fox"]),
        ("brave-owl", ["brave-owl"]),
        ('"heuristic:medium"', ["amber-fox"]),
        ('-"calm-elk"', ["amber-fox", "brave-owl"]),
        ("state:run", ["amber-fox"]),
        ("state=run", []),
        ("state!=running", ["brave-owl", "calm-elk"]),
        ("preset:quick -state:failed", ["amber-fox"]),
        ("device:cuda", ["brave-owl"]),
        ("opponent:medium", ["amber-fox"]),
        ('status:"space left"', ["calm-elk"]),
        ('-status:"space left"', ["amber-fox", "brave-owl"]),
        ("status:against", []),
        ("run:OWL", ["brave-owl"]),
    ],
)
def test_query_terms_fields_and_operators_match(text, names):
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("wins>50%", ["amber-fox", "brave-owl"]),
        ("wins>0.6", ["brave-owl"]),
        ("wins>60", ["brave-owl"]),
        ("wins<=55%", ["amber-fox"]),
        ("progress=100%", ["brave-owl"]),
        ("eval!=50%", ["brave-owl"]),
        ("steps>=1.2M", ["amber-fox", "brave-owl"]),
        ("steps>1.2m", ["brave-owl"]),
        ("steps<.1G", ALL),
        ("speed<15k", ["amber-fox"]),
        ("steps/s>15k", ["brave-owl"]),
        ("rating>1500", ["brave-owl"]),
        ("return>-2", ["amber-fox", "brave-owl"]),
        ("return<-1e0", ["amber-fox"]),
        ("update=120", ["amber-fox"]),
        ("age<2h", ["amber-fox", "calm-elk"]),
        ("age>90m", ["brave-owl"]),
        ("age<1m31s", ["calm-elk"]),
        ("age>=2d2h", ["brave-owl"]),
        ("wins>50% age<2h -state:failed", ["amber-fox"]),
    ],
)
def test_query_numbers_compare_with_units(text, names):
    assert found(text) == names


def test_query_nan_matches_no_comparison():
    assert math.isnan(ROWS[2].win_rate)
    for sign in (">", ">=", "<", "<=", "=", "!="):
        assert "calm-elk" not in found(f"wins{sign}50%")
    assert found("-wins>50%") == ["calm-elk"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wins>", "wins>50%"),
        ("wins>lots", "a fraction"),
        ("wins:50%", ">, >="),
        ("steps>5x", "a number"),
        ("age<2", "s, m, h or d"),
        ("age<1.2.3s", "s, m, h or d"),
        ("state>running", ": or ="),
        ("state:", "state:running"),
        ("sate:running", "unknown field 'sate', did you mean 'state'"),
        ("wni>50%", "unknown field 'wni'"),
        ("> 50%", "has no field"),
        ('"fox', "quote is not closed"),
    ],
)
def test_query_errors_name_what_is_expected(text, expected):
    with pytest.raises(QueryError, match="^query ") as refused:
        read_query(text)
    assert expected in str(refused.value)


@pytest.mark.parametrize("text", ["preset:quick state:running wins>50%", "standard -failed age<3d", "-owl"])
def test_query_prefixes_never_empty_a_matching_list(text):
    assert found(text)
    for end in range(len(text)):
        names, problem = typed(text[:end])
        assert names, text[:end]
        assert "\n" not in problem


def test_query_incomplete_part_is_dropped_and_reported():
    assert typed("fox wins") == (["amber-fox"], "no run contains 'wins'; try wins>50%")
    assert typed("fox wins>")[0] == ["amber-fox"] and "a fraction" in typed("fox wins>")[1]
    assert typed("fox sate:runn")[0] == ["amber-fox"] and "unknown field" in typed("fox sate:runn")[1]


def test_query_unknown_field_is_left_out_and_reported():
    names, problem = typed("heuristic:medium")
    assert names == ALL and "quote it" in problem


def test_query_complete_word_without_match_finds_none():
    assert typed("zebra") == ([], "") and typed("wins ") == ([], "")


@pytest.mark.parametrize("column", [column.name for column in COLUMNS])
def test_query_finds_every_column_of_the_run_list(column):
    assert COLUMN_FIELDS.get(column, column) in FIELDS


def test_query_field_examples_parse():
    for asked in FIELDS.values():
        assert read_query(asked.example).problem == ""


PIECES = st.sampled_from([*FIELDS, "-", ">", "<=", "!=", ":", "=", '"', "50%", "1.5M", "2h", " "])


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=20).map("".join)))
@example("-" * 5000)
@example("wins>" + "9" * 5000)
@example("wins>9e9999 age<" + "9" * 400 + "h")
def test_query_accepts_or_rejects_any_text_in_one_line(text):
    query = parse(text)
    for row in ROWS:
        assert query.matches(row, NOW) in (True, False)
    rows, problem = query.filter_rows(ROWS, NOW)
    assert set(row.id for row in rows) <= set(ALL) and len(problem.splitlines()) <= 1
    try:
        read = read_query(text)
    except QueryError as refused:
        assert query.problem and query.problem in str(refused)
        assert len(str(refused).splitlines()) == 1
    else:
        assert isinstance(read, Query) and not query.problem


def test_filter_option_filters_lists_and_rejects_bad_queries(echelon, ended_run):
    command = ("runs", "list")
    ended_run("20260101-000000-quickstart-calm-fox", wins=0.6)
    ended_run("20260102-000000-quickstart-wild-owl", wins=0.2)
    code, out, _ = echelon(*command, "--filter", "eval>50% state:completed")
    assert code == 0 and "calm-fox" in out and "wild-owl" not in out
    (row,) = parsed(echelon(*command, "--filter", "owl", "--json")[1])
    assert row["id"].endswith("wild-owl")
    assert "matches 'zebra'" in echelon(*command, "--filter", "zebra")[1]
    code, out, err = echelon(*command, "--filter", "eval>half")
    assert code == 2 and out == "" and err.count("\n") == 1 and "eval expects a fraction; try eval>=60%" in err


def test_run_row_has_snapshot_rating(home_with_rated_run, echelon):
    (row,) = parsed(echelon("runs", "list", "--filter", "rating>100", "--json")[1])
    assert row["rating"] == pytest.approx(home_with_rated_run)
    assert parsed(echelon("runs", "list", "--filter", "rating>9000", "--json")[1]) == []


@pytest.fixture
def home_with_rated_run() -> float:
    """A folder of runs with one whose snapshots were rated; its newest rating."""
    from echelon.runs import runs_home
    from echelon.telemetry.latest import read_latest
    from tests.tui.support.canned import make_run

    run = make_run(runs_home(), "20260101-120000-quickstart-amber-jackal", updates=300, ended="completed")
    newest = read_latest(run.metrics).update
    assert newest is not None
    return newest.elo


def test_runs_are_found_by_labels_and_configuration_values(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox", lr=2e-4)
    ended_run("20260102-000000-quickstart-wild-owl", lr=1e-5)
    assert echelon("runs", "label", "fox", "owl", "--group", "rates", "--notes", "see the plot")[0] == 0
    assert echelon("runs", "label", "owl", "--tag", "paper")[0] == 0
    for text, expected in (
        ("ppo.lr>1e-4", ["fox"]),
        ("ppo.lr=1e-5", ["owl"]),
        ("preset:quick tag:paper", ["owl"]),
        ("group:rates notes:plot -tag:paper", ["fox"]),
        ("env.obs_layout:classic", []),
    ):
        rows = parsed(echelon("runs", "list", "--filter", text, "--json")[1])
        assert [row["id"].rpartition("-")[2] for row in rows] == expected, text
    assert echelon("runs", "list", "--filter", "ppo.lrr>1")[0] == 2


def test_runs_of_a_group_are_named_by_what_differs(echelon, ended_run):
    for name, rate in (("fox", 2e-4), ("owl", 1e-5)):
        ended_run(f"20260101-000000-quickstart-calm-{name}", lr=rate)
        echelon("runs", "label", name, "--group", "rates")
    out = echelon("runs", "list", "--filter", "group:rates")[1]
    assert "lr=0.0002" in out and "lr=1e-05" in out
    assert "0.0002" in echelon("runs", "list", "--columns", "tags,ppo.lr")[1]
    assert echelon("runs", "list", "--columns", "ppo.lrr")[0] == 2
    assert "rates" in echelon("runs", "show", "owl")[1]


def test_query_of_a_damaged_filter_is_read_up_to_a_bound(monkeypatch):
    term, seen = query.TERM, []
    watched = SimpleNamespace(finditer=lambda text: seen.append(len(text)) or term.finditer(text))
    monkeypatch.setattr(query, "TERM", watched)
    for text in ("<", "a ", "()", "age<1"):
        seen.clear()
        found = query.parse(text * 100_000)
        assert "expected at most 4096" in found.problem and 0 < max(seen) <= 4096
        with pytest.raises(query.QueryError) as error:
            query.read_query(text * 100_000)
        assert len(str(error.value)) < 500
