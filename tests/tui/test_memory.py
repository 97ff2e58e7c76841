"""Memory of a dashboard that stays open: what it retains of a run is bounded, and frames leave little garbage."""

import gc
import random
import sys
from collections import Counter
from dataclasses import replace

import pytest

from echelon.telemetry.events import EventCheckpoint
from echelon.telemetry.lines import from_json, to_json
from echelon.telemetry.snapshot import MAX_EVALUATIONS, SnapshotBuilder
from echelon_cli.commands import dash
from echelon_cli.tui.app import Dashboard
from echelon_cli.tui.charts.canvas import DOTS, Canvas
from echelon_cli.tui.charts.curves import METRICS, History
from echelon_cli.tui.feed.messages import LogView, ViewChanged
from echelon_cli.tui.theme import make_theme
from tests.tui.support.canned import eval_event, make_run, update_event
from tests.tui.test_panels import canned_view

SAVE_EVERY = 50
MAX_BLOCKS = 10_000
"""Growth of what a run retains from 150 to 600 updates [blocks of memory]; arrays of values are no blocks."""
TRIGGERS = tuple(f"{role}/{trigger}" for role in ("light", "medium", "heavy", "scout") for trigger in range(7))


def feed(builder: SnapshotBuilder, history: History, first: int, last: int) -> None:
    """Add updates as they arrive from a file: every value and name is an object of its own."""
    rng = random.Random(first)
    for number in range(first, last + 1):
        event = replace(update_event(number, rng), actions={name: rng.random() for name in TRIGGERS})
        event = from_json(to_json(event))
        builder.add(event)
        history.add(event)
        if number % SAVE_EVERY == 0:
            builder.add(EventCheckpoint(update=number, global_step=event.global_step, path=f"checkpoints/{number}"))


def test_retained_history_is_bounded():
    builder, history, blocks, last = SnapshotBuilder(), History(), {}, 0
    for updates in (150, 600):
        feed(builder, history, last + 1, updates)
        last, view = updates, (builder.snapshot(), history.curves())
        gc.collect()
        blocks[updates] = sys.getallocatedblocks()
        del view
    assert blocks[600] - blocks[150] < MAX_BLOCKS


def test_curves_have_the_same_size_after_any_number_of_updates():
    history, rng, lengths = History(max_buckets=20), random.Random(1), []
    for number in range(1, 1601):
        history.add(update_event(number, rng))
        if number in (100, 400, 1600):
            curves = history.curves()
            lengths.append(len(curves.updates))
            assert all(list(positions) == sorted(positions) for positions in curves.positions.values())
            assert len(curves.metrics) == len(METRICS)
            assert {len(curve.smooth) for curve in curves.metrics.values()} == {len(curves.updates)}
    assert max(lengths) <= 40 and curves.updates[-1] == 1600


def test_evaluations_are_bounded():
    builder = SnapshotBuilder(eval_event(number, 0.5) for number in range(4 * MAX_EVALUATIONS))
    evals = builder.snapshot().evals
    assert len(evals) <= MAX_EVALUATIONS and evals[-1].update == 4 * MAX_EVALUATIONS - 1 and evals[0].update == 0


@pytest.mark.parametrize("glyphs", DOTS)
def test_canvas_is_freed_without_collection(glyphs):
    gc.collect()
    gc.disable()
    try:
        canvas = Canvas(10, 4, glyphs)
        for role in ("series1", "series2"):
            canvas.layer(role).line(0, 0, 9, 3)
        assert list(canvas.cells())
        del canvas
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_dashboard_collects_garbage_often(monkeypatch, home):
    seen = []
    monkeypatch.setattr("echelon_cli.tui.app.show", lambda *_: seen.append(gc.get_threshold()))
    monkeypatch.setattr("echelon_cli.output.is_interactive", lambda: True)
    before = gc.get_threshold()
    gc.set_threshold(50_000)
    try:
        dash.dash(run=None, once=False, width=None, as_json=False)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    assert seen == [dash.COLLECT_EVERY]
    allocations, middle, old = seen[0]
    assert allocations * middle * old <= 20_000


FRAMES = 4
KEYS = {"run": (), "runs": ("escape",), "log": ("l",), "league": ("escape", "a"), "matches": ("w",)}
"""Keys from the run screen to each screen."""
MAX_OBJECTS_PER_FRAME = 5
"""Growth that the bounded caches of Textual and Rich have while they fill."""


@pytest.mark.long
@pytest.mark.parametrize("screen", KEYS)
async def test_screen_retains_no_frames(home, screen):
    paths = make_run(home, "20260101-110000-quickstart-quiet-heron", updates=60, ended="completed")
    view = replace(canned_view(60), id=paths.id, root=paths.root)
    rng = random.Random(5)
    views = [replace(view, snapshot=replace(view.snapshot, update=update_event(60 + n, rng))) for n in range(FRAMES)]
    app = Dashboard(home, paths.root, theme=make_theme(), poll_s=60.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for key in KEYS[screen]:
            await pilot.press(key)
            await pilot.pause()
        app.feed.stop()

        async def draw(first: int, frames: int) -> Counter[str]:
            for number in range(first, first + frames):
                app.post_message(ViewChanged(views[number % FRAMES]))
                rows = tuple(replace(row, update=number, steps=1000 * number) for row in app.runs.rows)
                app.post_message(ViewChanged(replace(app.runs, rows=rows, now=app.runs.now + number)))
                lines = tuple(f"line {n}" for n in range(number, number + 30))
                app.post_message(ViewChanged(LogView(str(paths.log_worker), "worker.log", number, lines)))
                await pilot.pause()
            gc.collect()
            return Counter(type(thing).__name__ for thing in gc.get_objects())

        await draw(0, 2 * FRAMES)
        few = await draw(2 * FRAMES, FRAMES)
        many = await draw(3 * FRAMES, 4 * FRAMES)
    assert many.total() - few.total() < 4 * FRAMES * MAX_OBJECTS_PER_FRAME, (many - few).most_common(5)
