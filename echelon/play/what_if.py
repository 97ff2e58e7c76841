"""Continuations of a recorded match for a what-if request, and for the coach."""

from collections.abc import Callable
from pathlib import Path

from echelon.arena.branch import continue_match, make_brancher
from echelon.arena.coach import cast_of, find_mistakes
from echelon.machine import cores
from echelon.play.catalogue import Catalogue
from echelon.play_protocol import Coach, Coached, Effect, Side, Source, WhatIf, WhatIfResult
from echelon.replay.embed import store_coaching
from echelon.replay.reader import Replay


class Cancelled(Exception):
    """The request was cancelled."""


def continuations(
    request: WhatIf,
    path: Path,
    catalogue: Catalogue,
    run: str,
    folder: Path,
    on_progress: Callable[[int, int, str], object],
) -> WhatIfResult:
    """Return the result of a request; typical continuations are recorded in ``folder`` of the run ``run``.

    ``on_progress`` gets done, total and a text, and may raise ``Cancelled``. Raises ``ValueError`` for a request that
    cannot be played.
    """
    with Replay(path) as recorded:
        on_progress(0, request.runs, "reconstructing the moment")
        brancher = make_brancher(
            recorded,
            catalogue,
            tick=request.tick,
            runs=request.runs,
            seed=request.seed,
            pilots=request.pilots,
            changes=request.changes,
            without=request.without,
            window_s=request.window_s,
            threads=cores(),
        )
        found = continue_match(brancher, folder, on_progress)
    return WhatIfResult(
        id=request.id,
        tick=brancher.start.moment.tick,
        runs=request.runs,
        blue=Side(**found["blue"]),
        red=Side(**found["red"]),
        draws=found["draws"],
        endings=found["endings"],
        replays={name: Source(run=run, file=file) for name, file in found["replays"].items()},
        effect=Effect(**found["effect"]) if "effect" in found else None,
        notes=found["notes"],
    )


def mistakes(
    request: Coach,
    path: Path,
    catalogue: Catalogue,
    run: str,
    folder: Path,
    on_progress: Callable[[int, int, str], object],
) -> Coached:
    """Store the measured mistakes of a request in the recording, with half of the processors; as ``continuations``."""
    threads = max(1, cores() // 2)
    with Replay(path) as recorded:
        cast = cast_of(recorded, catalogue)
        found = find_mistakes(
            recorded, cast, request.who, seed=request.seed, threads=threads, folder=folder, run=run,
            on_progress=on_progress,
        )  # fmt: skip
    store_coaching(path, found)
    return Coached(id=request.id, of=found["of"], mistakes=len(found["mistakes"]))
