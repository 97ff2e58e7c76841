"""The training loop on the real environment, with every part of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from echelon.config import CurriculumConfig, EvalConfig, MixConfig, OpponentConfig, RunConfig, WorldConfig
from echelon.config.presets import get_preset
from echelon.rl.checkpoint import latest_valid, open_checkpoint
from echelon.rl.weights import load_policy
from echelon.telemetry.events import EventEval, EventUpdate
from echelon.training import loop
from echelon.training.evaluation import YARDSTICK
from echelon.training.spatial import load_heat
from echelon_cli.eval_tables import show_ladder
from echelon_cli.main import run as echelon


@pytest.fixture
def tiny() -> RunConfig:
    """The quickstart preset, reduced to seconds."""
    whole = get_preset("quickstart")
    return replace(
        whole,
        num_envs=4,
        bank_maps=2,
        threads=1,
        device="cpu",
        total_steps=1_200,
        max_minutes=0.0,
        env=replace(whole.env, world=WorldConfig(size_x=30, size_y=30, size_z=16), max_episode_seconds=10.0),
        ppo=replace(whole.ppo, rollout_steps=16, tbptt_chunk_length=8, num_minibatches=2),
        eval=EvalConfig(seeds=1, every_updates=0, at_start=False, weapon_prob=0.2),
    )


def train(config: RunConfig, run_dir: Path, stop_after: int = 10**6, **options):
    events = []
    stop = lambda: int(sum(isinstance(e, EventUpdate) for e in events) >= stop_after)  # noqa: E731
    return loop.run(config, events.append, stop, run_dir=run_dir, **options), events


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


def test_resume_restores_scheduled_map_and_pack_ranges(tiny, tmp_path):
    curriculum = CurriculumConfig(
        packs=True, packs_two_at=3, packs_all_at=5, maps=True, map_small_min=36, map_small_max=40, map_large_min=44,
        map_large_max=50, team_alpha_end=0.7,
    )  # fmt: skip
    world = WorldConfig(size_x=50, size_y=50, size_z=16)
    config = replace(
        tiny, total_steps=1400, curriculum=curriculum, env=replace(tiny.env, world=world, num_packs=2), num_envs=3
    )
    _, events = train(config, tmp_path / "whole")
    whole = [e for e in events if isinstance(e, EventUpdate)]
    sizes, packs = ([u.curriculum[name] for u in whole] for name in ("map_size_range", "packs_per_team_range"))
    assert sizes[0] == (36, 40) and (40, 45) in sizes and sizes[-1] == (44, 50)
    assert packs[:3] == [(1, 1), (1, 1), (2, 2)] and packs[-1] == (2, 2)
    _, first = train(config, tmp_path / "cut", stop_after=4)
    _, rest = train(config, tmp_path / "cut", resume="latest")
    again = [e for e in [*first, *rest] if isinstance(e, EventUpdate)]
    for a, b in zip(whole, again, strict=True):
        assert (a.loss, a.global_step, a.curriculum) == (b.loss, b.global_step, b.curriculum)


@pytest.mark.parametrize("opponents", MIXES)
def test_resumed_battle_run_is_bit_exact(tiny, tmp_path, opponents):
    tiny = replace(tiny, opponents=MIXES[opponents])
    whole, _ = train(tiny, tmp_path / "whole")
    train(tiny, tmp_path / "cut", stop_after=2)
    cut, _ = train(tiny, tmp_path / "cut", resume="latest")
    assert (cut.update, cut.global_step, cut.episodes) == (whole.update, whole.global_step, whole.episodes)
    assert whole.checkpoint is not None and cut.checkpoint is not None
    first, second = open_checkpoint(whole.checkpoint).weights(), open_checkpoint(cut.checkpoint).weights()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert whole.evaluation is not None and cut.evaluation is not None
    assert whole.evaluation.outcomes == cut.evaluation.outcomes


def test_load_policy_builds_no_environment(tiny, tmp_path, monkeypatch):
    result, events = train(tiny, tmp_path, stop_after=1)
    update = next(e for e in events if isinstance(e, EventUpdate))
    assert update.update == 1 and set(update.actions) >= {"heavy/primary", "scout/vent"}
    found = latest_valid(tmp_path / "checkpoints").checkpoint
    assert found is not None and found.path == result.checkpoint
    monkeypatch.setattr("echelon.training.vec_env.VectorEnv.__init__", lambda *_: pytest.fail("built an environment"))
    loaded = load_policy(found.path)
    action, _ = loaded.policy.act(torch.zeros(3, loaded.policy.obs_dim), loaded.policy.initial_state(3), torch.ones(3))
    assert action.shape == (3, 26) and loaded.meta["kind"] == "suite"


def test_eval_ladder_and_heat_maps_of_trained_policy(tiny, tmp_path, capsys, jobs_in_process):
    config = replace(tiny, total_steps=1, eval=replace(tiny.eval, heat_cells=6))
    result, events = train(config, tmp_path)
    (evaluated,) = [e for e in events if isinstance(e, EventEval)]
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
    assert all(
        row["episodes"] == 2 and row["win_low"] <= row["win_rate"] <= row["win_high"] for row in ladder["levels"]
    )
    assert single_level["outcomes"] == ladder["levels"][3]["outcomes"], "a level is played as if it were alone"
    assert all(0.0 <= row["sampled_win_rate"] <= 1.0 for row in ladder["levels"])
    show_ladder(ladder)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == "level wins 95 % interval sampled its interval draws losses hp margin length".split()
    assert [line.split()[0] for line in shown[1:7]] == list(YARDSTICK)
    assert echelon(["eval", str(result.checkpoint), "--ladder", "--record"]) == 2


def test_classic_network_trains_and_resumes_on_classic_layout(tiny, tmp_path):
    config = replace(tiny, env=replace(tiny.env, obs_layout="classic"), model=replace(tiny.model, kind="classic"))
    train(config, tmp_path, stop_after=1)
    resumed, _ = train(config, tmp_path, stop_after=1, resume="latest")
    assert resumed.update == 2 and resumed.checkpoint is not None
    loaded = load_policy(resumed.checkpoint)
    assert (loaded.meta["kind"], loaded.policy.obs_dim) == ("classic", 589)
    with pytest.raises(ValueError, match="589"):
        train(tiny, tmp_path, resume="latest")
