"""Policies from checkpoints at the controls of matches: seated by ``play``, asked for actions, forfeiting if broken.

A match's draws come from a generator of its own, so a match is the same whatever it is played beside. A policy whose
output is not finite forfeits: its mechs fall where they stand, and the other side wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import warp as wp

from echelon.actions import TARGET_DIM
from echelon.agents import heuristic
from echelon.arena.contest import BLUE, RED, Pairing
from echelon.arena.policies import GroupedPolicies, LRUPolicyCache
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.replay.header import TeamInfo
from echelon.rl.build import FlatPolicy
from echelon.rl.weights import LoadedPolicy, check_dimensions

NOISE_DECISIONS = 32
"""Decisions drawn at once: enough to make drawing cheap, few enough to need little memory."""


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """Who may fly a team: a scripted level, or the policy of a checkpoint."""

    id: str
    label: str
    level: str = ""
    """Name of a scripted level; empty for a policy."""
    path: str = ""
    """Checkpoint of a policy."""
    checkpoint: str = ""
    """Its id."""


@dataclass(frozen=True, kw_only=True)
class PolicyMatchPlan:
    """Matches between any pilots."""

    env: EnvConfig
    pilots: Mapping[str, Pilot]
    """By id."""
    seats: Mapping[int, tuple[str, str]]
    """Ids of blue and red, by number of the match."""
    weapon_prob: float = 1.0

    def sides(self, pairing: Pairing) -> tuple[str, str]:
        """Return who flies blue and who flies red."""
        return self.seats[pairing.number]

    def script(self, name: str) -> int:
        """Return which scripted pilot that is, 0 for a policy."""
        level = self.pilots[name].level
        return heuristic.script_of(level) if level else 0

    def team(self, name: str) -> TeamInfo:
        """Return what a replay says about a pilot."""
        pilot = self.pilots[name]
        level = f"heuristic:{pilot.level}" if pilot.level else ""
        return TeamInfo(name=pilot.label, level=level, checkpoint=pilot.checkpoint)


def fits(loaded: LoadedPolicy, engine: Engine) -> FlatPolicy:
    """Return the policy if its columns are the engine's; ``ValueError`` names what differs."""
    check_dimensions(loaded.meta, obs_dim=engine.obs_dim, action_dim=engine.action_dim)
    return loaded.policy


@dataclass(kw_only=True)
class GroupedPolicyRunner:
    """The policies of a card; a ``PolicyRunner`` for ``MatchSession``, and a context manager."""

    plan: PolicyMatchPlan
    load: Callable[[Pilot], LoadedPolicy]
    """How a checkpoint becomes a policy."""
    cache: LRUPolicyCache = field(default_factory=LRUPolicyCache)
    deterministic: bool = True
    threads: int = 1
    forfeits: dict[int, frozenset[int]] = field(default_factory=dict)
    """Sides that forfeited, by environment, in the matches that are played there now."""

    def __post_init__(self) -> None:
        self._engine: Engine | None = None
        self._grouped: GroupedPolicies | None = None
        self._seated: dict[int, dict[str, list[int]]] = {}
        """Rows by policy, by environment."""

    def start_matches(self, engine: Engine, seats: Mapping[int, tuple[Pairing, tuple[str, str]]]) -> None:
        """Seat the policies of matches that begin: pairing, blue and red by environment."""
        if self._engine is not engine:
            self._attach(engine)
        mechs, row_of = engine.num_mechs, engine.batch.numpy("row_of").copy()
        for e, (pairing, ids) in seats.items():
            self._vacate(e)
            self.forfeits.pop(e, None)
            self._generators[e] = torch.Generator().manual_seed(pairing.seed)
            self._drawn[e] = 0
            row_of[e] = -1
            for side, name in enumerate(ids):
                if not self.plan.script(name):
                    first = e * mechs + side * mechs // 2
                    self._seated.setdefault(e, {}).setdefault(name, []).extend(range(first, first + mechs // 2))
        fresh: dict[str, list[int]] = {}
        for e in seats:
            for name, rows in self._seated.get(e, {}).items():
                self.cache.pin(name)
                fresh.setdefault(name, []).extend(rows)
        for name, rows in fresh.items():
            pilot = self.plan.pilots[name]
            policy = self.cache.fetch(name, lambda _, pilot=pilot: fits(self.load(pilot), engine))
            self._own().assign(rows, policy)
            row_of.reshape(-1)[rows] = rows
        self._count_flown()
        engine.batch.set("row_of", row_of)

    def _vacate(self, env: int) -> None:
        """Have nobody fly in an environment."""
        seated = self._seated.pop(env, {})
        for name in seated:
            self.cache.unpin(name)
        if rows := sorted(row for rows in seated.values() for row in rows):
            self._own().assign(rows, None)

    def _count_flown(self) -> None:
        rows = sorted(row for seated in self._seated.values() for mine in seated.values() for row in mine)
        self._flown = torch.tensor(rows, dtype=torch.long)

    def _attach(self, engine: Engine) -> None:
        """Have the engine write observations where the policies read them: a row per mech."""
        rows, device = engine.num_envs * engine.num_mechs, torch.device(engine.batch.device)
        self._engine = engine
        self._obs = torch.zeros((1, rows, engine.obs_dim), device=device)
        self._final = torch.zeros((1, rows, engine.obs_dim), device=device)
        engine.attach(wp.from_torch(self._obs), wp.from_torch(self._final))
        if self._grouped is not None:
            self._grouped.close()
        self._grouped = GroupedPolicies(rows, engine.action_dim, device=device, threads=self.threads)
        self._actions = wp.to_torch(engine.batch["actions"]).view(rows, engine.action_dim)
        self._generators = [torch.Generator() for _ in range(engine.num_envs)]
        self._drawn = [0] * engine.num_envs
        width = engine.action_dim + TARGET_DIM + 1
        self._stock = torch.zeros((engine.num_envs, NOISE_DECISIONS, engine.num_mechs, width))
        self._seated.clear()

    def act(self) -> None:
        """Write the actions of every policy, and let those forfeit that gave none."""
        if not len(self._flown):
            return
        grouped = self._own()
        actions = grouped.act(self._obs[0], self._noise())
        flown = self._flown.to(actions.device)
        self._actions.index_copy_(0, flown, actions.index_select(0, flown))
        if bool(grouped.bad.any()):
            self._forfeit(grouped.bad.nonzero().flatten().tolist())

    def _noise(self) -> torch.Tensor | None:
        """Return this decision's draw ``[N, W]``, None for mean actions; each match has its own sequence."""
        if self.deterministic:
            return None
        turns = [drawn % NOISE_DECISIONS for drawn in self._drawn]
        for e in self._seated:
            if turns[e] == 0:
                self._stock[e].normal_(generator=self._generators[e])
            self._drawn[e] += 1
        now = self._stock[torch.arange(len(turns)), torch.tensor(turns)]
        return now.flatten(0, 1).to(self._obs.device)

    def _forfeit(self, rows: Sequence[int]) -> None:
        """Take the teams of these rows out of the game; the referee ends it at this decision's end."""
        engine = self._engine
        assert engine is not None
        alive = engine.batch.numpy("alive").copy()
        half = engine.num_mechs // 2
        for row in rows:
            e, m = divmod(row, engine.num_mechs)
            side = RED if m >= half else BLUE
            self.forfeits[e] = self.forfeits.get(e, frozenset()) | {side}
            alive[e, side * half : (side + 1) * half] = 0
        engine.batch.set("alive", alive)
        self._own().assign(rows, None)
        self._own().bad.zero_()

    def end_matches(self, envs: Sequence[int]) -> None:
        """Compute nothing more for matches that are over."""
        engine = self._engine
        assert engine is not None
        for e in envs:
            self._vacate(e)
        self._count_flown()
        row_of = engine.batch.numpy("row_of").copy()
        row_of[list(envs)] = -1
        engine.batch.set("row_of", row_of)

    def _own(self) -> GroupedPolicies:
        assert self._grouped is not None, "board() comes first"
        return self._grouped

    def close(self) -> None:
        """Let go of the policies and release the threads."""
        for e in list(self._seated):
            self._vacate(e)
        if self._grouped is not None:
            self._grouped.close()

    def __enter__(self) -> GroupedPolicyRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
