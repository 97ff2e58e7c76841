"""The page of the game: of each game the simulator as WebAssembly and a description of its arrays, and the viewer."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from echelon import champion
from echelon.agents import heuristic
from echelon.config import EnvConfig, with_fairness
from echelon.env.engine import Engine
from echelon.gen.bank import build_bank
from echelon.play import triggers
from echelon.replay.match_text import STILL
from echelon.rl.checkpoint import env_config_of, find_checkpoint
from echelon.rl.weights import load_policy
from echelon.server.routes import STATIC
from echelon.sim.state import MapArrays
from echelon.sim.structs import fields_of
from echelon.version import SIM_VERSION
from echelon.web import record_tables
from echelon.web.compile import compile_sources
from echelon.web.folder import PageFolder
from echelon.web.matches import record_matches
from echelon.web.play_tables import play_tables
from echelon.web.policy import policy_files, policy_module
from echelon.web.program import write_sources

GAMES = {"5v5": 1, "10v10": 2}
"""Packs per team of each game."""
MAPS = 24
"""Maps of each game, those of the seeds from 0."""
PROGRAMS = (
    *("reset", "observe", "decision", "pilots", "begin_step", "tick", "end_step", "frame"),
    *(triggers.PROGRAM, record_tables.TUTORIAL_STEP),
)
"""Programs of the engine that the module has; ``decision`` is the four that follow it, with all ticks of a step."""
MAP = sorted((fields_of(MapArrays).keys() | {"bank_flow"}) - {"bank_live", "bank_live_count"})
"""Arrays with the map, in the order of a map file; the page fills them."""


def game_config(game: str, policy: Path = champion.FOLDER) -> EnvConfig:
    """Return the configuration of a game: the policy's, on fair maps and with the packs of the game."""
    env = with_fairness(env_config_of(find_checkpoint(policy).manifest).without_ranges(), "path")
    return replace(env, num_packs=GAMES[game])


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
    record_tables.install(engine)
    return engine


def map_file(engine: Engine, seed: int) -> bytes:
    """Return the map of a seed as the arrays ``MAP``, one after the other, and leave it in the engine."""
    cfg = engine.cfg
    bank = build_bank(cfg.world, [seed], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox)
    engine.batch.replace_all_maps(bank)
    return b"".join(engine.batch.numpy(name).tobytes() for name in MAP)


def build(folder: Path, games: Sequence[str], policy: Path, name: str, show: Callable[[str], Any]) -> dict[str, int]:
    """Write the page with a policy called ``name`` into ``folder``; return the bytes of each file in it.

    ``ValueError`` for a name of a scripted pilot. ``show`` is called with what is being done, in a few words.
    """
    if name in (STILL, *heuristic.SKILLS):
        raise ValueError(f"policy {name!r} has the name of a scripted pilot, expected another; rename its folder")
    page = PageFolder(folder, STATIC)
    configs = {game: game_config(game, policy) for game in games}
    flown = _add_policy(page, policy, name, max(cfg.num_mechs for cfg in configs.values()), show)
    played = {game: _add_game(page, game, cfg, show) for game, cfg in configs.items()}
    recorded = record_matches(policy, name, configs[games[0]], show)
    matches = [{**row, "path": page.add(row["file"], replay, packed=False)} for row, replay in recorded]
    return page.finish({"sim_version": SIM_VERSION, "policy": flown, "games": played, "matches": matches})


def _add_policy(page: PageFolder, path: Path, name: str, mechs: int, show: Callable[[str], Any]) -> dict[str, Any]:
    """Add a policy that flies at most ``mechs`` mechs; return its name, checkpoint and files."""
    show(f"compiling {name}")
    loaded = load_policy(path)
    description, weights = policy_files(loaded.policy, mechs, name)
    files = {
        "module": page.add("policy.wasm", policy_module()),
        "description": page.add("policy.json", json.dumps(description, separators=(",", ":")).encode()),
        "weights": page.add("policy.bin", weights),
    }
    return {"name": name, "checkpoint": str(loaded.meta.get("id", "")), **files}


def _add_game(page: PageFolder, game: str, cfg: EnvConfig, show: Callable[[str], Any]) -> dict[str, Any]:
    """Add the files of a game; return their paths."""
    engine = web_engine(cfg)
    maps = []
    try:
        module, description = simulator(engine, lambda done, total: show(f"compiling {game}: {done} of {total} files"))
        for seed in range(MAPS):
            show(f"{game}: map {seed + 1} of {MAPS}")
            maps.append(page.add(f"maps/{game}-{seed}.map", map_file(engine, seed)))
    finally:
        engine.close()
    text = json.dumps({"game": game, **description}, separators=(",", ":"))
    files = {"module": page.add(f"{game}.wasm", module), "description": page.add(f"{game}.json", text.encode())}
    return {**files, "maps": maps}


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
        "record": record_tables.record_tables(engine),
    }
    return compile_sources(sources, progress), description
