"""The argument that names a recorded match, and its completion."""

from typing import Annotated

from echelon.replay.schema import SUFFIX
from echelon.runs import list_runs, match_id
from echelon_cli.options import argument, complete_runs

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
