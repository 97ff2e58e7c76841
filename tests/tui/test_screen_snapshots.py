"""Run and league screens, compared with snapshots of every character and colour; ``just golden`` updates them."""

from __future__ import annotations

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
from tests.tui.support.captures import settle
from tests.tui.support.svg import plain_rows, screen_svg
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
        await until(pilot, lambda: not expected or plain_rows(screen_svg(app, screen)) + "\n" == expected)
        return plain_rows(screen_svg(app, screen))


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


def test_svg_rows_do_not_depend_on_segment_boundaries():
    rows = (
        '<svg xmlns="http://www.w3.org/2000/svg"><style>.screen-r1 {{ fill: #ff0000;font-weight: bold }}</style>'
        '<rect fill="#0000ff" x="12.2" y="25.9" width="12.2" height="24.65" shape-rendering="crispEdges"/>{}</svg>'
    )
    text = '<text class="screen-r1" x="{}" y="44.4" clip-path="url(#screen-line-1)">{}</text>'
    whole = plain_rows(rows.format(text.format(0, "ab&#160;c")))
    assert whole == plain_rows(rows.format(text.format(0, "a") + text.format(12.2, "b") + text.format(36.6, "c\n")))
    red = "fill: #ff0000 font-weight: bold"
    assert whole.splitlines() == ["", "ab c", "", "", "ab a", "", f"a {red}", f"b {red} on #0000ff"]
