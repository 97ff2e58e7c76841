"""Every way in which the product reads a replay or a world file, for tests of hostile files.

Each reader takes a path; what it may raise is declared beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from echelon.arena.reconstruct import action_entries, moment_tick, recorded_pilots, recorded_steps, require_playable
from echelon.atlas.scene import scene_from_map, scene_from_replay
from echelon.atlas.world_file import WorldFileError, load_world
from echelon.replay.codec import ReplayError
from echelon.replay.embed import embed_world
from echelon.replay.extra_records import read_seats, read_state, state_heads
from echelon.replay.reader import Replay
from echelon.server.catalogue import summarize
from echelon.server.responses import strict_json
from echelon_cli.commands.replay import _rows, describe


def open_replay(path: Path) -> None:
    with Replay(path) as replay:
        strict_json(summarize("id", "run", path, replay, True))


def serve_replay(path: Path) -> None:
    with Replay(path) as replay:
        strict_json({"header": replay.header})
        for n in range(len(replay.chunks)):
            replay.chunk_bytes(n)
        strict_json(replay.timeline())


def decode_replay(path: Path) -> None:
    with Replay(path) as replay:
        for n in range(len(replay.chunks)):
            replay.chunk(n)


def describe_replay(path: Path) -> None:
    """Show a replay as ``replay info`` does."""
    with Replay(path) as replay:
        strict_json(found := describe(replay))
        _rows(found)


def export_replay(path: Path) -> None:
    with Replay(path) as replay:
        data = embed_world(replay)
    exported = path.with_suffix(".exported")
    exported.write_bytes(data)
    Replay(exported).close()


def rank_moments(path: Path) -> None:
    """Read the turning points of a replay, as ``replay moments`` does."""
    with Replay(path) as replay:
        strict_json(replay.timeline()["moments"])


def draw_replay(path: Path) -> None:
    with Replay(path) as replay:
        scene_from_replay(replay)


def prepare_verification(path: Path) -> None:
    with Replay(path) as replay:
        if not action_entries(replay.header):
            return
        require_playable(replay)
        recorded_pilots(replay)
        moment_tick(replay, replay.ticks)
        for _ in recorded_steps(replay, 0, replay.ticks):
            pass


def read_extra_records(path: Path) -> None:
    with Replay(path) as replay:
        for head in state_heads(replay):
            read_state(replay, head)
        read_seats(replay)


def load_map(path: Path) -> None:
    scene_from_map(load_world(path))


READERS: tuple[tuple[Callable[[Path], None], type[Exception]], ...] = (
    (open_replay, ReplayError),
    (serve_replay, ReplayError),
    (decode_replay, ReplayError),
    (describe_replay, ReplayError),
    (export_replay, ReplayError),
    (rank_moments, ReplayError),
    (draw_replay, ReplayError),
    (prepare_verification, ValueError),
    (read_extra_records, ReplayError),
)
"""Readers of replays and the only error that each may raise."""
WORLD_READERS = ((load_map, WorldFileError),)
"""Readers of world files and the only error that each may raise."""
