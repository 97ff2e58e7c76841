"""Structure-aware mutation of JSON values: valid structures with values of wrong types, sizes and meaning."""

import copy
import random
from typing import Any

LONG = "x" * 5000
"""Longer than a name of a file may be."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e308, float("inf"), float("nan"),
    "", "²", "٣", "\x1b[2J", "\x00", "../../etc/passwd", "/dev/zero", "step-²", "nan", "1e999", LONG, "\u202e",
    [], {}, [[]], [None] * 50, {"a": {"b": {"c": 1}}}, {"": ""}, {"a.b": 1, "a": 2}, {LONG: 1}, ["a"],
    [{}], [1, "2", None],
)  # fmt: skip


def nested(depth: int) -> Any:
    """Return lists nested this deep."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def mutate(value: Any, rng: random.Random, changes: int = 3) -> Any:
    """Return a copy of a JSON value with up to ``changes`` changes at random places."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, changes)):
        value = _change(value, rng)
    return value


def _change(value: Any, rng: random.Random) -> Any:
    """Return the value with one change, in a random container or of the value itself."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.15:
            del value[key]
        elif kind < 0.25:
            value[rng.choice(("", LONG, "\x1b", "a.b", "²"))] = value[key]
        else:
            value[key] = _change(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        value[place] = _change(value[place], rng)
        return value
    return copy.deepcopy(nested(rng.choice((3, 40, 70))) if rng.random() < 0.05 else rng.choice(VALUES))


def damage(data: bytes, rng: random.Random) -> bytes:
    """Return bytes that are cut, changed in place, or preceded by brackets."""
    kind = rng.randrange(4)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 1:
        return b"[" * rng.choice((100, 2000, 100_000)) + data
    place = rng.randrange(max(1, len(data)))
    return data[:place] + bytes([rng.randrange(256)]) + data[place + (kind == 2) :]
