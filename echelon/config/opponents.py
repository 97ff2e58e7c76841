"""Configuration of opponents, league, curriculum and evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Interval

from echelon.config.checks import STRICT, Count, Fraction, Positive, require, require_fields

Edge = Annotated[int, Interval(ge=20, le=200)]
"""Edge of a map [vox]."""
PilotSkill = Literal["trivial", "easy", "medium", "hard", "expert"]
"""Levels of the scripted pilots of ``echelon.agents``."""
LADDER: tuple[PilotSkill, ...] = ("trivial", "easy", "medium", "hard", "expert")
"""Levels of the scripted pilots, weakest first."""
EvalSkill = Literal["hardest", "champion", "trivial", "easy", "medium", "hard", "expert"]
"""Opponent of an evaluation: a level, hardest for ``OpponentConfig.hardest_level``, or ``opponents.champion``."""
CLUSTER = "ray"
"""Value of ``opponents.league.path`` for the league of a Ray cluster."""
DEFAULT_LEVEL: PilotSkill = "medium"
"""Level that evaluates a run without scripted opponents."""


@dataclass(frozen=True, kw_only=True)
class MixConfig:
    """Sampling weights of the opponents; a share is a weight divided by the sum of all, and 0 excludes an opponent."""

    __pydantic_config__ = STRICT

    scripted: float = 1.0
    """Scripted pilots of level opponents.skill."""
    trivial: float = 0.0
    """Scripted pilots of level trivial."""
    easy: float = 0.0
    """Scripted pilots of level easy."""
    medium: float = 0.0
    """Scripted pilots of level medium."""
    hard: float = 0.0
    """Scripted pilots of level hard."""
    expert: float = 0.0
    """Scripted pilots of level expert."""
    champion: float = 0.0
    """Policy opponents.champion, frozen; a run keeps the one that it began with."""
    self_play: float = 0.0
    """Current policy on both sides, both learning; its share of the environments is fixed for the run."""
    past: float = 0.0
    """Earlier snapshots of this run, frozen."""
    league: float = 0.0
    """League entries: commanders, recent candidates, scripted levels, exploiters of others."""
    exploiters: float = 0.0
    """League exploiters trained against this run; while none is active, the weight counts for league."""

    def __post_init__(self) -> None:
        require_fields(self, "opponents.mix")
        total = sum(getattr(self, item.name) for item in fields(self))
        require(total > 0, "sum of opponents.mix", total, "above 0; shares are weights divided by it")

    @property
    def shares(self) -> dict[str, float]:
        """Fractions of the episodes by opponent, which sum to 1."""
        weights = {item.name: float(getattr(self, item.name)) for item in fields(self)}
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}

    @property
    def uses_league(self) -> bool:
        return self.league > 0 or self.exploiters > 0

    @property
    def uses_foreign_policies(self) -> bool:
        """Whether policies of other runs play as opponents."""
        return self.champion > 0 or self.uses_league

    @property
    def uses_frozen_policies(self) -> bool:
        return self.past > 0 or self.uses_foreign_policies


MIX_PROFILES: Mapping[str, MixConfig] = {
    "scripted": MixConfig(),
    "self": MixConfig(scripted=0.0, self_play=1.0),
    "past": MixConfig(scripted=0.0, self_play=0.5, past=0.5),
    "league": MixConfig(scripted=0.1, self_play=0.2, past=0.1, league=0.4, exploiters=0.2),
    "exploiter": MixConfig(scripted=0.0, league=1.0),
}
"""Opponent mixes by name."""


@dataclass(frozen=True, kw_only=True)
class LeagueConfig:
    """Participation in the league: opponents sampled from it, snapshots submitted to it, target of an exploiter."""

    __pydantic_config__ = STRICT

    path: str = ""
    """League file; empty uses league.db beside the run folder, ray that of the head of this machine's Ray cluster."""
    commanders: Count = 8
    """Highest-rated commanders that opponents are sampled from."""
    candidates: Count = 4
    """Newest candidates that opponents are sampled from."""
    sigma: Positive = 200.0
    """Standard deviation of the rating difference that weights opponents where opponents.pfsp is 0 [points]."""
    warmup_games: Count = 20
    """Rated games before which only opponents within warmup_range are sampled."""
    warmup_range: Positive = 200.0
    """Rating difference allowed during warm-up, exclusive [rating points]."""
    refresh_episodes: Annotated[int, Interval(ge=1, le=10**6)] = 2000
    """Episodes between reads of the league; opponents are sampled again after each."""
    cache: Annotated[int, Interval(ge=1, le=10**4)] = 20
    """Loaded policies kept in memory besides those in use."""
    submit_every_updates: Count = 100
    """Updates between submitted snapshots; 0 submits only the first and the last."""
    match_opponents: Annotated[int, Interval(ge=0, le=1000)] = 4
    """Opponents with a similar rating that rate a submitted snapshot; 0 leaves rating to arena jobs."""
    match_seeds: Annotated[int, Interval(ge=1, le=1000)] = 2
    """Seeds per rating opponent; each is played from both sides."""
    promote_top: Count = 8
    """Rank up to which a submitted snapshot becomes a commander; 0 disables promotion."""
    conservatism: Annotated[float, Interval(ge=0.0, le=3.0)] = 2.0
    """Rating deviations subtracted from the rating for the rank of promote_top; 0 ranks by the rating alone."""
    keep_top: Annotated[int, Interval(ge=1, le=10**6)] = 20
    """Maximum number of commanders; lower-rated ones retire."""
    target: str = ""
    """Target of an exploiter: a league entry, a run, or commander to sample one; empty trains no exploiter."""
    target_win_rate: Fraction = 0.7
    """Win rate against the target above which training of an exploiter ends."""
    target_episodes: Annotated[int, Interval(ge=1, le=10**6)] = 100
    """Newest episodes against the target over which its win rate is computed."""
    retire_win_rate: Fraction = 0.7
    """Win rate against an own exploiter, by its lower 95 % bound, above which it retires; 1 keeps all."""

    def __post_init__(self) -> None:
        require_fields(self, "opponents.league")


@dataclass(frozen=True, kw_only=True)
class OpponentConfig:
    """Opponents of the learner."""

    __pydantic_config__ = STRICT

    skill: PilotSkill = DEFAULT_LEVEL
    """Level of the scripted pilots."""
    mix: MixConfig = field(default_factory=MixConfig)
    """Sampling weights of the opponents; an opponent is sampled at the start of each episode."""
    pfsp: Annotated[float, Interval(ge=0.0, le=8.0)] = 0.0
    """Exponent of 1 - win rate, a factor on the weights of all opponents; 0 samples by mix, in the league by rating."""
    weapon_prob_start: Fraction = 0.2
    """Probability that a scripted pilot's trigger takes effect, at the start."""
    weapon_prob_end: Fraction = 1.0
    """Probability that a scripted pilot's trigger takes effect, at the end of the ramp."""
    weapon_ramp_share: Fraction = 0.0
    """Fraction of training over which the probability rises; 0 uses weapon_prob_end from the start."""
    weapon_ramp_updates: Count = 0
    """Updates over which the probability rises; 0 uses weapon_ramp_share."""
    past_every_updates: Count = 25
    """Updates between snapshots of the policy; 0 keeps only the initial policy."""
    past_keep: Annotated[int, Interval(ge=1, le=256)] = 8
    """Maximum number of snapshots; surplus ones are removed evenly over the run."""
    rating_seeds: Annotated[int, Interval(ge=0, le=1000)] = 4
    """Seeds per match-up that rates a new snapshot against an older one, from both sides; 0 disables rating."""
    rating_opponents: Annotated[int, Interval(ge=1, le=64)] = 4
    """Maximum number of older snapshots that rate a new one."""
    champion: str = "champion"
    """Opponent of opponents.mix.champion: the shipped champion, a run, checkpoint, league entry or exported file."""
    champion_mean: bool = False
    """Let opponents.champion play its mean actions, in training and evaluations; otherwise it samples."""
    value_attack: Annotated[float, Interval(ge=0.0, le=100.0)] = 0.0
    """Weight of the fall of the value that opponents.champion gives its own position, a shaped reward."""
    league: LeagueConfig = field(default_factory=LeagueConfig)
    """Participation in the league, where mix includes it."""

    def __post_init__(self) -> None:
        require_fields(self, "opponents")
        label, policy = Path(self.champion).name, "a run, a checkpoint, a league entry, a file or champion"
        require(bool(label) and level_of(label) is None, "opponents.champion", self.champion, policy)
        fits = not self.value_attack or self.mix.shares["champion"] == 1.0
        require(fits, "opponents.value_attack", self.value_attack, "0 unless opponents.mix has the champion alone")
        target, expected = self.league.target, "empty where opponents.mix.league is 0; try --opponents exploiter"
        require(not target or self.mix.league > 0, "opponents.league.target", target, expected)

    @property
    def takes_snapshots(self) -> bool:
        """Whether snapshots of the policy are kept, as opponents or to rate self-play."""
        return self.mix.past > 0 or self.mix.self_play > 0

    def hardest_level(self) -> PilotSkill:
        """Return the hardest scripted level that is sampled; the league contains every level.

        Without any scripted level it is ``DEFAULT_LEVEL``.
        """
        if self.mix.uses_league:
            return LADDER[-1]
        sampled: list[PilotSkill] = [level for level in LADDER if getattr(self.mix, level) > 0]
        if self.mix.scripted > 0:
            sampled.append(self.skill)
        return max(sampled or [DEFAULT_LEVEL], key=LADDER.index)


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    """Curriculum parameters that change during training; all are off by default.

    The ramp of the scripted pilots' fire probability is part of ``opponents``.
    """

    __pydantic_config__ = STRICT

    packs: bool = False
    """Start with one pack per team, then two, then num_packs."""
    packs_two_at: Count = 500
    """Update at which two packs per team begin."""
    packs_all_at: Count = 1000
    """Update at which all packs begin."""
    maps: bool = False
    """Increase the map size over three thirds of training, from the small range to the large range."""
    map_small_min: Edge = 40
    """Minimum edge in the first third [vox]."""
    map_small_max: Edge = 60
    """Maximum edge in the first third [vox]."""
    map_large_min: Edge = 80
    """Minimum edge in the last third [vox]."""
    map_large_max: Edge = 120
    """Maximum edge in the last third [vox]."""
    team_alpha_end: float | None = None
    """Final reward.team_alpha, reached linearly from 1; none keeps reward.team_alpha."""
    team_alpha_share: Fraction = 0.5
    """Fraction of training over which team_alpha falls."""

    def __post_init__(self) -> None:
        require_fields(self, "curriculum")
        if self.team_alpha_end is not None:
            require(0 <= self.team_alpha_end <= 1, "curriculum.team_alpha_end", self.team_alpha_end, "0 to 1, or none")
        for low, high in (
            ("packs_two_at", "packs_all_at"),
            ("map_small_min", "map_small_max"),
            ("map_large_min", "map_large_max"),
        ):
            least, most = getattr(self, low), getattr(self, high)
            require(least <= most, f"curriculum.{low}", least, f"at most curriculum.{high} = {most}")


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluations of a run, each seed played from both sides.

    Scheduled evaluations decide which checkpoint is the best; the report at the end uses other seeds.
    """

    __pydantic_config__ = STRICT

    every_updates: Count = 50
    """Updates between evaluations; 0 evaluates only at the end."""
    seeds: Annotated[int, Interval(ge=1, le=10**5)] = 40
    """Held-out seeds of an evaluation."""
    report: bool = False
    """End a run with an evaluation of mean and sampled actions on as many seeds that chose no checkpoint."""
    skill: EvalSkill = DEFAULT_LEVEL
    """Opponent: a scripted level, hardest for the hardest level among the run's opponents, or opponents.champion."""
    weapon_prob: Fraction = 1.0
    """Probability that a trigger of the scripted opponent takes effect."""
    deterministic: bool = True
    """Use the mean action instead of a sample."""
    sampled: bool = False
    """Play the seeds with sampled actions as well, after the mean ones; the best checkpoint is by the mean ones."""
    at_start: bool = True
    """Evaluate the initial policy first, as a baseline of progress."""
    record_seeds: Annotated[int, Interval(ge=0, le=10**5)] = 1
    """Seeds of a scheduled evaluation whose matches are recorded, from both sides; 0 disables recording."""
    record_policy: bool = True
    """Record contacts, value estimates and rewards of the policy with these matches, besides actions."""
    heat_cells: Annotated[int, Interval(ge=0, le=512)] = 16
    """Cells per edge of the heat maps stored with an evaluation; 0 stores none."""

    def __post_init__(self) -> None:
        require_fields(self, "eval")


SCRIPTED = "heuristic"
"""Prefix of opponent names: ``heuristic:medium``."""
COMMANDER, PILOT = "commander:", "+"
"""Prefix of the names of players under a commander, and what stands before their pilot."""


def split_commander(name: str) -> tuple[str, str]:
    """Return the commander, "" without one, and the pilot of a name; ``ValueError`` for a commander without a pilot."""
    if not name.startswith(COMMANDER):
        return "", name
    commander, plus, pilot = name.removeprefix(COMMANDER).rpartition(PILOT)
    if not plus or not pilot:
        raise ValueError(f"commander {name!r} has no pilot, expected commander:FILE.py[:FUNCTION]+PILOT, such as +hard")
    return commander, pilot


def level_of(name: str) -> str | None:
    """Return the level of a scripted opponent, perhaps under a commander, None for a policy."""
    kind, _, level = name.rpartition(PILOT)[2].partition(":") if name.startswith(COMMANDER) else name.partition(":")
    return level if kind == SCRIPTED else None
