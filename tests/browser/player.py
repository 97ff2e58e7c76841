"""What tests do with the player, each waiting for the state it leads to: no fixed sleeps, no positions that may move.

A key acts before ``press`` returns, so that what it changed in the state can be read at once; whatever a frame, a
worker or the server does about it has to be waited for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DRAW_CALLS = 25
"""Most of a whole picture."""
RESTING_FRAMES = 20
"""Frames over which a picture at rest must not be drawn again."""
TOUCH_S = 5.0
"""How often a match that counts as live is touched; the server takes one for over after 30 s."""
LOADED = "() => echelon.state.match !== null && echelon.complete()"
SETTLED = "() => echelon.settled()"
PICTURE = """() => new Promise((done) => requestAnimationFrame(() => {
  echelon.redraw();  // what is drawn can only be read in the same frame, and a held moment draws nothing by itself
  done(document.querySelector("canvas.picture").toDataURL());
}))"""
FRAMES = """(frames) => new Promise((done) => {
  const on = () => frames-- > 0 ? requestAnimationFrame(on) : done();
  on();
})"""


def open_match(page: Any, address: str, match: str, more: str = "", quality: str = "low") -> None:
    """Open a match and wait until its first moment is whole on the screen; tier "" lets the viewer choose."""
    wish = f"&quality={quality}" if quality else ""
    page.goto(f"{address}/?check=1{wish}#match={match}{more}")
    page.wait_for_function(LOADED)


def open_paused(page: Any, address: str, match: str, tick: float, more: str = "", quality: str = "low") -> None:
    """Open a match and hold it at a tick, whole on the screen."""
    open_match(page, address, match, more, quality)
    pause(page)
    seek(page, tick)


def state(page: Any, expression: str) -> Any:
    return page.evaluate(f"() => echelon.state.{expression}")


def pause(page: Any) -> None:
    page.evaluate("() => { echelon.state.playing = false; }")


def seek(page: Any, tick: float) -> None:
    """Go to a tick, and wait for its chunk, terrain and mechs."""
    page.evaluate("(tick) => echelon.control.seek(echelon.state, tick)", tick)
    page.wait_for_function("() => echelon.complete()")


def press_and_wait(page: Any, key: str) -> None:
    """Press a key that moves the cursor, and wait for the chunk it leads to."""
    page.keyboard.press(key)
    page.wait_for_function("() => echelon.complete()")


def settled_picture(page: Any) -> str:
    """Return the canvas of a held match as a data URL, once camera, meshes and overlays have come to rest."""
    page.evaluate(SETTLED)
    return page.evaluate(PICTURE)


def draws_at_rest(page: Any) -> int:
    """Return how many pictures have been drawn once nothing is drawn any more."""
    page.evaluate(SETTLED)
    return page.evaluate("() => echelon.cost().draws")


def pass_frames(page: Any, frames: int = RESTING_FRAMES) -> None:
    """Let the page go through its loop so many times, however long that takes."""
    page.evaluate(FRAMES, frames)


@contextmanager
def keep_live(path: Path) -> Iterator[None]:
    """Keep a match that is not finished from being taken for over, however slow the machine; removes it at the end."""
    over = threading.Event()

    def touch() -> None:
        while not over.wait(TOUCH_S):
            os.utime(path)

    toucher = threading.Thread(target=touch, daemon=True)
    toucher.start()
    try:
        yield
    finally:
        over.set()
        toucher.join()
        path.unlink()
