"""``docs/requirements.md`` is complete: every id has a row, and every named test exists and runs."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "requirements.md"
ACCEPTANCE = [f"SIM-A{n}" for n in range(1, 28)]
REVIEWED = [
    f"SIM-{name}"
    for name in (
        "CRIT-4 HIGH-5 HIGH-6 HIGH-7 MED-3 HIGH-8 HIGH-11 HIGH-12 MED-1 MED-2 MED-4 MED-5 MED-6 MED-11 MED-12 LOW-9 "
        "MED-14 MED-15 LOW-3 LOW-4 LOW-5 LOW-6 LOW-7"
    ).split()
]
CHECKLIST = [f"RL-{n}" for n in range(1, 144)]
IDS = ACCEPTANCE + REVIEWED + CHECKLIST
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
OPEN = re.compile(r"\bopen: ?([^<|]*)")
REASON_LENGTH = 15
"""A reason shorter than this says nothing."""


def rows() -> list[tuple[str, str]]:
    """Return (id, last cell) of every row of the tables."""
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| ((?:SIM|RL)-[\w-]+) \|", line):
            found.append((match[1], line.strip(" |").split(" | ")[-1]))
    return found


@cache
def cases_of(path: Path) -> dict[str, bool]:
    """Return the tests of a file by name, and whether each can be counted on: not skipped, not expected to fail."""
    found: dict[str, bool] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
            found[node.name] = not re.search(r"mark\.(?:xfail|skip)\b", marks)
    return found


def test_every_requirement_has_one_row_in_order():
    assert [name for name, _ in rows()] == IDS


@pytest.mark.parametrize("name", IDS)
def test_requirement_names_existing_tests_or_a_reason(name):
    held = dict(rows())[name]
    tests, reasons = NAMED.findall(held), OPEN.findall(held)
    assert tests or reasons, f"{name} is neither held nor open"
    assert all(len(reason.strip()) >= REASON_LENGTH for reason in reasons), f"{name} is open without a reason"
    for path, test in tests:
        file = ROOT / "tests" / path
        assert file.is_file(), f"{name}: {path} is not there"
        assert test in cases_of(file), f"{name}: {path} has no {test}"
        assert cases_of(file)[test], f"{name}: {path}::{test} is skipped or expected to fail"


def test_acceptance_vectors_have_tests_of_their_name():
    held = dict(rows())
    for name in ACCEPTANCE:
        number = name.removeprefix("SIM-").lower()
        assert any(test.startswith(f"test_{number}_") for _, test in NAMED.findall(held[name])), name


def test_requirement_rows_have_no_malformed_test_names():
    """What is named beside nothing else is text between backquotes: a typing slip would hide a test."""
    for name, held in rows():
        rest = NAMED.sub("", held)
        assert "::" not in rest, f"{name}: {rest}"
