"""Movement, weapons and rounds against the plain-Python rules, on random battles."""

import numpy as np
import pytest

from tests.oracles import combat as rules
from tests.oracles import rounds, world
from tests.oracles import sensing as sense
from tests.oracles import shared as o
from tests.parity.scenes import assert_same, clear, cluttered_field, many_lanes, phase, scatter, snapshots
from tests.sim.flat_field import Field5v5

CONDITION = ("hp", "leg_hp", "heat", "stability", "suppressed", "painted", "painter", "shutdown", "alive", "killer",
             "was_hit", "took", "dealt", "dealt_friendly", "kills", "assists", "assist_tick", "hit_dir", "died",
             "shutdowns", "shutdown_due", "hazard")  # fmt: skip
CLEARED = ("was_hit", "fired", "hit_dir", "died", "dying", "overflow")
COUNTERS = ("took", "dealt", "dealt_friendly", "kills", "assists", "shutdowns", "intercepts")


@pytest.fixture(scope="module")
def field():
    with many_lanes():
        made = cluttered_field(3, envs=16, num_packs=2, size=24, ruins=6)
    return made


@pytest.fixture
def battle(field, request):
    """The field after a reset, with its mechs scattered, some of them killed, and events of earlier phases."""
    rng = np.random.default_rng(request.param)
    field.play("reset", list)
    scatter(field, rng, spread=0.6)
    clear(field, *CLEARED)
    shape = field["alive"].shape
    for name in COUNTERS:
        field.put(name, rng.integers(0, 4, shape))
    field.put("killer", np.where(field["alive"] == 0, rng.integers(-1, shape[1], shape), -1))
    field.counted = {name: field[name].copy() for name in COUNTERS}
    return field


def gained(scene, name: str) -> float:
    return float((scene[name] - scene.counted[name]).sum())


def settled(scene, rng: np.random.Generator) -> None:
    """Lift every mech out of walls and others, so that most can move; faces of some lie on those of voxels."""
    pos = scene["pos"].copy()
    half = np.array([mech.half for mech in o.MECHS])[scene["chassis"]]
    on_faces = np.round(pos - half) + half
    scene.put("pos", np.where(rng.random((*pos.shape[:2], 1)) < 0.3, on_faces, pos))
    for s_env in range(scene.batch.num_envs):
        s = snapshots(scene)[s_env]
        for m in range(o.count(s)):
            half = o.MECHS[s.chassis[m]].half
            for _ in range(60):
                if world.box_free(s, s.pos[m], half) and world.others_free(s, m, s.pos[m] + 99, s.pos[m]):
                    break
                s.pos[m] = np.append(rng.uniform(0, s.size[0], 2), half[2] + rng.integers(0, 3) + 0.01)
                if rng.random() < 0.3:
                    s.pos[m] = np.round(s.pos[m] - half) + half
                s.pos[m] = world.bounded(s, s.pos[m], half)
        scene.put("pos", s.pos, env=s_env)


def crowd(scene, rng: np.random.Generator) -> None:
    """Push some mechs into others, some under the ceiling, and let some fallen ones rise in the next tick."""
    envs, mechs = scene["alive"].shape
    half = np.array([mech.half for mech in o.MECHS])[scene["chassis"]]
    pos = scene["pos"].copy()
    pos[:, 1::4] = pos[:, ::4] + rng.uniform(-1, 1, (envs, mechs // 4, 3))
    pos[:, 2, 2] = 19.9 - half[:, 2, 2]
    scene.put("pos", np.clip(pos, half, scene["size"][:, None] - half))
    scene.put("vel", rng.uniform(1, 8, (envs, 3)), 2)
    scene.put("fallen", 1, slice(3, mechs, 4), env=slice(0, envs, 2))


@pytest.mark.parametrize(("battle", "spread"), [(0, False), (1, True)], indirect=["battle"])
def test_movement_matches_oracle(battle, spread):
    rng = np.random.default_rng(9)
    settled(battle, rng)
    crowd(battle, rng)
    battle.put("shutdown_due", np.random.default_rng(1).integers(0, 2, battle["shutdown"].shape))
    assert (battle["shutdown"] & battle["shutdown_due"]).sum() > 10, "hits of this tick shut no mech down"
    assert move_and_compare(battle, 12, spread=spread) > 3


def move_and_compare(scene, ticks: int, *, spread: bool = False) -> int:
    """Compare some ticks of the movement phase with the oracle; return how often a mech climbed."""
    name = f"movement, spread {spread}"
    climbed = 0
    for tick in range(ticks):
        scene.batch.set("tick", np.full(scene.batch.num_envs, tick, np.int32))
        wanted, before = snapshots(scene), scene["pos"].copy()
        for s in wanted:
            world.move_all(s)
        scene.play(name, lambda: phase("movement", spread=spread))
        assert_same(scene, wanted, "order", "yaw", "vel", "pos", "noise", "landing_speed")
        climbed += ((scene["pos"] - before)[..., 2] > 1).sum()
    return int(climbed)


def test_movement_matches_oracle_with_slow_clock_and_high_gravity(monkeypatch):
    monkeypatch.setattr(o, "DT", 0.1)
    monkeypatch.setattr(o, "GRAVITY", 19.62)
    physics = {"gravity_m_s2": 19.62}
    field = cluttered_field(4, envs=6, num_packs=1, size=24, boxes=40, dt_sim=0.1, decision_repeat=2, physics=physics)
    rng = np.random.default_rng(2)
    scatter(field, rng, air=0.0)
    settled(field, rng)
    field.put("vel", field["vel"] * [1, 1, 0])
    assert move_and_compare(field, 12) > 3


@pytest.mark.parametrize("battle", [2], indirect=True)
def test_landings_match_oracle(battle):
    settled(battle, np.random.default_rng(5))
    battle.put("vel", battle["vel"] - [0, 0, 12])
    battle.put("hp", 3.0, slice(0, 40, 3))
    wanted = snapshots(battle)
    for s in wanted:
        world.move_all(s)
        world.land_all(s)
    battle.play("falls", lambda: phase("movement", landing=True))
    assert_same(
        battle, wanted, "landing_speed", "stability", "hp", "took", "alive", "died", "killer", "hazard", "material"
    )
    assert battle["died"].sum() > 3 and (battle["stability"] == 0).sum() > 20


@pytest.mark.parametrize("battle", [3], indirect=True)
def test_landing_shock_matches_oracle_at_limits(battle):
    shape = battle["alive"].shape
    rng = np.random.default_rng(7)
    battle.put("landing_speed", rng.choice([0, 2, 6, 6.5, 8, 20], shape))
    battle.put("hp", rng.choice([0.5, 1, 2, 3, 14, 50], shape))
    battle.put("fallen", rng.integers(0, 3, shape))
    wanted = snapshots(battle)
    for s in wanted:
        world.land_all(s)
    battle.play("landing", lambda: phase("movement", landing=True)[1:])
    assert_same(battle, wanted, "stability", "hp", "took", "alive", "died", "hazard", "material")
    assert ((battle["died"] == 1) & (battle["hp"] == 0)).any()


def readied(scene, m: int, target: int, chassis: int, trigger: int, *places) -> None:
    """Let a mech hold a trigger and focus on a target, each at its place."""
    for name, value in (("chassis", chassis), ("trigger", trigger), ("focus", target), ("yaw", 0), ("heat", 0),
                        ("shutdown", 0), ("fallen", 0), ("cooldown", 0)):  # fmt: skip
        scene.put(name, value, m)
    scene.put("alive", 1, [m, target])
    scene.put("pos", places, [m, target])


@pytest.mark.parametrize("battle", range(2), indirect=True)
def test_weapons_phase_matches_oracle(battle):
    rng = np.random.default_rng(6)
    few = rng.choice([5.0, 7.0, 14.0], battle["hp"].shape)
    battle.put("hp", np.where(rng.random(few.shape) < 0.4, few, battle["hp"]))
    battle.put("ecm", 0, slice(0, 40, 2))
    battle.put("pos", battle["pos"][:, 0] + [0, 0, 3.5], 10)
    readied(battle, 3, 13, o.SCOUT, 1 << o.SPECIAL, (2, 2, 3), (22, 22, 3))
    readied(battle, 5, 15, o.LIGHT, 1 << o.PRIMARY, (12, 12, 10), (15, 12, 10))
    now = np.repeat(battle["tick"][:, None], few.shape[1], axis=1)
    battle.put("assist_tick", np.where(rng.random(few.shape) < 0.3, now, battle["assist_tick"]))
    battle.batch.set("splash", rng.uniform(1, 9, battle["splash"].shape).astype(np.float32))
    wanted = snapshots(battle)
    for s in wanted:
        launches = [m for m in range(20) if s.chassis[m] == o.HEAVY and s.trigger[m] & 2]
        s.quality[launches] = [sense.quality(s, m)[0] for m in launches]
        rules.apply_hits(s, rules.weapons_phase(s))
        world.stamp_wrecks(s)
    battle.play("weapons", lambda: phase("weapons"))
    assert_same(battle, wanted, "quality", "cooldown", "fired", "round_weapon", *CONDITION, "dying")
    assert_same_rounds(battle, wanted, "round_pos", "round_vel", "round_age", "round_target")
    assert_same(battle, wanted, "material", "voxel_hp")
    assert battle["died"].sum() > 0 and not battle["overflow"].any()
    assert (battle["shutdown_due"] < battle["shutdown"]).any(), "own fire shuts no mech down"
    for weapon in o.GUNS:
        fired = (battle["fired"] >> weapon & 1).sum()
        assert fired > 0, f"weapon {weapon} was never fired: ready a mech that carries it, by a line readied(...) above"


def assert_same_rounds(scene, wanted, *names: str) -> None:
    for e, s in enumerate(wanted):
        flying = s.round_weapon >= 0
        for name in names:
            np.testing.assert_allclose(scene[name][e][flying], getattr(s, name)[flying], atol=3e-5, err_msg=name)


def with_rounds(scene, rng: np.random.Generator) -> None:
    """Add rounds of every weapon, many of them about to strike a hostile, some in their last tick or expiring."""
    shape = scene["round_weapon"].shape
    side = scene["team"][:, :, None]
    target = rng.integers(0, shape[1] // 2, shape) + (1 - side) * (shape[1] // 2)
    weapon = rng.choice(sorted(w for w, gun in o.GUNS.items() if gun.speed) + sorted(o.HOMING), shape)
    smokes = np.isin(weapon, list(o.SMOKES))
    room = (scene["cloud_ticks"] == 0).sum(axis=-1, keepdims=True)
    weapon = np.where(smokes & (np.cumsum(smokes, axis=-1) > room), o.GAUSS, weapon)
    pos = rng.uniform(0.5, 23.5, (*shape, 3))
    pos[..., 2] = rng.uniform(0.2, 4, shape)
    aim = np.stack([scene["pos"][e][target[e]] for e in range(shape[0])]) - pos
    aim[..., 2] += rng.uniform(-1.5, 1.5, shape)
    near = rng.random(shape) < 0.5
    far = np.linalg.norm(aim, axis=-1, keepdims=True)
    pos = np.where(near[..., None], pos + aim * (1 - rng.uniform(0, 2.2, far.shape) / far), pos)
    speed, life = (np.array([getattr(gun, name) for gun in o.GUNS.values()])[weapon] for name in ("speed", "life"))
    scene.put("round_pos", pos)
    scene.put("round_vel", aim / far * speed[..., None])
    scene.put(
        "round_age", np.where(rng.random(shape) < 0.85, rng.integers(0, 8, shape), life - np.arange(shape[2]) % 2)
    )
    scene.put("round_target", target)
    scene.put("round_weapon", np.where(rng.random(shape) < 0.7, weapon, -1))


@pytest.mark.parametrize("battle", range(2), indirect=True)
def test_projectile_phase_matches_oracle(battle):
    rng = np.random.default_rng(8)
    with_rounds(battle, rng)
    battle.put("cloud_ticks", 0, slice(None), slice(0, 16, 2))
    battle.put("hp", 5.0, slice(0, 40, 3))
    thin = np.where((battle["voxel_hp"] > 8) & (rng.random(battle["voxel_hp"].shape) < 0.5), 9, battle["voxel_hp"])
    battle.batch.set("voxel_hp", np.where(battle["material"] == o.REINFORCED, 1000, thin).astype(np.uint16))
    battle.batch.set("clouds", (battle["cloud_ticks"] > 0).sum(axis=(1, 2)).astype(np.int32))
    wanted = snapshots(battle)
    for s in wanted:
        rounds.rounds_phase(s)
    before, had = battle["material"].copy(), battle["cloud_ticks"] > 0
    battle.play("projectiles", lambda: phase("projectiles"))
    assert_same(battle, wanted, "round_weapon", "intercepts", "cooldown", *CONDITION, "dying", "material", "voxel_hp")
    assert_same(battle, wanted, "cloud_ticks", "clouds")
    assert_same_rounds(battle, wanted, "round_pos", "round_vel", "round_age")
    for e, s in enumerate(wanted):
        smoke = s.cloud_ticks > 0
        np.testing.assert_allclose(battle["cloud_pos"][e][smoke], s.cloud_pos[smoke], atol=3e-5)
        for name, blocks in (("move_plane", o.MOVES), ("sight_plane", o.SIGHT), ("shot_plane", o.SHOTS)):
            wanted_bits = blocks[s.material] * (np.uint64(1) << np.arange(20, dtype=np.uint64))[:, None, None]
            assert np.array_equal(battle[name][e], wanted_bits.sum(axis=0)), name
    assert battle["was_hit"].sum() > 20 and (battle["material"] != before).sum() > 10
    assert gained(battle, "intercepts") > 5 and gained(battle, "dealt_friendly") > 100
    assert ((battle["cloud_ticks"] > 0) & ~had).sum() > 5 and gained(battle, "kills") > 5
    assert not battle["overflow"].any()


def test_explosions_match_oracle_at_limits():

    def edit(grid: np.ndarray) -> None:
        grid[0:4, 20:30, 41] = o.GLASS

    field = Field5v5(envs=2, edit=edit)
    for mech, x, y, env in ((5, 20, 20, 0), (6, 22.5, 20, 0), (7, 40, 25, 0), (8, 42, 25, 0),
                            (5, 20, 20, 1), (6, 22, 20, 1), (7, 40, 40, 1)):  # fmt: skip
        field.place(mech, o.MEDIUM, x, y, z=2.0, env=env)
    field.put("hp", 10.0, 7, env=1)
    field.put("cloud_ticks", [5, 0, 0][: field["cloud_ticks"].shape[2]], 2, env=1)
    field.batch.set("clouds", np.array([0, 1], np.int32))
    field.put_round(0, o.MISSILE, (20, 20, 2), (12, 0, 0), target=5, env=0)
    field.put_round(1, o.MISSILE, (40, 25, 2), (12, 0, 0), target=7, env=0)
    field.put_round(2, o.SMOKE, (30, 50, 20.1), (0, 1, 15))
    field.put_round(3, o.AUTOCANNON, (21, 20, 2), (0, 25, 0), env=1)
    for shooter in (0, 1):
        field.put_round(shooter, o.GAUSS, (39, 40, 2), (40, 0, 0), env=1)
    wanted = snapshots(field)
    for s in wanted:
        rounds.rounds_phase(s)
    field.play("projectiles", lambda: phase("projectiles"))
    assert_same(field, wanted, "round_weapon", *CONDITION, "cloud_ticks", "cloud_pos", "clouds")
    assert field["hp"][0, [6, 8]].tolist() == [130, 130] and field["hp"][1, [5, 6]].tolist() == [142, 150]
    assert field["killer"][1, 7] == 0


@pytest.mark.parametrize(("low", "high", "sees"), [(20.5, 25.5, False), (25.5, 20.5, True)])
def test_sight_is_cast_from_lower_index(low, high, sees):

    def edit(grid: np.ndarray) -> None:
        grid[0:3, 23, 22] = o.SOLID

    field = Field5v5(edit=edit)
    field.place(0, o.MEDIUM, low, low, yaw=np.pi / 4 if low < high else -3 * np.pi / 4)
    field.place(5, o.MEDIUM, high, high, yaw=np.pi / 4 if high < low else -3 * np.pi / 4)
    field.put("trigger", 1)
    field.sense()
    field.play("weapons", lambda: phase("weapons"))
    assert field["sight"][0, 0, 5] == field["sight"][0, 5, 0] == sees
    assert (field["hp"][0, [0, 5]] < 150).tolist() == [sees, sees]
