"""Files of the game for a browser: of each game the simulator as WebAssembly and a description of its arrays."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from echelon import champion
from echelon.agents import heuristic
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.files import write_output
from echelon.gen.bank import build_bank
from echelon.play import triggers
from echelon.rl.checkpoint import env_config_of, find_checkpoint
from echelon.sim.state import MapArrays
from echelon.sim.structs import fields_of
from echelon.version import SIM_VERSION
from echelon.web.compile import compile_sources
from echelon.web.play_tables import play_tables
from echelon.web.program import write_sources

GAMES = {"5v5": 1, "10v10": 2}
"""Packs per team of each game."""
PROGRAMS = ("reset", "observe", "decision", "pilots", "begin_step", "tick", "end_step", triggers.PROGRAM)
"""Programs of the engine that the module has; ``decision`` is the four that follow it, with all ticks of a step."""
MAP = sorted((fields_of(MapArrays).keys() | {"bank_flow"}) - {"bank_live", "bank_live_count"})
"""Arrays with the map, in the order of a map file; the page fills them."""

Progress = Callable[[str, int, int], None]
"""Called with a game, the number of compiled files and the total."""


def game_config(game: str) -> EnvConfig:
    """Return the configuration of a game: the champion's, with the packs of the game."""
    return replace(env_config_of(find_checkpoint(champion.FOLDER).manifest), num_packs=GAMES[game])


def web_engine(cfg: EnvConfig) -> Engine:
    """Return an engine of one match with scripted pilots and room for one map, in which every mech is observed."""
    bank = build_bank(cfg.world, [0], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox)
    engine = Engine(cfg, 1, bank, threads=1, autoreset=False, pilots=heuristic.install)
    rows = wp.zeros((1, engine.num_mechs, engine.obs_dim), dtype=wp.float32, device="cpu")
    engine.attach(rows, wp.zeros((1, 1, engine.obs_dim), dtype=wp.float32, device="cpu"))
    engine.batch.set("row_of", np.arange(engine.num_mechs, dtype=np.int32)[None])
    for name in MAP:
        engine.batch[name].zero_()
    triggers.install(engine)
    return engine


def map_file(engine: Engine, seed: int) -> bytes:
    """Return the map of a seed as the arrays ``MAP``, one after the other, and leave it in the engine."""
    cfg = engine.cfg
    bank = build_bank(cfg.world, [seed], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox)
    engine.batch.replace_all_maps(bank)
    return b"".join(engine.batch.numpy(name).tobytes() for name in MAP)


def build(folder: Path, games: Sequence[str], progress: Progress) -> dict[str, dict[str, int]]:
    """Write the files of games into ``folder``; return the bytes of each module and description."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for game in games:
        engine = web_engine(game_config(game))
        try:
            module, description = simulator(engine, lambda done, total, game=game: progress(game, done, total))
        finally:
            engine.close()
        text = json.dumps({"game": game, **description}, separators=(",", ":"))
        write_output(folder / f"{game}.wasm", module)
        write_output(folder / f"{game}.json", text)
        written[game] = {"wasm": len(module), "json": len(text)}
    return written


def simulator(engine: Engine, progress: Callable[[int, int], None]) -> tuple[bytes, dict[str, Any]]:
    """Return the WebAssembly module of an engine's programs, and the description of its arrays and actions."""
    sources = write_sources(engine.batch.backend, {name: engine.program(name) for name in PROGRAMS})
    description = {
        "sim_version": SIM_VERSION,
        "dt": engine.cfg.dt_sim,
        "ticks_per_step": engine.cfg.decision_repeat,
        "actions": engine.action_names,
        "programs": PROGRAMS,
        "arrays": sources.arrays,
        "map": MAP,
        "play": play_tables(engine),
    }
    return compile_sources(sources, progress), description
