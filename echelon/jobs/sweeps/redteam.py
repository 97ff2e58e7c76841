"""Report of a red team: win rate of the best attacker over the attackers' compute, from the plan and the journal."""

import math
from dataclasses import dataclass
from typing import Any

from echelon.jobs.sweeps.plan import Attack, SweepPlan
from echelon.jobs.sweeps.schedule import EVALUATED, Trial, TrialJournal
from echelon.statistics import Estimate


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
    """Win rate with mean actions on the seeds that choose."""
    episodes: int = 0
    before: Estimate | None = None
    """Win rate with mean actions before training, on the seeds that choose; None where unknown."""
    mean: Estimate | None = None
    """Win rate with mean actions and its 95 % interval; None before the evaluation ends."""
    sampled: Estimate | None = None
    message: str = ""

    @property
    def added(self) -> str:
        """What training has added to the win rate with mean actions."""
        if not (self.mean and self.before):
            return "not measured"
        return f"training added {100 * (self.mean.value - self.before.value):+.0f} points"


@dataclass(frozen=True, kw_only=True)
class Attacker:
    """One attacker and its win rates on the seeds that choose, by rung."""

    number: int
    name: str
    """What it starts from."""
    seed: int
    run: str
    rates: tuple[Estimate, ...]
    """Win rate with mean actions and its 95 % interval at each rung that it has reached."""
    before: Estimate | None = None
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
    rates = tuple(Estimate(result.value, result.low, result.high) for result in results)
    about = {"number": choice.number, "name": choice.name, "seed": choice.seed, "run": choice.run}
    return Attacker(**about, rates=rates, before=_before(trial), message=failure.message if failure else "")


def _before(trial: Trial) -> Estimate | None:
    return next((Estimate(*each.before[:3]) for each in trial.results.values() if len(each.before) > 2), None)
