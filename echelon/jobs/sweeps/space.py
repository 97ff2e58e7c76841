"""Search space of a sweep: the Optuna distribution of an option, from ``KEY=SPEC`` of ``--vary`` or of a file."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from echelon.jobs.config_layers import PROFILES, ConfigError, did_you_mean, field_types, parse_assignment

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

EXAMPLES = "1e-5..1e-3:log, 128..512:step=128, or lstm,mingru"
INSTALL = "pip install 'echelon[sweep]'"
MAX_POINTS = 1000
MAX_NUMBER = 2.0**53
OPTIONS = ("log", "step", "points")


def require_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ConfigError(f"a search needs Optuna, which is not installed; try: {INSTALL}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def split_spec(text: str) -> tuple[str, str]:
    """Return key and specification of ``KEY=SPEC``."""
    key, _, spec = (part.strip() for part in text.partition("="))
    if not key or not spec:
        raise ConfigError(f"--vary {text!r} is no option with values, expected KEY=VALUES such as {EXAMPLES}")
    return key, spec


def specs_of(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the specifications of a file's table of options, which may be nested by section, by dotted key.

    A value is a specification as ``--vary`` takes it, or a list of choices.
    """
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= specs_of(value, f"{prefix}{name}.")
        else:
            values = value if isinstance(value, list) else [value]
            found[prefix + name] = ",".join(str(v).lower() if isinstance(v, bool) else str(v) for v in values)
    return found


def distribution(key: str, spec: str) -> "BaseDistribution":
    """Return the distribution of ``A,B,C`` or of ``LOW..HIGH[:log][:step=S][:points=N]``."""
    distributions = require_optuna().distributions
    types = field_types()
    if key not in types and key not in PROFILES:
        raise ConfigError(f"config key {key!r} does not exist{did_you_mean(key, types)}")
    if ".." not in spec:
        choices = [parse_assignment(f"{key}={word}")[1] for word in spec.split(",")]
        if len(set(map(repr, choices))) < len(choices) or len(choices) > MAX_POINTS:
            raise ConfigError(f"{key} has {len(choices)} choices, expected different ones, at most {MAX_POINTS}")
        return distributions.CategoricalDistribution(choices)
    kinds = types.get(key, ())
    if not {int, float} & set(kinds):
        raise ConfigError(f"{key} is no number, expected a list of choices, such as {key}=A,B")
    low, high, options = _range(key, spec)
    kind, number = (distributions.IntDistribution, int)
    if float in kinds:
        kind, number = (distributions.FloatDistribution, float)
    try:
        bounds = [number(low), number(high), number(options.get("step", 1))]
        if not all(abs(value) <= MAX_NUMBER for value in bounds):
            raise ValueError(f"expected numbers of at most {MAX_NUMBER:g}")
        step = {"step": bounds[2]} if "step" in options else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an upper bound that is no whole number of steps away
            found = kind(bounds[0], bounds[1], log="log" in options, **step)
    except (ValueError, ArithmeticError) as error:
        reason = error if isinstance(error, ValueError) else "step is too small"
        raise ConfigError(f"range {spec!r:.80} of {key}: {reason}; try {EXAMPLES}") from None
    if found.single():
        raise ConfigError(f"range {spec!r:.80} of {key} has one value, expected the lower bound first")
    return found


def _range(key: str, spec: str) -> tuple[str, str, dict[str, str]]:
    bounds, *words = spec.split(":")
    low, _, high = bounds.partition("..")
    options = {name.strip(): value.strip() for name, _, value in (word.partition("=") for word in words)}
    if unknown := options.keys() - set(OPTIONS):
        raise ConfigError(f"range of {key} has {min(unknown)!r}, expected {', '.join(OPTIONS)}")
    return low, high, options


def corners(found: Any) -> tuple[Any, ...]:
    """Return the values of a distribution that must be valid for the others to be."""
    return getattr(found, "choices", None) or (found.low, found.high)


def grid_values(key: str, spec: str) -> list[Any]:
    """Return the values of an option in a grid, ascending; ``ConfigError`` where their number is not determined."""
    import numpy as np

    found: Any = distribution(key, spec)
    if hasattr(found, "choices"):
        return list(found.choices)
    points = _range(key, spec)[2].get("points", "")
    if points.isdecimal() and 2 <= int(points) <= MAX_POINTS:
        values = (np.geomspace if found.log else np.linspace)(found.low, found.high, int(points)).tolist()
        return list(dict.fromkeys(map(round, values))) if isinstance(found.low, int) else values
    if points or not found.step or found.log:
        raise ConfigError(f"{key} has no number of grid points; try {key}={spec.partition(':')[0]}:points=4")
    count = int((found.high - found.low) / found.step + 1e-9) + 1
    if count > MAX_POINTS:
        raise ConfigError(f"{key} has {count} values, expected at most {MAX_POINTS} in a grid")
    return [found.low + i * found.step for i in range(count)]
