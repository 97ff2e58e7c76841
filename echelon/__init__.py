"""Echelon: pack-against-pack mech combat in a destructible voxel world, and how pilots learn it.

Importing the package loads nothing heavy; the names below are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.config import EnvConfig, WorldConfig
    from echelon.env.env import EchelonEnv

__all__ = ["EchelonEnv", "EnvConfig", "WorldConfig"]
__version__ = "0.1.0"

_HOME = {
    "EchelonEnv": "echelon.env.env",
    "EnvConfig": "echelon.config",
    "WorldConfig": "echelon.config",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
