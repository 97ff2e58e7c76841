"""``import echelon`` offers the public names, lists them, and loads nothing heavy until one is used."""

from __future__ import annotations

import pytest

import echelon


@pytest.mark.parametrize("name", echelon.__all__)
def test_public_name_loads(name):
    assert getattr(echelon, name) is not None


def test_dir_lists_exactly_the_public_names():
    assert dir(echelon) == sorted([*echelon.__all__, "__version__"])


def test_train_then_evaluate_from_python(tmp_path):
    from dataclasses import replace

    preset = echelon.get_preset("quickstart")
    config = replace(
        preset,
        num_envs=4,
        bank_maps=2,
        total_steps=300,
        env=replace(preset.env, world=echelon.WorldConfig(size_x=30, size_y=30, size_z=16), max_episode_seconds=5.0),
        ppo=replace(preset.ppo, rollout_steps=16, tbptt_chunk_length=8, num_minibatches=2),
        eval=replace(preset.eval, seeds=1, every_updates=0, at_start=False),
    )
    events = []
    result = echelon.train(config, run_dir=tmp_path, emit=events.append, seed=3)
    assert result.reason == "completed" and result.checkpoint is not None and events
    stats = echelon.evaluate(tmp_path, "easy", seeds=1)
    assert stats.episodes == 2 and 0.0 <= stats.win_low <= stats.win_rate <= stats.win_high <= 1.0


def test_train_reports_unknown_presets_and_fields():
    with pytest.raises(ValueError, match="nosuch"):
        echelon.train("nosuch")
    with pytest.raises(ValueError, match="field 'num_env' is no field of RunConfig; try 'num_envs'"):
        echelon.train("quickstart", num_env=1)
