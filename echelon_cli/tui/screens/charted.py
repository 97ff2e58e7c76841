"""What screens with charts share: keys and mouse that zoom, move, cross and scale all of their charts at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from echelon_cli.tui.keys import Key
from echelon_cli.tui.panels.base import Panel, PanelChart
from echelon_cli.tui.screens.base import BaseScreen
from echelon_cli.tui.sight import Sight, crossed, next_along, next_span, panned, zoomed

SIGHT_KEYS: tuple[Key, ...] = (
    Key(keys="x", action="along", label="axis", help="charts by steps, time or episodes", rank=7),
    Key(
        keys="plus,equals_sign",
        shown="+",
        action="zoom_in(1)",
        label="",
        help="less of the axis: the newest, or around the crosshair",
    ),
    Key(keys="minus", shown="-", action="zoom_in(-1)", label="", help="more of the axis"),
    Key(keys="0", action="whole", label="", help="the whole axis, without crosshair"),
    Key(
        keys="shift+left,less_than_sign", shown="< shift+left", action="pan(-1)", label="", help="earlier, when zoomed"
    ),
    Key(
        keys="shift+right,greater_than_sign",
        shown="> shift+right",
        action="pan(1)",
        label="",
        help="later, when zoomed",
    ),
    Key(
        keys="v",
        action="cross",
        label="values",
        help="a crosshair: left and right move it, a click puts it somewhere",
        rank=8,
    ),
    Key(keys="L", action="log_scale", label="", help="logarithmic vertical axes where all is above 0"),
    Key(keys="a", action="average", label="", help="average over more values, over fewer, or not at all"),
)
"""Keys of screens with charts; the mouse wheel zooms where it stands."""


class Charted(BaseScreen):
    """A screen whose charts are looked at together."""

    sight = Sight()

    def charts(self) -> Iterable[Panel]:
        """Return the panels that follow the sight."""
        return ()

    def see(self, sight: Sight) -> None:
        """Look at all charts in another way."""
        self.sight = sight
        with self.app.batch_update():
            for panel in self.charts():
                panel.sight = sight

    def end_of_axis(self) -> float:
        """Return how far the horizontal axes reach."""
        ends = [panel.held.end for panel in self.charts() if isinstance(panel, PanelChart) and panel.display]
        return max(ends, default=0.0)

    def action_along(self) -> None:
        self.see(next_along(self.sight))

    def action_zoom_in(self, steps: int) -> None:
        self.see(zoomed(self.sight, self.end_of_axis(), steps))

    def action_whole(self) -> None:
        self.see(replace(self.sight, window=None, cross=None))

    def action_pan(self, by: int) -> None:
        if self.sight.window is None:
            self.say("+ zooms; then this moves along the axis")
        self.see(panned(self.sight, self.end_of_axis(), by))

    def action_cross(self) -> None:
        on = self.sight.cross is None
        self.see(crossed(self.sight, self.end_of_axis()) if on else replace(self.sight, cross=None))

    def action_log_scale(self) -> None:
        self.see(replace(self.sight, log=not self.sight.log))
        self.say("logarithmic axes where all values are above 0" if self.sight.log else "linear axes")

    def action_average(self) -> None:
        self.see(next_span(self.sight))
        span = self.sight.span
        self.say(f"averaged over about {span:g} points" if span > 1 else "values as they were, not averaged")

    def on_panel_chart_pointed(self, message: PanelChart.Pointed) -> None:
        """Put the crosshair where somebody clicked, or zoom where the wheel turned."""
        end = self.end_of_axis()
        if message.wheel:
            self.see(zoomed(self.sight, end, message.wheel, message.place))
        else:
            self.see(crossed(self.sight, end, at=message.place))
