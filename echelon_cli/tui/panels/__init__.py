"""Every panel of the run screen: a row names its page, its width and what it draws. Add one by adding a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.tui.charts.chart import Chart, Series
from echelon_cli.tui.charts.plot import Mark
from echelon_cli.tui.format import measured, percent, speed
from echelon_cli.tui.layout import Place
from echelon_cli.tui.panels.bars import PanelOutcomes, PanelParts, PanelSpeed
from echelon_cli.tui.panels.base import DASH, SURE, Panel, PanelChart
from echelon_cli.tui.panels.curriculum import PanelCurriculum
from echelon_cli.tui.panels.heat_maps import PanelHeat
from echelon_cli.tui.panels.league_rating import PanelRank
from echelon_cli.tui.panels.log import PanelLog
from echelon_cli.tui.panels.machine import PanelMachine
from echelon_cli.tui.panels.opponents import PanelOpponents, meets
from echelon_cli.tui.panels.system_metrics import PanelUse, tells_use

PAGES: tuple[str, ...] = ("results", "learning", "battles", "progress", "machine")
"""Pages of a small screen, in the order of their keys."""


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    """One panel."""

    title: str
    page: str
    units: int = 2
    """Width on a wide screen, of ``layout.COLUMNS``."""
    make: Callable[..., Panel]
    """Called with the title and a widget's options."""
    is_needed: Callable[[RunSnapshot], bool] = lambda snapshot: True
    """Whether a run has, or can come to have, anything to show there."""


def is_rated(snapshot: RunSnapshot) -> bool:
    """Say whether snapshots of a run are, or will be, rated against each other; those of a league run it rates."""
    is_league_run = meets(snapshot, "league", "exploiters", unknown=False)
    return bool(snapshot.ratings) or (meets(snapshot, "self_play", "past") and not is_league_run)


def is_in_league(snapshot: RunSnapshot) -> bool:
    """Say whether a run takes part in a league."""
    return bool(snapshot.leagues) or meets(snapshot, "league", "exploiters")


def clip_line(snapshot: RunSnapshot) -> float:
    """Return the gradient norm at which gradients are clipped, 0 while unknown."""
    return snapshot.update.max_grad_norm if snapshot.update else 0.0


def evaluations(snapshot: RunSnapshot) -> list[Mark]:
    """Return the win rate of every evaluation."""
    return [Mark(e.update, e.win_rate, e.win_low, e.win_high) for e in snapshot.evals]


def ratings(snapshot: RunSnapshot) -> list[Mark]:
    """Return the rating of every snapshot that was rated, with its 95 % interval."""
    return [Mark(e.update, e.elo, e.elo - SURE * e.elo_error, e.elo + SURE * e.elo_error) for e in snapshot.ratings]


def chart(*series: Series, kind: type[PanelChart] = PanelChart, **options: Any) -> Callable[..., Panel]:
    """Return what makes a panel with a chart of these curves."""
    return partial(kind, chart=Chart(series=series, **options))


PANELS: dict[str, PanelRow] = {
    "wins": PanelRow(
        title="win rate",
        page="results",
        make=chart(
            Series(metric="win_rate", label="training", role="good"),
            text=percent,
            bounds=(0.0, 1.0),
            marks=evaluations,
            marks_label="eval",
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
    "opponents": PanelRow(title="opponents", page="battles", make=PanelOpponents),
    "rating": PanelRow(
        title="rating",
        page="progress",
        make=chart(Series(metric="elo", label="Elo", raw=False), marks=ratings),
        is_needed=is_rated,
    ),
    "heat": PanelRow(title="places", page="battles", make=PanelHeat),
    "league": PanelRow(title="league", page="progress", units=1, make=PanelRank, is_needed=is_in_league),
    "curriculum": PanelRow(title="curriculum", page="progress", units=1, make=PanelCurriculum),
    "machine": PanelRow(title="machine", page="machine", units=1, make=PanelMachine),
    "use": PanelRow(title="use over time", page="machine", units=1, make=PanelUse, is_needed=tells_use),
    "log": PanelRow(title="log", page="machine", make=PanelLog),
}


def unneeded(snapshot: RunSnapshot) -> frozenset[str]:
    """Return the panels that a run leaves empty for good."""
    return frozenset(name for name, row in PANELS.items() if not row.is_needed(snapshot))


PREVIEW: tuple[str, ...] = ("wins", "return", "speed", "gradient")
"""Panels that the list of runs shows of the chosen one."""

PLACES: tuple[Place, ...] = tuple(Place(name, row.page, row.units) for name, row in PANELS.items())
