"""The curriculum: parameter schedules, and their effect in a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.config import CurriculumConfig, EnvConfig, OpponentConfig, RunConfig, WorldConfig
from echelon.telemetry.events import EventCurriculum, EventUpdate
from echelon.training.batch_options import Maps
from echelon.training.curriculum import (
    CURRICULUM_PARAMETERS,
    Curriculum,
    map_range_at,
    packs_at,
    significant_changes,
    team_alpha_at,
    weapon_probability,
)
from echelon.training.vec_env import VectorEnv
from tests.training.runs import of, run
from tests.training.test_vec_env import SHORT

BIG = EnvConfig(num_packs=3, world=WorldConfig(size_x=120, size_y=120))
ALL = CurriculumConfig(packs=True, maps=True, team_alpha_end=0.7)


@pytest.mark.parametrize(("update", "packs"), [(1, 1), (499, 1), (500, 2), (999, 2), (1000, 4), (5000, 4)])
def test_packs_at_grows_from_one_to_two_to_all(update, packs):
    assert packs_at(CurriculumConfig(), update, 4) == packs
    assert packs_at(CurriculumConfig(), update, 1) == 1, "never more than there are"


@pytest.mark.parametrize(
    ("progress", "edges"), [(0.0, (40, 60)), (0.33, (40, 60)), (0.34, (60, 90)), (0.67, (80, 120)), (1.0, (80, 120))]
)
def test_map_range_at_grows_in_thirds(progress, edges):
    assert map_range_at(CurriculumConfig(), progress) == edges


@pytest.mark.parametrize(("progress", "alpha"), [(0.0, 1.0), (0.25, 0.85), (0.5, 0.7), (0.75, 0.7), (1.0, 0.7)])
def test_team_alpha_at_falls_linearly_then_stays(progress, alpha):
    assert team_alpha_at(ALL, progress) == pytest.approx(alpha)
    assert team_alpha_at(replace(ALL, team_alpha_share=0.0), progress) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("ramp", "update", "progress", "expected"),
    [
        ({}, 1, 0.0, 1.0),
        ({"weapon_ramp_updates": 100}, 1, 0.9, 0.2),
        ({"weapon_ramp_updates": 100}, 51, 0.0, 0.6),
        ({"weapon_ramp_updates": 100}, 101, 0.0, 1.0),
        ({"weapon_ramp_updates": 100}, 999, 0.0, 1.0),
        ({"weapon_ramp_share": 0.5}, 999, 0.25, 0.6),
        ({"weapon_ramp_share": 0.5}, 1, 0.8, 1.0),
    ],
)
def test_weapon_probability_ramps_by_updates_or_progress(ramp, update, progress, expected):
    assert weapon_probability(OpponentConfig(**ramp), update, progress) == pytest.approx(expected)


def test_curriculum_parameters_move_only_when_enabled():
    run = RunConfig(env=BIG, curriculum=ALL)
    assert Curriculum(RunConfig()).parameters(1, 0.0).keys() == {"weapon_prob"}
    curriculum = Curriculum(run)
    first, last = curriculum.parameters(1, 0.0), curriculum.parameters(2000, 1.0)
    assert first.keys() == {parameter.name for parameter in CURRICULUM_PARAMETERS}
    assert first["packs_per_team_range"] == (1, 1) and last["packs_per_team_range"] == (3, 3)
    assert all(first[name] != last[name] for name in first if name != "weapon_prob")


def test_significant_changes_ignore_small_moves_except_ends():
    assert significant_changes({"a": 0.5}, {"a": 0.52}, 0.05) == {}
    assert significant_changes({"a": 0.98, "b": "easy"}, {"a": 1.0, "b": "medium"}, 0.05) == {"a": 1.0, "b": "medium"}
    assert significant_changes({}, {"a": 0.5}, 0.05) == {"a": 0.5}


def test_upcoming_ranges_precede_their_change():
    curriculum = Curriculum(RunConfig(env=BIG, curriculum=ALL))
    assert curriculum.ranges(1, 0.0) == {"map_size_range": (40, 60), "packs_per_team_range": (1, 1)}
    assert curriculum.upcoming_ranges(1, 0.0) == {}
    assert curriculum.upcoming_ranges(480, 0.0)["packs_per_team_range"] == (2, 2)
    assert curriculum.upcoming_ranges(1, 0.3)["map_size_range"] == (60, 90)


def test_reward_weights_parameter_takes_effect_at_once():
    with VectorEnv(2, SHORT, maps=Maps(1)) as env:
        env.reset()
        env.set_curriculum(reward_weights={"zone": 2.0, "approach": 0.0})
        env.set_curriculum(reward_weights={"damage": 0.5})
        assert env.get_curriculum()["reward_weights"] == {"zone": 2.0, "approach": 0.0, "damage": 0.5}
        for _ in range(3):
            env.step()
        approach = env.results.names.index("approach")
        assert not env.results.terms[..., approach].any() and env.engine.batch.numpy("amounts")[..., approach].any()
        with pytest.raises(ValueError, match="reward_weights is 'fame', expected terms of approach, zone"):
            env.set_curriculum(reward_weights={"fame": 1.0})


def test_scheduled_run_moves_every_curriculum_parameter(small_run):
    curriculum = replace(ALL, packs_two_at=4, packs_all_at=8)
    config = small_run(num_envs=4, total_steps=2000)
    config = replace(
        config,
        curriculum=curriculum,
        env=replace(BIG, gamma=config.env.gamma),
        opponents=OpponentConfig(weapon_prob_start=0.2, weapon_ramp_updates=5),
    )
    _, events = run(config)
    shown = [e.curriculum for e in of(events, EventUpdate)]
    for parameter in CURRICULUM_PARAMETERS:
        assert len({str(parameters[parameter.name]) for parameters in shown}) >= 3, parameter.name
    alphas = [parameters["team_alpha"] for parameters in shown]
    assert alphas[0] == 1.0 and alphas == sorted(alphas, reverse=True) and alphas[-1] == pytest.approx(0.7)
    assert [parameters["packs_per_team_range"][0] for parameters in shown[:8]] == [1, 1, 1, 2, 2, 2, 2, 3]
    reported = of(events, EventCurriculum)
    assert reported[0].reason == "schedule" and reported[-1].parameters.keys() == shown[-1].keys()
