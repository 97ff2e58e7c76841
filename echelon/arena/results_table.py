"""Summary of played matches as plain values: win rates with 95 % intervals, endings, weapons, classes, deaths.

"First" and "second" are the pilots of the contest, whichever side they played. Matches are ordered by number, so the
summary does not depend on the order of playing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.arena.contest import BLUE, DRAW, RED, Contest, MatchResult
from echelon.arena.match_statistics import Cause
from echelon.env.referee import REASONS, WINNERS
from echelon.sim.arsenal import WEAPONS, Chassis
from echelon.statistics import wilson_interval

SIDES = ("blue", "red")
FIRST, SECOND = 0, 1


def summarise(contest: Contest, results: Sequence[MatchResult]) -> dict[str, Any]:
    played = sorted(results, key=lambda result: result.pairing.number)
    totals = _Totals(contest, played)
    return {
        "blue": contest.pilots[FIRST],
        "red": contest.pilots[SECOND],
        "matches": len(played),
        "planned": contest.matches,
        "first_seed": contest.first_seed,
        "seeds": len({pairing.seed for pairing in contest.pairings()}),
        "swap": contest.swap,
        "task": _task(contest),
        "pilots": [_pilot_results(contest, played, p) for p in (FIRST, SECOND)],
        "sides": [_win_rate(name, [r.record.winner for r in played], side) for side, name in enumerate(SIDES)],
        "ends": _ends(contest, played),
        "seconds": _lengths(contest, played),
        "teams": [totals.team(p) for p in (FIRST, SECOND)],
        "weapons": [row for p in (FIRST, SECOND) for row in totals.weapons(p)],
        "classes": [row for p in (FIRST, SECOND) for row in totals.classes(p)],
        "deaths": [totals.deaths(p) for p in (FIRST, SECOND)],
        "rows": [_row(contest, result) for result in played],
    }


def display_name(contest: Contest, player: int) -> str:
    names = contest.pilots
    return names[player] if names[FIRST] != names[SECOND] else f"{SIDES[player]} {names[player]}"


def winner_of(result: MatchResult) -> int:
    """Return the winning pilot, ``FIRST`` or ``SECOND``, or ``DRAW``."""
    winner = result.record.winner
    return winner if winner == DRAW else winner ^ int(result.pairing.swapped)


def upsets(results: Sequence[MatchResult]) -> list[MatchResult]:
    """Return the matches won by the pilot with fewer wins; none where both have equally many."""
    wins = Counter(winner_of(result) for result in results)
    if wins[FIRST] == wins[SECOND]:
        return []
    underdog = FIRST if wins[FIRST] < wins[SECOND] else SECOND
    return sorted((r for r in results if winner_of(r) == underdog), key=lambda result: result.pairing.number)


def _task(contest: Contest) -> dict[str, Any]:
    env, world = contest.env, contest.env.world
    return {
        "map": [world.size_x, world.size_y, world.size_z],
        "packs": env.num_packs,
        "seconds": env.max_episode_seconds,
        "observation": env.observation_mode,
        "maps": world.fairness,
        "fair": world.max_distance_ratio,
        "weapon_prob": contest.weapon_prob,
    }


def _win_rate(name: str, winners: Sequence[int], player: int) -> dict[str, Any]:
    count, wins, draws = len(winners), winners.count(player), winners.count(DRAW)
    low, high = wilson_interval(wins, count)
    row = {"name": name, "matches": count, "wins": wins, "draws": draws, "losses": count - wins - draws}
    return {**row, "win_rate": wins / count if count else None, "win_low": low, "win_high": high}


def _pilot_results(contest: Contest, played: Sequence[MatchResult], player: int) -> dict[str, Any]:
    row = _win_rate(display_name(contest, player), [winner_of(r) for r in played], player)
    for side, name in enumerate(SIDES):
        on_side = [winner_of(r) for r in played if (player ^ int(r.pairing.swapped)) == side]
        row[name] = {key: value for key, value in _win_rate(name, on_side, player).items() if key != "name"}
    return row


def _ends(contest: Contest, played: Sequence[MatchResult]) -> list[dict[str, Any]]:
    rows = []
    for reason in REASONS[1:]:
        winners = [winner_of(r) for r in played if r.record.reason == reason]
        won = {name: winners.count(winner) for name, winner in (("first", FIRST), ("second", SECOND), ("draw", DRAW))}
        rows.append({"reason": reason, "matches": len(winners), **won})
    return rows


def _lengths(contest: Contest, played: Sequence[MatchResult]) -> dict[str, Any]:
    if not played:
        return {"mean": None, "median": None, "least": None, "most": None}
    seconds = np.array([r.record.length for r in played]) * contest.env.dt_act
    statistics = {"mean": seconds.mean(), "median": np.median(seconds), "least": seconds.min(), "most": seconds.max()}
    return {name: float(value) for name, value in statistics.items()}


def _row(contest: Contest, result: MatchResult) -> dict[str, Any]:
    record, pairing = result.record, result.pairing
    blue, red = contest.plan.sides(pairing)
    alive = ~record.deaths & (result.statistics["present"] == 1)
    return {
        "match": pairing.number,
        "seed": pairing.seed,
        "blue": blue,
        "red": red,
        "winner": WINNERS[record.winner],
        "reason": record.reason,
        "seconds": record.length * contest.env.dt_act,
        "score": list(record.zone_score),
        "hp": list(record.hp),
        "alive": [int(alive[result.statistics["team"] == side].sum()) for side in (BLUE, RED)],
    }


class _Totals:
    """Statistics of N matches of M mechs, and sums over selected mechs."""

    def __init__(self, contest: Contest, played: Sequence[MatchResult]) -> None:
        self.contest, self.played = contest, played
        self.dt = contest.env.dt_act
        mechs = contest.env.num_mechs
        names = played[0].statistics if played else {}
        self.arrays: dict[str, NDArray[Any]] = {name: np.stack([r.statistics[name] for r in played]) for name in names}
        swapped = np.array([[r.pairing.swapped] for r in played], bool).reshape(-1, 1)
        self.player = self.arrays["team"] ^ swapped if played else np.zeros((0, mechs), np.int64)
        self.present = self.arrays["present"] == 1 if played else np.zeros((0, mechs), bool)
        self.kills = self._kills() if played else np.zeros((0, mechs, len(WEAPONS)), np.int64)

    def _kills(self) -> NDArray[np.int64]:
        """Return each mech's kills of hostiles by weapon ``[N, M, W]``."""
        cause, killer = self.arrays["stat_cause"], self.arrays["stat_killer"]
        kills = np.zeros((*cause.shape, len(WEAPONS)), np.int64)
        match, victim = np.nonzero((cause >= 0) & (cause < len(WEAPONS)))
        np.add.at(kills, (match, killer[match, victim], cause[match, victim]), 1)
        return kills

    def _sum(self, name: str, where: NDArray[np.bool_]) -> Any:
        """Return a statistic summed over the mechs selected by ``where [N, M]``."""
        if not self.played:
            return 0
        return self.arrays[name][where].astype(np.float64).sum(axis=0)

    def _summary(self, where: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the statistics of the selected mechs; means are per mech and match."""
        mechs = int(where.sum())
        dead = int((self.arrays["stat_cause"][where] != Cause.LIVES).sum()) if self.played else 0
        shots, hits = (float(np.sum(self._sum(f"stat_{what}", where))) for what in ("shots", "hits"))

        def mean(value: float) -> float | None:
            return value / mechs if mechs else None

        return {
            "mechs": mechs,
            "kills": int(self.kills[where].sum()),
            "deaths": dead,
            "survived": mean(mechs - dead),
            "damage": mean(float(np.sum(self._sum("stat_damage", where)))),
            "taken": mean(float(self._sum("stat_taken", where))),
            "friendly": mean(float(self._sum("stat_friendly", where))),
            "shots": int(shots),
            "accuracy": hits / shots if shots else None,
            "zone_s": mean(float(self._sum("stat_zone", where)) * self.dt),
            "life_s": mean(float(self._sum("stat_steps", where)) * self.dt),
            "shutdowns": mean(float(self._sum("stat_shutdowns", where))),
            "knockdowns": mean(float(self._sum("stat_knockdowns", where))),
        }

    def _mechs_of(self, player: int) -> NDArray[np.bool_]:
        return self.present & (self.player == player)

    def team(self, player: int) -> dict[str, Any]:
        """Return the statistics of a pilot's mechs and its zone score per match [s]."""
        sides = [player ^ int(r.pairing.swapped) for r in self.played]
        scores = [r.record.zone_score[side] for r, side in zip(self.played, sides, strict=True)]
        score = sum(scores) / len(scores) if scores else None
        return {
            "pilot": display_name(self.contest, player),
            **self._summary(self._mechs_of(player)),
            "zone_score": score,
        }

    def classes(self, player: int) -> list[dict[str, Any]]:
        chassis = self.arrays["chassis"] if self.played else np.full(self.player.shape, -1)
        return [
            {"pilot": display_name(self.contest, player), "class": kind.name.lower(), **self._summary(where)}
            for kind in Chassis
            if (where := self._mechs_of(player) & (chassis == kind)).any()
        ]

    def weapons(self, player: int) -> list[dict[str, Any]]:
        where = self._mechs_of(player)
        zero = np.zeros(len(WEAPONS))
        shots, hits, damage = (self._sum(f"stat_{what}", where) + zero for what in ("shots", "hits", "damage"))
        kills = self.kills[where].sum(axis=0)
        total, count = float(damage.sum()), max(len(self.played), 1)
        return [
            {
                "pilot": display_name(self.contest, player),
                "weapon": spec.weapon.name.lower(),
                "shots": int(shots[w]),
                "accuracy": float(hits[w] / shots[w]),
                "damage": float(damage[w]),
                "damage_per_match": float(damage[w]) / count,
                "damage_share": float(damage[w]) / total if total else 0.0,
                "kills": int(kills[w]),
            }
            for w, spec in enumerate(WEAPONS)
            if shots[w] > 0
        ]

    def deaths(self, player: int) -> dict[str, Any]:
        causes = self.arrays["stat_cause"][self._mechs_of(player)].tolist() if self.played else []
        counts: Mapping[int, int] = Counter(causes)
        names = {int(spec.weapon): spec.weapon.name.lower() for spec in WEAPONS}
        names |= {int(cause): cause.name.lower() for cause in Cause if cause is not Cause.LIVES}
        by_cause = {names[cause]: counts[cause] for cause in sorted(names) if counts.get(cause)}
        return {"pilot": display_name(self.contest, player), "deaths": sum(by_cause.values()), "causes": by_cause}
