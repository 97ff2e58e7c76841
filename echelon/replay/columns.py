"""Encoding of integer columns as bytes: prediction, zig-zag code and byte planes.

Small residuals become small unsigned integers, whose high bytes are zero and compress well. Shapes: F rows, W values
per row. Columns are defined by ``schema``; sizes read from a file are checked.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.replay.schema import BY_RATE, DTYPE_BYTES, MAX_NAMES, MAX_ROWS, PREDICTORS

Ints = NDArray[np.int64]
ColumnSpec = Mapping[str, Any]
TEAMS = 2
LINEAR = 2
BYTE = 8
MAX_GAIN = 2**15
"""Maximum ``gain`` between a rate column and the predicted column; sums stay within 64 bits."""


def bounds(dtype: str) -> tuple[int, int]:
    bits = BYTE * DTYPE_BYTES[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def check_columns(columns: Sequence[ColumnSpec], *, frames: bool) -> None:
    """Raise ``ValueError`` for a column with an unknown type, predictor, shape (of frame columns) or rate."""
    for column in columns:
        name = column.get("name")
        if column.get("dtype") not in DTYPE_BYTES or column.get("predict") not in PREDICTORS:
            raise ValueError(f"column {name!r} has an unknown type or predictor")
        if frames and (column.get("per") not in ("frame", "team", "mech") or not 1 <= column.get("k", 0) <= MAX_NAMES):
            raise ValueError(f"column {name!r} has an unknown shape")
    known = {column["name"]: column for column in columns}
    for column in (column for column in columns if column["predict"] == BY_RATE):
        rate = known.get(column.get("rate"), {})
        same_shape = all(rate.get(key) == column.get(key) for key in ("per", "k"))
        if not same_shape or rate.get("predict") == BY_RATE or abs(column.get("gain", MAX_GAIN + 1)) > MAX_GAIN:
            raise ValueError(f"column {column['name']!r} has no valid rate column")


class GrowingRows:
    """Rows of numbers in one array that doubles as it fills."""

    def __init__(self, *shape: int, dtype: type[np.generic]) -> None:
        self._data: NDArray[Any] = np.zeros((0, *shape), dtype)
        self.count = 0

    def append(self, rows: NDArray[Any]) -> None:
        end = self.count + len(rows)
        if end > len(self._data):
            larger = np.zeros((max(end, 2 * len(self._data)), *self._data.shape[1:]), self._data.dtype)
            larger[: self.count] = self.rows
            self._data = larger
        self._data[self.count : end] = rows
        self.count = end

    def thin(self) -> None:
        """Keep every second row."""
        kept = self.rows[::2]
        self._data[: len(kept)] = kept.copy()
        self.count = len(kept)

    @property
    def size(self) -> int:
        return self._data.nbytes

    @property
    def rows(self) -> NDArray[Any]:
        """The rows ``[count, ...]``."""
        return self._data[: self.count]


class _Code(NamedTuple):
    """Place and code of a column."""

    part: slice
    bits: int
    low: int
    predict: int

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    def wrap(self, values: Ints, low: int) -> Ints:
        """Return values modulo the size of the type, from ``low`` on."""
        return ((values - low) & self.mask) + low


class Layout:
    """Layout of a block of columns in rows and in bytes.

    With ``mechs``, the columns are frame columns, with a value per entity; without, they are columns of a table.
    """

    def __init__(self, columns: Sequence[ColumnSpec], mechs: int | None = None) -> None:
        entities = {"frame": 1, "team": TEAMS, "mech": mechs}
        self.names = [str(column["name"]) for column in columns]
        widths = [1 if mechs is None else int(entities[c["per"]] or 0) * int(c["k"]) for c in columns]
        edges = np.cumsum([0, *widths])
        self.parts = {name: slice(int(edges[i]), int(edges[i + 1])) for i, name in enumerate(self.names)}
        self.width = int(edges[-1])
        self._sizes = sizes = [DTYPE_BYTES[column["dtype"]] for column in columns]
        self.row_bytes = int(np.dot(widths, sizes)) if columns else 0
        self._wide = [(self.parts[n], size) for n, size in zip(self.names, sizes, strict=True) if size > 1]
        self._codes = [
            _Code(self.parts[c["name"]], BYTE * size, bounds(c["dtype"])[0], c["predict"])
            for c, size in zip(columns, sizes, strict=True)
        ]
        by_rate = [(code, c) for code, c in zip(self._codes, columns, strict=True) if c["predict"] == BY_RATE]
        self._rates = [(code, self.parts[c["rate"]], int(c["gain"])) for code, c in by_rate]

    def split(self, rows: Ints) -> dict[str, Ints]:
        """Return views of each column ``[F, w]`` by name."""
        return {name: rows[:, part] for name, part in self.parts.items()}

    def encode(self, rows: Ints) -> bytes:
        """Return rows ``[F, W]``, at least one and with values within their bounds, as a block of bytes.

        The block starts with the low bytes of the first row, then those of the other rows by value, then the higher
        bytes by column, so that similar bytes are adjacent.
        """
        coded = rows.astype(np.int64)
        for code in self._codes:
            values, residual = rows[:, code.part], coded[:, code.part]
            if code.predict:
                residual[1:] -= values[:-1]
            if code.predict == LINEAR:
                residual[2:] -= values[1:-1] - values[:-2]
        for code, rate, gain in self._rates:
            coded[1:, code.part] -= gain * rows[1:, rate]
        for code in self._codes:
            residual = code.wrap(coded[:, code.part], -(1 << (code.bits - 1)))
            coded[:, code.part] = ((residual << 1) ^ (residual >> 63)) & code.mask
        planes = [_split_plane(coded >> (BYTE * plane)) for plane in range(max(self._sizes, default=1))]
        parts, rest = list(planes[0]), len(rows) - 1
        for part, size in self._wide:
            for first, others in planes[1:size]:
                parts += [first[part], others[part.start * rest : part.stop * rest]]
        return b"".join(parts)

    def decode(self, data: bytes, rows: int) -> Ints:
        """Return the rows ``[F, W]`` of a block; raise ``ValueError`` for a wrong number of bytes."""
        if len(data) != rows * self.row_bytes:
            raise ValueError(f"block has {len(data)} bytes, expected {rows * self.row_bytes}")
        if not rows:
            return np.zeros((0, self.width), np.int64)
        block = np.frombuffer(data, np.uint8)
        count = rows * self.width
        coded = _join_plane(block[:count], rows, self.width)
        for part, size in self._wide:
            width = part.stop - part.start
            for plane in range(1, size):
                coded[:, part] |= _join_plane(block[count : count + rows * width], rows, width) << (BYTE * plane)
                count += rows * width
        # column by column, so that the temporary arrays stay small
        for code in self._codes:
            column = coded[:, code.part]
            values = (column >> 1) ^ -(column & 1)
            # linear prediction sums twice, except for the first row; sums wrap around in the stored type
            if code.predict == LINEAR:
                values[1:] = np.cumsum(values[1:], axis=0)
            if code.predict:
                values = np.cumsum(values, axis=0)
            coded[:, code.part] = code.wrap(values, code.low)
        for code, rate, gain in self._rates:
            predicted = coded[1:, code.part] + gain * np.cumsum(coded[1:, rate], axis=0)
            coded[1:, code.part] = code.wrap(predicted, code.low)
        return coded

    def decode_rows(self, data: bytes, rows: int) -> dict[str, Ints]:
        """Return the columns ``[rows]`` of a table by name."""
        if not 0 <= rows <= MAX_ROWS:
            raise ValueError(f"table has {rows} rows, expected at most {MAX_ROWS}")
        values = self.decode(data, rows)
        return {name: values[:, i] for i, name in enumerate(self.names)}


def _split_plane(coded: Ints) -> tuple[bytes, bytes]:
    low = coded.astype(np.uint8)
    return low[:1].tobytes(), low[1:].T.tobytes()


def _join_plane(plane: NDArray[np.uint8], rows: int, width: int) -> Ints:
    values = np.empty((rows, width), np.int64)
    values[0] = plane[:width]
    values[1:] = plane[width:].reshape(width, rows - 1).T
    return values
