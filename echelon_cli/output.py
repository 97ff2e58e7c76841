"""Output of commands: aligned tables, strict JSON, one-line errors, number formats and exit codes.

Independent of any command. Rich is loaded only when a table or colour is printed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAILED, USAGE, NOT_FOUND, STOPPED, CRASHED = 0, 1, 2, 3, 4, 5
"""Exit codes of every command."""

PIPE_WIDTH = 200
"""Width of tables written into a pipe, large enough to cut nothing [columns]."""

GAP = 2
"""Spaces between the columns of a table."""

MIN_WRAPPED_WIDTH = 10
"""Least width of a column whose text may be wrapped [columns]."""

COUNT_UNITS = ((1e4, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (math.inf, 1e9, "G"))
"""(limit, divisor, suffix): numbers below the limit are divided and get the suffix."""

STATE_STYLES = {
    "starting": "cyan",
    "running": "green",
    "stalled": "yellow",
    "stopping": "cyan",
    "completed": "blue",
    "stopped": "blue",
    "failed": "red",
    "crashed": "red",
    "lost": "yellow",
}


@cache
def console() -> Console:
    """Return the console on standard output; colours only on a terminal, and never with NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def is_interactive() -> bool:
    """Return whether standard input and output are a terminal that a full-screen program can use."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def show_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as strict JSON; numbers that are not finite become null."""
    print(json.dumps(_strict(value), indent=indent, allow_nan=False, default=str), flush=True)


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    unwrapped: Iterable[str] = (),
    optional: Iterable[str] = (),
) -> None:
    """Print rows under column names; ``right`` columns are right-aligned and, like ``unwrapped`` ones, never wrapped.

    Where not all columns fit, ``optional`` ones are omitted in the order given, and named below the table.
    """
    from rich.table import Table
    from rich.text import Text

    right = set(right)
    fixed = {0, *(index for index, name in enumerate(columns) if name in right | set(unwrapped))}
    texts = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    longest = [max(len(name), *(row[index].cell_len for row in texts), 0) for index, name in enumerate(columns)]
    widths = [size if index in fixed else min(size, MIN_WRAPPED_WIDTH) for index, size in enumerate(longest)]
    shown, omitted = list(range(len(columns))), []
    for name in optional:
        if sum(widths[index] + GAP for index in shown) - GAP <= console().width:
            break
        shown.remove(max(index for index in shown if columns[index] == name))
        omitted.append(name)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0), show_header=any(columns))
    for index in shown:
        # a first column that would take most of the screen is wrapped all the same
        no_wrap = index in fixed and (index > 0 or widths[index] <= console().width // 2)
        table.add_column(
            columns[index],
            justify="right" if columns[index] in right else "left",
            no_wrap=no_wrap,
            overflow="fold",
            min_width=widths[index] if no_wrap else None,
        )
    for row in texts:
        table.add_row(*(row[index] for index in shown))
    console().print(table, crop=False)
    if omitted:
        print_line(f"omitted (too narrow): {', '.join(omitted)}", style="dim")


def state_text(state: str) -> object:
    """Return a job state as coloured text."""
    from rich.text import Text

    return Text(state, style=STATE_STYLES.get(state, ""))


def print_line(line: str = "", *, style: str | None = None) -> None:
    """Print one line without interpreting markup."""
    console().print(line, style=style, markup=False, soft_wrap=True)


def show_error(message: str, *, code: int, as_json: bool = False) -> None:
    """Print a failure as one line on standard error, and with ``as_json`` as an object on standard output."""
    line = " ".join(message.split())
    if as_json:
        show_json({"error": line, "code": code})
    print(f"error: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text, on a terminal only; yield a function that changes the text."""
    if quiet or not console().is_terminal:
        yield lambda _: None
        return
    with console().status(what) as status:
        yield status.update


def count(value: float) -> str:
    """Return a count in at most six characters: 950, 12.3k, 4.56M."""
    if not math.isfinite(value):
        return "-"
    for limit, divisor, suffix in COUNT_UNITS:
        if abs(value) < limit:
            scaled = value / divisor
            return f"{scaled:.0f}{suffix}" if divisor == 1 or abs(scaled) >= 100 else f"{scaled:.3g}{suffix}"
    return f"{value:.3g}"


def percent(value: float) -> str:
    """Return a fraction as whole percent, ``-`` for NaN."""
    return f"{value:.0%}" if math.isfinite(value) else "-"


def figure(value: float) -> str:
    """Return a measured value in at most seven characters, ``-`` for NaN."""
    if not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    digits = 3 if 1e-2 <= abs(value) < 10 else 1
    return f"{value:.{digits}f}" if 1e-2 <= abs(value) < 1e4 else f"{value:.1e}"


def duration(seconds: float | None) -> str:
    """Return a time span [s] in its two largest units: 0.4s, 42s, 3m10s, 5h02m, 2d04h."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if 0 < seconds < 1:
        return f"{seconds:.1f}s"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value
