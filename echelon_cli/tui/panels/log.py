"""The log panel: recent alerts above the newest lines of the worker's log."""

import re

from echelon.telemetry.events import EventAlert
from echelon_cli.tui.format import clock, wrap
from echelon_cli.tui.panels.base import Panel
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import Grid, Span

ALERT_ROLES = {"info": "info", "warning": "warn", "error": "bad"}

MAX_ALERTS = 3

INDENT = 9
"""Indentation of continuation rows on wide panels: the width of the time of day."""

INDENT_FROM, NARROW_INDENT = 56, 2
"""Panel width from which ``INDENT`` is used, and the indentation below it."""

STAMP = re.compile(r"^(\d{4}-\d\d-\d\d) (?=\d\d:\d\d:\d\d )")

LINE_ROLES = (("Error", "bad"), ("error", "bad"), ("alert", "warn"), ("warning", "warn"), (" eval ", "info"))
"""Words in a log line, and the role of lines that contain them; the first match counts."""


class PanelLog(Panel):
    """Recent alerts, then the newest lines of the worker's log."""

    def note(self) -> str:
        count = len(self.view.snapshot.alerts)
        return f"{count} alert{'s' if count > 1 else ''}" if count else ""

    def body(self, width: int, height: int) -> Grid:
        alerts = self.view.snapshot.alerts[-min(MAX_ALERTS, max(1, height // 3)) :]
        return draw_log(alerts, self.view.log_tail, width, height, self.theme)


def draw_log(alerts: tuple[EventAlert, ...], tail: tuple[str, ...], width: int, height: int, theme: Theme) -> Grid:
    """Return alerts above the newest log lines; lines of the newest date omit it."""
    grid, indent = Grid(width, height), INDENT if width >= INDENT_FROM else NARROW_INDENT
    alert_rows: list[Span] = []
    for alert in reversed(alerts):
        rows = wrap(f"{theme.symbols.up} {clock(alert.time)} {alert.message}", width, indent=indent + 2)
        if alert_rows and len(alert_rows) + len(rows) > height // 2:
            break  # the newest alerts take precedence
        alert_rows = [(row, ALERT_ROLES.get(alert.level, "warn")) for row in rows] + alert_rows
    alert_rows = alert_rows[: max(1, height // 2)]
    lines = [line for line in tail[-height:] if line.strip()]
    log_rows = _log_rows(lines, width, height - len(alert_rows), indent)
    for y, (text, role) in enumerate(alert_rows + log_rows):
        grid.put(0, y, text, role)
    if not alerts and not lines:
        grid.put(0, 0, "log is empty", "dim")
    return grid


def _log_rows(lines: list[str], width: int, height: int, indent: int) -> list[Span]:
    dates = [stamp[1] for line in lines if (stamp := STAMP.match(line))]
    rows: list[Span] = []
    for line in reversed(lines):
        stamp = STAMP.match(line)
        text = line[stamp.end() :] if stamp and stamp[1] == dates[-1] else line
        wrapped = [(row, line_role(line)) for row in wrap(text, width, indent=indent)]
        if len(rows) + len(wrapped) > height:
            return rows or wrapped[:height]
        rows = wrapped + rows
    return rows


def line_role(line: str) -> str:
    return next((role for word, role in LINE_ROLES if word in line), "dim")
