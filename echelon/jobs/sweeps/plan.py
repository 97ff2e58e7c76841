"""Plan of a sweep, as its spec contains it: base configuration, varied options or variants, sampler, rungs, seeds."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from echelon.config import EnvConfig
from echelon.config.ablations import ABLATIONS, BASELINES
from echelon.config.seeds import MAX_SEED
from echelon.jobs.config_layers import (
    NONE_WORDS,
    ConfigError,
    ResolvedConfig,
    did_you_mean,
    flatten,
    parse_assignment,
    resolve,
)
from echelon.jobs.labels import require_label
from echelon.jobs.launchers import parse_launcher
from echelon.jobs.sweeps.space import grid_values
from echelon.validation import validated

Sampler = Literal["random", "grid", "tpe"]
Metric = Literal["win_rate", "sampled_win_rate", "mean_hp_margin", "mean_return"]
BATCH = {"tpe": 8}
"""Trials that a sampler which learns from results chooses at once; the others choose all."""
RATES = {"win_rate": ("win_low", "win_high"), "sampled_win_rate": ("sampled_low", "sampled_high")}
UNCHANGED = "unchanged"
MAX_TRIALS = 2000


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A configuration that is trained completely with several seeds."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What makes a sweep of variants a red team: the variants attack a policy and are measured at each rung."""

    target: str
    """The policy as the user has named it."""
    policy: str
    """Copy of it in the folder of the sweep, a file or folder."""
    checkpoint: str
    steps: Annotated[int, Ge(0)]
    """Learner agent-steps of its own training; 0 where unknown."""
    rungs: tuple[Annotated[int, Ge(1)], ...]
    """Learner agent-steps of an attacker at each rung."""
    seeds: Annotated[int, Ge(1), Le(10**6)] = 200
    """Fresh seeds on which the best attacker at each rung is evaluated again."""
    options: tuple[str, ...] = ()
    """Options with which the command repeats this attack on another policy."""

    def __post_init__(self) -> None:
        if not self.rungs or list(self.rungs) != sorted(set(self.rungs)):
            raise ConfigError(f"rungs of the red team are {list(self.rungs)}, expected ascending steps")


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """What a sweep does, decided when it starts: a search over the options of ``vary``, or a list of ``variants``."""

    base: dict[str, Any]
    """Configuration of every trial before its options, nested."""
    provenance: dict[str, str] = field(default_factory=dict)
    preset: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    """Values that the user has set over the preset, by dotted key."""
    vary: dict[str, str] = field(default_factory=dict)
    """Specification of each varied option by dotted key, as ``--vary`` takes it."""
    variants: tuple[Variant, ...] = ()
    sampler: Sampler = "random"
    trials: Annotated[int, Ge(1), Le(MAX_TRIALS)] = 16
    seed: Annotated[int, Ge(0), Le(MAX_SEED)] = 0
    metric: Metric = "win_rate"
    """Field of ``EventEval`` that the sweep maximises."""
    rungs: Annotated[int, Ge(1), Le(10)] = 3
    """Evaluations that decide which trials go on, the one at the end of training included; 1 prunes none."""
    reduction: Annotated[int, Ge(2), Le(100)] = 3
    """Of this number of trials at a rung, one goes on."""
    finalists: Annotated[int, Ge(0), Le(MAX_TRIALS)] = 3
    """Best trials that are repeated with other training seeds."""
    seeds: Annotated[int, Ge(1), Le(1000)] = 3
    """Training seeds of each repeated configuration; the search uses none of them."""
    at_once: Annotated[int, Ge(1), Le(1024)] = 1
    attack: Attack | None = None
    """A red team, whose variants pass every rung; None for a sweep."""
    group: str = ""
    launcher: str = ""
    """Launcher of the trials' runs with its options; empty starts them on this machine."""

    def __post_init__(self) -> None:
        if self.group:
            require_label(self.group)
        if self.launcher:
            parse_launcher(self.launcher)
        if bool(self.vary) == bool(self.variants):
            raise ConfigError("sweep needs either --vary or --ablate; try --vary ppo.lr=1e-5..1e-3:log")
        if self.attack and (len(self.attack.rungs) != self.rungs or self.vary):
            raise ConfigError(f"rungs is {self.rungs}, expected those of the red team, which varies no option")
        if type(self.base.get("total_steps")) is not int or self.base["total_steps"] < 1:
            raise ConfigError(f"total_steps is {self.base.get('total_steps')!r:.80}, expected 1 or more")

    @property
    def rung_steps(self) -> tuple[int, ...]:
        """Steps of each rung [learner agent-steps]; the last is the length of a complete trial."""
        if self.attack:
            return self.attack.rungs
        total = self.base["total_steps"]
        return tuple(-(-total // self.reduction ** (self.rungs - 1 - rung)) for rung in range(self.rungs))

    @property
    def unit(self) -> str:
        return "attacker" if self.attack else "trial"

    def share(self, rung: int) -> float:
        return self.rung_steps[min(rung, self.last_rung)] / self.rung_steps[-1]

    @property
    def last_rung(self) -> int:
        return self.rungs - 1

    @property
    def search_trials(self) -> int:
        return self.trials if self.vary else 0

    @property
    def batch(self) -> int:
        """Trials that are chosen together and pruned against each other."""
        return min(BATCH.get(self.sampler, MAX_TRIALS), self.trials)

    def promoted(self, trials: int) -> int:
        """Return how many of a number of trials at a rung go on to the next."""
        return max(1, trials // self.reduction)

    @property
    def repeated(self) -> int:
        if self.variants:
            return len(self.variants) * self.seeds
        return (min(self.finalists, self.trials) + 1) * self.seeds if self.finalists else 0

    @property
    def planned_steps(self) -> int:
        """Most learner agent-steps of the sweep, repeats included."""
        total = self.repeated * self.rung_steps[-1]
        for first in range(0, self.search_trials, self.batch):
            before, count = 0, min(self.batch, self.search_trials - first)
            for steps in self.rung_steps:
                total += count * (steps - before)
                before, count = steps, self.promoted(count)
        return total

    @property
    def planned_work(self) -> int:
        return self.work(self.planned_steps, self.repeated * (self.rungs + 1), self.rungs)

    def work(self, steps: int, choices: int, fresh: int) -> int:
        """Return steps, and those of a red team that take as long as its evaluations: to choose, and on fresh seeds."""
        if not self.attack:
            return steps
        env, matches = validated(EnvConfig, self.base["env"]), choices * self.base["eval"]["seeds"]
        # from both sides, with both actions; a match ends at half of its time limit
        return steps + (4 * matches + 4 * fresh * self.attack.seeds) * env.team_size * env.max_steps // 2

    def training_seed(self, number: int) -> int:
        """Return the training seed of a repeat by its number; a search uses the configuration's own seed."""
        return int(self.base["seed"]) + bool(self.vary) + number

    def grid(self) -> list[dict[str, Any]]:
        values = [grid_values(key, spec) for key, spec in self.vary.items()]
        if (count := math.prod(map(len, values))) > MAX_TRIALS:
            raise ConfigError(f"grid has {count} trials, expected at most {MAX_TRIALS}; try fewer options or values")
        return [dict(zip(self.vary, point, strict=True)) for point in itertools.product(*values)]


def plan_from(row: Any) -> SweepPlan:
    """Return the plan with the values of a spec or of a command; ``ConfigError`` names the first that does not fit."""
    if not isinstance(row, Mapping):
        raise ConfigError("spec contains no plan of a sweep")
    return validated(SweepPlan, row, "plan of the sweep: ", ConfigError)


def configuration(plan: SweepPlan, params: Mapping[str, Any], **fixed: Any) -> ResolvedConfig:
    changes = {key: "none" if value is None else value for key, value in {**params, **fixed}.items()}
    return resolve(overrides=changes, base=plan.base, base_provenance=plan.provenance)


def variants_of(whole: ResolvedConfig, words: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants that ``--ablate`` names, the unchanged configuration first.

    A word is the name of an ablation or a baseline, ``ablations`` or ``baselines`` for all that have an effect, or
    assignments ``KEY=VALUE[,KEY=VALUE]``. ``ConfigError`` for an unknown name and for one without effect.
    """
    tables = {"ablations": ABLATIONS, "baselines": BASELINES}
    found: dict[str, dict[str, Any]] = {UNCHANGED: {}}
    for word in words:
        if "=" in word:
            found[word] = dict(parse_assignment(part) for part in word.split(","))
        elif word in tables:
            for name in tables[word]:
                found |= _variant(whole, name)
        elif word in ABLATIONS or word in BASELINES:
            variant = _variant(whole, word)
            if not variant:
                has = "has no" if word in ABLATIONS else "is"
                what = {**ABLATIONS, **BASELINES}[word].description
                raise ConfigError(f"{word!r} changes nothing: this configuration {has} {what}")
            found |= variant
        else:
            known = (*tables, *ABLATIONS, *BASELINES)
            raise ConfigError(f"ablation {word!r} does not exist{did_you_mean(word, known)} (have: {', '.join(known)})")
    return tuple(Variant(name=name, params=params) for name, params in found.items())


def _variant(whole: ResolvedConfig, name: str) -> dict[str, dict[str, Any]]:
    found = {**ABLATIONS, **BASELINES}[name].changes(whole.config)
    changes = {key: value for key, value in found.items() if whole.values[key] != value}
    return {f"no {name}" if name in ABLATIONS else name: changes} if changes else {}


def command_words(plan: SweepPlan, params: Mapping[str, Any], seed: int) -> list[str]:
    return ["train", "--preset", plan.preset, *set_words({**plan.given, **flatten(params), "seed": seed})]


def set_words(values: Mapping[str, Any]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={_assigned(value)}")]


def _assigned(value: Any) -> str:
    if value is None:
        return NONE_WORDS[0]
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, (int, float)) else str(value)
