"""Smoke in Chromium: a cloud looks the same after seeking and after playing from its burst."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.replay.reader import Replay
from echelon.server.catalogue import match_id
from tests.browser.conftest import RUN, SMOKE, served_match
from tests.browser.player import DRAW_CALLS, open_match, pause, seek, settled_picture

LIFE_TICKS = 200
MATCH = match_id(RUN, "smoke.ecr")


@pytest.fixture
def smoke(home: Path) -> Iterator[Path]:
    """The smoke match in the served home."""
    with served_match(home, SMOKE) as path:
        yield path


def bursts() -> list[tuple[int, float, float, float]]:
    """Return burst tick and centre of every cloud of the match, in time order."""
    found = set()
    with Replay(SMOKE) as replay:
        for n in range(len(replay.chunks)):
            chunk = replay.chunk(n)
            rows = chunk.tables["clouds"]
            ticks = rows["tick"] + chunk.ref.tick0
            found |= {
                (int(t), *(float(v) / 8 for v in at)) for t, *at in zip(ticks, *(rows[a] for a in "xyz"), strict=True)
            }
    return sorted(found)


def look_at(page: Any, address: str, tick: float, place: tuple[float, ...], quality: str) -> None:
    """Reopen the match paused at a tick, with the camera at a place without mechs."""
    page.goto("about:blank")
    open_match(page, address, MATCH, quality=quality)
    pause(page)
    page.evaluate(
        """([tick, target]) => {
          echelon.control.seek(echelon.state, tick);
          Object.assign(echelon.state.camera, { mode: "orbit", target, azimuth: -1.57, elevation: 0.5, distance: 16 });
        }""",
        [tick, list(place)],
    )
    page.wait_for_function("() => echelon.complete()")


@pytest.mark.long
@pytest.mark.parametrize("quality", ["low", "medium"])
def test_smoke_cloud_looks_same_after_playing_and_seeking(page, address, smoke, quality):
    page.set_viewport_size({"width": 480, "height": 360})
    burst, *place = bursts()[0]
    middle = burst + LIFE_TICKS // 2 + 0.5
    look_at(page, address, middle, tuple(place), quality)
    after_seek = settled_picture(page)
    living = sum(b <= middle < b + LIFE_TICKS for b, *_ in bursts())
    cost = page.evaluate("() => echelon.cost()")
    assert cost["clouds"] == living > 0 and cost["calls"] <= DRAW_CALLS

    look_at(page, address, burst - 10, tuple(place), quality)
    before = settled_picture(page)
    assert page.evaluate("() => echelon.cost().clouds") == 0
    for tick in range(burst - 10, burst + 150, 8):  # through the burst and past the middle, then back
        seek(page, tick)
    seek(page, middle)
    assert settled_picture(page) == after_seek != before


def test_inspector_reports_mech_in_smoke(page, address, smoke):
    burst, *place = bursts()[3]
    look_at(page, address, burst + 21, tuple(place), "low")
    with Replay(SMOKE) as replay:
        (n,) = [n for n, ref in enumerate(replay.chunks) if ref.tick0 < burst + 21 <= ref.tick1]
        frames, roster = replay.chunk(n).frames, replay.header["roster"]
        alive = [m for m in range(len(roster)) if frames["flags"][-1][m] & 1]
        away = {m: sum((frames[a][-1][m] / 16 - p) ** 2 for a, p in zip("xyz", place, strict=True)) for m in alive}
    near = min(away, key=lambda m: away[m])
    page.evaluate("(mech) => echelon.control.select(echelon.state, mech, false)", near)
    page.get_by_label("Selected mech").get_by_text("in smoke").wait_for(state="visible")
