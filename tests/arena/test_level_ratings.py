"""Ratings of the scripted levels from a round robin of full matches."""

from __future__ import annotations

import json
import os

import pytest

from echelon.arena.config import ArenaConfig
from echelon.arena.rounds import RoundCallbacks, play_rounds
from echelon.arena.standings import head_to_head, standings
from echelon.arena.store import DEFAULT_LEVELS, Store, add_default_levels
from echelon.arena.submit import league_env_config
from echelon.config import EnvConfig, WorldConfig

SMALL_MAP = WorldConfig(size_x=60, size_y=60, size_z=20, max_distance_ratio=1.25)
"""A fair map, so that sides have no advantage."""


@pytest.mark.slow
def test_round_robin_recovers_level_order(tmp_path):
    with Store(tmp_path / "league.db") as store:
        add_default_levels(store)
        league_env_config(store, EnvConfig(world=SMALL_MAP))
        assert play_rounds(
            store, "levels", ArenaConfig(rounds=3, seeds=8, envs=64), tmp_path / "replays", RoundCallbacks()
        )
        table = standings(store)
        if out := os.environ.get("ECHELON_FIGURES"):
            with open(out, "w") as file:
                json.dump({"standings": table, "pairs": head_to_head(store)["pairs"]}, file)
        assert [row["name"] for row in table] == list(DEFAULT_LEVELS[::-1])
        assert all(row["games"] == 192 and row["rd"] < 60 for row in table)
        assert store.recompute() == {}
