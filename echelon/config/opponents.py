"""The dials of whom the learner meets: opponents, the curriculum that moves them, and evaluation.

Written apart from ``echelon.config``, which re-exports them, so that each stays readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from echelon.config.game import STRICT, require
from echelon.config.ranges import (
    CURRICULUM_RANGES,
    EVAL_RANGES,
    LEAGUE_RANGES,
    OPPONENT_RANGES,
    require_kinds,
    require_ranges,
)

PilotSkill = Literal["legacy", "trivial", "easy", "medium", "hard", "expert"]
"""Names of the scripted pilots, as ``echelon.agents`` has them."""
LadderSkill = Literal["trivial", "easy", "medium", "hard", "expert"]
"""Those of them that form the ladder, weakest first."""


@dataclass(frozen=True, kw_only=True)
class MixConfig:
    """How often each opponent is met: weights of any sum; a weight of 0 never is."""

    __pydantic_config__ = STRICT

    scripted: float = 1.0
    """Scripted pilots of the level ``opponents.skill``, which the curriculum may move."""
    legacy: float = 0.0
    """The omniscient baseline, whatever the curriculum says; so are the levels below."""
    trivial: float = 0.0
    """Scripted pilots that barely fight."""
    easy: float = 0.0
    """Scripted pilots that fight badly."""
    medium: float = 0.0
    """Scripted pilots of middling skill."""
    hard: float = 0.0
    """Scripted pilots that fight well."""
    expert: float = 0.0
    """The best scripted pilots."""
    self_play: float = 0.0
    """The policy itself, both sides learning; its share of environments is fixed for the whole run."""
    past: float = 0.0
    """Snapshots of this run, which do not learn."""
    league: float = 0.0
    """Entries of the league near the own rating: commanders, new candidates, scripted levels, exploiters of others."""
    exploiters: float = 0.0
    """Exploiters of the league that were trained against this run; while there are none, they count as the league."""

    def __post_init__(self) -> None:
        require_kinds(self, "opponents.mix")
        for item in fields(self):
            value = getattr(self, item.name)
            require(0 <= value <= 1e6, f"opponents.mix.{item.name}", value, "0 to 1e6")
        require(any(getattr(self, f.name) > 0 for f in fields(self)), "opponents.mix", "all 0", "a weight above 0")

    @property
    def self_play_share(self) -> float:
        """Share of the environments in which both sides learn."""
        return self.self_play / sum(getattr(self, item.name) for item in fields(self))

    @property
    def uses_league(self) -> bool:
        """Whether opponents come from the league."""
        return self.league > 0 or self.exploiters > 0

    @property
    def uses_frozen_policies(self) -> bool:
        """Whether policies that do not learn fly the other side."""
        return self.past > 0 or self.uses_league


MIX_PROFILES: Mapping[str, MixConfig] = {
    "scripted": MixConfig(),
    "self": MixConfig(scripted=0.0, self_play=1.0),
    "past": MixConfig(scripted=0.0, self_play=0.5, past=0.5),
    "league": MixConfig(scripted=0.1, self_play=0.2, past=0.1, league=0.4, exploiters=0.2),
    "exploiter": MixConfig(scripted=0.0, league=1.0),
}
"""Mixes by name: a fifth of the games of a run in the league is with those who exploit it."""


@dataclass(frozen=True, kw_only=True)
class LeagueConfig:
    """How a run takes part in the league: whom of it it meets, what it submits, whom it exploits."""

    __pydantic_config__ = STRICT

    path: str = ""
    """File of the league; empty takes the one beside the run."""
    commanders: int = 8
    """Best commanders that may be met."""
    candidates: int = 4
    """Newest candidates that may be met."""
    sigma: float = 200.0
    """Rating gap at which an opponent is drawn 0.61 times as often as an equal one [points]."""
    warmup_games: int = 20
    """Rated games before which only near ratings are met."""
    warmup_range: float = 200.0
    """How near: strictly within this [points]."""
    refresh_episodes: int = 2000
    """Episodes after which the league is read again, and everybody drawn anew."""
    cache: int = 20
    """Policies kept loaded; those that fly are kept beyond it."""
    submit_every_updates: int = 100
    """Updates between two snapshots that are submitted; 0 submits the first and the last alone."""
    match_opponents: int = 4
    """Opponents near its rating that a submitted snapshot plays to be rated; 0 leaves it to arena jobs."""
    match_seeds: int = 2
    """Seeds on which it plays each of them, from both sides."""
    promote_top: int = 8
    """A snapshot becomes commander when it ranks among the first so many; 0 promotes nobody."""
    conservatism: float = 2.0
    """Deviations below its rating by which that rank is counted: 0 promotes by the rating alone."""
    keep_top: int = 20
    """Commanders beyond so many retire."""
    target: str = ""
    """Whom an exploiter trains against: an entry, a run, or ``commander``, which draws one; empty for no exploiter."""
    target_win_rate: float = 0.7
    """Win rate against the target above which an exploiter is done."""
    target_episodes: int = 100
    """Newest episodes against the target by which that is judged."""

    def __post_init__(self) -> None:
        require_ranges(self, "opponents.league", LEAGUE_RANGES)


@dataclass(frozen=True, kw_only=True)
class OpponentConfig:
    """Who the learner plays against."""

    __pydantic_config__ = STRICT

    kind: Literal["heuristic"] = "heuristic"
    """Scripted pilots."""
    skill: PilotSkill = "legacy"
    """Level of the scripted pilots; ``legacy`` is the omniscient baseline."""
    mix: MixConfig = field(default_factory=MixConfig)
    """Who is met how often; drawn anew for an environment whenever its episode ends."""
    weapon_prob_start: float = 0.2
    """Chance that a scripted pilot's trigger is kept, at the start."""
    weapon_prob_end: float = 1.0
    """The same at the end of the ramp."""
    weapon_ramp_share: float = 0.0
    """Share of training over which it rises; 0 uses the end value from the start."""
    weapon_ramp_updates: int = 0
    """Updates over which it rises instead of a share; 0 leaves it to the share."""
    past_every_updates: int = 25
    """Updates between two snapshots of the policy; 0 keeps the untrained policy alone."""
    past_keep: int = 8
    """Snapshots kept; beyond that they are thinned so that they stay spread over the run."""
    rating_seeds: int = 4
    """Seeds on which a new snapshot plays each older one it is rated against, from both sides; 0 rates none."""
    rating_rivals: int = 4
    """Most older snapshots that a new one plays to be rated."""
    league: LeagueConfig = field(default_factory=LeagueConfig)
    """The part in the league, where ``mix`` meets it."""

    def __post_init__(self) -> None:
        require_ranges(self, "opponents", OPPONENT_RANGES)
        target, wanted = self.league.target, "opponents.mix.league above 0, as in --opponents exploiter"
        require(not target or self.mix.league > 0, "opponents.league.target", target, wanted)

    @property
    def takes_snapshots(self) -> bool:
        """Whether snapshots of the policy are kept: to play against, or to measure self-play by."""
        return self.mix.past > 0 or self.mix.self_play > 0


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    """Levers that move while training goes on; each is off unless switched on.

    The trigger probability of scripted opponents has its ramp in ``opponents``.
    """

    __pydantic_config__ = STRICT

    packs: bool = False
    """Start with one pack a side, then two, then as many as the environment has."""
    packs_two_at: int = 500
    """Update from which two packs play."""
    packs_all_at: int = 1000
    """Update from which all packs play."""
    maps: bool = False
    """Grow the maps in thirds of training, from the small range to the large one."""
    map_small_min: int = 40
    """Least edge in the first third [vox]."""
    map_small_max: int = 60
    """Largest edge in the first third [vox]."""
    map_large_min: int = 80
    """Least edge in the last third [vox]."""
    map_large_max: int = 120
    """Largest edge in the last third [vox]."""
    team_alpha_end: float | None = None
    """Share of its own reward that a mech keeps in the end, falling from 1; none leaves it as the reward has it."""
    team_alpha_share: float = 0.5
    """Share of training over which it falls."""
    ladder: bool = False
    """Climb the levels of scripted pilots that are met as ``scripted``, a gate between any two."""
    ladder_first: LadderSkill = "trivial"
    """Level it starts at."""
    ladder_last: LadderSkill = "expert"
    """Level it ends at."""
    gate_seeds: int = 10
    """Seeds on which a gate judges at every evaluation, from both sides; neither trained on nor reported on."""
    gate_episodes: int = 20
    """Fewest episodes that a gate judges by."""
    gate_window: int = 80
    """Newest episodes at a level that count."""
    gate_advance: float = 0.6
    """Win rate that the lower 95 % bound must reach for the next level."""
    gate_retreat: float = 0.3
    """Win rate below which the upper 95 % bound sends back a level."""
    gate_dwell_updates: int = 10
    """Fewest updates at a level."""
    mechanics: bool = False
    """Begin with movement and cover; then heat, missiles, and electronic warfare with paint come in, one by one."""
    mechanics_share: float = 0.5
    """Share of training after which the game is whole."""
    reward_phases: bool = False
    """Shift what is paid for from fighting to the objective as training goes on."""

    def __post_init__(self) -> None:
        require_ranges(self, "curriculum", CURRICULUM_RANGES)
        if self.team_alpha_end is not None:
            require(0 <= self.team_alpha_end <= 1, "curriculum.team_alpha_end", self.team_alpha_end, "0 to 1, or none")
        for low, high in (
            ("packs_two_at", "packs_all_at"),
            ("map_small_min", "map_small_max"),
            ("map_large_min", "map_large_max"),
            ("gate_retreat", "gate_advance"),
            ("gate_episodes", "gate_window"),
        ):
            least, most = getattr(self, low), getattr(self, high)
            require(least <= most, f"curriculum.{low}", least, f"at most curriculum.{high} = {most}")
        first, last = LADDER.index(self.ladder_first), LADDER.index(self.ladder_last)
        require(first <= last, "curriculum.ladder_first", self.ladder_first, f"no level above {self.ladder_last!r}")


LADDER: tuple[LadderSkill, ...] = ("trivial", "easy", "medium", "hard", "expert")
"""The levels of the ladder, weakest first."""


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluation on held-out seeds with sides swapped."""

    __pydantic_config__ = STRICT

    every_updates: int = 50
    """Updates between evaluations; 0 evaluates only at the end."""
    seeds: int = 40
    """Held-out seeds; twice as many episodes are played."""
    skill: PilotSkill = "legacy"
    """Level of the scripted opponent."""
    weapon_prob: float = 1.0
    """Trigger probability of the scripted opponent."""
    deterministic: bool = True
    """Play the mean action instead of a sample."""
    at_start: bool = True
    """Evaluate the untrained policy first, so that progress has a zero."""
    record_seeds: int = 1
    """Held-out seeds whose matches are recorded, from both sides; 0 records none."""
    record_policy: bool = True
    """Record with them what the policy was shown, did, expected and was paid."""
    heat_cells: int = 16
    """Cells along each edge of the heat maps kept of an evaluation; 0 keeps none."""

    def __post_init__(self) -> None:
        require_ranges(self, "eval", EVAL_RANGES)
