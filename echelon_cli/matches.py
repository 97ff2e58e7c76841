"""Recorded matches by name: a file, a match id, or a run for its newest match; and the completion of such names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from echelon.replay.schema import SUFFIX
from echelon.runs import LATEST, RunNotFoundError, find_run, list_runs, match_id, runs_home
from echelon_cli.options import argument, complete_runs

if TYPE_CHECKING:
    from echelon.server.catalogue import Match, ReplayCatalogue

HEXADECIMAL = set("0123456789abcdef")


def complete_matches(incomplete: str) -> list[str]:
    names = complete_runs(incomplete)
    if incomplete and set(incomplete) <= HEXADECIMAL:
        files = [(run.id, file.name) for run in list_runs() for file in run.replays.glob(f"*{SUFFIX}")]
        names += [name for run, file in files if (name := match_id(run, file)).startswith(incomplete)]
    return names


MatchArgument = Annotated[
    str, argument("FILE|MATCH|RUN", "A replay file, a match id, or a run (its newest match).", complete_matches)
]


def home_of(what: str) -> Path | None:
    """Return the parent folder of the run that ``what`` names by its path; None within the usual runs folder."""
    try:
        home = find_run(what).root.parent
    except RunNotFoundError:
        return None
    return None if home.resolve() == runs_home().resolve() else home


def find_match(catalogue: ReplayCatalogue, what: str) -> Match:
    """Return the match with this id, or the newest of the run; ``RunNotFoundError`` names what is missing.

    ``latest`` is the newest run with matches.
    """
    known = catalogue.matches()
    exact = [m for m in known if m.id == what or m.path.name == what]
    if exact:
        return exact[0]
    with_matches = {match.run for match in known}
    newest = (run for run in list_runs(catalogue.home) if run.id in with_matches) if what == LATEST else iter(())
    run = next(newest, None) or find_run(what)
    of_run = sorted((m for m in known if m.run == run.id), key=lambda m: -m.summary["created"])
    if not of_run:
        raise RunNotFoundError(f"run {run.id!r} has no recorded match yet; training records some at every evaluation")
    return of_run[0]


def find_replay(name: str) -> Path:
    """Return the replay file of a path, a match id, a file name, or a run (its newest match)."""
    from echelon.server.catalogue import ReplayCatalogue

    if Path(name).is_file():
        return Path(name)
    return find_match(ReplayCatalogue(home_of(name)), name).path
