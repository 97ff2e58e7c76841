"""The dashboard as a process on a pty: traffic, and how it ends."""

import contextlib
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from echelon.jobs.status import job_status
from echelon.runs import RunPaths
from echelon.telemetry.log import EventLog
from tests.bench.dashboard import DashboardProcess
from tests.tui.support.canned import alive, make_run, update_event

LIVE_UPDATES = 4
LIVE_HZ = 2.0
LIVE_LIMIT_BYTES_PER_S = 10 * 1024
IDLE_S = 1.2
QUIET_S = 0.8
LEFT_WITHIN_S = 5.0

COLOUR = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-7]|4[0-7]|9[0-7]|38;|48;)[0-9;]*m")
LEFT = b"\x1b[?1049l"
"""Sequence that leaves the alternate screen."""
DEFAULT_MODES = {b"7", b"25"}
"""Line wrap and cursor."""


@pytest.fixture
def steady(home: Path) -> Iterator[RunPaths]:
    with alive(make_run(home, "20260101-120000-quickstart-amber-jackal", updates=230)) as paths:
        yield paths


@pytest.fixture
def opened(home: Path, steady: RunPaths, monkeypatch) -> Iterator[Callable[..., DashboardProcess]]:
    """Open the dashboard on the run, on a terminal with colours."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    started: list[DashboardProcess] = []

    def start(**environment: str) -> DashboardProcess:
        started.append(DashboardProcess(home, steady.id, **environment))
        started[-1].until(b"14.6k")
        return started[-1]

    yield start
    for one in started:
        with contextlib.suppress(OSError):
            one.close()


@pytest.mark.long
def test_idle_dashboard_sends_nothing_a_live_run_few_bytes_and_its_death_leaves_the_run(opened, steady):
    one = opened()
    while one.drain(QUIET_S):
        pass
    assert COLOUR.search(one.text)
    assert one.drain(IDLE_S) == 0
    rng, sent = random.Random(1), 0
    with EventLog(steady.metrics) as log:
        for number in range(LIVE_UPDATES):
            log.append(update_event(231 + number, rng))
            sent += one.drain(1 / LIVE_HZ)
    assert 0 < sent < LIVE_LIMIT_BYTES_PER_S * LIVE_UPDATES / LIVE_HZ
    one.process.kill()
    one.process.wait(LEFT_WITHIN_S)
    assert job_status(steady).state == "running" and not list(steady.control.iterdir())


LEAVING: dict[str, Callable[[DashboardProcess], object]] = {
    "q": lambda one: os.write(one.terminal, b"q"),
    "ctrl-c": lambda one: os.write(one.terminal, b"\x03"),
    "SIGTERM": lambda one: one.process.send_signal(signal.SIGTERM),
    "SIGHUP": lambda one: one.process.send_signal(signal.SIGHUP),
}


@pytest.mark.parametrize(
    "leave", [pytest.param(v, id=k, marks=[pytest.mark.long] * (k != "q")) for k, v in LEAVING.items()]
)
def test_leaving_restores_the_terminal(opened, steady, leave):
    one = opened()
    leave(one)
    one.until(LEFT)
    assert one.process.wait(LEFT_WITHIN_S) == 0
    with contextlib.suppress(OSError):
        one.drain(QUIET_S)
    last = dict(re.findall(rb"\x1b\[\?(\d+)([hl])", one.text))
    assert {mode for mode, state in last.items() if state == b"h"} <= DEFAULT_MODES
    assert not steady.stop.exists()


@pytest.mark.long
def test_suspended_dashboard_leaves_the_screen_and_draws_it_again(opened):
    one = opened()
    os.write(one.terminal, b"\x1a")
    one.until(LEFT)
    assert os.WIFSTOPPED(os.waitpid(one.process.pid, os.WUNTRACED)[1])
    one.text = b""
    one.process.send_signal(signal.SIGCONT)
    one.until(b"14.6k")


@pytest.mark.long
def test_closed_terminal_ends_the_dashboard(opened):
    one = opened()
    os.close(one.terminal)
    one.process.wait(LEFT_WITHIN_S)


def test_environment_disables_colour_and_unicode(opened):
    one = opened(NO_COLOR="1", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert one.text.isascii() and not COLOUR.search(one.text)
