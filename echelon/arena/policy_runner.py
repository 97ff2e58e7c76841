"""Controls the mechs of checkpoint policies in matches: assigns rows, computes actions, handles forfeits.

Each match samples from a generator of its own, so it is the same whatever else runs in the batch. A policy whose
actions are not finite forfeits: its mechs leave the match and the other side wins.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import warp as wp

from echelon.actions import TARGET_DIM
from echelon.agents import heuristic
from echelon.arena.contest import BLUE, RED, MatchPlan, Pairing, Pilot
from echelon.arena.policies import GroupedPolicies, LRUPolicyCache
from echelon.env.engine import Engine
from echelon.rl.agent_process import STAND_IN
from echelon.rl.build import FlatPolicy
from echelon.rl.fitting import fitted
from echelon.rl.outside import ProcessPolicy
from echelon.rl.weights import LoadedPolicy, check_dimensions

NOISE_DECISIONS = 32
"""Decisions whose noise is drawn at once: enough to make drawing cheap at little memory."""


def checked_policy(loaded: LoadedPolicy, engine: Engine) -> FlatPolicy:
    """Return the policy; ``ValueError`` where it does not read the engine's rows."""
    loaded = fitted(loaded, engine.obs_dim)
    check_dimensions(loaded.meta, obs_dim=engine.obs_dim, action_dim=engine.action_dim)
    return loaded.policy


class PolicyRows:
    """Rows for all mechs of an engine: their observations, and the actions of the policies that fly some of them.

    Each environment has noise from a sequence of its own. It is attached before the engine's first observation.
    """

    def __init__(self, engine: Engine, threads: int) -> None:
        rows, device = engine.num_envs * engine.num_mechs, torch.device(engine.batch.device)
        self._obs = torch.zeros((1, rows, engine.obs_dim), device=device)
        self._final_obs = torch.zeros((1, rows, engine.obs_dim), device=device)
        engine.attach(wp.from_torch(self._obs), wp.from_torch(self._final_obs))
        self.grouped = GroupedPolicies(rows, engine.action_dim, device=device, threads=threads)
        self._batch = engine.batch
        self._actions = wp.to_torch(engine.batch["actions"]).view(rows, engine.action_dim)
        self._generators: dict[int, torch.Generator] = {}
        self._num_drawn = [0] * engine.num_envs
        width = engine.action_dim + TARGET_DIM + 1
        self._noise_buffer = torch.zeros((engine.num_envs, NOISE_DECISIONS, engine.num_mechs, width))

    @property
    def observations(self) -> torch.Tensor:
        """Return the observations ``[N, D]`` of all mechs, by environment and mech; those not written are 0."""
        return self._obs[0]

    def start_noise(self, env: int, seed: int) -> None:
        self._generators[env] = torch.Generator().manual_seed(seed)
        self._num_drawn[env] = 0

    def act(self, rows: torch.Tensor, sampled: Iterable[int], *, dead: bool = False) -> None:
        """Write the actions of rows whose policies fly, with noise in the environments ``sampled``, else the mean.

        On a CPU mechs that died keep their last action, except with ``dead``. A scripted pilot flies those of agents
        that failed too often.
        """
        acting = None if dead or self._obs.is_cuda else self._batch.numpy("alive").reshape(-1) != 0
        actions = self.grouped.act(self._obs[0], self._noise(list(sampled)), acting)
        rows = rows.to(actions.device)
        self._actions.index_copy_(0, rows, actions.index_select(0, rows))
        if bool(self.grouped.lost.any()):
            script = self._batch.numpy("script").copy()
            script.reshape(-1)[self.grouped.lost.numpy()] = heuristic.script_of(STAND_IN)
            self._batch.set("script", script)

    def _noise(self, envs: Sequence[int]) -> torch.Tensor | None:
        """Return this decision's noise ``[N, W]``; None for mean actions."""
        if not envs:
            return None
        index = [drawn % NOISE_DECISIONS for drawn in self._num_drawn]
        for env in envs:
            if index[env] == 0:
                self._noise_buffer[env].normal_(generator=self._generators[env])
            self._num_drawn[env] += 1
        noise = self._noise_buffer[torch.arange(len(index)), torch.tensor(index)]
        return noise.flatten(0, 1).to(self._obs.device)


@dataclass(kw_only=True)
class GroupedPolicyRunner:
    """A ``PolicyRunner`` for the policies of a plan, computed in groups; a context manager."""

    plan: MatchPlan
    load: Callable[[Pilot], LoadedPolicy]
    cache: LRUPolicyCache = field(default_factory=LRUPolicyCache)
    deterministic: bool = True
    threads: int = 1
    chances: bool = False
    """Whether matches record the probabilities of the policies' choices."""
    forfeits: dict[int, frozenset[int]] = field(default_factory=dict)
    """Sides that forfeited in the running matches, by environment."""

    def __post_init__(self) -> None:
        self._engine: Engine | None = None
        self._attached: PolicyRows | None = None
        self._assigned: dict[int, dict[str, list[int]]] = {}
        """Rows by policy, by environment."""
        self._rows = torch.zeros(0, dtype=torch.long)
        self._agents: set[ProcessPolicy] = set()

    def start_matches(self, engine: Engine, seats: Mapping[int, tuple[Pairing, tuple[str, str]]]) -> None:
        if self._engine is not engine:
            self._attach(engine)
        mechs, row_of = engine.num_mechs, engine.batch.numpy("row_of").copy()
        for e, (pairing, ids) in seats.items():
            self._release(e)
            self.forfeits.pop(e, None)
            self._attachment().start_noise(e, pairing.seed)
            row_of[e] = -1
            for side, name in enumerate(ids):
                if not self.plan.script(name):
                    first = e * mechs + side * mechs // 2
                    self._assigned.setdefault(e, {}).setdefault(name, []).extend(range(first, first + mechs // 2))
        rows_of: dict[str, list[int]] = {}
        for e in seats:
            for name, rows in self._assigned.get(e, {}).items():
                self.cache.pin(name)
                rows_of.setdefault(name, []).extend(rows)
        for name, rows in rows_of.items():
            pilot = self.plan.pilots[name]
            policy = self.cache.fetch(name, lambda _, pilot=pilot: checked_policy(self.load(pilot), engine))
            self.policies().assign(rows, policy)
            if isinstance(policy, ProcessPolicy):
                self._agents.add(policy)
            row_of.reshape(-1)[rows] = rows
        self._update_rows()
        engine.batch.set("row_of", row_of)

    @property
    def may_need_scripts(self) -> bool:
        """Whether scripted pilots may have to fly for an agent."""
        return bool(self._agents)

    def reports(self) -> list[str]:
        """Return a line for each agent that failed since the last call."""
        return list(filter(None, (agent.packs.report() for agent in self._agents)))

    def _release(self, env: int) -> None:
        assigned = self._assigned.pop(env, {})
        for name in assigned:
            self.cache.unpin(name)
        if rows := sorted(row for rows in assigned.values() for row in rows):
            self.policies().assign(rows, None)

    def _update_rows(self) -> None:
        rows = sorted(row for assigned in self._assigned.values() for rows in assigned.values() for row in rows)
        self._rows = torch.tensor(rows, dtype=torch.long)

    def _attach(self, engine: Engine) -> None:
        if self._attached is not None:
            self.policies().close()
        self._engine, self._attached = engine, PolicyRows(engine, self.threads)
        if self.chances:
            self.policies().report_chances()
        self._assigned.clear()

    def act(self) -> None:
        """Write the actions of every policy; sides with actions that are not finite forfeit."""
        engine = self._engine
        if engine is None or not len(self._rows):
            return
        self._attachment().act(self._rows, () if self.deterministic else self._assigned)
        grouped = self.policies()
        if grouped.chances is not None and "chances" in engine.batch.fields:
            wp.to_torch(engine.batch["chances"]).flatten(0, 1).copy_(grouped.chances)
        if bool(grouped.nonfinite.any()):
            self._forfeit(grouped.nonfinite.nonzero().flatten().tolist())

    def _forfeit(self, rows: Sequence[int]) -> None:
        """Remove the teams of these rows; the referee ends their matches with this decision."""
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
        self.policies().assign(rows, None)
        self.policies().nonfinite.zero_()

    def end_matches(self, envs: Sequence[int]) -> None:
        engine = self._engine
        assert engine is not None
        for e in envs:
            self._release(e)
        self._update_rows()
        row_of = engine.batch.numpy("row_of").copy()
        row_of[list(envs)] = -1
        engine.batch.set("row_of", row_of)

    def _attachment(self) -> PolicyRows:
        assert self._attached is not None, "start_matches() comes first"
        return self._attached

    def policies(self) -> GroupedPolicies:
        return self._attachment().grouped

    def close(self) -> None:
        for e in list(self._assigned):
            self._release(e)
        if self._attached is not None:
            self.policies().close()

    def __enter__(self) -> "GroupedPolicyRunner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
