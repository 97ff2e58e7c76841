"""The panel of words: alerts with the newest lines of the log."""

from __future__ import annotations

import re

from echelon.telemetry.events import EventAlert
from echelon_cli.tui.format import clock
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, Span

ALERT_ROLES = {"info": "info", "warning": "warn", "error": "bad"}

ALERTS_SHOWN = 3

INDENT = 9
"""Blanks before the second row of a long log line: as wide as the time of day."""

INDENT_FROM, LEAST_INDENT = 56, 2
"""Columns from which there is so much room, and the blanks where there is not."""

STAMP = re.compile(r"^(\d{4}-\d\d-\d\d) (?=\d\d:\d\d:\d\d )")
"""The date at the beginning of a log line."""

LINE_ROLES = (("Error", "bad"), ("error", "bad"), ("alert", "warn"), ("warning", "warn"), (" eval ", "info"))
"""Words in a log line that give it a colour."""


class PanelLog(Panel):
    """The newest alerts, then the newest lines of the trainer's log."""

    def note(self) -> str:
        count = len(self.view.snapshot.alerts)
        return f"{count} alert{'s' if count > 1 else ''}" if count else ""

    def body(self, width: int, height: int) -> Grid:
        alerts = self.view.snapshot.alerts[-min(ALERTS_SHOWN, max(1, height // 3)) :]
        return draw_log(alerts, self.view.tail, width, height, self.theme)


def draw_log(alerts: tuple[EventAlert, ...], tail: tuple[str, ...], width: int, height: int, theme: Theme) -> Grid:
    """Return alerts above the newest log lines; the date is left out while it is that of the newest."""
    grid, indent = Grid(width, height), INDENT if width >= INDENT_FROM else LEAST_INDENT
    warned: list[Span] = []
    for alert in reversed(alerts):
        text = wrap(f"{theme.symbols.up} {clock(alert.time)} {alert.message}", width, indent=indent + 2)
        if warned and len(warned) + len(text) > height // 2:
            break  # the newest ones matter most
        warned = [(row, ALERT_ROLES.get(alert.level, "warn")) for row in text] + warned
    warned = warned[: max(1, height // 2)]
    lines = [line for line in tail[-height:] if line.strip()]
    dates = [found[1] for line in lines if (found := STAMP.match(line))]
    rows: list[Span] = []
    room = height - len(warned)
    for line in reversed(lines):
        found = STAMP.match(line)
        text = line[found.end() :] if found and found[1] == dates[-1] else line
        whole = [(row, line_role(line)) for row in wrap(text, width, indent=indent)]
        if len(rows) + len(whole) > room:
            rows = rows or whole[:room]
            break
        rows = whole + rows
    for y, (text, role) in enumerate(warned + rows):
        grid.put(0, y, text, role)
    if not alerts and not lines:
        grid.put(0, 0, "nothing written yet", "dim")
    return grid


def line_role(line: str) -> str:
    """Return the role of a log line by the words in it."""
    return next((role for word, role in LINE_ROLES if word in line), "dim")


def wrap(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Return text in lines of at most ``width`` characters, broken between words where possible."""
    lines, line = [], ""
    margin = " " * min(indent, max(0, width - indent))
    for word in text.split():
        if line.strip() and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = margin
        line = f"{line} {word}" if line.strip() else f"{line}{word}"
        while len(line) > width > 0:
            lines.append(line[:width])
            line = margin + line[width:]
    return [*lines, line] if line.strip() else lines
