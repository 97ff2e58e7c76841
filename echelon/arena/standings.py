"""What a league says to people: standings, matches, who beats whom, how ratings moved, how each behaves.

Reads only. Ratings float in storage; they are shown shifted so that the scripted level ``medium`` stands at 1500.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from echelon.arena.entries import KINDS
from echelon.arena.glicko2 import DEFAULT, Glicko2Rating, win_probability
from echelon.arena.intervals import wilson_interval
from echelon.arena.store import Store, StoreError

ANCHOR = "heuristic:medium"
"""Whose rating is shown as the middle of the scale."""
SURE = 1.959963984540054
"""Deviations of a 95 % interval."""
BEATS = 0.5
"""A pair counts as won where the whole interval of the share of wins lies above this."""


def rating_shift(store: Store) -> float:
    """Return what is added to every rating that is shown [points]; 0 while the anchor has played no game."""
    rows = store.read("SELECT rating FROM entries WHERE id = ? AND games > 0", (ANCHOR,))
    return DEFAULT.rating - rows[0][0] if rows else 0.0


def entry_names(store: Store) -> dict[str, str]:
    """Return what people call each entry."""
    return {
        row["id"]: row["commander_name"] or str(json.loads(row["meta"]).get("label") or row["id"])
        for row in store.read("SELECT id, commander_name, meta FROM entries")
    }


def standings(store: Store, *, retired: bool = False) -> list[dict[str, Any]]:
    """Return every entry with its rating, its 95 % interval and its games, the strongest first."""
    shift = rating_shift(store)
    statistics = _tally(store)
    rows = []
    for row in store.read("SELECT * FROM entries ORDER BY rating DESC, id"):
        if not (KINDS[row["kind"]].plays or retired):
            continue
        wins, draws, losses = statistics.get(row["id"], (0, 0, 0))
        meta = json.loads(row["meta"])
        rows.append(
            {
                "id": row["id"],
                "name": row["commander_name"] or str(meta.get("label") or row["id"]),
                "kind": row["kind"],
                "rating": row["rating"] + shift,
                "rd": row["rd"],
                "low": row["rating"] + shift - SURE * row["rd"],
                "high": row["rating"] + shift + SURE * row["rd"],
                "vol": row["vol"],
                "games": row["games"],
                "wins": wins,
                "draws": draws,
                "losses": losses,
                "created_at": row["created_at"],
                "path": row["ckpt_path"],
                "meta": meta,
            }
        )
    return rows


def _tally(store: Store) -> dict[str, tuple[int, int, int]]:
    """Return wins, draws and losses of each entry, over all matches played."""
    rows = store.read(
        "SELECT entry, sum(won), sum(drawn), sum(lost) FROM ("
        "SELECT blue AS entry, winner = 'blue' AS won, winner = 'draw' AS drawn, winner = 'red' AS lost FROM matches "
        "WHERE state = 'played' UNION ALL SELECT red, winner = 'red', winner = 'draw', winner = 'blue' FROM matches "
        "WHERE state = 'played') GROUP BY entry"
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def unfinished_rounds(store: Store) -> list[dict[str, Any]]:
    """Return the rounds that are not rated yet, and how far they have come."""
    rows = store.read(
        "SELECT job, round, count(*) AS matches, sum(state <> 'planned') AS played FROM periods "
        "JOIN matches ON matches.period = periods.id WHERE sequence IS NULL GROUP BY periods.id ORDER BY periods.id"
    )
    return [dict(row) for row in rows]


SIDES = ("blue", "red")
WINNER = {"won": {"blue": "blue", "red": "red"}, "lost": {"blue": "red", "red": "blue"}}
"""Who won, by how an entry fared and on which side it was."""
ENTRY_OUTCOMES = ("won", "lost", "draw", "void")
"""How matches of one entry can have ended; ``void`` could not be played."""
MATCH_OUTCOMES = ("blue", "red", "draw", "void")
"""How matches can have ended where no entry is meant."""
MAX_MATCH_ID = 2**63 - 1
"""Above every id."""


def _chosen(entry: str, against: str, outcome: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return conditions, with their values, of which each match that is meant fulfils just one.

    Each is about one column that has an index, so that no match of anybody else is looked at. ``ValueError`` for an
    outcome that there is not.
    """
    entry, against = entry or against, against if entry else ""
    wanted = ENTRY_OUTCOMES if entry else MATCH_OUTCOMES
    if outcome and outcome not in wanted:
        raise ValueError(f"outcome is {outcome!r}, wanted one of: {', '.join(wanted)}")
    found = []
    for side, other in (SIDES, SIDES[::-1]) if entry else (SIDES,):
        where, values = ["state <> 'planned'"], []
        if entry:
            where.append(f"{side} = ?")
            values.append(entry)
        if against:
            # the plus keeps this column's index out of it, which would not give matches of the entry in order
            where.append(f"+{other} = ?")
            values.append(against)
        if side == SIDES[1]:
            where.append("+blue <> red")
        if outcome == "void":
            where.append("state = 'void'")
        elif outcome:
            where.append("winner = ?")
            values.append(WINNER[outcome][side] if outcome in WINNER else outcome)
        found.append((" AND ".join(where), tuple(values)))
    return found


def match_page_query(
    *, entry: str = "", against: str = "", outcome: str = "", recorded: bool = False, before: int = MAX_MATCH_ID,
    limit: int = 0, offset: int = 0,
) -> tuple[str, tuple[Any, ...]]:  # fmt: skip
    """Return the query for the newest matches of those that ``matches`` speaks of.

    Whatever is chosen, no more ids are held than the page and its offset have matches: each condition gives its newest
    in order of its index.
    """
    most = limit + offset if limit else -1
    kept = " AND replay <> ''" if recorded else ""
    parts, values = [], []
    for where, wanted in _chosen(entry, against, outcome):
        parts.append(f"SELECT * FROM (SELECT id FROM matches WHERE {where}{kept} AND id < ? ORDER BY id DESC LIMIT ?)")
        values += [*wanted, before, most]
    query = (
        "SELECT matches.id, job, round, number, blue, red, seed, state, winner, reason, note, hp_blue, hp_red, "
        f"score_blue, score_red, seconds, replay, played_at FROM ({' UNION ALL '.join(parts)}) AS meant "
        "CROSS JOIN matches ON matches.id = meant.id CROSS JOIN periods ON periods.id = period "
        "ORDER BY meant.id DESC LIMIT ? OFFSET ?"
    )
    return query, (*values, limit or -1, offset)


def matches(
    store: Store, *, entry: str = "", against: str = "", outcome: str = "", recorded: bool = False,
    before: int = MAX_MATCH_ID, limit: int = 0, offset: int = 0,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return matches that were played or given up, the newest first.

    Of one entry or of two against each other; those that ended in one way, for ``entry`` where it is given; those with
    a replay; those with an id below ``before``; and of all these so many from one.
    """
    query, values = match_page_query(
        entry=entry, against=against, outcome=outcome, recorded=recorded, before=before, limit=limit, offset=offset
    )
    called = entry_names(store)
    rows = store.read(query, values)
    return [{**dict(row), "blue_name": called[row["blue"]], "red_name": called[row["red"]]} for row in rows]


def count_matches(store: Store, *, entry: str = "", against: str = "", outcome: str = "") -> int:
    """Return how many matches ``matches`` speaks of."""
    return sum(
        store.read(f"SELECT count(*) FROM matches WHERE {where}", values)[0][0]
        for where, values in _chosen(entry, against, outcome)
    )


def head_to_head(store: Store, *, retired: bool = False) -> dict[str, Any]:
    """Return each pair's results, and the cycles of three in which each beats the next beyond doubt.

    ``verdict`` of a pair is ``won`` or ``lost`` where one beats the other beyond doubt, else nothing: a share that is
    low because of draws says that nobody wins.
    """
    order = [row["id"] for row in standings(store, retired=retired)]
    called = entry_names(store)
    ratings = {i: e.rating for i, e in store.league().entries.items()}
    met: dict[tuple[str, str], list[int]] = {}
    for row in store.read(
        "SELECT blue, red, winner, count(*) AS n FROM matches WHERE state = 'played' GROUP BY blue, red, winner"
    ):
        for one, other, side in ((row["blue"], row["red"], "blue"), (row["red"], row["blue"], "red")):
            place = 0 if row["winner"] == side else 1 if row["winner"] == "draw" else 2
            met.setdefault((one, other), [0, 0, 0])[place] += row["n"]
    pairs = [_pair(a, b, met[a, b], ratings[a], ratings[b]) for a in order for b in order if (a, b) in met and a != b]
    beats = {(p["id"], p["against"]) for p in pairs if p["low"] > BEATS}
    for pair in pairs:
        one, other = pair["id"], pair["against"]
        pair["verdict"] = "won" if (one, other) in beats else "lost" if (other, one) in beats else ""
    return {
        "entries": [{"id": i, "name": called[i]} for i in order],
        "pairs": pairs,
        "cycles": [[called[i] for i in cycle] for cycle in _cycles(order, beats)],
    }


def _pair(one: str, other: str, counts: list[int], mine: Glicko2Rating, theirs: Glicko2Rating) -> dict[str, Any]:
    wins, draws, losses = counts
    games = wins + draws + losses
    low, high = wilson_interval(wins, games)
    return {
        "id": one,
        "against": other,
        "wins": wins,
        "draws": draws,
        "losses": losses,
        "score": (wins + draws / 2) / games,
        "low": low,
        "high": high,
        "expected": win_probability(mine, theirs),
    }


def _cycles(order: list[str], beats: set[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Return every three of which each beats the next, each once, from its strongest on."""
    place = {i: n for n, i in enumerate(order)}
    return [
        (a, b, c)
        for a, b in sorted(beats, key=lambda pair: (place[pair[0]], place[pair[1]]))
        for c in order
        if (b, c) in beats and (c, a) in beats and place[a] < place[b] and place[a] < place[c]
    ]


def rating_history(store: Store, entry: str) -> list[dict[str, Any]]:
    """Return an entry's rating after each period it was rated in, oldest first, as shown now."""
    shift = rating_shift(store)
    rows = store.read(
        "SELECT job, round, closed_at, rating, rd, vol, games FROM ratings JOIN periods ON periods.id = period "
        "WHERE entry = ? ORDER BY sequence",
        (entry,),
    )
    return [{**dict(row), "rating": row["rating"] + shift} for row in rows]


def rating_histories(store: Store, newest: int) -> dict[str, list[dict[str, Any]]]:
    """Return of every entry the ratings after the ``newest`` periods it was rated in, oldest first, as shown now."""
    shift = rating_shift(store)
    found: dict[str, deque[dict[str, Any]]] = {}
    for row in store.read(
        "SELECT entry, rating, rd FROM ratings JOIN periods ON periods.id = period ORDER BY sequence"
    ):
        rated = found.setdefault(row["entry"], deque(maxlen=newest))
        rated.append({"rating": row["rating"] + shift, "rd": row["rd"]})
    return {entry: list(rated) for entry, rated in found.items()}


def all_style_sums(store: Store) -> dict[str, dict[str, float]]:
    """Return what ``style_sums`` says, of every entry."""
    found: dict[str, dict[str, float]] = {}
    for row in store.read("SELECT entry, name, value FROM styles"):
        found.setdefault(row["entry"], {})[row["name"]] = row["value"]
    return found


def style_sums(store: Store, entry: str) -> dict[str, float]:
    """Return the sums that matches noted of an entry's behaviour; ``echelon.arena.behaviour`` makes figures of them."""
    rows = store.read("SELECT name, value FROM styles WHERE entry = ? ORDER BY name", (entry,))
    return {row["name"]: row["value"] for row in rows}


def find_entry(store: Store, name: str) -> str:
    """Return the id that ``name`` means: an id, a name, a level, or an unambiguous part of one of them."""
    called = entry_names(store)
    exact = [i for i, n in called.items() if name in (i, n) or i == f"heuristic:{name}"]
    found = exact or [i for i, n in called.items() if name and (name.lower() in n.lower() or name in i)]
    if len(found) == 1:
        return found[0]
    if not found:
        have = ", ".join(sorted(called.values())) or "nobody"
        raise StoreError(f"entry {name!r} is not in the league (have: {have})")
    raise StoreError(f"entry {name!r} is ambiguous: {', '.join(sorted(called[i] for i in found))}")
