"""Report of a red team: win rate of the best attacker over the attackers' compute, from the plan and the journal."""

import math
from dataclasses import dataclass
from typing import Any

from echelon.jobs.sweeps.plan import Attack, SweepPlan
from echelon.jobs.sweeps.schedule import EVALUATED, Trial, TrialJournal
from echelon.statistics import Estimate


@dataclass(frozen=True)
class Rates:
    """Win rates with mean and with sampled actions, with 95 % intervals; ``sampled`` is None where it was not played.

    An attacker plays what is better for it.
    """

    mean: Estimate
    sampled: Estimate | None = None

    @property
    def actions(self) -> str:
        return "mean" if self.best is self.mean else "sampled"

    @property
    def best(self) -> Estimate:
        return max(self.mean, self.sampled or self.mean)

    def __str__(self) -> str:
        (value, low, high), other = self.best, "sampled" if self.actions == "mean" else "mean"
        also = f", {getattr(self, other).value:.0%} {other}" if self.sampled else ""
        return f"{value:.0%} ({100 * low:.0f}-{100 * high:.0f}) {self.actions}{also}"


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The attackers at a rung, and the best of them on fresh seeds once it has played there."""

    share: float
    """Steps of an attacker as a fraction of the longest."""
    steps: int
    """Learner agent-steps of an attacker."""
    all_steps: int
    """Learner agent-steps of all attackers up to here."""
    attacker: int | None = None
    """Number of the best attacker by its evaluation on the seeds that choose; None while it is not known."""
    name: str = ""
    run: str = ""
    checkpoint: str = ""
    job: str = ""
    """Evaluation job on fresh seeds."""
    choice: float = -math.inf
    """Win rate on the seeds that choose."""
    episodes: int = 0
    before: Rates | None = None
    """Win rates before training, on the seeds that choose; None where unknown."""
    mean: Estimate | None = None
    """Win rate with mean actions on fresh seeds; None before the evaluation ends."""
    sampled: Estimate | None = None
    message: str = ""

    @property
    def rates(self) -> Rates | None:
        return Rates(self.mean, self.sampled) if self.mean else None

    @property
    def added(self) -> str:
        """What training has added to the win rate."""
        if not (self.rates and self.before):
            return "not measured"
        return f"training added {100 * (self.rates.best.value - self.before.best.value):+.0f} points"


@dataclass(frozen=True, kw_only=True)
class Attacker:
    """One attacker and its win rates on the seeds that choose, by rung."""

    number: int
    name: str
    """What it starts from."""
    seed: int
    run: str
    rates: tuple[Rates, ...]
    """Win rates at each rung that it has reached."""
    before: Rates | None = None
    """The same before its training."""
    message: str = ""
    """Why it failed."""


@dataclass(frozen=True, kw_only=True)
class RedTeamReport:
    """Everything about a red team that is shown."""

    id: str
    attack: Attack
    curve: tuple[CurvePoint, ...]
    """A point for each rung."""
    attackers: tuple[Attacker, ...]
    seeds: int
    """Seeds that choose."""
    target_mean: bool
    """Whether the target plays its mean actions."""
    usual: str = ""
    """Evaluation job in which the target plays itself, once that has ended."""
    exploit: dict[str, Any] | None = None
    """How the strongest attacker wins, as ``explain`` of ``exploit`` returns it; None before the end."""

    @property
    def strongest(self) -> CurvePoint | None:
        """The evaluated point whose attacker won most on the seeds that choose, so that fresh ones do not choose it."""
        return max((point for point in self.curve if point.mean), key=lambda point: point.choice, default=None)

    @property
    def findings(self) -> list[str]:
        """What was found, in sentences: who wins untrained, where training added most, who wins most on fresh seeds."""
        said, matches = [], f"{2 * self.seeds} matches"
        known = [(a.name, a.before, max(a.rates, key=lambda r: r.best)) for a in self.attackers if a.before and a.rates]
        for name, before, _ in sorted(known, key=lambda each: -each[1].best.value)[:1]:
            if before.best.low > 0.5:
                said.append(f"wins before training, from {name}: {before}, {matches}")
        for name, before, last in sorted(known, key=lambda each: each[1].best.value - each[2].best.value)[:1]:
            first, best = before.best.value, last.best.value
            values = f"{first:.0%} ({before.actions}) to {best:.0%} ({last.actions})"
            said.append(f"training added most from {name}: {values}, {100 * (best - first):+.0f} points, {matches}")
        if point := self.strongest:
            text = f"strongest on fresh seeds, from {point.name} at {point.share:.0%}: {point.rates}"
            said.append(f"{text}, {point.episodes} matches, {point.steps:,} steps; {point.added}")
        return said


def report_of(name: str, plan: SweepPlan, journal: TrialJournal) -> RedTeamReport:
    assert plan.attack, "the plan is that of a red team"
    usual = journal.fresh.get(plan.rungs)
    return RedTeamReport(
        id=name,
        attack=plan.attack,
        curve=tuple(_point(plan, journal, rung) for rung in range(plan.rungs)),
        attackers=tuple(_attacker(trial) for trial in journal.repeats),
        seeds=int(plan.base["eval"]["seeds"]),
        target_mean=bool(plan.base["opponents"]["champion_mean"]),
        usual=usual.run if usual and usual.state == EVALUATED else "",
    )


def _point(plan: SweepPlan, journal: TrialJournal, rung: int) -> CurvePoint:
    steps = plan.rung_steps
    reached = [[r for r in trial.results if r <= rung] for trial in journal.repeats]
    facts: dict[str, Any] = {}
    if fresh := journal.fresh.get(rung):
        trial = journal.trials[fresh.trial]
        facts = {"attacker": fresh.trial, "name": trial.choice.name, "run": trial.choice.run, "job": fresh.run}
        facts |= {"checkpoint": fresh.checkpoint, "episodes": fresh.episodes, "message": fresh.message}
        facts["before"] = _before(trial)
        facts["choice"] = trial.results[rung].value if rung in trial.results else -math.inf
        if fresh.state == EVALUATED:
            facts["mean"] = Estimate(fresh.win_rate, fresh.win_low, fresh.win_high)
            facts["sampled"] = Estimate(fresh.sampled_win_rate, fresh.sampled_low, fresh.sampled_high)
    return CurvePoint(
        share=plan.share(rung), steps=steps[rung], all_steps=sum(steps[max(r)] for r in reached if r), **facts
    )


def _attacker(trial: Trial) -> Attacker:
    choice, failure = trial.choice, trial.failure
    results = [result for _, result in sorted(trial.results.items()) if result.state == EVALUATED]
    rates = tuple(rates_of(result.rates or [result.value, result.low, result.high]) for result in results)
    about = {"number": choice.number, "name": choice.name, "seed": choice.seed, "run": choice.run}
    return Attacker(**about, rates=rates, before=_before(trial), message=failure.message if failure else "")


def _before(trial: Trial) -> Rates | None:
    return next((rates_of(each.before) for each in trial.results.values() if len(each.before) > 2), None)


def rates_of(row: list[float]) -> Rates:
    """Return the rates of a record; one of mean actions alone has three numbers."""
    has_both = len(row) > 5 and math.isfinite(row[3])
    return Rates(Estimate(*row[:3]), Estimate(*row[3:6]) if has_both else None)
