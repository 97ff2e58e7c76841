"""The panels of the run screen: ``PANELS`` declares page, width and content of each.

To add a chart, add one ``PanelSpec`` with ``chart(Series(metric=...))``: any numeric field of
``echelon.telemetry.events.EventUpdate`` can be its metric, ``unit`` is shown after its value, and ``signed`` says that
it may be negative. The run screen, its pages, the compare screen, the help, ``echelon dash --once`` and the panel
tests follow from the row. To add another panel, write a subclass of ``panels.base.Panel`` in a module here and add its
row. ``just golden`` writes the snapshot of a new row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.output import measured, percent
from echelon_cli.tui.charts.chart import Chart, Series
from echelon_cli.tui.charts.plot import Mark
from echelon_cli.tui.feed.messages import RunView
from echelon_cli.tui.format import speed
from echelon_cli.tui.layout import COLUMNS, Slot
from echelon_cli.tui.panels.bars import PanelOutcomes, PanelRewardTerms, PanelSpeed
from echelon_cli.tui.panels.base import CONFIDENCE_Z, DASH_COLUMNS, Panel, PanelChart
from echelon_cli.tui.panels.curriculum import PanelCurriculum
from echelon_cli.tui.panels.evaluations import PanelEvaluations, has_evaluations
from echelon_cli.tui.panels.heat_maps import PanelHeatMaps
from echelon_cli.tui.panels.league_rating import PanelLeagueRating
from echelon_cli.tui.panels.log import PanelLog
from echelon_cli.tui.panels.machine import PanelMachine
from echelon_cli.tui.panels.opponents import PanelOpponents, mix_includes
from echelon_cli.tui.panels.system_metrics import PanelSystemMetrics, has_system_metrics
from echelon_cli.tui.panels.win_rate import UNTRAINED, PanelWinRate

WIDE_PAGES: dict[str, str] = {
    "wins": "overview",
    "learning": "overview",
    "update": "overview",
    "battles": "details",
    "progress": "details",
    "machine": "details",
}
"""Page of a wide screen for each page of a small one."""

PAGES: tuple[str, ...] = tuple(WIDE_PAGES)


@dataclass(frozen=True, kw_only=True)
class PanelSpec:
    """The declaration of one panel."""

    title: str
    page: str
    span: int = 2
    """Width on a wide screen, in grid columns of ``layout.COLUMNS``."""
    weight: int = 1
    """Share of the rows of a wide screen, of a panel as wide as it."""
    make: Callable[..., Panel]
    """Called with the title and widget options."""
    is_needed: Callable[[RunSnapshot], bool] = lambda snapshot: True
    """Returns whether a run has, or may get, data for the panel; otherwise it is hidden until searched for."""
    is_compared: bool = True
    """Whether the compare screen overlays the first curve of all runs, if the panel has a chart."""
    help: str = ""
    """Explanation on the help screen; empty where the title says it all."""

    @property
    def chart(self) -> Chart | None:
        """The chart of a panel made by ``chart``; None for other panels."""
        return self.make.keywords.get("chart") if isinstance(self.make, partial) else None


def is_rated(snapshot: RunSnapshot) -> bool:
    """Return whether the run rates its own snapshots; those of a league run are rated by the league."""
    is_league_run = mix_includes(snapshot, "league", "exploiters", unknown=False)
    return bool(snapshot.ratings) or (mix_includes(snapshot, "self_play", "past") and not is_league_run)


def is_in_league(snapshot: RunSnapshot) -> bool:
    return bool(snapshot.leagues) or mix_includes(snapshot, "league", "exploiters")


def has_teacher(snapshot: RunSnapshot) -> bool:
    config = {} if snapshot.start is None else snapshot.start.config
    return bool(config.get("teacher", {}).get("policy"))


def clip_verdict(snapshot: RunSnapshot) -> str:
    """Return how many optimiser steps are clipped, where most are."""
    share = snapshot.update.grad_clipped_share if snapshot.update else 0.0
    return f"clips {percent(share)} of steps" if share > 0.5 else ""


def evaluation_marks(snapshot: RunSnapshot) -> list[Mark]:
    return [
        Mark(e.update, e.win_rate, e.win_low, e.win_high, "" if snapshot.is_trained(e) else UNTRAINED)
        for e in snapshot.evals
    ]


def rating_marks(snapshot: RunSnapshot) -> list[Mark]:
    margin = CONFIDENCE_Z
    return [Mark(e.update, e.elo, e.elo - margin * e.elo_error, e.elo + margin * e.elo_error) for e in snapshot.ratings]


def chart(*series: Series, kind: type[PanelChart] = PanelChart, **options: Any) -> Callable[..., Panel]:
    """Return a factory of panels with a chart of these series; ``options`` are fields of ``Chart``."""
    return partial(kind, chart=Chart(series=series, **options))


def second_series(metric: str, label: str, *, right: bool = False, **options: Any) -> Series:
    """Return the second curve of a chart, with its own axis at the right if ``right``."""
    return Series(metric=metric, label=label, role="series2", right=right, dash=DASH_COLUMNS, raw=False, **options)


PANELS: dict[str, PanelSpec] = {
    "wins": PanelSpec(
        title="win rate",
        page="wins",
        span=COLUMNS,
        weight=2,
        make=chart(
            Series(metric="win_rate", label="training mix", dash=DASH_COLUMNS, raw=False, smooth=False),
            kind=PanelWinRate,
            format_value=percent,
            bounds=(0.0, 1.0),
            marks=evaluation_marks,
            marks_label="eval",
            joined=True,
        ),
        help="eval: evaluations on held-out seeds with their 95 % intervals; training mix: newest 100 training "
        "battles won, against the current mix of opponents",
    ),
    "return": PanelSpec(
        title="return", page="learning", make=chart(Series(metric="avg_return", label="mean", signed=True))
    ),
    "losses": PanelSpec(
        title="losses",
        page="learning",
        make=chart(
            Series(metric="vf_loss", label="value"), second_series("pg_loss", "policy", right=True, signed=True)
        ),
    ),
    "kl": PanelSpec(
        title="KL and clipping",
        page="learning",
        make=chart(
            Series(metric="approx_kl", label="KL", unit="nats"), second_series("clipfrac", "clipped", right=True)
        ),
        help="KL divergence of the policy per update; clipped: fraction of samples clipped",
    ),
    "entropy": PanelSpec(
        title="entropy",
        page="learning",
        make=chart(
            Series(metric="entropy", label="entropy", unit="nats", signed=True),
            second_series("lr", "lr", right=True, smooth=False),
        ),
        help="entropy of the policy; lr: learning rate",
    ),
    "speed": PanelSpec(
        title="steps per second",
        page="update",
        make=chart(Series(metric="steps_per_s", label="speed"), kind=PanelSpeed, format_value=speed),
    ),
    "gradient": PanelSpec(
        title="gradient norm",
        page="update",
        make=chart(
            Series(metric="grad_norm", label="mean"),
            second_series("grad_norm_max", "max"),
            reference=lambda snapshot: snapshot.update.max_grad_norm if snapshot.update else 0.0,
            reference_label="clip",
            verdict=clip_verdict,
        ),
        help="before clipping; longer gradients are scaled down to the clip line. Where most steps are clipped, the "
        "clip sets their size: try a lower ppo.lr",
    ),
    "explained": PanelSpec(
        title="explained variance",
        page="update",
        make=chart(Series(metric="explained_variance", label="explained", signed=True), format_value=measured),
        help="1 = value predicts returns, 0 = no better than the mean",
    ),
    "imitation": PanelSpec(
        title="imitation",
        page="update",
        make=chart(
            Series(metric="agreement", label="agreement"),
            second_series("learner_share", "learner acts", smooth=False),
            second_series("imitation_loss", "loss", right=True),
            bounds=(0.0, 1.0),
        ),
        is_needed=has_teacher,
        help="agreement with the teacher's discrete choices",
    ),
    "reward_terms": PanelSpec(
        title="reward terms", page="battles", make=PanelRewardTerms, help="sum of each reward term per mech and episode"
    ),
    "outcomes": PanelSpec(title="outcomes", page="battles", make=PanelOutcomes),
    "opponents": PanelSpec(
        title="opponents",
        page="battles",
        make=PanelOpponents,
        help="share: current share of the environments; recent: win rate of the newest 100 battles "
        "against it; whole run: of all",
    ),
    "rating": PanelSpec(
        title="rating",
        page="progress",
        make=chart(Series(metric="elo", label="Elo", raw=False, signed=True), marks=rating_marks),
        is_needed=is_rated,
        is_compared=False,
    ),
    "heat_maps": PanelSpec(
        title="heat maps",
        page="battles",
        make=PanelHeatMaps,
        help="positions of movement, damage and deaths in the newest evaluation; brighter, or denser, is more",
    ),
    "league": PanelSpec(title="league", page="progress", span=1, make=PanelLeagueRating, is_needed=is_in_league),
    "curriculum": PanelSpec(
        title="curriculum",
        page="progress",
        span=1,
        make=PanelCurriculum,
        help="curriculum parameters and their changes, newest first; maximised, with steps and reason",
    ),
    "evaluations": PanelSpec(
        title="evaluations",
        page="progress",
        make=PanelEvaluations,
        is_needed=has_evaluations,
        help="results of echelon eval, then evaluations in training; maximised, with matches, update, time and maps",
    ),
    "machine": PanelSpec(title="machine", page="machine", span=1, make=PanelMachine),
    "system_metrics": PanelSpec(
        title="system metrics",
        page="machine",
        span=1,
        make=PanelSystemMetrics,
        is_needed=has_system_metrics,
        help="CPU, memory, disk and GPU at each update; large panels show all of them",
    ),
    "log": PanelSpec(title="log", page="machine", make=PanelLog),
}

PREVIEW: tuple[str, ...] = ("wins", "return", "speed", "gradient")

COMPARED: tuple[str, ...] = tuple(name for name, spec in PANELS.items() if spec.chart and spec.is_compared)
"""Charts of the compare screen and of ``echelon runs compare --chart``."""

SLOTS: tuple[Slot, ...] = tuple(Slot(name, spec.page, spec.span, weight=spec.weight) for name, spec in PANELS.items())

KIND_SLOTS: dict[str, tuple[Slot, ...]] = {
    "train": SLOTS,
    "eval": tuple(Slot(name, PANELS[name].page, COLUMNS) for name in ("evaluations", "log")),
}
"""Panels of a job by its kind, those of other kinds than training shown at once."""

OTHER_SLOTS: tuple[Slot, ...] = (Slot("log", PANELS["log"].page, COLUMNS),)


def chart_of(name: str) -> Chart:
    """Return the chart of a panel; ``ValueError`` for a panel without one."""
    found = PANELS[name].chart
    if found is None:
        raise ValueError(f"panel {name!r} has no chart, expected one of {', '.join(COMPARED)}")
    return found


def compared_title(name: str) -> str:
    """Return the title of a chart with the first series of several runs; marks are another measure than the series."""
    found = chart_of(name)
    title, first = PANELS[name].title, found.series[0].label
    return f"{title}: {first}" if (len(found.series) > 1 or found.marks) and first != title else title


def slots_of(view: RunView) -> tuple[Slot, ...]:
    return KIND_SLOTS.get("eval" if view.snapshot.is_evaluation else view.kind, OTHER_SLOTS)


def unneeded_panels(view: RunView) -> frozenset[str]:
    if (slots := slots_of(view)) is not SLOTS:
        return frozenset(PANELS) - {slot.name for slot in slots}
    return frozenset(name for name, spec in PANELS.items() if not spec.is_needed(view.snapshot))
