"""What a replay file (.ecr) is made of: records, columns, tables, kinds of events and limits.

A file is ``MAGIC`` and then records, each a head of ``HEAD`` and a payload padded to ``ALIGNMENT`` bytes: one HEADER,
at most one WORLD, CHUNKs of about two seconds, and at a proper close an INDEX and a TRAILER. Everything is
little-endian; payloads are msgpack maps but for WORLD and TRAILER. A header names its own columns and tables, so a
reader takes what it knows and skips the rest: the major version must match, a minor one only adds.

This module imports nothing of the simulator; ``codec`` packs and unpacks records, ``columns`` the integers in them,
and ``typescript`` writes the same tables for the browser.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from math import pi
from typing import Any

MAGIC = b"\x89ECR\r\n\x1a\n"
"""First bytes of a replay; a transfer as text would break them."""
END_MAGIC = b"ECREND\r\n"
"""Last bytes of the TRAILER's payload."""
SCHEMA_MAJOR, SCHEMA_MINOR = 2, 2
"""2.1 dates every edit by the tick in which it was made; before, some had the tick at which they were fetched. 2.2 says
in the header how far sensors and electronic warfare reach."""
OLDEST_MAJOR = 1
"""Oldest major version that is still played; 2 added the predictor by rate."""
SUFFIX = ".ecr"
WORLDS_FOLDER = "worlds"
"""Folder beside replays that holds their worlds, by full sha256."""
WORLD_SUFFIX = ".zz"

HEAD = struct.Struct("<BBHIIIII")
"""Head of a record: type, codec, 0, stored length, raw length, first tick, last tick, CRC32 of head and payload."""
ALIGNMENT = 8
TRAILER_PAYLOAD = struct.Struct("<Q8s")
"""Offset of the INDEX record, END_MAGIC."""
WORLD_HEAD = struct.Struct("<IIII")
"""Size x, y, z and 0; then one byte per voxel, z fastest, y slowest: cell = z + size_z * (x + size_x * y)."""

MAX_STORED_BYTES = 16 * 2**20
MAX_RAW_BYTES = 64 * 2**20
"""Most bytes a payload may inflate to."""
MAX_FILE_BYTES = 2 * 2**30
MAX_FRAMES = 2048
"""Frames of one chunk."""
MAX_MECHS = 4096
MAX_EDGE = 1024
"""Longest edge of a world [vox]."""
MAX_NAMES = 1024
"""Most entries that a header may name of a kind: cooldowns, actions, reward terms, slots for contacts."""
MAX_CHUNKS = 65536
MAX_ROWS = 2**20
"""Rows of one table of one chunk."""
CHUNK_SECONDS = 2.0
HASH_BYTES = 8
TICK_HZ_LIMIT = 1000.0


class RecordType(IntEnum):
    """What a record holds; a reader skips types that it does not know."""

    HEADER = 1
    WORLD = 2
    CHUNK = 3
    INDEX = 4
    TRAILER = 5


class Codec(IntEnum):
    """How a payload is stored."""

    NONE = 0
    ZLIB = 1


class MechFlag(IntFlag):
    """Bits of the column ``flags``; SEEN says that a hostile knew of it when the decision before the frame began."""

    ALIVE = 1
    FALLEN = 2
    SHUTDOWN = 4
    LEGGED = 8
    PAINTED = 16
    ECM = 32
    ECCM = 64
    SUPPRESSED = 128
    VENT = 256
    SEEN = 512


class HitFlag(IntFlag):
    """Bits of the column ``flags`` of a hit, and of a shot of point defence."""

    LEG = 1
    REAR = 2
    PAINTED = 4
    SPLASH = 8
    STOPPED = 16


class EventKind(IntEnum):
    """What the rows of the table ``events`` say; a reader skips kinds that it does not know."""

    NONE = 0
    HIT = 1
    PAINT = 2
    KILL = 3
    ASSIST = 4
    LAUNCH = 5
    IMPACT = 6
    FALL = 7
    SHUTDOWN = 8
    AMS = 9


MARKERS = (EventKind.KILL, EventKind.FALL, EventKind.SHUTDOWN)
"""Kinds that the INDEX lists for the timeline."""

REASONS = ("", "zone_control", "elimination", "time_up")
"""Why a match ended."""
WINNERS = ("blue", "red", "draw")
UNDECIDED = -1

DTYPE_BYTES = {"u8": 1, "u16": 2, "u32": 4, "i8": 1, "i16": 2, "i32": 4}
BY_RATE = 3
PREDICTORS = (0, 1, 2, BY_RATE)
"""What is stored: the value, its difference to the one before, to the straight line through the two before, or to the
one before and ``gain`` times the value that column ``rate`` has now."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """Integers over time or over the rows of a table; the physical value is the integer times ``scale``."""

    name: str
    dtype: str
    scale: float = 1.0
    predict: int = 0

    def to_header(self) -> dict[str, Any]:
        """Return the column as a header names it."""
        return {f: getattr(self, f) for f in ("name", "dtype", "scale", "predict")}


@dataclass(frozen=True, kw_only=True)
class FrameColumn(Column):
    """A column with ``k`` values per frame, per team or per mech, entity by entity."""

    per: str = "mech"
    k: int = 1
    rate: str = ""
    """Column of the same shape that says how fast this one changes."""
    gain: int = 0

    def to_header(self) -> dict[str, Any]:
        """Return the column as a header names it."""
        rate = {"rate": self.rate, "gain": self.gain} if self.rate else {}
        return {**super().to_header(), "per": self.per, "k": self.k, **rate}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows that a chunk holds beside its frames."""

    name: str
    columns: tuple[Column, ...]

    def to_header(self) -> dict[str, Any]:
        """Return the table as a header names it."""
        return {"name": self.name, "columns": [column.to_header() for column in self.columns]}


COOLDOWNS = ("laser", "kinetic", "launcher", "painter", "ams")
"""Timers of the column ``cooldown``, in order."""

STEPS = 4
"""Steps of a position [1/16 vox] that a speed of 1 vox/s makes between two frames of 0.25 s; another rhythm costs only
bytes."""
COLUMNS: tuple[FrameColumn, ...] = (
    FrameColumn(name="tick", dtype="u16", predict=2, per="frame"),
    FrameColumn(name="score", dtype="u16", scale=0.05, predict=2, per="team"),
    FrameColumn(name="tonnage", dtype="u16", predict=1, per="team"),
    FrameColumn(name="x", dtype="u16", scale=1 / 16, predict=BY_RATE, rate="vx", gain=STEPS),
    FrameColumn(name="y", dtype="u16", scale=1 / 16, predict=BY_RATE, rate="vy", gain=STEPS),
    FrameColumn(name="z", dtype="u16", scale=1 / 16, predict=BY_RATE, rate="vz", gain=STEPS),
    FrameColumn(name="hp", dtype="u16", predict=1),
    FrameColumn(name="leg_hp", dtype="i16", predict=1),
    FrameColumn(name="heat", dtype="u16", predict=1),
    FrameColumn(name="flags", dtype="u16", predict=1),
    FrameColumn(name="focus", dtype="i16", predict=1),
    FrameColumn(name="painter", dtype="i16", predict=1),
    FrameColumn(name="yaw", dtype="i8", scale=pi / 128, predict=1),
    FrameColumn(name="vx", dtype="i8", predict=1),
    FrameColumn(name="vy", dtype="i8", predict=1),
    FrameColumn(name="vz", dtype="i8", predict=1),
    FrameColumn(name="stability", dtype="u8", predict=1),
    FrameColumn(name="cooldown", dtype="u8", scale=5.0, predict=1, k=len(COOLDOWNS)),
)
"""Frame columns that every match has, in the order in which a chunk stores them; policy columns follow them."""

PLACE = 1 / 2
"""Step of an event's place [vox]."""
ROUND_PLACE = 1 / 4
"""Step of a round's position [vox]."""
CLOUD_PLACE = 1 / 8
"""Step of a cloud's centre [vox]."""
ROUND_ANGLE = pi / 128
"""Step of a round's direction [rad]."""

EVENTS = Table(
    name="events",
    columns=(
        Column(name="tick", dtype="u16", predict=1),
        Column(name="kind", dtype="u8"),
        Column(name="who", dtype="i16"),
        Column(name="whom", dtype="i16"),
        Column(name="weapon", dtype="i8"),
        Column(name="value", dtype="u16", scale=0.1),
        Column(name="flags", dtype="u8"),
        Column(name="x", dtype="u16", scale=PLACE),
        Column(name="y", dtype="u16", scale=PLACE),
        Column(name="z", dtype="u16", scale=PLACE),
    ),
)
"""What happened, by kind and then in order of ticks; the place is that of an impact, else 0: where the mechs are.

A shot of point defence names the defender, the missile's owner, its weapon and where it was; STOPPED says it was hit.
"""
ROUNDS = Table(
    name="rounds",
    columns=(
        Column(name="frame", dtype="u16", predict=1),
        Column(name="owner", dtype="i16", predict=1),
        Column(name="slot", dtype="u8"),
        Column(name="weapon", dtype="i8", predict=1),
        Column(name="age", dtype="u16"),
        Column(name="x", dtype="u16", scale=ROUND_PLACE, predict=1),
        Column(name="y", dtype="u16", scale=ROUND_PLACE, predict=1),
        Column(name="z", dtype="u16", scale=ROUND_PLACE, predict=1),
        Column(name="yaw", dtype="i8", scale=ROUND_ANGLE, predict=1),
        Column(name="pitch", dtype="i8", scale=ROUND_ANGLE, predict=1),
    ),
)
"""Rounds in flight, each round's frames together; yaw and pitch say where it flies, its weapon how fast."""
BASE = Table(
    name="base",
    columns=(
        Column(name="cell", dtype="u32", predict=1),
        Column(name="run", dtype="u8", predict=1),
        Column(name="material", dtype="u8"),
    ),
)
"""Voxels that differ from the world where the chunk begins: ``run`` cells from ``cell`` on, in order of cells."""
EDITS = Table(
    name="edits",
    columns=(
        Column(name="tick", dtype="u16", predict=1),
        Column(name="cell", dtype="u32", predict=1),
        Column(name="run", dtype="u8", predict=1),
        Column(name="material", dtype="u8"),
    ),
)
"""Voxels that change within the chunk, in order of ticks."""
CLOUDS = Table(
    name="clouds",
    columns=(
        Column(name="tick", dtype="i16", predict=1),
        Column(name="who", dtype="i16"),
        Column(name="x", dtype="u16", scale=CLOUD_PLACE),
        Column(name="y", dtype="u16", scale=CLOUD_PLACE),
        Column(name="z", dtype="u16", scale=CLOUD_PLACE),
    ),
)
"""Smoke clouds that live within the chunk: when each burst, maybe before the chunk, whose it is, and its centre."""

TABLES: tuple[Table, ...] = (EVENTS, ROUNDS, BASE, EDITS, CLOUDS)
"""Tables of this version, in the order in which a chunk stores them; a minor version may add some at the end."""

CHUNK_INDEX = Table(
    name="chunks",
    columns=(
        Column(name="offset", dtype="u32", predict=2),
        Column(name="length", dtype="u32", predict=1),
        Column(name="tick0", dtype="u32", predict=2),
        Column(name="tick1", dtype="u32", predict=2),
    ),
)
"""Offset of each chunk's head in the file, its length with padding, its first and last tick."""
SERIES = Table(
    name="series",
    columns=(
        Column(name="second", dtype="u16", predict=2),
        *(
            Column(name=f"{name}_{team}", dtype="u16", scale=scale, predict=1)
            for name, scale in (("score", 0.01), ("alive", 1.0), ("hp", 1.0), ("damage", 1.0))
            for team in ("blue", "red")
        ),
    ),
)
"""Values of each second; damage is what a team dealt during it."""
MARKER_TABLE = Table(
    name="markers",
    columns=(
        Column(name="tick", dtype="u32", predict=1),
        Column(name="kind", dtype="u8"),
        Column(name="who", dtype="i16"),
        Column(name="whom", dtype="i16"),
    ),
)
INDEX_TABLES: tuple[Table, ...] = (CHUNK_INDEX, SERIES, MARKER_TABLE)
"""Tables of the INDEX, in order; a minor version may add some at the end."""


def enum_names(members: type[IntFlag] | type[IntEnum]) -> list[str]:
    """Return the names of an enumeration's members, in order and in small letters."""
    return [str(member.name).lower() for member in members]
