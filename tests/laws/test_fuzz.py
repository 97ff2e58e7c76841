"""Random games under random actions keep the invariants, or their configuration is rejected with a clear error."""

import ctypes
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import warp as wp
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from echelon.config import EnvConfig, WorldConfig
from echelon.env.engine import Engine
from echelon.gen.bank import stack_maps
from echelon.gen.generate import generate
from echelon.sim.arsenal import Mechanic, Weapon
from echelon.sim.backend import Launch, Program
from echelon.sim.batch import Batch
from tests.laws.configs import KINDS, Game, RandomActions, environments
from tests.laws.free_positions import free_positions
from tests.laws.invariants import InvariantChecker
from tests.sim.flat_field import Scene

STEPS = 100
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
FUZZ = settings(deadline=None, database=None, suppress_health_check=QUIET, print_blob=True)


def bound(batch: Batch, launch: Launch, shard: tuple[int, int]) -> tuple[Any, ...]:
    """Return the compiled function of a launch, its arguments, and the launch that keeps both alive."""
    dims, values = batch.backend.bind(launch, shard)
    command = wp.launch(launch.kernel, dim=dims, inputs=values, device="cpu", record_cmd=True)
    names = [argument.label for argument in launch.kernel.adj.args]
    bounds, *params = command.params
    layout = type(
        "Arguments", (ctypes.Structure,), {"_fields_": [(n, type(p)) for n, p in zip(names, params, strict=True)]}
    )
    arguments = layout(*params)
    return command.hooks.forward, ctypes.byref(bounds), ctypes.byref(arguments), command


def plain_launches(batch: Batch) -> Callable[[Program], Callable[[], None]]:
    """Stand in for ``Batch.capture``: recorded launches, one by one.

    Capturing a decision takes longer than playing a hundred; the other tests of this folder do capture.
    """

    def capture(program: Program) -> Callable[[], None]:
        batch.backend.load(program)
        shard = (0, batch.num_envs)
        commands = [bound(batch, launch, shard) for launch in program]

        def run() -> None:
            for forward, bounds, arguments, _ in commands:
                forward(bounds, arguments)

        return run

    return capture


def disabled_mechanics(seed: int) -> Mechanic:
    """Return the disabled mechanics of a battle: any mixture in a third of the battles, else none."""
    return Mechanic(seed // 3 % 16) if seed % 3 == 0 else Mechanic(0)


@dataclass
class Arena(Scene):
    """One battle on a generated map, every mech observed."""

    cfg: EnvConfig
    map_seed: int
    seed: int
    changes: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cfg = self.cfg
        maps = stack_maps(
            [generate(cfg.world, self.map_seed, num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox)]
        )
        self.engine = Engine(cfg, 1, maps, threads=1, seed=self.seed, autoreset=False, changes=[self.changes])
        self.batch = self.engine.batch
        self.batch.capture = plain_launches(self.batch)  # type: ignore[method-assign,assignment]
        self.rows = np.zeros((1, cfg.num_mechs, self.engine.obs_dim), np.float32)
        self.engine.attach(self.rows, np.zeros_like(self.rows))
        self.batch.set("row_of", np.arange(cfg.num_mechs, dtype=np.int32)[None])
        self.without = disabled_mechanics(self.seed)
        self.batch.disable_mechanics([self.without])
        self.engine.reset()

    def check_without(self) -> None:
        traces = {
            Mechanic.HEAT: self["heat"] > 0, Mechanic.MISSILES: self["round_weapon"] == Weapon.MISSILE,
            Mechanic.EWAR: self["ecm"] + self["eccm"] > 0, Mechanic.PAINT: self["painted"] > 0,
        }  # fmt: skip
        for mechanic, trace in traces.items():
            assert not (mechanic & self.without and trace.any()), mechanic.name

    def play(self, kinds: list[str], steps: int) -> Counter[str]:
        """Play random actions, one kind for a dozen steps each, and check every step; reset finished battles."""
        checker, random_actions = InvariantChecker(self.engine, self.rows[0]), RandomActions(self.cfg, 1, self.seed)
        seen: Counter[str] = Counter()
        for step in range(steps):
            self.batch.set("actions", random_actions.draw(kinds[step // 12 % len(kinds)]))
            self.engine.step()
            checker.check()
            self.check_without()
            seen.update(
                died=int(self["died"].sum()), hits=int(self["was_hit"].sum()), bad=int(self["bad_actions"].sum())
            )
            if self["over"][0]:
                seen["ends"] += 1
                self.engine.reset()
                checker.store()
        return seen


def battle(game: Game, map_seed: int, seed: int, kinds: list[str], close: bool, steps: int = STEPS) -> None:
    """Play one configuration from its spawns or gathered at the zone; a rejected one must name its field."""
    note(f"map_seed={map_seed} seed={seed} kinds={kinds} close={close}")
    try:
        arena = Arena(game.cfg, map_seed, seed, game.changes)
    except ValueError as refused:
        assert "\n" not in str(refused) and "world" in str(refused), f"unclear: {refused}"
        return
    if close:
        gather(arena)
    arena.play(kinds, steps)


def gather(arena: Arena) -> None:
    places = free_positions(arena, np.random.default_rng(arena.seed))
    arena.put("pos", places, env=0)


GAMES = {
    "game": environments(),
    "map_seed": st.integers(0, 2**32 - 1),
    "seed": st.integers(0, 2**30),
    "kinds": st.lists(st.sampled_from(KINDS), min_size=1, max_size=5),
    "close": st.booleans(),
}


@pytest.mark.fuzz
@settings(FUZZ, max_examples=150, derandomize=True)
@given(**GAMES)
def test_random_games_and_actions_keep_the_invariants(game, map_seed, seed, kinds, close):
    battle(game, map_seed, seed, kinds, close)


@pytest.mark.slow
@settings(FUZZ, max_examples=10_000)
@given(**GAMES)
def test_10000_random_games_keep_the_invariants(game, map_seed, seed, kinds, close):
    battle(game, map_seed, seed, kinds, close)


def test_fuzzed_battles_contain_fighting():
    cfg = EnvConfig(world=WorldConfig(size_x=32, size_y=32), max_episode_seconds=20.0)
    seen: Counter[str] = Counter()
    for seed in range(4):
        arena = Arena(cfg, seed, seed)
        gather(arena)
        seen += arena.play(["duel", "broken", "full"], STEPS)
    assert seen["died"] >= 2 and seen["hits"] >= 20 and seen["bad"] > 0 and seen["ends"] >= 1, seen


def test_invariant_checker_detects_each_violation():
    cfg = EnvConfig(world=WorldConfig(size_x=32, size_y=32))
    arena = Arena(cfg, 3, 3)
    checker = InvariantChecker(arena.engine, arena.rows[0], slow_every=1)
    arena.engine.step()
    checker.check()
    harm = {
        "all_numbers_are_finite": ("heat", np.nan), "positions_are_on_the_map": ("pos", 500.0),
        "counters_are_not_negative": ("painted", -1), "hit_points_agree_with_life": ("hp", 1e4),
        "stability_is_a_share_of_its_top": ("stability", 101.0), "damage_taken_is_hit_points_lost": ("took", 5.0),
        "kills_are_deaths_of_the_other_side": ("kills", 1), "dead_mechs_stay_dead": ("died", 1),
        "no_pool_overflows": ("overflow", 1), "damage_is_dealt_by_mechs_or_hazards": ("dealt", 3.0),
        "living_mechs_do_not_overlap": ("pos", arena["pos"][0, 1].tolist()), "shutdown_follows_heat": ("shutdown", 1),
    }  # fmt: skip
    for law, (name, value) in harm.items():
        saved = arena[name].copy()
        arena.put(name, value, 0, 0)
        with pytest.raises(AssertionError, match=law):
            checker.check()
        arena.batch.set(name, saved)
    arena.batch["move_plane"].zero_()
    with pytest.raises(AssertionError, match="planes_and_hit_points"):
        checker.check()
