"""Base class of screens with panels on pages: maximising, searching, and one viewport for all charts."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import events
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from echelon_cli.tui.charts.viewport import Viewport, move_crosshair, next_smoothing, next_x_axis, pan, zoom
from echelon_cli.tui.keys import Key
from echelon_cli.tui.layout import Slot, arrange, even_slots, is_wide
from echelon_cli.tui.panels.base import Panel, PanelChart, SelectionPanel
from echelon_cli.tui.screens.base import BaseScreen
from echelon_cli.tui.widgets.cells import CellView
from echelon_cli.tui.widgets.filter import FIND, NOT_FOUND, FilterField, matching
from echelon_cli.tui.widgets.tabs import Tabs

MAX_PAGES = 6

PANEL_KEYS: tuple[Key, ...] = (
    Key("z", "maximise", "maximise", "show one panel alone, or all again", rank=5),
    Key("slash", "filter", "find", "show panels that match words or a pattern", shown="/", rank=6),
    Key("tab", "next(1)", "", "next panel"),
    Key("shift+tab", "next(-1)", "", "previous panel"),
    Key("1", "page(1)", "", "page of panels", shown=f"1 to {MAX_PAGES}"),
    *(Key(str(n), f"page({n})", "", "") for n in range(2, MAX_PAGES + 1)),
    Key("right", "turn(1)", "", "next page, or move the crosshair right"),
    Key("left", "turn(-1)", "", "previous page, or move the crosshair left"),
)

CHART_KEYS: tuple[Key, ...] = (
    Key("x", "x_axis", "axis", "x axis: steps, time or episodes", rank=7),
    Key("plus,equals_sign", "zoom(1)", "", "zoom in at the crosshair or newest value", shown="+"),
    Key("minus", "zoom(-1)", "", "zoom out", shown="-"),
    Key("0", "reset_zoom", "", "show the whole axis, remove the crosshair"),
    Key("shift+left,less_than_sign", "pan(-1)", "", "move left while zoomed in", shown="<"),
    Key("shift+right,greater_than_sign", "pan(1)", "", "move right while zoomed in", shown=">"),
    Key("v", "crosshair", "crosshair", "crosshair; arrow keys and clicks move it", rank=8),
    Key("L", "log_scale", "", "log scale for metrics that are always positive"),
    Key("a", "smoothing", "smoothing", "smoothing: default, strong, none, weak", rank=8),
)
"""Keys of screens with charts; the mouse wheel zooms at the pointer."""


class ChartScreen(BaseScreen):
    """A screen of panels on pages, whose charts share one viewport."""

    PAGES: ClassVar[Sequence[str]] = ()
    WIDE_PAGES: ClassVar[Mapping[str, str]] = {}
    """Page of a wide screen for each page; without them, a wide screen shows all panels."""
    SLOTS: ClassVar[Sequence[Slot]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.viewport = Viewport()
        self.page, self.maximised = self.PAGES[0], ""
        self.slots = self.SLOTS
        self.shown_pages = self.PAGES
        """Pages at the current size of the terminal."""
        self.on_one_page = False
        """Whether all panels are shown at once, on small screens too."""
        self.hidden: frozenset[str] = frozenset()
        self.unneeded: frozenset[str] = frozenset()
        """Panels without data, shown only if a search finds them."""
        self.query_text = ""
        """Only panels that match it are shown; empty shows all."""
        self.panels: dict[str, Panel] = {}

    def lay_out_panels(self, width: int, height: int, header_rows: int) -> None:
        """Lay the panels out between ``header_rows`` rows at the top and the key bar."""
        found = matching({name: self.search_text(name) for name in self.panels}, self.query_text)
        excluded = self.hidden | (self.panels.keys() - found if self.query_text else self.unneeded)
        # search results are shown at once, whichever page they are on
        wide = is_wide(width, height - header_rows - 1) or bool(self.query_text) or self.on_one_page
        is_split = wide and not self.query_text and not self.on_one_page
        pages = self.WIDE_PAGES if is_split else {}
        self.shown_pages = tuple(dict.fromkeys(pages.values())) or self.PAGES
        tabs = self.query_one(Tabs)
        tabs.display = not wide or bool(self.maximised) or bool(pages)
        tabs.pages, tabs.page, tabs.maximised = self.shown_pages, pages.get(self.page, self.page), self.maximised
        tabs.redraw()
        rows = height - header_rows - 1 - int(tabs.display)
        if field := self.query(FilterField):
            rows -= int(field.first().display)
            field.first().prompt = FIND if found or not self.query_text else NOT_FOUND
        slots = even_slots(self.slots, excluded, width) if self.query_text else self.slots
        slots = [slot for slot in slots if not pages or pages[slot.page] == tabs.page]
        regions = arrange(width, rows, slots, page=self.page, maximised=self.maximised, hidden=excluded, wide=wide)
        for name, panel in self.panels.items():
            region = regions.get(name)
            panel.display = region is not None
            if region is not None:
                panel.styles.offset = region.offset
                panel.styles.width, panel.styles.height = region.width, region.height
        if isinstance(self.focused, Panel) and not self.focused.display:
            self.set_focus(None)

    def search_text(self, name: str) -> str:
        """Return the text that a search matches: name, title, page and metrics of a panel."""
        page = next((slot.page for slot in self.SLOTS if slot.name == name), "")
        panel = self.panels[name]
        series = panel.chart.series if isinstance(panel, PanelChart) else ()
        return " ".join([name, panel.title, page, *(f"{s.label} {s.metric}" for s in series)])

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_text, self.maximised = event.value, ""
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
        super().action_back()

    def set_viewport(self, viewport: Viewport) -> None:
        self.viewport = viewport
        with self.app.batch_update():
            for panel in self.panels.values():
                panel.viewport = viewport

    def _charts(self) -> Iterable[PanelChart]:
        return [panel for panel in self.panels.values() if isinstance(panel, PanelChart) and panel.display]

    def axis_end(self) -> float:
        return max((panel.axes.end for panel in self._charts()), default=0.0)

    def focused_panel(self) -> str:
        """Return the name of the focused panel, empty without one."""
        return next((name for name, panel in self.panels.items() if panel is self.focused), "")

    def visible_panels(self) -> list[str]:
        return [name for name, panel in self.panels.items() if panel.display]

    def action_maximise(self) -> None:
        first = next(iter(self.visible_panels()), "")
        self.maximised = "" if self.maximised else self.focused_panel() or first
        self.relayout()

    def action_next(self, by: int) -> None:
        names = [name for name in self.panels if name not in self.hidden] if self.maximised else self.visible_panels()
        if not names:
            return
        current = self.maximised or self.focused_panel()
        index = (names.index(current) + by) % len(names) if current in names else 0 if by > 0 else len(names) - 1
        if self.maximised:
            self.maximised = names[index]
            self.relayout()
        self.set_focus(self.panels[names[index]])

    def action_page(self, number: int) -> None:
        if number <= len(self.shown_pages):
            name = self.shown_pages[number - 1]
            self.page, self.maximised = next((p for p in self.PAGES if self.WIDE_PAGES.get(p) == name), name), ""
            self.relayout()

    def action_turn(self, by: int) -> None:
        if self.viewport.crosshair is not None:
            self.set_viewport(move_crosshair(self.viewport, self.axis_end(), by))
        elif self.maximised:
            self.action_next(by)
        else:
            pages = self.shown_pages
            at = pages.index(self.page if self.page in pages else self.WIDE_PAGES[self.page])
            self.action_page((at + by) % len(pages) + 1)

    def action_back(self) -> None:
        if self.viewport.crosshair is not None:
            self.action_crosshair()
        elif self.maximised:
            self.maximised = ""
            self.relayout()
        elif (field := self.query(FilterField)) and field.first().display:
            field.first().value, field.first().display = "", False
            self.set_focus(None)
            self.relayout()
        elif self.focused is not None:
            self.set_focus(None)
        else:
            self.leave()

    def action_x_axis(self) -> None:
        self.set_viewport(next_x_axis(self.viewport))

    def action_zoom(self, steps: int) -> None:
        self.set_viewport(zoom(self.viewport, self.axis_end(), steps))

    def action_reset_zoom(self) -> None:
        self.set_viewport(replace(self.viewport, window=None, crosshair=None))

    def action_pan(self, by: int) -> None:
        if self.viewport.window is None:
            self.show_notice("+ zooms in; then < and > move along the axis")
        self.set_viewport(pan(self.viewport, self.axis_end(), by))

    def action_crosshair(self) -> None:
        if self.viewport.crosshair is None:
            newest = max((panel.axes.newest for panel in self._charts()), default=0.0)
            self.set_viewport(move_crosshair(self.viewport, self.axis_end(), at=newest))
        else:
            self.set_viewport(replace(self.viewport, crosshair=None))

    def action_log_scale(self) -> None:
        self.set_viewport(replace(self.viewport, log=not self.viewport.log))
        self.show_notice("log scale for metrics that are always positive" if self.viewport.log else "linear scale")

    def action_smoothing(self) -> None:
        self.set_viewport(next_smoothing(self.viewport))
        span = self.viewport.span
        self.show_notice(f"smoothed over about {span:g} points" if span > 1 else "no smoothing")

    def on_panel_chart_pointed(self, message: PanelChart.Pointed) -> None:
        """Zoom at the pointer on a wheel event, else move the crosshair to it."""
        end = self.axis_end()
        if message.wheel:
            self.set_viewport(zoom(self.viewport, end, message.wheel, message.position))
        else:
            self.set_viewport(move_crosshair(self.viewport, end, at=message.position))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and isinstance(event.widget, Panel):
            self.action_maximise()


class SelectionScreen(ChartScreen):
    """A screen of panels about the rows of one view, with one row selected."""

    HEAD: ClassVar[type[CellView]]
    """Class of the widget above the panels; it draws its ``view``."""
    HEAD_ROWS: ClassVar[int] = 1
    PANEL_CLASSES: ClassVar[Mapping[str, type[SelectionPanel]]]
    TITLES: ClassVar[Mapping[str, str]]

    def __init__(self, view: Any) -> None:
        super().__init__()
        self.view: Any = view
        self.selected: Any = None

    @abstractmethod
    def keys_of_rows(self) -> list[Any]:
        """Return what identifies each row, in the order of the list."""

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield self.HEAD(theme=theme, id="head")
        yield Tabs(self.PAGES, self.TITLES, theme=theme, id="tabs")
        self.panels = {
            name: kind(self.TITLES[name], theme=theme, id=f"panel-{name}") for name, kind in self.PANEL_CLASSES.items()
        }
        yield Container(*self.panels.values(), id="body")

    def prepare(self) -> None:
        self.query_one("#head").styles.height = self.HEAD_ROWS
        self.show_rows(self.view)

    def lay_out(self, width: int, height: int) -> None:
        self.lay_out_panels(width, height, self.HEAD_ROWS)

    def show_rows(self, view: Any) -> None:
        """Show a view; the first row is selected where the selected one is missing."""
        self.view = view
        keys = self.keys_of_rows()
        if self.selected not in keys:
            self.selected = keys[0] if keys else None
        head: Any = self.query_one("#head")
        head.view = view
        with self.app.batch_update():
            head.redraw()
            for panel in self.query(SelectionPanel):
                panel.show(view, keys, self.selected)

    def on_selection_panel_selected(self, message: SelectionPanel.Selected) -> None:
        self.selected = message.key
        self.show_rows(self.view)

    def action_move(self, by: int) -> None:
        if keys := self.keys_of_rows():
            self.selected = keys[max(0, min(len(keys) - 1, keys.index(self.selected) + by))]
            self.show_rows(self.view)
