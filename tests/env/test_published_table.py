"""The table of columns that each layout publishes, and the command that prints it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import typer

from echelon.config import EnvConfig, ModelConfig, RunConfig, WorldConfig
from echelon.env.env import EchelonEnv
from echelon.env.observe import columns as observe
from echelon_cli.commands import config as commands

LAYOUTS = {"suite": 867, "classic": 589}


@pytest.mark.parametrize(("layout", "width"), LAYOUTS.items())
def test_a_table_has_a_row_for_every_column_with_finite_bounds(layout, width):  # RL-22 (MED-1)
    table = observe.layout(EnvConfig(obs_layout=layout))
    assert [row.index for row in table] == list(range(width))
    assert len({row.name for row in table}) == width
    assert all(np.isfinite([row.low, row.high]).all() and row.low < row.high for row in table)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_masks_flags_words_and_maps_are_never_normalised(layout):  # RL-127 (DR-M7)
    free = {row.name.rpartition(".")[2] for row in observe.layout(EnvConfig(obs_layout=layout)) if row.normalizable}
    never = {"padding", "blocked", "valid", "friendly", "hostile", "scout", "in_zone", "targeted", "fallen", "alive"}
    assert free and not free & never and not any(name.startswith("word_") for name in free)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_spaces_have_the_bounds_of_the_table(layout):  # RL-11 (HIGH-5)
    cfg = EnvConfig(obs_layout=layout)
    env, (low, high) = EchelonEnv(cfg), observe.bounds(cfg)
    assert np.array_equal(env.observation_space.low, low) and np.array_equal(env.observation_space.high, high)
    assert (env.action_space.low == -1).all() and (env.action_space.high == 1).all()


def test_bounds_in_map_widths_hold_for_tall_worlds_and_wide_zones():
    cfg = EnvConfig(obs_layout="classic", world=WorldConfig(size_z=64), zone_radius_vox=60.0)
    rows = {row.name: row for row in observe.layout(cfg)}
    assert rows["self.zone_up"].low <= -64 / 20 and rows["self.zone_radius"].high >= 90 / 20


@pytest.mark.parametrize(("layout", "width"), LAYOUTS.items())
def test_the_command_prints_the_table(capsys, layout, width):
    assert commands.observation(layout=layout, as_json=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["layout"] == layout and len(shown["columns"]) == width
    cfg = replace(EnvConfig(), obs_layout=layout)
    assert shown["columns"] == [row._asdict() for row in observe.layout(cfg)]
    assert commands.observation(assignments=[f"env.obs_layout={layout}", "model.kind=classic"]) == 0
    assert f"{width - 1}  " in capsys.readouterr().out


def test_a_layout_that_does_not_exist_is_named():
    with pytest.raises(typer.BadParameter, match="--layout is 'wide', wanted suite or classic"):
        commands.observation(layout="wide")


def test_layout_and_model_must_fit_together():
    env = EnvConfig(obs_layout="classic")
    with pytest.raises(ValueError, match=r"model.kind is 'suite', wanted 'classic'.*env.obs_layout = 'classic'"):
        RunConfig(env=env)
    for layout in LAYOUTS:
        assert RunConfig(env=replace(env, obs_layout=layout), model=ModelConfig(kind="classic"))
