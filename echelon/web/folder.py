"""The folder of the page: the built viewer, files named by their content, and the manifest that names them.

Static hosts compress nothing, so large files lie compressed by gzip. ``loader.js`` in the index unpacks the viewer and
starts it; ``offline.js`` is the page's service worker, which keeps every file that the manifest lists.
"""

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echelon.files import write_output
from echelon.server.page import SCRIPT, WORKER, embedded_json

INDEX, MANIFEST, OFFLINE = "index.html", "game.json", "offline.js"
PACKED = ".gz"
NEEDED = ("assets/*.css", "assets/*.woff2", "*.svg", "*.webp", "THIRD_PARTY_NOTICES.txt")
"""Files of the viewer that lie in the folder as they are."""
HASH_DIGITS = 10
SOURCES = Path(__file__).parent


class PageFolder:
    """A folder that files are added to; ``finish`` writes what leads to them."""

    def __init__(self, root: Path, static: Path) -> None:
        index = static / INDEX
        if not index.is_file():
            raise ValueError(f"the viewer is not built in {str(static)!r}; install with `pip install .` to build it")
        self._root, self._static = root, static
        self._files: dict[str, dict[str, Any]] = {}
        self._earlier = _listed(root / MANIFEST)
        root.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, data: bytes, *, packed: bool = True) -> str:
        """Write a file, compressed where it is ``packed``; return its path in the folder, which names its content."""
        stem, _, suffix = name.partition(".")
        path = f"{stem}-{hashlib.sha256(data).hexdigest()[:HASH_DIGITS]}.{suffix}"
        return self._write(f"{path}{PACKED}", _packed(data)) if packed else self._write(path, data)

    def finish(self, manifest: Mapping[str, Any]) -> dict[str, int]:
        """Write viewer, manifest, index and service worker; return the bytes of each file in the folder.

        Files of an earlier page in the folder are deleted.
        """
        page = (self._static / INDEX).read_text(encoding="utf-8")
        script = SCRIPT.search(page)
        if script is None:
            raise ValueError(f"viewer {str(self._static / INDEX)!r} lacks a script, expected one; build it again")
        for path in sorted(path for pattern in NEEDED for path in self._static.glob(pattern)):
            self._write(path.relative_to(self._static).as_posix(), path.read_bytes())
        scripts = [self._static / script[1], *sorted((self._static / "assets").glob(WORKER))]
        viewer = [self._write(f"assets/{path.name}{PACKED}", _packed(path.read_bytes())) for path in scripts]
        text = embedded_json({**manifest, "viewer": viewer, "files": self._files})
        started = f'<script type="application/json" id="echelon-game">{text}</script>'
        started += f'<script type="module">{(SOURCES / "loader.js").read_text(encoding="utf-8")}</script>'
        page = page.replace(script[0], "").replace("</body>", f"{started}\n</body>")
        write_output(self._root / MANIFEST, text)
        write_output(self._root / INDEX, page)
        shutil.copyfile(SOURCES / OFFLINE, self._root / OFFLINE)
        for path in self._earlier - self._files.keys():
            (self._root / path).unlink(missing_ok=True)
        pages = {name: (self._root / name).stat().st_size for name in (INDEX, MANIFEST, OFFLINE)}
        return pages | {path: entry["bytes"] for path, entry in self._files.items()}

    def _write(self, path: str, data: bytes) -> str:
        target = self._root / path
        target.parent.mkdir(exist_ok=True)
        write_output(target, data)
        self._files[path] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        return path


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def _listed(manifest: Path) -> set[str]:
    """Return the files that an earlier page's manifest lists; those outside its folder are left out."""
    try:
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError):
        return set()
    return {path for path in map(str, files) if re.fullmatch(r"(?:\w+/)?\w[\w.-]*", path)}
