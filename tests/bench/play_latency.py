"""Latency of a seat from key to picture, part by part: ``python -m tests.bench.play_latency [WxH] [PRESSES]``.

Plays a match in headless Chromium with software rendering; session, server and browser share the machine and its
clock. Prints median and 95th percentile of each part and of the whole [ms] as JSON. Not a test.

A picture counts as drawn when its drawing commands have been issued; a compositor and a display add to it.
"""

import json
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgpack

from echelon import play_protocol as protocol
from echelon.play.clients import Client, Seat
from echelon.play.session import PlaySession
from tests.browser.conftest import FLAGS, VISITED, chromium, served_session
from tests.browser.test_play import begin_when_drawn

OPTIONS = {"opponent": "trivial", "size": 64, "seconds": 600.0, "seed": 3, "speed": 1.0}
PRESSES = 100
GAP_S = (0.25, 0.45)
"""Shortest and longest time between two key events [s]."""
WATCH_SOCKETS = """
  window.stamps = { keys: [], sent: [], arrived: [] };
  const now = () => performance.timeOrigin + performance.now();
  for (const name of ["keydown", "keyup"]) window.addEventListener(name, () => stamps.keys.push(now()), true);
  const plain = window.WebSocket;
  window.WebSocket = class extends plain {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => data instanceof ArrayBuffer && stamps.arrived.push(now()));
    }
    send(data) {
      super.send(data);
      stamps.sent.push([now(), [...data]]);
    }
  };
"""
WATCH_MATCH = """() => {
  const now = () => performance.timeOrigin + performance.now();
  const { play } = echelon, { live } = play, [add, drawn] = [live.add, play.drawn];
  Object.assign(stamps, { added: [], drawn: [] });
  live.add = (frame) => {
    const arrived = stamps.arrived.at(-1);
    add.call(live, frame);
    stamps.added.push([frame.seq, frame.tick, arrived, now()]);
  };
  play.drawn = (time) => {
    stamps.drawn.push([live.tick, now()]);
    drawn.call(play, time);
  };
}"""
PARTS = (
    ("key event to message sent", "key", "sent"),
    ("message sent to session", "sent", "received"),
    ("session waits for its tick", "received", "tick"),
    ("tick and frame", "tick", "framed"),
    ("frame sent to browser", "framed", "arrived"),
    ("decoded and added", "arrived", "added"),
    ("next picture drawn", "added", "drawn"),
    ("key event to picture", "key", "drawn"),
)
"""Name of each part, and the events between which it lies."""


class Watch:
    """Times at which a session receives inputs, begins the tick that reads them, and sends its frame [s]."""

    def __init__(self) -> None:
        self.received: dict[int, float] = {}
        self.tick: dict[int, float] = {}
        self.framed: dict[int, float] = {}
        receive, read, send = PlaySession._input, Seat.read, Client.send

        async def watched_input(session: PlaySession, client: Client, message: protocol.Input) -> None:
            self.received.setdefault(message.seq, time.time())
            await receive(session, client, message)

        def watched_read(seat: Seat) -> Any:
            self.tick.setdefault(seat.seq, time.time())
            return read(seat)

        def watched_send(client: Client, message: protocol.Message) -> None:
            if isinstance(message, protocol.Frame):
                self.framed.setdefault(message.seq, time.time())
            send(client, message)

        PlaySession._input, Seat.read, Client.send = watched_input, watched_read, watched_send  # type: ignore


def press_keys(page: Any, presses: int) -> None:
    """Press and release the key that goes forward, at random times."""
    chance = random.Random(1)
    for press in range(presses):
        (page.keyboard.up if press % 2 else page.keyboard.down)("KeyW")
        time.sleep(chance.uniform(*GAP_S))


def timelines(stamps: Mapping[str, Any], watch: Watch) -> list[dict[str, float]]:
    """Return the time of each event [s] for the key events whose picture was drawn."""
    inputs = [
        (at, message["seq"]) for at, data in stamps["sent"] if (message := msgpack.unpackb(bytes(data)))["t"] == "input"
    ]
    found = []
    for key in stamps["keys"]:
        sent, seq = next((row for row in inputs if row[0] >= key), (0.0, -1))
        first = next((row for row in stamps["added"] if row[0] >= seq), None)
        drawn = first and next((at for tick, at in stamps["drawn"] if tick >= first[1] and at >= first[3]), None)
        if seq < 0 or first is None or drawn is None or seq not in watch.framed:
            continue
        times = {"key": key, "sent": sent, "arrived": first[2], "added": first[3], "drawn": drawn}
        found.append(
            {name: at / 1000 for name, at in times.items()}
            | {"received": watch.received[seq], "tick": watch.tick[seq], "framed": watch.framed[seq]}
        )
    return found


def summary(found: list[dict[str, float]]) -> dict[str, Any]:
    """Return median and 95th percentile of each part [ms]."""
    rows: dict[str, Any] = {"presses": len(found)}
    for name, before, after in PARTS:
        parts = sorted(1000 * (times[after] - times[before]) for times in found)
        rows[name] = [round(parts[int(share * (len(parts) - 1))], 1) for share in (0.5, 0.95)]
    return rows


def measure(window: tuple[int, int], presses: int) -> dict[str, Any]:
    """Return the latency of a seat in a window [CSS px]."""
    from playwright.sync_api import sync_playwright

    watch = Watch()
    with TemporaryDirectory() as made, served_session(Path(made), OPTIONS) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": window[0], "height": window[1]})
        page.set_default_timeout(240_000)
        for script in (VISITED, WATCH_SOCKETS):
            page.add_init_script(script)
        page.goto(address)
        begin_when_drawn(page)
        page.evaluate(WATCH_MATCH)
        drawn = page.evaluate("() => [echelon.cost().draws, performance.now()]")
        press_keys(page, presses)
        draws, at = page.evaluate("() => [echelon.cost().draws, performance.now()]")
        rows = summary(timelines(page.evaluate("() => stamps"), watch))
        browser.close()
    return {"window": window, "pictures_per_s": round(1000 * (draws - drawn[0]) / (at - drawn[1]), 1), **rows}


if __name__ == "__main__":
    width, _, height = (sys.argv[1] if len(sys.argv) > 1 else "960x600").partition("x")
    print(json.dumps(measure((int(width), int(height)), int(sys.argv[2]) if len(sys.argv) > 2 else PRESSES), indent=1))
