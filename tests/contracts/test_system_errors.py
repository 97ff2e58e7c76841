"""Errors of the system reach people in the words of ``echelon.files``: the file, why, and what helps; no numbers."""

from __future__ import annotations

import ast
import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.files import error_text, reason_of

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = {
    "OSError", "FileNotFoundError", "PermissionError", "FileExistsError", "NotADirectoryError", "IsADirectoryError",
}  # fmt: skip

HANDLER = re.compile(rf"except .*\b(?:{'|'.join(SYSTEM)})\b")
OTHER_WORDS = {
    "echelon/files.py": "the words themselves",
    "echelon/hub.py": "errors of the Hub's library, which derive from OSError",
}


def worded(path: Path) -> Iterator[str]:
    """Yield the uses of a system error's own text in the handlers of a file."""
    source = path.read_text(encoding="utf-8")
    if not HANDLER.search(source):
        return
    for handler in ast.walk(ast.parse(source)):
        if not (isinstance(handler, ast.ExceptHandler) and handler.type is not None and handler.name):
            continue
        if not {name.strip() for name in ast.unparse(handler.type).strip("()").split(",")} & SYSTEM:
            continue
        for node in ast.walk(handler):
            printed = isinstance(node, ast.FormattedValue) and ast.unparse(node.value) == handler.name
            text = isinstance(node, ast.Call) and ast.unparse(node) == f"str({handler.name})"
            if printed or text or (isinstance(node, ast.Attribute) and node.attr == "strerror"):
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_system_errors_are_worded_in_one_place():
    files = [path for package in ("echelon", "echelon_cli") for path in (ROOT / package).rglob("*.py")]
    found = [use for path in files if str(path.relative_to(ROOT)) not in OTHER_WORDS for use in worded(path)]
    assert found == []


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (ValueError("lr is 0"), "lr is 0", "lr is 0"),
        (OSError("no number"), "no number", "no number"),
        (OSError(errno.EIO, "I/O error", "x"), "i/o error", "'x': i/o error"),
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on device", "no space left on device"),
        (
            OSError(errno.ENOENT, "No such file", "x"),
            "no such file",
            "'x': no such file; create it, or name another one",
        ),
    ],
)
def test_system_error_names_file_reason_and_advice(error, reason, text):
    assert (reason_of(error), error_text(error)) == (reason, text)
