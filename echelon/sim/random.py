"""Counter-based random numbers in numpy, keyed by (seed, stream, tick, entity, draw).

The device function in ``echelon.sim.rng`` computes the same bits; a test compares them. Nothing here keeps
hidden state: a draw depends on its five keys only, so results do not depend on batch size, thread split or
the order of other draws. ``Stream`` adds a running draw counter for code that draws in sequence, such as
the map generator.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_MASK = 0xFFFFFFFF
_SEED_SALT = 0x9E3779B9
_KEY_STEPS = ((0x85EBCA6B, 1), (0xC2B2AE35, 2), (0x27D4EB2F, 3), (0x165667B1, 4))
"""Multiplier and offset for stream, tick, entity and draw, in the order they are absorbed."""
_UNIT = 2.0**-24
_BYTES_MEAN, _BYTES_SD = 510.0, 147.80054
_BLOCK = 256
"""Draws that a ``Stream`` computes at once; it changes speed only, never a value."""


class StreamId(IntEnum):
    """Purpose of a draw; draws of different streams are independent."""

    TERRAIN = 0
    VARIANT = 1
    COMBAT = 2
    ORDER = 3
    AGENT = 4
    MAP = 5
    DISPLAY = 6
    RUN = 7


def mix(x: Any) -> Any:
    """Scramble 32-bit words held in Python ints or uint64 arrays; a bijection on 32 bits."""
    x = x ^ (x >> 16)
    x = (x * 0x21F0AAAD) & _MASK
    x = x ^ (x >> 15)
    x = (x * 0x735A2D97) & _MASK
    return x ^ (x >> 15)


def _word(value: Any) -> Any:
    """Reduce a key to 32 bits: a Python int stays one, anything else becomes a uint64 array."""
    if isinstance(value, (int, np.integer)):
        return int(value) & _MASK
    return np.asarray(value).astype(np.uint64) & np.uint64(_MASK)


@overload
def draw_u32(seed: int, stream: int, tick: int, entity: int, draw: int) -> int: ...
@overload
def draw_u32(seed: Any, stream: Any, tick: Any, entity: Any, draw: Any) -> Any: ...
def draw_u32(seed: Any, stream: Any, tick: Any, entity: Any, draw: Any) -> Any:
    """Return the 32-bit draw of these keys: an int for ints, else a uint32 array of the broadcast shape."""
    h = mix(_word(seed) ^ _SEED_SALT)
    for key, (factor, offset) in zip((stream, tick, entity, draw), _KEY_STEPS, strict=True):
        h = mix(h ^ ((_word(key) * factor + offset) & _MASK))
    return h if isinstance(h, int) else h.astype(np.uint32)


@overload
def uniform01(seed: int, stream: int, tick: int, entity: int, draw: int) -> float: ...
@overload
def uniform01(seed: Any, stream: Any, tick: Any, entity: Any, draw: Any) -> Any: ...
def uniform01(seed: Any, stream: Any, tick: Any, entity: Any, draw: Any) -> Any:
    """Return the draw of these keys as a number in [0, 1) with 24 bits, exact in float32."""
    h = draw_u32(seed, stream, tick, entity, draw)
    if isinstance(h, int):
        return (h >> 8) * _UNIT
    return (h >> np.uint32(8)).astype(np.float32) * np.float32(_UNIT)


def bell(bits: Any) -> Any:
    """Return approximately normal numbers, mean 0 and deviation 1: the scaled sums of the words' bytes."""
    words = np.asarray(bits).astype(np.uint32)
    total = sum((words >> np.uint32(shift)) & np.uint32(255) for shift in (0, 8, 16, 24))
    return (np.asarray(total).astype(np.float32) - np.float32(_BYTES_MEAN)) * np.float32(1 / _BYTES_SD)


class Stream:
    """Draws in sequence: the n-th call uses draw number n of (seed, stream, tick, entity)."""

    __slots__ = ("_block", "_keys", "_next")

    def __init__(self, seed: int, stream: StreamId, *, tick: int = 0, entity: int = 0) -> None:
        self._keys = (seed, int(stream), tick, entity)
        self._block: list[int] = []
        self._next = 0

    @property
    def draws(self) -> int:
        return self._next

    def u32(self) -> int:
        at = self._next % _BLOCK
        if at == 0:
            counters: NDArray[np.int64] = np.arange(self._next, self._next + _BLOCK, dtype=np.int64)
            self._block = draw_u32(*self._keys, counters).tolist()
        self._next += 1
        return self._block[at]

    def integers(self, low: int, high: int) -> int:
        """Take an integer in [low, high], both included; ``low`` where the range is empty."""
        span = max(high - low, 0) + 1
        return low + ((self.u32() * span) >> 32)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * ((self.u32() >> 8) * _UNIT)

    def coin(self, chance: float = 0.5) -> bool:
        return (self.u32() >> 8) * _UNIT < chance

    def choice(self, items: Sequence[T]) -> T:
        return items[self.integers(0, len(items) - 1)]

    def permutation(self, count: int) -> list[int]:
        order = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.integers(0, last)
            order[last], order[other] = order[other], order[last]
        return order
