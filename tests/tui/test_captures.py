"""Invariants of every screen on the smallest terminal, on the scenes of ``support.captures``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from echelon.runs import RunPaths
from echelon_cli.tui import screens
from echelon_cli.tui.layout import MIN_SIZE
from echelon_cli.tui.panels import PAGES
from echelon_cli.tui.theme import make_theme
from tests.tui.support.captures import SCENES, canned_home, capture

CORNERS = (("╭", "╮"), ("╰", "╯"))


@pytest.fixture(scope="module")
def canned(tmp_path_factory) -> Iterator[tuple[Path, RunPaths]]:
    """A folder with runs, a sweep and a league, and its running run."""
    home = tmp_path_factory.mktemp("canned")
    with canned_home(home) as run:
        yield home, run


@pytest.mark.parametrize(
    "name", ["runs", "run-3", "run-4", "find", "compare", "league-1", "league-2", "sweep-2", "new", "help"]
)
async def test_smallest_terminal_cuts_and_covers_nothing(canned, name):
    text, _ = await capture(*canned, name, MIN_SIZE, make_theme(colour=False), unchanged=3)
    lines = text.splitlines()
    assert len(lines) <= MIN_SIZE[1] and all(cell_len(line) <= MIN_SIZE[0] for line in lines)
    for left, right in CORNERS:
        assert all(line.count(left) == line.count(right) for line in lines), "a frame is covered"
    titles = [line for line in lines if "╭" in line]
    assert not any("…" in line for line in titles), "a title is truncated"
    assert "? help" in lines[-1] and "q quit" in lines[-1]
    if name.startswith("run-"):
        assert all(page in "\n".join(lines) for page in PAGES)


def test_every_screen_module_has_a_capture_scene():
    there = {path.stem for folder in screens.__path__ for path in Path(folder).glob("*.py")}
    named = {"run" if name.startswith("run-") else name.partition("-")[0] for name in SCENES}
    same = {
        "configuration": "compare",
        "filter": "runs",
        "zoom": "run",
        "find": "run",
        "stop": "confirm",
        "no": "matches",
        "new": "new_run",
    }
    assert {same.get(name, name) for name in named} == there - {"__init__", "base", "chart_screen"}
