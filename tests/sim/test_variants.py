"""Environments of one batch may disable mechanics and override parameters."""

from dataclasses import fields

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.config import EnvConfig, WorldConfig
from echelon.env import layout
from echelon.env.engine import Engine
from echelon.env.env import EchelonEnv
from echelon.gen.bank import build_bank_for
from echelon.sim.arsenal import CHASSIS, WEAPONS, Mechanic, Weapon, mechanics_of
from echelon.sim.backend import Backend, Launch
from echelon.sim.overrides import CHASSIS_RANGES, PHYSICS_RANGES, WEAPON_RANGES, apply_overrides
from echelon.sim.physics import PHYSICS
from echelon.sim.state import CLOUDS_PER_MECH, ROUNDS_PER_MECH
from echelon.sim.world import Material
from tests.sim.flat_field import Field5v5
from tests.state_hash import state_hash

SCOUT, LIGHT, MEDIUM, HEAVY = range(4)
PARTS = (0, *(int(part) for part in Mechanic))
CFG = EnvConfig(world=WorldConfig(size_x=48, size_y=48), max_episode_seconds=10.0)
FIXED_COLUMNS = {"weapon", "cooldown", "guidance", "suppresses", "paints", "bursts_smoke", "splash_vox", "voxel_damage",
             "chassis", "size", "sort_rank", "carries", "has_ams", "has_ewar"}  # fmt: skip
"""Columns that shapes, maps, recordings or displays depend on."""


def skirmish(**options) -> Field5v5:
    """Return a field with all mechs in range of each other: a heavy, a medium and a scout against a heavy."""
    field = Field5v5(**options)
    field.place(0, HEAVY, 21, 24)
    field.place(1, MEDIUM, 20, 30)
    field.place(4, SCOUT, 20, 34)
    field.place(5, HEAVY, 27, 30, yaw=np.pi)
    return field


def fired(field: Field5v5, weapon: Weapon) -> list[bool]:
    return (field["fired"] >> int(weapon) & 1).any(axis=1).tolist()


def test_disabled_mechanics_apply_per_environment():
    field = skirmish(envs=5, threads=2)
    field.batch.set("withheld", np.array(PARTS, np.int32))
    for mech in (0, 1, 4):
        field.act(mech, primary=1, secondary=0.4, tertiary=1)
    field.decide()
    field.tick()
    without = dict(zip(("heat", "missiles", "ewar", "paint"), range(1, 5), strict=True))
    assert [bool(row.any()) for row in field["heat"]] == [env != without["heat"] for env in range(5)]
    assert fired(field, Weapon.MISSILE) == [env != without["missiles"] for env in range(5)]
    assert [bool(row.any()) for row in field["ecm"]] == [env != without["ewar"] for env in range(5)]
    assert [bool(row.any()) for row in field["painted"]] == [env != without["paint"] for env in range(5)]
    assert fired(field, Weapon.LASER) == fired(field, Weapon.AUTOCANNON) == [True] * 5


def test_disabled_heat_prevents_shutdown():
    field = Field5v5(envs=2, edit=lambda grid: grid.__setitem__((0, slice(25, 36), slice(15, 30)), 2))
    field.batch.set("withheld", np.array([0, int(Mechanic.HEAT)], np.int32))
    field.place(3, LIGHT, 20, 30)
    field.place(5, HEAVY, 23, 30, yaw=np.pi)
    field.act(3, primary=1, secondary=1)
    field.act(5, primary=1)
    field.run(20)
    assert field["heat"][0].max() > 75 and not field["heat"][1].any()
    assert (field["hp"] < 200).any(axis=1).all(), "lava still damages"


def fleet(cfg: EnvConfig, changes=None, without=(), threads: int = 1, seeds=(3, 4, 5, 6)) -> Engine:
    """Return an engine with a battle of scripted pilots per seed, at its start."""
    bank = build_bank_for(cfg, sorted(set(seeds)))
    engine = Engine(cfg, len(seeds), bank, threads=threads, autoreset=False, changes=changes, pilots=heuristic.install)
    slot = {int(seed): i for i, seed in enumerate(bank.map_seed)}
    engine.batch.set("forced_seed", np.array(seeds, np.int32))
    engine.batch.set("forced_slot", np.array([slot[seed] for seed in seeds], np.int32))
    engine.batch.set("script", np.full(engine.batch.numpy("script").shape, heuristic.script_of("hard"), np.int32))
    if without:
        engine.batch.disable_mechanics([mechanics_of(names) for names in without])
    engine.reset()
    return engine


def hashes(engine: Engine, decisions: int = 24) -> list[str]:
    for _ in range(decisions):
        engine.step()
    return [state_hash(engine.batch, env) for env in range(engine.num_envs)]


CHANGES = ({}, {"laser.damage": 28.0, "heavy.max_speed": 5.0}, {"physics.damping": 0.9}, {"physics.damping": 0.9})
WITHOUT = ((), ("paint",), ("heat", "ewar"), ())


def test_overrides_play_equally_alone_in_batch_and_threaded():
    batched = hashes(fleet(CFG, CHANGES, WITHOUT, threads=1))
    assert hashes(fleet(CFG, CHANGES, WITHOUT, threads=3)) == batched
    for env, seed in enumerate((3, 4, 5, 6)):
        alone = fleet(CFG, CHANGES[env : env + 1], WITHOUT[env : env + 1], seeds=(seed,))
        assert hashes(alone) == batched[env : env + 1]
    stock_tables = hashes(fleet(CFG))
    assert [one == two for one, two in zip(stock_tables, batched, strict=True)] == [True, False, False, False]


def test_disabled_mechanics_change_at_next_episode():
    engine = fleet(CFG, seeds=(3, 4))
    engine.batch.disable_mechanics([Mechanic.HEAT | Mechanic.PAINT, Mechanic(0)])
    engine.step()
    assert engine.batch.numpy("withheld").tolist() == [0, 0]
    engine.reset(mask=np.array([True, False]))
    assert engine.batch.numpy("withheld").tolist() == [9, 0]


def test_overrides_differ_between_neighbours():
    changes = ({}, {"laser.damage": 28.0}, {"medium.max_speed": 11.0}, {"laser.cooldown_s": 0.3, "laser.heat": 0.0})
    field = Field5v5(envs=4, changes=changes)
    field.place(0, MEDIUM, 20, 30)
    field.place(5, HEAVY, 25, 30, yaw=np.pi)
    field.act(0, primary=1)
    field.decide()
    field.tick(7)
    lost = 200 - field["hp"][:, 5]
    shots = np.array([1, 1, 1, 2])
    assert (lost >= 0.5 * 14 * shots * (1, 2, 1, 1)).all() and (lost <= 14 * shots * (1, 2, 1, 1)).all()
    assert field["heat"][3, 0] == 0 < field["heat"][0, 0]
    field.act(0, primary=0, forward=-1)
    field.run(1)
    went = 20 - field["pos"][:, 0, 0]
    np.testing.assert_allclose(went[[1, 2, 3]] / went[0], [1, 2, 1], rtol=1e-4)


def test_shards_split_where_overrides_change():
    cut = Backend(device="cpu", num_envs=8, lengths={}, threads=2, cuts=[0, 3, 5])
    whole = Backend(device="cpu", num_envs=8, lengths={}, threads=2, cuts=[0])
    assert cut.shards == [(0, 3), (3, 4), (4, 5), (5, 8)] and whole.shards == [(0, 4), (4, 8)]
    cut.add_per_group("rules", {0: "a", 3: "b", 5: "c"})
    parameter = type("P", (), {"label": "rules", "type": None})
    launch = Launch(type("K", (), {"key": "k", "adj": type("A", (), {"args": [parameter]})}), "")
    assert [cut.bind(launch, shard)[1] for shard in cut.shards] == [["a"], ["b"], ["b"], ["c"]]
    for one in (cut, whole):
        one.close()


def test_every_table_column_has_range_or_is_fixed():
    columns = {field.name for field in (*fields(CHASSIS[0]), *fields(WEAPONS[0]))}
    assert columns == {*CHASSIS_RANGES, *WEAPON_RANGES, *FIXED_COLUMNS}
    for specs, ranges in ((CHASSIS, CHASSIS_RANGES), (WEAPONS, WEAPON_RANGES)):
        for name, (low, high) in ranges.items():
            for spec in specs:
                value = getattr(spec, name)
                assert low <= value <= high or (name == "speed_vox_s" and value == 0), f"{name} of {spec}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cannon.damage": 1.0}, "parameter 'cannon.damage' does not exist, expected one of: scout, light"),
        ({"laser.colour": 1.0}, "parameter 'laser.colour' does not exist, expected one of: laser.range_vox"),
        ({"laser.damage": -1.0}, "parameter laser.damage is -1.0, expected 0 to 65535"),
        ({"laser.damage": "much"}, "parameter laser.damage is 'much', expected 0"),
        ({"heavy.hp": float("nan")}, "parameter heavy.hp is nan, expected"),
        ({"physics.ams_chance": 2.0}, "parameter physics.ams_chance is 2.0, expected 0 to 1"),
        (
            {"missile.cooldown_s": 0.1},
            rf"rounds in flight of a heavy is \d+, expected at most {ROUNDS_PER_MECH}: shorter",
        ),
        ({"smoke.cooldown_s": 1.0}, rf"smoke clouds of a scout is \d+, expected at most {CLOUDS_PER_MECH}: shorter"),
        ({"physics.quality_min": 2.0}, "quality_min is 2.0, expected at most quality_max"),
        ({"physics.stand_up_stability": 200.0}, "stand_up_stability is 200.0, expected at most max_stability"),
    ],
)
def test_invalid_override_raises_one_line_error(changes, message):
    with pytest.raises(ValueError, match=message):
        apply_overrides(0.05, changes)
    with pytest.raises(ValueError, match=message):
        EchelonEnv(CFG, changes=changes)


def test_unknown_mechanic_raises_one_line_error():
    with pytest.raises(ValueError, match="mechanic 'gravity' does not exist, expected one of: heat, missiles, ewar"):
        EchelonEnv(CFG, without=("gravity",))


def test_environment_keeps_overrides_and_mechanics_over_resets():
    env = EchelonEnv(CFG, without=("heat",), changes={"scout.hp": 90.0})
    for seed in (3, 4):
        env.reset(seed=seed)
        for _ in range(2):
            env.step({aid: np.ones(env.ACTION_DIM, np.float32) for aid in env.agents})
        assert not env.sim.numpy("heat").any() and env.sim.numpy("hp")[0, 4] == 90.0


def random_changes(rng: np.random.Generator, count: int = 12) -> dict[str, float]:
    """Return random valid overrides, a quarter to four times the stock values."""
    rows = [(CHASSIS, CHASSIS_RANGES, "chassis"), (WEAPONS, WEAPON_RANGES, "weapon")]
    named = [
        (f"{getattr(spec, key).name.lower()}.{column}", getattr(spec, column), ends)
        for specs, ranges, key in rows
        for spec in specs
        for column, ends in ranges.items()
    ]
    named += [(f"physics.{name}", getattr(PHYSICS, name), ends) for name, ends in PHYSICS_RANGES.items()]
    while True:
        picked = [named[i] for i in rng.choice(len(named), count, replace=False)]
        changes = {name: float(np.clip(value * rng.choice([0.25, 0.5, 2, 4]), *ends)) for name, value, ends in picked}
        try:
            apply_overrides(0.05, changes)
        except ValueError:
            continue
        return changes


def test_observations_stay_in_bounds_under_overrides():
    rng = np.random.default_rng(1)
    seeds = tuple(range(12))
    engine = fleet(CFG, [random_changes(rng) for _ in seeds], seeds=[seed % 2 for seed in seeds])
    rows = np.zeros((1, len(seeds) * engine.num_mechs, engine.obs_dim), np.float32)
    engine.attach(rows, np.zeros_like(rows))
    engine.batch.set("row_of", np.arange(rows.shape[1], dtype=np.int32).reshape(len(seeds), -1))
    low, high = layout.bounds(CFG)
    hits = 0
    for _ in range(CFG.max_steps):
        engine.step()
        assert (
            (rows[0] >= low - 1e-5).all() and (rows[0] <= high + 1e-5).all() and not engine.batch.numpy("bad_obs").any()
        )
        hits += int(engine.batch.numpy("was_hit").sum())
    assert hits > 20 and not engine.batch.numpy("overflow").any()


def test_point_defence_without_cooldown_shoots_once_per_tick():
    field = Field5v5(physics={"ams_cooldown_s": 0.0, "ams_chance": 0.0})
    field.place(5, HEAVY, 30, 30)
    for shooter in (0, 1):
        field.place(shooter, HEAVY, 10, 10)
    field.put_round(slice(0, 2), Weapon.MISSILE, (27.0, 30.0, 2.0), target=5)
    field.tick()
    assert field["ams_shot"][0, 5].tolist() == [0, 0, int(Weapon.MISSILE), 0], "only the missile of the lowest index"
    assert field["cooldown"][0, 5, 4] == 1


@pytest.mark.parametrize(("dt", "gravity"), [(0.05, 9.81), (0.1, 19.62), (0.25, 9.81), (0.05, 60.0)])
def test_movement_steps_up_and_stands_for_any_clock_and_gravity(dt, gravity):
    def edit(grid: np.ndarray) -> None:
        grid[0, 25:35, 25:] = Material.SOLID
        grid[0, 40:50, 10:20] = Material.DEBRIS_FIELD

    physics = {"gravity_m_s2": gravity}
    field = Field5v5(edit=edit, dt_sim=dt, decision_repeat=1, physics=physics)
    field.place(0, HEAVY, 20, 30)
    field.place(1, MEDIUM, 15, 45, z=2.5)
    field.act(0, forward=1)
    field.run(round(4 / dt))
    lost = field["hp"][0, 1]
    field.run(round(2 / dt))
    assert field["pos"][0, 0, 0] > 27 and field["pos"][0, 0, 2] > 2.9
    assert lost - field["hp"][0, 1] == pytest.approx(2 * PHYSICS.debris_damage_s, rel=0.1)


@pytest.mark.parametrize("own", [False, True])
def test_sensing_own_eccm_switch_aids_emitter(own):
    field = Field5v5(own_eccm=own)
    field.place(4, SCOUT, 20, 30)
    field.place(0, HEAVY, 20, 34)
    field.put("eccm", 1, 4)
    field.sense()
    assert field["aid"][0, 4] == pytest.approx(1.0 if own else 0.0)
    assert field["quality"][0, 0] > 1.5 - 1e-6 and (field["quality"][0, 4] > 1.0) == own
