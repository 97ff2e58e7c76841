"""Observations: frame, bounds, block sizes, masks, rows of dead mechs and final observations."""

import numpy as np
import pytest

from echelon.agents.heuristic import SKILLS, install, script_of
from echelon.config import EnvConfig
from echelon.env import layout
from echelon.env.layout import FLAT_BLOCKS, FLAT_OBS_DIM, OPTIONAL_BLOCKS, flat_offsets
from echelon.env.suites import build_suite_descriptor, get_suite_for_role
from echelon.sim.arsenal import Chassis
from tests.env.battle import Battle
from tests.parity.scenes import clutter, scatter
from tests.sim.flat_field import as_maps

SIDE = 36
TURNED = 48
"""Edge of the rotated map: a multiple of 16, so that telemetry bins map onto each other."""
AT = flat_offsets()


def quarter_turn(grid: np.ndarray) -> np.ndarray:
    """Return a map rotated by 90 degrees, counter-clockwise from above."""
    return grid.transpose(0, 2, 1)[:, :, ::-1]


def turn(v: np.ndarray, around: float = 0.0) -> np.ndarray:
    """Return vectors rotated by 90 degrees about (around, around)."""
    out = v.copy()
    out[..., 0], out[..., 1] = around - (v[..., 1] - around), v[..., 0]
    return out


@pytest.mark.parametrize("obs_layout", ["suite", "classic"])
@pytest.mark.parametrize("mode", ["partial", "full"])
def test_observation_is_invariant_to_quarter_turns(mode, obs_layout):
    grid = np.zeros((20, TURNED, TURNED), np.uint8)
    grid[0] = 6
    clutter(np.random.default_rng(0), 30)(grid)
    grids, zones = [grid], [np.array([14.3, 21.9, 6.0])]
    for _ in range(3):
        grids.append(quarter_turn(grids[-1]))
        zones.append(turn(zones[-1], TURNED / 2))
    battle = Battle(
        envs=4, size=TURNED, obs_layout=obs_layout, observation_mode=mode,
        maps=as_maps(np.stack(grids), zones, np.full((4, 20, 3), 9.0)), own_maps=True, num_packs=2,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    scatter(battle, rng)
    battle.put("hit_dir", rng.uniform(-0.5, 0.5, (4, 20, 3)))
    battle.put("sort_mode", rng.integers(0, 3, (4, 20)))
    for name in set(battle.batch.fields) - {"material", "move_plane", "sight_plane", "shot_plane", "zone", "row_of"}:
        values = battle[name].copy()
        if values.ndim > 1 and values.shape[1] == 20:
            values[1:] = values[0]
            battle.batch.set(name, values)
    battle.batch.set("seed", battle["seed"][[0, 0, 0, 0]])
    battle.batch.set("clouds", battle["clouds"][[0, 0, 0, 0]])
    for k in range(1, 4):
        battle.put("cloud_pos", turn(battle["cloud_pos"][k - 1], TURNED / 2), env=k)
        battle.put("pos", turn(battle["pos"][k - 1], TURNED / 2), env=k)
        battle.put("vel", turn(battle["vel"][k - 1]), env=k)
        battle.put("hit_dir", turn(battle["hit_dir"][k - 1]), env=k)
        battle.put("yaw", battle["yaw"][k - 1] + np.pi / 2, env=k)
    battle.observe()
    names = [row.name for row in layout.columns(battle.cfg)]
    for k in range(1, 4):
        gap = np.abs(battle.obs[k] - battle.obs[0])
        # among paths of equal length the one taken depends on the order of the directions
        changed = {names[c] for c in np.flatnonzero(gap.max(axis=0) > 1e-5) if not names[c].startswith("course.path")}
        assert not changed, f"turned by {90 * k} degrees: {sorted(changed)[:5]}"
    assert np.abs(battle.obs[0]).sum() > 1000


@pytest.mark.parametrize(("weapon", "target", "warns"), [(2, 5, True), (2, 6, False), (6, 5, False), (-1, 5, False)])
def test_missile_inbound_flag_needs_a_homing_hostile_missile(weapon, target, warns):
    battle = Battle()
    battle.put_round(0, weapon, (30.0, 30.0, 5.0), target=target)
    battle.observe()
    names = [row.name for row in layout.columns(battle.cfg)]
    assert bool(battle.obs[0, 5, names.index("ego.missile_inbound")]) == warns


@pytest.mark.parametrize(
    ("obs_layout", "column"), [("suite", "ego.kinetic_cooldown"), ("classic", "self.kinetic_cooldown")]
)
def test_kinetic_cooldown_is_a_share_of_the_longest_on_the_timer(obs_layout, column):
    battle = Battle(obs_layout=obs_layout, changes=[{"autocannon.cooldown_s": 10.0}])
    names = [row.name for row in layout.columns(battle.cfg)]
    for ticks, share in ((200, 1.0), (150, 0.75), (40, 0.2), (0, 0.0)):
        battle.put("cooldown", ticks)
        battle.observe()
        assert battle.obs[0, :, names.index(column)] == pytest.approx(share), f"{ticks} ticks"


def assert_within(battle: Battle) -> None:
    table = layout.columns(battle.cfg)
    low, high = layout.bounds(battle.cfg)
    obs = battle.obs.reshape(-1, len(table))
    assert np.isfinite(obs).all()
    out = np.flatnonzero(((obs < low) | (obs > high)).any(axis=0))
    assert not len(out), [(table[c], obs[:, c].min(), obs[:, c].max()) for c in out[:5]]


@pytest.mark.parametrize("obs_layout", ["suite", "classic"])
@pytest.mark.parametrize("mode", ["partial", "full"])
def test_columns_keep_their_bounds_in_full_battles(mode, obs_layout):
    envs = len(SKILLS) + 1
    battle = Battle(
        envs=envs, size=SIDE, edit=clutter(np.random.default_rng(3)), autoreset=True, pilots=install, num_packs=2,
        observation_mode=mode, max_episode_seconds=10.0, obs_layout=obs_layout,
        **{block.config_field: True for block in OPTIONAL_BLOCKS},
    )  # fmt: skip
    for e, skill in enumerate(SKILLS):
        battle.put("script", script_of(skill), slice(e % 2 * 10, 20), e)
    rng = np.random.default_rng(0)
    episodes = np.zeros(envs, int)
    for decision in range(100):
        if decision % 4 == 0:
            actions = rng.uniform(-1, 1, battle["actions"].shape).astype(np.float32)
        battle.step(actions)
        assert_within(battle)
        assert not battle["bad_obs"].any()
        episodes += battle["over"]
    assert (episodes > 1).all(), episodes


@pytest.mark.parametrize("obs_layout", ["suite", "classic"])
def test_columns_keep_their_bounds_in_extreme_states(obs_layout):
    battle = Battle(
        envs=4, size=SIDE, num_packs=2, observation_mode="full", obs_layout=obs_layout, observe_scope=True,
    )  # fmt: skip
    corners = np.array([[1, 1, 2], [SIDE - 1, SIDE - 1, 18], [1, SIDE - 1, 10], [SIDE - 1, 1, 2]], np.float32)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scatter(battle, rng)
        battle.put("pos", corners[rng.integers(0, 4, (4, 20))])
        battle.put("heat", rng.uniform(0, 900, (4, 20)))
        battle.put("vel", rng.uniform(-40, 40, (4, 20, 3)))
        battle.put("yaw", rng.choice([-2.3562, -0.7854, 0.7854, 2.3562], (4, 20)))
        battle.put("noise", 1000.0)
        battle.batch.set("score", rng.uniform(0, 99, (4, 2)).astype(np.float32))
        battle.observe()
        assert_within(battle)


def test_suite_blocks_have_the_sizes_the_network_expects():
    widths = [block.width for block in layout.SUITE_CORE]
    assert widths == [length for _, length in FLAT_BLOCKS]
    assert sum(widths) == FLAT_OBS_DIM == 706
    cfg = EnvConfig()
    assert layout.obs_dim(cfg) == 706 + 121 + 167 == len(layout.columns(cfg))


@pytest.mark.parametrize(("changes", "tail"), [({}, 121), ({"observe_local_map": False}, 0)])
def test_suite_tail_width_follows_the_configuration(changes, tail):
    battle = Battle(**changes)
    assert battle.obs.shape[-1] == 706 + tail + 167
    assert np.isfinite(battle.obs).all() and battle.obs[..., :706].any()


@pytest.fixture(scope="module")
def battle():
    made = Battle(num_packs=2)
    scatter(made, np.random.default_rng(7), spread=0.5)
    made.put("alive", 0, slice(0, 20, 6))
    made.observe()
    return made


def test_descriptor_columns_are_those_of_the_class_suite(battle):
    low, high = AT["suite_descriptor"]
    for m in np.flatnonzero(battle["alive"][0]):
        spec = get_suite_for_role(Chassis(battle["chassis"][0, m]).name)
        np.testing.assert_allclose(battle.obs[0, m, low:high], build_suite_descriptor(spec), atol=1e-6)


def test_masks_are_zero_exactly_for_filled_rows(battle):
    low, high = AT["contact_mask"]
    mask = battle.obs[0, :, low:high]
    assert np.array_equal(mask, (battle["contact"][0] < 0).astype(np.float32))
    rows = battle.obs[0, :, slice(*AT["contacts"])].reshape(20, 20, 25)
    assert np.array_equal(rows[..., 21] > 0, mask == 0) and not rows[mask == 1].any()
    squad = battle.obs[0, :, slice(*AT["squad"])].reshape(20, 12, 10)
    gone = battle.obs[0, :, slice(*AT["squad_mask"])]
    assert set(np.unique(gone)) == {0.0, 1.0} and not squad[gone == 1].any()


def test_rows_of_dead_mechs_are_zero_and_fully_masked(battle):
    dead = battle["alive"][0] == 0
    assert dead.sum() >= 4
    rows = battle.obs[0, dead].copy()
    for name in ("contact_mask", "squad_mask"):
        assert (rows[:, slice(*AT[name])] == 1).all(), name
        rows[:, slice(*AT[name])] = 0
    assert not rows.any()


def test_mech_without_row_leaves_the_buffer_unchanged(battle):
    rows = battle["row_of"].copy()
    battle.put("row_of", -1, 3)
    battle.rows[:, 3] = 5.0
    battle.observe()
    assert (battle.rows[0, 3] == 5.0).all()
    battle.batch.set("row_of", rows)


def test_truncated_episode_delivers_its_final_observation():
    options = {"size": SIDE, "pilots": install, "max_episode_seconds": 2.0, "envs": 2}
    ends, goes_on = Battle(autoreset=True, **options), Battle(autoreset=False, **options)
    for made in (ends, goes_on):
        made.batch["script"].fill_(script_of("trivial"))
        for _ in range(8):
            made.step()
    assert ends["timed_out"].all() and ends["decision"].tolist() == [0, 0]
    assert np.array_equal(ends.final_obs, goes_on.obs)
    assert not np.array_equal(ends.obs, goes_on.obs)
