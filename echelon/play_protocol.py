"""Messages of play sessions, on the WebSocket ``/api/v1/play`` and between server and session; docs/play.md.

A message is a msgpack map with its type in ``t``. The tables ``FROM_CLIENT`` and ``FROM_SESSION`` have one model per
type; the viewer's types are generated from them. Rows of frames are packed as little-endian 32-bit floats in the order
of the column tables below. This module loads neither the simulator nor numpy.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgpack
from pydantic import BaseModel, ConfigDict, Field

from echelon.validation import validated

PLAY_VERSION = 5
"""Version of the messages; both sides must have the same."""
MAX_CLIENT_BYTES = 4096
"""Maximum bytes of a message from a client."""
MAX_CLIENT_RATE = 60
"""Maximum messages of a client per second; a burst of one second is allowed."""
MAX_SEATS = 16
MAX_ENTRIES = 256
"""Maximum pilots or parameter overrides of a request, and entries of a map or list of a client's message."""
MAX_ACTION = 1024
MAX_RUNS = 1024
"""Maximum continuations of a what-if request."""
TOKEN_BYTES = 24
SPEEDS = (0.1, 8.0)
"""Slowest and fastest pace; 1 is real time."""
SEAT_HOLD_S = 60.0
"""Time for which a lost pilot's seat is reserved for its key [s]."""

OWN_COLUMNS = (
    "x", "y", "z", "vx", "vy", "vz", "yaw", "hp", "leg_hp", "heat", "stability", "flags", "focus", "painter",
)  # fmt: skip
"""State of the seat's mech: centre [vox], velocity [vox/s], heading [rad], hit points, heat, stability 0 to 100, bits
of ``MechFlag``, focus target (mech, -1 none) and painter (-1 none or unknown). Cooldowns [ticks] follow, in the order
of the header's ``cooldowns``."""
SENSE_COLUMNS = (
    "targeted", "under_fire", "hit_ahead", "hit_left", "missile_inbound", "sensor_quality", "jam", "suppressed",
    "noise_front_left", "noise_front_right", "noise_rear_left", "noise_rear_right", "in_zone", "zone_control",
)  # fmt: skip
"""What else the mech's sensors give, as policies observe it: the direction of the last hit is a unit vector in the
mech's own frame, ``zone_control`` -1 hostile to 1 friendly; values that an observation lacks are 0."""
CONTACT_COLUMNS = (
    "mech", "team", "chassis", "x", "y", "z", "vx", "vy", "vz", "yaw", "age", "certainty", "hull", "heat",
    "stability", "flags", "slot",
)  # fmt: skip
"""Other mechs that the pilot knows of. ``chassis`` is -1 while the class is not recognised. A contact out of sight has
the position of its last detection, ``age`` seconds ago; one in sight moves on at its last velocity between two sensor
readings. ``hull``, ``heat`` and ``stability`` (0 to 1) and ``certainty`` are readings of the display, -1 for contacts
without a display slot; ``slot`` is the display slot (0 to 4 can be chosen as target), -1 none."""
ROUND_COLUMNS = ("owner", "slot", "weapon", "age", "x", "y", "z", "yaw", "pitch")
"""Rounds in flight that the pilot fired or sees; ``owner`` is -1 while the pilot does not know it, ``age`` in ticks."""
EVENT_COLUMNS = ("tick", "kind", "actor", "target", "weapon", "value", "flags", "x", "y", "z")
"""Events of the pilot and those that it sees since the last frame sent, as in the table ``events`` of a replay; mechs
that the pilot does not know of are -1."""
CLOUD_COLUMNS = ("tick", "actor", "x", "y", "z")
"""Smoke clouds in sight: tick of the burst, owner (-1 unknown) and centre."""
HOLDS = (
    "", "no target", "out of arc", "out of range", "no paint", "no sight", "reloading", "disabled", "overheated",
    "knocked down", "destroyed",
)  # fmt: skip
"""Why a weapon does not fire when its trigger is held, "" if it fires; of several targets the last of these."""
ORDERS = ("none", "hold", "advance", "flank_left", "flank_right", "focus", "screen", "retreat")
"""Orders to team mates, as ``echelon.actions.Order``."""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "PLAY_ORDERS": ORDERS,
    "PLAY_OWN_COLUMNS": OWN_COLUMNS,
    "PLAY_SENSE_COLUMNS": SENSE_COLUMNS,
    "PLAY_CONTACT_COLUMNS": CONTACT_COLUMNS,
    "PLAY_ROUND_COLUMNS": ROUND_COLUMNS,
    "PLAY_EVENT_COLUMNS": EVENT_COLUMNS,
    "PLAY_CLOUD_COLUMNS": CLOUD_COLUMNS,
    "PLAY_HOLDS": HOLDS,
}
NUMBERS: Mapping[str, float] = {
    "PLAY_VERSION": PLAY_VERSION,
    "PLAY_MAX_CLIENT_BYTES": MAX_CLIENT_BYTES,
    "PLAY_MAX_CLIENT_RATE": MAX_CLIENT_RATE,
    "PLAY_MAX_RUNS": MAX_RUNS,
    "PLAY_SEAT_HOLD_S": SEAT_HOLD_S,
}
"""Tables and constants that the viewer gets."""

Name = Annotated[str, Field(max_length=200)]
Key = Annotated[str, Field(max_length=128)]
Mech = Annotated[str, Field(max_length=16)]
Tick = Annotated[int, Field(ge=0, le=2**24)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Pilots = Annotated[dict[Mech, Name], Field(max_length=MAX_ENTRIES)]
Changes = Annotated[dict[Name, Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=MAX_ENTRIES)]


class Message(BaseModel):
    """A message; the class's ``t`` is its type."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Hello(Message):
    """First message of a client; the token stands here or in the cookie."""

    t: Literal["hello"] = "hello"
    version: int
    token: Key = ""
    name: Annotated[str, Field(max_length=40)] = ""
    """Name of the human, as others of the session see it."""


class Take(Message):
    """Request a seat; ``mech`` is its name, "" the first free one; ``key`` takes a reserved seat again."""

    t: Literal["take"] = "take"
    mech: Mech = ""
    key: Key = ""


class Leave(Message):
    """Leave the seat; the mech holds still until its seat is taken again."""

    t: Literal["leave"] = "leave"


class Input(Message):
    """The pilot's controls from the next tick on: an entry per action, i8 in steps of 1/127."""

    t: Literal["input"] = "input"
    seq: Annotated[int, Field(ge=0, le=2**53)]
    action: Annotated[bytes, Field(max_length=MAX_ACTION)]


class Watch(Message):
    """Look through the next or previous living team mate; only after the seat's mech was destroyed."""

    t: Literal["watch"] = "watch"
    step: Literal[-1, 1] = 1


class OrderMates(Message):
    """Order team mates: of the pilot's pack, of a commander all of its team."""

    t: Literal["orders"] = "orders"
    order: Name
    """One of ``PLAY_ORDERS``."""
    mechs: Annotated[list[Mech], Field(max_length=MAX_ENTRIES)] = []
    """Names of the mates, none for all that no human flies."""
    target: Mech = ""
    """Mech that FOCUS or SCREEN names, "" the pilot's target and its own mech."""


class Pace(Message):
    """Pause, slow motion or faster time; only while one human plays."""

    t: Literal["pace"] = "pace"
    paused: bool = False
    speed: Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1])] = 1.0


class Source(BaseModel):
    """A recorded match: run and file as listed by /api/v1/matches; both empty for the match of this session."""

    model_config = ConfigDict(strict=True, extra="forbid")
    run: Annotated[str, Field(max_length=128)] = ""
    file: Annotated[str, Field(max_length=200)] = ""


class Start(Message):
    """Take over a recorded match, begin the session's match again, or begin a new one against ``opponent``.

    ``pilots`` maps mechs (B2) and teams (red) to policies and levels of the catalogue, ``changes`` are parameter
    overrides. ``tick`` None is the present moment of the session's match.
    """

    t: Literal["start"] = "start"
    source: Source = Source()
    tick: Tick | None = None
    seat: Mech = ""
    """Mech of the human, "" the first of blue."""
    pilots: Pilots = {}
    changes: Changes = {}
    seed: Seed | None = None
    """Combat seed after the moment, None the recorded one; of a new match its seed, None another map each time."""
    opponent: Name = ""
    """Opponent of a new match with the session's other options, ``still`` for the tutorial; "" continues a match."""
    mates: Name = ""
    """Team mates in a new match, "" as the opponent."""


class WhatIf(Message):
    """Request continuations of a recorded match from a moment; progress and result carry ``id``."""

    t: Literal["what_if"] = "what_if"
    id: Annotated[int, Field(ge=0, le=2**31)]
    source: Source
    tick: Tick
    runs: Annotated[int, Field(ge=1, le=MAX_RUNS)] = 64
    pilots: Pilots = {}
    changes: Changes = {}
    seed: Seed = 0
    without: Mech = ""
    """Mech whose actions at the moment are left out, to measure their effect; "" none."""
    window_s: Annotated[float, Field(ge=0.25, le=30)] = 1.0
    """Length of these actions [s]."""


class Coach(Message):
    """Request the measured mistakes of a side or a mech, which are stored in the recording; as ``WhatIf``."""

    t: Literal["coach"] = "coach"
    id: Annotated[int, Field(ge=0, le=2**31)]
    source: Source
    who: Mech = ""
    """Side or mech; "" the mech that a human flew, else the side that lost."""
    seed: Seed = 0


class Cancel(Message):
    """Stop a what-if or coach request."""

    t: Literal["cancel"] = "cancel"
    id: Annotated[int, Field(ge=0, le=2**31)]


class Ping(Message):
    """Measure the round trip."""

    t: Literal["ping"] = "ping"
    n: Annotated[int, Field(ge=0, le=2**53)]


class Welcome(Message):
    """First message of a session: what it offers."""

    t: Literal["welcome"] = "welcome"
    version: int
    session: str
    """Run id of the session, under which its matches are listed."""
    sim_version: int
    seats: int
    """Most humans."""
    levels: list[str]
    """Scripted levels that ``pilots`` may name."""
    policies: list[str]
    """Champion, runs and league entries that ``pilots`` may name."""
    parameters: list[str]
    """Parameters that ``changes`` may name."""


class SeatState(BaseModel):
    """A seat as all clients see it."""

    mech: str
    name: str
    state: Literal["taken", "lost"]
    """``lost`` reserves it for its key."""


class SessionState(Message):
    """State of the session, sent when it changes."""

    t: Literal["state"] = "state"
    phase: Literal["idle", "loading", "playing", "ended"]
    paused: bool
    speed: float
    seats: list[SeatState]
    clients: int
    tick: int
    note: str
    """What it is loading, or why it is idle; "" otherwise."""


class Begin(Message):
    """A match begins for this client, or its seat was taken again: everything that frames refer to.

    ``header`` is that of a replay without seeds, pilots and the classes of hostiles, whose ``chassis`` is 0 there.
    """

    t: Literal["begin"] = "begin"
    header: dict[str, Any]
    world: bytes
    """The map at this moment: the payload of a WORLD record, zlib-compressed."""
    mech: int
    """Mech of the seat; of a commander the first of its team."""
    command: bool
    """Whether the human commands the team and flies no mech."""
    key: str
    """Takes the seat again within ``PLAY_SEAT_HOLD_S`` after the connection is lost."""
    tick: int
    actions: list[str]
    """Name of each entry of an action."""
    tutorial: bool
    """Whether the match is the tutorial, in which no other mech moves."""
    opponent: str
    """Opponent of the session's own match, in the tutorial that of the match after it; "" for one taken over."""


class Frame(Message):
    """What a mech perceives after a tick; a newer frame replaces one that was not sent."""

    t: Literal["frame"] = "frame"
    tick: int
    mech: int
    """Mech of the seat, or the team mate that its pilot watches."""
    seq: int
    """``seq`` of the input that led to it, -1 none."""
    own: bytes
    """``PLAY_OWN_COLUMNS`` and the cooldowns."""
    senses: bytes
    """``PLAY_SENSE_COLUMNS``."""
    contacts: bytes
    """Rows of ``PLAY_CONTACT_COLUMNS``."""
    rounds: bytes
    """Rows of ``PLAY_ROUND_COLUMNS``."""
    events: bytes
    """Rows of ``PLAY_EVENT_COLUMNS`` since the last frame sent."""
    clouds: bytes
    """Rows of ``PLAY_CLOUD_COLUMNS``."""
    edits: bytes
    """Voxels that the pilot saw change since the last frame sent: u32 pairs of cell (x fastest) and material."""
    score: list[float]
    """Zone score of blue and red [s]."""
    holds: list[int]
    """Index in ``PLAY_HOLDS`` by weapon: why it would not fire, as far as the pilot knows."""
    orders: list[int]
    """Index of the order of each mech of the pack in ``PLAY_ORDERS``, for a commander of the team; given ones too."""
    named: list[int]
    """Mech that each of these orders names, -1 none."""
    killer: list[float]
    """Mech that destroyed the seat's mech (-1 none) and its place at that tick [vox]; empty while it lives."""


class Progress(Message):
    """Progress of loading a match (``id`` -1) or of a what-if or coach request."""

    t: Literal["progress"] = "progress"
    id: int
    done: int
    total: int
    text: str


class Side(BaseModel):
    """Win probability of a side with its 95 % interval, and wins."""

    score: float
    low: float
    high: float
    wins: int


class Effect(BaseModel):
    """How much more the side of ``without`` scores with the actions than without, with its 95 % interval."""

    side: Literal["blue", "red"]
    value: float
    low: float
    high: float


class WhatIfResult(Message):
    """Result of a what-if request; ``replays`` are its typical continuations, listed under the session's run."""

    t: Literal["what_if"] = "what_if"
    id: int
    tick: int
    """The moment, the end of an environment step."""
    runs: int
    blue: Side
    red: Side
    draws: int
    endings: dict[str, int]
    replays: dict[str, Source]
    """``best_for_red``, ``median`` and ``best_for_blue``."""
    effect: Effect | None
    notes: list[str]


class Coached(Message):
    """The mistakes of a coach request are stored in the INDEX of the recording, under the name ``of``."""

    t: Literal["coached"] = "coached"
    id: int
    of: str
    mistakes: int


class Ended(Message):
    """The match is over; its recording is listed under the session's run."""

    t: Literal["ended"] = "ended"
    winner: Literal["blue", "red", "draw", ""]
    """"" for a match that was left."""
    reason: str
    tick: int
    source: Source
    figures: dict[str, float]
    """Figures of the seat's mech by the names of ``echelon.replay.figures.FIGURES``; empty without a recording."""


class Problem(Message):
    """Why a message was refused, or a recording ends; the session goes on unless the server closes the connection."""

    t: Literal["error"] = "error"
    code: Literal["version", "token", "busy", "message", "rate", "seat", "match", "pilots", "recording", "session"]
    text: str
    """One line for people."""
    re: str
    """Type of the refused message, "" none."""
    id: int
    """``id`` of a refused what-if or coach request, else -1."""


class Pong(Message):
    """Answer to a ping."""

    t: Literal["pong"] = "pong"
    n: int
    tick: int


FROM_CLIENT: tuple[type[Message], ...] = (
    Hello, Take, Leave, Input, Watch, OrderMates, Pace, Start, WhatIf, Coach, Cancel, Ping,
)  # fmt: skip
FROM_SESSION: tuple[type[Message], ...] = (
    Welcome, SessionState, Begin, Frame, Progress, WhatIfResult, Coached, Ended, Problem, Pong,
)  # fmt: skip
PARTS: tuple[type[BaseModel], ...] = (Source, SeatState, Side, Effect)
"""Maps within messages."""
CLIENT_TYPES: Mapping[str, type[Message]] = {model.model_fields["t"].default: model for model in FROM_CLIENT}


class MessageError(ValueError):
    """A message of a client has another form; ``kind`` is its type, "" where it has none."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


def pack(message: Message) -> bytes:
    data = msgpack.packb(message.model_dump(), use_bin_type=True)
    assert data is not None
    return data


def parse_client(data: bytes) -> Message:
    """Return a client's message; ``MessageError`` in one line where it has another form."""
    if len(data) > MAX_CLIENT_BYTES:
        raise MessageError(f"message has {len(data)} bytes, expected at most {MAX_CLIENT_BYTES}")
    try:
        limits = dict.fromkeys(("max_array_len", "max_map_len"), MAX_ENTRIES)
        body = msgpack.unpackb(data, raw=False, strict_map_key=True, max_ext_len=0, **limits)
    except (ValueError, RecursionError, msgpack.UnpackException):
        raise MessageError("message cannot be read, expected a msgpack map") from None
    kind = body.get("t") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind not in CLIENT_TYPES:
        raise MessageError(f"message has an unknown type, expected one of: {', '.join(CLIENT_TYPES)}")
    try:
        return validated(CLIENT_TYPES[kind], body)
    except ValueError as error:
        raise MessageError(f"{kind} cannot be read: {error}", kind) from None
