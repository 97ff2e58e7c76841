"""What callers hand to the environments: seeds, options and actions, checked before anything is played.

Whatever cannot be is one ``ValueError`` line that names it, says what it is and what was wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import EnvConfig, require


def short_repr(value: Any) -> str:
    """Return a value as one short line."""
    return " ".join(short(value).split())


def require_config(config: EnvConfig | None) -> EnvConfig:
    """Return the configuration, the default one for None."""
    if config is None:
        return EnvConfig()
    if not isinstance(config, EnvConfig):
        raise ValueError(f"config is {short_repr(config)}, wanted an EnvConfig")
    return config


def require_int(value: Any, name: str, least: int, most: int) -> int:
    """Return ``value`` as an int; it must be a whole number of Python's or numpy's from ``least`` to ``most``."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= value <= most
    require(bool(whole), name, value, f"a whole number from {least} to {most}")
    return int(value)


def reject_options(options: Mapping[str, Any] | None) -> None:
    """Raise ``ValueError`` naming the first option, since there are none."""
    require(options is None or isinstance(options, Mapping), "options", options, "a dict, or none")
    for name in options or {}:
        raise ValueError(f"option {name!r} does not exist, wanted none")


def action_values(values: Any, name: str, wanted: str) -> NDArray[np.float32]:
    """Return action entries as float32 in any shape; what is finite but beyond [-1, 1] is clipped to it.

    It is clipped before it is narrowed, since a finite 1e300 has no float32. NaN and infinities stay for the simulator,
    which counts them and takes 0. ``values`` is never changed. Raises ``ValueError`` for what is no array of numbers.
    """
    try:
        given = np.asarray(values)
    except (ValueError, TypeError):
        given = np.array(None)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{name} is {short_repr(values)}, wanted {wanted}")
    if given.dtype == np.float32:
        return given
    real = given if given.dtype.kind == "f" else given.astype(np.float64)
    return np.where(np.isfinite(real), np.clip(real, -1.0, 1.0), real).astype(np.float32)
