"""The dashboard as a process on a pty: traffic, and how it ends."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from echelon.jobs.status import job_status
from echelon.runs import RunPaths
from echelon.telemetry.log import EventLog
from tests.tui.support.canned import alive, make_run, update_event
from tests.tui.support.terminal import Terminal

LIVE_UPDATES = 4
LIVE_HZ = 2.0
LIVE_LIMIT_BYTES_PER_S = 10 * 1024
IDLE_S = 1.2
LEFT_WITHIN_S = 5.0

COLOUR = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-7]|4[0-7]|9[0-7]|38;|48;)[0-9;]*m")


@pytest.fixture
def steady(home: Path) -> Iterator[RunPaths]:
    with alive(make_run(home, "20260101-120000-quickstart-amber-jackal", updates=230)) as paths:
        yield paths


@pytest.fixture
def terminal(repository: Path) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(*words: str, **options) -> Terminal:
        started.append(Terminal(*words, cwd=repository, **options))
        return started[-1]

    yield start
    for one in started:
        one.end()


def shown(terminal: Terminal) -> Terminal:
    terminal.until(lambda sent: b"14.6k" in sent)
    return terminal


def test_idle_dashboard_sends_nothing_a_live_run_few_bytes_and_its_death_leaves_the_run(terminal, steady):
    one = shown(terminal("dash", steady.id))
    one.until_quiet()
    assert COLOUR.search(one.sent)
    assert one.bytes_during(lambda: time.sleep(IDLE_S)) == 0
    rng = random.Random(1)

    def go_on() -> None:
        with EventLog(steady.metrics) as log:
            for number in range(LIVE_UPDATES):
                log.append(update_event(231 + number, rng))
                time.sleep(1 / LIVE_HZ)

    sent = one.bytes_during(go_on)
    assert 0 < sent < LIVE_LIMIT_BYTES_PER_S * LIVE_UPDATES / LIVE_HZ
    one.process.kill()
    one.process.wait(LEFT_WITHIN_S)
    assert job_status(steady).state == "running" and not list(steady.control.iterdir())


LEAVING: dict[str, Callable[[Terminal], object]] = {
    "q": lambda one: one.press("q"),
    "ctrl-c": lambda one: one.press("\x03"),
    "SIGTERM": lambda one: one.process.send_signal(signal.SIGTERM),
}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
def test_leaving_restores_the_terminal(terminal, steady, leave):
    one = shown(terminal("dash", steady.id))
    leave(one)
    assert one.process.wait(LEFT_WITHIN_S) == 0
    one.until(lambda sent: sent.rstrip().endswith(b"l") and b"\x1b[?1049l" in sent)
    assert not steady.stop.exists()


def test_closed_terminal_ends_the_dashboard(terminal, steady):
    one = shown(terminal("dash", steady.id))
    one.hang_up()
    one.process.wait(LEFT_WITHIN_S)


def test_environment_disables_colour_and_unicode(terminal, steady):
    plain = {"NO_COLOR": "1", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    one = shown(terminal("dash", steady.id, **plain))
    assert one.sent.isascii() and not COLOUR.search(one.sent)
