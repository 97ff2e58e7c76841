"""PNG encoder: 8-bit red, green and blue, by zlib alone."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TRUE_COLOUR = 2
"""PNG colour type of red, green and blue."""
BITS = 8
FILTER_UP = 2
"""PNG filter: each row is stored as the difference to the row above."""
LEVEL = 9


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return the bytes of a PNG file with pixels ``uint8 [height, width, 3]``, top row first."""
    height, width, channels = pixels.shape
    if channels != 3 or pixels.dtype != np.uint8:
        shape = f"{pixels.dtype} [{height}, {width}, {channels}]"
        raise ValueError(f"pixels are {shape}, expected uint8 [height, width, 3]")
    rows = pixels.reshape(height, width * channels)
    above = np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])
    filtered = np.empty((height, width * channels + 1), np.uint8)
    filtered[:, 0] = FILTER_UP
    filtered[:, 1:] = rows - above
    head = struct.pack(">IIBBBBB", width, height, BITS, TRUE_COLOUR, 0, 0, 0)
    body = zlib.compress(filtered.tobytes(), LEVEL)
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
