"""Matches recorded with their actions, and their exact states at some moments as the recording run had them."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from echelon.agents import heuristic
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.env.match_state import State, save_match_state
from echelon.gen.bank import build_bank_for
from echelon.replay.header import TeamInfo
from echelon.replay.record import MatchInfo, PolicyColumnMode, Recorder
from tests.state_hash import state_hash


@dataclass(frozen=True)
class Played:
    """A recorded match, and its states, hashes and observations ``[M, D]`` by tick."""

    path: Path
    states: dict[int, State] = field(default_factory=dict)
    hashes: dict[int, str] = field(default_factory=dict)
    obs: dict[int, np.ndarray] = field(default_factory=dict)


def attach_rows(engine: Engine) -> np.ndarray:
    """Let an engine write the observation of every mech into the returned array ``[E, M, D]``."""
    shape = engine.num_envs, engine.num_mechs
    rows = np.zeros((1, shape[0] * shape[1], engine.obs_dim), np.float32)
    engine.attach(rows, np.zeros_like(rows))
    engine.batch.set("row_of", np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape))
    return rows[0].reshape(*shape, -1)


def small_game(packs: int = 1, size: int = 40, seconds: float = 24.0, **env) -> EnvConfig:
    base = EnvConfig()
    world = replace(base.world, size_x=size, size_y=size, size_z=14)
    return replace(base, world=world, num_packs=packs, max_episode_seconds=seconds, **env)


def record_matches(
    folder: Path,
    cfg: EnvConfig,
    *,
    seeds: Collection[int] = (9,),
    steps: Collection[int] = (),
    policy: PolicyColumnMode = "actions",
    levels: tuple[str, str] = ("trivial", "trivial"),
    threads: int = 1,
    random_mech: bool = True,
) -> list[Played]:
    """Record a match per seed in one batch and note the states after ``steps``.

    With ``random_mech`` blue's first mech acts at random.
    """
    count, draws = len(seeds), np.random.default_rng(3)
    bank = build_bank_for(cfg, list(seeds))
    engine = Engine(cfg, count, bank, threads=threads, autoreset=False, pilots=heuristic.install)
    batch, half, rows = engine.batch, engine.num_mechs // 2, attach_rows(engine)
    batch.set("forced_seed", np.array(list(seeds), np.int32))
    batch.set("forced_slot", np.arange(count, dtype=np.int32))
    script = np.tile(np.repeat([heuristic.script_of(level) for level in levels], half), (count, 1)).astype(np.int32)
    if random_mech:
        script[:, 0] = 0
    batch.set("script", script)
    engine.reset()
    teams = tuple(TeamInfo(name=level, level=f"heuristic:{level}") for level in levels)
    matches = [MatchInfo(name=f"m{seed}", teams=teams, map_seed=seed) for seed in seeds]  # type: ignore[arg-type]
    recorder = Recorder(engine, range(count), folder, matches, policy=policy)
    recorder.begin()
    played = [Played(path) for path in recorder.paths]
    running = np.ones(count, bool)
    for step in range(1, cfg.max_steps + 1):
        actions = batch.numpy("actions").copy()
        actions[:, 0] = draws.uniform(-1.0, 1.0, actions[:, 0].shape)
        batch.set("actions", actions)
        engine.step()
        recorder.after_step()
        if step in steps:
            for env in np.flatnonzero(running).tolist():
                tick = int(batch.numpy("tick")[env])
                played[env].states[tick] = save_match_state(engine, env)
                played[env].hashes[tick] = state_hash(batch, env)
                played[env].obs[tick] = rows[env].copy()
        running &= batch.numpy("over") == 0
        if not running.any():
            break
    recorder.finish()
    engine.close()
    return played
