"""What screens with charts share: pages and panels that zoom, and one sight on all charts, by keys and mouse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.widgets import Input

from echelon_cli.tui.charts.viewport import Viewport, move_crosshair, next_smoothing, next_x_axis, pan, zoom
from echelon_cli.tui.keys import Key
from echelon_cli.tui.layout import Slot, arrange, even_slots, is_wide
from echelon_cli.tui.panels.base import Panel, PanelChart
from echelon_cli.tui.screens.base import BaseScreen
from echelon_cli.tui.widgets.filter import FilterField, matching
from echelon_cli.tui.widgets.tabs import Tabs

PANEL_KEYS: tuple[Key, ...] = (
    Key(keys="z", action="zoom", label="zoom", help="show one panel alone, and all again", rank=4),
    Key(
        keys="slash",
        shown="/",
        action="filter",
        label="find",
        help="only panels with these words; or a pattern",
        rank=6,
    ),
    Key(keys="tab", action="next(1)", label="", help="the next panel"),
    Key(keys="shift+tab", action="next(-1)", label="", help="the panel before"),
    Key(keys="1", shown="1 to 5", action="page(1)", label="", help="a page of panels, on small screens"),
    *(Key(keys=str(number), action=f"page({number})", label="", help="") for number in range(2, 6)),
    Key(keys="right", action="turn(1)", label="", help="the next page, or the crosshair to the right"),
    Key(keys="left", action="turn(-1)", label="", help="the page before, or the crosshair to the left"),
)
"""Keys of screens with panels."""

CHART_KEYS: tuple[Key, ...] = (
    Key(keys="x", action="along", label="axis", help="charts by steps, time or episodes", rank=7),
    Key(
        keys="plus,equals_sign",
        shown="+",
        action="magnify(1)",
        label="",
        help="less of the axis: the newest, or around the crosshair",
    ),
    Key(keys="minus", shown="-", action="magnify(-1)", label="", help="more of the axis"),
    Key(keys="0", action="whole", label="", help="the whole axis, without crosshair"),
    Key(keys="shift+left,less_than_sign", shown="<", action="pan(-1)", label="", help="earlier, where zoomed"),
    Key(keys="shift+right,greater_than_sign", shown=">", action="pan(1)", label="", help="later, where zoomed"),
    Key(keys="v", action="cross", label="values", help="a crosshair that left, right and clicks move", rank=8),
    Key(keys="L", action="log_scale", label="", help="logarithmic axes where all values are above 0"),
    Key(keys="a", action="average", label="", help="average over more values, over fewer, or not at all"),
)
"""Keys of screens with charts; the mouse wheel zooms where it stands."""


class ChartScreen(BaseScreen):
    """A screen of panels on pages, whose charts are looked at together."""

    PAGES: ClassVar[Sequence[str]] = ()
    SLOTS: ClassVar[Sequence[Slot]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.viewport = Viewport()
        self.page, self.zoomed = self.PAGES[0], ""
        self.places = self.SLOTS
        self.hidden: frozenset[str] = frozenset()
        self.empty: frozenset[str] = frozenset()
        """Panels that have nothing to show, and are shown only when they are asked for."""
        self.wanted = ""
        """Only panels with something by this in them are shown."""
        self.panels: dict[str, Panel] = {}

    def lay_out_panels(self, width: int, height: int, head: int) -> None:
        """Put the panels below ``head`` rows and above the line of keys."""
        found = matching({name: self.words_of(name) for name in self.panels}, self.wanted)
        left_out = self.hidden | (self.panels.keys() - found if self.wanted else self.empty)
        # what was asked for is shown at once, wherever it belongs
        wide = is_wide(width, height - head - 1) or bool(self.wanted)
        tabs = self.query_one(Tabs)
        tabs.display = not wide or bool(self.zoomed)
        tabs.page, tabs.zoomed = self.page, self.zoomed
        tabs.redraw()
        room = height - head - 1 - int(tabs.display)
        if field := self.query(FilterField):
            room -= int(field.first().display)
        places = even_slots(self.places, left_out, width) if self.wanted else self.places
        shown = arrange(width, room, places, page=self.page, zoomed=self.zoomed, hidden=left_out, wide=wide)
        for name, panel in self.panels.items():
            region = shown.get(name)
            panel.display = region is not None
            if region is not None:
                panel.styles.offset = region.offset
                panel.styles.width, panel.styles.height = region.width, region.height
        if isinstance(self.focused, Panel) and not self.focused.display:
            self.set_focus(None)

    def words_of(self, name: str) -> str:
        """Return what a panel is found by: its name, title, page and the curves in it."""
        page = next((place.page for place in self.SLOTS if place.name == name), "")
        panel = self.panels[name]
        series = panel.chart.series if isinstance(panel, PanelChart) else ()
        return " ".join([name, panel.title, page, *(f"{s.label} {s.metric}" for s in series)])

    def on_input_changed(self, event: Input.Changed) -> None:
        self.wanted, self.zoomed = event.value, ""
        self.relayout()

    def on_input_submitted(self) -> None:
        field = self.query_one(FilterField)
        field.display = bool(field.value)
        self.set_focus(None)
        self.relayout()

    def action_filter(self) -> None:
        field = self.query_one(FilterField)
        field.display = True
        field.focus()
        self.relayout()

    def leave(self) -> None:
        """Go back to where one came from."""
        self.dashboard.pop_screen()

    def see(self, viewport: Viewport) -> None:
        """Look at all charts in another way."""
        self.viewport = viewport
        with self.app.batch_update():
            for panel in self.panels.values():
                panel.viewport = viewport

    def _charts(self) -> Iterable[PanelChart]:
        return [panel for panel in self.panels.values() if isinstance(panel, PanelChart) and panel.display]

    def end_of_axis(self) -> float:
        """Return how far the horizontal axes reach."""
        return max((panel.axes.end for panel in self._charts()), default=0.0)

    def newest(self) -> float:
        """Return where the newest values are."""
        return max((panel.axes.newest for panel in self._charts()), default=0.0)

    def focused_panel(self) -> str:
        """Return the name of the panel with the bright frame, empty where there is none."""
        return next((name for name, panel in self.panels.items() if panel is self.focused), "")

    def shown_panels(self) -> Iterable[str]:
        """Return the names of the panels that are seen."""
        return [name for name, panel in self.panels.items() if panel.display]

    def action_zoom(self) -> None:
        first = next(iter(self.shown_panels()), "")
        self.zoomed = "" if self.zoomed else self.focused_panel() or first
        self.relayout()

    def action_next(self, by: int) -> None:
        names = [n for n in self.panels if n not in self.hidden] if self.zoomed else list(self.shown_panels())
        if not names:
            return
        at = self.zoomed or self.focused_panel()
        index = (names.index(at) + by) % len(names) if at in names else 0 if by > 0 else len(names) - 1
        if self.zoomed:
            self.zoomed = names[index]
            self.relayout()
        self.set_focus(self.panels[names[index]])

    def action_page(self, number: int) -> None:
        if number <= len(self.PAGES):
            self.page, self.zoomed = self.PAGES[number - 1], ""
            self.relayout()

    def action_turn(self, by: int) -> None:
        if self.viewport.crosshair is not None:
            self.see(move_crosshair(self.viewport, self.end_of_axis(), by))
        elif self.zoomed:
            self.action_next(by)
        else:
            self.action_page((self.PAGES.index(self.page) + by) % len(self.PAGES) + 1)

    def action_back(self) -> None:
        if self.viewport.crosshair is not None:
            self.action_cross()
        elif self.zoomed:
            self.zoomed = ""
            self.relayout()
        elif (field := self.query(FilterField)) and field.first().display:
            field.first().value, field.first().display = "", False
            self.set_focus(None)
            self.relayout()
        elif self.focused is not None:
            self.set_focus(None)
        else:
            self.leave()

    def action_along(self) -> None:
        self.see(next_x_axis(self.viewport))

    def action_magnify(self, steps: int) -> None:
        self.see(zoom(self.viewport, self.end_of_axis(), steps))

    def action_whole(self) -> None:
        self.see(replace(self.viewport, window=None, crosshair=None))

    def action_pan(self, by: int) -> None:
        if self.viewport.window is None:
            self.show_notice("+ shows less of the axis; then this moves along it")
        self.see(pan(self.viewport, self.end_of_axis(), by))

    def action_cross(self) -> None:
        if self.viewport.crosshair is None:
            self.see(move_crosshair(self.viewport, self.end_of_axis(), at=self.newest()))
        else:
            self.see(replace(self.viewport, crosshair=None))

    def action_log_scale(self) -> None:
        self.see(replace(self.viewport, log=not self.viewport.log))
        self.show_notice("logarithmic axes where all values are above 0" if self.viewport.log else "linear axes")

    def action_average(self) -> None:
        self.see(next_smoothing(self.viewport))
        span = self.viewport.span
        self.show_notice(f"averaged over about {span:g} points" if span > 1 else "values as they were, not averaged")

    def on_panel_chart_pointed(self, message: PanelChart.Pointed) -> None:
        """Put the crosshair where somebody clicked, or zoom where the wheel turned."""
        end = self.end_of_axis()
        if message.wheel:
            self.see(zoom(self.viewport, end, message.wheel, message.place))
        else:
            self.see(move_crosshair(self.viewport, end, at=message.place))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and isinstance(event.widget, Panel):
            self.action_zoom()
