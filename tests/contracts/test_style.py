"""Pyright skips device code; ruff and pyright themselves are steps of .ci/run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIRST_LINE = "# type: ignore\n"
"""Device code is Warp's language: annotations are calls, and arrays are typed by the struct that declares them."""


def test_files_with_device_code_begin_with_type_ignore():
    texts = {str(path): path.read_text(encoding="utf-8") for path in (ROOT / "echelon").rglob("*.py")}
    device = {path for path, text in texts.items() if re.search(r"^@wp\.(kernel|func|struct)", text, re.MULTILINE)}
    skipped = {path for path, text in texts.items() if text.startswith(FIRST_LINE)}
    assert sorted(device - skipped) == [], f"begin these files with {FIRST_LINE!r}"
    assert sorted(skipped - device) == [], f"remove the first line {FIRST_LINE!r} from these files"
