"""Win probability and moments in Chromium: the values that Python computes, in words, in the list and under keys."""

from __future__ import annotations

from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from tests.browser.conftest import GOLDEN, RUN
from tests.browser.player import open_paused, press_and_wait, seek, state

MATCH = match_id(RUN, "u000001-blue.ecr")
WIN_READ = "() => echelon.state.match.win.points.at(-1)?.tick >= echelon.control.lastTick(echelon.state.match)"
MOMENTS_READ = "() => echelon.state.match.moments.length > 0"
WIN_POINTS = "() => echelon.state.match.win.points.map(({ tick, p, low, high }) => [tick, p, low, high])"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Moments and curve of the golden match as Python finds them."""
    with Replay(GOLDEN) as replay:
        return replay.timeline()


def test_win_probability_is_that_of_python_and_explained(page, address, found):
    open_paused(page, address, MATCH, 60, quality="low")
    page.wait_for_function(WIN_READ)
    points = {tick: values for tick, *values in page.evaluate(WIN_POINTS)}
    columns = (found["win"][name] for name in ("tick", "blue", "low", "high"))
    curve = {tick: row for tick, *row in zip(*columns, strict=True)}
    assert points == curve
    chances = [int(text.split()[0]) for text in page.locator(".score-chance").all_inner_texts()]
    assert sum(chances) == 100 and abs(chances[0] / 100 - curve[60][0]) < 0.01
    page.locator(".win-track").hover()
    page.locator(".win-tip.shown", has_text="90 % band").wait_for()
    assert page.locator(".win-now").get_attribute("data-tip").startswith("Win probability, estimated from the state")


def test_moments_have_their_captions_at_the_key_and_in_the_list(page, address, found):
    moments = found["moments"]
    top = next(moment for moment in moments if moment["rank"] == 1)
    page.goto(f"{address}/?quality=low")
    page.locator(".card-moment", has_text=top["caption"]).wait_for()
    open_paused(page, address, MATCH, 0, quality="low")
    page.wait_for_function(MOMENTS_READ)
    assert page.locator(".win-mark").count() == len(moments) and page.locator(".win-mark.decisive").count() == 1
    seek(page, 0)
    for moment in [m for m in moments if m["tick"] > 0]:
        press_and_wait(page, "n")
        assert state(page, "tick") == moment["tick"]
        page.locator(".win-caption.shown", has_text=moment["caption"]).wait_for()
