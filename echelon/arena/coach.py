"""The coach: mistakes of a side or a mech in a recorded match, each measured by continuations.

Suspects are found cheaply: moments before a mech died, was hurt, fell or shut down, left the zone, or held its fire.
Each is continued twice from just before with equal seeds: with the mech's recorded actions for some seconds, and with
those of a level, chosen in another continuation; all others are flown by their pilots. What happens to a mech ends its
window, since its actions afterwards answer luck that others do not have. A first round selects, and a second one with
other seeds decides: its intervals hold together with a probability of 95 %, however many mistakes it tests. A suspect
whose interval contains less than ``MARGIN`` is not named.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.arena.branch import Brancher, BranchPlan, Continuation
from echelon.arena.contest import BLUE, RED
from echelon.arena.named_pilots import Cast, Finder, choose_pilots
from echelon.arena.reconstruct import ACTION, moment_tick, recorded_inputs, require_playable
from echelon.env.seats import TRIGGERS
from echelon.replay.match_text import SIDES, TEAMS, clock, mechs_by_name, percent
from echelon.replay.reader import Replay
from echelon.replay.schema import SUFFIX, EventKind, MechFlag
from echelon.sim.arsenal import CHASSIS
from echelon.statistics import paired_difference

LEVEL = "expert"
"""Level whose actions are the better line."""
WINDOW_S = 3.0
"""Longest time that they replace the recorded ones [s]."""
SUSPECTS, MISTAKES = 6, 3
"""Most moments that are tested, and most that the second round tests."""
SCREENED, DECIDED = 32, 128
"""Pairs of continuations of a moment in the first and in the second round; fewer for more than ``USUAL_MECHS``."""
USUAL_MECHS, LEAST_PAIRS = 10, 16
ERROR = 0.05
"""Probability that one interval of the second round or more misses its value."""
MARGIN = 0.05
"""Gain that the interval of a named mistake excludes: actions that answer bad luck are worse in matches without it."""
PROMISING = 0.02
"""Least difference of the first round for the second one."""
LEAST_S = 1.0
"""Shortest time that they replace; a moment with less before a death, fall or shutdown is left out [s]."""
APART_S = 3.0
"""Moments of a mech closer than this to a graver one are left out [s]."""
HURT_SHARE = 0.3
"""Share of the hit points of a mech whose loss within ``WINDOW_S`` is suspicious."""
IDLE_S, OUT_S = 2.0, 2.0
"""Shortest time of held fire, and out of the zone [s]."""
FRONT = 0.35
"""Angle to the heading up to which a hostile is in front [rad]."""
LEAD_S = {"death": 4.0, "hurt": 3.0, "overheat": 3.0, "fall": 3.0, "left_zone": 1.0, "held_fire": 0.0}
"""Time from the moment that is continued to what happened, by kind [s]."""


class Suspect(NamedTuple):
    """A moment at which a mech may have erred."""

    drop: float
    """By how much the win probability of its side falls after it."""
    tick: int
    mech: int
    kind: str
    text: str
    """What the mech does."""
    window: int
    """Environment steps whose actions are replaced."""


@dataclass(frozen=True)
class _Track:
    """Frames of a whole match ``[F, ...]`` and its events by column."""

    tick: NDArray[Any]
    frames: Mapping[str, NDArray[Any]]
    events: Mapping[str, NDArray[Any]]

    @staticmethod
    def of(recorded: Replay) -> "_Track":
        chunks = [recorded.chunk(number) for number in range(len(recorded.chunks))]
        new = [slice(1 if number else 0, None) for number in range(len(chunks))]
        scale = {column["name"]: column["scale"] for column in recorded.header["columns"]}
        names = ("x", "y", "yaw", "hp", "flags", ACTION)
        frames = {n: np.concatenate([c.frames[n][s] for c, s in zip(chunks, new, strict=True)]) for n in names}
        events = {
            n: np.concatenate([c.tables["events"][n] for c in chunks]) for n in ("kind", "actor", "target", "value")
        }
        events["tick"] = np.concatenate([c.tables["events"]["tick"] + c.ref.tick0 for c in chunks])
        tick = np.concatenate([c.ticks[s] for c, s in zip(chunks, new, strict=True)])
        return _Track(tick, {n: v * scale[n] if n in ("x", "y", "yaw") else v for n, v in frames.items()}, events)

    def of_kind(self, kind: EventKind, **columns: int) -> NDArray[Any]:
        """Return the rows of the events of a kind with these values."""
        chosen = self.events["kind"] == int(kind)
        for name, value in columns.items():
            chosen &= self.events[name] == value
        return np.flatnonzero(chosen)


def subject(recorded: Replay, who: str = "") -> tuple[str, list[int]]:
    """Return name and mechs of a side or a mech; "" is the mech that a human flew, else the side that lost."""
    mechs, roster = mechs_by_name(recorded.header), recorded.header["roster"]
    names = {mech: name for name, mech in mechs.items()}
    humans = humans_of(recorded)
    lost = RED if (recorded.outcome or {}).get("winner") == BLUE else BLUE
    who = who or (names[humans[0]] if humans else tuple(SIDES)[lost])
    if who in SIDES:
        return who, [mech for mech in mechs.values() if roster[mech]["team"] == SIDES[who]]
    if who not in mechs:
        raise ValueError(f"mistakes has {who!r:.80}, expected blue, red or one of: {', '.join(mechs)}")
    return who, [mechs[who]]


def humans_of(recorded: Replay) -> list[int]:
    return sorted({mech for seats, _ in recorded_inputs(recorded).values() for mech in seats})


def cast_of(recorded: Replay, finder: Finder) -> Cast:
    """Return who plays the match on: the recorded pilots, and ``LEVEL`` in place of humans."""
    names = {mech: name for name, mech in mechs_by_name(recorded.header).items()}
    return choose_pilots(recorded, {names[mech]: LEVEL for mech in humans_of(recorded)}, finder)


def suspects(recorded: Replay, mechs: Collection[int]) -> list[Suspect]:
    """Return the gravest moments at which one of these mechs may have erred, at most ``SUSPECTS``.

    The gravest of each kind come first, by how far the win probability falls after them.
    """
    header, track = recorded.header, _Track.of(recorded)
    hz, ticks, roster = float(header["tick_hz"]), int(header["frame_ticks"]), header["roster"]
    line = recorded.timeline()
    win, found = line["win"], []
    for mech in mechs:
        luck = [
            at for at, kind, actor, target in line["markers"] if mech == (target if kind == EventKind.KILL else actor)
        ]
        for kind, tick, text in _happenings(header, track, mech, hz):
            start = moment_tick(recorded, max(int(track.tick[0]), round(tick - LEAD_S[kind] * hz)))
            blue = np.interp([start, start + (WINDOW_S + LEAD_S[kind]) * hz], win["tick"], win["blue"])
            fall = float(blue[0] - blue[1]) * (1 if roster[mech]["team"] == BLUE else -1)
            end = min([start + WINDOW_S * hz, recorded.ticks, *(at for at in luck if at > start)])
            if end - start >= LEAST_S * hz:
                found.append(Suspect(fall, start, mech, kind, text, int((end - start) // ticks)))
    kept: list[Suspect] = []
    for one in sorted(found, key=lambda one: (-one.drop, one)):
        if all(one.mech != other.mech or abs(one.tick - other.tick) >= APART_S * hz for other in kept):
            kept.append(one)
    rank = {one: sum(other.kind == one.kind for other in kept[:place]) for place, one in enumerate(kept)}
    return sorted(kept, key=lambda one: (rank[one], -one.drop))[:SUSPECTS]


def _happenings(header: Mapping[str, Any], track: _Track, mech: int, hz: float) -> list[tuple[str, float, str]]:
    """Return kind, tick and text of what happens to a mech or what it does."""
    events, found = track.events, list[tuple[str, float, str]]()
    for kind, event, column, text in (
        ("death", EventKind.KILL, "target", "is destroyed at {}"),
        ("overheat", EventKind.SHUTDOWN, "actor", "is shut down by heat at {}"),
        ("fall", EventKind.FALL, "actor", "is knocked down at {}"),
    ):
        ticks = events["tick"][track.of_kind(event, **{column: mech})]
        found += [(kind, float(tick), text.format(clock(tick / hz))) for tick in ticks.tolist()]
    hits = track.of_kind(EventKind.HIT, target=mech)
    scale = next(
        c["scale"] for t in header["tables"] if t["name"] == "events" for c in t["columns"] if c["name"] == "value"
    )
    tick, lost = events["tick"][hits], events["value"][hits] * scale
    order = np.argsort(tick, kind="stable")
    tick, total = tick[order], np.concatenate([[0.0], np.cumsum(lost[order])])
    taken = total[np.searchsorted(tick, tick + WINDOW_S * hz)] - total[:-1]
    hull = float(header["chassis"][header["roster"][mech]["chassis"]]["hp"])
    grave = np.flatnonzero(taken >= HURT_SHARE * hull)
    hurts = [(float(tick[at]), f"takes {taken[at]:.0f} damage from {clock(tick[at] / hz)} on") for at in grave.tolist()]
    found += [("hurt", *one) for one in hurts]
    x, y, radius = header["zone"]
    flags = track.frames["flags"][:, mech]
    up = (flags & int(MechFlag.ALIVE | MechFlag.FALLEN | MechFlag.SHUTDOWN)) == int(MechFlag.ALIVE)
    inside = np.hypot(track.frames["x"][:, mech] - x, track.frames["y"][:, mech] - y) < radius
    for first, end in _runs(up & ~inside):
        if first > 0 and inside[first - 1] and track.tick[end - 1] - track.tick[first] >= OUT_S * hz:
            found.append(("left_zone", float(track.tick[first]), "leaves the zone"))
    for first, end in _runs(up & _could_fire(header, track, mech)):
        if track.tick[end - 1] - track.tick[first] >= IDLE_S * hz:
            found.append(("held_fire", float(track.tick[first]), "holds its fire with a hostile in front"))
    return found


def _could_fire(header: Mapping[str, Any], track: _Track, mech: int) -> NDArray[np.bool_]:
    """Return in which frames ``[F]`` a living hostile stands in front and in reach, and no trigger is held."""
    roster, frames = header["roster"], track.frames
    spec = CHASSIS[roster[mech]["chassis"]]
    reach = max(
        (
            w["range"]
            for w in (header["weapons"][w] for w in spec.carries)
            if w["damage"] > 0 and w["guidance"] != "homing"
        ),
        default=0.0,
    )
    hostile = [m for m, row in enumerate(roster) if row["present"] and row["team"] != roster[mech]["team"]]
    dx, dy = (frames[a][:, hostile] - frames[a][:, [mech]] for a in "xy")
    turn = np.arctan2(dy, dx) - frames["yaw"][:, [mech]]
    living = (frames["flags"][:, hostile] & int(MechFlag.ALIVE)) > 0
    ahead = np.abs(np.arctan2(np.sin(turn), np.cos(turn))) < FRONT
    action = frames[ACTION].reshape(len(track.tick), len(roster), -1)[:, mech]
    in_sight: NDArray[np.bool_] = np.any(living & ahead & (np.hypot(dx, dy) < reach), axis=1)
    held: NDArray[np.bool_] = np.any(action[:, list(TRIGGERS)] > 0, axis=1)
    return in_sight & ~held


def _runs(held: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return first and end of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], held.astype(np.int8), [0]])))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]


class _Pair(NamedTuple):
    """Continuations of a moment with equal seeds."""

    recorded: list[Continuation]
    better: list[Continuation]

    def gain(self, side: int, z: float) -> Any:
        both = zip(self.better, self.recorded, strict=True)
        return paired_difference([one.points(side) - two.points(side) for one, two in both], z)


def find_mistakes(
    recorded: Replay,
    cast: Cast,
    who: str = "",
    *,
    seed: int = 0,
    threads: int = 1,
    folder: Path | None = None,
    run: str = "",
    on_progress: Callable[[int, int, str], object] = lambda done, total, text: None,
) -> dict[str, Any]:
    """Return what the coach knows of a side or a mech, as ``validate.Coaching`` has it.

    ``on_progress`` gets continuations done, their total and a text, and may raise to stop. Better lines are recorded in
    ``folder`` of the run ``run``. Raises ``ValueError`` for a match that cannot be played on, and for a name that is
    neither side nor mech.
    """
    require_playable(recorded)
    name, mechs = subject(recorded, who)
    header, hz = recorded.header, float(recorded.header["tick_hz"])
    share = min(1.0, USUAL_MECHS / len(mechs_by_name(header)))
    screened, decided = (max(LEAST_PAIRS, round(share * pairs)) for pairs in (SCREENED, DECIDED))
    tested, done = suspects(recorded, mechs), 0
    total = 2 * (len(tested) * screened + min(MISTAKES, len(tested)) * decided)
    on_progress(0, total, "reconstructing the moments")

    def load(pilot: Any) -> Any:
        return cast.policies[pilot.path]

    def play(line: Brancher, numbers: range, text: str) -> _Pair:
        nonlocal done
        rows = []
        for still in (False, True):
            before = done

            def on_step(running: int, before: int = before) -> None:
                on_progress(before + len(numbers) - running, total, text)

            rows.append(line.play(numbers, still=still, on_step=on_step))
            done += len(numbers)
        return _Pair(*rows)

    first = []
    for place, one in enumerate(tested, start=1):
        line = Brancher(recorded, _plan(cast, one, seed), load, threads=threads)
        pair = play(line, range(screened), f"moment {place} of {len(tested)}")
        first.append((pair.gain(_side(header, one), 1.0).value, one, line))
    best = sorted((row for row in first if row[0] > PROMISING), key=lambda row: (-row[0], row[1].tick))[:MISTAKES]
    total = done + 2 * len(best) * decided
    z = NormalDist().inv_cdf(1.0 - ERROR / (2 * max(1, len(best))))
    mistakes = []
    for place, (_, one, line) in enumerate(best, start=1):
        pair = play(line, range(screened, screened + decided), f"deciding on moment {place} of {len(best)}")
        gain = pair.gain(_side(header, one), z)
        if gain.low > MARGIN:
            mistakes.append((gain, one, line, pair))
    return {
        "of": name,
        "by": LEVEL,
        "tested": len(tested),
        "runs": decided,
        "seed": seed,
        "mistakes": [
            _mistake(header, hz, gain, one, line, pair, folder, run)
            for gain, one, line, pair in sorted(mistakes, key=lambda row: (-row[0].value, row[1].tick))
        ],
    }


def _side(header: Mapping[str, Any], one: Suspect) -> int:
    return int(header["roster"][one.mech]["team"])


def _plan(cast: Cast, one: Suspect, seed: int) -> BranchPlan:
    return BranchPlan(
        tick=one.tick,
        seed=seed,
        pilots=cast.pilots,
        labels=cast.labels,
        still=frozenset((one.mech,)),
        stand_in=LEVEL,
        window=one.window,
    )


def _mistake(
    header: Mapping[str, Any],
    hz: float,
    gain: Any,
    one: Suspect,
    line: Brancher,
    pair: _Pair,
    folder: Path | None,
    run: str,
) -> dict[str, Any]:
    side, name = _side(header, one), header["roster"][one.mech]["name"]
    scores = [sum(row.points(side) for row in rows) / len(rows) for rows in (pair.recorded, pair.better)]
    seconds = line.plan.window * header["frame_ticks"] / hz
    file = ""
    if folder is not None:
        most = max(row.points(side) for row in pair.better)
        good = sorted((r for r in pair.better if r.points(side) == most), key=lambda row: (row.margin, row.number))
        number = good[len(good) // 2].number
        line.play([number], folder=folder)
        file = f"{line.name_of(number)}{SUFFIX}"
    text = f"{clock(one.tick / hz)} {name} {one.text}. With the actions of {LEVEL} for {seconds:g} s from here, "
    text += f"{TEAMS[side].lower()} wins {percent(scores[1])}, not {percent(scores[0])}: {100 * gain.value:+.0f} points"
    return {
        "tick": one.tick,
        "mech": one.mech,
        "kind": one.kind,
        "window_s": seconds,
        "value": round(gain.value, 4),
        "low": round(gain.low, 4),
        "high": round(gain.high, 4),
        "recorded": round(scores[0], 4),
        "better": round(scores[1], 4),
        "run": run,
        "file": file,
        "caption": f"{text} ({100 * gain.low:.0f} to {100 * gain.high:.0f}).",
    }
