"""The training loop on the real environment, with every part of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from echelon.config import CurriculumConfig, MixConfig, OpponentConfig
from echelon.rl.checkpoint import latest_valid
from echelon.rl.weights import load_policy
from echelon.telemetry.events import EventEval, EventUpdate
from echelon.training.evaluation import YARDSTICK
from echelon.training.spatial import load_heat
from echelon.training.vec_env import VectorEnv
from echelon_cli.eval_tables import show_ladder
from echelon_cli.main import run as echelon
from tests.training.runs import assert_resumes_exactly, battle_run, of, run_battle

MIXES = {
    "scripted": OpponentConfig(skill="easy"),
    "mixed": OpponentConfig(
        mix=MixConfig(scripted=0.0, easy=1.0, past=2.0, self_play=1.0),
        past_every_updates=1,
        past_keep=2,
        rating_seeds=1,
        rating_opponents=1,
    ),
}


@pytest.mark.long
def test_resume_restores_scheduled_map_and_pack_ranges(tmp_path):
    curriculum = CurriculumConfig(
        packs=True, packs_two_at=3, packs_all_at=5, maps=True, map_small_min=36, map_small_max=40, map_large_min=44,
        map_large_max=50, team_alpha_end=0.7,
    )  # fmt: skip
    config = battle_run(edge=50, env={"num_packs": 2}, curriculum=curriculum, num_envs=2, max_updates=6)
    events, *_ = assert_resumes_exactly(config, tmp_path, 4, make_env=VectorEnv)
    whole = of(events, EventUpdate)
    sizes, packs = ([u.curriculum[name] for u in whole] for name in ("map_size_range", "packs_per_team_range"))
    assert sizes[0] == (36, 40) and (40, 45) in sizes and sizes[-1] == (44, 50)
    assert packs[:3] == [(1, 1), (1, 1), (2, 2)] and packs[-1] == (2, 2)


@pytest.mark.parametrize("opponents", [pytest.param("scripted", marks=pytest.mark.long), "mixed"])
def test_resumed_battle_run_is_bit_exact(tmp_path, opponents):
    config = battle_run(opponents=MIXES[opponents])
    whole, cut, _ = assert_resumes_exactly(config, tmp_path, 2, make_env=VectorEnv)
    figures = [[(e.mean_return, e.win_rate) for e in of(events, EventEval)] for events in (whole, cut)]
    assert figures[0] == figures[1] and figures[0]


def test_load_policy_builds_no_environment(tmp_path, monkeypatch):
    result, events = run_battle(battle_run(max_updates=1), tmp_path)
    (update,) = of(events, EventUpdate)
    assert update.update == 1 and set(update.actions) >= {"heavy/primary", "scout/vent"}
    found = latest_valid(tmp_path / "checkpoints").checkpoint
    assert found is not None and found.path == result.checkpoint
    monkeypatch.setattr("echelon.training.vec_env.VectorEnv.__init__", lambda *_: pytest.fail("built an environment"))
    loaded = load_policy(found.path)
    action, _ = loaded.policy.act(torch.zeros(3, loaded.policy.obs_dim), loaded.policy.initial_state(3), torch.ones(3))
    assert action.shape == (3, 18) and loaded.meta["kind"] == "suite"


def test_eval_ladder_and_heat_maps_of_trained_policy(tmp_path, capsys, jobs_in_process):
    config = battle_run(max_updates=1)
    result, events = run_battle(replace(config, eval=replace(config.eval, heat_cells=6)), tmp_path)
    (evaluated,) = of(events, EventEval)
    assert set(evaluated.returns_by_role) == {"scout", "light", "medium", "heavy"}
    assert set(evaluated.reward_terms) >= {"approach", "damage", "terminal"}
    assert set(evaluated.actions) >= {"heavy/primary", "scout/secondary", "light/jets"}
    assert all(0 <= rate <= 1 for rate in evaluated.actions.values())
    heat = load_heat(tmp_path / "heat" / f"u{result.update:06d}.safetensors")
    decisions = evaluated.mean_episode_length * evaluated.episodes
    assert decisions < heat.movement_density.sum() <= 5 * decisions, "five mechs, some of them dead after a while"
    assert result.checkpoint is not None

    def evaluated_json(*words: str):
        capsys.readouterr()
        assert echelon(["eval", str(result.checkpoint), *words, "--seeds", "1", "--threads", "1", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    single_level, ladder = evaluated_json("--opponent", "hard"), evaluated_json("--ladder")
    assert [row["level"] for row in ladder["levels"]] == list(YARDSTICK)
    assert all(row["episodes"] == 2 for row in ladder["levels"])
    assert all(row["win_low"] <= row["win_rate"] <= row["win_high"] for row in ladder["levels"])
    assert single_level["outcomes"] == ladder["levels"][3]["outcomes"], "a level is played as if it were alone"
    assert all(0.0 <= row["sampled_win_rate"] <= 1.0 for row in ladder["levels"])
    show_ladder(ladder)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:7]] == list(YARDSTICK)
    assert echelon(["eval", str(result.checkpoint), "--ladder", "--record"]) == 2


def test_classic_network_trains_and_resumes_on_classic_layout(tmp_path):
    tiny = battle_run(max_updates=2)
    config = replace(tiny, env=replace(tiny.env, obs_layout="classic"), model=replace(tiny.model, kind="classic"))
    run_battle(config, tmp_path, stop_after=1)
    resumed, _ = run_battle(config, tmp_path, resume="latest")
    assert resumed.update == 2 and resumed.checkpoint is not None
    loaded = load_policy(resumed.checkpoint)
    assert (loaded.meta["kind"], loaded.policy.obs_dim) == ("classic", 549)
    with pytest.raises(ValueError, match="549"):
        run_battle(tiny, tmp_path, resume="latest")
