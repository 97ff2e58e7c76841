"""The column table of each layout, and the command that prints it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer

from echelon.config import EnvConfig, ModelConfig, RunConfig, WorldConfig
from echelon.env import layout
from echelon.env.env import EchelonEnv
from echelon_cli.commands import config as commands

LAYOUTS = {"suite": 994, "classic": 549}


@pytest.mark.parametrize(("obs_layout", "width"), LAYOUTS.items())
def test_column_table_has_unique_names_and_finite_bounds(obs_layout, width):
    table = layout.columns(EnvConfig(obs_layout=obs_layout))
    assert [row.index for row in table] == list(range(width))
    assert len({row.name for row in table}) == width
    assert all(np.isfinite([row.low, row.high]).all() and row.low < row.high for row in table)


@pytest.mark.parametrize("obs_layout", LAYOUTS)
def test_masks_flags_and_maps_are_not_normalizable(obs_layout):
    free = {row.name.rpartition(".")[2] for row in layout.columns(EnvConfig(obs_layout=obs_layout)) if row.normalizable}
    never = {"padding", "blocked", "valid", "friendly", "hostile", "scout", "in_zone", "targeted", "fallen", "alive"}
    assert free and not free & never


@pytest.mark.parametrize("obs_layout", LAYOUTS)
def test_spaces_have_the_bounds_of_the_column_table(obs_layout):
    cfg = EnvConfig(obs_layout=obs_layout)
    env, (low, high) = EchelonEnv(cfg), layout.bounds(cfg)
    assert np.array_equal(env.observation_space.low, low) and np.array_equal(env.observation_space.high, high)
    assert (env.action_space.low == -1).all() and (env.action_space.high == 1).all()


def test_bounds_in_map_widths_cover_tall_worlds_and_wide_zones():
    cfg = EnvConfig(obs_layout="classic", world=WorldConfig(size_z=64), zone_radius_vox=60.0)
    rows = {row.name: row for row in layout.columns(cfg)}
    assert rows["self.zone_up"].low <= -64 / 20 and rows["self.zone_radius"].high >= 90 / 20


@pytest.mark.parametrize(("obs_layout", "width"), LAYOUTS.items())
def test_config_observation_command_prints_the_column_table(capsys, obs_layout, width):
    commands.observation(layout=obs_layout, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    cfg = EnvConfig(obs_layout=obs_layout)
    assert shown["layout"] == obs_layout and len(shown["columns"]) == width
    assert shown["columns"] == [row._asdict() for row in layout.columns(cfg)]
    chosen = [f"env.obs_layout={obs_layout}", "model.kind=classic"]
    commands.observation(assignments=chosen)
    assert f"{width - 1}  " in capsys.readouterr().out


def test_unknown_layout_is_rejected():
    with pytest.raises(typer.BadParameter, match="--layout is 'wide', (wanted|expected) suite or classic"):
        commands.observation(layout="wide")


def test_run_config_rejects_a_model_of_another_layout():
    env = EnvConfig(obs_layout="classic")
    with pytest.raises(ValueError, match=r"model.kind is 'suite', expected 'classic'.*env.obs_layout"):
        RunConfig(env=env)
    for obs_layout in LAYOUTS:
        assert RunConfig(env=replace(env, obs_layout=obs_layout), model=ModelConfig(kind="classic"))
