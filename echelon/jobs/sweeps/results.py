"""Results of a sweep: its trials, finalists with intervals over training seeds, and the importance of its options.

Everything is computed from the plan and the journal, for tables, JSON and the dashboard alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from echelon.jobs.labels import variant_names
from echelon.jobs.spec import read_spec
from echelon.jobs.sweeps.plan import BASELINE, SweepPlan, command_words
from echelon.jobs.sweeps.schedule import EVALUATED, Journal, Trial, ranked, search_step
from echelon.runs import RunPaths, command
from echelon.statistics import Estimate, aggregate, importance, paired_improvement, performance_profile
from echelon.telemetry.log import read_events

PROFILE_POINTS = 21
"""Thresholds of a performance profile."""


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """One trial of the search."""

    number: int
    name: str
    run: str
    params: dict[str, Any]
    seed: int
    bracket: int
    state: str
    """queued, running, paused, pruned, complete or failed."""
    rung: int = -1
    """Last rung at which it was evaluated; -1 for none."""
    global_step: int = 0
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    opponent: str = ""
    message: str = ""
    values: dict[int, float] = field(default_factory=dict)
    """Value at each rung."""


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """A configuration that was trained with several seeds: a finalist of the search, or a listed variant."""

    trial: int
    """Number of the trial, of a variant its first; -1 of the configuration without any varied option."""
    name: str
    params: dict[str, Any]
    planned: int
    seeds: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    score: Estimate | None = None
    """Interquartile mean over seeds with its stratified bootstrap interval; None before the first seed ends."""
    improvement: Estimate | None = None
    """Probability of a better result than that of the unchanged configuration with the same seed."""
    profile: tuple[Estimate, ...] = ()
    """Fraction of the seeds above each threshold of the results."""
    command: str = ""
    """Trains this configuration again."""


@dataclass(frozen=True, kw_only=True)
class SweepResults:
    """Everything about a sweep that is shown."""

    id: str
    plan: SweepPlan
    trials: tuple[TrialRow, ...] = ()
    """Trials of the search in the order of their numbers."""
    ranking: tuple[int, ...] = ()
    """Numbers of the evaluated trials, best first: those trained longest precede the others."""
    finalists: tuple[Finalist, ...] = ()
    """Best first; the unchanged configuration among them. Of a list its variants, where one has several seeds."""
    importance: dict[str, float] = field(default_factory=dict)
    """Fraction of the variance at the first rung that each option explains alone."""
    thresholds: tuple[float, ...] = ()
    """Thresholds of the performance profiles, ascending."""
    done: int = 0
    """Learner agent-steps of the rungs reached."""

    @property
    def best(self) -> Finalist | TrialRow | None:
        """The best configuration: of the finalists, or before them of the trials."""
        if found := next((f for f in self.finalists if f.score is not None), None):
            return found
        return next((row for number in self.ranking[:1] for row in self.trials if row.number == number), None)

    @property
    def best_command(self) -> str:
        """The command that trains the best configuration again; empty before the first evaluation."""
        best = self.best
        if isinstance(best, Finalist):
            return best.command
        return "" if best is None else command(*command_words(self.plan, best.params, best.seed))

    @property
    def progress(self) -> float:
        return min(1.0, self.done / max(1, self.plan.planned_steps))


def read_results(paths: RunPaths) -> SweepResults:
    """Return the results of the sweep in a run folder; ``ValueError`` where it is none."""
    spec = read_spec(paths)
    if spec.kind != "sweep":
        raise ValueError(f"run {paths.id!r} is of kind {spec.kind!r}, expected a sweep")
    plan = SweepPlan.from_dict(spec.config.get("sweep"))
    return results(paths.id, plan, Journal(read_events(paths.trials)[0], len(plan.rung_steps)))


def results(name: str, plan: SweepPlan, journal: Journal) -> SweepResults:
    """Return the results of a plan and its journal."""
    search = journal.search
    names = dict(zip((t.number for t in search), _names(plan, search), strict=True))
    is_over = search_step(plan, journal) is None
    rows = tuple(_row(trial, names[trial.number], plan, journal, is_over) for trial in search)
    repeated = search if plan.variants else journal.finals
    thresholds = _thresholds([r.value for trial in repeated for r in trial.results.values()])
    found = _listed(plan, search, thresholds) if plan.variants else _finalists(plan, journal, names, thresholds)
    return SweepResults(
        id=name,
        plan=plan,
        trials=rows,
        ranking=tuple(trial.number for trial in ranked(search)),
        finalists=found,
        importance=_importance(plan, search),
        thresholds=thresholds,
        done=journal.done_steps(plan),
    )


def _names(plan: SweepPlan, search: Sequence[Trial]) -> list[str]:
    """Return a name per trial: that of its variant, with its seed where there are several, or what differs."""
    if plan.variants and plan.has_seeds:
        return [f"{trial.choice.name} · seed {trial.choice.seed}" for trial in search]
    differing = variant_names([{k: _rounded(v) for k, v in trial.choice.params.items()} for trial in search])
    return [trial.choice.name or name for trial, name in zip(search, differing, strict=True)]


def _rounded(value: Any) -> Any:
    """Return a number with three significant digits, which is enough for a name."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _row(trial: Trial, name: str, plan: SweepPlan, journal: Journal, is_over: bool) -> TrialRow:
    choice, last = trial.choice, trial.last
    failure = next((r.message for r in trial.results.values() if r.state != EVALUATED), "")
    measured: dict[str, Any] = {}
    if last is not None:
        names = ("rung", "global_step", "value", "low", "high", "opponent")
        measured = {field_name: getattr(last, field_name) for field_name in names}
    return TrialRow(
        number=choice.number,
        name=name,
        run=choice.run,
        params=choice.params,
        seed=choice.seed,
        bracket=choice.bracket,
        state=_state(trial, plan, journal, is_over),
        message=failure,
        values={rung: r.value for rung, r in sorted(trial.results.items()) if r.state == EVALUATED},
        **measured,
    )


def _state(trial: Trial, plan: SweepPlan, journal: Journal, is_over: bool) -> str:
    if trial.failed:
        return "failed"
    if trial.open_rung is not None:
        return "running"
    if trial.last is None:
        return "queued"
    rung = trial.last.rung
    if rung == plan.last_rung:
        return "complete"
    others = [t for t in journal.search if t.choice.bracket == trial.choice.bracket]
    # where trials wait for each other, one that went on has overtaken those that did not
    overtaken = plan.pruning != "asha" and sum(max(t.started, default=-1) > rung for t in others)
    reached = sum(rung in t.results for t in others)
    return "pruned" if is_over or (overtaken and overtaken >= plan.promoted(reached)) else "paused"


class AcrossSeeds(NamedTuple):
    """Statistics of a configuration over its training seeds."""

    score: Estimate | None
    improvement: Estimate | None
    """None of the reference itself, and without a common seed."""


def across_seeds(scores: Mapping[str, Mapping[int, float]], reference: str) -> dict[str, AcrossSeeds]:
    """Return statistics by name of scores by name and training seed.

    The score is the interquartile mean over seeds, the improvement the probability that a seed is better than the same
    seed of the configuration named ``reference``.
    """
    unchanged = scores.get(reference, {})
    return {
        name: AcrossSeeds(
            aggregate(list(by_seed.values())) if by_seed else None,
            None if name == reference else _improvement(by_seed, unchanged),
        )
        for name, by_seed in scores.items()
    }


def _listed(plan: SweepPlan, search: Sequence[Trial], thresholds: Sequence[float]) -> tuple[Finalist, ...]:
    """Return the variants of a list with statistics over their seeds, best first; none where each has one seed."""
    if not plan.has_seeds:
        return ()
    by_name: dict[str, list[Trial]] = {}
    for trial in search:
        by_name.setdefault(trial.choice.name, []).append(trial)
    scores = {name: _scores(trials) for name, trials in by_name.items()}
    statistics = across_seeds(scores, plan.unchanged)
    found = [
        Finalist(
            trial=trials[0].number,
            name=name,
            params=trials[0].choice.params,
            planned=sum(variant.name == name for variant in plan.variants),
            seeds=tuple(scores[name]),
            runs=tuple(trial.choice.run for trial in trials),
            scores=tuple(scores[name].values()),
            score=statistics[name].score,
            improvement=statistics[name].improvement,
            profile=tuple(performance_profile(list(scores[name].values()), thresholds)) if scores[name] else (),
            command=command(*command_words(plan, trials[0].choice.params, trials[0].choice.seed)),
        )
        for name, trials in by_name.items()
    ]
    return _best_first(found)


def _best_first(found: Sequence[Finalist]) -> tuple[Finalist, ...]:
    return tuple(sorted(found, key=lambda f: (-(f.score.value if f.score else -math.inf), f.trial)))


def _finalists(
    plan: SweepPlan, journal: Journal, names: Mapping[int, str], thresholds: Sequence[float]
) -> tuple[Finalist, ...]:
    by_origin: dict[int, list[Trial]] = {}
    for trial in journal.finals:
        by_origin.setdefault(trial.choice.origin, []).append(trial)
    scores = {origin: _scores(trials) for origin, trials in by_origin.items()}
    found = [
        Finalist(
            trial=origin,
            name=names.get(origin, BASELINE),
            params=trials[0].choice.params,
            planned=plan.final_seeds,
            seeds=tuple(scores[origin]),
            runs=tuple(trial.choice.run for trial in trials),
            scores=tuple(scores[origin].values()),
            score=aggregate(list(scores[origin].values())) if scores[origin] else None,
            improvement=_improvement(scores[origin], scores.get(-1, {})) if origin >= 0 else None,
            profile=tuple(performance_profile(list(scores[origin].values()), thresholds)) if scores[origin] else (),
            command=command(*command_words(plan, trials[0].choice.params, trials[0].choice.seed)),
        )
        for origin, trials in by_origin.items()
    ]
    return _best_first(found)


def _scores(trials: Sequence[Trial]) -> dict[int, float]:
    """Return the result of each training seed that has one."""
    found = {trial.choice.seed: trial.last.value for trial in trials if trial.last is not None}
    return {seed: value for seed, value in found.items() if math.isfinite(value)}


def _improvement(scores: Mapping[int, float], unchanged: Mapping[int, float]) -> Estimate | None:
    common = [seed for seed in scores if seed in unchanged]
    return paired_improvement([scores[s] for s in common], [unchanged[s] for s in common]) if common else None


def _thresholds(values: Sequence[float]) -> tuple[float, ...]:
    """Return evenly spaced thresholds over the range of the values, of rates 0 to 1."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ()
    low, high = min(0.0, *finite), max(1.0, *finite)
    return tuple(low + (high - low) * i / (PROFILE_POINTS - 1) for i in range(PROFILE_POINTS))


def _importance(plan: SweepPlan, search: Sequence[Trial]) -> dict[str, float]:
    """Return the importance of each option at the first rung, where all trials had the same training."""
    first = {trial.number: trial.results[0] for trial in search if 0 in trial.results}
    measured = [t for t in search if t.number in first and math.isfinite(first[t.number].value)]
    if not measured or not plan.dimensions:
        return {}
    shares = [[d.share(trial.choice.params.get(d.key)) for d in plan.dimensions] for trial in measured]
    values = [first[trial.number].value for trial in measured]
    found = importance(shares, values, [bool(d.choices) for d in plan.dimensions])
    return dict(zip(plan.keys, map(float, found), strict=True))
