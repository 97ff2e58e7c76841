"""Player actions for browser tests; each waits for its resulting state, without fixed sleeps or positions.

A key takes effect before ``press`` returns, so that the changed state can be read at once; results of frames, workers
and the server have to be awaited.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DRAW_CALLS = 25
"""Most draw calls of a complete picture."""
RESTING_FRAMES = 20
"""Number of frames in which a picture at rest must not be redrawn."""
TOUCH_S = 5.0
"""Interval at which a live match's file is touched [s]; the server treats it as ended after 30 s."""
LOADED = "() => echelon.state.match !== null && echelon.complete()"
SETTLED = "() => echelon.settled()"
PICTURE = """() => new Promise((done) => requestAnimationFrame(() => {
  echelon.redraw();  // the canvas can only be read in the frame of a draw, and a paused match draws nothing by itself
  const canvases = document.querySelectorAll("canvas.picture, canvas.picture-overlay");
  done([...canvases].map((canvas) => canvas.toDataURL()).join(" "));
}))"""
FRAMES = """(frames) => new Promise((done) => {
  const on = () => frames-- > 0 ? requestAnimationFrame(on) : done();
  on();
})"""


def open_match(page: Any, address: str, match: str, more: str = "", quality: str = "low") -> None:
    """Open a match and wait for its first complete picture; tier "" is automatic."""
    tier = f"&quality={quality}" if quality else ""
    page.goto(f"{address}/?check=1{tier}#match={match}{more}")
    page.wait_for_function(LOADED)


def open_paused(page: Any, address: str, match: str, tick: float, more: str = "", quality: str = "low") -> None:
    """Open a match paused at a tick and wait for the complete picture."""
    open_match(page, address, match, more, quality)
    pause(page)
    seek(page, tick)


def state(page: Any, expression: str) -> Any:
    return page.evaluate(f"() => echelon.state.{expression}")


def pause(page: Any) -> None:
    page.evaluate("() => { echelon.state.playing = false; }")


def seek(page: Any, tick: float) -> None:
    """Seek to a tick and wait for its chunk, terrain and mechs."""
    page.evaluate("(tick) => echelon.control.seek(echelon.state, tick)", tick)
    page.wait_for_function("() => echelon.complete()")


def press_and_wait(page: Any, key: str) -> None:
    """Press a key that moves the cursor, and wait for the complete picture."""
    page.keyboard.press(key)
    page.wait_for_function("() => echelon.complete()")


def settled_picture(page: Any) -> str:
    """Return picture and overlay of a paused match as data URLs, once camera, meshes and overlays have settled."""
    page.evaluate(SETTLED)
    return page.evaluate(PICTURE)


def draws_at_rest(page: Any) -> int:
    """Return the number of drawn pictures once the picture has settled."""
    page.evaluate(SETTLED)
    return page.evaluate("() => echelon.cost().draws")


def pass_frames(page: Any, frames: int = RESTING_FRAMES) -> None:
    """Wait for a number of animation frames."""
    page.evaluate(FRAMES, frames)


@contextmanager
def keep_live(path: Path) -> Iterator[None]:
    """Keep an unfinished match live by touching its file within the context; removes the file at the end."""
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
