"""Tensors, and the plain values beside them, in safetensors and JSON files of any origin.

Torch is loaded with the first tensor. Reading runs nothing, and headers and JSON are bounded. Every function that reads
raises ``ValueError`` in one line for a damaged file; ``OSError`` where the system cannot read it.
"""

from __future__ import annotations

import contextlib
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file as _load_arrays
from safetensors.numpy import save_file as save_arrays

from echelon.machine import cores
from echelon.state_files import is_utf8, open_regular, parse_json, read_bounded

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HEADER_LENGTH_BYTES = 8
DESCRIPTORS = "/dev/fd"
"""Folder of the open files of this process by number."""
MAX_HEADER_BYTES = 1 << 20
"""Largest header of a safetensors file; one of a policy or an environment has some 20 KiB."""
MAX_JSON_BYTES = 4 << 20
"""Largest JSON file of a state; one of a training run has some 100 KiB."""
TENSOR = "$tensor"
"""Key of a JSON object that stands for a tensor; its value is the tensor's name in the safetensors file."""
PACKED = "packed"
"""Plain value with the dtype and shape of each array of a file that ``save_packed`` wrote."""
PACK_LEVEL = 1
"""zlib level of packed arrays: a quarter of the time of the default, for 7 % more bytes."""
METADATA = "echelon"
"""Key of the plain values, as JSON, in the header of a safetensors file."""
INVALID = (
    SafetensorError, RuntimeError, EOFError, KeyError, TypeError, AttributeError, IndexError, ValueError, zlib.error
)  # fmt: skip
"""Errors of the libraries for damaged files."""
REASON_CHARS = 200
T = TypeVar("T")


def load_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    from safetensors.torch import load_file

    with _checked_name(path) as name:
        return read_file(path, lambda: load_file(name, device=str(device)))


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file, packed or not."""
    kinds = load_metadata(path).get(PACKED)

    def read(name: str) -> dict[str, np.ndarray]:
        stored = _load_arrays(name)
        return stored if kinds is None else {key: _unpacked(stored[key], *kind) for key, kind in kinds.items()}

    with _checked_name(path) as name:
        return read_file(path, lambda: read(name))


def save_packed(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Write ``arrays`` as zlib streams, which threads compress; ``load_arrays`` reads them."""
    with ThreadPoolExecutor(cores()) as pool:
        streams = dict(zip(arrays, pool.map(_packed, arrays.values()), strict=True))
    kinds = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    save_arrays(streams, path, metadata_of({PACKED: kinds}))


def _packed(array: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, the first of every element, then the second and so on, as a zlib stream."""
    planes = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8).T
    return np.frombuffer(zlib.compress(planes.tobytes(), PACK_LEVEL), np.uint8)


def _unpacked(stream: np.ndarray, dtype: str, shape: Sequence[int]) -> np.ndarray:
    kind, count = np.dtype(dtype), math.prod(shape)
    data = zlib.decompressobj().decompress(stream.data, count * kind.itemsize + 1)
    return np.frombuffer(data, np.uint8).reshape(kind.itemsize, count).T.copy().view(kind).reshape(shape)


def load_metadata(path: Path) -> dict[str, Any]:
    """Return the plain values in the header of a safetensors file; empty where it has none."""

    def read(name: str) -> dict[str, Any]:
        with safe_open(name, "numpy") as file:
            values = parse_json((file.metadata() or {}).get(METADATA, "{}"))
        if not isinstance(values, dict):
            raise ValueError(f"its metadata is a {type(values).__name__}, expected an object")
        return values

    with _checked_name(path) as name:
        return read_file(path, lambda: read(name))


def metadata_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the header entry that ``load_metadata`` reads."""
    return {METADATA: json.dumps(values)}


def split_tensors(state: Mapping[str, Any]) -> tuple[Any, dict[str, Tensor]]:
    """Return ``state`` with names in place of its tensors, as JSON, and its tensors by name.

    Names are paths of keys. Tensors are contiguous and share no memory, as safetensors needs.
    """
    from torch import Tensor

    tensors: dict[str, Tensor] = {}
    stored = set[int]()

    def plain(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensor = value.detach().contiguous()
            address = tensor.untyped_storage().data_ptr()
            tensors[path] = tensor.clone() if address in stored else tensor
            stored.add(address)
            return {TENSOR: path}
        if isinstance(value, Mapping):
            return {key: plain(item, f"{path}/{key}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item, f"{path}/{number}") for number, item in enumerate(value)]
        return value

    return {key: plain(value, key) for key, value in state.items()}, tensors


def join_tensors(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return what ``split_tensors`` took apart, with lists in place of tuples."""
    if isinstance(plain, list):
        return [join_tensors(item, tensors) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if plain.keys() == {TENSOR}:
        return tensors[plain[TENSOR]]
    return {key: join_tensors(item, tensors) for key, item in plain.items()}


def load_state(json_path: Path, tensors_path: Path) -> dict[str, Any]:
    """Return the state whose parts of ``split_tensors`` are in two files, on the CPU."""
    tensors = load_tensors(tensors_path)
    state = read_file(json_path, lambda: join_tensors(parse_json(read_bounded(json_path, MAX_JSON_BYTES)), tensors))
    if not isinstance(state, dict):
        raise ValueError(f"file {json_path.name!r} has a {type(state).__name__}, expected an object")
    return state


def read_file(path: Path, load: Callable[[], T]) -> T:
    """Return what ``load`` reads from ``path``; ``ValueError`` in one line where the file is damaged."""
    try:
        return load()
    except INVALID as error:
        reason = (str(error).splitlines() or [""])[0][:REASON_CHARS]
        raise ValueError(f"file {path.name!r} is damaged: {reason or type(error).__name__}") from None


@contextlib.contextmanager
def _checked_name(path: Path) -> Iterator[str]:
    """Yield a name of a safetensors file that is UTF-8, as the library needs, while the file is open.

    ``ValueError`` unless its header fits in the file and in the budget.
    """
    with open_regular(path) as file:
        length = int.from_bytes(file.read(HEADER_LENGTH_BYTES), "little")
        size = file.seek(0, 2)
        if length > min(MAX_HEADER_BYTES, size - HEADER_LENGTH_BYTES):
            limit = f"expected at most {MAX_HEADER_BYTES} and less than the file"
            raise ValueError(f"file {path.name!r} is damaged: its header has {length} bytes, {limit}")
        yield str(path) if is_utf8(str(path)) else f"{DESCRIPTORS}/{file.fileno()}"
