"""The classic layout: every column against the reference, the telemetry map, and non-finite entries."""

import numpy as np
import pytest

from echelon.agents.heuristic import install, script_of
from echelon.config import EnvConfig, WorldConfig
from echelon.env import layout
from echelon.sim.arsenal import Cooldown
from tests.env.battle import Battle
from tests.oracles import classic as rules
from tests.oracles.shared import AIR, MISSILE, MOVES, SOLID
from tests.parity.scenes import clear, clutter, scatter, snapshot, snapshots, stir

CLASSIC = EnvConfig(obs_layout="classic")


def column(battle: Battle, name: str) -> int:
    return [row.name for row in layout.columns(battle.cfg)].index(name)


@pytest.fixture(scope="module", params=["partial", "full"])
def battle(request):
    made = Battle(
        envs=6, world=WorldConfig(size_x=45, size_y=34), edit=clutter(np.random.default_rng(6), 35), own_maps=True,
        num_packs=2, obs_layout="classic", observe_target=True, observation_mode=request.param,
    )  # fmt: skip
    rng = np.random.default_rng(12)
    scatter(made, rng)
    stir(made, rng)
    made.put("focus_slot", rng.integers(-1, 5, made["alive"].shape))
    clear(made, "quality", "jam", "sight", "visible", "contact")
    made.rows[:] = -7.0
    made.observe()
    made.expected = snapshots(made)
    return made


def test_classic_layout_has_the_fixed_block_widths():
    widths = [block.width for block in layout.blocks(CLASSIC)]
    assert widths == [125, 121, 256, 4, 4, 39] and sum(widths) == 549 == layout.obs_dim(CLASSIC)


def test_classic_layout_width_does_not_depend_on_the_teams():
    battle = Battle(obs_layout="classic", num_packs=2)
    assert battle.obs.shape[-1] == 549 == layout.obs_dim(battle.cfg)


def test_classic_columns_match_the_reference_implementation(battle):
    names = [row.name for row in layout.columns(battle.cfg)]
    assert len(names) == 555
    for e, s in enumerate(battle.expected):
        expected = np.stack([rules.row(s, m, echo=True) for m in range(20)])
        gap = np.abs(battle.obs[e] - expected)
        m, at = np.unravel_index(gap.argmax(), gap.shape)
        assert gap.max() < 1e-5, (
            f"mech {m} of environment {e}: {names[at]} is {battle.obs[e, m, at]}, not {expected[m, at]}"
        )


def test_classic_scenes_vary_every_column(battle):
    # checks the test above: a column that never changes would be compared with nothing
    table, seen = layout.columns(battle.cfg), battle.obs.reshape(-1, 555)
    idle = {row.name for row in table if np.ptp(seen[:, row.index]) == 0}
    bins = {name for name in idle if name.startswith("telemetry")}
    rare = {f"contacts[{k}].friendly" for k in (3, 4)}
    assert idle - rare - bins == {f"contacts[{k}].neutral" for k in range(5)}
    assert len(bins) < 16, "these maps have too few obstacles"


def test_classic_contact_slots_follow_quotas_order_and_filter(battle):
    for e, s in enumerate(battle.expected):
        for m in range(20):
            expected = rules.contacts(s, m, seen=lambda s, m, j: s.visible[m, j])
            assert battle["contact"][e, m].tolist() == expected + [-1] * (20 - len(expected)), (
                f"mech {m} of environment {e}"
            )


def test_classic_layout_gives_every_class_the_same_radar(battle):
    if battle.cfg.observation_mode == "full":
        pytest.skip("every mech is visible")
    for e, s in enumerate(battle.expected):
        expected = np.array([[rules.visible(s, m, j) for j in range(20)] for m in range(20)])
        assert np.array_equal(battle["visible"][e].astype(bool), expected), f"environment {e}"


def test_classic_rows_of_dead_mechs_are_zero(battle):
    dead = battle["alive"] == 0
    assert dead.sum() > 10 and not battle.obs[dead].any()


def test_shutdown_hides_own_velocity_and_ewar():
    battle = Battle(obs_layout="classic")
    for name, value in (("vel", 3.0), ("heat", 500.0), ("shutdown", 1), ("ecm", 1), ("eccm", 1)):
        battle.put(name, value)
    battle.observe()
    at = column(battle, "self.vel_ahead")
    assert not battle.obs[..., at : at + 3].any()
    assert not battle.obs[..., column(battle, "self.ecm") : column(battle, "self.eccm") + 1].any()
    assert (battle.obs[..., column(battle, "self.shutdown")] == 1).all()


@pytest.mark.parametrize(("cooldown_s", "ticks", "shown"), [(0.0, 0, 0.0), (1.0, 0, 0.0), (1.0, 5, 0.25)])
def test_ams_cooldown_is_a_share_of_the_configured_one(cooldown_s, ticks, shown):
    battle = Battle(obs_layout="classic", changes=[{"physics.ams_cooldown_s": cooldown_s}])
    timers = battle["cooldown"].copy()
    timers[..., Cooldown.AMS] = ticks
    battle.batch.set("cooldown", timers)
    battle.observe()
    assert (battle.obs[..., column(battle, "self.ams_cooldown")] == shown).all() and not battle["bad_obs"].any()


def pillars(grid: np.ndarray) -> None:
    grid[0:6, 1::5, 1::5] = 7
    grid[0:3, 2::9, 3::9] = SOLID


def test_telemetry_map_is_built_once_per_episode_and_updated_where_voxels_change():
    battle = Battle(
        envs=3, size=45, edit=pillars, obs_layout="classic", pilots=install, autoreset=True, max_episode_seconds=10.0
    )
    battle.batch["script"].fill_(script_of("hard"))
    seen, gone, came = battle["telemetry"].copy(), 0, 0
    for _ in range(85):
        battle.step()
        now = battle["telemetry"].copy()
        same = ~battle["over"].astype(bool)[:, None]
        gone, came = gone + ((seen > now) & same).sum(), came + ((seen < now) & same).sum()
        seen = now
        for e in range(3):
            assert np.array_equal(now[e].reshape(16, 16), rules.telemetry(snapshot(battle, e))), f"environment {e}"
    assert battle["surveys"].tolist() == battle["episode"].tolist() and battle["episode"].min() > 1
    assert came > 0, "no wreck fell into a free bin"


def test_telemetry_bin_clears_when_its_only_wall_is_destroyed():
    def wall(grid: np.ndarray) -> None:
        grid[0:4, 30, 30] = 7

    battle = Battle(size=60, edit=wall, obs_layout="classic")
    at = 30 * 16 // 60 * 17
    assert battle["telemetry"][0, at] == 1 and battle["telemetry"].sum() == 1
    for shot in range(12):
        battle.put_round(0, MISSILE, (29.2, 30.5, 0.5 + shot % 4), (12.0, 0.0, 0.0))
        battle.step()
    assert (battle["material"][0, 1:4, 30, 30] == AIR).all() and not MOVES[battle["material"][0, :, 30, 30]].any()
    assert not battle["telemetry"].any() and battle["surveys"].tolist() == [1]


@pytest.mark.parametrize("layout", ["suite", "classic"])
def test_nonfinite_observation_entries_become_zero_and_are_counted(layout):
    battle = Battle(obs_layout=layout)
    battle.observe()
    whole = battle.obs.copy()
    assert not battle["bad_obs"].any()
    battle.put("stability", np.nan, 2)
    battle.observe()
    np.testing.assert_array_equal(battle.obs[0, 2], whole[0, 2], "its stability risk is 0 again")
    assert battle["bad_obs"][0].tolist() == [0, 0, 1, *[0] * 7] and np.isfinite(battle.obs).all()
