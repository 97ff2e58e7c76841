"""Every panel, drawn on a canned run and compared with its snapshot; ``just golden`` updates the snapshots."""

import importlib
import inspect
import itertools
import math
import random
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path

import pytest

from echelon.telemetry.evaluations import evaluation_rows, row_of, training_rows
from echelon.telemetry.events import EventAlert, EventEnd, EventEval, EventResume, EventUpdate
from echelon.telemetry.snapshot import RunSnapshot, SnapshotBuilder
from echelon_cli.listing import game_of
from echelon_cli.tui import panels
from echelon_cli.tui.charts.chart import Series
from echelon_cli.tui.charts.curves import METRICS, History
from echelon_cli.tui.charts.viewport import DEFAULT_VIEWPORT
from echelon_cli.tui.feed.messages import HeatMaps, RunView
from echelon_cli.tui.format import difference, wrap
from echelon_cli.tui.layout import COLUMNS, Slot, wide_rows
from echelon_cli.tui.panels import PAGES, PANELS, SLOTS, chart, unneeded_panels
from echelon_cli.tui.panels.bars import draw_outcomes, draw_phase_legend, draw_reward_terms, phase_shares, stacked_bar
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.panels.evaluations import draw_evaluations
from echelon_cli.tui.panels.header import ROWS, HeaderPanel
from echelon_cli.tui.panels.league_rating import draw_league_rating
from echelon_cli.tui.panels.log import draw_log, line_role
from echelon_cli.tui.panels.machine import draw_machine
from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.widgets.cells import Grid
from tests.golden import assert_golden_text
from tests.tui.support.canned import (
    CONFIG,
    REPORTED,
    batch_events,
    eval_event,
    events,
    log_lines,
    report_events,
    start_event,
    update_event,
)

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATES = 150
PANELS_LINE = "PANELS: dict[str, PanelSpec] = {"
THEME, PLAIN = make_theme(), make_theme("ascii", colour=False)


def canned_heat() -> HeatMaps:
    """Movement on a diagonal, damage in a corner, no deaths."""
    edge = range(16)
    diagonal = tuple(tuple(float(x == y) for x in edge) for y in edge)
    corner = tuple(tuple(float(x < 4 and y < 4) for x in edge) for y in edge)
    return HeatMaps(100, {"movement": diagonal, "damage": corner, "deaths": tuple((0.0,) * 16 for _ in edge)})


@lru_cache
def canned_view(updates: int = UPDATES) -> RunView:
    history, builder = History(), SnapshotBuilder()
    for event in events(updates):
        builder.add(event)
        if event.kind == "update":
            history.add(event)
    return RunView(
        id="20260101-120000-quickstart-amber-jackal",
        root=Path("amber-jackal"),
        state="running",
        preset="quickstart",
        snapshot=replace(builder.snapshot(), reports=tuple(report_events(updates, "job"))),
        curves=history.curves(),
        heat_maps=canned_heat(),
        log_tail=tuple(log_lines(updates)),
    )


def drawn(widget: Panel | HeaderPanel, view: RunView, width: int, height: int) -> str:
    widget.set_reactive(type(widget).view, view)
    return widget.draw(width, height).text()


def compare(name: str, text: str) -> None:
    assert_golden_text(SNAPSHOTS / f"{name}.txt", text + "\n")


@pytest.mark.golden
@pytest.mark.parametrize("name", PANELS)
def test_panel_matches_snapshot(name):
    panel = PANELS[name].make(PANELS[name].title, theme=THEME)
    width = 20 * PANELS[name].span
    compare(name, drawn(panel, canned_view(), width, 14))


@pytest.mark.parametrize("name", PANELS)
@pytest.mark.parametrize("size", [(80, 14), (30, 8), (15, 9), (4, 3), (2, 2), (1, 1)], ids=str)
def test_panel_fits_any_size_and_empty_run(name, size):
    for view, theme in itertools.product((canned_view(), RunView(id="nothing yet")), (THEME, PLAIN)):
        lines = drawn(PANELS[name].make(PANELS[name].title, theme=theme), view, *size).splitlines()
        assert len(lines) <= size[1] and all(len(line) <= size[0] for line in lines)


@pytest.mark.golden
@pytest.mark.parametrize("width", [160, 80])
def test_header_matches_snapshot(width):
    compare(f"head-{width}", drawn(HeaderPanel(theme=THEME), canned_view(), width, ROWS))


def test_run_is_untrained_until_a_trained_policy_is_evaluated():
    def shown(updates: int, **config) -> str:
        view = canned_view(updates)
        start = replace(view.snapshot.start, config={**CONFIG, **config})
        view = replace(view, snapshot=replace(view.snapshot, start=start))
        panel = PANELS["wins"].make("win rate", theme=THEME)
        return drawn(HeaderPanel(theme=THEME), view, 160, ROWS) + drawn(panel, view, 100, 14)

    assert shown(20).count("untrained") == 3 and "evaluation at update 50, in 38s" in shown(20)
    assert "2% eval" not in shown(20) and "2% eval 0-12%" in shown(20, start_from="champion")
    assert "untrained" not in shown(60) and "update 100, in" in shown(60)
    assert "update 300 or the end" in shown(60, eval={"every_updates": 300}), "updates may become slower"
    crashed = replace(canned_view(20), state="crashed")
    done = replace(crashed.snapshot, end=EventEnd(reason="completed"), start=replace(start_event(), total_steps=1))
    resumed = replace(crashed, state="starting", snapshot=done)
    assert "0s left" not in drawn(HeaderPanel(theme=THEME), resumed, 160, ROWS)
    assert "evaluation at" not in drawn(HeaderPanel(theme=THEME), crashed, 160, ROWS)
    for every in (0, 1000):
        assert "the end, in 8m01s" in shown(60, eval={"every_updates": every}), "the run ends before"
    assert "update 50 or the end" in shown(0), "the number of updates is unknown before the first"
    assert "untrained 2%" in shown(20) and "eval 2%" not in shown(20), "the chart does not call it an evaluation either"


def test_header_shows_state_and_problems_before_records():
    starting = RunView(id="a-b-c-d", state="starting", phase="starting")
    assert "starting" in drawn(HeaderPanel(theme=THEME), starting, 80, ROWS)
    view = RunView(id="x", state="crashed", reason="the worker died of SIGKILL", preset="quickstart")
    assert "the worker died of SIGKILL" in drawn(HeaderPanel(theme=THEME), view, 100, ROWS)


TABLE = f"{inspect.getsourcefile(panels)}:{inspect.getsource(panels).splitlines().index(PANELS_LINE) + 1}"
"""File and line of the table of panels."""

UPDATE_VALUES = f"{inspect.getsourcefile(update_event)}:{inspect.getsourcelines(update_event)[1]}"
"""File and line of the values of an update of the canned run."""

EVENT_FIELDS = f"{inspect.getsourcefile(EventUpdate)}:{inspect.getsourcelines(EventUpdate)[1]}"
"""File and line of the fields that charts can draw."""


def test_every_panel_class_is_in_the_table_or_on_a_screen():
    folder = Path(inspect.getsourcefile(panels) or "").parent
    screens = "".join(path.read_text(encoding="utf-8") for path in (folder.parent / "screens").glob("*.py"))
    modules = [importlib.import_module(f"{panels.__name__}.{path.stem}") for path in folder.glob("[!_]*.py")]
    classes = {c for module in modules for c in vars(module).values() if isinstance(c, type) and issubclass(c, Panel)}
    used = {type(spec.make(spec.title)) for spec in PANELS.values()}
    used |= {base for c in classes for base in c.__mro__[1:]}
    for cls in classes - used:
        file, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
        assert cls.__name__ in screens, f"{file}:{line}: {cls.__name__} is shown nowhere; add a row to {TABLE}"


@pytest.mark.parametrize("name", PANELS)
def test_panel_row_is_complete(name):
    spec = PANELS[name]
    assert spec.page in PAGES, f"{TABLE}: panel {name!r} is on page {spec.page!r}, expected one of {PAGES}"
    assert 1 <= spec.span <= COLUMNS, f"{TABLE}: panel {name!r} has span {spec.span}, expected 1 to {COLUMNS}"
    curves = canned_view().curves
    for series in spec.chart.series if spec.chart else ():
        assert series.metric in METRICS, (
            f"{TABLE}: panel {name!r} draws {series.metric!r}, no numeric field of an update; add it at {EVENT_FIELDS}"
        )
        assert any(map(math.isfinite, curves.curve(series.metric).mean)), (
            f"{UPDATE_VALUES}: metric {series.metric!r} of panel {name!r} has no value in the updates of the canned "
            "run; add one, or its chart is tested empty"
        )


def test_every_panel_snapshot_belongs_to_a_panel():
    names = {path.stem for path in SNAPSHOTS.glob("*.txt") if not path.stem.startswith(("screen-", "head-"))}
    assert names <= PANELS.keys(), f"no panel in {TABLE} has these snapshots: {sorted(names - PANELS.keys())}"


def test_series_of_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="metric 'grad_nrom', expected a numeric field of .*EventUpdate: .*grad_norm"):
        Series(metric="grad_nrom", label="mean")
    with pytest.raises(ValueError, match="metric 'grad_nrom' is unknown"):
        canned_view(3).curves.curve("grad_nrom")


def test_metrics_are_all_numeric_fields_of_an_update():
    event = update_event(1, random.Random(1))
    numbers = {f.name for f in fields(event) if isinstance(getattr(event, f.name), (int, float))}
    assert set(METRICS) == numbers and {"maps_used", "win_rate"} <= numbers


@pytest.mark.parametrize("metric", METRICS)
def test_every_numeric_field_of_an_update_can_be_charted(metric):
    panel = chart(Series(metric=metric, label="value"))("title", theme=THEME)
    assert drawn(panel, canned_view(30), 40, 14).count("╭") == 1


def test_wide_layout_has_no_nearly_empty_row():
    for hidden in itertools.chain.from_iterable(itertools.combinations(PANELS, n) for n in (0, 1, 2)):
        for extra in range(4):
            slots = [slot for slot in SLOTS if slot.name not in hidden]
            slots += [Slot(f"extra{n}", PAGES[0]) for n in range(extra)]
            rows = wide_rows(slots)
            assert [slot for row in rows for slot in row] == slots
            assert all(3 <= sum(slot.span for slot in row) <= COLUMNS for row in rows), (hidden, extra)


def test_reward_term_bars_start_at_zero():
    text = draw_reward_terms({"win": 2.0, "death": -1.0}, 40, 4, THEME).text().splitlines()
    zero = text[0].index("│")
    assert text[1].index("│") == zero
    assert text[0][zero + 1] == "▆" and "▆" not in text[0][:zero]
    assert text[1][zero - 1] == "▆" and "▆" not in text[1][zero:]
    assert text[0].count("▆") == pytest.approx(2 * text[1].count("▆"), abs=1)


def test_largest_reward_terms_are_shown_and_zeros_named():
    text = draw_reward_terms({"win": 2.0, "zone": 0.0, "assist": 0.0}, 40, 4, THEME).text().splitlines()
    assert text[-1].startswith("0: zone, assist") and text[0].startswith("win")
    many = draw_reward_terms({f"part{n}": float(n) for n in range(10)}, 40, 4, THEME).text()
    assert "part9" in many and "part7" in many and "part1" not in many and "smaller" in many


def test_reward_terms_fit_the_panel():
    assert "no battle has ended yet" in draw_outcomes(RunSnapshot(), 40, 10, THEME).text()
    for terms in ({"a": 1e6, "b": -1e-6}, {"a": 0.0}, {"only": -3.0}, {"a": 5.0, "b": 4.9}):
        for width in (20, 36, 76):
            assert all(len(line) <= width for line in draw_reward_terms(terms, width, 5, THEME).text().splitlines())


def test_phase_bar_has_the_full_width():
    shares = phase_shares({"env": 1.0, "forward": 2.0, "update": 4.0, "other": 0.001})
    assert [name for name, _ in shares] == ["env", "forward", "update"]
    for width in (7, 20, 33):
        assert sum(len(text) for text, _ in stacked_bar(shares, width, THEME)) in (width - 1, width)
    assert phase_shares({}) == []


def test_phase_legend_keeps_the_largest_phases():
    shares = [("env", 0.32), ("forward", 0.24), ("update", 0.43)]
    wide, narrow = Grid(40, 1), Grid(26, 1)
    draw_phase_legend(wide, 0, shares, THEME)
    draw_phase_legend(narrow, 0, shares, THEME)
    assert wide.text() == "■ env 32% ■ forward 24% ■ update 43%"
    assert narrow.text() == "■ update 43% ■ env 32%" and narrow.roles[0][0] == "series3"


def test_log_line_roles_differ_by_kind():
    roles = {word: line_role(f"10:00:00 {word} update=5") for word in ("eval", "warning", "alert", "checkpoint")}
    assert roles["warning"] == roles["alert"] == "warn" and len({THEME.style(role) for role in roles.values()}) == 3


def test_league_rating_shows_interval_rank_and_last_promotion():
    builder = SnapshotBuilder(event for event in events(250) if event.kind in ("update", "league"))
    ratings, curves = builder.snapshot().leagues, canned_view(250).curves
    assert [event.update for event in ratings] == [50, 100, 150, 200, 250]
    text = draw_league_rating(ratings, curves, (36, 20), THEME, DEFAULT_VIEWPORT).text()
    newest = ratings[-1]
    assert f"{newest.rating:.0f} ±{1.96 * newest.rd:.0f}" in text and "rank 4 of 14" in text
    assert "promoted at update 100" in text and any("⠀" < char <= "⣿" for char in text)
    assert "none promoted yet" in draw_league_rating(ratings[:1], curves, (36, 20), THEME, DEFAULT_VIEWPORT).text()
    narrow = draw_league_rating(ratings, curves, (11, 8), PLAIN, DEFAULT_VIEWPORT).text()
    assert narrow.isascii() and all(len(line) <= 11 for line in narrow.splitlines()) and "rank 4 of" in narrow
    builder.add(EventResume(update=120, global_step=ratings[1].global_step))
    assert [event.update for event in builder.snapshot().leagues] == [50, 100]


def test_log_lines_of_the_newest_date_omit_it():
    tail = ("2026-01-01 10:00:00 start", "2026-01-02 11:00:00 eval win_rate=0.5")
    text = draw_log((), tail, 60, 5, THEME).text()
    assert "2026-01-01 10:00:00 start" in text and "\n11:00:00 eval" in text


def test_long_log_line_is_wrapped():
    text = draw_log((), ("2026-01-01 10:00:00 " + "word " * 20 + "end",), 30, 10, THEME).text()
    assert text.rstrip().endswith("end") and text.count("word") == 20


def test_alerts_leave_rows_for_log_lines():
    alerts = tuple(EventAlert(message="much " * 40) for _ in range(3))
    text = draw_log(alerts, ("a line",), 40, 10, THEME).text()
    assert "much" in text and "a line" in text


def test_newest_alerts_are_retained():
    alerts = tuple(EventAlert(message=f"number {n}") for n in range(9))
    text = draw_log(alerts, (), 40, 6, THEME).text()
    assert "number 8" in text and "number 6" in text and "number 5" not in text
    assert text.index("number 7") < text.index("number 8")


def test_header_shows_recent_alert_of_running_run():
    builder = SnapshotBuilder(events(5))
    last = max(event.time for event in events(5))
    builder.add(EventAlert(message="disk low: 12 MiB left", time=last))
    living = RunView(id="x", state="running", snapshot=builder.snapshot())
    assert "disk low: 12 MiB left" in drawn(HeaderPanel(theme=THEME), living, 100, ROWS)
    ended = RunView(id="x", state="completed", preset="quickstart", snapshot=builder.snapshot())
    assert "disk low" not in drawn(HeaderPanel(theme=THEME), ended, 100, ROWS)
    builder.add(update_event(6, random.Random(1)))
    builder.add(EventAlert(message="goes on", level="info", time=last + 9999))
    later = RunView(id="x", state="running", preset="quickstart", snapshot=builder.snapshot())
    assert "quickstart" in drawn(HeaderPanel(theme=THEME), later, 100, ROWS)


def test_evaluations_are_coloured_only_where_significant_and_sized_to_the_panel():
    both = tuple(event for job in ("old", "new") for event in report_events(UPDATES, job))
    rows = evaluation_rows(RunSnapshot(reports=both))
    assert [row.job for row in rows] == ["new"] * 5 + ["old"] * 5, "the newest job first"
    assert [row.opponent for row in rows[:5]] == [f"heuristic:{level}" for level in REPORTED]
    grid = draw_evaluations(rows[:5], 90, 9, THEME)
    lines = grid.text().splitlines()
    assert lines[0].split() == "against wins interval sampled interval matches update when maps".split()
    assert lines[5].split()[:6] == ["expert", "31%", "21-39", "25%", "14-36", "80+80"]
    assert lines[5].endswith("path 100x100x20")
    column = lines[0].index("wins")
    assert [grid.roles[y][column + 3] for y in (5, 4, 3)] == ["bad", "", "good"]
    narrow = draw_evaluations(rows[:5], 31, 4, THEME).text().splitlines()
    assert narrow[0].split() == ["3", "of", "5", "wins", "interval", "sampled"] and narrow[-1].startswith("medium")
    assert "echelon eval adds them" in draw_evaluations([], 40, 4, THEME).text()


def test_evaluations_count_both_kinds_of_actions_and_name_untrained_policies():
    text = draw_evaluations(evaluation_rows(RunSnapshot(reports=tuple(report_events(60, "x")))), 90, 9, THEME).text()
    assert text.count("80+80") == len(REPORTED)
    text = draw_evaluations(training_rows(canned_view(20).snapshot), 90, 9, THEME).text()
    assert "untrained" in text and "selection" not in text


@pytest.mark.parametrize(
    ("updates", "evaluated", "elapsed_s", "shown"),
    [(50, False, 60, "evaluating"), (50, True, 60, "left"), (49, False, 60, "left"), (60, False, 600, "evaluating"),
     (60, True, 600, "saving")],
)  # fmt: skip
def test_header_names_what_a_run_does_besides_training(updates, evaluated, elapsed_s, shown):
    builder = SnapshotBuilder([start_event(), eval_event(0, 0.0)])
    builder.add(replace(update_event(updates, random.Random(1)), elapsed_s=float(elapsed_s)))
    if evaluated:
        builder.add(eval_event(updates, 0.3))
    view = RunView(id="a-b-c-d", state="running", snapshot=builder.snapshot())
    line = drawn(HeaderPanel(theme=THEME), view, 100, ROWS).splitlines()[0]
    assert shown in line and ("0s left" not in line)
    figures = drawn(PANELS["wins"].make("win rate", theme=THEME), view, 100, 14)
    assert ("next      now" in figures) == (shown == "evaluating")


def test_gradient_panel_notes_clipping_of_most_steps():
    updates = [replace(update_event(1, random.Random(1)), grad_clipped_share=share) for share in (0.92, 0.4)]
    notes = [PANELS["gradient"].chart.verdict(RunSnapshot(update=update)) for update in updates]
    assert notes == ["clips 92% of steps", ""]


def test_difference_from_a_baseline_needs_the_same_game():
    one, other = ({"env": {"world": {"size_x": size}}, "eval": {"seeds": 40}} for size in (40, 100))
    assert game_of(one) == game_of({**one, "ppo": {}, "eval": {"seeds": 8}}) != game_of(other)
    won, lost = (0.7, 0.6, 0.8, "easy", game_of(one)), (0.4, 0.3, 0.5, "easy", game_of(one))
    assert difference(won, lost) == ("+30\u00b114", "good") and difference(won, won) == ("+0\u00b114", "dim")
    for unlike in ((*lost[:4], game_of(other)), (*lost[:3], "hard", lost[4]), None):
        assert difference(won, unlike) == ("", "dim")


def test_evaluation_job_shows_running_win_rates_then_results():
    start = replace(start_event(), preset="eval")
    builder = SnapshotBuilder([start, *batch_events(13)])
    text = draw_evaluations(evaluation_rows(builder.snapshot()), 60, 9, THEME).text()
    assert [line.split()[0] for line in text.splitlines()[1:6]] == list(REPORTED) and text.count("40/80") == 2
    for event in report_events(120, "job"):
        builder.add(event)
    assert "/80" not in draw_evaluations(evaluation_rows(builder.snapshot()), 60, 9, THEME).text()
    played = SnapshotBuilder([start, *batch_events(14)]).snapshot()
    head = drawn(HeaderPanel(theme=THEME), RunView(kind="eval", snapshot=played), 160, ROWS)
    assert "88% win rate" in head and "against easy, mean actions" in head and "80% sampled" in head
    assert builder.snapshot().progress == 13 / 40 and builder.snapshot().eta_s == pytest.approx(27 * 9.5)
    assert unneeded_panels(RunView(snapshot=builder.snapshot())) == PANELS.keys() - {"evaluations", "log"}


def test_evaluations_panel_names_selection_and_report():
    chosen = EventEval(update=5, global_step=500, opponent="heuristic:easy", episodes=8, win_rate=0.5)
    rows = [row_of(event) for event in (replace(chosen, purpose="report"), chosen)]
    for width in (60, 36):
        lines = draw_evaluations(rows, width, 9, THEME).text().splitlines()
        assert "purpose" in lines[0] and "report" in lines[1] and "selection" in lines[2]
    assert "purpose" not in draw_evaluations(rows[:1], 60, 9, THEME).text()
    assert "evaluations" in unneeded_panels(RunView(snapshot=SnapshotBuilder([start_event()]).snapshot()))
    assert "evaluations" not in unneeded_panels(canned_view())


def test_machine_panel_omits_unknown_values():
    update = update_event(3, random.Random(1))
    text = draw_machine(update, 2, 18, 8, THEME).text()
    assert "of 2" in text and "GPU" not in text and "disk free    50.8G" in text
    text = draw_machine(replace(update, gpu_share=0.93, gpu_memory_mb=20480.0), 2, 18, 9, THEME).text()
    assert "GPU busy       93%" in text and "GPU memory   20.0G" in text
    assert "no data yet" in draw_machine(EventUpdate(update=1, global_step=1), 0, 18, 8, THEME).text()
    low = draw_machine(replace(update, disk_free_mb=500.0), 2, 18, 8, THEME)
    assert any("warn" in line for line in low.roles)


def test_wrap_keeps_words_and_width():
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("one two", 5, indent=2) == ["one", "  two"]
    assert wrap("", 5) == []


@pytest.mark.parametrize(
    ("mix", "shown"),
    [
        ({"self_play": 0.2, "past": 0.1, "league": 0.4}, {"league"}),
        ({"self_play": 1.0, "past": 1.0}, {"rating"}),
        ({"easy": 1.0}, set()),
        (None, {"league", "rating"}),
    ],
)
def test_rating_panels_depend_on_the_opponent_mix(mix, shown):
    config = {"opponents": {} if mix is None else {"mix": mix}}
    snapshot = SnapshotBuilder([replace(start_event(), config=config)]).snapshot()
    assert {"league", "rating"} - unneeded_panels(RunView(snapshot=snapshot)) == shown
