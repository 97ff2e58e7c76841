"""``import echelon`` offers the public names, lists them, and loads nothing heavy until one is used."""

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
    paths = echelon.runs.RunPaths(echelon.runs.runs_home() / "20260101-000000-quickstart-calm-fox")
    result = echelon.train(config, run_dir=paths.root, emit=events.append, seed=3)
    assert result.reason == "completed" and result.checkpoint is not None and events
    stats = echelon.evaluate(paths.root, "easy", seeds=1)
    assert stats.episodes == 2 and 0.0 <= stats.win_low <= stats.win_rate <= stats.win_high <= 1.0
    paths.spec.write_text('{"kind": "train"}')
    assert echelon.evaluate("calm-fox", "easy", seeds=1).win_rate == stats.win_rate
    resumed = echelon.train(config, resume="calm-fox", total_steps=result.global_step + 1)
    assert resumed.global_step > result.global_step
    started = echelon.train(config, start_from="calm-fox", total_steps=1, run_dir=tmp_path)
    assert started.reason == "completed"


def test_python_takes_the_names_of_the_command_line():
    world = echelon.WorldConfig(size_x=40, size_y=40)
    env = echelon.EnvConfig(world=world, max_episode_seconds=1.0)
    assert echelon.load_policy("champion").meta["id"]
    for policy, opponent in (("champion", "trivial"), ("heuristic:easy", "trivial"), ("easy", "heuristic:medium")):
        assert echelon.evaluate(policy, opponent, env=env, seeds=1).episodes == 2
    with pytest.raises(ValueError, match="policy is 'champoin', expected a checkpoint, a run or a league entry"):
        echelon.evaluate("champoin", env=env)
    with pytest.raises(ValueError, match="opponent is 'champion', expected a scripted level where one plays"):
        echelon.evaluate("easy", "champion", env=env)


def test_train_reports_unknown_presets_files_and_fields(tmp_path):
    with pytest.raises(ValueError, match="nosuch"):
        echelon.train("nosuch")
    with pytest.raises(ValueError, match=r"config file 'nosuch\.toml' does not exist"):
        echelon.train("nosuch.toml")
    (tmp_path / "mine.toml").write_text("num_envs = -1\n")
    for file in (tmp_path / "mine.toml", str(tmp_path / "mine.toml")):
        with pytest.raises(ValueError, match="num_envs is -1"):
            echelon.train(file)
    with pytest.raises(ValueError, match="field 'num_env' is no field of RunConfig; try 'num_envs'"):
        echelon.train("quickstart", num_env=1)
