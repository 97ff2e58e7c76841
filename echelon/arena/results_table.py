"""Summary of played matches as plain values: win rates with 95 % intervals, endings, weapons, classes, deaths.

"First" and "second" are the pilots of the contest, whichever side they played. Matches are ordered by number, so the
summary does not depend on the order of playing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.arena.behaviour import MECH_SUMS, style_means
from echelon.arena.contest import BLUE, DRAW, RED, Contest, MatchResult
from echelon.arena.match_statistics import Cause
from echelon.env.referee import REASONS, WINNERS
from echelon.sim.arsenal import WEAPONS, Chassis
from echelon.statistics import wilson_interval

SIDES = ("blue", "red")
WEAPON_NAMES = tuple(spec.weapon.name.lower() for spec in WEAPONS)
CAUSES = dict(enumerate(WEAPON_NAMES)) | {int(cause): cause.name.lower() for cause in Cause if cause is not Cause.LIVES}
"""Name of each cause of death by its number."""
STATISTICS = {"zone_s": "zone", "life_s": "steps"}
"""Statistics that are counted in decisions, by the names of their sums in seconds; others have one name."""
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


def sums_of(counts: Mapping[str, Any], where: NDArray[np.bool_], dt: float) -> dict[str, float]:
    """Return the sums that the mechs ``where [M]`` of one side add to a match; those of 0 are left out.

    ``counts`` are the arrays of a ``MatchResult``, and ``dt`` is the duration of a decision [s].
    """
    sums = {"matches": 1.0, "mechs": float(where.sum())}
    for what in ("shots", "hits", "damage", "range"):
        for weapon, value in zip(WEAPON_NAMES, counts[f"stat_{what}"][where].sum(axis=0).tolist(), strict=True):
            sums[f"{what}.{weapon}"] = float(value)
    for name in MECH_SUMS:
        scale = dt if name in STATISTICS else 1.0
        sums[name] = float(counts[f"stat_{STATISTICS.get(name, name)}"][where].sum()) * scale
    causes = counts["stat_cause"]
    killed = (causes >= 0) & (causes < len(WEAPONS)) & np.isin(counts["stat_killer"], np.flatnonzero(where))
    for what, mechs in (("lost", where & (causes != Cause.LIVES)), ("kills", killed)):
        for cause, count in Counter(causes[mechs].tolist()).items():
            sums[f"{what}.{CAUSES[cause]}"] = float(count)
    return {name: value for name, value in sums.items() if value}


class _Totals:
    """Sums over the mechs of each pilot in all matches, also those of each class."""

    def __init__(self, contest: Contest, played: Sequence[MatchResult]) -> None:
        self._contest, self._played = contest, played
        self._sums: dict[tuple[int, Chassis | None], dict[str, float]] = {}
        for result in played:
            counts = result.statistics
            for player in (FIRST, SECOND):
                own = (counts["team"] == player ^ int(result.pairing.swapped)) & (counts["present"] == 1)
                for kind in (None, *Chassis):
                    where = own if kind is None else own & (counts["chassis"] == kind)
                    if where.any():
                        sums = self._sums.setdefault((player, kind), {})
                        for name, value in sums_of(counts, where, contest.env.dt_act).items():
                            sums[name] = sums.get(name, 0.0) + value

    def _summary(self, player: int, kind: Chassis | None = None) -> dict[str, Any]:
        """Return the statistics of a pilot's mechs, all or those of a class; means are per mech and match."""
        style = style_means(self._sums.get((player, kind), {}))
        mechs, deaths = style["mechs"], sum(style["lost_to"].values())
        return {
            "mechs": mechs,
            "kills": sum(style["kills_by"].values()),
            "deaths": deaths,
            "survived": (mechs - deaths) / mechs if mechs else None,
            **{name: style[name] for name in ("damage", "taken", "friendly")},
            "shots": sum(style["shots_by"].values()),
            **{name: style[name] for name in ("accuracy", "zone_s", "life_s", "shutdowns", "knockdowns")},
        }

    def team(self, player: int) -> dict[str, Any]:
        """Return the statistics of a pilot's mechs and its zone score per match [s]."""
        scores = [r.record.zone_score[player ^ int(r.pairing.swapped)] for r in self._played]
        return {
            "pilot": display_name(self._contest, player),
            **self._summary(player),
            "zone_score": sum(scores) / len(scores) if scores else None,
        }

    def classes(self, player: int) -> list[dict[str, Any]]:
        return [
            {"pilot": display_name(self._contest, player), "class": kind.name.lower(), **self._summary(player, kind)}
            for kind in Chassis
            if (player, kind) in self._sums
        ]

    def weapons(self, player: int) -> list[dict[str, Any]]:
        sums, count = self._sums.get((player, None), {}), max(len(self._played), 1)
        shots, hits, damage, kills = (
            {weapon: sums.get(f"{what}.{weapon}", 0.0) for weapon in WEAPON_NAMES}
            for what in ("shots", "hits", "damage", "kills")
        )
        total = sum(damage.values())
        return [
            {
                "pilot": display_name(self._contest, player),
                "weapon": weapon,
                "shots": int(shots[weapon]),
                "accuracy": hits[weapon] / shots[weapon],
                "damage": damage[weapon],
                "damage_per_match": damage[weapon] / count,
                "damage_share": damage[weapon] / total if total else 0.0,
                "kills": int(kills[weapon]),
            }
            for weapon in WEAPON_NAMES
            if shots[weapon]
        ]

    def deaths(self, player: int) -> dict[str, Any]:
        lost = style_means(self._sums.get((player, None), {}))["lost_to"]
        by_cause = {cause: lost[cause] for cause in CAUSES.values() if cause in lost}
        return {"pilot": display_name(self._contest, player), "deaths": sum(by_cause.values()), "causes": by_cause}
