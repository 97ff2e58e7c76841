"""Movement, weapons and rounds against the plain-Python rules, on random battles."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import combat as rules
from tests.oracles import rounds, world
from tests.oracles import sensing as sense
from tests.oracles import shared as o
from tests.parity.scenes import assert_same, cluttered_field, phase, scatter, snapshots
from tests.sim.flat_field import Field5v5

CONDITION = ("hp", "leg_hp", "heat", "stability", "suppressed", "painted", "painter", "shutdown", "alive", "killer",
             "was_hit", "took", "dealt", "dealt_friendly", "kills", "assists", "assist_tick", "hit_dir", "died",
             "shutdowns", "shutdown_due", "hazard")  # fmt: skip
COUNTERS = ("took", "dealt", "dealt_friendly", "kills", "assists", "was_hit", "fired", "hit_dir", "died", "dying",
           "shutdowns", "intercepts", "overflow")  # fmt: skip


@pytest.fixture(scope="module")
def field():
    made = cluttered_field(3, envs=16, num_packs=2, size=24)
    yield made
    made.batch.close()


@pytest.fixture
def battle(field, request):
    """The field after a reset, with its mechs scattered."""
    field.play("reset", list)
    scatter(field, np.random.default_rng(request.param), spread=0.6)
    for name in COUNTERS:
        field.batch[name].zero_()
    return field


def settled(scene, rng: np.random.Generator) -> None:
    """Lift every mech out of walls and others, so that most can move."""
    for s_env in range(scene.batch.num_envs):
        s = snapshots(scene)[s_env]
        for m in range(o.count(s)):
            half = o.MECHS[s.chassis[m]].half
            for _ in range(60):
                if world.box_free(s, s.pos[m], half) and world.others_free(s, m, s.pos[m] + 99, s.pos[m]):
                    break
                s.pos[m] = np.append(rng.uniform(2, s.size[0] - 2, 2), half[2] + rng.integers(0, 3) + 0.01)
        scene.put("pos", s.pos, env=s_env)


@pytest.mark.parametrize("battle", [0, 1], indirect=True)
def test_movement_matches_oracle(battle):
    settled(battle, np.random.default_rng(9))
    battle.put("shutdown_due", np.random.default_rng(1).integers(0, 2, battle["shutdown"].shape))
    assert (battle["shutdown"] & battle["shutdown_due"]).sum() > 10, "hits of this tick shut no mech down"
    climbed = 0
    for tick in range(12):
        battle.batch.set("tick", np.full(16, tick, np.int32))
        wanted, before = snapshots(battle), battle["pos"].copy()
        for s in wanted:
            world.move_all(s)
        battle.play("movement", lambda: phase("movement"))
        assert_same(battle, wanted, "order", "yaw", "vel", "pos", "noise", "landing_speed")
        climbed += ((battle["pos"] - before)[..., 2] > 1).sum()
    assert climbed > 3


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


@pytest.mark.parametrize("battle", range(4), indirect=True)
def test_weapons_phase_matches_oracle(battle):
    battle.put("hp", 5.0, slice(0, 40, 3))
    battle.put("ecm", 0, slice(0, 40, 2))
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
        assert (battle["fired"] >> weapon & 1).sum() > 0, f"weapon {weapon} was never fired"


def assert_same_rounds(scene, wanted, *names: str) -> None:
    """Compare the rounds in flight."""
    for e, s in enumerate(wanted):
        flying = s.round_weapon >= 0
        for name in names:
            np.testing.assert_allclose(scene[name][e][flying], getattr(s, name)[flying], atol=3e-5, err_msg=name)


def with_rounds(scene, rng: np.random.Generator) -> None:
    """Add rounds of every weapon, many of them about to strike a hostile, some about to expire."""
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
    scene.put("round_age", np.where(rng.random(shape) < 0.85, rng.integers(0, 8, shape), life))
    scene.put("round_target", target)
    scene.put("round_weapon", np.where(rng.random(shape) < 0.7, weapon, -1))


@pytest.mark.parametrize("battle", range(4), indirect=True)
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
    assert battle["intercepts"].sum() > 5 and battle["dealt_friendly"].sum() > 100
    assert ((battle["cloud_ticks"] > 0) & ~had).sum() > 5 and battle["kills"].sum() > 5
    assert not battle["overflow"].any()


@pytest.mark.parametrize(("low", "high", "sees"), [(20.5, 25.5, False), (25.5, 20.5, True)])
def test_sight_is_cast_from_lower_index(low, high, sees):
    """A diagonal passes beside a lone block on one side or the other, depending on where it is cast from."""

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
    field.batch.close()
