"""A state machine that plays whole episodes and changes them: damage, heat, falls, teleports, resumed snapshots.

Two engines share one configuration. The second, split over two threads, restores snapshots of the first and must then
play the same future.
"""

import numpy as np
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from echelon.actions import ACTION_DIM
from echelon.config import EnvConfig
from echelon.env.engine_state import load_engine_state, save_engine_state
from echelon.sim.arsenal import CHASSIS
from echelon.sim.world import Material
from tests.env.battle import Battle
from tests.laws.configs import KINDS, RandomActions
from tests.laws.free_positions import free_positions
from tests.laws.invariants import InvariantChecker
from tests.parity.scenes import clutter
from tests.state_hash import state_hash

ENVS = 3
CFG = EnvConfig(max_episode_seconds=12.0, decision_repeat=3, landing=True)
MECH = st.integers(0, CFG.num_mechs - 1)
ENV = st.integers(0, ENVS - 1)
SHARE = st.floats(0.0, 1.0)
_battles: dict[int, Battle] = {}


def battle(threads: int) -> Battle:
    """Return the battle of this number of threads, which all examples share because building one is slow."""
    if threads not in _battles:
        made = Battle(
            envs=ENVS, edit=rough(), own_maps=True, size=40, threads=threads,
            max_episode_seconds=CFG.max_episode_seconds, decision_repeat=CFG.decision_repeat, landing=CFG.landing,
        )  # fmt: skip
        _battles[threads] = made
    return _battles[threads]


def rough():
    strew = clutter(np.random.default_rng(5), 40)

    def edit(grid: np.ndarray) -> None:
        strew(grid)
        for rows in (slice(0, 9), slice(-9, None)):
            grid[:, rows] = Material.AIR
            grid[0, rows] = Material.DIRT

    return edit


def hashes(made: Battle) -> list[str]:
    return [state_hash(made.batch, e) for e in range(ENVS)]


class Episodes(RuleBasedStateMachine):
    """Every rule leaves a reachable state; every step is checked."""

    @initialize(seed=st.integers(0, 2**30))
    def begin(self, seed):
        self.battle, self.twin = battle(1), battle(2)
        self.battle.batch.set("forced_seed", np.arange(seed, seed + ENVS, dtype=np.int32))
        self.battle.batch["actions"].zero_()
        self.battle.engine.reset()
        self.random_actions = RandomActions(CFG, ENVS, seed)
        self.checker = InvariantChecker(self.battle.engine, self.battle.rows[0])
        self.rng = np.random.default_rng(seed)

    @rule(kind=st.sampled_from(KINDS), count=st.integers(1, 12))
    def step(self, kind, count):
        for _ in range(count):
            self.battle.step(self.random_actions.draw(kind))
            self.checker.check()

    @rule(mask=st.lists(st.booleans(), min_size=ENVS, max_size=ENVS))
    def reset(self, mask):
        saved = hashes(self.battle)
        self.battle.engine.reset(mask=np.array(mask))
        for e, (before, after) in enumerate(zip(saved, hashes(self.battle), strict=True)):
            assert mask[e] or before == after, f"a reset of {mask} touched battle {e}"
            assert not mask[e] or self.battle["alive"][e].all() and self.battle["tick"][e] == 0
        self.checker.store()

    @rule(env=ENV, mech=MECH, share=SHARE, legs=st.booleans())
    def hurt(self, env, mech, share, legs):
        name, full = ("leg_hp", "leg_hp") if legs else ("hp", "hp")
        spec = CHASSIS[int(self.battle["chassis"][env, mech])]
        self.set(name, env, mech, min(self.battle[name][env, mech], getattr(spec, full) * share))

    @rule(env=ENV, mech=MECH, share=st.floats(0.0, 3.0))
    def heat(self, env, mech, share):
        self.set("heat", env, mech, CHASSIS[int(self.battle["chassis"][env, mech])].heat_cap * share)

    @rule(env=ENV, mech=MECH, share=SHARE)
    def unbalance(self, env, mech, share):
        self.set("stability", env, mech, 100.0 * share)

    @rule(env=ENV, mech=MECH, ticks=st.integers(0, 60))
    def fell(self, env, mech, ticks):
        self.set("fallen", env, mech, ticks)

    @rule(env=ENV, mech=MECH, painter=MECH, ticks=st.integers(0, 100))
    def paint(self, env, mech, painter, ticks):
        self.set("painted", env, mech, ticks)
        self.set("painter", env, mech, painter)

    @rule(env=ENV, spread=st.floats(3.0, 18.0))
    def teleport(self, env, spread):
        self.battle.put("pos", free_positions(self.battle, self.rng, env=env, spread=spread), env=env)
        self.battle.put("vel", 0.0, env=env)
        self.checker.store()

    @rule(env=ENV, mech=MECH, height=st.floats(0.0, 12.0))
    def lift(self, env, mech, height):
        scene, half = self.battle, self.checker.half[env, mech]
        at = scene["pos"][env, mech].copy()
        top = scene["size"][env, 2] - half[2]
        at[2] = min(at[2] + height, top)
        gap = np.abs(scene["pos"][env] - at) - (self.checker.half[env] + half)
        gap[mech] = 1.0
        columns = (
            slice(int(at[1] - half[1]), int(at[1] + half[1]) + 1),
            slice(int(at[0] - half[0]), int(at[0] + half[0]) + 1),
        )
        if (gap.max(axis=-1) > 0).all() and not scene["move_plane"][env][columns].any():
            self.set("pos", env, mech, at)

    def set(self, name, env, mech, value):
        self.battle.put(name, value, mech, env)
        self.checker.store()

    @precondition(lambda self: hasattr(self, "checker"))
    @rule(kind=st.sampled_from(KINDS), count=st.integers(1, 6))
    def resume(self, kind, count):
        """A snapshot restored into an engine with other threads has the same future, and so has the original."""
        saved = save_engine_state(self.battle.engine)
        pressed = [self.random_actions.draw(kind).copy() for _ in range(count)]
        futures = []
        for made in (self.battle, self.twin, self.battle):
            load_engine_state(made.engine, saved)
            seen = []
            for actions in pressed:
                made.step(actions)
                seen.append((hashes(made), made["reward"].tobytes(), made.rows.tobytes()))
            futures.append(seen)
        note(f"resumed at {self.battle['decision'].tolist()}")
        for i, (one, two, again) in enumerate(zip(*futures, strict=True)):
            assert one == two, f"another split goes on otherwise from step {i}"
            assert one == again, f"the same engine goes on otherwise from step {i}"
        self.checker.store()


Episodes.TestCase.settings = settings(
    max_examples=16, stateful_step_count=25, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TestEpisodes = Episodes.TestCase


def test_random_actions_have_the_action_width():
    assert battle(1).engine.action_dim == ACTION_DIM
