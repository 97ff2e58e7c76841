"""What Optuna does for a sweep: it chooses the options of a trial and measures the importance of options.

Every call builds a study in memory from the journal. The sampler's seed follows from the sweep's seed and the number
of the trial, so that a choice is a pure function of plan and journal and needs no stored state of a sampler.
"""

import contextlib
import math
import warnings
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from echelon.jobs.config_layers import ConfigError
from echelon.jobs.sweeps.plan import SweepPlan
from echelon.jobs.sweeps.schedule import EVALUATED, Trial
from echelon.jobs.sweeps.space import distribution, require_optuna

if TYPE_CHECKING:
    import optuna

BEST = 1 / 3
"""Fraction of the trials that PED-ANOVA compares with all: of a dozen, a tenth would be one trial."""
FEWEST = 4
DRAWS = 50
"""Draws of a trial until its options differ from those of the trials before it."""


def choose(plan: SweepPlan, search: Sequence[Trial], number: int) -> dict[str, Any]:
    """Return the options of a trial, which no earlier one has where the space is large enough."""
    if plan.sampler == "grid":
        return plan.grid()[number]
    earlier, params = [trial.choice.params for trial in search if trial.number < number], {}
    for draw in range(DRAWS):
        text = f"{plan.seed}/{number}/{draw}" if draw else f"{plan.seed}/{number}"
        params = _draw(plan, search, zlib.crc32(text.encode()))
        if params not in earlier:
            break
    return params


def _draw(plan: SweepPlan, search: Iterable[Trial], seed: int) -> dict[str, Any]:
    samplers = require_optuna().samplers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if plan.sampler == "tpe":
            sampler = samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        else:
            sampler = samplers.RandomSampler(seed=seed)
        return _study(plan, search, plan.last_rung, sampler).ask(fixed_distributions=_space(plan)).params


def importance(plan: SweepPlan, search: Iterable[Trial]) -> dict[str, float]:
    """Return the fraction of the variance at the first rung that each option explains (PED-ANOVA, all add up to 1).

    All trials have had the same training there. Empty for fewer than ``FEWEST`` trials or equal results, and without
    Optuna.
    """
    first = [t for t in search if 0 in t.results and math.isfinite(t.results[0].value)]
    if not plan.vary or len(first) < FEWEST or len({t.results[0].value for t in first}) < 2:
        return {}
    with warnings.catch_warnings(), contextlib.suppress(ConfigError):
        warnings.simplefilter("ignore")
        measured = require_optuna().importance
        evaluator = measured.PedAnovaImportanceEvaluator(target_quantile=BEST)
        found = measured.get_param_importances(_study(plan, first, 0, None), evaluator=evaluator)
        return {key: float(value) for key, value in found.items()}
    return {}


def _space(plan: SweepPlan) -> dict[str, Any]:
    return {key: distribution(key, spec) for key, spec in plan.vary.items()}


def _study(plan: SweepPlan, search: Iterable[Trial], rung: int, sampler: Any) -> "optuna.Study":
    from optuna import create_study
    from optuna.trial import TrialState, create_trial

    space, study = _space(plan), create_study(direction="maximize", sampler=sampler)
    for trial in search:
        evaluated = {r: result.value for r, result in trial.results.items() if result.state == EVALUATED}
        values = {r: value for r, value in evaluated.items() if math.isfinite(value)}
        if rung in values:
            state = TrialState.COMPLETE
        elif values:
            state = TrialState.PRUNED
        else:
            state = TrialState.FAIL if trial.results else TrialState.RUNNING
        with contextlib.suppress(ValueError, TypeError):  # options of a damaged journal that the plan does not have
            study.add_trial(
                create_trial(
                    params=trial.choice.params,
                    distributions=space,
                    value=values.get(rung),
                    state=state,
                    intermediate_values=values,
                )
            )
    return study
