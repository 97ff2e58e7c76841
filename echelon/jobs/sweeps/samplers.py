"""Samplers of a sweep: lists and grids, and through Optuna random, quasi-random (Sobol), TPE and CMA-ES.

A sampler is fed with the records of the journal in order, whether they are new or read after a kill, so that it gives
the same options either way. Before it chooses a trial, it learns of every trial with a result, once, by number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from echelon.jobs.config_layers import ConfigError
from echelon.jobs.sweeps.plan import SweepPlan
from echelon.jobs.sweeps.schedule import EVALUATED, Journal, Trial
from echelon.jobs.sweeps.space import Dimension
from echelon.telemetry.event import Event
from echelon.telemetry.events import EventTrial

if TYPE_CHECKING:
    import optuna

INSTALL = "pip install 'echelon[sweep]'"


class Sampler(Protocol):
    """Chooses the options of trials."""

    def choose(self) -> dict[str, Any]:
        """Return the options of the next trial by dotted key; the caller passes its record to ``see``."""
        ...

    def see(self, event: Event) -> None:
        """Take a record of the journal."""
        ...


class ListSampler:
    """Gives the trials of a list or a grid in order."""

    def __init__(self, plan: SweepPlan) -> None:
        self._variants, self._count = plan.listed(), 0

    def choose(self) -> dict[str, Any]:
        return dict(self._variants[self._count].changes)

    def see(self, event: Event) -> None:
        self._count += isinstance(event, EventTrial) and event.origin < 0


class OptunaSampler:
    """Gives the trials of a study in memory, which is built again from the journal."""

    def __init__(self, plan: SweepPlan) -> None:
        self._study = _study(plan)
        self._last_rung = plan.last_rung
        self._space = {dimension.key: _distribution(dimension) for dimension in plan.dimensions}
        self._choices = {d.key: {repr(c): c for c in d.choices} for d in plan.dimensions if d.choices}
        self._journal, self._asked, self._reported = Journal(), {}, set[int]()
        self._pending: optuna.Trial | None = None

    def choose(self) -> dict[str, Any]:
        asked = self._ask()
        return {key: self._choices[key][value] if key in self._choices else value for key, value in asked.items()}

    def _ask(self) -> dict[str, Any]:
        if self._pending is None:
            for number, trial in sorted(self._journal.trials.items()):
                if trial.results and number not in self._reported:
                    self._report(trial)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._pending = self._study.ask(fixed_distributions=self._space)
        return self._pending.params

    def see(self, event: Event) -> None:
        if isinstance(event, EventTrial) and event.origin < 0 and not event.name:
            self._ask()
            self._asked[event.number], self._pending = self._pending, None
        self._journal.add(event)

    def _report(self, trial: Trial) -> None:
        """Report the results of a trial: complete, pruned at its last rung, or failed."""
        from optuna.trial import TrialState

        self._reported.add(trial.number)
        asked = self._asked.get(trial.number)
        if asked is None:
            return
        evaluated = {rung: r.value for rung, r in trial.results.items() if r.state == EVALUATED and r.value == r.value}
        for rung, value in sorted(evaluated.items()):
            asked.report(value, rung)
        if self._last_rung in evaluated:
            self._study.tell(asked, evaluated[self._last_rung])
        else:
            self._study.tell(asked, state=TrialState.PRUNED if evaluated else TrialState.FAIL)


def _study(plan: SweepPlan) -> optuna.Study:
    """Return an empty study with the sampler of a plan; ``ConfigError`` where Optuna is missing."""
    try:
        import optuna
    except ImportError:
        raise ConfigError(f"sampler {plan.sampler!r} needs Optuna, which is not installed; try: {INSTALL}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    samplers: Mapping[str, Callable[[], Any]] = {
        "random": lambda: optuna.samplers.RandomSampler(seed=plan.seed),
        "sobol": lambda: optuna.samplers.QMCSampler(qmc_type="sobol", scramble=True, seed=plan.seed),
        "tpe": lambda: optuna.samplers.TPESampler(seed=plan.seed),
        "cma": lambda: _cma(plan),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.create_study(direction="maximize", sampler=samplers[plan.sampler]())


def _cma(plan: SweepPlan) -> Any:
    import optuna

    try:
        import cmaes  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ConfigError(f"sampler 'cma' needs cmaes, which is not installed; try: {INSTALL}") from None
    return optuna.samplers.CmaEsSampler(seed=plan.seed, consider_pruned_trials=plan.last_rung > 0)


def _distribution(dimension: Dimension) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if dimension.choices:
        return CategoricalDistribution([repr(choice) for choice in dimension.choices])
    if dimension.integer:
        low, high, step = round(dimension.low), round(dimension.high), round(dimension.step) or 1
        return IntDistribution(low, high, log=dimension.log, step=step)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log, step=dimension.step or None)


def sampler_of(plan: SweepPlan) -> Sampler:
    """Return the sampler of a plan, which has seen nothing yet; ``ConfigError`` where a package is missing."""
    return ListSampler(plan) if plan.variants or plan.sampler == "grid" else OptunaSampler(plan)
