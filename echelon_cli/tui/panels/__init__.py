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
from echelon_cli.tui.layout import Slot
from echelon_cli.tui.panels.bars import PanelOutcomes, PanelRewardTerms, PanelSpeed
from echelon_cli.tui.panels.base import CONFIDENCE_Z, DASH_COLUMNS, Panel, PanelChart
from echelon_cli.tui.panels.curriculum import PanelCurriculum
from echelon_cli.tui.panels.heat_maps import PanelHeatMaps
from echelon_cli.tui.panels.league_rating import PanelLeagueRating
from echelon_cli.tui.panels.log import PanelLog
from echelon_cli.tui.panels.machine import PanelMachine
from echelon_cli.tui.panels.opponents import PanelOpponents, mix_includes
from echelon_cli.tui.panels.system_metrics import PanelSystemMetrics, has_system_metrics

PAGES: tuple[str, ...] = ("results", "learning", "battles", "progress", "machine")
"""Pages of a small screen, in the order of their keys."""


@dataclass(frozen=True, kw_only=True)
class PanelSpec:
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
    is_league_run = mix_includes(snapshot, "league", "exploiters", unknown=False)
    return bool(snapshot.ratings) or (mix_includes(snapshot, "self_play", "past") and not is_league_run)


def is_in_league(snapshot: RunSnapshot) -> bool:
    """Say whether a run takes part in a league."""
    return bool(snapshot.leagues) or mix_includes(snapshot, "league", "exploiters")


def clip_line(snapshot: RunSnapshot) -> float:
    """Return the gradient norm at which gradients are clipped, 0 while unknown."""
    return snapshot.update.max_grad_norm if snapshot.update else 0.0


def evaluations(snapshot: RunSnapshot) -> list[Mark]:
    """Return the win rate of every evaluation."""
    return [Mark(e.update, e.win_rate, e.win_low, e.win_high) for e in snapshot.evals]


def ratings(snapshot: RunSnapshot) -> list[Mark]:
    """Return the rating of every snapshot that was rated, with its 95 % interval."""
    return [
        Mark(e.update, e.elo, e.elo - CONFIDENCE_Z * e.elo_error, e.elo + CONFIDENCE_Z * e.elo_error)
        for e in snapshot.ratings
    ]


def chart(*series: Series, kind: type[PanelChart] = PanelChart, **options: Any) -> Callable[..., Panel]:
    """Return what makes a panel with a chart of these curves."""
    return partial(kind, chart=Chart(series=series, **options))


PANELS: dict[str, PanelSpec] = {
    "wins": PanelSpec(
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
    "return": PanelSpec(title="return", page="results", make=chart(Series(metric="avg_return", label="mean"))),
    "speed": PanelSpec(
        title="steps per second",
        page="results",
        make=chart(Series(metric="steps_per_s", label="speed"), kind=PanelSpeed, text=speed),
    ),
    "gradient": PanelSpec(
        title="gradient norm",
        page="results",
        make=chart(
            Series(metric="grad_norm", label="mean"),
            Series(metric="grad_norm_max", label="max", role="series2", dash=DASH_COLUMNS, raw=False),
            reference=clip_line,
            reference_label="clip",
        ),
    ),
    "losses": PanelSpec(
        title="losses",
        page="learning",
        make=chart(
            Series(metric="vf_loss", label="value"),
            Series(metric="pg_loss", label="policy", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
    ),
    "kl": PanelSpec(
        title="KL and clipping",
        page="learning",
        make=chart(
            Series(metric="approx_kl", label="KL"),
            Series(metric="clip_frac", label="clipped", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
    ),
    "entropy": PanelSpec(
        title="entropy",
        page="learning",
        make=chart(
            Series(metric="entropy", label="entropy"),
            Series(metric="lr", label="step size", role="series2", right=True, dash=DASH_COLUMNS, raw=False),
        ),
    ),
    "explained": PanelSpec(
        title="explained variance",
        page="learning",
        make=chart(Series(metric="explained_variance", label="explained"), text=measured),
    ),
    "parts": PanelSpec(title="return by part", page="battles", make=PanelRewardTerms),
    "outcomes": PanelSpec(title="outcomes", page="battles", make=PanelOutcomes),
    "opponents": PanelSpec(title="opponents", page="battles", make=PanelOpponents),
    "rating": PanelSpec(
        title="rating",
        page="progress",
        make=chart(Series(metric="elo", label="Elo", raw=False), marks=ratings),
        is_needed=is_rated,
    ),
    "heat": PanelSpec(title="places", page="battles", make=PanelHeatMaps),
    "league": PanelSpec(title="league", page="progress", units=1, make=PanelLeagueRating, is_needed=is_in_league),
    "curriculum": PanelSpec(title="curriculum", page="progress", units=1, make=PanelCurriculum),
    "machine": PanelSpec(title="machine", page="machine", units=1, make=PanelMachine),
    "use": PanelSpec(
        title="use over time", page="machine", units=1, make=PanelSystemMetrics, is_needed=has_system_metrics
    ),
    "log": PanelSpec(title="log", page="machine", make=PanelLog),
}


def unneeded_panels(snapshot: RunSnapshot) -> frozenset[str]:
    """Return the panels that a run leaves empty for good."""
    return frozenset(name for name, row in PANELS.items() if not row.is_needed(snapshot))


PREVIEW: tuple[str, ...] = ("wins", "return", "speed", "gradient")
"""Panels that the list of runs shows of the chosen one."""

SLOTS: tuple[Slot, ...] = tuple(Slot(name, row.page, row.units) for name, row in PANELS.items())
