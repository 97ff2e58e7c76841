"""Sequences of terminals, text of unknown origin in them, and what the dashboard reports."""

import base64
from pathlib import Path

import pytest

from echelon_cli.listing import RunRow
from echelon_cli.terminal_codes import LIMIT_BYTES, MAX_CHARS, clipboard, notification
from echelon_cli.tui.app import notification_text
from echelon_cli.tui.feed.messages import RunsView

TERMINALS = {
    "xterm": ({"TERM": "xterm-256color"}, "\x1b]9;fox failed: why\x07\x07"),
    "VTE": ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "\x1b]777;notify;fox failed;why\x07\x07"),
    "foot": ({"TERM": "foot"}, "\x1b]777;notify;fox failed;why\x07\x07"),
    "tmux": ({"TERM": "tmux", "TMUX": "x"}, "\x1bPtmux;\x1b\x1b]9;fox failed: why\x07\x1b\\\x07"),
}


@pytest.mark.parametrize(("environment", "expected"), TERMINALS.values(), ids=TERMINALS)
def test_sequence_is_that_of_the_terminal(environment, expected):
    assert notification("fox failed", "why", environment) == expected


def test_text_cannot_end_the_sequence():
    found = notification("a\x07b;c", "\x1b]0;title\x07" * 100, {"TERM": "foot"})
    assert found.count("\x1b") == 1 and found.count("\x07") == 2 and "a b,c" in found
    assert len(found) < 3 * MAX_CHARS


def test_clipboard_sequence_supports_tmux():
    plain = clipboard("é 1", {})
    assert base64.b64decode(plain.removeprefix("\x1b]52;c;").removesuffix("\x07")).decode() == "é 1"
    inside = clipboard("é 1", {"TMUX": "/tmp/tmux-0/default,1,0"})
    assert inside.startswith(plain) and inside.endswith("\x1b\\")
    wrapped = inside.removeprefix(plain).removeprefix("\x1bPtmux;").removesuffix("\x1b\\")
    assert wrapped.replace("\x1b\x1b", "\x1b") == plain
    assert clipboard("x" * (LIMIT_BYTES + 1), {}) == ""


def row(state: str, alert: str = "", reason: str = "") -> RunRow:
    return RunRow(id="fox", root=Path("fox"), state=state, alert=alert, reason=reason)


def view(*rows: RunRow) -> RunsView:
    return RunsView(rows=rows, loaded=True)


CHANGES = {
    "an end": (view(row("running")), view(row("failed", reason="why")), ("fox failed", "why")),
    "an alert": (view(row("running")), view(row("running", alert="disk low")), ("fox: alert", "disk low")),
    "nothing": (view(row("running")), view(row("running")), None),
    "a run that had ended": (view(row("failed")), view(row("failed")), None),
    "a new run": (view(), view(row("running", alert="disk low")), None),
    "the first view": (RunsView(), view(row("failed")), None),
}


@pytest.mark.parametrize(("before", "after", "expected"), CHANGES.values(), ids=CHANGES)
def test_dashboard_reports_what_has_ended(before, after, expected):
    assert notification_text(before, after) == expected
