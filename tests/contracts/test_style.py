"""Pyright skips device code alone; ruff and pyright themselves are steps of .ci/run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_pyright_skips_exactly_the_files_with_device_code():
    """Device code is Warp's language: annotations are calls, and arrays are typed by the struct that declares them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    ignored = {ROOT / name.removesuffix("/**") for name in settings["ignore"]}
    device = {
        path
        for path in (ROOT / "echelon").rglob("*.py")
        if re.search(r"^@wp\.(kernel|func|struct)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    folders = {path for path in ignored if path.is_dir()}
    covered = {path for path in device if path in ignored or path.parent in folders}
    assert sorted(map(str, device - covered)) == [], "add these files to [tool.pyright] ignore"
    assert sorted(str(path) for path in ignored - folders if path not in device) == [], "remove these from ignore"
