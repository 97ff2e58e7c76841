"""Every panel of the run screen: a row names its page, its width and what it draws. Add one by adding a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.charts import Chart, Series
from echelon_cli.tui.format import measured, percent, speed
from echelon_cli.tui.layout import Place
from echelon_cli.tui.panels.bars import PanelOutcomes, PanelParts, PanelSpeed
from echelon_cli.tui.panels.base import Panel, PanelChart
from echelon_cli.tui.panels.machine import PanelMachine
from echelon_cli.tui.panels.texts import PanelCurriculum, PanelLog

PAGES: tuple[str, ...] = ("results", "learning", "battles", "machine")
"""Pages of a small screen, in the order of their keys."""

DASH = 3
"""Columns of dots in a dash of second curves."""


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    """One panel."""

    title: str
    page: str
    units: int = 2
    """Width on a wide screen, of ``layout.COLUMNS``."""
    make: Callable[..., Panel]
    """Called with the title and a widget's options."""


def clip_line(snapshot: RunSnapshot) -> float:
    """Return the gradient norm at which gradients are clipped, 0 while unknown."""
    return snapshot.update.max_grad_norm if snapshot.update else 0.0


def chart(*series: Series, kind: type[PanelChart] = PanelChart, **options: Any) -> Callable[..., Panel]:
    """Return what makes a panel with a chart of these curves."""
    return partial(kind, chart=Chart(series=series, **options))


PANELS: dict[str, PanelRow] = {
    "wins": PanelRow(
        title="win rate",
        page="results",
        make=chart(
            Series(metric="win_rate", label="training", role="good"), text=percent, bounds=(0.0, 1.0), evaluations=True
        ),
    ),
    "return": PanelRow(title="return", page="results", make=chart(Series(metric="avg_return", label="mean"))),
    "speed": PanelRow(
        title="steps per second",
        page="results",
        make=chart(Series(metric="steps_per_s", label="speed"), kind=PanelSpeed, text=speed),
    ),
    "gradient": PanelRow(
        title="gradient norm",
        page="results",
        make=chart(
            Series(metric="grad_norm", label="mean"),
            Series(metric="grad_norm_max", label="max", role="series2", dash=DASH, raw=False),
            reference=clip_line,
            reference_label="clip",
        ),
    ),
    "losses": PanelRow(
        title="losses",
        page="learning",
        make=chart(
            Series(metric="vf_loss", label="value"),
            Series(metric="pg_loss", label="policy", role="series2", right=True, dash=DASH, raw=False),
        ),
    ),
    "kl": PanelRow(
        title="KL and clipping",
        page="learning",
        make=chart(
            Series(metric="approx_kl", label="KL"),
            Series(metric="clip_frac", label="clipped", role="series2", right=True, dash=DASH, raw=False),
        ),
    ),
    "entropy": PanelRow(
        title="entropy",
        page="learning",
        make=chart(
            Series(metric="entropy", label="entropy"),
            Series(metric="lr", label="step size", role="series2", right=True, dash=DASH, raw=False),
        ),
    ),
    "explained": PanelRow(
        title="explained variance",
        page="learning",
        make=chart(Series(metric="explained_variance", label="explained"), text=measured),
    ),
    "parts": PanelRow(title="return by part", page="battles", make=PanelParts),
    "outcomes": PanelRow(title="outcomes", page="battles", make=PanelOutcomes),
    "curriculum": PanelRow(title="curriculum", page="battles", units=1, make=PanelCurriculum),
    "machine": PanelRow(title="machine", page="machine", units=1, make=PanelMachine),
    "log": PanelRow(title="log", page="machine", units=2, make=PanelLog),
}

PREVIEW: tuple[str, ...] = ("wins", "return", "speed", "gradient")
"""Panels that the list of runs shows of the chosen one."""

PLACES: tuple[Place, ...] = tuple(Place(name, row.page, row.units) for name, row in PANELS.items())
