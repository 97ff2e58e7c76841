"""``EchelonVectorEnv``: the Gymnasium vector interface."""

import doctest

import numpy as np
import pytest
from gymnasium.utils import env_checker, passive_env_checker
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics

from echelon.agents import heuristic
from echelon.config import EnvConfig, WorldConfig
from echelon.env import gym_vector, layout
from echelon.env.gym_vector import EchelonVectorEnv

SMALL = EnvConfig(world=WorldConfig(size_x=40, size_y=40), max_episode_seconds=5.0, zone_win_share=10.0)
"""Twenty environment steps without a zone win."""
TIME = [row.name for row in layout.columns(SMALL)].index("ego.time")


@pytest.fixture(scope="module")
def envs():
    return EchelonVectorEnv(3, SMALL, maps=2)


def play(envs: EchelonVectorEnv, decisions: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    for _ in range(decisions):
        yield envs.step(rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32))


def test_gym_vector_docstring_example_runs():
    assert doctest.testmod(gym_vector).attempted > 8
    assert doctest.testmod(gym_vector).failed == 0


@pytest.mark.parametrize(
    "check",
    [
        env_checker.check_reset_seed_determinism, env_checker.check_reset_options, env_checker.check_reset_return_type,
        env_checker.check_seed_deprecation, env_checker.check_reset_return_info_deprecation,
    ],
)  # fmt: skip
def test_gymnasium_reset_checks_pass(envs, check):
    check(envs)


def test_gymnasium_space_checks_pass(envs):
    for space in (envs.single_observation_space, envs.observation_space):
        passive_env_checker.check_space(space, "observation", passive_env_checker.check_observation_space)
        env_checker.check_space_limit(space, "observation")
    for space in (envs.single_action_space, envs.action_space):
        passive_env_checker.check_space(space, "action", passive_env_checker.check_action_space)
        env_checker.check_space_limit(space, "action")


def test_gymnasium_wrappers_work(envs):
    counted = RecordEpisodeStatistics(envs)
    counted.reset(seed=1)
    *_, (observations, rewards, _, _, infos) = play(counted, 20)
    assert observations.shape == envs.observation_space.shape and rewards.shape == (30,)
    assert (infos["episode"]["l"] == 20).all() and infos["_episode"].all()


@pytest.mark.parametrize("obs_layout", ["suite", "classic"])
def test_gym_spaces_have_column_bounds_and_contain_observations(obs_layout):
    cfg = EnvConfig(world=SMALL.world, max_episode_seconds=5.0, obs_layout=obs_layout)
    envs = EchelonVectorEnv(2, cfg, maps=2)
    low, high = layout.bounds(cfg)
    assert np.array_equal(envs.single_observation_space.low, low)
    assert np.array_equal(envs.observation_space.high, np.tile(high, (20, 1)))
    assert envs.observation_space.contains(envs.reset(seed=0)[0])
    for observations, rewards, terminated, truncated, _ in play(envs, 50):
        assert envs.observation_space.contains(observations)
        assert [a.dtype for a in (rewards, terminated, truncated)] == [np.float32, bool, bool]


def test_gym_seed_repeats_everything_after_it(envs):
    def run() -> list[np.ndarray]:
        seen = [envs.reset(seed=5)[0]]
        for observations, rewards, *_ in play(envs, 45):
            seen += [observations, rewards]
        return seen

    first, again = run(), run()
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(envs.reset(seed=6)[0], first[0])
    assert not np.shares_memory(first[0], first[1])


def test_same_step_autoreset_returns_final_observations():
    assert EchelonVectorEnv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs = EchelonVectorEnv(2, SMALL, maps=2)
    envs.reset(seed=3)
    steps = list(play(envs, 20))
    assert not any(t.any() or u.any() or "final_obs" in infos for _, _, t, u, infos in steps[:-1])
    observations, _, terminated, truncated, infos = steps[-1]
    assert (terminated ^ truncated).all() and infos["_final_obs"].all()
    info = infos["final_info"]
    assert np.array_equal(truncated, info["alive"]) and set(info["reason"]) == {"time_up"}
    last = np.stack(infos["final_obs"])
    assert (last[info["alive"], TIME] == 1).all() and not observations[:, TIME].any()
    assert infos["alive"].all() and not last[~info["alive"]][:, :500].any()


def test_next_step_autoreset_resets_in_the_following_step():
    envs = EchelonVectorEnv(2, SMALL, maps=2, autoreset="NEXT_STEP")
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    envs.reset(seed=3)
    steps = list(play(envs, 42))
    for end in (19, 40):
        observations, _, terminated, truncated, infos = steps[end]
        assert (terminated ^ truncated).all() and "final_obs" not in infos
        assert set(infos["reason"]) == {"time_up"} and infos["_winner"].all()
        assert (observations[infos["alive"], TIME] == 1).all() and infos["alive"].any()
    observations, rewards, terminated, truncated, infos = steps[20]
    assert not rewards.any() and not terminated.any() and not truncated.any() and "reason" not in infos
    assert not observations[:, TIME].any() and infos["alive"].all()
    assert (steps[21][0][steps[21][4]["alive"], TIME] == np.float32(1 / 20)).all()


def test_autoreset_modes_play_the_same_battles():
    def first_rows(mode: str, skip: int) -> list[np.ndarray]:
        envs = EchelonVectorEnv(2, SMALL, maps=2, autoreset=mode)
        seen = [envs.reset(seed=3)[0]]
        for battle in range(2):
            for _ in range(20 + skip):
                last = envs.step(np.full(envs.action_space.shape, 0.1 * battle, np.float32))[0]
            seen.append(last)
        return seen

    same, later = first_rows("SAME_STEP", 0), first_rows("NextStep", 1)
    assert all(np.array_equal(a, b) for a, b in zip(same, later, strict=True))


def test_gymnasium_observation_wrappers_work_with_next_step_autoreset():
    envs = NormalizeObservation(RecordEpisodeStatistics(EchelonVectorEnv(1, SMALL, maps=1, autoreset="NEXT_STEP")))
    envs.reset(seed=0)
    counted = [infos["episode"]["l"] for *_, infos in play(envs, 43) if "episode" in infos]
    assert len(counted) == 2 and all((lengths == 20).all() for lengths in counted)


def test_disabled_autoreset_resets_masked_battles():
    envs = EchelonVectorEnv(2, SMALL, maps=2, autoreset=AutoresetMode.DISABLED)
    second = np.repeat([False, True], 10)
    with pytest.raises(ValueError, match="have not been reset"):
        envs.reset(options={"reset_mask": second})
    envs.reset(seed=3)
    list(play(envs, 10))
    before = envs._rows.read()
    observations, infos = envs.reset(options={"reset_mask": second})
    assert np.array_equal(observations[:10], before[:10]) and not observations[10:, TIME].any()
    *_, (_, _, terminated, truncated, infos) = play(envs, 10)
    assert (terminated | truncated).tolist() == (~second).tolist() and infos["_reason"].tolist() == (~second).tolist()
    with pytest.raises(ValueError, match="battle 0 is over, call reset"):
        next(play(envs, 1))
    envs.reset(options={"reset_mask": ~second})
    next(play(envs, 1))
    for mask, text in (
        (second[:5], "bool array of 20"),
        (np.arange(20) == 3, "all agents of a battle"),
        ([True], "bool array of 20"),
    ):
        with pytest.raises(ValueError, match=f"reset_mask is .*{text}"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="seed is 1, expected none with a reset_mask"):
        envs.reset(seed=1, options={"reset_mask": second})


def test_dead_agents_stay_until_their_battle_ends(envs):
    envs.reset(seed=0)
    hp = envs.engine.batch.numpy("hp").copy()
    hp[1, 4] = 0.0
    envs.engine.batch.set("hp", hp)
    for step, (observations, _, terminated, truncated, infos) in enumerate(play(envs, 20)):
        if step < 19:
            assert not terminated.any() and not truncated.any()
            assert not infos["alive"][14] and not observations[14, :500].any()
    assert terminated[14] and not truncated[14]


def test_scripted_pilots_control_the_other_side():
    envs = EchelonVectorEnv(2, SMALL, side="red", pilots=heuristic.install, script="hard", maps=2)
    assert envs.num_envs == 10 and envs.agents[:6] == ["red_0", "red_1", "red_2", "red_3", "red_4", "red_0"]
    envs.reset(seed=0)
    still = np.zeros(envs.action_space.shape, np.float32)
    before = envs.engine.batch.numpy("pos").copy()
    for _ in range(8):
        envs.step(still)
    moved = np.linalg.norm(envs.engine.batch.numpy("pos") - before, axis=-1)[:, :, None].max(axis=-1)
    assert (moved[:, :5] > 1).any() and moved[:, 5:].max() < 1


FLOWN = {"side": "blue", "pilots": heuristic.install}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"battles": 0}, "battles is 0, expected an integer from 1"),
        ({"battles": 1.5}, "battles is 1.5, expected an integer"),
        ({"battles": "2"}, "battles is '2', expected an integer"),
        ({"maps": 0}, "maps is 0, expected an integer from 1"),
        ({"seed": -1}, "seed is -1, expected an integer from 0"),
        ({"seed": True}, "seed is True, expected an integer from 0"),
        ({"threads": -3}, "threads is -3, expected an integer from 0"),
        ({"config": {"num_packs": 1}}, "config is {'num_packs': 1}, expected an EnvConfig"),
        ({"script": 99}, "script is 99, expected none without pilots"),
        ({"script": "hard"}, "script is 'hard', expected none without pilots"),
        ({**FLOWN, "pilots": "hard"}, "pilots is 'hard', expected a function that installs the pilots"),
        (
            {**FLOWN, "side": "both"},
            "pilots is .*, expected none for side 'both', where the caller controls both teams",
        ),
        (FLOWN, f"script is None, expected a scripted pilot: one of {', '.join(heuristic.SKILLS)}, or"),
        ({**FLOWN, "script": 0}, "script is 0, expected a scripted pilot: .* or its number from 1 to "),
        ({**FLOWN, "script": len(heuristic.SKILLS) + 1}, "script is [0-9]+, expected a scripted pilot"),
        ({**FLOWN, "script": -1}, "script is -1, expected a scripted pilot"),
        ({**FLOWN, "script": 2.0}, "script is 2.0, expected a scripted pilot"),
        ({**FLOWN, "script": "medum"}, "script is 'medum', expected a scripted pilot"),
        ({"autoreset": "sometimes"}, "autoreset is 'sometimes', expected one of NEXT_STEP, SAME_STEP, DISABLED"),
        ({"autoreset": 1}, "autoreset is 1, expected one of"),
        ({"side": "green"}, "side is 'green', expected one of both, blue, red"),
        ({"side": "blue"}, "pilots is None, expected a function that installs the pilots"),
    ],
)
def test_invalid_gym_options_are_rejected(options, text):
    with pytest.raises(ValueError, match=text):
        EchelonVectorEnv(**{"battles": 1, "config": SMALL, **options})


def test_script_is_given_by_name_or_number():
    for index, name in enumerate(heuristic.SKILLS):
        numbers = {gym_vector.script_number(script, heuristic.install) for script in (name, index + 1)}
        numbers.add(gym_vector.script_number(np.int64(index + 1), heuristic.install))
        assert numbers == {heuristic.script_of(name)}
    assert gym_vector.script_number(None, None) == gym_vector.script_number(0, None) == 0


def test_gym_calls_out_of_order_are_rejected():
    envs = EchelonVectorEnv(1, SMALL, maps=1)
    still = np.zeros(envs.action_space.shape, np.float32)
    with pytest.raises(ValueError, match="have not been reset, call reset"):
        envs.step(still)
    envs.reset(seed=0)
    envs.step(still)
    envs.close()
    envs.close()
    for call in (lambda: envs.step(still), envs.reset):
        with pytest.raises(ValueError, match="are closed"):
            call()


@pytest.mark.parametrize("wrong", [None, "abc", [[1.0], [1.0, 2.0]], np.zeros((30, 18), complex)])
def test_actions_that_are_not_numbers_are_rejected(envs, wrong):
    envs.reset(seed=1)
    with pytest.raises(ValueError, match=r"actions is .*, expected numbers of shape \(30, 18\)") as refused:
        envs.step(wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_gym_actions_are_clipped_and_nonfinite_ones_counted(envs):
    seen = []
    for value in (1.0, 1e300):
        envs.reset(seed=2)
        seen.append(envs.step(np.full(envs.action_space.shape, value))[0])
        assert not envs.engine.batch.numpy("bad_actions").any()
    assert np.array_equal(*seen)
    envs.step(np.full(envs.action_space.shape, np.inf))
    assert (envs.engine.batch.numpy("bad_actions") == 18).all()


def test_wrong_gym_action_shapes_and_seeds_are_rejected(envs):
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions is \(2, 18\), expected shape \(30, 18\)"):
        envs.step(np.zeros((2, 18), np.float32))
    for seed in (-1, 1.0, True, "1", 2**64):
        with pytest.raises(ValueError, match=f"seed is {seed!r}, expected an integer from 0"):
            envs.reset(seed=seed)
    with pytest.raises(ValueError, match="option 'speed' does not exist"):
        envs.reset(options={"speed": 2})
