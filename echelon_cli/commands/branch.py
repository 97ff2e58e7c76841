"""``echelon replay branch``: continues a recorded match from a moment many times, with the same or other pilots."""

import contextlib
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from echelon.replay.find import find_replay
from echelon.replay.match_text import ending_text, shown_pilots
from echelon_cli import options, output
from echelon_cli.devices import require_device
from echelon_cli.matches import MatchArgument
from echelon_cli.options import option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from echelon.arena.branch import Continuation
    from echelon.play.catalogue import Catalogue

RUNS = 64
WINDOW_S = 1.0
MOMENT = re.compile(r"(?:(\d+):)?(\d+(?:\.\d+)?)")
"""A time: minutes and seconds, or seconds."""
SHARE = "{:.0%} ({:.0%} to {:.0%})"


def branch(
    match: MatchArgument,
    at: Annotated[str, option("--at", "Moment to continue from; default: that of --without.", "M:SS")] = "",
    chosen: Annotated[
        list[str] | None,
        option(
            "--set", "Pilot of mech B2 or team red: level, run, checkpoint, league entry, champion.", "MECH|TEAM=PILOT"
        ),
    ] = None,
    changes: Annotated[
        list[str] | None, option("--changes", "Parameter override: laser.damage=28; may be repeated.", "NAME=VALUE")
    ] = None,
    without: Annotated[
        str | None, option("--without", "Measure what this mech's actions at that moment achieve.", "MECH@M:SS")
    ] = None,
    window: Annotated[float, option("--for", "Length of the actions --without leaves out [s].", "SECONDS")] = WINDOW_S,
    runs: Annotated[int, option("--runs", "Continuations.", min=1, max=4096)] = RUNS,
    seed: Annotated[int, option("--seed", "Seed of the continuations' combat seeds.")] = 0,
    mean: Annotated[bool, option("--mean", "Policies use their mean action, not a sample.")] = False,
    record: Annotated[
        Path | None,
        option("--out", "Folder in which the median and two extreme continuations are recorded.", "DIR", short="-o"),
    ] = None,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> None:
    """Continue a match from a moment many times.

    Prints win probability with its 95 % interval, and endings.

    Every continuation has another combat seed, and its policies sample other actions.
    """
    from echelon.training.runtime.threads import resolve_threads, thread_environment

    os.environ.update(thread_environment())
    from echelon.arena.branch import continue_match, make_brancher
    from echelon.arena.reconstruct import moment_tick
    from echelon.config.seeds import require_seed
    from echelon.replay.reader import Replay

    require_device(device)
    mech, moment = _moment(at, without)
    path = find_replay(match)
    with Replay(path) as recorded, output.waiting("preparing", quiet=as_json) as show:
        hz = float(recorded.header["tick_hz"])
        brancher = make_brancher(
            recorded,
            pilot_finder(device),
            tick=round(moment * hz),
            runs=runs,
            seed=require_seed(seed, limit=2**32),
            pilots={target: name for target, _, name in (text.partition("=") for text in chosen or [])},
            changes=dict(_change(text) for text in changes or []),
            without=mech,
            window_s=window,
            mean_actions=mean,
            device=device,
            threads=resolve_threads(threads),
        )
        played = continue_match(brancher, record, lambda done, total, text: show(f"{text}: {done} of {total}"))
        start = brancher.start.moment
        found = {
            "match": str(path),
            "at_s": start.tick / hz,
            "last_s": moment_tick(recorded, recorded.ticks) / hz,
            "played_from_s": start.from_tick / hz,
            "parent": brancher.parent(),
            "teams": [shown_pilots(team.name, recorded.header["run"]) for team in brancher.teams()],
            **played,
            "continuations": [_row(row, hz) for row in played["continuations"]],
            "replays": {name: str((record or Path()) / file) for name, file in played["replays"].items()},
        }
    if mech:
        found["effect"]["of"] = without
    if as_json:
        output.show_json(found)
    else:
        _show(found)


def _moment(at: str, without: str | None) -> tuple[str, float]:
    """Return the mech that stands still, or an empty string, and the moment [s]."""
    mech, _, moment = (without or "").partition("@")
    if at and moment and _seconds("at", at) != _seconds("without", moment):
        raise ValueError(f"at is {at!r} and without {without!r}, expected one moment; leave out --at")
    if not (at or moment):
        raise ValueError("the moment is missing, expected --at M:SS or --without MECH@M:SS")
    return mech, _seconds("without", moment) if moment else _seconds("at", at)


def _row(row: "Continuation", hz: float) -> dict[str, Any]:
    from echelon.env.referee import WINNERS

    return {**asdict(row), "winner": WINNERS[row.winner], "end_s": row.tick / hz}


def _seconds(option: str, text: str) -> float:
    found = MOMENT.fullmatch(text)
    if not found:
        raise ValueError(f"{option} is {text!r}, expected a time as 0:21 or 21.5")
    return 60.0 * int(found[1] or 0) + float(found[2])


def _change(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    with contextlib.suppress(ValueError):
        return name, float(value)
    raise ValueError(f"changes has {text!r}, expected NAME=NUMBER, such as laser.damage=28")


def pilot_finder(device: str) -> "Catalogue":
    """Return the pilots that the command names: levels, and policies by path, run or league entry."""
    from echelon.arena.standings import policy_path
    from echelon.play.catalogue import Catalogue
    from echelon.training.runtime.devices import resolve_device

    finder = Catalogue(device=resolve_device(device), find=lambda name: policy_path(name, "pilot"))
    finder.option, finder.remedy = "set", "name a pilot with --set {}=PILOT"
    return finder


def _show(found: "Mapping[str, Any]") -> None:
    blue, red = found["teams"]
    at = f"{found['at_s']:g} s of {found['last_s']:g} s"
    output.print_line(f"{found['runs']} continuations from {at}: {blue} (blue) against {red} (red)")
    for note in found["notes"]:
        output.print_line(note)
    rows = []
    for side in ("blue", "red"):
        one = found[side]
        rows.append((side, SHARE.format(one["score"], one["low"], one["high"]), one["wins"]))
    output.show_table(("side", "win probability", "wins"), [*rows, ("draws", "", found["draws"])], right=("wins",))
    endings = [(name.partition(" "), times) for name, times in found["endings"].items()]
    rows = [(f"{side} ({ending_text(reason)})", times) for (side, _, reason), times in endings]
    output.show_table(("winner (ending)", "times"), rows, right=("times",), title="")
    if "effect" in found:
        one = found["effect"]
        low, high = one["low"], one["high"]
        output.print_line(f"actions of {one['of']} for {one['side']}: {one['value']:+.0%} ({low:+.0%} to {high:+.0%})")
    for name, file in found["replays"].items():
        output.print_line(f"{name.replace('_', ' ')}: {file}")
