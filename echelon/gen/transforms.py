"""Map corners, and the four flips that turn a terrain into four variants.

A corner id has bit 0 set at the right and bit 1 set at the top, so flips and opposites are exclusive-ors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Corner(IntEnum):
    """Map corners and their quadrants."""

    BL = 0
    BR = 1
    TL = 2
    TR = 3

    @property
    def is_right(self) -> bool:
        return bool(self & 1)

    @property
    def is_top(self) -> bool:
        return bool(self & 2)

    @property
    def opposite(self) -> Corner:
        return Corner(self ^ 3)


@dataclass(frozen=True, kw_only=True)
class Transform:
    """A flip of the map."""

    name: str
    flips: int
    """Bit 0 reverses x, bit 1 reverses y."""

    def grid(self, material: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a grid [Z, Y, X] flipped, as a new contiguous array."""
        x_step = -1 if self.flips & 1 else 1
        y_step = -1 if self.flips & 2 else 1
        return np.ascontiguousarray(material[:, ::y_step, ::x_step])

    def corner(self, corner: Corner) -> Corner:
        return Corner(corner ^ self.flips)


TRANSFORMS: tuple[Transform, ...] = (
    Transform(name="identity", flips=0),
    Transform(name="flip_x", flips=1),
    Transform(name="flip_y", flips=2),
    Transform(name="flip_xy", flips=3),
)
