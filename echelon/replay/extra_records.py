"""Records from which a match is played on: STATE, the exact state at a tick, SEAT, inputs of human pilots, and ORDERS.

A STATE is a map of arrays by name, each its element type, shape and bytes in planes (all first bytes of the elements,
then all second ones), which compress better. A SEAT has an action vector ``i8 [ticks, seats, A]`` for every tick from
the record's first, since the input of a human is read every tick. ORDERS has a row for each order that a mech got.
They stand between chunks and older readers skip them. This module checks form and size; ``echelon.env.match_state``
checks what the arrays contain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.actions import Order
from echelon.replay.codec import RecordHead, ReplayError, pack_map, unpack_map
from echelon.replay.reader import Replay
from echelon.replay.schema import BUDGETS, MAX_ARRAY_AXES, MAX_MECHS, MAX_NAMES, RecordType

DTYPES = {"f4": np.float32, "i4": np.int32, "i8": np.int64, "u1": np.uint8, "u2": np.uint16, "u4": np.uint32}
"""Element types of arrays by their names in records, little-endian."""
DTYPE_NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
VERSION, ARRAYS = "v", "a"
SEATS, ACTIONS = "s", "a"
ROWS = "o"
"""Keys of the payloads of STATE, SEAT and ORDERS."""


@dataclass(frozen=True)
class StateRecord:
    """The exact state of a match after ``tick`` ticks, as ``echelon.env.match_state`` saves and loads it."""

    tick: int
    sim_version: int
    arrays: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class SeatRecord:
    """Inputs of human pilots from ``tick`` on."""

    tick: int
    seats: list[int]
    actions: NDArray[np.int8]
    """Action vectors in steps of 1/127 ``[ticks, seats, A]``."""


def pack_state(arrays: Mapping[str, NDArray[Any]], sim_version: int) -> bytes:
    parts = {name: [DTYPE_NAMES[v.dtype], list(v.shape), _planes(v)] for name, v in sorted(arrays.items())}
    return pack_map({VERSION: sim_version, ARRAYS: parts})


def parse_state(payload: bytes, tick: int) -> StateRecord:
    """Return the content of a STATE record's payload; ``ReplayError`` where it has another form."""
    body = unpack_map(payload, RecordType.STATE)
    version, parts = body.get(VERSION), body.get(ARRAYS)
    if not isinstance(version, int) or not isinstance(parts, dict):
        raise ReplayError(f"state at tick {tick} has no version or no arrays")
    try:
        return StateRecord(tick, version, {name: _array(part) for name, part in parts.items()})
    except (ValueError, TypeError) as error:
        raise ReplayError(f"state at tick {tick} is damaged: {error}") from None


def pack_seat(seats: list[int], actions: NDArray[np.int8]) -> bytes:
    """Return the payload of a SEAT record with the action vectors ``i8 [ticks, seats, A]`` of the mechs ``seats``."""
    return pack_map({SEATS: list(seats), ACTIONS: [list(actions.shape), np.ascontiguousarray(actions).tobytes()]})


def parse_seat(payload: bytes, tick: int) -> SeatRecord:
    """Return the content of a SEAT record's payload; ``ReplayError`` where it has another form."""
    body = unpack_map(payload, RecordType.SEAT)
    seats, actions = body.get(SEATS), body.get(ACTIONS)
    try:
        if not isinstance(seats, list) or len({*map(_mech, seats)}) < max(len(seats), 1):
            raise ValueError("its seats are no list of different mechs")
        if not isinstance(actions, list) or len(actions) != 2 or not isinstance(actions[1], bytes):
            raise ValueError("its actions have another form than shape and bytes")
        shape = _shape(actions[0], len(actions[1]))
        if len(shape) != 3 or shape[1] != len(seats) or shape[2] > MAX_NAMES:
            raise ValueError(f"its actions have shape {shape}, expected ticks, {len(seats)} seats and an action")
    except (ValueError, TypeError) as error:
        raise ReplayError(f"seat at tick {tick} is damaged: {error}") from None
    return SeatRecord(tick, seats, np.frombuffer(actions[1], np.int8).reshape(shape))


def pack_orders(rows: NDArray[np.int32]) -> bytes:
    """Return the payload of an ORDERS record: rows of tick, mech, order and the mech that it names, -1 none."""
    return pack_map({ROWS: [DTYPE_NAMES[rows.dtype], list(rows.shape), _planes(rows)]})


def read_orders(replay: Replay) -> NDArray[np.int32]:
    """Return the rows of a replay's ORDERS records by tick ``[N, 4]``; ``ReplayError`` where one is damaged."""
    found = [np.zeros((0, 4), np.int32)]
    mechs = int(replay.header["mechs"])
    for head in sorted(replay.extra_heads(RecordType.ORDERS), key=lambda head: head.tick0):
        try:
            rows = _array(unpack_map(replay.payload(head), RecordType.ORDERS).get(ROWS))
            limits = np.array([[0, 0, 0, -1], [head.tick1, mechs - 1, max(Order), mechs - 1]])
            if rows.shape[1:] != (4,) or ((rows < limits[0]) | (rows > limits[1])).any():
                raise ValueError("its rows are no orders of this match")
        except (ValueError, TypeError) as error:
            raise ReplayError(f"orders at tick {head.tick0} are damaged: {error}") from None
        found.append(rows.astype(np.int32))
    return np.concatenate(found)


def state_heads(replay: Replay) -> list[RecordHead]:
    """Return the heads of a replay's STATE records up to its last tick, by tick; their payloads are not read."""
    heads = [head for head in replay.extra_heads(RecordType.STATE) if head.tick0 == head.tick1 <= replay.ticks]
    return sorted(heads, key=lambda head: head.tick0)


def read_state(replay: Replay, head: RecordHead) -> StateRecord:
    """Return the STATE of a head; ``ReplayError`` where it is damaged."""
    return parse_state(replay.payload(head), head.tick0)


def read_seats(replay: Replay) -> list[SeatRecord]:
    """Return a replay's SEAT records by tick; ``ReplayError`` where one is damaged or two overlap."""
    heads = sorted(replay.extra_heads(RecordType.SEAT), key=lambda head: head.tick0)
    records = [parse_seat(replay.payload(head), head.tick0) for head in heads]
    for record, following in zip(records, records[1:], strict=False):
        if record.tick + len(record.actions) > following.tick:
            raise ReplayError(f"seat at tick {following.tick} overlaps the one before")
    return records


def _planes(values: NDArray[Any]) -> bytes:
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return flat.reshape(-1, values.dtype.itemsize).T.tobytes()


def _array(part: Any) -> NDArray[Any]:
    """Return the array of a name's entry; ``ValueError`` where type, shape and bytes do not fit each other."""
    if not isinstance(part, list) or len(part) != 3 or not isinstance(part[2], bytes) or part[0] not in DTYPES:
        raise ValueError("an array has another form than type, shape and bytes")
    dtype, data = np.dtype(DTYPES[part[0]]), part[2]
    shape = _shape(part[1], len(data) / dtype.itemsize)
    planes = np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).reshape(-1).view(dtype).reshape(shape)


def _shape(value: Any, elements: float) -> list[int]:
    """Return a shape; ``ValueError`` unless it is one of this number of elements."""
    if not isinstance(value, list) or len(value) > MAX_ARRAY_AXES:
        raise ValueError("an array has no shape")
    limit = BUDGETS[RecordType.STATE].raw_bytes
    if not all(type(edge) is int and 0 <= edge <= limit for edge in value) or prod(value) != elements:
        raise ValueError(f"an array of shape {value} has {elements:g} elements")
    return value


def _mech(value: Any) -> int:
    """Return the index of a mech; ``ValueError`` for another value."""
    if type(value) is not int or not 0 <= value < MAX_MECHS:
        raise ValueError(f"its seat {value!r:.40} is no mech")
    return value
