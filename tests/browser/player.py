"""Player actions for browser tests; each waits for its resulting state, without fixed sleeps or positions.

A key takes effect before ``press`` returns, so that the changed state can be read at once; results of frames, workers
and the server have to be awaited.
"""

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
NO_POINTS = "() => [...document.querySelectorAll('.score-points')].every(({ textContent }) => textContent === '–')"
MOMENTS = "() => echelon.state.match.moments.length > 0"
FLYING = "() => echelon.state.flying && echelon.play.live.match.chunk !== null"
PACED = "(paused) => echelon.play.session.paused === paused"
"""Whether the session of the flown match is paused, or goes on."""
CHECKED = "check=1"
"""Part of the address of a page that ``open_match`` and its like have opened: errors of shaders are reported."""
RESET = """() => {
  const off = ["showPilot", "showShare", "showHelp", "showChart", "showTable", "showSettings"];
  Object.assign(echelon.state, Object.fromEntries(off.map((name) => [name, false])));
  Object.assign(echelon.state, { showBars: true, showLinks: true, showMap: true, heatSide: "teams" });
  document.activeElement?.blur();
  location.hash = "league";  // a page without pictures
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
REPORT = """() => ({
  address: location.href, missing: window.echelon?.missing(), problem: window.echelon?.state.problem,
  tick: window.echelon?.state.tick, playing: window.echelon?.state.playing, seconds: performance.now() / 1000,
})"""
REPORT_MS = 10_000
OVERLAY_CALLS = """(names) => new Promise((done) => requestAnimationFrame(() => {
  const brush = document.querySelector("canvas.picture-overlay").getContext("2d"), calls = [];
  for (const name of names) {
    brush[name] = function (...values) {
      const wide = name === "fillText" ? this.measureText(values[0]).width : 0;
      const dashes = this.getLineDash().length;
      calls.push({ name, values, wide, dashes, font: this.font, style: `${this.strokeStyle}` });
      return CanvasRenderingContext2D.prototype[name].apply(this, values);
    };
  }
  echelon.redraw();
  for (const name of names) delete brush[name];
  done(calls);
}))"""
FRAMES = """(frames) => new Promise((done) => {
  const on = () => frames-- > 0 ? requestAnimationFrame(on) : done();
  on();
})"""


def open_match(page: Any, address: str, match: str, more: str = "", quality: str = "low") -> None:
    """Open a match and wait for its first complete picture."""
    _go_to(page, address, match, more, quality)
    _wait_open(page, LOADED)


def _go_to(page: Any, address: str, match: str, more: str, quality: str) -> None:
    """Open a match: in the page's application, taken to its first state, if that has this address and tier."""
    application = f"{address}/?{CHECKED}&quality={quality}"
    if page.url.partition("#")[0] != application:
        page.goto(f"{application}#match={match}{more}")
        return
    page.evaluate(RESET)
    page.wait_for_function("() => echelon.state.page === 'league'")
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


def cost(page: Any, name: str) -> Any:
    """Return a figure of the last picture, e.g. ``calls``."""
    return page.evaluate(f"() => echelon.cost().{name}")


def pause(page: Any) -> None:
    page.evaluate("() => { echelon.state.playing = false; }")


def seek(page: Any, tick: float) -> None:
    """Seek to a tick and wait for its chunk, terrain and mechs."""
    page.evaluate("(tick) => echelon.control.seek(echelon.state, tick)", tick)
    page.wait_for_function("() => echelon.complete()")


def select(page: Any, mech: int) -> None:
    page.evaluate("(mech) => echelon.control.select(echelon.state, mech, false)", mech)


def settle(page: Any) -> None:
    """Wait until nothing is left to draw: camera, meshes and overlays of a paused match are at rest."""
    page.wait_for_function(SETTLED)


def settled_picture(page: Any) -> str:
    """Return picture and overlay of a paused match as data URLs, once camera, meshes and overlays have settled."""
    settle(page)
    return page.evaluate(PICTURE)


def overlay_calls(page: Any, *names: str) -> list[dict[str, Any]]:
    """Draw the overlay; returns the calls of these methods of its canvas, with the style that they had."""
    return page.evaluate(OVERLAY_CALLS, list(names))


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
