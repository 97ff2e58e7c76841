"""The plan of an evaluation job, which a command makes without loading torch."""

from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, NamedTuple

from annotated_types import Interval

from echelon.config import PACK_SIZE, EnvConfig, Fairness, with_fairness
from echelon.config.opponents import level_of
from echelon.env.layout import ORDERS
from echelon.rl.checkpoint import env_config_of
from echelon.telemetry.events import EventEvalBatch
from echelon.validation import validated

MAX_SEEDS = 10**6
"""Most seeds of an evaluation."""
ROWS_PER_BATCH = {"cpu": 400, "cuda": 1600}
"""Mechs that the policy controls in one batch, by type of device; a killed job loses at most one batch."""


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """Options of an evaluation."""

    seeds: Annotated[int, Interval(ge=1, le=MAX_SEEDS)]
    """Number of held-out seeds; each is played from both sides."""
    weapon_prob: float
    size: int | None = None
    """Map edge [vox]; None for that of the training."""
    maps: Fairness | None = None
    """Kind of the maps; None for that of the training."""
    deterministic: bool = True
    """Mean actions and then sampled ones; otherwise sampled ones only."""
    device: str = "cpu"
    threads: int = 0
    """CPU threads; 0 uses every core."""


@dataclass(frozen=True)
class Condition:
    """Who controls the mechs of the evaluated team."""

    own: int = PACK_SIZE
    """Mechs of each pack that the policy controls."""
    mate: str = ""
    """Policy, or scripted level as ``heuristic:LEVEL``, that controls the others."""

    @property
    def title(self) -> str:
        return f"{self.own} of {PACK_SIZE}, others {self.mate}" if self.mate else EventEvalBatch.condition


@dataclass(frozen=True, kw_only=True)
class GameSize:
    """Size of a game, a cell of a matrix."""

    edge: Annotated[int, Interval(ge=20, le=200)]
    """Map edge [vox]."""
    packs: Annotated[int, Interval(ge=1, le=20)]
    """Packs per team."""
    batch_seeds: Annotated[int, Interval(ge=1, le=max(ROWS_PER_BATCH.values()))]

    @property
    def title(self) -> str:
        return f"{self.edge} vox, {self.packs} packs" if self.packs > 1 else f"{self.edge} vox"


@dataclass(frozen=True, kw_only=True)
class CommanderCopy:
    """Copy of the file of a commander."""

    commander: str
    """``FILE.py[:FUNCTION]`` in the job's folder."""
    sha256: str
    """Hash of the file."""


@dataclass(frozen=True, kw_only=True)
class EvalPlan(EvalOptions):
    """What an evaluation job plays; stored in its spec."""

    target: str
    """Policy as the command named it, or a scripted level as ``heuristic:LEVEL``."""
    policy: str = ""
    """Copy of the policy, a file or folder in that of the job: checkpoints of a running training are deleted."""
    opponents: tuple[str, ...]
    """Names of the opponents: scripted ones as ``heuristic:LEVEL``, and at most one policy."""
    opponent_policy: str = ""
    """Copy of the opponent's policy, likewise; empty where all are scripted."""
    opponent_mean: bool = False
    """Whether that policy plays its mean actions, as the champion does; otherwise it samples."""
    ladder: bool = False
    """Whether the result lists levels."""
    mates: tuple[str, ...] = ()
    """Policies and levels that control a part of the team in turn; with some, teamwork is measured."""
    commanders: dict[str, CommanderCopy] = field(default_factory=dict)
    """Commanders by name of the player that they lead, in ``target``, ``opponents`` and ``mates``."""
    games: tuple[GameSize, ...] = ()
    """Sizes that are played in turn, the cells of a matrix; without any, that of the training with ``size``."""
    batch_seeds: Annotated[int, Interval(ge=1, le=max(ROWS_PER_BATCH.values()))]
    run: str = ""
    """Folder of the evaluated run, which gets the results; empty for a policy that is in no run."""
    replays: str = ""
    """Folder of recordings; empty to record nothing."""
    recorded: Annotated[int, Interval(ge=1)] = MAX_SEEDS
    """Most seeds that are recorded, from the first."""
    record_sampled: bool = False
    """Record sampled actions, not mean ones, where both are played."""
    replay_prefix: str = ""

    @classmethod
    def from_dict(cls, row: Any) -> "EvalPlan":
        """Return the plan that ``asdict`` wrote; ``ValueError`` where it is damaged."""
        plan = validated(cls, row, "evaluation plan is damaged: ")
        if not plan.opponents:
            raise ValueError("evaluation plan has no opponents, expected at least one")
        policies = [name for name in plan.opponents if level_of(name) is None]
        if len(policies) != bool(plan.opponent_policy):
            raise ValueError(f"evaluation plan has {len(policies)} policies as opponents, expected one with its file")
        return plan

    @property
    def modes(self) -> tuple[bool, ...]:
        """Kinds of actions to play: True for mean actions, False for sampled ones; a scripted level has one kind."""
        both = (True, False) if self.deterministic and not self.mates else (self.deterministic,)
        return (True,) if level_of(self.target) else both

    @property
    def conditions(self) -> dict[str, Condition]:
        """Conditions by title, the usual one first; teamwork is measured by comparison with it."""
        if self.games:
            return {game.title: Condition() for game in self.games}
        mixed = [Condition(own, mate) for mate in self.mates for own in range(PACK_SIZE)]
        return {condition.title: condition for condition in (Condition(), *mixed)}

    @property
    def mate_files(self) -> dict[str, str]:
        """Copies of the mates that are policies, in the job's folder, by name."""
        return {mate: f"mate-{i}" for i, mate in enumerate(self.mates) if level_of(mate) is None}

    @property
    def matches(self) -> int:
        return sum(self.parts().values())

    def batches(self, most: int = 0) -> list[range]:
        """Return the positions of each batch of ``most`` seeds in their list; sizes differ by at most one."""
        count = -(-self.seeds // (most or self.batch_seeds))
        return [range(i * self.seeds // count, (i + 1) * self.seeds // count) for i in range(count)]

    def rounds(self) -> "list[Round]":
        """Return the parts in order of play, those together that are played in one batch of environments."""
        titles = [(game, [game.title]) for game in self.games] or [(None, list(self.conditions))]
        return [
            Round(game, positions, [
                EvalPart(batch, opponent, mode, condition)
                for opponent in self.opponents
                for mode in self.modes
                for condition in conditions
            ])
            for game, conditions in titles
            for batch, positions in enumerate(self.batches(game.batch_seeds if game else 0))
        ]  # fmt: skip

    def parts(self) -> "dict[EvalPart, int]":
        """Return every part in order of play, with its number of matches."""
        return {part: 2 * len(each.positions) for each in self.rounds() for part in each.parts}


@dataclass(frozen=True)
class EvalPart:
    """One batch against one opponent with one kind of actions in one condition."""

    batch: int
    opponent: str
    deterministic: bool
    condition: str = EventEvalBatch.condition


class Round(NamedTuple):
    """Parts of the same size and seeds."""

    game: GameSize | None
    positions: range
    """Positions of the seeds in their list."""
    parts: list[EvalPart]


def batch_seeds(env: EnvConfig, device: str) -> int:
    """Return the most seeds of a batch for environments of this size."""
    return max(1, ROWS_PER_BATCH[device.partition(":")[0]] // (2 * env.team_size))


def environment_of(
    meta: dict[str, Any], size: int | None = None, maps: Fairness | None = None, packs: int | None = None
) -> EnvConfig:
    """Return the environment a policy was trained in, with maps of edge ``size`` [vox], fairness and packs if given."""
    env = env_config_of(meta)
    env = env if maps is None else with_fairness(env, maps)
    env = env if packs is None else replace(env.without_ranges(), num_packs=packs)
    return env if size is None else replace(env, world=replace(env.world, size_x=size, size_y=size))


def interface_of(env: EnvConfig, obs_dim: int) -> tuple[Any, ...]:
    """Return what two policies of ``obs_dim`` columns must share to play in one batch; one is fitted to the other."""
    return obs_dim - ORDERS.width * env.observe_orders, env.obs_layout


def check_interfaces(meta: dict[str, Any], other: dict[str, Any], target: str, name: str, what: str) -> None:
    """Raise ``ValueError`` where two policies cannot play in one batch."""
    one, two = (interface_of(environment_of(each), each.get("obs_dim", 0)) for each in (meta, other))
    if one != two:
        raise ValueError(f"{what} {name!r} has another observation layout than {target}; both must be equal")


def scripted_meta() -> dict[str, Any]:
    """Return the metadata of a scripted level: it plays in the default environment."""
    return {"env_cfg": asdict(EnvConfig())}
