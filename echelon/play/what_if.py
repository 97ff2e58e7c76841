"""Continuations of a recorded match for a what-if request, and for the coach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from echelon.arena.branch import Brancher, BranchPlan, effect, summarise
from echelon.arena.coach import cast_of, find_mistakes
from echelon.arena.named_pilots import choose_pilots
from echelon.machine import cores
from echelon.play.catalogue import Catalogue
from echelon.play_protocol import Coach, Coached, Effect, Side, Source, WhatIf, WhatIfResult
from echelon.replay.embed import store_coaching
from echelon.replay.match_text import mechs_by_name
from echelon.replay.reader import Replay
from echelon.replay.schema import SUFFIX, WINNERS

BLUE, RED = WINNERS[0], WINNERS[1]


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
        cast = choose_pilots(recorded, request.pilots, catalogue)
        mechs, still = mechs_by_name(recorded.header), frozenset[int]()
        if request.without:
            if request.without not in mechs:
                raise ValueError(f"without has mech {request.without!r}, expected one of: {', '.join(mechs)}")
            still = frozenset((mechs[request.without],))
        step_s = recorded.header["frame_ticks"] / float(recorded.header["tick_hz"])
        plan = BranchPlan(
            tick=request.tick,
            runs=request.runs,
            seed=request.seed,
            pilots=cast.pilots,
            labels=cast.labels,
            changes=request.changes,
            still=still,
            window=max(1, round(request.window_s / step_s)) if still else 0,
        )
        total = request.runs * (2 if still else 1)
        on_progress(0, total, "reconstructing the moment")
        brancher = Brancher(recorded, plan, lambda pilot: cast.policies[pilot.path], threads=cores())
        rows = brancher.play(on_step=lambda left: on_progress(request.runs - left, total, "continuations"))
        summary, found = summarise(rows), None
        if still:
            text = "continuations with the actions"
            again = brancher.play(still=False, on_step=lambda left: on_progress(total - left, total, text))
            side = int(recorded.header["roster"][next(iter(still))]["team"])
            found = Effect(side=WINNERS[side], **effect(again, rows, side))  # type: ignore[arg-type]
        numbers = sorted(set(summary["typical"].values()))
        on_progress(total, total, f"recording {len(numbers)} continuations")
        played = brancher.play(numbers, folder=folder)
        assert [asdict(row) for row in played] == [asdict(rows[number]) for number in numbers], "other continuations"
        files = {number: f"{brancher.name_of(number)}{SUFFIX}" for number in numbers}
        moment = brancher.start.moment
    return WhatIfResult(
        id=request.id,
        tick=moment.tick,
        runs=request.runs,
        blue=Side(**summary[BLUE]),
        red=Side(**summary[RED]),
        draws=summary["draws"],
        endings=summary["endings"],
        replays={name: Source(run=run, file=files[number]) for name, number in summary["typical"].items()},
        effect=found,
        notes=list(moment.notes),
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
