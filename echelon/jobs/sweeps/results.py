"""Results of a sweep: its trials, repeated configurations with intervals over training seeds, importance of options.

Everything is computed from the plan and the journal, for tables, JSON and the dashboard alike.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from echelon.jobs.labels import variant_names
from echelon.jobs.spec import read_spec
from echelon.jobs.status import job_status
from echelon.jobs.sweeps.plan import RATES, UNCHANGED, SweepPlan, command_words, plan_from
from echelon.jobs.sweeps.redteam import RedTeamReport, report_of
from echelon.jobs.sweeps.schedule import Trial, TrialJournal, next_step, ranked, rounds
from echelon.jobs.sweeps.search import importance
from echelon.runs import RunPaths, command, read_json
from echelon.statistics import Estimate, mean_of_seeds, paired_improvement
from echelon.telemetry.events import EventRung
from echelon.telemetry.log import read_events


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """One trial."""

    number: int
    name: str
    """The options that differ, or the configuration that it repeats and the seed."""
    run: str
    params: dict[str, Any]
    seed: int
    state: str
    """queued, running, completed, failed, as its run is; stopped between two rungs, pruned where no other follows."""
    rung: int = -1
    """Last rung at which it was evaluated; -1 for none."""
    global_step: int = 0
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    opponent: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A configuration that is trained with several seeds."""

    name: str
    params: dict[str, Any]
    scores: dict[int, float]
    score: Estimate | None = None
    """Mean over seeds with its 95 % interval; None before the first seed ends."""
    improvement: Estimate | None = None
    """Probability of a better result than that of the unchanged configuration with the same seed."""
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class SweepResults:
    """Everything about a sweep that is shown."""

    id: str
    plan: SweepPlan
    trials: tuple[TrialRow, ...] = ()
    """Evaluated trials of the search, best first (those trained longest precede the others), then all others."""
    repeated: tuple[Repeated, ...] = ()
    """Best first; the unchanged configuration among them."""
    importance: dict[str, float] = field(default_factory=dict)
    """Fraction of the variance at the first rung that each option explains."""
    done: int = 0
    best: str = ""
    """Name of the best configuration: of the repeated ones, or before them of the trials."""
    best_command: str = ""
    report: RedTeamReport | None = None
    """Report of a red team."""

    @property
    def is_clear(self) -> bool:
        """Whether the best configuration is above all others, with their intervals where they have some."""
        scores: list[Any] = [each.score for each in self.repeated if each.score]
        best, *others = scores or self.trials
        if not scores:
            others = [row for row in others if row.rung == best.rung and row.params != best.params]
        low = best.low if math.isfinite(best.low) else best.value
        return all(low > (other.high if math.isfinite(other.high) else other.value) for other in others)

    @property
    def planned(self) -> int:
        """Number of trials, those not chosen yet included."""
        return self.plan.search_trials + self.plan.repeated

    @property
    def progress(self) -> float:
        return min(1.0, self.done / max(1, self.plan.planned_work))


def read_results(paths: RunPaths) -> SweepResults:
    """Return the results of the sweep in a run folder; ``ValueError`` where it is none."""
    spec = read_spec(paths)
    if spec.kind != "sweep":
        raise ValueError(f"run {paths.id!r} is of kind {spec.kind!r}, expected a sweep")
    plan = plan_from(spec.config.get("sweep"))
    is_alive = job_status(paths).is_alive
    return results(paths.id, plan, TrialJournal(plan, read_events(paths.trials)[0]), is_alive=is_alive)


def results(name: str, plan: SweepPlan, journal: TrialJournal, *, is_alive: bool = True) -> SweepResults:
    best = ranked(journal.search)
    order = [*best, *(trial for trial in journal.in_order if trial not in best)]
    names = _names(journal)
    repeated = _repeated(plan, journal.repeats)
    first = repeated[0] if repeated and repeated[0].score else None
    if first:
        best_name, best_command = first.name, first.command
    elif best:
        best_name, best_command = names[best[0].number], _command(plan, best[0])
    else:
        best_name = best_command = ""
    return SweepResults(
        id=name,
        plan=plan,
        trials=tuple(_row(trial, names[trial.number], _state(plan, journal, trial, is_alive)) for trial in order),
        repeated=repeated,
        importance=importance(plan, journal.search),
        done=journal.done_work,
        best=best_name,
        best_command=best_command,
        report=report_of(name, plan, journal) if plan.attack else None,
    )


def read_report(paths: RunPaths) -> RedTeamReport:
    """Return the report of the red team in a run folder; ``ValueError`` where it is none."""
    report = read_results(paths).report
    if report is None:
        raise ValueError(f"run {paths.id!r} is a sweep, expected a red team")
    return replace(report, exploit=read_json(paths.exploit))


def _names(journal: TrialJournal) -> dict[int, str]:
    search = journal.search
    differing = variant_names([{k: _rounded(v) for k, v in trial.choice.params.items()} for trial in search])
    names = {trial.number: name for trial, name in zip(search, differing, strict=True)}
    return names | {t.number: f"{t.choice.name} · seed {t.choice.seed}" for t in journal.repeats}


def _rounded(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _row(trial: Trial, name: str, state: str) -> TrialRow:
    choice, last, failure = trial.choice, trial.last or EventRung(trial=0, rung=-1, state=""), trial.failure
    return TrialRow(
        number=choice.number, name=name, run=choice.run, params=choice.params, seed=choice.seed, state=state,
        message=failure.message if failure else "", rung=last.rung, global_step=last.global_step, value=last.value,
        low=last.low, high=last.high, opponent=last.opponent,
    )  # fmt: skip


def _state(plan: SweepPlan, journal: TrialJournal, trial: Trial, is_alive: bool) -> str:
    """Return the state of a trial; a trial of the search is pruned once its batch goes on without it."""
    if trial.failure:
        return "failed"
    if trial.open_rung is not None:
        return "running" if is_alive else "stopped"
    if trial.last is None:
        return "queued"
    if trial.last.rung == plan.last_rung:
        return "completed"
    if plan.attack:
        return "stopped"
    position = journal.search.index(trial)
    first = position - position % plan.batch
    *_, (_, going_on) = rounds(plan, journal.search[first : first + plan.batch])
    is_open = trial in going_on and next_step(plan, journal)
    return "stopped" if is_open else "pruned"


def _repeated(plan: SweepPlan, repeats: Sequence[Trial]) -> tuple[Repeated, ...]:
    by_name: dict[str, list[Trial]] = {}
    for trial in repeats:
        by_name.setdefault(trial.choice.name, []).append(trial)
    scores = {name: _scores(trials) for name, trials in by_name.items()}
    found = [
        Repeated(
            name=name,
            params=trials[0].choice.params,
            scores=scores[name],
            score=mean_of_seeds([*scores[name].values()], are_rates=plan.metric in RATES) if scores[name] else None,
            improvement=None if name == UNCHANGED else _improvement(scores[name], scores.get(UNCHANGED, {})),
            command=_command(plan, trials[0]),
        )
        for name, trials in by_name.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.score.value if each.score else math.inf))


def _scores(trials: Sequence[Trial]) -> dict[int, float]:
    found = {trial.choice.seed: trial.last.value for trial in trials if trial.last is not None}
    return {seed: value for seed, value in found.items() if math.isfinite(value)}


def _improvement(scores: Mapping[int, float], unchanged: Mapping[int, float]) -> Estimate | None:
    common = [seed for seed in scores if seed in unchanged]
    return paired_improvement([scores[s] for s in common], [unchanged[s] for s in common]) if common else None


def _command(plan: SweepPlan, trial: Trial) -> str:
    return command(*command_words(plan, trial.choice.params, trial.choice.seed))
