"""``echelon runs logs``: the log files of a run, or with ``-f`` its progress lines."""

import os
from collections import deque
from pathlib import Path
from typing import Annotated

from echelon.jobs.status import job_status
from echelon.runs import find_run
from echelon.state_files import LineSplitter, open_regular
from echelon_cli import options, output
from echelon_cli.listing import job_json
from echelon_cli.options import option

LINES = 40
MAX_LINES = 1_000_000
"""Greatest number of lines held in memory."""
MAX_TAIL_BYTES = 16 << 20
"""Most bytes of a log that are read."""
MAX_LINE_BYTES = 1 << 14
"""Longer lines are cut."""
BLOCK_BYTES = 1 << 20


def logs(
    run: options.Run,
    follow: Annotated[bool, option("--follow", "Print progress lines until the run ends.", short="-f")] = False,
    lines: Annotated[int, option("--lines", "Last lines of each log.", short="-n", min=0, max=MAX_LINES)] = LINES,
    as_json: options.Json = False,
) -> int:
    """Show the logs of a run, or follow its progress."""
    from echelon.jobs.launch import log_files

    paths = find_run(run)
    if follow:
        return _follow(paths, as_json)
    files = log_files(paths)
    if as_json:
        output.show_json({path.name: tail(path, lines) for path in files})
        return output.DONE
    for path in files:
        output.print_line(f"==> {path}", style="bold")
        shown = tail(path, lines)
        if len(shown) < lines and path.stat().st_size > MAX_TAIL_BYTES:
            output.print_line(f"of the last {MAX_TAIL_BYTES >> 20} MiB:", style="dim")
        for line in shown:
            output.print_line(line.expandtabs())
    status = job_status(paths)
    output.print_line(f"{status.id} {status.state}" + (f": {status.reason}" if status.reason else ""), style="dim")
    return output.DONE


def tail(path: Path, lines: int) -> list[str]:
    """Return the last ``lines`` lines of a log that are among its last ``MAX_TAIL_BYTES``."""
    splitter, found = LineSplitter(MAX_LINE_BYTES), deque[bytes](maxlen=lines)
    with open_regular(path) as file:
        start = file.seek(0, os.SEEK_END)
        first, ends = max(0, start - MAX_TAIL_BYTES), 0
        while start > first and ends <= lines:
            end, start = start, file.seek(max(first, start - BLOCK_BYTES))
            ends += file.read(end - start).count(b"\n")
        file.seek(start)
        if start > 0 and 0 < ends <= lines:
            file.readline(MAX_TAIL_BYTES)  # the start of this line is not read
        while block := file.read(BLOCK_BYTES):
            found.extend(splitter.feed(block))
    if last := splitter.unfinished():
        found.append(last)
    return [line.decode("utf-8", "replace") for line in found]


def _follow(paths, as_json: bool) -> int:
    from echelon_cli.follow import Follower, show_summary

    follower = Follower(paths, as_json=as_json)
    if follower.snapshot.update is not None:
        follower.show(follower.snapshot.update)
    try:
        status = follower.follow(lambda *_: False)
    except KeyboardInterrupt:
        return output.DONE
    if as_json:
        output.show_json(job_json(paths, status), indent=None)
    else:
        show_summary(status, follower.snapshot, paths)
    return status.exit_code
