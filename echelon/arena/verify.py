"""Replays the recorded actions of a match and reports the first divergence from its recording.

The match runs alone on the map of its seed and is recorded again; the two recordings are compared chunk by chunk.
Mode ``strict`` requires equal hashes and columns; ``tolerant``, for another device or version, requires each mech's
columns to be within ``TOLERANCES``.
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
from echelon.version import SIM_VERSION

TOLERANCES: Mapping[str, float] = {
    "tick": 0.0, "x": 1.0, "y": 1.0, "z": 1.0, "hp": 5.0, "leg_hp": 5.0, "heat": 5.0, "stability": 10.0,
}  # fmt: skip
"""Largest deviation of each column in mode ``tolerant`` [unit of the column]; other columns may differ."""
EDITS, BASE = "edits", "base"
"""Tables of map changes, in this chunk and before it."""
DATED_EDITS = [2, 1]
"""First schema version whose edits contain their tick."""
ACTION = "action"
"""Frame column with the recorded actions."""
MAX_SEEDS = {"seed": 2**31 - 1, "map_seed": 2**63 - 1}
"""Largest seed of an episode and of a map."""
NOT_SIMULATED = ("value",)
"""Columns that are not computed by the simulator."""


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """First difference between a replay and its recording."""

    chunk: int
    tick: int
    field: str
    """A frame column, a table and its column, ``length`` or ``hash``."""
    mech: str = ""
    recorded: float = 0.0
    played: float = 0.0


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """Result of ``verify``."""

    ok: bool
    mode: str
    chunks: int
    """Number of leading chunks that agree."""
    seconds: float
    """Duration of the match [s]."""
    first: Divergence | None = None
    largest: float = 0.0
    """Largest position deviation [vox]."""


def verify(path: Path, *, tolerant: bool = False, device: str = "cpu") -> VerifyResult:
    """Replay the actions of the match at ``path`` and compare; ``ValueError`` where that is not possible."""
    with Replay(path) as recorded, TemporaryDirectory(prefix="echelon-verify-") as folder:
        if "insight" not in recorded.header:
            raise ValueError(
                f"replay {path.name!r} has no actions, expected policy columns; record them with: sim --insight"
            )
        again = replay_actions(recorded, Path(folder), device)
        with Replay(again) as played:
            return compare(recorded, played, tolerant=tolerant)


def config_from_header(header: Mapping[str, Any]) -> EnvConfig:
    """Return the environment configuration of a replay header, which stores differences from the default."""
    cfg: Any = EnvConfig()
    for key, value in header["config"].items():
        cfg = _with(cfg, key.split("."), value, key)
    return cfg


def _with(part: Any, names: list[str], value: Any, key: str) -> Any:
    if not is_dataclass(part) or names[0] not in asdict(part):  # type: ignore[arg-type]
        raise ValueError(f"replay config key {key!r} is unknown, expected a field of this version")
    old = getattr(part, names[0])
    if len(names) > 1:
        return replace(part, **{names[0]: _with(old, names[1:], value, key)})  # type: ignore[type-var]
    return replace(part, **{names[0]: tuple(value) if isinstance(old, tuple) else value})  # type: ignore[type-var]


def replay_actions(recorded: Replay, folder: Path, device: str) -> Path:
    """Simulate the recorded actions and return the path of the new recording."""
    header = recorded.header
    cfg = config_from_header(header)
    _check_configuration(recorded, cfg)
    bank = build_bank(
        cfg.world, [int(header["map_seed"])], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox
    )
    engine = Engine(cfg, 1, bank, device=device, autoreset=False, changes=[header.get("changes", {})])
    try:
        engine.batch.set("forced_seed", np.array([header["seed"]], np.int32))
        engine.batch.set("forced_slot", np.zeros(1, np.int32))
        engine.batch.disable_mechanics([mechanics_of(header.get("without", ()))])
        packs = {mech["pack"] for mech in header["roster"] if mech["team"] == 0 and mech["present"]}
        engine.batch.set("packs", np.array([max(1, len(packs))], np.int32))
        engine.reset()
        _check_start(recorded, engine)
        match = MatchInfo(name="again", map_seed=int(header["map_seed"]))
        recorder = Recorder(engine, [0], folder, [match], policy="acts")
        recorder.begin()
        spec = next(column for column in header["columns"] if column["name"] == ACTION)
        for number in range(len(recorded.chunks)):
            actions = recorded.chunk(number).frames[ACTION][1:].astype(np.float32) * np.float32(spec["scale"])
            for row in actions:
                engine.batch.set("actions", row.reshape(1, header["mechs"], int(spec["k"])))
                engine.step()
                recorder.after_step()
        (path,) = recorder.finish()
    finally:
        engine.close()
    return path


def _check_configuration(recorded: Replay, cfg: EnvConfig) -> None:
    """Raise ``ValueError`` for a header whose match its own configuration cannot play."""
    header, name = recorded.header, recorded.path.name
    actions = len(header["insight"]["actions"])
    column = next((c for c in header["columns"] if c["name"] == ACTION), {})
    if (version := header.get("sim_version", 1)) != SIM_VERSION:
        raise ValueError(
            f"replay {name!r} was recorded with simulation version {version}, expected {SIM_VERSION}: its actions play "
            f"another match today; verify it with Echelon {header['echelon']}, which recorded it"
        )
    if (column.get("per"), column.get("k")) != ("mech", actions):
        raise ValueError(f"replay {name!r} has no column of {actions} actions per mech, which its header lists")
    if header["mechs"] != cfg.num_mechs:
        raise ValueError(f"replay {name!r} has {header['mechs']} mechs, its configuration {cfg.num_mechs}")
    largest = cfg.world.size_x, cfg.world.size_y, cfg.world.size_z
    if any(size > limit for size, limit in zip(header["world"]["size"], largest, strict=True)):
        raise ValueError(f"replay {name!r} has a map of {header['world']['size']} voxels, its configuration {largest}")
    for key, limit in MAX_SEEDS.items():
        if not 0 <= header.get(key, -1) <= limit:
            raise ValueError(f"replay {name!r} has {key} {header.get(key)}, expected 0 to {limit}")


def _check_start(recorded: Replay, engine: Engine) -> None:
    header = recorded.header
    if engine.num_mechs != header["mechs"] or engine.action_dim != len(header["insight"]["actions"]):
        raise ValueError(
            f"replay {recorded.path.name!r} has {header['mechs']} mechs with {len(header['insight']['actions'])} "
            f"actions, its configuration {engine.num_mechs} with {engine.action_dim}"
        )
    x, y, z = header["world"]["size"]
    sha256 = world_hash(world_payload(engine.batch.numpy("material")[0][:z, :y, :x]))
    if sha256 != header["world"]["sha256"]:
        raise ValueError(
            f"map of seed {header['map_seed']} has hash {sha256[:12]}, expected {header['world']['sha256'][:12]} as in "
            f"replay {recorded.path.name!r}: this version generates it differently"
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
        largest = max(largest, _position_deviation(recorded, one, two))
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
    """Return whether the final voxels differ, the only possible comparison where edits have no tick."""
    if _dates_edits(recorded):
        return False
    return bool((_final_voxels(recorded, recorded) != _final_voxels(recorded, played)).any())


def _final_voxels(world: Replay, replay: Replay) -> NDArray[np.uint8]:
    """Return the final material of every cell."""
    voxels = world.materials().ravel().copy()
    for number in range(len(replay.chunks)):
        edits = replay.chunk(number).tables[EDITS]
        for first, run, kind in zip(*(edits[name].ravel() for name in ("cell", "run", "material")), strict=True):
            voxels[first : first + run] = kind
    return voxels


def _difference(replay: Replay, number: int, one: Chunk, two: Chunk, tolerant: bool) -> Divergence | None:
    """Return the earliest difference of a chunk: first frame, then first column."""
    if len(one.ticks) != len(two.ticks):
        frames = min(len(one.ticks), len(two.ticks))
        return Divergence(chunk=number, tick=int(one.ticks[frames - 1]), field="length")
    differences: list[tuple[int, int, str]] = []
    for order, column in enumerate(replay.header["columns"]):
        name = column["name"]
        if name in NOT_SIMULATED or name not in two.frames or (tolerant and name not in TOLERANCES):
            continue
        if one.frames[name].shape != two.frames[name].shape:
            return Divergence(chunk=number, tick=one.ref.tick0, field=name)
        differs = np.abs(one.frames[name] - two.frames[name]) * column["scale"] > (
            TOLERANCES[name] if tolerant else 0.0
        )
        if differs.any():
            differences.append((int(np.flatnonzero(differs.any(axis=1))[0]), order, name))
    if differences:
        frame, _, name = min(differences)
        return _column_divergence(replay, number, one, two, frame, name)
    if tolerant:
        return None
    undated = () if _dates_edits(replay) else (EDITS, BASE)
    for name in (name for name in one.tables if name not in undated):
        if (row := _table_divergence(number, one, two, name)) is not None:
            return row
    return None if one.hash == two.hash else Divergence(chunk=number, tick=one.ref.tick1, field="hash")


def _column_divergence(replay: Replay, number: int, one: Chunk, two: Chunk, frame: int, name: str) -> Divergence:
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


def _table_divergence(number: int, one: Chunk, two: Chunk, name: str) -> Divergence | None:
    """Return the first differing row and column of two tables, or the table itself where row counts differ."""
    if list(one.tables[name]) != list(two.tables.get(name, ())):
        return Divergence(chunk=number, tick=one.ref.tick0, field=name)
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


def _position_deviation(replay: Replay, one: Chunk, two: Chunk) -> float:
    """Return the largest distance between a living mech and its recorded position [vox]."""
    frames = min(len(one.ticks), len(two.ticks))
    scale = {column["name"]: column["scale"] for column in replay.header["columns"]}
    living = (one.frames["flags"][:frames] & MechFlag.ALIVE) != 0
    deltas = [(one.frames[axis][:frames] - two.frames[axis][:frames]) * scale[axis] for axis in "xyz"]
    return float((np.sqrt(sum(part.astype(np.float64) ** 2 for part in deltas)) * living).max(initial=0.0))
