"""Opening of files below a run folder that others may write to: only plain files, reached through no link."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from echelon.files import require_regular

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_beneath(root: Path, path: Path) -> BinaryIO:
    """Open a regular file below ``root`` for reading; ``OSError`` for a link at any level below ``root``.

    Each folder is opened relative to the one before, so that none can be replaced by a link meanwhile. ``root`` itself
    may be a link.
    """
    *folders, name = path.relative_to(root).parts
    at = os.open(root, FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        handle = os.open(name, FILE, dir_fd=at)
    finally:
        os.close(at)
    return os.fdopen(require_regular(handle, path), "rb")
