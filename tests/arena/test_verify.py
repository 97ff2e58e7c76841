"""A recorded match plays again from its actions alone, and what was changed in it is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.arena.match import Contest, Play, play
from echelon.arena.verify import config_of, verify
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.gen.bank import bank_for
from echelon.replay.reader import Replay
from echelon.replay.record import Match, Recorder
from echelon.replay.schema import TABLES
from echelon.replay.writer import MatchWriter
from echelon.sim.arsenal import Mechanic
from tests.replay.golden import SMALL
from tests.replay.test_record import config


def matches(folder: Path, nav_mode: str = "off", **how) -> list[Path]:
    """Play and record three matches between scripted pilots."""
    contest = Contest(
        env=config(max_episode_seconds=10.0, nav_mode=nav_mode), pilots=("hard", "expert"), matches=3, first_seed=5
    )
    played = Play(folder=folder, record=frozenset(range(3)), **how)
    list(play(contest, contest.pairings(), played))
    return [played.replays[number] for number in sorted(played.replays)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return matches(tmp_path_factory.mktemp("verify"), envs=3, threads=2, policy_columns=True)


@pytest.mark.parametrize("number", range(3))
def test_a_match_of_a_batch_plays_again_alone(recorded, number):
    verdict = verify(recorded[number])
    assert verdict.ok and verdict.first is None and verdict.largest == 0.0
    with Replay(recorded[number]) as replay:
        assert verdict.chunks == len(replay.chunks) >= 3


def test_a_match_with_navigation_assist_plays_again_from_what_pilots_asked_for(tmp_path):
    (path, *_) = matches(tmp_path, "assist", envs=3, threads=1, policy_columns=True)
    verdict = verify(path)
    assert verdict.ok and verdict.largest == 0.0
    with Replay(path) as replay:
        assert config_of(replay.header).nav_mode == "assist"


def test_the_hash_does_not_depend_on_batch_and_threads(recorded, tmp_path):
    for path, other in zip(recorded, matches(tmp_path, envs=1, threads=1, policy_columns=True), strict=True):
        with Replay(path) as one, Replay(other) as two:
            assert [one.chunk(n).hash for n in range(len(one.chunks))] == [
                two.chunk(n).hash for n in range(len(two.chunks))
            ]


def tampered(path: Path, folder: Path, change, **about) -> Path:
    """Write the match again with changed frames, ``change(number, columns)``, and other entries of its header."""
    target = folder / path.name
    shutil.copytree(path.parent / "worlds", folder / "worlds", dirs_exist_ok=True)
    with Replay(path) as replay:
        header = {key: value for key, value in replay.header.items() if key != "world"} | about
        writer = MatchWriter(target, header, replay.world)
        for number in range(len(replay.chunks)):
            chunk = replay.chunk(number)
            frames = np.concatenate([chunk.frames[c["name"]] for c in header["columns"]], axis=1)
            frames[:, 0] += chunk.ref.tick0
            parts = {name: frames[:, part] for name, part in writer.layout.parts.items()}
            change(number, parts)
            tables = {t.name: np.stack(list(chunk.tables[t.name].values()), axis=1) for t in TABLES}
            for name in ("events", "clouds"):
                tables[name][:, 0] += chunk.ref.tick0
            tables["edits"] = unrolled(tables["edits"], chunk.ref.tick0)
            writer.chunk(frames, tables)
        writer.close()
    return target


def unrolled(rows, tick0):
    cells = [[t + tick0, c + i, kind] for t, c, run, kind in rows.tolist() for i in range(run)]
    return np.array(cells, np.int64).reshape(-1, 3)


def test_a_changed_figure_is_named_by_tick_field_and_mech(recorded, tmp_path):
    def change(number, parts):
        if number == 2:
            parts["hp"][4:, 3] += 7

    verdict = verify(tampered(recorded[0], tmp_path, change))
    assert not verdict.ok and verdict.first is not None
    first = verdict.first
    with Replay(recorded[0]) as replay:
        tick = int(replay.chunk(1).ticks[-1])
        expected = int(replay.chunk(2).ticks[4])
        name = replay.header["roster"][3]["name"]
    # the chain cannot be forged either: chunks before the change have another hash, but equal columns come first
    assert first.chunk in (0, 2)
    if first.chunk == 2:
        assert (first.tick, first.field, first.mech) == (expected, "hp", name) and expected > tick
        assert first.recorded - first.played == 7


def test_a_changed_action_diverges_in_what_follows(recorded, tmp_path):
    def change(number, parts):
        if number == 1:
            parts["action"][3, 0] = -parts["action"][3, 0] + 60

    path = tampered(recorded[0], tmp_path, change)
    verdict = verify(path, tolerant=True)
    assert verdict.largest > 0 or not verdict.ok


def test_tolerant_overlooks_what_is_near_and_not_what_is_far(recorded, tmp_path):
    def near(number, parts):
        parts["x"][...] += 8  # half a voxel

    def far(number, parts):
        if number == 1:
            parts["y"][2:, 0] += 40

    assert verify(tampered(recorded[1], tmp_path / "near", near), tolerant=True).ok
    first = verify(tampered(recorded[1], tmp_path / "far", far), tolerant=True).first
    assert first is not None and (first.chunk, first.field) == (1, "y")
    assert abs(first.recorded - first.played) == 2.5


def test_a_replay_without_actions_or_of_another_map_is_refused_in_one_line(recorded, tmp_path):
    with pytest.raises(ValueError, match="has no actions"):
        verify(SMALL)

    with Replay(recorded[0]) as replay:
        header = {key: value for key, value in replay.header.items() if key != "world"}
        writer = MatchWriter(tmp_path / "m.ecr", {**header, "map_seed": 12345}, replay.world)
        writer.abandon()
    with pytest.raises(ValueError, match="generates it differently"):
        verify(tmp_path / "m.ecr")


def test_a_header_says_its_whole_configuration():
    cfg = config(max_episode_seconds=10.0)
    assert (
        config_of({"config": {"max_episode_seconds": 10.0, "world.size_x": 36, "world.size_y": 36, "world.size_z": 12}})
        == cfg
    )
    assert config_of({"config": {}}) == EnvConfig()
    with pytest.raises(ValueError, match="wanted a dial"):
        config_of({"config": {"world.colour": 1}})


def test_a_match_without_parts_of_the_game_and_with_figures_of_its_own_plays_again(tmp_path):
    cfg = config(max_episode_seconds=5.0)
    changes = ({}, {"laser.damage": 28.0, "medium.hp": 90.0, "physics.smoke_life_s": 4.0})
    engine = Engine(cfg, 2, bank_for(cfg, [7]), autoreset=False, changes=changes, pilots=heuristic.install)
    engine.batch.set("forced_seed", np.array([7, 7], np.int32))
    engine.batch["forced_slot"].zero_()
    engine.batch.set("script", np.full((2, engine.num_mechs), heuristic.script_of("hard"), np.int32))
    engine.batch.withhold([Mechanic.HEAT | Mechanic.EWAR, Mechanic.MISSILES])
    engine.reset()
    recorder = Recorder(engine, [0, 1], tmp_path, [Match(name=name, map_seed=7) for name in "ab"], policy="acts")
    recorder.begin()
    for _ in range(cfg.max_steps):
        engine.step()
        recorder.after_step()
    paths = recorder.finish()
    engine.close()
    for path, without, own in zip(paths, (["heat", "ewar"], ["missiles"]), changes, strict=True):
        assert verify(path).ok
        with Replay(path) as replay:
            assert replay.header["without"] == without and replay.header["changes"] == own
            hp = {row["name"]: row["hp"] for row in replay.header["chassis"]}
            assert hp["medium"] == own.get("medium.hp", 150.0)
            assert replay.header["cloud"]["life_s"] == own.get("physics.smoke_life_s", 10.0)
    with Replay(paths[0]) as replay:
        assert not any(replay.chunk(n).frames["heat"].any() for n in range(len(replay.chunks)))
    (tmp_path / "forged").mkdir()
    first = verify(tampered(paths[0], tmp_path / "forged", lambda number, parts: None, without=[])).first
    assert first and first.chunk == 0 and first.field != "hash", "what the match was played without is not read"
