"""Turning points of a match: kills, exploits, swings of the win probability, holds, comebacks; ranked and captioned.

An exploit is a kill of a hostile that could not fight back: shut down by heat, hit from behind, or knocked down. The
caption names which; one that changes nothing is no moment.

``MomentScan`` receives a match chunk by chunk: from its writer, or from the reader of a file that was not closed. Its
size is bounded by ``MAX_SAMPLES`` and the number of mechs, whatever the file contains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from echelon.replay import match_text, schema
from echelon.replay.columns import TEAMS, GrowingRows, Ints, bounds
from echelon.replay.match_text import Kill
from echelon.replay.winprob import Floats, MatchSituation, Roster, WinModel, load_model

MAX_SAMPLES = 2**14
"""Most samples of a match; those of a longer one are further apart."""
MIN_STEP_S = 0.25
"""Least time between samples [s]."""
WIN_STEP_S = 0.5
"""Least time between points of the stored win probability [s]."""
BEFORE_S, AFTER_S = 1.0, 0.5
"""Time before the first and after the last kill of a moment between which the win probability changes because of it
[s]; also in viewer/src/data/moments.ts."""
CLUSTER_S = 3.0
"""Kills of a team this close together are one moment [s]."""
SWING_S, MIN_SWING = 4.0, 0.1
"""Time in which the win probability changes by at least this much without a kill for a moment [s]."""
REVERSAL = 0.25
"""Change in the other direction that ends a swing, as a share of the change in ``SWING_S``."""
FLAT = 0.05
"""Share of a swing's change before its start and after its end."""
HOLD_S, FEW, ODDS = 4.0, 3, 2
"""A hold: time [s], most living mechs of the team, least ratio of the living hostiles."""
COMEBACK, COMEBACK_FROM_S = 0.25, 3.0
"""Highest win probability from which winning is a comeback, and the time from which it counts [s]."""
MERGE_S = 1.5
"""A moment closer than this to a higher ranked one is omitted [s]."""
MIN_SCORE = 0.03
LEAD_IN_S, LEAD_OUT_S = 2.0, 1.5
"""Time that is shown before and after a moment [s]; the latter also in viewer/src/data/moments.ts."""
BONUS = {
    "comeback": 0.3,
    "hold": 0.2,
    "multi_kill": 0.15,
    "first_blood": 0.1,
    "exploit": 0.02,
    "friendly_fire": 0.1,
    "hazard": 0.05,
    "kill": 0.0,
    "swing": 0.0,
}
"""Added to the change of the win probability for the rank of a moment, by kind."""
TOLD = 0.05
"""Change of the win probability from which the whole of that counts; what changes nothing is no turning point."""
AGAINST = 0.5
"""Weight of a change against the team that acts; of an exchange of kills the gaining side's moment ranks first."""


@dataclass(frozen=True)
class TurningPoint:
    """A turning point; probabilities are those of blue."""

    tick: int
    kind: str
    team: int
    """Team that acts or gains, -1 for none."""
    mechs: tuple[int, ...]
    before: float
    after: float
    text: str
    end: int
    """Tick of the last event, at which the text is true."""

    @property
    def score(self) -> float:
        change = self.after - self.before
        gain = abs(change) if self.team < 0 else change * (1 - 2 * self.team)
        return max(gain, -AGAINST * gain) + BONUS[self.kind] * min(1.0, abs(change) / TOLD)


class _Columns(NamedTuple):
    """Samples of a match ``[S, ...]``."""

    tick: Floats
    p: Floats
    low: Floats
    high: Floats
    parts: Floats
    """Contributions ``[S, G]``."""
    alive: Floats
    """``[S, 2]``, as the following."""
    hp: Floats
    score: Floats
    in_zone: Floats
    sole: Floats
    """First living mech of each team."""

    @staticmethod
    def of(rows: Floats) -> "_Columns":
        """Return a copy of the columns of rows ``[S, sum(WIDTHS)]``."""
        parts = np.split(rows, np.cumsum(WIDTHS)[:-1], axis=1)
        return _Columns(
            *(part.copy() if width > 1 else part[:, 0].copy() for part, width in zip(parts, WIDTHS, strict=True))
        )


WIDTHS = (1, 1, 1, 1, len(schema.WIN_GROUPS), TEAMS, TEAMS, TEAMS, TEAMS, TEAMS)
"""Values per sample of each column."""


class _Hits:
    """Hits of a chunk by tick, shooter, mech that was hit, and size, so that a kill finds its own without a scan."""

    def __init__(self, events: Mapping[str, Ints]) -> None:
        rows = np.flatnonzero(events["kind"] == int(schema.EventKind.HIT))
        keys = [events[name][rows] for name in ("tick", "actor", "target")]
        order = np.lexsort((-events["value"][rows].astype(np.float64), *reversed(keys)))
        self._rows, self._keys = rows[order], [key[order] for key in keys]
        self._events = events

    def strongest(self, tick: int, killer: int, victim: int) -> tuple[int, int]:
        """Return weapon and flags of the strongest hit of the killer at the tick of a kill, (-1, 0) without one."""
        first, end = 0, len(self._rows)
        for key, value in zip(self._keys, (tick, killer, victim), strict=True):
            first, end = (first + int(np.searchsorted(key[first:end], value, side)) for side in ("left", "right"))
        if first == end:
            return -1, 0
        row = self._rows[first]
        return int(self._events["weapon"][row]), int(self._events["flags"][row])


class MomentScan:
    """Win probability and kills of a match, as far as it was added."""

    def __init__(self, header: Mapping[str, Any], model: WinModel | None = None) -> None:
        self._roster = Roster.of(header)
        self._model = model or load_model()
        self._hz = self._roster.hz
        self._step = MIN_STEP_S * self._hz
        """Ticks between samples."""
        self._weapons = [match_text.plain_name(weapon["name"]) for weapon in header["weapons"]]
        self._names = [match_text.plain_name(mech["name"]) for mech in header["roster"]]
        self._samples = GrowingRows(sum(WIDTHS), dtype=np.float64)
        self._due = 0.0
        self._kills: dict[int, Kill] = {}
        """By victim."""

    @property
    def size(self) -> int:
        return self._samples.size

    def add(self, frames: Mapping[str, Ints], events: Mapping[str, Ints], tick0: int) -> None:
        """Add the chunk that starts at ``tick0``: frame columns ``[F, W]`` and event columns ``[rows]``."""
        self._add_kills(frames, events, tick0)
        ticks, chosen = frames["tick"][:, 0] + tick0, []
        for frame, tick in enumerate(ticks.tolist()):
            last = frame == len(ticks) - 1 and tick > self._due - self._step
            if tick >= self._due or (last and self._step <= MIN_STEP_S * self._hz):
                chosen.append(frame)
                self._due = tick + self._step
        if not chosen:
            return
        frames = {name: values[chosen] for name, values in frames.items()}
        state = MatchSituation.of(self._roster, frames, ticks[chosen])
        p, low, high, parts = self._model.estimate(state)
        alive = (frames["flags"] & int(schema.MechFlag.ALIVE)) > 0
        sole = [np.argmax(alive & (self._roster.team == team), axis=1) for team in range(TEAMS)]
        columns = (
            ticks[chosen], p, low, high, parts[:, : len(schema.WIN_GROUPS)],
            state.alive, state.hp, state.score, state.in_zone, *sole,
        )  # fmt: skip
        self._samples.append(np.column_stack(columns).astype(np.float64))
        if self._samples.count > MAX_SAMPLES:
            self._samples.thin()
            self._step *= 2

    def _add_kills(self, frames: Mapping[str, Ints], events: Mapping[str, Ints], tick0: int) -> None:
        mechs, hits = len(self._names), _Hits(events)
        for row in np.flatnonzero(events["kind"] == int(schema.EventKind.KILL)).tolist():
            tick, killer, victim = (int(events[name][row]) for name in ("tick", "actor", "target"))
            if not 0 <= victim < mechs or victim in self._kills:
                continue
            killer = killer if 0 <= killer < mechs else -1
            weapon, marks = hits.strongest(tick, killer, victim)
            frame = max(0, int(np.searchsorted(frames["tick"][:, 0], tick)) - 1)
            state = int(frames["flags"][frame, victim])
            self._kills[victim] = Kill(
                tick=tick + tick0,
                killer=killer,
                victim=victim,
                weapon=self._weapons[weapon] if 0 <= weapon < len(self._weapons) else "",
                rear=bool(marks & schema.HitFlag.REAR),
                shutdown=bool(state & schema.MechFlag.SHUTDOWN),
                fallen=bool(state & schema.MechFlag.FALLEN),
            )

    def result(self, winner: int = schema.UNDECIDED) -> tuple[Ints, list[dict[str, Any]]]:
        """Return the rows of the table ``win``, and the moments in order of time, ranked from 1, as plain values."""
        if not self._samples.count:
            return np.zeros((0, len(schema.WIN_TABLE.columns)), np.int64), []
        columns = _Columns.of(self._samples.rows)
        decided = RESULTS.get(winner)
        if decided is not None:
            for values in (columns.p, columns.low, columns.high):
                values[-1] = decided
        rows = self._win_rows(columns, decided is not None)
        curve = rows[:, 0], (rows[:, 1] * schema.WIN_TABLE.columns[1].scale).astype(np.float64)
        finder = _Finder(self._roster, self._names, columns, curve, list(self._kills.values()))
        found = self._ranked(finder.find(decided))
        rank = {moment: place for place, moment in enumerate(found, start=1)}
        moments = [self._plain(moment, rank[moment]) for moment in sorted(found, key=lambda m: m.tick)]
        return rows, moments

    def _ranked(self, moments: Sequence[TurningPoint]) -> list[TurningPoint]:
        """Return the best moments, best first, without those beside better ones."""
        best: list[TurningPoint] = []
        for moment in sorted(moments, key=lambda m: (-m.score, m.tick)):
            apart = all(abs(moment.tick - other.tick) >= MERGE_S * self._hz for other in best)
            if apart and moment.score >= MIN_SCORE and len(best) < schema.MAX_MOMENTS:
                best.append(moment)
        return best

    def _plain(self, moment: TurningPoint, rank: int) -> dict[str, Any]:
        return {
            "tick": moment.tick,
            "second": round(moment.tick / self._hz, 2),
            "from": round(max(0.0, moment.tick / self._hz - LEAD_IN_S), 2),
            "to": round(moment.end / self._hz + LEAD_OUT_S, 2),
            "kind": moment.kind,
            "rank": rank,
            "score": round(moment.score, 3),
            "team": moment.team,
            "mechs": [self._names[mech] for mech in moment.mechs[: schema.MAX_MOMENT_MECHS]],
            "before": round(moment.before, 3),
            "after": round(moment.after, 3),
            "caption": match_text.caption(moment.tick / self._hz, moment.text, moment.before, moment.after),
        }

    def _win_rows(self, columns: _Columns, decided: bool) -> Ints:
        """Return rows of the table ``win`` at most every ``WIN_STEP_S``, the last sample included."""
        step = max(WIN_STEP_S * self._hz, float(columns.tick[-1]) / (schema.MAX_WIN_POINTS - 2))
        due = np.arange(0.0, float(columns.tick[-1]), step)
        at = np.unique(np.append(np.searchsorted(columns.tick, due), len(columns.tick) - 1))
        tick, p, low, high, parts = (values[at] for values in columns[:5])
        scales = np.array([column.scale for column in schema.WIN_TABLE.columns])
        limits = np.array([bounds(column.dtype) for column in schema.WIN_TABLE.columns])
        limits[1:4] += (1, -1)  # only a result is certain
        rows = np.rint(np.column_stack((tick, p, low, high, parts)) / scales).astype(np.int64)
        end = rows[-1, 1:4].copy()
        rows = np.clip(rows, limits[:, 0], limits[:, 1])
        if decided:
            rows[-1, 1:4] = end
        return rows


RESULTS = {0: 1.0, 1: 0.0, 2: 0.5}
"""Probability of blue after the end, by winner."""


class _Finder:
    """Detection of moments in the samples of a match; ``curve`` has ticks and win probability as they are shown."""

    def __init__(
        self, roster: Roster, names: Sequence[str], columns: _Columns, curve: tuple[Ints, Floats], kills: Sequence[Kill]
    ) -> None:
        self._c, self._curve, self._names = columns, curve, names
        self._team = roster.team.tolist()
        self._hz = roster.hz
        self._kills = sorted(kills)

    def find(self, decided: float | None) -> list[TurningPoint]:
        """Return all candidates; ``decided`` is the result for blue, None if unknown."""
        kills = self._kill_moments()
        return [*kills, *self._swings(kills, decided is not None), *self._holds(), *self._comebacks(decided)]

    def _shown(self, tick: float) -> float:
        """Return the win probability that the score bar shows at a tick."""
        ticks, p = self._curve
        return float(p[max(0, int(np.searchsorted(ticks, tick, side="right")) - 1)])

    def _clusters(self) -> list[list[Kill]]:
        """Return kills of one team close together; others alone."""
        open_clusters: dict[int, list[Kill]] = {}
        clusters = []
        for kill in self._kills:
            hostile = kill.killer >= 0 and self._team[kill.killer] != self._team[kill.victim]
            team = self._team[kill.killer] if hostile else -1
            last = open_clusters.get(team)
            if hostile and last and kill.tick - last[0].tick <= CLUSTER_S * self._hz:
                last.append(kill)
            else:
                clusters.append([kill])
                if hostile:
                    open_clusters[team] = clusters[-1]
        return clusters

    def _kill_moments(self) -> list[TurningPoint]:
        moments = []
        for number, kills in enumerate(self._clusters()):
            first, last = kills[0], kills[-1]
            victim_team = self._team[first.victim]
            before, after = self._shown(first.tick - BEFORE_S * self._hz), self._shown(last.tick + AFTER_S * self._hz)
            if len(kills) > 1:
                seconds = (last.tick - first.tick) / self._hz
                kind, text = "multi_kill", match_text.multi_kill_text(kills, self._names, 1 - victim_team, seconds)
            else:
                kind, text = self._kill_kind(first), match_text.kill_text(first, self._names, self._team)
            if number == 0:
                kind, text = kind if kind != "kill" else "first_blood", f"first blood: {text}"
            text += match_text.loss_text(1 - victim_team, self._lost(1 - victim_team, first.tick, last.tick))
            mechs = tuple(dict.fromkeys(m for kill in kills for m in (kill.killer, kill.victim) if m >= 0))
            acts = self._team[first.killer] if first.killer >= 0 else -1
            moments.append(TurningPoint(first.tick, kind, acts, mechs, before, after, text, last.tick))
        return moments

    def _lost(self, team: int, first: float, last: float) -> list[str]:
        start, end = first - BEFORE_S * self._hz, last + AFTER_S * self._hz
        lost = [kill.victim for kill in self._kills if start <= kill.tick <= end and self._team[kill.victim] == team]
        return [self._names[mech] for mech in lost]

    def _kill_kind(self, kill: Kill) -> str:
        if kill.killer < 0:
            return "hazard"
        if self._team[kill.killer] == self._team[kill.victim]:
            return "friendly_fire"
        return "exploit" if kill.shutdown or kill.rear or kill.fallen else "kill"

    def _swings(self, kills: Sequence[TurningPoint], ended: bool) -> list[TurningPoint]:
        c, span = self._c, SWING_S * self._hz
        before = np.maximum(0, np.searchsorted(c.tick, c.tick - span, side="right") - 1)
        change = c.p - c.p[before]
        taken = np.zeros(len(c.tick), bool)
        taken[-1] = ended
        for kill in kills:
            taken |= (c.tick > kill.tick - BEFORE_S * self._hz) & (c.tick < kill.end + span)
        moments = []
        for at in np.argsort(-np.abs(change), kind="stable")[: schema.MAX_MOMENTS * SWING_CANDIDATES].tolist():
            if abs(change[at]) < MIN_SWING or len(moments) == schema.MAX_MOMENTS:
                break
            if taken[at]:
                continue
            first, last = self._trimmed(int(before[at]), at)
            if abs(c.p[last] - c.p[first]) < MIN_SWING:
                continue
            taken |= np.abs(c.tick - c.tick[at]) < span
            moments.append(self._swing(first, last))
        return moments

    def _trimmed(self, first: int, last: int) -> tuple[int, int]:
        """Return the samples at which the change between two samples starts and ends.

        Around its steepest step it goes on until the probability moves back by ``REVERSAL`` of it.
        """
        p = self._c.p[first : last + 1] * (1 if self._c.p[last] > self._c.p[first] else -1)
        most = REVERSAL * (p[-1] - p[0])
        end = int(np.argmax(np.diff(p))) + 1
        start = end - 1
        for at in range(start - 1, -1, -1):
            if p[at] < p[start]:
                start = at
            elif p[at] - p[start] > most:
                break
        for at in range(end + 1, len(p)):
            if p[at] > p[end]:
                end = at
            elif p[end] - p[at] > most:
                break
        flat = FLAT * (p[end] - p[start])
        low, high = p[start] + flat, p[end] - flat
        while p[start + 1] <= low:
            start += 1
        while p[end - 1] >= high:
            end -= 1
        return first + start, first + end

    def _swing(self, first: int, last: int) -> TurningPoint:
        c = self._c
        team = 0 if c.p[last] > c.p[first] else 1
        moved = (c.parts[last] - c.parts[first]) * (1 if team == 0 else -1)
        lost, scored = c.hp[first] - c.hp[last], c.score[last] - c.score[first]
        seconds = max(1.0, (c.tick[last] - c.tick[first]) / self._hz)
        text = match_text.swing_text(
            schema.WIN_GROUPS[int(np.argmax(moved))], team, lost.tolist(), scored.tolist(), seconds
        )
        ticks = self._curve[0]
        start, end = int(c.tick[first]), int(ticks[np.searchsorted(ticks, c.tick[last])])  # once the change is shown
        return TurningPoint(start, "swing", team, (), self._shown(start), self._shown(end), text, end)

    def _holds(self) -> list[TurningPoint]:
        c, moments = self._c, []
        for team in range(TEAMS):
            own, other = c.alive[:, team], c.alive[:, 1 - team]
            few = (own >= 1) & (own <= FEW) & (other >= ODDS * own)
            holds = few & (c.in_zone[:, team] > 0) & (c.in_zone[:, 1 - team] == 0)
            edges = np.flatnonzero(np.diff(np.concatenate([[0], holds.astype(int), [0]])))
            for first, end in edges.reshape(-1, 2).tolist():
                last = min(end, len(c.tick) - 1)
                seconds = (c.tick[last] - c.tick[first]) / self._hz
                if seconds < HOLD_S or c.score[last, team] <= c.score[first, team]:
                    continue
                sole, alive = int(c.sole[end - 1, team]), c.alive[end - 1].astype(int).tolist()
                text = match_text.hold_text(team, self._names[sole], alive, seconds)
                mechs = (sole,) if alive[team] == 1 else ()
                start, stop = int(c.tick[first]), int(c.tick[last])
                change = self._shown(start), self._shown(stop)
                moments.append(TurningPoint(start, "hold", team, mechs, *change, text, stop))
        return moments

    def _comebacks(self, decided: float | None) -> list[TurningPoint]:
        c = self._c
        if decided not in (0.0, 1.0):
            return []
        team = 0 if decided == 1.0 else 1
        own = np.where(c.tick < COMEBACK_FROM_S * self._hz, 1.0, c.p if team == 0 else 1 - c.p)
        at = int(np.argmin(own))
        if own[at] > COMEBACK:
            return []
        text = match_text.comeback_text(team, c.alive[at].astype(int).tolist(), c.score[at].tolist())
        tick = int(c.tick[at])
        return [TurningPoint(tick, "comeback", team, (), self._shown(tick), decided, text, tick)]


SWING_CANDIDATES = 64
"""Samples that are tried per moment of kind swing."""
