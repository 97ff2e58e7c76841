"""Tensors and plain values from files of any origin: nothing is run, and sizes are bounded.

Every function raises ``ValueError`` in plain words, and ``OSError`` where the system cannot read the file.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as _load_arrays
from safetensors.torch import load_file as _load_tensors
from torch import Tensor

from echelon.state_files import open_regular

HEADER_LENGTH_BYTES = 8
MAX_HEADER_BYTES = 1 << 20
"""Largest header of a safetensors file; one of a policy or an environment has some 20 KiB."""
MAX_PICKLE_BYTES = 16 << 20
"""Largest structure of a ``torch.save`` file; tensors are stored beside it."""
PICKLE_SUFFIX = ".pkl"
FORBIDDEN = re.compile(r"GLOBAL (\S+)")
"""The name in torch's message about something that is neither a tensor nor a plain value."""
INVALID = (SafetensorError, RuntimeError, EOFError, KeyError, TypeError, AttributeError, IndexError, ValueError)
"""Errors of the libraries for damaged files."""
REASON_CHARS = 200
T = TypeVar("T")


def load_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name."""
    _check_header(path)
    return _read(path, lambda: _load_tensors(path, device=str(device)))


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a safetensors file by name."""
    _check_header(path)
    return _read(path, lambda: _load_arrays(path))


def load_plain(path: Path) -> dict[str, Any]:
    """Return the dict of tensors and plain values in a ``torch.save`` file, on the CPU."""
    _check_archive(path)
    data = _read(path, lambda: torch.load(path, map_location="cpu", weights_only=True))
    if not isinstance(data, dict):
        raise ValueError(
            f"file {path.name!r} holds a {type(data).__name__}, expected a dict of tensors and plain values"
        )
    return data


def _read(path: Path, load: Callable[[], T]) -> T:
    try:
        return load()
    except pickle.UnpicklingError as error:
        if found := FORBIDDEN.search(str(error)):
            raise ValueError(
                f"file {path.name!r} is unsafe: it asks to run {found[1][:REASON_CHARS]!r}, expected only tensors and "
                "plain values; nothing was run, do not open it with other programs"
            ) from None
        raise ValueError(f"file {path.name!r} is damaged, expected tensors and plain values") from None
    except INVALID as error:
        reason = (str(error).splitlines() or [""])[0][:REASON_CHARS]
        raise ValueError(f"file {path.name!r} is damaged: {reason or type(error).__name__}") from None


def _check_header(path: Path) -> None:
    """Raise ``ValueError`` unless the header of a safetensors file fits in the file and in the budget."""
    with open_regular(path) as file:
        length = int.from_bytes(file.read(HEADER_LENGTH_BYTES), "little")
        size = file.seek(0, 2)
    if length > min(MAX_HEADER_BYTES, size - HEADER_LENGTH_BYTES):
        limit = f"expected at most {MAX_HEADER_BYTES} and less than the file"
        raise ValueError(f"file {path.name!r} is damaged: its header has {length} bytes, {limit}")


def _check_archive(path: Path) -> None:
    """Raise ``ValueError`` unless a file is an archive of uncompressed parts with a structure within the budget."""
    with open_regular(path) as file:
        try:
            parts = zipfile.ZipFile(file).infolist()
        except (zipfile.BadZipFile, *INVALID) as error:
            raise ValueError(f"file {path.name!r} is damaged: {str(error)[:REASON_CHARS]}") from None
    if any(part.compress_type != zipfile.ZIP_STORED or part.file_size != part.compress_size for part in parts):
        raise ValueError(f"file {path.name!r} has compressed parts, expected what torch.save writes")
    if sum(part.file_size for part in parts if part.filename.endswith(PICKLE_SUFFIX)) > MAX_PICKLE_BYTES:
        raise ValueError(f"file {path.name!r} has a structure of more than {MAX_PICKLE_BYTES} bytes")
