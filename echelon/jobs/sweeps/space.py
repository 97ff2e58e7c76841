"""Search space of a sweep: one ``Dimension`` per varied option, from a file's table or from ``--vary KEY=SPEC``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from echelon.jobs.config_layers import PROFILES, ConfigError, did_you_mean, field_types, parse_assignment

RANGE = ".."
"""Separates the bounds of a range in ``--vary``."""
LOG = "log"
EXAMPLES = "1e-5..1e-3:log, 128..512:step=128, or lstm,mingru"
MAX_GRID_POINTS = 1000
"""Most values of one dimension of a grid, and most choices."""
MAX_NUMBER = 2**63
"""Largest whole number of a range."""
MAX_STEPS = 1e9
"""Most values of a range with a step."""


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """Values of one option: ``choices``, or the numbers from ``low`` to ``high``, both included."""

    key: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    step: float = 0.0
    """Distance of the values from ``low``; 0 allows all."""
    log: bool = False
    """Whether values are drawn evenly on a logarithmic scale."""
    points: int = 0
    """Number of values in a grid where neither choices nor ``step`` determine it."""
    integer: bool = False

    def __post_init__(self) -> None:
        if self.choices:
            if len(self.choices) > MAX_GRID_POINTS:
                raise ConfigError(f"{self.key} has {len(self.choices)} choices, expected at most {MAX_GRID_POINTS}")
            if len(set(map(repr, self.choices))) < len(self.choices):
                raise ConfigError(f"{self.key} has the choices {list(self.choices)}, expected different ones")
            return
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ConfigError(f"{self.key} varies from {self.low:g} to {self.high:g}, expected the lower bound first")
        if self.log and self.low <= 0:
            raise ConfigError(f"{self.key} varies from {self.low:g} on a log scale, expected more than 0")
        if not 0 <= self.step < math.inf or (self.step and self.log):
            raise ConfigError(f"{self.key} has step {self.step:g}, expected more than 0, and none on a log scale")
        if self.high - self.low > MAX_STEPS * self.step > 0:
            raise ConfigError(f"{self.key} has step {self.step:g}, expected at most {MAX_STEPS:g} of them in the range")
        if self.integer and not all(float(x).is_integer() for x in (self.low, self.high, self.step)):
            raise ConfigError(f"{self.key} is a whole number, expected whole bounds and steps")
        if not 0 <= self.points <= MAX_GRID_POINTS:
            raise ConfigError(f"{self.key} has {self.points} points, expected 0 to {MAX_GRID_POINTS}")

    def number(self, value: float) -> float | int:
        """Return a number of the option's type."""
        return round(value) if self.integer else float(value)

    def corners(self) -> tuple[Any, ...]:
        """Return the values that must be valid for the others to be."""
        return self.choices or (self.number(self.low), self.number(self.high))

    def grid(self) -> tuple[Any, ...]:
        """Return the values of a grid, ascending; ``ConfigError`` where their number is not determined."""
        if self.choices:
            return self.choices
        step = self.step or float(self.integer and not (self.points or self.log))
        if step:
            count = math.floor((self.high - self.low) / step + 1e-9) + 1
            if count > MAX_GRID_POINTS:
                raise ConfigError(f"{self.key} has {count} values, expected at most {MAX_GRID_POINTS} in a grid")
            return tuple(self.number(self.low + i * step) for i in range(count))
        if self.points < 2:
            raise ConfigError(f"{self.key} has no number of grid points; try {self.key}=...:points=4, or choices")
        shares = [i / (self.points - 1) for i in range(self.points)]
        found = [self.number(self._at(share)) for share in shares]
        return tuple(dict.fromkeys(found))

    def _at(self, share: float) -> float:
        if self.log:
            return self.low * (self.high / self.low) ** share if share < 1 else self.high
        return self.low + share * (self.high - self.low)

    def share(self, value: Any) -> float:
        """Return the position of a value between the bounds, 0 to 1, or of a choice among the choices; NaN outside."""
        if self.choices:
            found = [i for i, choice in enumerate(self.choices) if repr(choice) == repr(value)]
            return found[0] / max(1, len(self.choices) - 1) if found else math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)) or (self.log and value <= 0):
            return math.nan
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def text(self) -> str:
        """Return the specification as ``--vary`` takes it, without the key."""
        if self.choices:
            return ",".join(map(_word, self.choices))
        low, high, step = (self.number(value) for value in (self.low, self.high, self.step))
        parts = [f"{low!r}{RANGE}{high!r}", *([LOG] if self.log else [])]
        parts += [f"step={step!r}"] * bool(step) + [f"points={self.points}"] * bool(self.points)
        return ":".join(parts)


OPTIONS = tuple(field.name for field in fields(Dimension) if field.name not in ("key", "choices", "integer"))
"""Fields of a range in a file."""


def parse_dimension(text: str) -> Dimension:
    """Return the dimension of ``KEY=SPEC``: values separated by commas, or LOW..HIGH[:log][:step=S][:points=N]."""
    key, equals, spec = text.partition("=")
    key, spec = key.strip(), spec.strip()
    if not equals or not key or not spec:
        raise ConfigError(f"--vary {text!r} is no option with values, expected KEY=VALUES such as {EXAMPLES}")
    if RANGE not in spec:
        return dimension(key, [parse_assignment(f"{key}={word}")[1] for word in spec.split(",")])
    bounds, *options = spec.split(":")
    low, _, high = bounds.partition(RANGE)
    table: dict[str, Any] = {"low": low, "high": high}
    for option in options:
        name, given, value = option.partition("=")
        table[name.strip()] = value.strip() if given else True
    return dimension(key, {name: value if value is True else _number(text, value) for name, value in table.items()})


def _number(text: str, word: str) -> float | int:
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        raise ConfigError(f"--vary {text!r} has {word!r}, expected a number; try {EXAMPLES}") from None


def dimension(key: str, values: Any) -> Dimension:
    """Return the dimension of a file's entry: a list of choices, or a table with low and high."""
    types = field_types()
    if key not in types and key not in PROFILES:
        raise ConfigError(f"config key {key!r} does not exist{did_you_mean(key, types)}")
    if isinstance(values, Sequence) and not isinstance(values, str):
        if not values:
            raise ConfigError(f"{key} has no values, expected at least one")
        return Dimension(key=key, choices=tuple(values))
    if not isinstance(values, Mapping):
        return Dimension(key=key, choices=(values,))
    if unknown := set(values) - set(OPTIONS):
        raise ConfigError(f"range of {key} has {sorted(unknown)[0]!r}, expected {', '.join(OPTIONS)}")
    kinds = types.get(key, ())
    if not {int, float} & set(kinds):
        raise ConfigError(f"{key} is no number, expected a list of choices, such as {key}=A,B")
    for name in ("low", "high", *(name for name in ("step", "points") if name in values)):
        value, expected = values.get(name), "a whole number" if name == "points" else "a number"
        fits = isinstance(value, int if name == "points" else (int, float)) and not isinstance(value, bool)
        if not fits or (isinstance(value, int) and abs(value) > MAX_NUMBER):
            raise ConfigError(f"range of {key} has {name} {value!r:.80}, expected {expected}")
    if not isinstance(values.get("log", False), bool):
        raise ConfigError(f"range of {key} has log {values['log']!r:.80}, expected true or false")
    return Dimension(key=key, integer=float not in kinds, **{k: v for k, v in values.items() if k in OPTIONS})


def dimensions_of(table: Mapping[str, Any], prefix: str = "") -> tuple[Dimension, ...]:
    """Return the dimensions of a file's table of options, which may be nested by section."""
    found: list[Dimension] = []
    for name, value in table.items():
        key = f"{prefix}{name}"
        is_section = isinstance(value, Mapping) and not {"low", "high"} & set(value)
        found += dimensions_of(value, f"{key}.") if is_section else (dimension(key, value),)
    return tuple(found)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
