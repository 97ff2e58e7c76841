"""The adapter of Textual's private API, checked against the Textual release it was written for."""

import textual
from textual.app import App
from textual.screen import Screen

from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.widgets import compositor
from echelon_cli.tui.widgets.cells import CellView, Grid
from echelon_cli.tui.widgets.compositor import (
    TEXTUAL_VERSION,
    SpanCompositor,
    SpanUpdate,
    screen_text,
    use_span_updates,
    write_to_terminal,
)

MESSAGE = (
    f"{compositor.__file__} was written for Textual {TEXTUAL_VERSION}, installed is {textual.__version__}: "
    "adapt the module, then set TEXTUAL_VERSION"
)


class Counter(CellView):
    """A widget that shows a number in the middle of its row."""

    number = 0

    def draw(self, width: int, height: int) -> Grid:
        grid = Grid(width, height)
        grid.put(10, 0, f"count {self.number}")
        return grid


class CounterScreen(Screen[None]):
    def __init__(self) -> None:
        super().__init__()
        use_span_updates(self)

    def compose(self):
        yield Counter(theme=make_theme())


class CounterApp(App[None]):
    def get_default_screen(self) -> Screen:
        return CounterScreen()


def test_adapter_matches_installed_textual_version():
    assert textual.__version__.startswith(f"{TEXTUAL_VERSION}."), MESSAGE


async def test_screen_contents_are_read():
    app = CounterApp()
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.pause()
        write_to_terminal(app, "raw")
        assert screen_text(app.screen).splitlines()[0] == "          count 0", MESSAGE


async def test_partial_update_contains_only_changed_cells(monkeypatch):
    updates: list[SpanUpdate] = []
    render = SpanCompositor.render_partial_update

    def record(self: SpanCompositor) -> object:
        update = render(self)
        if isinstance(update, SpanUpdate):
            updates.append(update)
        return update

    monkeypatch.setattr(SpanCompositor, "render_partial_update", record)
    app = CounterApp()
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.pause()
        updates.clear()
        counter = app.screen.query_one(Counter)
        counter.number = 1
        counter.redraw()
        await pilot.pause(0.1)
        (output,) = [update.render_segments(app.console) for update in updates] or [""]
    assert output.startswith("\x1b[1;17H") and "count" not in output, f"more than one cell was sent; {MESSAGE}"
