"""Optional blocks of the suite layout: telemetry map, acoustic scope, chosen target."""

from math import atan2, log, pi

import numpy as np
import pytest

from echelon.config import DisplayConfig, EnvConfig
from echelon.env import layout
from tests.env.battle import Battle
from tests.env.display_scenes import next_decision
from tests.oracles import classic
from tests.oracles import sensing as sense
from tests.oracles.shared import count, living, wrap
from tests.parity.scenes import clutter, scatter, snapshot, stir

EXTRAS = {block.config_field: True for block in layout.OPTIONAL_BLOCKS}
CFG = EnvConfig(**EXTRAS)
MECHS = 20


def block(battle: Battle, name: str) -> np.ndarray:
    """Return the columns of a block ``[E, M, width]``."""
    parts = layout.blocks(battle.cfg)
    at = layout.offset(name, parts)
    return battle.obs[..., at : at + next(part.width for part in parts if part.name == name)]


def sectors(s, m: int) -> list[float]:
    """Return the acoustic levels ahead, right, behind and left of m."""
    sums = [0.0] * 4
    for j in [j for j in living(s) if j != m and s.alive[m] and s.noise[j] > 0]:
        d = s.pos[j].astype(float) - s.pos[m]
        bearing = wrap(atan2(d[1], d[0]) - s.yaw[m])
        sector = 0 if abs(bearing) <= pi / 4 else 2 if abs(bearing) >= 3 * pi / 4 else 3 if bearing > 0 else 1
        sums[sector] += s.noise[j] / (1 + d @ d) * (1.0 if sense.sees(s, m, j) else 0.20)
    return [min(1.0, log(1 + x) / log(1 + 13.75 * (count(s) - 1))) for x in sums]


def field(**options) -> Battle:
    edit = clutter(np.random.default_rng(3))
    return Battle(envs=4, num_packs=2, size=40, own_maps=True, edit=edit, **{**EXTRAS, **options})


def toss(battle: Battle, seed: int) -> None:
    """Scatter all mechs one step later; some are loud enough to be heard far away."""
    rng, decision = np.random.default_rng(seed), battle["decision"].copy()
    scatter(battle, rng)
    stir(battle, rng)
    noise = battle["noise"] * np.where(rng.random(battle["noise"].shape) < 0.2, 500.0, 1.0)
    battle.batch.set("noise", noise.astype(np.float32))
    battle.batch.set("decision", decision + 1)
    battle.observe()


@pytest.fixture(scope="module")
def battle():
    made = field()
    toss(made, 1)
    made.first = [[sectors(s, m) for m in range(MECHS)] for s in (snapshot(made, e) for e in range(4))]
    toss(made, 2)
    return made


def test_scope_shows_sector_levels_and_their_changes(battle):
    shown = block(battle, "scope")
    for e in range(4):
        s = snapshot(battle, e)
        for m in range(MECHS):
            now = np.array(sectors(s, m))
            change = s.alive[m] * (now - battle.first[e][m])
            np.testing.assert_allclose(shown[e, m], [*now, *change], atol=1e-5, err_msg=f"mech {m} of {e}")
    assert (np.abs(shown) > 0.05).any(axis=(0, 1)).all() and np.ptp(shown[..., 4:]) > 0.1


def test_observing_twice_in_a_step_changes_nothing(battle):
    before = battle.rows.copy()
    battle.observe()
    assert np.array_equal(battle.rows, before)


def test_scope_change_is_negative_once_when_noise_stops(battle):
    battle.put("noise", 0.0)
    heard = block(battle, "scope")[..., :4].copy()
    next_decision(battle)
    battle.observe()
    np.testing.assert_allclose(block(battle, "scope"), np.concatenate([0 * heard, -heard], axis=-1) + 0.0, atol=1e-6)
    next_decision(battle)
    battle.observe()
    assert not block(battle, "scope").any()


def test_scope_changes_are_zero_at_episode_start():
    made = field()
    toss(made, 5)
    made.engine.reset()
    made.put("noise", 300.0)
    made.observe()
    assert block(made, "scope")[..., :4].any() and not block(made, "scope")[..., 4:].any()


def test_optional_blocks_match_the_classic_layout(battle):
    for e in range(4):
        s = snapshot(battle, e)
        for m in range(MECHS):
            expected = s.alive[m] * np.ravel(classic.turned(classic.telemetry(s), s.yaw[m]))
            assert np.array_equal(block(battle, "telemetry")[e, m], expected), f"mech {m} of {e}"
            assert block(battle, "target")[e, m].tolist() == [s.alive[m] * x for x in classic.target(s, m)]
    assert 0.02 < block(battle, "telemetry").mean() < 0.98


def test_scope_ablation_changes_no_other_block():
    whole, without = field(), field(display=DisplayConfig(scope=False))
    for made in (whole, without):
        toss(made, 1)
        toss(made, 2)
    for name in ("telemetry", "target", "contacts", "local_map"):
        assert np.array_equal(block(whole, name), block(without, name)), name
    assert block(whole, "scope").any() and not block(without, "scope").any()


def test_suite_tail_lists_optional_blocks_in_order():
    names = [part.name for part in layout.OPTIONAL_BLOCKS]
    assert names[:3] == ["telemetry", "scope", "target"], "stored policies read the columns in this order"
    assert [part.name for part in layout.suite_tail(CFG)] == ["local_map", *names]
    assert [part.width for part in layout.OPTIONAL_BLOCKS[:3]] == [256, 8, 6]
    assert layout.extra_width(CFG) == layout.obs_dim(CFG) - layout.obs_dim(EnvConfig()) >= 256 + 8 + 6
    rows = {row.name: row for row in layout.columns(CFG)}
    assert rows["scope.behind"][2:5] == (0.0, 1.0, True) and rows["scope.left_change"][2:5] == (-1.0, 1.0, True)
    assert not any(row.normalizable for name, row in rows.items() if name.startswith(("telemetry", "target")))
