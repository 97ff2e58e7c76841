"""Branches in the catalogue: what their headers say of the match that they continue, and which listed match that is.

A branch names its parent by the file's name and the SHA-256 of its recording; equal names occur in several runs, so
only the hash decides.
Files are hashed only where a branch gives their name, once per content, and a part of them per scan.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

MAX_CHANGED, MAX_TEXT = 256, 200
"""Changes of a branch that are listed, and the length of a text."""
MAX_HASHES = 4096
"""Most files whose hash is known; branches of further ones have no parent."""
MAX_FILE_BYTES = 2**30
"""Size above which a file is not hashed."""
SCAN_BYTES = 2**27
"""Bytes that are hashed per scan, besides the rest of the last file."""
BLOCK_BYTES = 2**20
Stamp = tuple[int, int, int]
Match = Any
"""A ``Match`` of the catalogue, which imports this module."""


def branch_of(header: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the file and tick that a match continues, and what was changed; None for a match that is no branch.

    ``match``, the id of the match that it continues, is found by ``Parents``.
    """
    parent = header.get("parent")
    if parent is None:
        return None
    pilots, changes = (list(parent.get(key, {}).items())[:MAX_CHANGED] for key in ("set", "changes"))
    return {
        "file": parent["file"],
        "match": "",
        "tick": parent["tick"],
        "set": {mech[:MAX_TEXT]: pilot[:MAX_TEXT] for mech, pilot in pilots},
        "changes": [f"{name}={value}"[:MAX_TEXT] for name, value in changes],
        "still": [mech[:MAX_TEXT] for mech in parent.get("still", [])[:MAX_CHANGED]],
    }


class Parents:
    """Finds the matches that branches continue; ``open_file`` opens the file of a match. Used by one thread at a time.

    Hashes are kept by inode, size and modification time.
    """

    def __init__(self, open_file: Callable[[Any], BinaryIO]) -> None:
        self._open_file = open_file
        self._hashes: dict[Stamp, str] = {}

    def find(self, matches: Iterable[Match]) -> dict[str, str]:
        matches = list(matches)
        branches = [match for match in matches if match.origin]
        names = {match.summary["parent"]["file"] for match in branches}
        named = sorted((m for m in matches if m.summary["file"] in names and m.summary["complete"]), key=lambda m: m.id)
        self._hash(named)
        by_hash: dict[str, list[Match]] = {}
        for match in named:
            by_hash.setdefault(self._hashes.get(match.stamp, ""), []).append(match)
        found = {}
        for branch in branches:
            same = [match for match in by_hash.get(branch.origin, []) if match.id != branch.id]
            same.sort(key=lambda match: match.run != branch.run)
            found[branch.id] = same[0].id if same else ""
        return found

    def _hash(self, matches: list[Match]) -> None:
        stamps = {match.stamp for match in matches}
        self._hashes = {stamp: value for stamp, value in self._hashes.items() if stamp in stamps}
        left = SCAN_BYTES
        for match in matches:
            if match.stamp in self._hashes or match.stamp[1] > MAX_FILE_BYTES:
                continue
            if left <= 0 or len(self._hashes) >= MAX_HASHES:
                return
            left -= match.stamp[1]
            self._hashes[match.stamp] = self._hash_of(match)

    def _hash_of(self, match: Match) -> str:
        """Return the SHA-256 of a file, "" for one that cannot be read or has grown since it was listed."""
        try:
            digest, left = hashlib.sha256(), match.recorded
            with self._open_file(match) as file:
                while block := file.read(min(BLOCK_BYTES, left)):
                    digest.update(block)
                    left -= len(block)
                status = os.fstat(file.fileno())
        except (OSError, ValueError):
            return ""
        return digest.hexdigest() if (status.st_ino, status.st_size, status.st_mtime_ns) == match.stamp else ""
