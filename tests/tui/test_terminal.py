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

LIVE_UPDATES = 6
LIVE_HZ = 2.0
LIVE_LIMIT_BYTES_PER_S = 10 * 1024
IDLE_S = 1.5
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
    terminal.until_quiet()
    return terminal


def test_idle_dashboard_sends_nothing(terminal, steady):
    one = shown(terminal("dash", steady.id))
    assert one.bytes_during(lambda: time.sleep(IDLE_S)) == 0


@pytest.mark.parametrize("size", [(160, 48), (80, 24)], ids=str)
def test_live_run_sends_few_bytes(terminal, steady, size):
    one = shown(terminal("dash", steady.id, columns=size[0], rows=size[1]))
    rng = random.Random(1)

    def go_on() -> None:
        with EventLog(steady.metrics) as log:
            for number in range(LIVE_UPDATES):
                log.append(update_event(231 + number, rng))
                time.sleep(1 / LIVE_HZ)

    sent = one.bytes_during(go_on)
    assert 0 < sent < LIVE_LIMIT_BYTES_PER_S * LIVE_UPDATES / LIVE_HZ


@pytest.mark.parametrize("leave", ["q", "\x03"], ids=["q", "ctrl-c"])
def test_quitting_restores_the_terminal(terminal, steady, leave):
    one = shown(terminal("dash", steady.id))
    one.press(leave)
    assert one.process.wait(LEFT_WITHIN_S) == 0
    one.until(lambda sent: sent.rstrip().endswith(b"l") and b"\x1b[?1049l" in sent)
    assert not steady.stop.exists()


def test_sigterm_restores_the_terminal(terminal, steady):
    one = shown(terminal("dash", steady.id))
    one.process.send_signal(signal.SIGTERM)
    one.process.wait(LEFT_WITHIN_S)
    one.until(lambda sent: b"\x1b[?1049l" in sent)


def test_closed_terminal_ends_the_dashboard(terminal, steady):
    one = shown(terminal("dash", steady.id))
    one.hang_up()
    one.process.wait(LEFT_WITHIN_S)


def test_killed_dashboard_leaves_the_run_running(terminal, steady):
    one = shown(terminal("dash", steady.id))
    one.process.kill()
    one.process.wait(LEFT_WITHIN_S)
    assert job_status(steady).state == "running" and not list(steady.control.iterdir())
    shown(terminal("dash", steady.id))


def test_no_color_variable_disables_colour(terminal, steady):
    one = shown(terminal("dash", steady.id, NO_COLOR="1"))
    assert not COLOUR.search(one.sent)
    coloured = shown(terminal("dash", steady.id))
    assert COLOUR.search(coloured.sent)


def test_locale_without_unicode_uses_ascii(terminal, steady):
    one = terminal("dash", steady.id, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    one.until(lambda sent: b"14.6k" in sent)
    one.until_quiet()
    assert one.sent.isascii()


def test_unknown_run_is_a_one_line_error(terminal):
    one = terminal("dash", "nobody")
    assert one.process.wait(10) == 3
    one.until(lambda sent: b"error: run 'nobody' does not exist" in sent)
    assert b"\x1b[?1049h" not in one.sent
