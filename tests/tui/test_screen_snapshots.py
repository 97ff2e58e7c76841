"""Run and league screens, compared with snapshots of every character and colour; ``just golden`` updates them."""

import time
from collections.abc import Callable

import pytest

from echelon.arena.store import league_path
from echelon_cli.tui.app import Dashboard
from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.widgets.compositor import screen_text
from tests.golden import updating
from tests.tui.conftest import LIMIT_S, POLL_S
from tests.tui.support.canned import alive, make_evaluation, make_run
from tests.tui.support.captures import settle, styled_rows
from tests.tui.test_league import play
from tests.tui.test_panels import SNAPSHOTS, compare

CASES = [
    ("run", (160, 48), "dark"),
    ("run", (80, 24), "light"),
    ("eval", (80, 24), "dark"),
    ("league", (160, 48), "light"),
    ("league", (80, 24), "dark"),
]


async def captured_rows(home, run, name: str, screen: str, size: tuple[int, int], background: str) -> str:
    """Return the rows of a screen once they match the snapshot or are stable, after a while at the latest."""
    before = SNAPSHOTS / f"{name}.txt"
    expected = "" if updating() or not before.exists() else before.read_text(encoding="utf-8")
    shown = None if screen == "league" else run.root
    app = Dashboard(home, shown, theme=make_theme(background=background), poll_s=0.05)
    async with app.run_test(size=size) as pilot:
        if screen == "league":
            await pilot.press("a")
            await until(pilot, lambda: "anna" in screen_text(app.screen))
            await pilot.press("down")
        if not expected:
            await settle(app, pilot)
        await until(pilot, lambda: not expected or styled_rows(app.screen) + "\n" == expected)
        return styled_rows(app.screen)


async def until(pilot, condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition() and time.monotonic() < limit:
        await pilot.pause(POLL_S)


@pytest.mark.golden
@pytest.mark.parametrize(("screen", "size", "background"), CASES, ids=lambda value: str(value).replace(" ", ""))
async def test_screen_matches_snapshot(home, screen, size, background, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    name = f"screen-{screen}-{size[0]}x{size[1]}-{background}"
    play(league_path(home), 3)
    if screen == "eval":
        paths = make_evaluation(home, "20260101-130000-eval-brave-heron", batches=13)
    else:
        paths = make_run(home, "20260101-120000-quickstart-amber-jackal", updates=150)
    with alive(paths) as run:
        text = await captured_rows(home, run, name, screen, size, background)
    compare(name, text)
