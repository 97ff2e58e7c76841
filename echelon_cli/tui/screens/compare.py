"""The compare screen: a header with one line per run, charts with all runs, and their configuration differences."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from textual.containers import Container
from textual.widget import Widget

from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.keys import back_key, bindings
from echelon_cli.tui.layout import COLUMNS, Slot, is_wide
from echelon_cli.tui.panels import COMPARED, PANELS, chart_of, compared_title
from echelon_cli.tui.panels.comparison import NO_DIFFERENCE, CompareHeader, PanelDifference, PanelOverlay, differences
from echelon_cli.tui.screens.chart_screen import CHART_KEYS, PANEL_KEYS, ChartScreen
from echelon_cli.tui.widgets.filter import FilterField
from echelon_cli.tui.widgets.tabs import Tabs

CONFIG = "config"
CONFIG_MARGIN = 3
CONFIG_TITLE = "configuration"


TITLES = {**{name: compared_title(name) for name in COMPARED}, CONFIG: CONFIG_TITLE}

SLOTS: tuple[Slot, ...] = (*(Slot(name, PANELS[name].page) for name in COMPARED), Slot(CONFIG, CONFIG_TITLE, COLUMNS))

PAGES: tuple[str, ...] = tuple(dict.fromkeys(slot.page for slot in SLOTS))


class CompareScreen(ChartScreen):
    """Two to six runs side by side."""

    KEYS = (back_key("back to the run list"), *PANEL_KEYS, *CHART_KEYS)
    BINDINGS = bindings(KEYS)
    PAGES, SLOTS = PAGES, SLOTS

    def __init__(self, roots: tuple[Path, ...]) -> None:
        super().__init__()
        self.roots = roots
        self._difference_count = -1
        """Number of differing configuration keys; negative while unknown."""
        self._views = {root: RunView(id=root.name, root=root) for root in roots}

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield CompareHeader(theme=theme, id="head")
        yield Tabs(PAGES, TITLES, theme=theme, id="tabs")
        for name, title in TITLES.items():
            make: Callable[..., PanelOverlay] = PanelDifference if name == CONFIG else PanelOverlay
            chart = chart_of(COMPARED[0] if name == CONFIG else name)
            self.panels[name] = make(title, chart, theme=theme, id=f"panel-{name}")
        yield Container(*self.panels.values(), id="body")
        yield FilterField(theme=theme)

    def activate(self) -> None:
        self._show()
        self.subscribe(*(("run", root) for root in self.roots))

    def show_run(self, view: RunView) -> None:
        if view.root in self._views:
            self._views[view.root] = view
            self._show()

    def _show(self) -> None:
        runs = tuple(self._views[root] for root in self.roots)
        with self.app.batch_update():
            self.query_one(CompareHeader).runs = runs
            for panel in self.query(PanelOverlay):
                panel.runs = runs
        found = differences([view.snapshot.start for view in runs])
        if found is not None and len(found) != self._difference_count:
            self._difference_count = len(found)
            self.relayout()

    def lay_out(self, width: int, height: int) -> None:
        header_rows = len(self.roots) + 1
        header = self.query_one(CompareHeader)
        header.styles.height = header_rows
        # equal configurations are a note in the header on a wide screen, and a page of their own on a small one
        is_note = self._difference_count == 0 and is_wide(width, height - header_rows - 1)
        self.unneeded = frozenset({CONFIG}) if is_note else frozenset()
        header.note = NO_DIFFERENCE if is_note else ""
        max_rows = self._difference_count + CONFIG_MARGIN if self._difference_count > 0 else 0
        self.slots = (*SLOTS[:-1], replace(SLOTS[-1], max_rows=max_rows))
        self.lay_out_panels(width, height, header_rows)
