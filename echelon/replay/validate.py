"""Validation of unpacked payloads: the one place where values of a file become trusted.

``parse_header``, ``parse_chunk`` and ``parse_index`` check types, ranges and counts of everything that the product
reads; keys that this version does not know pass unread. Whatever does not fit raises ``ReplayError`` in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field

from echelon.replay.codec import ReplayError
from echelon.replay.columns import Ints, Layout, check_columns
from echelon.replay.schema import (
    ALIGNMENT,
    HASH_BYTES,
    HEAD,
    INDEX_TABLES,
    MAGIC,
    MAX_CAPTION,
    MAX_CELLS,
    MAX_CHUNK_TICKS,
    MAX_CHUNKS,
    MAX_EDGE,
    MAX_FRAMES,
    MAX_MARKERS,
    MAX_MECHS,
    MAX_MOMENT_MECHS,
    MAX_MOMENTS,
    MAX_NAMES,
    MAX_RAW_BYTES,
    MAX_ROWS,
    MAX_SECONDS,
    MAX_TEXT,
    MAX_VALUES,
    MAX_WIN_POINTS,
    SCHEMA_MAJOR,
    TICK_HZ_LIMIT,
    UNDECIDED,
    WORLD_HEAD,
)
from echelon.replay.timeline import unpack_tables
from echelon.validation import validated

MAX_TIME = 2.0**40
"""Latest creation time [s since 1970]; calendars of later years overflow."""
MAX_SCALE = 1e9
"""Maximum magnitude of a physical value in a header."""
MAX_HASH_BYTES = 8 * HASH_BYTES
"""Maximum bytes of a chunk's hash; a minor version may use longer ones."""
MAX_TABLES = 64
MAX_SEED = 2**63
MOMENT_BYTES = 2**11
"""Bytes of memory that a moment takes as Python objects."""
REQUIRED = {"tick": "frame", "score": "team", **dict.fromkeys(("x", "y", "z", "hp", "flags"), "mech")}
"""Frame columns that every replay must have, one value per entity, and their entity."""
REQUIRED_TABLES = {
    "events": ("tick", "kind", "actor", "target", "value"),
    "base": ("cell", "run", "material"),
    "edits": ("tick", "cell", "run", "material"),
}
"""Tables that every replay must have, with columns that they must have."""
RUNS = ("base", "edits")
"""Tables whose rows cover runs of voxels."""

SHA256 = "^[0-9a-f]{64}$"
ABSENT: Any = None
"""Default of a map that a header need not have; a value of null is none of its values."""
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0, le=MAX_SEED)]
Whole = Annotated[int, Field(ge=-MAX_SEED, le=MAX_SEED)]
Real = Annotated[float, Field(ge=-MAX_SCALE, le=MAX_SCALE, allow_inf_nan=False)]
Caption = Annotated[str, Field(max_length=MAX_CAPTION)]
Share = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[list[Text], Field(max_length=MAX_NAMES), FailFast()]
Triple = Annotated[list[Real], Field(min_length=3, max_length=3), FailFast()]
Pair = Annotated[list[Real], Field(min_length=2, max_length=2), FailFast()]
Edge = Annotated[int, Field(ge=1, le=MAX_EDGE)]


class _Part(BaseModel):
    """A map of a payload; values have their exact types, unknown keys are ignored.

    Lists fail at their first wrong entry, so that few errors are collected.
    """

    model_config = ConfigDict(strict=True, extra="ignore")


class _Column(_Part):
    name: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    dtype: Text
    scale: Real
    predict: Count
    per: Text = ""
    k: Annotated[int, Field(ge=1, le=MAX_NAMES)] = 1
    rate: Text = ""
    gain: Whole = 0


class _Table(_Part):
    name: Text
    columns: Annotated[list[_Column], Field(min_length=1, max_length=MAX_TABLES), FailFast()]


class _Team(_Part):
    name: Text
    policy: Text = ""
    checkpoint: Text = ""
    level: Text = ""


class _Mech(_Part):
    team: Annotated[int, Field(ge=0, le=1)]
    name: Text
    pack: Whole = 0
    chassis: Annotated[int, Field(ge=0, le=MAX_NAMES)]
    present: bool = True


class _World(_Part):
    sha256: Annotated[str, Field(pattern=SHA256)]
    size: Annotated[list[Edge], Field(min_length=3, max_length=3), FailFast()]


class _Chassis(_Part):
    name: Text
    size: Triple
    hp: Real
    leg_hp: Real
    heat_cap: Real
    max_speed: Real
    max_jet: Real


class _Weapon(_Part):
    name: Text
    guidance: Text
    range: Real
    speed: Real
    cooldown_s: Real
    damage: Real


class _Cloud(_Part):
    radius: Real
    life_s: Real


class _Sensing(_Part):
    radar: Annotated[list[Real], Field(max_length=MAX_NAMES), FailFast()]
    ewar: Real
    ecm: Real
    eccm: Real
    own_eccm: bool
    quality: Pair


class _Insight(_Part):
    actions: Texts
    terms: Texts
    contacts: Annotated[int, Field(ge=0, le=MAX_NAMES)]
    estimates: bool = False
    chances: Texts = []


class _Pilots(_Part):
    script: Annotated[list[Count], Field(max_length=MAX_MECHS), FailFast()]
    weapon_prob: Share
    names: Annotated[list[Text], Field(max_length=MAX_MECHS), FailFast()] = []
    checkpoints: Annotated[list[Text], Field(max_length=MAX_MECHS), FailFast()] = []


class _Parent(_Part):
    """The replay and tick that a branch continues, and what was changed."""

    file: Text
    sha256: Annotated[str, Field(pattern=SHA256)]
    tick: Count


class _Header(_Part):
    """The HEADER record. The viewer checks headers by the same model, see ``forms``."""

    schema_: Annotated[list[Count], Field(alias="schema", min_length=2, max_length=2), FailFast()]
    mechs: Annotated[int, Field(ge=1, le=MAX_MECHS)]
    tick_hz: Annotated[float, Field(gt=0, le=TICK_HZ_LIMIT, allow_inf_nan=False)]
    frame_ticks: Annotated[int, Field(ge=1, le=MAX_CHUNK_TICKS)]
    chunk_ticks: Count
    created: Annotated[float, Field(ge=0, le=MAX_TIME, allow_inf_nan=False)]
    echelon: Text
    sim_version: Count
    teams: Annotated[list[_Team], Field(min_length=2, max_length=2), FailFast()]
    roster: Annotated[list[_Mech], Field(min_length=1, max_length=MAX_MECHS), FailFast()]
    seed: Whole
    map_seed: Whole
    env: Count
    run: Text
    update: Count
    global_step: Count
    duration_s: Real
    score_to_win: Real
    zone: Triple
    world: _World
    cloud: _Cloud
    sensing: _Sensing
    without: Texts
    changes: dict[str, Any]
    chassis: Annotated[list[_Chassis], Field(max_length=MAX_NAMES), FailFast()]
    weapons: Annotated[list[_Weapon], Field(max_length=MAX_NAMES), FailFast()]
    materials: Texts
    events: Texts
    flags: Texts
    hit_flags: Texts
    cooldowns: Texts
    columns: Annotated[list[_Column], Field(max_length=MAX_NAMES), FailFast()]
    tables: Annotated[list[_Table], Field(max_length=MAX_TABLES), FailFast()]
    config: dict[str, Any]
    insight: _Insight = ABSENT
    actions: Texts = ABSENT
    pilots: _Pilots = ABSENT
    parent: _Parent = ABSENT


class _Outcome(_Part):
    winner: Annotated[int, Field(ge=UNDECIDED, le=MAX_NAMES)] = UNDECIDED
    reason: Text = ""
    ticks: Count = 0
    score: Pair = [0.0, 0.0]
    hp: Pair = [0.0, 0.0]
    alive: Pair = [0.0, 0.0]


class _Moment(_Part):
    """A turning point; ``before`` and ``after`` are win probabilities of blue."""

    tick: Count
    second: Real
    from_: Annotated[Real, Field(alias="from")]
    to: Real
    kind: Caption
    rank: Annotated[int, Field(ge=1, le=MAX_MOMENTS)]
    score: Real
    team: Annotated[int, Field(ge=-1, le=1)]
    mechs: Annotated[list[Caption], Field(max_length=MAX_MOMENT_MECHS), FailFast()]
    before: Share
    after: Share
    caption: Caption


Block = Annotated[tuple[Annotated[int, Field(ge=0, le=MAX_ROWS)], bytes], Field(strict=False)]
"""Number of rows and bytes of a table."""
Blocks = Annotated[list[Block], Field(max_length=MAX_TABLES), FailFast()]


class _Chunk(_Part):
    """The CHUNK record."""

    f: Annotated[int, Field(ge=1, le=MAX_FRAMES)]
    c: bytes
    t: Blocks
    h: Annotated[bytes, Field(max_length=MAX_HASH_BYTES)] = b""


class _Index(_Part):
    """The INDEX record; further tables of a newer version are ignored."""

    t: Blocks
    world: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None
    outcome: _Outcome | None = None
    moments: Annotated[list[_Moment], Field(max_length=MAX_MOMENTS), FailFast()]


class ChunkRef(NamedTuple):
    """Position of a chunk in the file, and its first and last tick."""

    offset: int
    length: int
    tick0: int
    tick1: int


@dataclass(frozen=True)
class Index:
    """The INDEX of a closed file. Its tables stay encoded, since a list of matches needs none of them."""

    chunks: list[ChunkRef]
    world: list[int] | None
    """Offset and length of the WORLD record."""
    outcome: dict[str, Any] | None
    moments: list[dict[str, Any]]
    blocks: Mapping[str, tuple[int, bytes]]
    """Number of rows and bytes of each table except ``chunks``."""

    @property
    def size(self) -> int:
        """Estimated bytes of its blocks and moments."""
        return sum(len(data) for _, data in self.blocks.values()) + MOMENT_BYTES * len(self.moments)

    def columns(self) -> dict[str, Any]:
        """Return series, markers and win probability as ``unpack_tables``, and the moments."""
        tables = {name: INDEX_LAYOUTS[name].decode_rows(data, rows) for name, (rows, data) in self.blocks.items()}
        return {**unpack_tables(tables), "moments": self.moments}


Part = TypeVar("Part", bound=_Part)
INDEX_LAYOUTS = {table.name: Layout([column.to_header() for column in table.columns]) for table in INDEX_TABLES}


def forms() -> dict[str, dict[str, Any]]:
    return {"HEADER_FORM": _form(_Header), "OUTCOME_FORM": _form(_Outcome), "MOMENT_FORM": _form(_Moment)}


def _form(model: type[_Part]) -> dict[str, Any]:
    schema = model.model_json_schema()

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return plain(schema["$defs"][part["$ref"].rpartition("/")[2]])
        skipped = ("title", "description", "default", "$defs", "additionalProperties")
        properties = {"properties": {key: plain(value) for key, value in part.get("properties", {}).items()}}
        return {key: plain(value) for key, value in part.items() if key not in (*skipped, "properties")} | (
            properties if "properties" in part else {}
        )

    return plain(schema)


def parse_header(header: Mapping[str, Any], name: str) -> None:
    """Raise ``ReplayError`` unless the header of replay ``name`` is complete, bounded and of a supported schema."""
    _check_version(header, name)
    parsed = _validate(_Header, header, f"the header of replay {name!r}")
    try:
        columns = header["columns"]
        check_columns(columns, frames=True)
        for table in header["tables"]:
            check_columns(table["columns"], frames=False)
        _check_unique("column", columns)
        _check_unique("table", header["tables"])
        _check_required(header)
        if len(parsed.roster) != parsed.mechs:
            raise ValueError(f"roster has {len(parsed.roster)} mechs, expected {parsed.mechs}")
        if prod(parsed.world.size) > MAX_RAW_BYTES - WORLD_HEAD.size:
            raise ValueError(f"world has {prod(parsed.world.size)} voxels, expected at most {MAX_RAW_BYTES}")
        if (width := Layout(columns, parsed.mechs).width) > MAX_VALUES:
            raise ValueError(f"frames have {width} values, expected at most {MAX_VALUES}")
    except ValueError as error:
        raise ReplayError(f"the header of replay {name!r} is invalid: {error}") from None


def parse_chunk(
    body: Mapping[str, Any], ref: ChunkRef, frames: Layout, tables: Mapping[str, Layout]
) -> tuple[dict[str, Ints], dict[str, dict[str, Ints]], bytes]:
    """Return frame columns ``[F, W]``, the columns ``[rows]`` of each table, and the hash of a chunk.

    Raises ``ReplayError``, before anything is decoded, for more than ``MAX_VALUES`` values, and for ticks of frames
    that do not rise from 0 to the length of the chunk.
    """
    chunk = _validate(_Chunk, body, "chunk")
    if len(chunk.t) != len(tables):
        raise ReplayError(f"chunk has {len(chunk.t)} tables, expected {len(tables)}")
    blocks = list(zip(tables.values(), chunk.t, strict=True))
    _check_values(chunk.f * frames.width + sum(layout.width * rows for layout, (rows, _) in blocks))
    try:
        columns = frames.split(frames.decode(chunk.c, chunk.f))
        rows = {
            name: layout.decode_rows(data, count)
            for (name, layout), (count, data) in zip(tables.items(), chunk.t, strict=True)
        }
    except ValueError as error:
        raise ReplayError(f"chunk is damaged: {error}") from None
    if (cells := sum(int(rows[name]["run"].sum()) for name in RUNS)) > MAX_CELLS:
        raise ReplayError(f"chunk changes {cells} voxels, expected at most {MAX_CELLS}")
    ticks = columns["tick"][:, 0]
    if ticks[0] != 0 or ticks[-1] != ref.tick1 - ref.tick0 or (ticks[1:] < ticks[:-1]).any():
        raise ReplayError(f"chunk has ticks {ticks[0]} to {ticks[-1]}, expected 0 to {ref.tick1 - ref.tick0}")
    return columns, rows, chunk.h


def parse_index(body: Mapping[str, Any], end: int, tick_hz: float) -> Index:
    """Return the INDEX at byte ``end`` of its file; only its chunks are decoded.

    Raises ``ReplayError`` for chunks outside the file, out of order or longer than a match, and for too many values.
    """
    index = _validate(_Index, body, "index")
    if len(index.t) < len(INDEX_TABLES):
        raise ReplayError(f"index has {len(index.t)} tables, expected {len(INDEX_TABLES)}")
    blocks = {table.name: block for table, block in zip(INDEX_TABLES, index.t, strict=False)}
    _check_values(sum(INDEX_LAYOUTS[name].width * rows for name, (rows, _) in blocks.items()))
    for name, limit in INDEX_ROWS.items():
        rows, data = blocks[name]
        if rows > limit:
            raise ReplayError(f"index has {rows} rows of {name}, expected at most {limit}")
        if len(data) != (expected := rows * INDEX_LAYOUTS[name].row_bytes):
            raise ReplayError(f"index has {len(data)} bytes of {name}, expected {expected}")
    rows, data = blocks.pop("chunks")
    if rows * HEAD.size > end:
        raise ReplayError(f"index has {rows} chunks, more than fit before byte {end}")
    chunks = [ChunkRef(*row) for row in INDEX_LAYOUTS["chunks"].decode(data, rows).tolist()]
    previous = FIRST_CHUNK
    for ref in chunks:
        previous = check_ref(ref, previous, end, tick_hz)
    if index.world is not None and not len(MAGIC) <= index.world[0] <= end - HEAD.size:
        raise ReplayError(f"index has a world at byte {index.world[0]}, expected one before byte {end}")
    return Index(chunks, body.get("world"), body.get("outcome"), body["moments"], blocks)


def check_ref(ref: ChunkRef, previous: ChunkRef, end: int, tick_hz: float) -> ChunkRef:
    """Return a chunk's reference; raise ``ReplayError`` unless it follows ``previous`` and ends before ``end``."""
    placed = previous.offset + previous.length <= ref.offset and ref.offset % ALIGNMENT == 0
    if not placed or ref.length < HEAD.size or ref.offset + ref.length > end:
        raise ReplayError(f"chunk at byte {ref.offset} has {ref.length} bytes, expected it within the file")
    if not previous.tick1 <= ref.tick0 <= ref.tick1 <= min(ref.tick0 + MAX_CHUNK_TICKS, MAX_SECONDS * tick_hz):
        raise ReplayError(f"chunk at byte {ref.offset} has ticks {ref.tick0} to {ref.tick1}, expected later, few ones")
    return ref


FIRST_CHUNK = ChunkRef(len(MAGIC), 0, 0, 0)
"""Predecessor of a match's first chunk."""
INDEX_ROWS = {"chunks": MAX_CHUNKS, "series": MAX_SECONDS, "markers": MAX_MARKERS, "win": MAX_WIN_POINTS}


def _check_version(header: Mapping[str, Any], name: str) -> None:
    """Raise ``ReplayError`` for another major schema, whose other fields may have any form."""
    schema = header.get("schema")
    major = schema[0] if isinstance(schema, list) and schema else None
    if isinstance(major, int) and major != SCHEMA_MAJOR:
        raise ReplayError(f"replay {name!r} has schema {major}, expected {SCHEMA_MAJOR}; try another Echelon")


def _check_unique(kind: str, entries: Sequence[Mapping[str, Any]]) -> None:
    if len({entry["name"] for entry in entries}) < len(entries):
        raise ValueError(f"two of its {kind}s have the same name")


def _check_required(header: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a header without the columns that every reader needs."""
    columns = {column["name"]: column for column in header["columns"]}
    for name, per in REQUIRED.items():
        if name not in columns:
            raise ValueError(f"it has no column {name!r}")
        if (columns[name]["per"], columns[name]["k"]) != (per, 1):
            raise ValueError(f"column {name!r} has another shape than one value per {per}")
    tables = {table["name"]: {column["name"] for column in table["columns"]} for table in header["tables"]}
    for name, required in REQUIRED_TABLES.items():
        if missing := [column for column in required if column not in tables.get(name, ())]:
            raise ValueError(f"its table {name!r} has no column {missing[0]!r}")


def _check_values(count: int) -> None:
    if count > MAX_VALUES:
        raise ReplayError(f"replay record has {count} values, expected at most {MAX_VALUES}")


def _validate(model: type[Part], value: Mapping[str, Any], what: str) -> Part:
    try:
        return validated(model, value)
    except ValueError as error:
        raise ReplayError(f"{what} is damaged: {error}") from None
