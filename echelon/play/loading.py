"""Loads the matches that a session plays: a new one from its options, or a moment of a recording."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.arena.commander import Commander, require_orders
from echelon.arena.named_pilots import choose_pilots, level_pilot
from echelon.arena.reconstruct import require_playable
from echelon.config import EnvConfig
from echelon.config.presets import PRESETS
from echelon.config.seeds import folded
from echelon.play.catalogue import Catalogue
from echelon.play.config import DEFAULT_LEVEL, FIRST_LEVEL, TUTORIAL_S, PlayConfig
from echelon.play.match import NewMatch, PlayedMatch, TakeOver, begin_match, take_over
from echelon.play_protocol import Source, Start
from echelon.replay.figures import figures_at
from echelon.replay.match_text import SIDES, STILL, mechs_by_name
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import env_config_of
from echelon.rl.weights import LoadedPolicy
from echelon.validation import validated


def opponent_of(config: PlayConfig, catalogue: Catalogue) -> str:
    """Return the opponent of a session: after its tutorial it is that of the first real match."""
    return config.opponent or (FIRST_LEVEL if config.tutorial else catalogue.newest_run() or DEFAULT_LEVEL)


def first_match(config: PlayConfig, catalogue: Catalogue, path: Path, about: Mapping[str, Any]) -> PlayedMatch:
    """Return the match of a session's options; ``ValueError`` for pilots or a game that do not exist."""
    opponent = STILL if config.tutorial else opponent_of(config, catalogue)
    obeys = opponent if level_pilot(opponent) else DEFAULT_LEVEL
    mate = STILL if config.tutorial else config.mates or (obeys if config.command else opponent)
    hostiles, mates = (catalogue.named(name) for name in (opponent, mate))
    for name, (_, policy), is_led in ((mate, mates, config.command), (opponent, hostiles, config.commander)):
        if policy is not None and is_led:
            require_orders(env_config_of(policy.meta), name)
    loaded = [policy for _, policy in (hostiles, mates) if policy is not None]
    return begin_match(
        NewMatch(
            env=_environment(config, loaded),
            seed=folded(config.seed),
            team=SIDES[config.team],
            chassis=config.chassis,
            seats=config.seats,
            command=config.command,
            mates=mates[0],
            hostiles=hostiles[0],
            policies={pilot.path: policy for pilot, policy in (hostiles, mates) if policy},
            changes=config.changes,
            commander=Commander.from_file(config.commander) if config.commander else None,
        ),
        path,
        about,
    )


def _environment(config: PlayConfig, loaded: list[LoadedPolicy]) -> EnvConfig:
    env = EnvConfig()
    if config.preset:
        if config.preset not in PRESETS:
            raise ValueError(f"preset {config.preset!r} does not exist, expected one of: {', '.join(PRESETS)}")
        env = PRESETS[config.preset]().env
    elif loaded:
        env = validated(EnvConfig, loaded[0].meta["env_cfg"])
    env = env.without_ranges()
    size = {"size_x": config.size, "size_y": config.size} if config.size else {}
    seconds = TUTORIAL_S if config.tutorial else config.seconds
    game = {"num_packs": config.packs, "max_episode_seconds": seconds}
    game = {key: value for key, value in game.items() if value is not None}
    return replace(env, world=replace(env.world, **size), **game)


def figures_of(path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the figures of each mech in a recording, none of one that cannot be read."""
    with suppress(OSError, ValueError), Replay(path) as recorded:
        return figures_at(recorded)
    return {}


def moment_of(
    request: Start, source: Source, catalogue: Catalogue, path: Path, about: Mapping[str, Any], command: bool
) -> PlayedMatch:
    """Return a recorded match at the moment of a request; ``ValueError`` where it cannot be played on.

    To ``command`` is to command the team of the request's seat.
    """
    with Replay(catalogue.recording(source)) as recorded:
        require_playable(recorded)
        mechs = mechs_by_name(recorded.header)
        seat = request.seat or next(iter(mechs))
        if seat not in mechs:
            raise ValueError(f"seat {seat!r} does not exist, expected one of: {', '.join(mechs)}")
        # the present moment is the end of the last whole environment step
        tick = recorded.ticks if request.tick is None else request.tick
        plan = TakeOver(
            tick=tick,
            cast=choose_pilots(recorded, request.pilots, catalogue, () if command else (mechs[seat],)),
            team=recorded.header["roster"][mechs[seat]]["team"] if command else None,
            changes=request.changes,
            seed=request.seed,
        )
        return take_over(recorded, plan, path, about)
