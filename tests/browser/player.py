"""Player actions for browser tests; each waits for its resulting state, without fixed sleeps or positions.

A key takes effect before ``press`` returns, so that the changed state can be read at once; results of frames, workers
and the server have to be awaited.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
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
FIRST_PICTURE = "() => echelon.cost().firstFrameMs && performance.timeOrigin + echelon.cost().firstFrameMs"
"""Time of the first complete picture [ms since 1970], 0 before it."""
PAUSED = "() => echelon.state.match !== null && !(echelon.state.playing = false)"
"""Pauses as soon as there is a match: it plays in real time however slowly a machine draws."""
SETTLED = "() => echelon.settled().then(() => true)"
CHECKED = "check=1"
"""Part of the address of a page that ``open_match`` and its like have opened: errors of shaders are reported."""
RESET = """() => {
  const off = ["showPilot", "showShare", "showHelp", "showChart", "showTable", "showSettings"];
  Object.assign(echelon.state, Object.fromEntries(off.map((name) => [name, false])));
  Object.assign(echelon.state, { showBars: true, showLinks: true, showMap: true, heatSide: "teams" });
  document.activeElement?.blur();
  location.hash = "";
}"""
DROP = """(bytes) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "holiday.ecr"));
  window.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
}"""
PICTURE = """() => new Promise((done) => requestAnimationFrame(done)).then(() => {
  echelon.redraw();  // the canvas can only be read in the frame of a draw, and a paused match draws nothing by itself
  const canvases = document.querySelectorAll("canvas.picture, canvas.picture-overlay");
  return [...canvases].map((canvas) => canvas.toDataURL()).join(" ");
})"""
REPORT = """() => {
  const { state } = window.echelon ?? {};
  const frame = new Promise((done) => requestAnimationFrame(() => done("")));
  const none = new Promise((done) => setTimeout(() => done("no animation frame within 2 s"), 2000));
  return Promise.race([frame, none]).then((frames) => ({
    address: location.href,
    ...(state ? {
      page: state.page, tick: state.tick, playing: state.playing, lost: state.lost, problem: state.problem,
      connected: state.connected, missing: echelon.missing(), draws: echelon.cost().draws,
      failure: state.match?.store.failure(state.match.chunkNumber)?.message,
    } : { script: "not running" }),
    visible: document.visibilityState,
    seconds: performance.now() / 1000,
    frames,
  }));
}"""
REPORT_MS = 10_000
FRAMES = """(frames) => new Promise((done) => {
  const on = () => frames-- > 0 ? requestAnimationFrame(on) : done();
  on();
})"""


def open_match(page: Any, address: str, match: str, more: str = "", quality: str = "low") -> None:
    """Open a match and wait for its first complete picture; tier "" is automatic."""
    _go_to(page, address, match, more, quality)
    _wait_open(page, LOADED)


def _go_to(page: Any, address: str, match: str, more: str, quality: str) -> None:
    """Open a match: in the page's application, taken to its first state, if that has this address and tier."""
    tier = f"&quality={quality}" if quality else ""
    application = f"{address}/?{CHECKED}{tier}"
    if page.url.partition("#")[0] != application:
        page.goto(f"{application}#match={match}{more}")
        return
    page.evaluate(RESET)
    page.wait_for_function("() => echelon.state.page === 'list'")
    page.evaluate("(hash) => { location.hash = hash; }", f"match={match}{more}")
    page.wait_for_function("() => echelon.state.page === 'match'")


def _wait_open(page: Any, expression: str) -> None:
    """Wait until an expression holds; ``AssertionError`` at once where the page reports a problem."""
    page.wait_for_function(f"() => echelon.state.problem !== '' || ({expression})()")
    assert state(page, "problem") == ""


def open_paused(page: Any, address: str, match: str, tick: float, more: str = "", quality: str = "low") -> None:
    """Open a match paused at a tick and wait for the complete picture."""
    _go_to(page, address, match, more, quality)
    _wait_open(page, PAUSED)
    seek(page, tick)


def report(page: Any) -> str:
    """Return what a page shows and waits for, for the message of a test that has failed."""
    try:  # a wait ends in any case; an evaluation would last as long as the page does not respond
        found = page.wait_for_function(REPORT, timeout=REPORT_MS, polling=200).json_value()
    except Exception as error:
        return f"the page does not respond: {str(error).splitlines()[0]}"
    return ", ".join(f"{name} {value!r}" for name, value in found.items())


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


def settle(page: Any) -> None:
    """Wait until nothing is left to draw: camera, meshes and overlays of a paused match are at rest."""
    page.wait_for_function(SETTLED)


def settled_picture(page: Any) -> str:
    """Return picture and overlay of a paused match as data URLs, once camera, meshes and overlays have settled."""
    settle(page)
    return page.evaluate(PICTURE)


def draws_at_rest(page: Any) -> int:
    """Return the number of drawn pictures once the picture has settled."""
    settle(page)
    return page.evaluate("() => echelon.cost().draws")


def pass_frames(page: Any, frames: int = RESTING_FRAMES) -> None:
    """Wait for a number of animation frames."""
    page.evaluate(FRAMES, frames)


def count_transfers(page: Any) -> Callable[..., dict[str, int]]:
    """Return a function that returns the bytes of each response since now by address, headers included; with `until`
    [ms since 1970] only of requests sent before. The browser reports no body of a worker's script, its header does.
    """
    requests: list[Any] = []
    page.on("requestfinished", lambda request: requests.append(request))

    def size(request: Any) -> int:
        sizes = request.sizes()
        announced = int(request.response().headers.get("content-length", 0))
        return max(sizes["responseBodySize"], announced) + sizes["responseHeadersSize"]

    def count(until: float = math.inf) -> dict[str, int]:
        return {request.url: size(request) for request in list(requests) if request.timing["startTime"] <= until}

    return count


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
