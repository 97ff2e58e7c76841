"""Start of an episode: positions, headings, condition, the restored map, and independence from the last episode."""

from collections.abc import Collection

import numpy as np
import pytest

from echelon.agents import memory
from echelon.agents.heuristic import install, script_of
from echelon.agents.levels import SKILLS
from echelon.config import EVAL_SEED_BASE
from echelon.env import layout, referee, reward
from echelon.sim import state
from echelon.sim.random import StreamId, draw_u32, uniform01
from echelon.sim.structs import fields_of
from tests.env.battle import Battle
from tests.oracles.shared import MECHS, ROSTER, VOXEL_HP, wrap
from tests.parity.scenes import clutter
from tests.state_hash import CLOUD_FIELDS, ROUND_FIELDS, state_hash

SETTINGS = frozenset(
    ("env_index", "forced_seed", "forced_slot", "packs", "withhold", "every", "chosen", "row_of", "opponent_row_of",
     "script", "weapon_prob")
)  # fmt: skip
"""Arrays that callers write, and a reset reads or leaves."""
EACH_STEP = "clear_decision, read_motion or read_choices writes it before the step reads it"
EACH_TICK = "a kernel of the tick writes it before another reads it"
NOT_RESET: dict[str, str] = {
    **dict.fromkeys({*ROUND_FIELDS, *CLOUD_FIELDS} - {"round_target"}, "meaningless while its slot is free"),
    **dict.fromkeys(("drive", "trigger", "vent", "acting", "bad_actions"), EACH_STEP),
    **dict.fromkeys(("took", "dealt", "dealt_friendly", "kills", "assists", "died", "fired"), EACH_STEP),
    **dict.fromkeys(("intercepts", "knockdowns", "shutdowns"), EACH_STEP),
    **dict.fromkeys(("order", "aim", "assist_to", "landing_speed", "ams_shot"), EACH_TICK),
    **dict.fromkeys((*fields_of(state.Hits), *fields_of(state.Blasts), *fields_of(state.Paths)), EACH_TICK),
    "episode": "the number of episodes begun",
    "surveys": "the number of computations of the telemetry map",
    **dict.fromkeys(("actions", "value"), "policies write it before every step"),
    **dict.fromkeys((*fields_of(referee.StepOutcome), *fields_of(reward.Rewards)), "each step writes it before a read"),
    **dict.fromkeys((n for n in fields_of(referee.EpisodeArrays) if n.startswith("done_")), "of the finished episode"),
    **dict.fromkeys(memory.FIELDS, "the first decision of an episode resets or ignores it"),
}  # fmt: skip
"""Array that keeps its values over a reset -> why the next episode does not depend on them."""


def rough(**options) -> Battle:
    return Battle(envs=6, edit=clutter(np.random.default_rng(2), 40), size=36, pilots=install, **options)


@pytest.fixture(scope="module")
def battle():
    made = rough()
    made.batch["script"].fill_(script_of("trivial"))
    return made


def test_spawn_places_intact_mechs_facing_zone(battle):
    battle.engine.reset()
    places = battle["bank_spawn"][0]
    shift = battle["pos"] - places
    assert np.abs(shift[..., :2]).max() <= 0.25 and np.abs(shift[..., :2]).max() > 0.2
    assert len(np.unique(shift[..., 0])) == 60, "each mech and environment has its own jitter"
    to_zone = battle["zone"][:, None, :2] - battle["pos"][..., :2]
    errors = [wrap(x) for x in (battle["yaw"] - np.arctan2(to_zone[..., 1], to_zone[..., 0])).ravel()]
    assert 0.1 < np.abs(errors).max() <= 0.15 + 1e-5
    for m in range(10):
        mech = MECHS[ROSTER[m % 5]]
        assert (battle["chassis"][:, m] == ROSTER[m % 5]).all() and (battle["team"][:, m] == m // 5).all()
        assert (battle["hp"][:, m] == mech.hp).all() and (battle["leg_hp"][:, m] == mech.leg_hp).all()
    assert (battle["stability"] == 100).all() and not battle["heat"].any() and battle["alive"].all()


def test_reset_clears_every_array_that_the_next_episode_reads():
    options = {block.config_field: True for block in layout.OPTIONAL_BLOCKS}
    battle = rough(**options)
    battle.batch.set("forced_seed", np.arange(5, 11, dtype=np.int32))
    scripts = np.arange(battle["script"].size) % (len(SKILLS) + 1)
    battle.batch.set("script", scripts.astype(np.int32).reshape(battle["script"].shape))

    def play() -> tuple[dict[str, np.ndarray], list[object]]:
        """Reset, then play 20 steps; return the arrays after the reset, and what was observed and played."""
        battle.engine.reset()
        after = {name: battle[name].copy() for name in battle.batch.fields}
        seen: list[object] = [battle.rows.tobytes()]
        for _ in range(20):
            battle.step()
            seen += [battle.rows.tobytes(), battle["reward"].tobytes(), state_hash(battle.batch, 0)]
        return after, seen

    fresh, expected = play()

    def play_after_changing(names: Collection[str]) -> tuple[dict[str, np.ndarray], list[object]]:
        for name in fresh.keys() - SETTINGS:
            battle.batch.set(name, (fresh[name] + (name in names)).astype(fresh[name].dtype))
        battle.batch["actions"].zero_()
        return play()

    after, found = play_after_changing(fresh.keys() - SETTINGS)
    changed = {name for name in fresh if not np.array_equal(after[name], fresh[name])}
    forgotten = sorted(changed - NOT_RESET.keys())
    assert not forgotten, (
        f"a reset keeps the values of arrays {forgotten}: reset them in echelon/sim/kernels/spawn.py (an array of "
        "another package in its kernel), or add them to NOT_RESET with a reason, tests/sim/test_spawn.py"
    )
    culprits = [] if found == expected else [n for n in sorted(changed) if play_after_changing([n])[1] != expected]
    assert found == expected, f"a step after a reset depends on arrays {culprits}, which NOT_RESET excuses"
    assert NOT_RESET.keys() <= fresh.keys(), "rows of NOT_RESET name arrays that do not exist"


def test_masked_reset_leaves_other_environments_unchanged(battle):
    battle.engine.reset()
    for _ in range(10):
        battle.step()
    before = [state_hash(battle.batch, e) for e in range(6)]
    episodes = battle["episode"].copy()
    mask = np.array([0, 1, 0, 0, 1, 0], bool)
    battle.engine.reset(mask=mask)
    changed = np.array([state_hash(battle.batch, e) != before[e] for e in range(6)])
    assert np.array_equal(changed, mask) and np.array_equal(battle["episode"] - episodes, mask)
    assert battle["decision"].tolist() == [10, 0, 10, 10, 0, 10]


def test_training_seeds_differ_and_stay_below_evaluation_seeds():
    battle = rough(seed=EVAL_SEED_BASE - 3)
    seeds = []
    for _ in range(4):
        seeds += battle["seed"].tolist()
        battle.engine.reset()
    assert len(set(seeds)) == 24 and max(seeds) < EVAL_SEED_BASE


def test_neighbouring_run_seeds_share_no_episode():
    seeds_of_run: dict[int, set[int]] = {}
    battle = Battle(envs=4, size=24)
    for run in (0, 1, 2, 3, 2**30, 2**32 - 1):
        battle.batch.set("run_seed", np.array([run], np.uint32))
        battle.batch["episode"].zero_()
        seeds_of_run[run] = set()
        for _ in range(6):
            battle.engine.reset()
            seeds_of_run[run] |= set(battle["seed"].tolist())
    assert all(len(seeds) == 24 for seeds in seeds_of_run.values()) and len(
        set.union(*seeds_of_run.values())
    ) == 24 * len(seeds_of_run)
    assert max(set.union(*seeds_of_run.values())) < EVAL_SEED_BASE


def test_spawn_leaves_surplus_packs_absent():
    battle = Battle(envs=2, num_packs=2)
    battle.batch.set("packs", np.array([1, 2], np.int32))
    battle.engine.reset()
    assert battle["present"][0].tolist() == ([1] * 5 + [0] * 5) * 2
    assert np.array_equal(battle["alive"], battle["present"]) and battle["present"][1].all()
    assert battle["pack"].tolist() == [([0] * 5 + [1] * 5) * 2] * 2
    battle.step()
    absent = battle["present"][0] == 0
    assert battle["terminated"][0, absent].all() and not battle["terminated"][0, ~absent].any()
    assert not battle["reward"][0, absent].any()


def test_spawn_matches_oracle():
    battle = rough(seed=77, own_maps=True)
    battle.batch["forced_slot"].fill_(-1)
    spawn, zones = battle["bank_spawn"], battle["bank_zone"]
    for _ in range(2):
        episode = battle["episode"].copy()
        battle.engine.reset()
        for e in range(6):
            base = int(draw_u32(77, StreamId.RUN, 0, 0, 0))
            seed = (base + 1_000_003 * e + int(episode[e])) % EVAL_SEED_BASE
            slot = draw_below(seed, len(zones))
            assert (battle["seed"][e], battle["map_slot"][e], battle["tick"][e]) == (seed, slot, 0)
            assert np.array_equal(battle["zone"][e], zones[slot])
            assert np.array_equal(battle["material"][e], battle["bank_material"][slot])
            assert np.array_equal(battle["voxel_hp"][e], VOXEL_HP[battle["material"][e]])
            for m in range(10):
                x, y, turn = (2 * float(uniform01(seed, StreamId.VARIANT, 1, m, k)) - 1 for k in range(3))
                half = MECHS[ROSTER[m % 5]].half
                low, high = half + 1e-3, battle["size"][e] - half - 1e-3
                place = np.clip(spawn[slot, m] + np.array([x, y, 0]) * 0.25, low, high)
                np.testing.assert_allclose(battle["pos"][e, m], place, atol=2e-3)
                facing = np.arctan2(*(zones[slot][:2] - battle["pos"][e, m, :2])[::-1]) + turn * 0.15
                assert wrap(battle["yaw"][e, m] - facing) == pytest.approx(0, abs=1e-5)
    assert len(set(battle["map_slot"].tolist())) > 1


def draw_below(seed: int, count: int) -> int:
    return int(draw_u32(seed, StreamId.MAP, 0, 0, 0)) * count >> 32
