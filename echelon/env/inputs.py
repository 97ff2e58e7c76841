"""Validation of what callers pass to the environments: seeds, options, configurations and actions.

Each check raises a one-line ``ValueError`` with the name, the value and what is expected.
"""

from collections.abc import Mapping, Sequence
from reprlib import repr as abbreviated
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.config import EnvConfig, require


def short_repr(value: Any) -> str:
    return " ".join(abbreviated(value).split())


def require_config(config: EnvConfig | None) -> EnvConfig:
    if config is None:
        return EnvConfig()
    if not isinstance(config, EnvConfig):
        raise ValueError(f"config is {short_repr(config)}, expected an EnvConfig")
    return config


def require_int(value: Any, name: str, least: int, most: int) -> int:
    """Return ``value`` as an int; ``ValueError`` unless it is a Python or numpy integer from ``least`` to ``most``."""
    valid = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= value <= most
    require(bool(valid), name, value, f"an integer from {least} to {most}")
    return int(value)


def refuse_copy(self: Any, protocol: object = None) -> Any:
    """Raise ``ValueError``, as the ``__reduce_ex__`` of an environment that holds arrays of the simulator."""
    del protocol
    raise ValueError(
        f"{type(self).__name__} holds arrays of the simulator and cannot be copied or pickled; "
        "pass a function that makes it, such as functools.partial(echelon.make_vec, task)"
    )


def reject_options(options: Mapping[str, Any] | None) -> None:
    """Raise ``ValueError`` naming the first option, since none is supported."""
    require(options is None or isinstance(options, Mapping), "options", options, "a dict or None")
    for name in options or {}:
        raise ValueError(f"option {name!r} does not exist, expected none")


def require_agents(agents: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise ``ValueError`` unless ``agents`` is a mapping whose keys are among ``known``."""
    if not isinstance(agents, Mapping):
        raise ValueError(f"actions is {short_repr(agents)}, expected a dict from agent to action")
    for agent in agents:
        if agent not in known:
            raise ValueError(f"agent {agent!r} does not exist, expected one of {known[0]} .. {known[-1]}")


def action_values(values: Any, name: str, expected: str) -> NDArray[np.float32]:
    """Return action entries as float32 in any shape; finite entries beyond [-1, 1] are clipped.

    They are clipped before the conversion, since a finite 1e300 has no float32. NaN and infinities remain: the
    simulator counts them and uses 0. ``values`` is never changed. Raises ``ValueError`` for anything but numbers.
    """
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} is {short_repr(values)}, expected {expected}")
    if array.dtype == np.float32:
        return array
    real = array if array.dtype.kind == "f" else array.astype(np.float64)
    return np.where(np.isfinite(real), np.clip(real, -1.0, 1.0), real).astype(np.float32)
