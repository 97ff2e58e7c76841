"""Orders: goals, obedience, observation, random orders, saved states and replays."""

from pathlib import Path

import numpy as np
import pytest

from echelon.actions import ORDER_NAMES, Order
from echelon.agents import heuristic
from echelon.arena.verify import verify
from echelon.config import EnvConfig, RewardConfig
from echelon.env import layout, reward
from echelon.env.engine import Engine
from echelon.env.match_state import load_match_state, save_match_state
from echelon.env.observe import orders
from echelon.gen.bank import build_bank_for
from echelon.replay.extra_records import read_orders
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.training.batch_options import Episodes, Maps, Sides
from echelon.training.vec_env import VectorEnv
from tests.arena.recorded_matches import small_game
from tests.env.battle import Battle
from tests.oracles import orders as rules
from tests.oracles.shared import heading_frame
from tests.parity.scenes import clutter, scatter, snapshot
from tests.state_hash import state_hash

OBEY = reward.TERM_NAMES.index("obey")
PLAIN = (Order.HOLD, Order.ADVANCE, Order.FLANK_LEFT, Order.FLANK_RIGHT, Order.RETREAT)


def field(obs_layout: str = "suite", **options) -> Battle:
    edit = clutter(np.random.default_rng(3))
    made = Battle(
        envs=4, size=40, num_packs=2, own_maps=True, edit=edit, observe_orders=True, obs_layout=obs_layout, **options
    )
    scatter(made, np.random.default_rng(5))
    made.observe()
    return made


def any_orders(mechs: int = 20, envs: int = 4, share: float = 0.7, seed: int = 7) -> dict:
    """Return an order for a share of the mechs; those that name a mech name random ones that fit."""
    rng, half, given = np.random.default_rng(seed), mechs // 2, {}
    for e in range(envs):
        for m in range(mechs):
            order, side = Order(int(rng.integers(len(Order)))), m // half
            named = {
                Order.FOCUS: (1 - side) * half + int(rng.integers(half)),
                Order.SCREEN: side * half + (m + 1) % half,
            }
            if rng.random() < share:
                given[e, m] = (order, named.get(order, -1))
    return given


@pytest.mark.parametrize("obs_layout", ["suite", "classic"])
def test_goals_obedience_and_columns_match_the_reference(obs_layout):
    made = field(obs_layout)
    made.engine.give_orders(any_orders())
    made.put("vel", np.random.default_rng(8).uniform(-6, 6, (4, 20, 3)))
    made.put("order_place", made["order_place"] + np.random.default_rng(9).uniform(-9, 9, (4, 20, 3)))
    made.observe()
    at = layout.offset("orders", layout.blocks(made.cfg))
    spawn, flow, found = made["bank_spawn"], made["bank_flow"], []
    made.batch.capture(reward.reward_launches(reward.TERMS))()
    for e in range(4):
        s = snapshot(made, e)
        for m in range(20):
            kind, shown = int(s.order_kind[m]), made.obs[e, m, at : at + layout.ORDERS.width]
            want, row = np.zeros(3), np.zeros(10)
            if kind:
                want = rules.goal(s, m, spawn[s.map_slot, m])
                np.testing.assert_allclose(s.order_goal[m], want, atol=1e-4, err_msg=f"{Order(kind).name} of {m}")
            if kind and s.alive[m]:
                row[kind - 1] = 1.0
                if want[2]:
                    ahead, left, _ = heading_frame(np.array([*(want[:2] - s.pos[m][:2]), 0.0]), float(s.yaw[m]))
                    d = np.hypot(ahead, left)
                    row[7:] = left / d, ahead / d, min(d / 15, 8)
            np.testing.assert_allclose(shown, row, atol=1e-4, err_msg=f"{Order(kind).name} of {m}")
            obeys = rules.obedience(s, m, want, flow)
            assert s.amounts[m, OBEY] == pytest.approx(obeys, abs=1e-4), f"{Order(kind).name} of {m}"
            found.append((kind, obeys))
    for order in Order:
        values = {obeys for kind, obeys in found if kind == order}
        assert (order == Order.NONE and values == {0.0}) or len(values) > 1, f"{order.name} is obeyed {values}"


def test_orders_without_pilots_that_read_them_change_no_battle():
    one, two = field(), field()
    two.engine.give_orders(any_orders())
    actions = np.random.default_rng(2).uniform(-1, 1, one["actions"].shape)
    for _ in range(8):
        one.step(actions)
        two.step(actions)
    assert two["order_kind"].any() and all(
        state_hash(one.batch, e, displays=True) == state_hash(two.batch, e, displays=True) for e in range(4)
    )
    assert one["amounts"][..., OBEY].any() == 0 and two["amounts"][..., OBEY].any()


def test_order_that_names_another_mech_than_it_can_is_refused():
    made = field()
    for order, named in ((Order.FOCUS, 3), (Order.FOCUS, -1), (Order.SCREEN, 0), (Order.SCREEN, 15), (Order.HOLD, 4)):
        with pytest.raises(ValueError, match=f"order '{order.name.lower()}' of mech 0 names mech {named}, expected"):
            made.engine.give_orders({(0, 0): (order, named)})
    assert not made["order_kind"].any()


def test_same_order_again_keeps_its_place_and_a_reset_ends_it():
    made = Battle()
    made.engine.give_orders({(0, 2): (Order.HOLD, -1)})
    place = made["order_place"].copy()
    actions = np.zeros_like(made["actions"])
    actions[0, 2, 0] = 1.0
    made.step(actions)
    made.engine.give_orders({(0, 2): (Order.HOLD, -1)})
    assert np.array_equal(made["order_place"], place) and made["order_since"][0, 2] == 0
    made.engine.give_orders({(0, 2): (Order.RETREAT, -1)})
    assert made["order_since"][0, 2] == 1 and not np.array_equal(made["order_place"], place)
    made.engine.reset()
    assert not made["order_kind"].any() and (made["order_since"] == -1).all()


def test_random_orders_are_drawn_every_ten_seconds_for_mechs_that_learn():
    made = Battle(envs=32, seed=3)
    made.batch["order_rate"].fill_(0.75)
    rows = made["row_of"].copy()
    rows[:, 5:] = -1
    made.batch.set("row_of", rows)
    made.engine.reset()
    first, seen = made["order_kind"].copy(), set[int]()
    assert 0.6 < (first[:, :5] > 0).mean() < 0.9 and not first[:, 5:].any()
    for _ in range(39):
        made.step()
        assert np.array_equal(made["order_kind"], first)
    made.step()
    assert (made["order_since"][:, :5] == 40).all() and (made["order_kind"] != first).mean() > 0.3
    for e, m in np.ndindex(32, 5):
        kind, named = made["order_kind"][e, m], made["order_mech"][e, m]
        seen.add(int(kind))
        fits = {Order.FOCUS: 5 <= named < 10, Order.SCREEN: 0 <= named < 5 and named != m}
        assert fits.get(Order(int(kind)), named == -1)
    assert seen >= {*PLAIN, Order.NONE, Order.SCREEN}
    again = Battle(envs=3, seed=3)
    again.batch["order_rate"].fill_(0.75)
    again.engine.reset()
    assert np.array_equal(again["order_kind"][:, :5], first[:3, :5]), "an order depends on the batch"


def test_only_learners_in_training_get_random_orders():
    cfg = small_game(order_rate=1.0, observe_orders=True)
    for episodes, expected in ((Episodes(), 1.0), (Episodes(seeds=[4, 5]), 0.0)):
        env = VectorEnv(2, cfg, sides=Sides("blue", "red"), maps=Maps(count=2), episodes=episodes)
        env.reset()
        ordered = env.engine.batch.numpy("order_kind") > 0
        assert ordered[:, :5].mean() == expected and not ordered[:, 5:].any()
        env.close()


def test_match_state_has_orders_where_a_mech_has_one():
    made, other = Battle(observe_orders=True), Battle(observe_orders=True)
    assert not save_match_state(made.engine, 0).keys() & set(orders.FIELDS)
    made.engine.give_orders({(0, 1): (Order.HOLD, -1), (0, 2): (Order.SCREEN, 4)})
    state = save_match_state(made.engine, 0)
    assert state.keys() & set(orders.FIELDS) == set(orders.GIVEN)
    load_match_state(other.engine, state)
    assert np.array_equal(other.obs, made.obs) and np.array_equal(other["order_goal"], made["order_goal"])
    load_match_state(other.engine, {name: v for name, v in state.items() if name not in orders.GIVEN})
    assert not other["order_kind"].any() and (other["order_mech"] == -1).all()


def record(folder: Path, cfg: EnvConfig, level: str = "trivial") -> Path:
    """Record a match whose mechs get other orders every second."""
    engine = Engine(cfg, 1, build_bank_for(cfg, [9]), autoreset=False, pilots=heuristic.install)
    engine.batch["forced_seed"].fill_(9)
    engine.batch["script"].fill_(heuristic.script_of(level))
    engine.reset()
    recorder = Recorder(engine, [0], folder, [MatchInfo(name="ordered", map_seed=9)], policy="acts")
    recorder.begin()
    for step in range(cfg.max_steps):
        if step % 4 == 0:
            engine.give_orders({(0, m): (PLAIN[(step // 4 + m) % len(PLAIN)], -1) for m in range(step % 3, 10)})
        engine.step()
        recorder.after_step()
    (path,) = recorder.finish()
    engine.close()
    return path


def test_replay_with_orders_verifies_bit_for_bit(tmp_path: Path):
    cfg = small_game(seconds=12.0, observe_orders=True, reward=RewardConfig(obey=0.5))
    path = record(tmp_path, cfg)
    with Replay(path) as replay:
        rows = read_orders(replay)
        amounts = np.concatenate([replay.chunk(n).frames["reward"] for n in range(len(replay.chunks))])
    assert len(rows) > 80 and {*rows[:, 2]} == {*PLAIN} and amounts.reshape(len(amounts), 10, -1)[..., OBEY].any()
    assert verify(path).first is None


def test_replay_without_its_orders_does_not_verify(tmp_path: Path, monkeypatch):
    path = record(tmp_path, small_game(seconds=12.0, reward=RewardConfig(obey=0.5)))
    monkeypatch.setattr("echelon.arena.reconstruct.read_orders", lambda replay: np.zeros((0, 4), np.int32))
    found = verify(path).first
    assert found is not None and found.field == "reward"


def test_order_names_are_the_columns_of_the_block():
    assert [feature.name for feature in layout.ORDERS.features[:7]] == list(ORDER_NAMES[1:])
