"""Validation of unpacked payloads: the one place where values of a file become trusted.

``parse_header``, ``parse_chunk`` and ``parse_index`` check types, ranges and counts of everything that the product
reads; keys that this version does not know pass unread. Whatever does not fit raises ``ReplayError`` in one line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, FailFast, Field

from echelon.replay import schema
from echelon.replay.codec import ReplayError
from echelon.replay.columns import Ints, Layout, check_columns
from echelon.replay.timeline import unpack_tables
from echelon.validation import validated

MAX_TIME = 2.0**40
"""Latest creation time [s since 1970]; calendars of later years overflow."""
MAX_SCALE = 1e9
"""Maximum magnitude of a physical value in a header."""
MAX_HASH_BYTES = 8 * schema.HASH_BYTES
"""Maximum bytes of a chunk's hash; a minor version may use longer ones."""
MAX_TABLES = 64
MAX_SEED = 2**63
MOMENT_BYTES = 2**11
"""Bytes of memory that a moment takes as Python objects."""
READ_TABLES = (schema.EVENTS, schema.BASE, schema.EDITS)
"""Tables that this package reads; others are passed on to the viewer."""
RUNS = ("base", "edits")
"""Tables whose rows cover runs of voxels."""

SHA256 = "^[0-9a-f]{64}$"
ABSENT: Any = None
"""Default of a map that a header need not have; a value of null is none of its values."""
Text = Annotated[str, Field(max_length=schema.MAX_TEXT)]
Count = Annotated[int, Field(ge=0, le=MAX_SEED)]
Whole = Annotated[int, Field(ge=-MAX_SEED, le=MAX_SEED)]
Real = Annotated[float, Field(ge=-MAX_SCALE, le=MAX_SCALE, allow_inf_nan=False)]
Caption = Annotated[str, Field(max_length=schema.MAX_CAPTION)]
Share = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[list[Text], Field(max_length=schema.MAX_NAMES), FailFast()]
Triple = Annotated[list[Real], Field(min_length=3, max_length=3), FailFast()]
Pair = Annotated[list[Real], Field(min_length=2, max_length=2), FailFast()]
Edge = Annotated[int, Field(ge=1, le=schema.MAX_EDGE)]


class Part(BaseModel):
    """A map of a payload; values have their exact types, unknown keys are ignored.

    Lists fail at their first wrong entry, so that few errors are collected. ``typescript`` generates an interface of
    each for the viewer, which checks headers by the same models, see ``forms``.
    """

    model_config = ConfigDict(strict=True, extra="ignore")


class FrameColumnSpec(Part):
    """A column of frames, or of a table without the fields from ``per`` on."""

    name: Annotated[str, Field(min_length=1, max_length=schema.MAX_TEXT)]
    dtype: Text
    scale: Real
    predict: Count
    per: Text = ""
    k: Annotated[int, Field(ge=1, le=schema.MAX_NAMES)] = 1
    rate: Text = ""
    gain: Whole = 0


class TableSpec(Part):
    """A table of rows."""

    name: Text
    columns: Annotated[list[FrameColumnSpec], Field(min_length=1, max_length=MAX_TABLES), FailFast()]


class TeamHeader(Part):
    """Pilot of a team; its rating [points] where that was known, and whether a policy played mean actions."""

    name: Text
    policy: Text
    checkpoint: Text
    level: Text
    rating: Real = ABSENT
    mean: bool = ABSENT


class RosterEntry(Part):
    """A mech; a slot that takes no part is not present."""

    team: Annotated[int, Field(ge=0, le=1)]
    pack: Whole
    chassis: Annotated[int, Field(ge=0, le=schema.MAX_NAMES)]
    name: Text
    present: bool


class WorldSpec(Part):
    """Hash and size [vox] of the world."""

    sha256: Annotated[str, Field(pattern=SHA256)]
    size: Annotated[list[Edge], Field(min_length=3, max_length=3), FailFast()]


class ChassisEntry(Part):
    """Values of a mech class."""

    name: Text
    size: Triple
    hp: Real
    leg_hp: Real
    heat_cap: Real
    max_speed: Real
    max_jet: Real


class WeaponEntry(Part):
    """Values of a weapon."""

    name: Text
    guidance: Text
    range: Real
    speed: Real
    cooldown_s: Real
    damage: Real


class CloudSpec(Part):
    """Radius [vox] and life of smoke clouds."""

    radius: Real
    life_s: Real


class SensingSpec(Part):
    """Sensor ranges, and weights and range of electronic warfare.

    Radar ranges are those of each class at quality 1 [vox]; ECM and ECCM remove and add their weight at distance 0, own
    ECCM also for its emitter; quality has a minimum, that of a shut-down mech, and a maximum.
    """

    radar: Annotated[list[Real], Field(max_length=schema.MAX_NAMES), FailFast()]
    ewar: Real
    ecm: Real
    eccm: Real
    own_eccm: bool
    quality: Pair


class InsightSpec(Part):
    """Contents of the policy columns; chances are the choices whose probabilities are recorded, if any."""

    actions: Texts
    terms: Texts
    contacts: Annotated[int, Field(ge=0, le=schema.MAX_NAMES)]
    estimates: bool
    chances: Texts = []


class PilotsSpec(Part):
    """Scripted pilot of each mech (0 none), and the probability that their triggers take effect."""

    script: Annotated[list[Count], Field(max_length=schema.MAX_MECHS), FailFast()]
    weapon_prob: Share
    names: Annotated[list[Text], Field(max_length=schema.MAX_MECHS), FailFast()] = []
    checkpoints: Annotated[list[Text], Field(max_length=schema.MAX_MECHS), FailFast()] = []


class ParentSpec(Part):
    """The replay and tick that a branch continues, and what was changed."""

    file: Text
    sha256: Annotated[str, Field(pattern=SHA256)]
    tick: Count
    set: Annotated[dict[str, Text], Field(max_length=schema.MAX_NAMES)] = {}
    changes: Annotated[dict[str, Real], Field(max_length=schema.MAX_NAMES)] = {}
    still: Texts = []
    seed: Count = 0


class Header(Part):
    """The HEADER record.

    Actions alone or insight are there where they were recorded, pilots where there are scripted ones, and a parent in
    the recording of a branch.
    """

    schema_: Annotated[list[Count], Field(alias="schema", min_length=2, max_length=2), FailFast()]
    mechs: Annotated[int, Field(ge=1, le=schema.MAX_MECHS)]
    tick_hz: Annotated[float, Field(gt=0, le=schema.TICK_HZ_LIMIT, allow_inf_nan=False)]
    frame_ticks: Annotated[int, Field(ge=1, le=schema.MAX_CHUNK_TICKS)]
    chunk_ticks: Count
    created: Annotated[float, Field(ge=0, le=MAX_TIME, allow_inf_nan=False)]
    echelon: Text
    sim_version: Count
    teams: Annotated[list[TeamHeader], Field(min_length=2, max_length=2), FailFast()]
    roster: Annotated[list[RosterEntry], Field(min_length=1, max_length=schema.MAX_MECHS), FailFast()]
    seed: Whole
    map_seed: Whole
    env: Count
    run: Text
    update: Count
    global_step: Count
    duration_s: Real
    score_to_win: Real
    zone: Triple
    world: WorldSpec
    cloud: CloudSpec
    sensing: SensingSpec
    without: Texts
    changes: dict[str, Any]
    chassis: Annotated[list[ChassisEntry], Field(max_length=schema.MAX_NAMES), FailFast()]
    weapons: Annotated[list[WeaponEntry], Field(max_length=schema.MAX_NAMES), FailFast()]
    materials: Texts
    events: Texts
    flags: Texts
    hit_flags: Texts
    cooldowns: Texts
    columns: Annotated[list[FrameColumnSpec], Field(max_length=schema.MAX_NAMES), FailFast()]
    tables: Annotated[list[TableSpec], Field(max_length=MAX_TABLES), FailFast()]
    config: dict[str, Any]
    insight: InsightSpec = ABSENT
    actions: Texts = ABSENT
    pilots: PilotsSpec = ABSENT
    parent: ParentSpec = ABSENT


class Outcome(Part):
    """How a match ended; scores, hit points and living mechs of both teams at its last frame."""

    winner: Annotated[int, Field(ge=schema.UNDECIDED, le=schema.MAX_NAMES)]
    reason: Text
    ticks: Count
    score: Pair
    hp: Pair
    alive: Pair


class Moment(Part):
    """A turning point, the most important with rank 1; ``before`` and ``after`` are win probabilities of blue.

    The team, -1 for none, acts or gains; ``from`` and ``to`` are the time that shows it [s].
    """

    tick: Count
    second: Real
    from_: Annotated[Real, Field(alias="from")]
    to: Real
    kind: Caption
    rank: Annotated[int, Field(ge=1, le=schema.MAX_MOMENTS)]
    score: Real
    team: Annotated[int, Field(ge=-1, le=1)]
    mechs: Annotated[list[Caption], Field(max_length=schema.MAX_MOMENT_MECHS), FailFast()]
    before: Share
    after: Share
    caption: Caption


class Mistake(Part):
    """A measured mistake: ``value`` is the gain of the better line, with an interval that excludes 0.

    ``recorded`` and ``better`` are the scores of the mech's side with its recorded actions for ``window_s``, and with
    the level in its place. ``run`` and ``file`` name a recorded better line, "" none.
    """

    tick: Count
    mech: Count
    kind: Caption
    window_s: Real
    value: Real
    low: Real
    high: Real
    recorded: Share
    better: Share
    run: Caption
    file: Caption
    caption: Caption


class Coaching(Part):
    """What continuations found of a side or a mech: ``tested`` moments, ``runs`` pairs for each that was decided."""

    of: Caption
    by: Caption
    tested: Count
    runs: Count
    seed: Count
    mistakes: Annotated[list[Mistake], Field(max_length=schema.MAX_MISTAKES), FailFast()]


Block = Annotated[tuple[Annotated[int, Field(ge=0, le=schema.MAX_ROWS)], bytes], Field(strict=False)]
"""Number of rows and bytes of a table."""
Blocks = Annotated[list[Block], Field(max_length=MAX_TABLES), FailFast()]


class ChunkRecord(Part):
    """The CHUNK record: frames, their columns, tables and hash."""

    f: Annotated[int, Field(ge=1, le=schema.MAX_FRAMES)]
    c: bytes
    t: Blocks
    h: Annotated[bytes, Field(max_length=MAX_HASH_BYTES)]


class IndexRecord(Part):
    """The INDEX record; further tables of a newer version are ignored.

    ``coached`` was added after the match, whose recording ends at byte ``recorded``.
    """

    t: Blocks
    world: Annotated[list[Count], Field(min_length=2, max_length=2)] | None
    outcome: Outcome | None
    moments: Annotated[list[Moment], Field(max_length=schema.MAX_MOMENTS), FailFast()]
    coached: Annotated[list[Coaching], Field(max_length=schema.MAX_COACHINGS), FailFast()] = []
    recorded: Count = 0


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
    coached: list[dict[str, Any]] = field(default_factory=list)
    recorded: int = 0
    """Bytes of the file as it was recorded; 0 all."""

    @property
    def size(self) -> int:
        """Estimated bytes of its blocks, moments and mistakes."""
        texts = len(self.moments) + sum(1 + len(one["mistakes"]) for one in self.coached)
        return sum(len(data) for _, data in self.blocks.values()) + MOMENT_BYTES * texts

    @property
    def has_win(self) -> bool:
        """Whether it has the win probability and moments, which a match recorded by a page lacks."""
        return self.blocks[schema.WIN_TABLE.name][0] > 0

    def columns(self) -> dict[str, Any]:
        """Return series, markers and win probability as ``unpack_tables``, the moments and what was coached."""
        tables = {name: INDEX_LAYOUTS[name].decode_rows(data, rows) for name, (rows, data) in self.blocks.items()}
        coached = {"coached": self.coached} if self.coached else {}
        return {**unpack_tables(tables), "moments": self.moments, **coached}


INDEX_LAYOUTS = {table.name: Layout([column.to_header() for column in table.columns]) for table in schema.INDEX_TABLES}


def forms() -> dict[str, dict[str, Any]]:
    parts = {"HEADER": Header, "OUTCOME": Outcome, "MOMENT": Moment, "COACHING": Coaching}
    return {f"{name}_FORM": _form(model) for name, model in parts.items()}


def _form(model: type[Part]) -> dict[str, Any]:
    whole = model.model_json_schema()

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return plain(whole["$defs"][part["$ref"].rpartition("/")[2]])
        skipped = ("title", "description", "default", "$defs", "additionalProperties", "maxProperties")
        properties = {"properties": {key: plain(value) for key, value in part.get("properties", {}).items()}}
        return {key: plain(value) for key, value in part.items() if key not in (*skipped, "properties")} | (
            properties if "properties" in part else {}
        )

    return plain(whole)


def parse_header(header: Mapping[str, Any], name: str) -> None:
    """Raise ``ReplayError`` unless the header of replay ``name`` is complete, bounded and of a supported schema."""
    _check_version(header, name)
    parsed = validated(Header, header, f"the header of replay {name!r} is damaged: ", ReplayError)
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
        if max(mech.chassis for mech in parsed.roster) >= len(parsed.chassis):
            raise ValueError(f"roster has a mech of another class than the {len(parsed.chassis)} listed ones")
        if prod(parsed.world.size) > schema.MAX_RAW_BYTES - schema.WORLD_HEAD.size:
            raise ValueError(f"world has {prod(parsed.world.size)} voxels, expected at most {schema.MAX_RAW_BYTES}")
        if (width := Layout(columns, parsed.mechs).width) > schema.MAX_VALUES:
            raise ValueError(f"frames have {width} values, expected at most {schema.MAX_VALUES}")
    except ValueError as error:
        raise ReplayError(f"the header of replay {name!r} is invalid: {error}") from None


def parse_chunk(
    body: Mapping[str, Any], ref: ChunkRef, frames: Layout, tables: Mapping[str, Layout]
) -> tuple[dict[str, Ints], dict[str, dict[str, Ints]], bytes]:
    """Return frame columns ``[F, W]``, the columns ``[rows]`` of each table, and the hash of a chunk.

    Raises ``ReplayError``, before anything is decoded, for more than ``MAX_VALUES`` values, and for ticks of frames
    that do not rise from 0 to the length of the chunk.
    """
    chunk = validated(ChunkRecord, body, "chunk is damaged: ", ReplayError)
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
    if (cells := sum(int(rows[name]["run"].sum()) for name in RUNS)) > schema.MAX_CELLS:
        raise ReplayError(f"chunk changes {cells} voxels, expected at most {schema.MAX_CELLS}")
    ticks = columns["tick"][:, 0]
    if ticks[0] != 0 or ticks[-1] != ref.tick1 - ref.tick0 or (ticks[1:] < ticks[:-1]).any():
        raise ReplayError(f"chunk has ticks {ticks[0]} to {ticks[-1]}, expected 0 to {ref.tick1 - ref.tick0}")
    return columns, rows, chunk.h


def parse_index(body: Mapping[str, Any], end: int, tick_hz: float) -> Index:
    """Return the INDEX at byte ``end`` of its file; only its chunks are decoded.

    Raises ``ReplayError`` for chunks outside the file, out of order or longer than a match, and for too many values.
    """
    index = validated(IndexRecord, body, "index is damaged: ", ReplayError)
    if len(index.t) < len(schema.INDEX_TABLES):
        raise ReplayError(f"index has {len(index.t)} tables, expected {len(schema.INDEX_TABLES)}")
    blocks = {table.name: block for table, block in zip(schema.INDEX_TABLES, index.t, strict=False)}
    _check_values(sum(INDEX_LAYOUTS[name].width * rows for name, (rows, _) in blocks.items()))
    for name, limit in INDEX_ROWS.items():
        rows, data = blocks[name]
        if rows > limit:
            raise ReplayError(f"index has {rows} rows of {name}, expected at most {limit}")
        if len(data) != (expected := rows * INDEX_LAYOUTS[name].row_bytes):
            raise ReplayError(f"index has {len(data)} bytes of {name}, expected {expected}")
    rows, data = blocks.pop("chunks")
    if rows * schema.HEAD.size > end:
        raise ReplayError(f"index has {rows} chunks, more than fit before byte {end}")
    chunks = [ChunkRef(*row) for row in INDEX_LAYOUTS["chunks"].decode(data, rows).tolist()]
    previous = FIRST_CHUNK
    for ref in chunks:
        previous = check_ref(ref, previous, end, tick_hz)
    if index.world is not None and not len(schema.MAGIC) <= index.world[0] <= end - schema.HEAD.size:
        raise ReplayError(f"index has a world at byte {index.world[0]}, expected one before byte {end}")
    coached, recorded = body.get("coached", []), index.recorded
    if recorded not in (0, end):
        raise ReplayError(f"index at byte {end} follows a recording of {recorded} bytes, expected as many")
    return Index(chunks, body["world"], body["outcome"], body["moments"], blocks, coached, recorded)


def check_ref(ref: ChunkRef, previous: ChunkRef, end: int, tick_hz: float) -> ChunkRef:
    """Return a chunk's reference; raise ``ReplayError`` unless it follows ``previous`` and ends before ``end``."""
    placed = previous.offset + previous.length <= ref.offset and ref.offset % schema.ALIGNMENT == 0
    if not placed or ref.length < schema.HEAD.size or ref.offset + ref.length > end:
        raise ReplayError(f"chunk at byte {ref.offset} has {ref.length} bytes, expected it within the file")
    latest = min(ref.tick0 + schema.MAX_CHUNK_TICKS, schema.MAX_SECONDS * tick_hz)
    if not previous.tick1 <= ref.tick0 <= ref.tick1 <= latest:
        raise ReplayError(f"chunk at byte {ref.offset} has ticks {ref.tick0} to {ref.tick1}, expected later, few ones")
    return ref


FIRST_CHUNK = ChunkRef(len(schema.MAGIC), 0, 0, 0)
"""Predecessor of a match's first chunk."""
INDEX_ROWS = {
    "chunks": schema.MAX_CHUNKS,
    "series": schema.MAX_SECONDS,
    "markers": schema.MAX_MARKERS,
    "win": schema.MAX_WIN_POINTS,
}


def _check_version(header: Mapping[str, Any], name: str) -> None:
    """Raise ``ReplayError`` for another major schema, whose other fields may have any form."""
    version = header.get("schema")
    major = version[0] if isinstance(version, list) and version else None
    if isinstance(major, int) and major != schema.SCHEMA_MAJOR:
        raise ReplayError(f"replay {name!r} has schema {major}, expected {schema.SCHEMA_MAJOR}; try another Echelon")


def _check_unique(kind: str, entries: Sequence[Mapping[str, Any]]) -> None:
    if len({entry["name"] for entry in entries}) < len(entries):
        raise ValueError(f"two of its {kind}s have the same name")


def _check_required(header: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a header that lacks a column or table that is read."""
    columns = {column["name"]: column for column in header["columns"]}
    for required in schema.COLUMNS:
        name, found = required.name, columns.get(required.name)
        if found is None:
            raise ValueError(f"it has no column {name!r}")
        if (found["per"], found["k"]) != (required.per, required.k):
            raise ValueError(f"column {name!r} has another shape than {required.k} per {required.per}")
    tables = {table["name"]: {column["name"] for column in table["columns"]} for table in header["tables"]}
    for table in READ_TABLES:
        if missing := [column.name for column in table.columns if column.name not in tables.get(table.name, ())]:
            raise ValueError(f"its table {table.name!r} has no column {missing[0]!r}")


def _check_values(count: int) -> None:
    if count > schema.MAX_VALUES:
        raise ReplayError(f"replay record has {count} values, expected at most {schema.MAX_VALUES}")
