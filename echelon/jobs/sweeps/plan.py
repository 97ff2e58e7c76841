"""Plan of a sweep, which its spec contains: base configuration, search space, sampler, rungs and final runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from echelon.jobs.config_layers import NONE_WORDS, ConfigError, ResolvedConfig, flatten, resolve
from echelon.jobs.labels import require_label, variant_names
from echelon.jobs.launchers import parse_launcher
from echelon.jobs.sweeps.space import Dimension
from echelon.validation import validated

SAMPLERS = ("random", "sobol", "grid", "tpe", "cma")
LISTED = "list"
"""Sampler of a sweep whose variants are given."""
ADAPTIVE = {"tpe": 8, "cma": 8}
"""Samplers that learn from results, and the trials that they choose at once: their bracket."""
PRUNING = ("halving", "asha", "none")
"""Successive halving with synchronous rungs, the same without waiting, and none."""
METRICS = ("win_rate", "sampled_win_rate", "hp_margin", "mean_return")
"""Fields of ``EventEval`` that a sweep maximises."""
RATES = {"win_rate": ("win_low", "win_high"), "sampled_win_rate": ("sampled_low", "sampled_high")}
"""Fields of the confidence interval by metric that is a win rate."""
BASELINE = "unchanged"
"""Name of the configuration without any varied option, which final runs repeat too."""
MAX_TRIALS = 2000
MAX_RUNGS = 10


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A listed trial: the options that it changes, and its training seed."""

    changes: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """What a sweep does, decided when it starts."""

    base: dict[str, Any]
    """Configuration of every trial before its options, nested."""
    provenance: dict[str, str] = field(default_factory=dict)
    preset: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    """Values that the user has set over the preset, by dotted key."""
    dimensions: tuple[Dimension, ...] = ()
    variants: tuple[Variant, ...] = ()
    """The trials of a sweep that is a list."""
    sampler: str = "random"
    trials: int = 16
    seed: int = 0
    """Seed of the sampler."""
    metric: str = "win_rate"
    pruning: str = "halving"
    rungs: int = 3
    """Evaluations that decide which trials go on, the last one at the end of training included."""
    reduction: int = 3
    """Of this number of trials at a rung, one goes on."""
    bracket: int = 0
    """Trials that are chosen together and pruned against each other; 0 takes all, of an adaptive sampler eight."""
    finalists: int = 3
    """Best trials that are repeated with other training seeds."""
    final_seeds: int = 3
    """Training seeds of each finalist; none of them is the seed of the search."""
    at_once: int = 1
    group: str = ""
    """Label of the trials' runs."""
    launcher: str = ""
    """Launcher of the trials' runs with its options; empty starts them on this machine."""

    def __post_init__(self) -> None:
        samplers = (*SAMPLERS, LISTED)
        for name, allowed in (("sampler", samplers), ("pruning", PRUNING), ("metric", METRICS)):
            value = getattr(self, name)
            if value not in allowed:
                raise ConfigError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
        for name, low, high in (
            ("trials", 1, MAX_TRIALS), ("seed", 0, 2**31 - 1), ("rungs", 1, MAX_RUNGS), ("reduction", 2, 100),
            ("bracket", 0, MAX_TRIALS), ("finalists", 0, MAX_TRIALS), ("final_seeds", 1, 1000), ("at_once", 1, 1024),
        ):  # fmt: skip
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ConfigError(f"{name} is {value!r}, expected {low} to {high}")
        for name in ("preset", "group", "launcher"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ConfigError(f"{name} is {value!r:.80}, expected text")
        try:
            if self.group:
                require_label(self.group)
            if self.launcher:
                parse_launcher(self.launcher)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if not (self.dimensions or self.variants):
            raise ConfigError("sweep varies nothing, expected at least one option; try --vary ppo.lr=1e-5..1e-3:log")
        if len({d.key for d in self.dimensions}) < len(self.dimensions):
            raise ConfigError("sweep varies an option twice, expected each once")

    @property
    def has_seeds(self) -> bool:
        """Whether a listed variant has several training seeds."""
        names = [variant.name for variant in self.variants if variant.name]
        return len(set(names)) < len(names)

    @property
    def unchanged(self) -> str:
        """Name of the configuration that others are compared with; of a list empty where it has none."""
        if not self.variants:
            return BASELINE
        return next((variant.name for variant in self.variants if not variant.changes), "")

    @property
    def total_steps(self) -> int:
        """Length of a complete trial [learner agent-steps]."""
        return int(self.base["total_steps"])

    @property
    def rung_steps(self) -> tuple[int, ...]:
        """Steps of each rung [learner agent-steps]; the last is the length of a complete trial."""
        count = self.rungs if self.pruning != "none" else 1
        return tuple(-(-self.total_steps // self.reduction ** (count - 1 - rung)) for rung in range(count))

    @property
    def last_rung(self) -> int:
        return len(self.rung_steps) - 1

    @property
    def bracket_sizes(self) -> tuple[int, ...]:
        """Number of trials of each bracket."""
        size = min(self.bracket or ADAPTIVE.get(self.sampler, self.trials), self.trials)
        whole, rest = divmod(self.trials, size)
        return (size,) * whole + (rest,) * bool(rest)

    def promoted(self, trials: int) -> int:
        """Return how many of a number of trials at a rung go on to the next."""
        return max(1, trials // self.reduction)

    @property
    def final_runs(self) -> int:
        """Most runs after the search: finalists and the unchanged configuration, once per final seed."""
        return (min(self.finalists, self.trials) + 1) * self.final_seeds if self.finalists else 0

    @property
    def planned_steps(self) -> int:
        """Most learner agent-steps of the sweep, runs of the final stage included."""
        steps, total = self.rung_steps, self.final_runs * self.total_steps
        for size in self.bracket_sizes:
            before, count = 0, size
            for rung_steps in steps:
                total += count * (rung_steps - before)
                before, count = rung_steps, self.promoted(count)
        return total

    @property
    def keys(self) -> tuple[str, ...]:
        """Dotted keys of the varied options."""
        if self.dimensions:
            return tuple(d.key for d in self.dimensions)
        return tuple(dict.fromkeys(key for variant in self.variants for key in variant.changes))

    def final_seed(self, number: int) -> int:
        """Return the training seed of a final run."""
        return int(self.base["seed"]) + 1 + number

    def listed(self) -> tuple[Variant, ...]:
        """Return the trials of a list or a grid, in order; none of a sampler that draws."""
        if self.variants or self.sampler != "grid":
            return self.variants
        seed, grids = int(self.base["seed"]), [d.grid() for d in self.dimensions]
        if (count := math.prod(map(len, grids))) > MAX_TRIALS:
            raise ConfigError(f"grid has {count} trials, expected at most {MAX_TRIALS}; try fewer options or values")
        values = itertools.product(*grids)
        return tuple(Variant(changes=dict(zip(self.keys, point, strict=True)), seed=seed) for point in values)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Any) -> SweepPlan:
        """Return the plan of JSON values; ``ConfigError`` where they are none."""
        if not isinstance(row, Mapping) or not isinstance(row.get("base"), Mapping):
            raise ConfigError("spec contains no plan of a sweep")
        names = {item.name for item in fields(cls)}
        try:
            plan = validated(cls, {key: value for key, value in row.items() if key in names})
        except ValueError as error:
            raise ConfigError(f"plan of the sweep is damaged: {str(error):.200}") from None
        steps = plan.base.get("total_steps")
        if type(steps) is not int or steps < 1:
            raise ConfigError(f"plan of the sweep is damaged: total_steps is {steps!r:.80}, expected 1 or more")
        return plan


def prepared(plan: SweepPlan) -> SweepPlan:
    """Return a plan whose number of trials is known and whose options are valid one by one; else ``ConfigError``."""
    for dimension in plan.dimensions:
        for value in dimension.corners():
            configuration(plan, {dimension.key: value})
    if plan.sampler == "grid":
        plan = replace(plan, trials=len(plan.listed()))
    return plan


def configuration(plan: SweepPlan, params: Mapping[str, Any], **fixed: Any) -> ResolvedConfig:
    """Return the configuration of a trial; ``ConfigError`` where its options do not go together."""
    changes = {key: "none" if value is None else value for key, value in {**params, **fixed}.items()}
    return resolve(overrides=changes, base=plan.base, base_provenance=plan.provenance)


def command_words(plan: SweepPlan, params: Mapping[str, Any], seed: int) -> list[str]:
    """Return the words of the command that trains a configuration of the sweep again."""
    values = {**plan.given, **params, "seed": seed}
    words = ["train", "--preset", plan.preset]
    for key, value in values.items():
        words += ["--set", f"{key}={_assigned(value)}"]
    return words


def _assigned(value: Any) -> str:
    """Return a value as ``--set`` reads it."""
    if value is None:
        return NONE_WORDS[0]
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, (int, float)) else str(value)


def trial_names(plan: SweepPlan, params: list[Mapping[str, Any]]) -> list[str]:
    """Return a name per trial from what differs among them."""
    return variant_names([flatten({key: value for key, value in row.items()}) for row in params])
