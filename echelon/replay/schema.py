"""Schema of replay files (.ecr): records, columns, tables, event kinds and limits.

A file is ``MAGIC`` followed by records, each a head (``HEAD``) and a payload padded to ``ALIGNMENT`` bytes: one HEADER,
at most one WORLD, a CHUNK per two seconds, and in a closed file an INDEX and a TRAILER. Between chunks stand records
that only programs read which play a match on: a STATE per ten seconds, and SEATs with the inputs of human pilots. All
integers are little-endian; payloads are msgpack maps except WORLD and TRAILER. A header describes its own columns and
tables, and readers skip unknown ones: a minor version only adds, and a file of another major version is refused.

This module does not import the simulator. ``codec`` packs and unpacks records, ``columns`` the integers in them, and
``typescript`` generates the same tables for the viewer.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from math import pi
from typing import Any

MAGIC = b"\x89ECR\r\n\x1a\n"
"""First bytes of a replay; a transfer in text mode changes them, which is then detected."""
END_MAGIC = b"ECREND\r\n"
SCHEMA_MAJOR, SCHEMA_MINOR = 3, 0
SUFFIX = ".ecr"
WORLDS_FOLDER = "worlds"
"""Folder beside replays with their worlds, named by SHA-256."""
WORLD_SUFFIX = ".zz"

HEAD = struct.Struct("<BBHIIIII")
"""Head of a record: type, codec, 0, stored length, raw length, first tick, last tick, CRC32 of head and payload."""
ALIGNMENT = 8
TRAILER_PAYLOAD = struct.Struct("<Q8s")
"""Offset of the INDEX record, END_MAGIC."""
WORLD_HEAD = struct.Struct("<IIII")
"""Size x, y, z and 0, followed by a byte per voxel with cell index z + size_z * (x + size_x * y)."""

MAX_STORED_BYTES = 16 * 2**20
MAX_RAW_BYTES = 64 * 2**20
"""Maximum bytes of an inflated payload of any record."""
MAX_FILE_BYTES = 2 * 2**30
MAX_FRAMES = 2048
MAX_MECHS = 4096
MAX_EDGE = 1024
"""Maximum edge of a world [vox]."""
MAX_NAMES = 1024
"""Maximum number of columns, tables, cooldowns, actions, reward terms or contact slots in a header."""
MAX_CHUNKS = 65536
MAX_ROWS = 2**20
MAX_VALUES = 2**22
"""Maximum number of values of a chunk or an INDEX, frames and tables together."""
MAX_CELLS = 2**22
"""Maximum number of voxels that the runs of a chunk cover, its base and edits together."""
MAX_CHUNK_TICKS = 2**16 - 1
"""Maximum ticks of a chunk: the ticks in it have 16 bits."""
MAX_SECONDS = 2**17
"""Maximum length of a match, ``MAX_CHUNKS`` chunks of ``CHUNK_SECONDS`` [s]."""
MAX_WIN_POINTS = 2**12
MAX_MOMENTS = 24
MAX_CAPTION = 2**9
MAX_MOMENT_MECHS = 8
MAX_COACHINGS, MAX_MISTAKES = 8, 3
MAX_MARKERS = 2**18
"""Maximum number of markers of an INDEX; later ones are not listed."""
INDEX_BYTES, INDEX_SHARE = 2**16, 16
"""Bytes of an INDEX after decompression: at most the first, and ``INDEX_SHARE`` times the size of the file.

That of a match has a tenth of its size. So reading a file costs no more than a multiple of its size.
"""
MAX_TEXT = 2**12
MAX_DEPTH = 16
CHUNK_SECONDS = 2.0
STATE_SECONDS = 10.0
MAX_STATES = 2**14
MAX_ARRAY_AXES = 6
HASH_BYTES = 8
TICK_HZ_LIMIT = 1000.0


class RecordType(IntEnum):
    """Type of a record; readers skip unknown types."""

    HEADER = 1
    WORLD = 2
    CHUNK = 3
    INDEX = 4
    TRAILER = 5
    STATE = 6
    SEAT = 7
    ORDERS = 8


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a record's payload, checked before memory is allocated for it."""

    raw_bytes: int = MAX_RAW_BYTES
    """Bytes after decompression."""
    objects: int = 0
    """Maps, lists and their entries; 0 for a payload that is not a msgpack map."""
    entries: int = 0


ANY_BUDGET = Budget()
BUDGETS: Mapping[int, Budget] = {
    RecordType.HEADER: Budget(raw_bytes=2**20, objects=2**17, entries=2 * MAX_MECHS),
    RecordType.WORLD: ANY_BUDGET,
    RecordType.CHUNK: Budget(raw_bytes=2**24, objects=2**12, entries=MAX_NAMES),
    RecordType.INDEX: Budget(raw_bytes=2**23, objects=2**12, entries=MAX_NAMES),
    RecordType.TRAILER: Budget(raw_bytes=2**8),
    RecordType.STATE: Budget(raw_bytes=2**23, objects=2**12, entries=2**9),
    RecordType.SEAT: Budget(raw_bytes=2**22, objects=2**6, entries=2**5),
    RecordType.ORDERS: Budget(raw_bytes=2**22, objects=2**6, entries=2**5),
}
"""Budget of each record type. A match of 100 against 100 writes headers of 40 kB with 4,000 objects, chunks of 0.4 MB
with 0.2 million values, states of 1 MB with 1,000 objects, and an INDEX of 0.2 MB per hour; docs/reliability.md has the
reasons."""


class Codec(IntEnum):
    """Compression of a payload."""

    NONE = 0
    ZLIB = 1


class MechFlag(IntFlag):
    """Bits of the frame column ``flags``; SEEN: a hostile saw the mech at the start of the environment step."""

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
    """Bits of the event column ``flags`` of hits and of point-defence shots."""

    LEG = 1
    REAR = 2
    PAINTED = 4
    SPLASH = 8
    STOPPED = 16


class EventKind(IntEnum):
    """Kind of a row of the table ``events``; readers skip unknown kinds."""

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

REASONS = ("", "zone_control", "elimination", "time_up")
WINNERS = ("blue", "red", "draw")
UNDECIDED = -1

DTYPE_BYTES = {"u8": 1, "u16": 2, "u32": 4, "i8": 1, "i16": 2, "i32": 4}
BY_RATE = 3
PREDICTORS = (0, 1, 2, BY_RATE)
"""Stored residual: the value (0), its difference to the previous value (1), to the linear extrapolation of the previous
two (2), or to the previous value plus ``gain`` times the current value of column ``rate`` (3)."""


@dataclass(frozen=True, kw_only=True)
class ReplayColumn:
    """A column of integers, of frames or of a table; the physical value is the integer times ``scale``."""

    name: str
    dtype: str
    scale: float = 1.0
    predict: int = 0

    def to_header(self) -> dict[str, Any]:
        return {f: getattr(self, f) for f in ("name", "dtype", "scale", "predict")}


@dataclass(frozen=True, kw_only=True)
class FrameColumn(ReplayColumn):
    """A frame column with ``k`` values per frame, team or mech (``per``), entity by entity."""

    per: str = "mech"
    k: int = 1
    rate: str = ""
    """Column of the same shape that predicts the change of this one."""
    gain: int = 0

    def to_header(self) -> dict[str, Any]:
        rate = {"rate": self.rate, "gain": self.gain} if self.rate else {}
        return {**super().to_header(), "per": self.per, "k": self.k, **rate}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of rows of a chunk or of the INDEX."""

    name: str
    columns: tuple[ReplayColumn, ...]

    def to_header(self) -> dict[str, Any]:
        return {"name": self.name, "columns": [column.to_header() for column in self.columns]}


COOLDOWNS = ("laser", "kinetic", "launcher", "painter", "ams")

POSITION_GAIN = 4
"""Position steps [1/16 vox] per frame of 0.25 s at 1 vox/s; other frame times only compress less."""
COLUMNS: tuple[FrameColumn, ...] = (
    FrameColumn(name="tick", dtype="u16", predict=2, per="frame"),
    FrameColumn(name="score", dtype="u16", scale=0.05, predict=2, per="team"),
    FrameColumn(name="tonnage", dtype="u16", predict=1, per="team"),
    FrameColumn(name="x", dtype="u16", scale=1 / 16, predict=BY_RATE, rate="vx", gain=POSITION_GAIN),
    FrameColumn(name="y", dtype="u16", scale=1 / 16, predict=BY_RATE, rate="vy", gain=POSITION_GAIN),
    FrameColumn(name="z", dtype="u16", scale=1 / 16, predict=BY_RATE, rate="vz", gain=POSITION_GAIN),
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
"""Frame columns of every match, in the order of storage; policy columns follow them."""

EVENT_STEP = 1 / 2
"""Quantisation step of an event's position [vox]."""
ROUND_STEP = 1 / 4
"""Quantisation step of a round's position [vox]."""
CLOUD_STEP = 1 / 8
"""Quantisation step of a smoke cloud's centre [vox]."""
ROUND_ANGLE_STEP = pi / 128
"""Quantisation step of a round's direction [rad]."""

EVENTS = Table(
    name="events",
    columns=(
        ReplayColumn(name="tick", dtype="u16", predict=1),
        ReplayColumn(name="kind", dtype="u8"),
        ReplayColumn(name="actor", dtype="i16"),
        ReplayColumn(name="target", dtype="i16"),
        ReplayColumn(name="weapon", dtype="i8"),
        ReplayColumn(name="value", dtype="u16", scale=0.1),
        ReplayColumn(name="flags", dtype="u8"),
        ReplayColumn(name="x", dtype="u16", scale=EVENT_STEP),
        ReplayColumn(name="y", dtype="u16", scale=EVENT_STEP),
        ReplayColumn(name="z", dtype="u16", scale=EVENT_STEP),
    ),
)
"""Events sorted by kind and tick: mech ``actor`` acts on mech ``target``. x, y and z are an impact's position, else 0.

A point-defence shot has the defender, the missile's owner, its weapon and position; STOPPED is set if it hit.
"""
ROUNDS = Table(
    name="rounds",
    columns=(
        ReplayColumn(name="frame", dtype="u16", predict=1),
        ReplayColumn(name="owner", dtype="i16", predict=1),
        ReplayColumn(name="slot", dtype="u8"),
        ReplayColumn(name="weapon", dtype="i8", predict=1),
        ReplayColumn(name="age", dtype="u16"),
        ReplayColumn(name="x", dtype="u16", scale=ROUND_STEP, predict=1),
        ReplayColumn(name="y", dtype="u16", scale=ROUND_STEP, predict=1),
        ReplayColumn(name="z", dtype="u16", scale=ROUND_STEP, predict=1),
        ReplayColumn(name="yaw", dtype="i8", scale=ROUND_ANGLE_STEP, predict=1),
        ReplayColumn(name="pitch", dtype="i8", scale=ROUND_ANGLE_STEP, predict=1),
    ),
)
"""Rounds in flight at each frame, sorted by round; yaw and pitch are the direction of flight."""
BASE = Table(
    name="base",
    columns=(
        ReplayColumn(name="cell", dtype="u32", predict=1),
        ReplayColumn(name="run", dtype="u8", predict=1),
        ReplayColumn(name="material", dtype="u8"),
    ),
)
"""Voxels that differ from the initial world at the chunk's start, sorted by cell: ``run`` cells from ``cell`` on."""
EDITS = Table(
    name="edits",
    columns=(
        ReplayColumn(name="tick", dtype="u16", predict=1),
        ReplayColumn(name="cell", dtype="u32", predict=1),
        ReplayColumn(name="run", dtype="u8", predict=1),
        ReplayColumn(name="material", dtype="u8"),
    ),
)
"""Voxels that change during the chunk, sorted by tick."""
CLOUDS = Table(
    name="clouds",
    columns=(
        ReplayColumn(name="tick", dtype="i16", predict=1),
        ReplayColumn(name="actor", dtype="i16"),
        ReplayColumn(name="x", dtype="u16", scale=CLOUD_STEP),
        ReplayColumn(name="y", dtype="u16", scale=CLOUD_STEP),
        ReplayColumn(name="z", dtype="u16", scale=CLOUD_STEP),
    ),
)
"""Smoke clouds that exist during the chunk: tick of the burst, possibly before the chunk, owner and centre."""

TABLES: tuple[Table, ...] = (EVENTS, ROUNDS, BASE, EDITS, CLOUDS)
"""Tables of a chunk in the order of storage; a minor version may append tables."""

CHUNK_INDEX = Table(
    name="chunks",
    columns=(
        ReplayColumn(name="offset", dtype="u32", predict=2),
        ReplayColumn(name="length", dtype="u32", predict=1),
        ReplayColumn(name="tick0", dtype="u32", predict=2),
        ReplayColumn(name="tick1", dtype="u32", predict=2),
    ),
)
"""Offset of each chunk's head in the file, its length including padding, its first and last tick."""
SERIES = Table(
    name="series",
    columns=(
        ReplayColumn(name="second", dtype="u16", predict=2),
        *(
            ReplayColumn(name=f"{name}_{team}", dtype="u16", scale=scale, predict=1)
            for name, scale in (("score", 0.01), ("alive", 1.0), ("hp", 1.0), ("damage", 1.0))
            for team in ("blue", "red")
        ),
    ),
)
"""Values per second; damage is that dealt by a team during the second."""
MARKER_TABLE = Table(
    name="markers",
    columns=(
        ReplayColumn(name="tick", dtype="u32", predict=1),
        ReplayColumn(name="kind", dtype="u8"),
        ReplayColumn(name="actor", dtype="i16"),
        ReplayColumn(name="target", dtype="i16"),
    ),
)
WIN_GROUPS = (
    "mechs alive",
    "hit points",
    "zone points",
    "zone control",
    "distance to the zone",
    "knocked down",
    "leg damage",
    "painted",
)
"""Quantities that the win probability rests on."""
PROBABILITIES = ("blue", "low", "high")
"""Win probability of blue, and the ends of its 90 % band."""
WIN_TABLE = Table(
    name="win",
    columns=(
        ReplayColumn(name="tick", dtype="u32", predict=2),
        *(ReplayColumn(name=name, dtype="u16", scale=1 / 65535, predict=1) for name in PROBABILITIES),
        *(ReplayColumn(name=name, dtype="i16", scale=0.001, predict=1) for name in WIN_GROUPS),
    ),
)
"""Win probability at some ticks, and the part of each group of ``WIN_GROUPS`` in the logarithm of blue's odds."""
INDEX_TABLES: tuple[Table, ...] = (CHUNK_INDEX, SERIES, MARKER_TABLE, WIN_TABLE)
"""Tables of the INDEX in order; a minor version may append tables."""


def enum_names(members: type[IntFlag] | type[IntEnum]) -> list[str]:
    return [str(member.name).lower() for member in members]
