"""Invariants of every screen on the smallest terminal, on the scenes of ``support.captures``."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from echelon.runs import RunPaths
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


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SCENES if name != "run"])
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
