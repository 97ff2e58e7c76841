"""Recorded matches by name, for Python and commands."""

import contextlib
from pathlib import Path

from echelon.replay.schema import MAGIC, SUFFIX
from echelon.runs import LATEST, RunNotFoundError, RunPaths, find_run, list_runs, match_id, runs_home
from echelon.state_files import open_regular


def home_of(what: str) -> Path | None:
    """Return the parent folder of the run that ``what`` names by its path; None within the usual runs folder."""
    try:
        home = find_run(what).root.parent
    except RunNotFoundError:
        return None
    return None if home.resolve() == runs_home().resolve() else home


def find_replay(name: str) -> Path:
    """Return the file of a match: a path, a match id, a file name, or a run (its newest match).

    ``latest`` is the newest run with matches. ``RunNotFoundError`` names what is missing.
    """
    if Path(name).is_file():
        return Path(name)
    runs = {run: _files(run) for run in list_runs(home_of(name))}
    for run, files in runs.items():
        for file in files:
            if name in (file.name, match_id(run.id, file.name)):
                return file
    newest = next((run for run, files in runs.items() if files), None) if name == LATEST else None
    run = newest or find_run(name)
    found = max(_files(run), key=_created, default=None)
    if found is None:
        raise RunNotFoundError(f"run {run.id!r} has no recorded match yet; training records some at every evaluation")
    return found


def _files(run: RunPaths) -> list[Path]:
    return sorted(run.replays.glob(f"*{SUFFIX}"))


def _created(file: Path) -> float:
    """Return when a match was recorded [s since the epoch]; 0 for a file that cannot be read."""
    from echelon.replay import codec

    with contextlib.suppress(ValueError, TypeError, KeyError, OSError), open_regular(file) as opened:
        codec.check_magic(opened, file.name)
        head = codec.read_head(opened, len(MAGIC))
        return float(codec.unpack_map(codec.unpack_payload(head, codec.read_stored(opened, head)))["created"])
    return 0.0
