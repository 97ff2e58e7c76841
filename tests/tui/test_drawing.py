"""Unit tests without a terminal: number formats, axes, canvas, curve history, grid, layout, key bar, run table."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.jobs.labels import BASELINE
from echelon_cli.listing import RunRow
from echelon_cli.tui import format
from echelon_cli.tui.charts import axis
from echelon_cli.tui.charts.canvas import Canvas
from echelon_cli.tui.charts.curves import History, smooth
from echelon_cli.tui.feed.messages import RunsView
from echelon_cli.tui.keys import Key, visible_keys
from echelon_cli.tui.layout import Slot, arrange
from echelon_cli.tui.panels import PAGES, SLOTS
from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.widgets import run_table
from echelon_cli.tui.widgets.cells import Grid, draw_frame, runs, truncate
from echelon_cli.tui.widgets.run_table import (
    SORT_COLUMNS,
    RunTable,
    by_view,
    draw_table,
    gap_of,
    sort_rows,
    visible_columns,
)
from tests.tui.support.canned import update_event

numbers = st.floats(-1e12, 1e12, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (2.4, "2.40"), (0.0756, "0.0756"), (0.00049, "4.9e-4"), (14321.0, "14.3k"), (math.nan, "-")],
)
def test_measured_has_three_digits(value, text):
    assert format.measured(value) == text


@given(numbers)
def test_measured_is_short(value):
    assert len(format.measured(value)) <= 8


@pytest.mark.parametrize(
    ("value", "span", "text"),
    [
        (0.0, 1.0, "0"),
        (0.5, 1.0, "0.5"),
        (15500.0, 2500.0, "15.5k"),
        (14250.0, 2500.0, "14.25k"),
        (2_500_000.0, 5e6, "2.5M"),
        (-0.0025, 0.015, "-.0025"),
        (0.0007, 0.0006, "7e-4"),
        (-100.0, 200.0, "-100"),
    ],
)
def test_axis_label_is_exact_and_short(value, span, text):
    assert format.axis_label(value, span) == text


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_axis_label_fits_label_width(value, span):
    assert len(format.axis_label(value, span)) <= format.LABEL_WIDTH


def test_time_spans_are_short():
    assert [format.age(s) for s in (-5, 59, 61, 3600 * 5, 86400 * 3)] == ["now", "now", "1m", "5h", "3d"]
    assert all(len(format.age(days * 86400)) <= 4 for days in (999, 1000, 20_000))


def test_short_run_id_is_the_last_two_words():
    assert format.short_run_id("20260101-120000-quickstart-amber-jackal") == "amber-jackal"
    assert format.short_run_id("my own name") == "my own name"


def test_large_figures_have_three_equal_rows():
    for text in ("59%", "14.6k", "-2.40", "4:28", "2d04", "1.2M", "3G"):
        rows = format.large(text)
        assert len(rows) == format.FIGURE_ROWS and len({len(row) for row in rows}) == 1
    assert format.large("1") == ["▄█  ", " █  ", "▀▀▀ "]


@given(numbers, numbers)
def test_round_range_contains_its_data(a, b):
    low, high = axis.round_range(min(a, b), max(a, b))
    slack = 1e-6 * max(1.0, abs(a), abs(b))
    assert low <= min(a, b) + slack and high >= max(a, b) - slack and high > low


def test_range_holds_until_data_leave_it():
    axes = axis.stable_range(None, 0.1, 0.9)
    assert axes == (0.0, 1.0)
    assert axis.stable_range(axes, 0.2, 0.95) == axes
    assert axis.stable_range(axes, 0.2, 1.3)[1] > 1.3
    assert axis.stable_range((0.0, 10.0), 0.2, 0.9)[1] == 1.0, "it shrinks when hardly used"


def test_axis_end_jumps_seldom():
    end, jumps = 0.0, 0
    for step in range(18_000, 8_000_000, 18_000):
        after = axis.stable_end(end, step)
        assert after >= step
        jumps, end = jumps + (after != end), after
    assert jumps < 80


def test_data_range_limits_outliers():
    values = [1.0 + 0.01 * n for n in range(100)]
    assert axis.data_range(values) == (values[0], values[-1])
    low, high = axis.data_range([*values, 1e9]) or (0.0, 0.0)
    assert low == 1.0 and 1.9 < high < 3.0
    assert axis.data_range([math.nan]) is None


@given(st.floats(1.0, 1e12), st.booleans())
def test_horizontal_axis_is_filled_by_its_data(newest, time):
    end = axis.stable_end(0.0, newest, time=time)
    longest = max(axis.SHORTEST[time], newest * (1 + axis.FREE_SHARE), math.ceil(newest))
    assert newest * (1 - 1e-9) <= end <= longest * (1 + 1e-9)
    assert axis.stable_end(end, newest, time=time) == end


def test_time_axis_ends_at_seconds_hours_and_days():
    ends = {61.0: 65.0, 90_000.0: 26 * 3600.0, 20.5 * axis.DAY_S: 21 * axis.DAY_S}
    assert {newest: axis.stable_end(0.0, newest, time=True) for newest in ends} == ends


@pytest.mark.parametrize(
    ("glyphs", "expected"), [("braille", ["⠀⡠⠊", "⡠⠊⠀"]), ("block", [" ▄▀", "█▀ "]), ("ascii", [' _"', "-'  "])]
)
def test_canvas_draws_a_line_in_dots(glyphs, expected):
    canvas = Canvas(3, 2, glyphs)
    canvas.layer("line").line(0, canvas.height - 1, canvas.width - 1, 0)
    rows = [[" "] * 3 for _ in range(2)]
    for x, y, char, role in canvas.cells():
        rows[y][x] = char
        assert role == "line"
    assert sum(c not in " ⠀" for row in rows for c in row) >= 3
    assert rows[0][2] not in " ⠀" and rows[1][0] not in " ⠀" and rows[0][0] in " ⠀" and rows[1][2] in " ⠀"


def test_braille_dots_map_to_bits():
    canvas = Canvas(1, 1, "braille")
    layer = canvas.layer("a")
    layer.dot(0, 0)
    layer.dot(1, 3)
    layer.dot(5, 5)
    assert [char for _, _, char, _ in canvas.cells()] == ["⢁"]


def test_canvas_layers_replace_shades_and_merge_curves():
    canvas = Canvas(1, 1, "braille")
    canvas.layer("shade", is_background=True).vertical(0, 0, 3)
    canvas.layer("one").dot(1, 0)
    canvas.layer("two").dot(1, 3)
    assert [(char, role) for _, _, char, role in canvas.cells()] == [("⢈", "two")]


def test_overlapping_curves_alternate_colours():
    canvas = Canvas(8, 1, "braille")
    for role in ("one", "two"):
        canvas.layer(role, alternates=True).line(0, 0, 15, 0)
    canvas.layer("cross").dot(15, 3)
    roles = [role for *_, role in canvas.cells()]
    assert roles[:7] == ["one", "one", "two", "two", "one", "one", "two"] and roles[7] == "cross"


def test_steep_line_has_no_gaps():
    canvas = Canvas(4, 4, "braille")
    layer = canvas.layer("a")
    layer.line(0, 15, 1, 0)
    lit = [sum(bits.bit_count() for cell, bits in layer.cells.items() if cell // 4 == row) for row in range(4)]
    assert all(lit)


def test_dashed_line_has_gaps():
    canvas = Canvas(6, 1, "braille")
    layer = canvas.layer("a")
    layer.line(0, 0, 11, 0, dash=2)
    assert sum(bits.bit_count() for bits in layer.cells.values()) == 6


def filled(updates: int, **options: int) -> History:
    history, rng = History(**options), random.Random(2)
    for number in range(1, updates + 1):
        history.add(update_event(number, rng))
    return history


def test_merged_buckets_keep_extremes_and_means():
    fine, coarse = filled(64, max_buckets=100).curves(), filled(64, max_buckets=4).curves()
    for metric in ("grad_norm", "steps_per_s"):
        a, b = fine.curve(metric), coarse.curve(metric)
        assert min(a.low) == min(b.low) and max(a.high) == max(b.high)
    mean = sum(fine.curve("entropy").mean[: coarse.stride]) / coarse.stride
    assert coarse.curve("entropy").mean[0] == pytest.approx(mean)


def test_smoothing_starts_at_first_value():
    assert smooth([4.0], 10) == [4.0]
    curve = smooth([0.0] * 20 + [1.0] * 20, 10)
    assert curve[19] == 0.0 and 0.1 < curve[20] < 0.3 and curve[-1] > 0.95
    assert smooth([math.nan, 2.0, math.nan], 5)[1:] == [2.0, 2.0]


def test_grid_changes_join_near_cells():
    before, after = Grid(20, 2), Grid(20, 2)
    after.put(3, 0, "ab")
    after.put(7, 0, "c")
    after.put(19, 1, "z")
    assert [tuple(region) for region in after.changes(before)] == [(3, 0, 5, 1), (19, 1, 1, 1)]
    assert after.changes(after) == []
    assert runs([1, 2, 9], bridge=3) == [(1, 3), (9, 10)]


def test_grid_strips_control_characters_and_clips():
    grid = Grid(6, 1)
    grid.put(0, 0, "\x1b[2Jab\n机甲cd")
    assert "\x1b" not in grid.text() and "\n" not in grid.text()
    wide = Grid(5, 1)
    wide.put(0, 0, "机甲机")
    assert wide.chars[0] == ["机", "", "甲", "", " "], "half a character is not written"


@given(st.text(max_size=30), st.integers(0, 20))
def test_fitted_text_has_at_most_the_width(text, width):
    from rich.cells import cell_len

    assert cell_len(truncate(text, width)) <= max(0, width)


def test_frame_truncates_title_and_omits_long_note():
    grid = Grid(20, 3)
    draw_frame(grid, make_theme(), "curriculum", note="too long a note for this")
    assert grid.text().splitlines()[0] == "╭ curriculum ───────╮"[:19] + "╮"
    small = Grid(9, 3)
    draw_frame(small, make_theme(), "curriculum")
    assert small.text().splitlines()[0] == "╭ curr… ╮"


SIZES = [(160, 41), (120, 33), (100, 20), (80, 20), (60, 16), (200, 20)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("wide", [True, False])
def test_arrange_fills_the_screen_without_overlap(size, wide):
    for page in PAGES:
        regions = arrange(*size, SLOTS, wide=wide, page=page)
        cells = [(x, y) for r in regions.values() for x in range(r.x, r.right) for y in range(r.y, r.bottom)]
        assert len(cells) == len(set(cells)) == size[0] * size[1]


def test_arrange_omits_hidden_and_maximises_zoomed():
    slots = [Slot("a", "p"), Slot("b", "p")]
    assert arrange(80, 20, slots, wide=True, hidden=frozenset({"a"}))["b"].size == (80, 20)
    assert arrange(80, 20, slots, wide=False, maximised="b") == {"b": (0, 0, 80, 20)}
    assert arrange(80, 20, slots, wide=True, hidden=frozenset({"a", "b"})) == {}


def test_arrange_limits_rows_to_maximum():
    slots = [Slot("a", "p", 8), Slot("b", "p", 8), Slot("c", "p", 8, max_rows=4)]
    found = arrange(160, 40, slots, wide=True)
    assert [(found[name].y, found[name].height) for name in "abc"] == [(0, 18), (18, 18), (36, 4)]
    assert arrange(160, 9, slots, wide=True)["c"].height == 3, "never more than an equal share"
    assert arrange(160, 40, slots[2:], wide=True)["c"].height == 40, "alone it gets all rows"


def test_key_bar_drops_least_important_keys():
    keys = [Key(str(n), "", "label", "", rank=n) for n in range(5)]
    assert [k.rank for k in visible_keys(keys, 31)] == [0, 1, 2]
    assert visible_keys(keys, 3) == []


def row(name: str, **values) -> RunRow:
    return RunRow(id=name, root=Path(name), state=values.pop("state", "running"), **values)


def table_rows(count: int, baseline: int = -1) -> list[RunRow]:
    values = {"state": "stopped", "kind": "train", "reason": "stopped on request", "preset": "quickstart"}
    rows = [row(f"20260101-12000{n}-quickstart-iron-fox{n}", **values) for n in range(count)]
    return [replace(each, tags=(BASELINE,)) if n == baseline else each for n, each in enumerate(rows)]


def test_table_numbers_runs_in_the_order_of_the_comparison_and_keeps_the_baseline_mark():
    table, rows = RunTable(), table_rows(4, baseline=2)
    table.view = RunsView(rows=tuple(rows))
    table.sort()
    table.marked = [rows[3].root, rows[2].root, rows[0].root]
    assert table.compared == (rows[2].root, rows[3].root, rows[0].root)
    lines = table.draw(160, 8).text().splitlines()[1:]
    marks = {line.split("fox")[1][0]: line[1] for line in lines if "fox" in line}
    assert marks == {"2": make_theme().symbols.mark, "3": "2", "0": "3", "1": " "}


@pytest.mark.parametrize(
    ("width", "baseline", "shown"),
    [(160, 0, {"diff", "status", "ladder", "progress", "training"}), (80, -1, {"progress", "training", "against"})],
)
def test_table_keeps_its_important_columns(width, baseline, shown):
    head, row = draw_table(
        table_rows(2, baseline), 0, 0, (width, 4), make_theme(), 0.0, "age", False
    ).text().splitlines()[:2]  # fmt: skip
    assert shown <= {word.strip("▲▼") for word in head.split()}
    assert "iron-fox0" in row and "quickstart-iron" not in row, "short names"


def test_runs_that_differ_only_in_their_seed_share_a_row(monkeypatch):
    rates, opponents = (0.7, 0.9, 0.1, 0.5), ("medium", "medium", "hard", "medium")
    rows = [
        row(
            f"run{n}", kind="train", preset="quickstart", state=state, eval_rate=rate, opponent=opponent, progress=n / 4
        )
        for n, (rate, opponent, state) in enumerate(
            zip(rates, opponents, ("stopped", "running", "stopped", "completed"), strict=True)
        )
    ]
    configs = {f"run{n}": {"seed": n, "ppo.lr": 0.1 if n == 3 else 0.2, "pause_steps": n} for n in range(4)}
    monkeypatch.setattr(run_table, "config_of", lambda root: configs[root.name])
    table = RunTable()
    table.view = RunsView(rows=(*rows, row("run4", kind="train", tags=(BASELINE,))))
    configs["run4"] = {"seed": 4}
    table.is_collapsed = True
    table.sort("run")
    pinned, seeds, single = table.rows
    assert (seeds.id, seeds.state, seeds.progress) == ("3 seeds of quickstart", "running", 0.25) and single.id == "run3"
    assert "2 evaluated" in seeds.notes, "another opponent is another measure"
    assert (seeds.eval_rate, seeds.eval_low, seeds.eval_high) == (
        pytest.approx(0.8),
        pytest.approx(0.0014, abs=1e-4),
        pytest.approx(1.0, abs=1e-2),
    )
    assert table.compared_with(table.seeds[seeds.root]) == (pinned.root, *(each.root for each in rows[:3]))
    table.go(1)
    assert table.mark() and table.marked == [each.root for each in rows[:3]]
    table.go(1)
    assert table.mark() and table.marked == []


def test_trials_of_a_sweep_have_a_view_of_their_own():
    trial, other, sweep = table_rows(3)
    rows = [replace(trial, group="amber-yak"), replace(other, group="mine")]
    rows.append(replace(sweep, id="20260101-130000-sweep-amber-yak", kind="sweep"))
    found = {name: rows for name, rows in by_view(rows, rows).items() if rows}
    assert found == {"trials": rows[:1], "training": rows[1:2], "sweeps": rows[2:]}


def test_sorting_puts_missing_values_last():
    rows = [row("none"), row("low", win_rate=0.1), row("high", win_rate=0.9)]
    assert [r.id for r in sort_rows(rows, "training", False)] == ["high", "low", "none"]
    for order in SORT_COLUMNS:
        assert len(sort_rows(rows, order, True)) == 3


@pytest.mark.parametrize("width", [60, 80, 110, 160, 200])
def test_run_table_columns_fit_any_width(width):
    columns = visible_columns(width)
    assert sum(c.width + gap_of(width) for c in columns) + 3 <= width
    assert {"state", "run", "eval", "interval"} <= {c.name for c in columns}
    long = row("20260101-120000-quickstart-amber-jackal", eval_rate=1.0, steps=999_999_999, steps_per_s=999_999.0)
    text = draw_table([long], 0, 0, (width, 5), make_theme(), 0.0, "age", False).text()
    assert all(len(line) <= width for line in text.splitlines())
    assert "amber-jackal" in text and "100%" in text
