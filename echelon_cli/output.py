"""Output of commands: aligned tables, strict JSON, one-line errors, number formats and exit codes.

The only module that prints, so that text of unknown origin reaches the terminal without control characters and without
being read as markup. Independent of any command. Rich is loaded only when a table or colour is printed.
"""

import contextlib
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

from echelon_cli.foreign_text import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.status import Status
    from rich.text import Text

DONE, FAILED, USAGE, NOT_FOUND, STOPPED, CRASHED = 0, 1, 2, 3, 4, 5
"""Exit codes of every command."""

PIPE_WIDTH = 200
"""Width of tables written into a pipe, large enough to cut nothing [columns]."""

GAP = 2
"""Spaces between the columns of a table."""

MIN_WRAPPED_WIDTH = 10
"""Least width of a column whose text may be wrapped [columns]."""

YEAR_10000 = 253_402_300_800.0
"""End of the calendar that dates are printed in [s since the epoch]."""

MAX_ERROR_CHARS = 2000
"""Characters of an error that are printed."""

COUNT_UNITS = ((1e4, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (math.inf, 1e9, "G"))
"""(limit, divisor, suffix): numbers below the limit are divided and get the suffix."""

SIZE_UNITS = ((1e3, 1.0, "B"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (math.inf, 1e9, "GB"))
"""(limit, divisor, unit): numbers of bytes below the limit are divided and have the unit."""

NOTHING, SMALLEST, COUNTED_FROM = 1e-99, 1e-3, 1e4
"""Formats of measured values: 0 below ``NOTHING``, exponent below ``SMALLEST``, unit from ``COUNTED_FROM``."""

STATE_STYLES = {
    "queued": "cyan",
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
def console() -> "Console":
    """Return the console on standard output; colours only on a terminal, and never with NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def is_interactive() -> bool:
    """Return whether standard input and output are a terminal that a full-screen program can use."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def show_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value as strict JSON; numbers that are not finite become null."""
    show_json_text(json.dumps(_strict(value), indent=indent, allow_nan=False, default=str))


def show_json_text(text: str) -> None:
    """Print JSON that is ASCII already; JSON allows DEL in strings, which is printed as its escape."""
    print(text.replace("\x7f", "\\u007f"), flush=True)


def plain(text: object, style: str = "") -> "Text":
    """Return text for Rich that is one line, without control characters and not read as markup."""
    from rich.text import Text

    return Text(visible(str(text)), style)


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    text: Callable[[Any], object]
    """Returns the cell of a row."""
    right: bool = False
    """Whether it is right-aligned; it is never wrapped then."""
    whole: bool = False
    """Whether it is never wrapped."""
    rank: int = 0
    """Where not all columns fit, those with the highest rank are omitted first; 0 is never omitted."""


def show_rows(columns: Sequence[Column], rows: Iterable[Any], *, title: str | None = None) -> None:
    """Print a table of rows, as ``show_table``."""
    show_table(
        [column.name for column in columns],
        [[column.text(row) for column in columns] for row in rows],
        right=[column.name for column in columns if column.right],
        unwrapped=[column.name for column in columns if column.whole],
        optional=[column.name for column in sorted(columns, key=lambda column: -column.rank) if column.rank],
        title=title,
    )


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    unwrapped: Iterable[str] = (),
    optional: Iterable[str] = (),
    title: str | None = None,
) -> None:
    """Print rows under column names; ``right`` columns are right-aligned and, like ``unwrapped`` ones, never wrapped.

    Where not all columns fit, ``optional`` ones are omitted in the order given, and named below the table. With a
    ``title``, which may be empty, an empty line separates the table from what is above.
    """
    from rich.text import Text

    if title is not None:
        print_line()
    if title:
        print_line(title, style="bold")
    right = set(right)
    fixed = {0, *(index for index, name in enumerate(columns) if name in right | set(unwrapped))}
    texts = [[(visible(str(cell)), str(cell.style) if isinstance(cell, Text) else "") for cell in row] for row in rows]
    names = [visible(name) for name in columns]
    longest = [max(_width(text) for text in (name, *(row[i][0] for row in texts))) for i, name in enumerate(names)]
    widths = [size if index in fixed else min(size, MIN_WRAPPED_WIDTH) for index, size in enumerate(longest)]
    shown, omitted = list(range(len(columns))), []
    for name in optional:
        if sum(widths[index] + GAP for index in shown) - GAP <= console().width:
            break
        shown.remove(max(index for index in shown if columns[index] == name))
        omitted.append(name)
    titles = [(name, "bold") for name in names]
    lines = [[line[index] for index in shown] for line in ([titles, *texts] if any(columns) else texts)]
    to_right = [columns[index] in right for index in shown]
    sizes = [longest[index] for index in shown]
    if sum(size + GAP for size in sizes) - GAP <= console().width:
        _print_aligned(lines, sizes, to_right)
    else:
        # a first column that would take most of the screen is wrapped all the same
        whole = [index in fixed and (index > 0 or widths[index] <= console().width // 2) for index in shown]
        _print_wrapped(lines, [widths[i] if w else None for i, w in zip(shown, whole, strict=True)], to_right)
    if omitted:
        print_line(f"omitted (too narrow): {', '.join(omitted)}", style="dim")


def fits(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bool:
    """Return whether a table fits the screen with all its columns unwrapped."""
    cells = zip(columns, *rows, strict=True)
    return sum(max(_width(visible(str(cell))) for cell in column) + GAP for column in cells) - GAP <= console().width


Line = Sequence[tuple[str, str]]
"""Text and style of each cell of a table's line."""


def _print_aligned(lines: Iterable[Line], sizes: Sequence[int], to_right: Sequence[bool]) -> None:
    """Print lines that fit without wrapping; linear in their number, unlike Rich's measured tables."""
    from rich.segment import Segment, Segments

    styles = {style: console().get_style(style) for line in lines for _, style in line if style}
    segments, plain_text = [], ""
    for line in lines:
        gap = 0
        for (text, style), size, is_right in zip(line, sizes, to_right, strict=True):
            if not text:
                gap += size + GAP
                continue
            spare = size - _width(text)
            plain_text += " " * (gap + spare if is_right else gap)
            if style:
                segments += (Segment(plain_text), Segment(text, styles[style]))
                plain_text = ""
            else:
                plain_text += text
            gap = GAP if is_right else GAP + spare
        plain_text += "\n"
    console().print(Segments([*segments, Segment(plain_text)]), crop=False, end="")


def _width(text: str) -> int:
    """Return the number of columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _print_wrapped(lines: Sequence[Line], fixed: Sequence[int | None], to_right: Sequence[bool]) -> None:
    """Print lines in columns of a fixed width, or wrapped where the width is None."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
    for width, is_right in zip(fixed, to_right, strict=True):
        table.add_column(
            justify="right" if is_right else "left", no_wrap=width is not None, overflow="fold", min_width=width
        )
    for line in lines:
        table.add_row(*(plain(text, style) for text, style in line))
    console().print(table, crop=False)


def state_text(state: str) -> object:
    return plain(state, STATE_STYLES.get(state, ""))


def print_line(line: str = "", *, style: str = "") -> None:
    """Print one line without interpreting markup; control characters in it are shown as escapes."""
    console().print(plain(line, style), soft_wrap=True)


def print_rendered(drawing: "RenderableType", *, soft_wrap: bool = False) -> None:
    """Print a drawing that contains no text of unknown origin."""
    console().print(drawing, soft_wrap=soft_wrap)


def show_error(message: str, *, code: int, as_json: bool = False) -> None:
    """Print a failure as one line on standard error, and with ``as_json`` as an object on standard output."""
    line = " ".join(message.split())
    if len(line) > MAX_ERROR_CHARS:
        line = f"{line[:MAX_ERROR_CHARS]}…"
    # a stream that cannot be written must not keep the line from the other one
    if as_json:
        with contextlib.suppress(OSError):
            show_json({"error": line, "code": code})
    with contextlib.suppress(OSError):
        print(f"error: {visible(line)}", file=sys.stderr, flush=True)


def show_notice(message: str) -> None:
    print(f"notice: {visible(message)}", file=sys.stderr, flush=True)


def notify(title: str, message: str) -> None:
    """Ring the bell of the terminal and show its notification; without a terminal nothing is written."""
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        from echelon_cli.terminal_codes import notification

        print(notification(title, message, os.environ), end="", flush=True)


def show_traceback(failure: BaseException) -> None:
    for part in traceback.format_exception(failure):
        show_lines(part.rstrip("\n"))


def show_lines(text: str) -> None:
    """Print several lines on standard error; control characters in them are shown as escapes."""
    for line in text.split("\n"):
        print(visible(line), file=sys.stderr, flush=True)


def confirm(question: str, yes: bool, as_json: bool) -> None:
    """Ask a question unless ``--yes`` was given; ``typer.Abort`` where the answer is no."""
    import typer

    if yes:
        return
    if as_json:
        raise typer.BadParameter("--json cannot ask for confirmation; add --yes")
    typer.confirm(visible(question), abort=True)


def spinner() -> "Status | None":
    """Return a spinner that is not started; None without a terminal."""
    return console().status("") if console().is_terminal else None


@contextlib.contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text, on a terminal only; yield a function that changes the text."""
    if quiet or not console().is_terminal:
        yield lambda _: None
        return
    with console().status(plain(what)) as status:
        yield lambda text: status.update(plain(text))


def is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def count(value: float | None) -> str:
    """Return a count in at most six characters: 950, 12.3k, 4.56M; ``-`` where it is unknown, as the others do."""
    return "".join(_scaled(value, COUNT_UNITS)) if is_known(value) else "-"


def size(number: float) -> str:
    """Return a number of bytes in at most eight characters: 950 B, 12.3 kB, 4.56 MB."""
    return " ".join(_scaled(number, SIZE_UNITS))


def _scaled(value: float, units: Iterable[tuple[float, float, str]]) -> tuple[str, str]:
    """Return a value with three significant digits in the unit of its size, and that unit."""
    divisor, unit = next((divisor, unit) for limit, divisor, unit in units if abs(value) < limit)
    scaled = value / divisor
    return f"{scaled:.0f}" if divisor == 1 or abs(scaled) >= 100 else f"{scaled:.3g}", unit


def percent(value: float | None) -> str:
    return f"{value:.0%}" if is_known(value) else "-"


def interval(low: float, high: float) -> str:
    """Return a confidence interval of fractions in percent, such as ``87-100``."""
    return f"{100 * low:.0f}-{100 * high:.0f}" if math.isfinite(low) and math.isfinite(high) else "-"


def bounds(low: float | None, high: float | None) -> str:
    """Return a confidence interval of fractions in words, such as ``87% to 100%``."""
    return f"{percent(low)} to {percent(high)}" if is_known(low) and is_known(high) else "-"


def rate(value: float, low: float, high: float) -> str:
    """Return a win rate with its 95 % interval in percent, such as ``96% (87-100)``."""
    bounds = interval(low, high)
    return percent(value) if bounds == "-" else f"{percent(value)} ({bounds})"


def age(created: float, now: float) -> str:
    """Return the time since a run was created, both [s since the epoch]."""
    return duration(now - created) if created > 0 else "-"


def measured(value: float | None) -> str:
    """Return a value with three significant digits in at most eight characters."""
    if not is_known(value):
        return "-"
    size = abs(value)
    if size < NOTHING:
        return "0"
    if size >= COUNTED_FROM:
        return count(value)
    if size < SMALLEST:
        return exponent(value, 1)
    return f"{value:.{min(4, max(0, 2 - math.floor(math.log10(size))))}f}"


def exponent(value: float, digits: int) -> str:
    """Return a number in scientific notation without padding: 2e-4, 2.5e-4."""
    mantissa, _, power = f"{value:.{digits}e}".partition("e")
    return f"{trim(mantissa)}e{int(power)}"


def trim(text: str) -> str:
    """Return a decimal number without zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def local_time(moment: float) -> str:
    """Return a time [s since the epoch] as local date and time; ``-`` where it is outside of the calendar."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if 0 <= moment < YEAR_10000 else "-"


def duration(seconds: float | None) -> str:
    """Return a time span [s] in its two largest units: 0.4s, 42s, 3m10s, 5h02m, 2d04h."""
    if not is_known(seconds):
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
    if hasattr(value, "_asdict"):  # a named tuple
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value
