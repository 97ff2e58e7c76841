"""Plays a recorded match again from its actions, and says whether, when and in what it differs from its recording.

The match is played alone, on the map of its seed, with the actions that were applied, and recorded once more; the two
recordings are compared chunk by chunk. ``strict`` wants equal hashes and equal columns; ``tolerant``, for another
device or version, wants the columns of each mech within the bounds of ``BOUNDS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.gen.bank import build_bank
from echelon.replay.codec import world_hash
from echelon.replay.reader import Chunk, Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import MechFlag
from echelon.replay.writer import world_payload
from echelon.sim.arsenal import mechanics_of

BOUNDS: Mapping[str, float] = {
    "tick": 0.0, "x": 1.0, "y": 1.0, "z": 1.0, "hp": 5.0, "leg_hp": 5.0, "heat": 5.0, "stability": 10.0,
}  # fmt: skip
"""How far a column may be off in ``tolerant`` [its unit]; the others may differ."""
EDITS, BASE = "edits", "base"
"""Tables of what became of the map, in this chunk and before it."""
DATED_EDITS = [2, 1]
"""First schema whose edits have the tick in which they were made."""
NOT_PLAYED = ("value",)
"""Columns that the simulator does not compute."""


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """Where a replay first differs."""

    chunk: int
    tick: int
    field: str
    """A frame column, a table and its column, ``length`` or ``hash``."""
    mech: str = ""
    recorded: float = 0.0
    played: float = 0.0


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What became of playing a match again."""

    ok: bool
    mode: str
    chunks: int
    """Chunks that agree, from the first."""
    seconds: float
    """Length of the match [s]."""
    first: Divergence | None = None
    largest: float = 0.0
    """Largest deviation of a position [vox]."""


def verify(path: Path, *, tolerant: bool = False, device: str = "cpu") -> VerifyResult:
    """Play the match at ``path`` again and compare; ``ValueError`` where it cannot be played."""
    with Replay(path) as recorded, TemporaryDirectory(prefix="echelon-verify-") as folder:
        if "insight" not in recorded.header:
            raise ValueError(
                f"replay {path.name!r} has no actions, wanted one recorded with its policy columns (sim --insight)"
            )
        again = replay_actions(recorded, Path(folder), device)
        with Replay(again) as played:
            return compare(recorded, played, tolerant=tolerant)


def config_from_header(header: Mapping[str, Any]) -> EnvConfig:
    """Return the configuration that a header's differences from the default describe."""
    cfg: Any = EnvConfig()
    for key, value in header["config"].items():
        cfg = _with(cfg, key.split("."), value, key)
    return cfg


def _with(part: Any, names: list[str], value: Any, key: str) -> Any:
    if not is_dataclass(part) or names[0] not in asdict(part):  # type: ignore[arg-type]
        raise ValueError(f"config of the replay has {key!r}, wanted a dial of this version")
    old = getattr(part, names[0])
    if len(names) > 1:
        return replace(part, **{names[0]: _with(old, names[1:], value, key)})  # type: ignore[type-var]
    return replace(part, **{names[0]: tuple(value) if isinstance(old, tuple) else value})  # type: ignore[type-var]


def replay_actions(recorded: Replay, folder: Path, device: str) -> Path:
    """Play the recorded actions and return the new recording."""
    header = recorded.header
    cfg = config_from_header(header)
    bank = build_bank(
        cfg.world, [int(header["map_seed"])], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox
    )
    engine = Engine(cfg, 1, bank, device=device, autoreset=False, changes=[header.get("changes", {})])
    try:
        engine.batch.set("forced_seed", np.array([header["seed"]], np.int32))
        engine.batch.set("forced_slot", np.zeros(1, np.int32))
        engine.batch.withhold([mechanics_of(header.get("without", ()))])
        packs = {mech["pack"] for mech in header["roster"] if mech["team"] == 0 and mech["present"]}
        engine.batch.set("packs", np.array([max(1, len(packs))], np.int32))
        engine.reset()
        _check_start(recorded, engine)
        match = MatchInfo(name="again", map_seed=int(header["map_seed"]))
        recorder = Recorder(engine, [0], folder, [match], policy="acts")
        recorder.begin()
        spec = next(column for column in header["columns"] if column["name"] == "action")
        for number in range(len(recorded.chunks)):
            actions = recorded.chunk(number).frames["action"][1:].astype(np.float32) * np.float32(spec["scale"])
            for row in actions:
                engine.batch.set("actions", row.reshape(1, header["mechs"], int(spec["k"])))
                engine.step()
                recorder.after_step()
        (path,) = recorder.finish()
    finally:
        engine.close()
    return path


def _check_start(recorded: Replay, engine: Engine) -> None:
    header = recorded.header
    if engine.num_mechs != header["mechs"] or engine.action_dim != len(header["insight"]["actions"]):
        raise ValueError(
            f"replay {recorded.path.name!r} has {header['mechs']} mechs with {len(header['insight']['actions'])} "
            f"actions, its configuration {engine.num_mechs} with {engine.action_dim}"
        )
    x, y, z = header["world"]["size"]
    found = world_hash(world_payload(engine.batch.numpy("material")[0][:z, :y, :x]))
    if found != header["world"]["sha256"]:
        raise ValueError(
            f"map of seed {header['map_seed']} is {found[:12]} here, replay {recorded.path.name!r} was played on "
            f"{header['world']['sha256'][:12]}: this version generates it differently"
        )


def compare(recorded: Replay, played: Replay, *, tolerant: bool = False) -> VerifyResult:
    """Compare a recording with another of the same match, chunk by chunk."""
    hz, mode = float(recorded.header["tick_hz"]), "tolerant" if tolerant else "strict"
    largest, first, number = 0.0, None, 0
    for number in range(len(recorded.chunks)):
        if number >= len(played.chunks):
            first = Divergence(chunk=number, tick=played.ticks, field="length")
            break
        one, two = recorded.chunk(number), played.chunk(number)
        largest = max(largest, _farthest(recorded, one, two))
        first = _difference(recorded, number, one, two, tolerant)
        if first is not None:
            break
    if first is None and not tolerant and _map_differs(recorded, played):
        first = Divergence(chunk=len(recorded.chunks) - 1, tick=recorded.ticks, field=EDITS)
    agreed = number if first is not None else len(recorded.chunks)
    return VerifyResult(
        ok=first is None, mode=mode, chunks=agreed, seconds=recorded.ticks / hz, first=first, largest=largest
    )


def _dates_edits(replay: Replay) -> bool:
    return list(replay.header["schema"]) >= DATED_EDITS


def _map_differs(recorded: Replay, played: Replay) -> bool:
    """Return whether the voxels differ at the end, which is all that can be asked where edits have no date."""
    if _dates_edits(recorded):
        return False
    return bool((_voxels_left(recorded, recorded) != _voxels_left(recorded, played)).any())


def _voxels_left(world: Replay, replay: Replay) -> NDArray[np.uint8]:
    """Return the material of every cell at the end, whenever it was changed."""
    voxels = world.materials().ravel().copy()
    for number in range(len(replay.chunks)):
        edits = replay.chunk(number).tables[EDITS]
        for first, run, kind in zip(*(edits[name].ravel() for name in ("cell", "run", "material")), strict=True):
            voxels[first : first + run] = kind
    return voxels


def _difference(replay: Replay, number: int, one: Chunk, two: Chunk, tolerant: bool) -> Divergence | None:
    """Return the earliest difference of a chunk: its first frame, and in it the first column."""
    if len(one.ticks) != len(two.ticks):
        frames = min(len(one.ticks), len(two.ticks))
        return Divergence(chunk=number, tick=int(one.ticks[frames - 1]), field="length")
    found: list[tuple[int, int, str]] = []
    for order, column in enumerate(replay.header["columns"]):
        name = column["name"]
        if name in NOT_PLAYED or name not in two.frames or (tolerant and name not in BOUNDS):
            continue
        apart = np.abs(one.frames[name] - two.frames[name]) * column["scale"] > (BOUNDS[name] if tolerant else 0.0)
        if apart.any():
            found.append((int(np.flatnonzero(apart.any(axis=1))[0]), order, name))
    if found:
        frame, _, name = min(found)
        return _named(replay, number, one, two, frame, name)
    if tolerant:
        return None
    undated = () if _dates_edits(replay) else (EDITS, BASE)
    for name in (name for name in one.tables if name not in undated):
        if (row := _row_apart(number, one, two, name)) is not None:
            return row
    return None if one.hash == two.hash else Divergence(chunk=number, tick=one.ref.tick1, field="hash")


def _named(replay: Replay, number: int, one: Chunk, two: Chunk, frame: int, name: str) -> Divergence:
    column = next(c for c in replay.header["columns"] if c["name"] == name)
    a, b = one.frames[name][frame], two.frames[name][frame]
    at = int(np.argmax(np.abs(a - b)))
    mech = replay.header["roster"][at // column["k"]]["name"] if column["per"] == "mech" else ""
    return Divergence(
        chunk=number,
        tick=int(one.ticks[frame]),
        field=name,
        mech=mech,
        recorded=float(a[at]) * column["scale"],
        played=float(b[at]) * column["scale"],
    )


def _row_apart(number: int, one: Chunk, two: Chunk, name: str) -> Divergence | None:
    """Return the first row in which two tables differ, and its first column that does; the table where a row lacks."""
    a, b = (_rows(chunk.tables[name]) for chunk in (one, two))
    columns, common = list(one.tables[name]), min(len(a), len(b))
    row, column = (list(part) for part in np.nonzero(a[:common] != b[:common]))
    if row:
        at, i = int(row[0]), int(column[0])
        field, values = f"{name}.{columns[i]}", (float(a[at, i]), float(b[at, i]))
    elif len(a) == len(b):
        return None
    else:
        at, field, values = common, name, (float(len(a)), float(len(b)))
    shown = a if at < len(a) else b
    ticks = {"tick": lambda t: one.ref.tick0 + t, "frame": lambda f: int(one.ticks[min(f, len(one.ticks) - 1)])}
    tick = next((when(int(shown[at, columns.index(key)])) for key, when in ticks.items() if key in columns), None)
    return Divergence(
        chunk=number,
        tick=one.ref.tick0 if tick is None else tick,
        field=field,
        recorded=values[0],
        played=values[1],
    )


def _rows(table: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.stack(list(table.values()), axis=1)


def _farthest(replay: Replay, one: Chunk, two: Chunk) -> float:
    """Return how far a living mech is from where it was recorded [vox]."""
    frames = min(len(one.ticks), len(two.ticks))
    scale = {column["name"]: column["scale"] for column in replay.header["columns"]}
    living = (one.frames["flags"][:frames] & MechFlag.ALIVE) != 0
    apart = [(one.frames[axis][:frames] - two.frames[axis][:frames]) * scale[axis] for axis in "xyz"]
    return float((np.sqrt(sum(part.astype(np.float64) ** 2 for part in apart)) * living).max(initial=0.0))
