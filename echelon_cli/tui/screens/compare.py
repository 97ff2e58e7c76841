"""Several runs over each other: who is who, every chart with all of them, and where their configurations differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from textual.containers import Container
from textual.widget import Widget

from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.keys import Key, bindings
from echelon_cli.tui.layout import Slot, is_wide
from echelon_cli.tui.panels import PANELS
from echelon_cli.tui.panels.comparison import SAME, CompareHeader, PanelDifference, PanelOverlay, differences
from echelon_cli.tui.screens.chart_screen import CHART_KEYS, PANEL_KEYS, ChartScreen
from echelon_cli.tui.widgets.filter import FilterField
from echelon_cli.tui.widgets.tabs import Tabs

COMPARED: tuple[str, ...] = ("wins", "return", "speed", "gradient", "losses", "kl", "entropy", "explained")
"""Charts of the run screen whose first curve is drawn for all runs."""

CONFIG = "config"
AROUND = 3
"""Rows of its panel that are no settings: the frame, and who is who."""

CONFIG_PAGE = "configuration"


def _title(name: str) -> str:
    """Return what a chart is called that shows its first curve only."""
    first = PANELS[name].make.keywords["chart"].series[0].label
    title, several = PANELS[name].title, len(PANELS[name].make.keywords["chart"].series) > 1
    return f"{title}: {first}" if several and first != title else title


TITLES = {**{name: _title(name) for name in COMPARED}, CONFIG: "configuration"}

SLOTS: tuple[Slot, ...] = (
    *(Slot(name, PANELS[name].page) for name in COMPARED),
    Slot(CONFIG, CONFIG_PAGE, 8),
)

PAGES: tuple[str, ...] = tuple(dict.fromkeys(place.page for place in SLOTS))


class CompareScreen(ChartScreen):
    """Two to six runs."""

    KEYS = (
        Key(keys="escape", shown="esc", action="back", label="back", help="back to all runs", rank=2),
        *PANEL_KEYS,
        *CHART_KEYS,
    )
    BINDINGS = bindings(KEYS)
    PAGES, SLOTS = PAGES, SLOTS

    def __init__(self, roots: tuple[Path, ...]) -> None:
        super().__init__()
        self.roots = roots
        self._differing = -1
        """In how many settings the runs differ, below 0 while that is not known."""
        self._views = {root: RunView(id=root.name, root=root) for root in roots}

    def compose_content(self) -> Iterable[Widget]:
        theme = self.dashboard.terminal_theme
        yield CompareHeader(theme=theme, id="head")
        yield Tabs(PAGES, TITLES, theme=theme, id="tabs")
        for name, title in TITLES.items():
            make: Callable[..., PanelOverlay] = PanelDifference if name == CONFIG else PanelOverlay
            source = PANELS[COMPARED[0] if name == CONFIG else name]
            self.panels[name] = make(title, source.make.keywords["chart"], theme=theme, id=f"panel-{name}")
        yield Container(*self.panels.values(), id="body")
        yield FilterField(theme=theme)

    def resume(self) -> None:
        self._show()
        self.subscribe(others=self.roots)

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
        if found is not None and len(found) != self._differing:
            self._differing = len(found)
            self.relayout()

    def lay_out(self, width: int, height: int) -> None:
        head = len(self.roots) + 1
        self.query_one(CompareHeader).styles.height = head
        # a page of its own says so in words; beside the charts it is said above them
        alone = self._differing == 0 and is_wide(width, height - head - 1)
        self.empty = frozenset({CONFIG}) if alone else frozenset()
        self.query_one(CompareHeader).note = SAME if alone else ""
        enough = self._differing + AROUND if self._differing > 0 else 0
        self.places = (*SLOTS[:-1], replace(SLOTS[-1], most=enough))
        self.lay_out_panels(width, height, head)
