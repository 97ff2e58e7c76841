"""Golden files: stored results that tests compare with, and the one way to update them.

- ``battles.json``: state hashes of reference battles, and material hashes of maps of a single biome
- ``maps.json``: hashes of reference maps for each fairness
- ``sim_versions.json``: the hash of the reference battles of every simulation version
- ``worlds/``: a map printed by ``echelon world --plain``
- ``replays/``: replays and their decoded content; ``tests/replay/golden.py`` records the ``.ecr`` files
- elsewhere: ``tests/tui/snapshots/`` (panels and screens) and ``viewer/src/protocol.gen.ts`` (replay schema)

Tests that compare with such a file carry ``pytest.mark.golden`` and call ``assert_golden_text`` or
``assert_golden_json``. ``just golden`` runs them with ``ECHELON_UPDATE_GOLDEN=1``, which writes the current results.
"""

import difflib
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
UPDATE_VARIABLE = "ECHELON_UPDATE_GOLDEN"
"""Environment variable: if set, golden files are written instead of compared with."""
MAX_DIFF_LINES = 40


def updating() -> bool:
    """Return whether golden files are to be written."""
    return bool(os.environ.get(UPDATE_VARIABLE))


def assert_golden_text(path: Path, text: str, *, note: str = "") -> None:
    """Compare ``text`` with a golden file, or write it there if ``updating``.

    The failure shows the difference, ``note`` and the command that updates the file.
    """
    if updating():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != expected:
        diff = difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "current", lineterm="")
        raise AssertionError(_failure(path, list(diff), note))


def assert_golden_json(path: Path, value: Any, *, section: str = "", compact: bool = False, note: str = "") -> None:
    """Compare JSON values with a golden file, or with one ``section`` of it; write them if ``updating``."""
    value = json.loads(json.dumps(value))
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if updating():
        stored = {**stored, section: value} if section else value
        style: dict[str, Any] = {"separators": (",", ":")} if compact else {"indent": 2, "sort_keys": bool(section)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored, **style) + "\n", encoding="utf-8")
    expected = stored.get(section) if section else stored
    if value != expected:
        lines = [json.dumps(item, indent=1, sort_keys=True).splitlines() for item in (expected, value)]
        raise AssertionError(_failure(path, list(difflib.unified_diff(*lines, "golden", "current", lineterm="")), note))


def _failure(path: Path, diff: list[str], note: str) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    more = [f"... {len(diff) - MAX_DIFF_LINES} more lines"] if len(diff) > MAX_DIFF_LINES else []
    return "\n".join(
        [
            f"golden file {str(shown)!r} differs from the current result",
            *diff[:MAX_DIFF_LINES],
            *more,
            "if the change is intended, run `just golden` for all golden files, or for this one:",
            f"  {UPDATE_VARIABLE}=1 python -m pytest -m golden '{test}'",
            *([note] if note else []),
        ]
    )
