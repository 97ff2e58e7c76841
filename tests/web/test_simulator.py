"""The simulator as WebAssembly plays as the native one, bit for bit."""

import gzip
import importlib.util
import json
import math

import numpy as np
import pytest

from echelon import champion
from echelon.actions import ACTION_DIM
from echelon.agents import heuristic
from echelon.config import EnvConfig, WorldConfig
from echelon.env import layout
from echelon.env.engine import FIELDS, Engine
from echelon.gen.bank import build_bank, stack_maps
from echelon.gen.generate import generate
from echelon.replay.reader import Replay
from echelon.sim import step
from echelon.sim.backend import Launch
from echelon.sim.batch import Batch
from echelon.sim.kernels import motion, upkeep
from echelon.web import build, matches
from echelon.web.compile import compile_sources
from echelon.web.program import Sources, write_sources
from echelon_cli.main import run
from echelon_cli.output import USAGE
from tests.laws import test_golden as golden
from tests.state_hash import state_hash
from tests.web.in_node import Begin, Compiled, compiled_game, digest_of, first_difference, needs_node, play_in_node

SMALL = EnvConfig(world=WorldConfig(size_x=40, size_y=40))
TURNS, HELD = 60, 20
"""Ticks, and those that an action is held."""
MODULE_BYTES = 1 << 20
"""Largest module of a game; a page sends it compressed to a fifth."""
PAGE_BYTES = 3 << 20
"""Most bytes that a page sends in all."""
DECISIONS, EVERY = 125, 21
"""Decisions of a match, and programs between digests; ``everywhere`` plays more matches."""
MATCHES = ["reset", *["decision"] * DECISIONS] * 2
"""Programs of matches, of which each draws its seed."""
MOVES = [*step.read_actions(), Launch(upkeep.clock, "E"), Launch(upkeep.timers, "EM"), Launch(motion.move, "E")]
PROGRAMS = {"reset": step.reset("every"), "move": MOVES}
ODD = (np.nan, -np.inf, np.float32(1e-41), -0.0)
"""Entries of actions that are not finite, denormal or a negative zero."""


@pytest.fixture
def moving() -> Batch:
    """A batch of one match on a small map, with actions."""
    bank = stack_maps([generate(SMALL.world, 5, num_packs=1, zone_radius_vox=SMALL.zone_radius_vox)])
    batch = Batch(SMALL, 1, bank, threads=1, seed=9)
    batch.lengths["A"] = batch.backend.lengths["A"] = ACTION_DIM
    batch.add_fields({"actions": FIELDS["actions"]})
    return batch


@needs_node
def test_small_programs_play_as_native_ones(moving, tmp_path):
    sources = write_sources(moving.backend, PROGRAMS)
    names = list(sources.arrays)
    drawn = np.random.default_rng(3).uniform(-1.5, 1.5, (TURNS // HELD, *moving.numpy("actions").shape))
    actions = np.repeat(drawn.astype(np.float32), HELD, axis=0)
    actions[:3, ..., : len(ODD)] = ODD
    compiled = Compiled(compile_sources(sources), {"arrays": sources.arrays})
    played = play_in_node(tmp_path, compiled, moving, ["reset", *["move"] * TURNS], {"actions": actions})
    reset, move = (moving.capture(program) for program in PROGRAMS.values())
    reset()
    began, native = moving.numpy("pos").copy(), [digest_of(moving, names)]
    for row in actions:
        moving.set("actions", row)
        move()
        native.append(digest_of(moving, names))
    moved = np.abs(moving.numpy("pos") - began).max(axis=(0, 2))
    assert (moved > 0.25).all(), f"every mech moves: {moved}"
    assert first_difference(native, played.arrays) is None
    assert len(set(native)) == TURNS + 1


def test_equal_launches_and_structs_are_written_once(moving):
    text = write_sources(moving.backend, {"move": [*MOVES, *MOVES]}).program
    assert text.count("struct Mechs_") == 1
    launches = text.split("static const Launch launches[] = {")[1].split("};")[0]
    assert launches.count("_cpu_forward") == len(MOVES)


def test_initial_values_are_those_of_the_arrays(moving):
    text = write_sources(moving.backend, PROGRAMS).program
    assert "array_forced_seed[4] = {255, 255, 255, 255};" in text
    assert "array_tick[4];" in text


@needs_node
def test_compiler_fault_is_one_line():
    with pytest.raises(ValueError, match="^zig c\\+\\+ fails with .*, expected WebAssembly; try") as failed:
        compile_sources(Sources(program="not a program", modules={}, arrays={}, exports=()))
    assert "\n" not in str(failed.value)


def test_missing_compiler_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="package 'ziglang' is not installed, .*echelon\\[web\\]"):
        compile_sources(Sources(program="", modules={}, arrays={}, exports=()))


def test_every_game_has_a_configuration():
    assert [build.game_config(game).num_mechs for game in build.GAMES] == [10, 20]


def test_unknown_game_is_refused(tmp_path, capsys):
    assert run(["web", "build", str(tmp_path), "--game", "3v3"]) == USAGE
    assert "--game '3v3' is unknown, expected one of 5v5, 10v10" in capsys.readouterr().err


@pytest.mark.long
@needs_node
def test_build_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MAPS", 2)
    monkeypatch.setattr(matches, "SEEDS", 1)
    sizes = build.build(tmp_path, ["5v5"], champion.FOLDER, champion.NAME, lambda text: None)
    manifest = json.loads((tmp_path / "game.json").read_text(encoding="utf-8"))
    game = manifest["games"]["5v5"]
    module, description, *maps = (
        gzip.decompress((tmp_path / path).read_bytes()) for path in (game["module"], game["description"], *game["maps"])
    )
    cfg = build.game_config("5v5")
    assert module.startswith(b"\0asm") and len(module) < MODULE_BYTES
    described = json.loads(description)
    arrays = described["arrays"]
    assert arrays["obs"] == {"dtype": "float32", "shape": [1, cfg.num_mechs, layout.obs_dim(cfg)]}
    map_bytes = sum(
        math.prod(arrays[name]["shape"]) * np.dtype(arrays[name]["dtype"]).itemsize for name in described["map"]
    )
    assert [len(data) for data in maps] == [map_bytes] * build.MAPS and maps[0] != maps[1]
    assert [row["red"] for row in manifest["matches"]] == list(heuristic.SKILLS)
    for row in manifest["matches"]:
        with Replay(tmp_path / row["path"]) as replay:
            assert replay.complete and replay.load_world()
    weights = gzip.decompress((tmp_path / manifest["policy"]["weights"]).read_bytes())
    parts = json.loads(gzip.decompress((tmp_path / manifest["policy"]["description"]).read_bytes()))["parts"]
    assert len(weights) == sum(size for _, _, size in parts)
    assert sum(sizes.values()) < PAGE_BYTES


def match(cfg: EnvConfig, map_seed: int, seed: int, *pilots: str) -> Engine:
    """Return an engine that differs from one of the page only in its map, its seed (-1: drawn) and its pilots."""
    engine = build.web_engine(cfg)
    bank = build_bank(cfg.world, [map_seed], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox)
    engine.batch.replace_all_maps(bank)
    engine.batch.set("forced_seed", np.array([seed], np.int32))
    engine.batch.set("forced_slot", np.zeros(1, np.int32))
    script = np.repeat([heuristic.script_of(pilot) for pilot in pilots], cfg.num_mechs // 2)
    engine.batch.set("script", script[None].astype(np.int32))
    return engine


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("pilots", [("expert", "expert"), ("hard", "trivial")], ids="-".join)
@pytest.mark.parametrize("game", build.GAMES)
def test_matches_play_as_natively(tmp_path, game, pilots):
    cfg = build.game_config(game)
    simulator = compiled_game(cfg)
    engine = match(cfg, 11, -1, *pilots)
    played = play_in_node(tmp_path, simulator, engine.batch, MATCHES, after=range(0, len(MATCHES), EVERY))
    states, arrays, seeds, least = [], [], set(), cfg.num_mechs
    for i, name in enumerate(MATCHES):
        engine.run(name)
        if i % EVERY == 0:
            states.append(state_hash(engine.batch, 0))
            arrays.append(digest_of(engine.batch, simulator.arrays))
        seeds.add(int(engine.batch.numpy("seed")[0]))
        least = min(least, int(engine.batch.numpy("alive").sum()))
    assert len(seeds) == MATCHES.count("reset") and least < cfg.num_mechs, "matches are fought and differ"
    assert first_difference(states, played.state) is None
    assert first_difference(arrays, played.arrays) is None


@pytest.mark.long
@needs_node
def test_match_that_a_page_starts_plays_as_natively(tmp_path):
    cfg = build.game_config("5v5")
    simulator = compiled_game(cfg)
    engine = match(cfg, 12, 5, "expert", "hard")
    begin = Begin(build.map_file(engine, 12), 5, engine.batch.numpy("script")[0].tolist())
    programs = ["start", *["decision"] * DECISIONS] * 2
    played = play_in_node(
        tmp_path, simulator, engine.batch, programs, begin=begin, after=range(0, len(programs), EVERY)
    )
    native = []
    for i, name in enumerate(("reset", *programs[1 : DECISIONS + 1])):
        engine.run(name)
        if i % EVERY == 0:
            native.append(digest_of(engine.batch, simulator.arrays))
    assert first_difference(native * 2, played.arrays) is None


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("seed", golden.SEEDS)
@pytest.mark.parametrize("pilot", golden.PILOTS)
def test_golden_battle_has_its_hashes(tmp_path, pilot, seed):
    engine = match(golden.CFG, seed, seed, pilot, pilot)
    steps = golden.DECISIONS
    programs = ["reset", *["decision"] * max(steps)]
    played = play_in_node(tmp_path, compiled_game(golden.CFG), engine.batch, programs, after=steps)
    stored = json.loads(golden.GOLDEN.read_text(encoding="utf-8"))[f"battles of {pilot}"][str(seed)]
    assert {str(n): state for n, state in zip(steps, played.state, strict=True)} == stored
