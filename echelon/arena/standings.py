"""Read-only views of a league: ratings, matches, head-to-head results, rating history, style sums.

Stored ratings drift as a whole; displayed ratings are shifted so that the scripted level ``medium`` has 1500.
"""

import contextlib
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from echelon import champion
from echelon.agent_files import AGENT, agent_file
from echelon.arena.glicko2 import DEFAULT, Glicko2Rating, win_probability
from echelon.arena.league import KINDS, check_kind, entries_called
from echelon.arena.store import Store, StoreError, league_path
from echelon.runs import RunNotFoundError, find_run, policy_name
from echelon.statistics import Z_95, wilson_interval

ANCHOR = "heuristic:medium"
"""Entry whose displayed rating is the centre of the scale."""
RETIRED = "retired"
"""Key in the metadata of an exploiter: whether its target beats it and seldom plays it."""
MAX_CYCLES = 1000
"""Most cycles listed: hundreds of entries may form millions."""
WIN_THRESHOLD = 0.5
"""Win rate below the whole 95 % confidence interval of a pair that counts as won."""


def rating_shift(store: Store) -> float:
    """Return the shift of displayed ratings [points]; 0 while the anchor has played no game."""
    rows = store.read("SELECT rating FROM entries WHERE id = ? AND games > 0", (ANCHOR,))
    return DEFAULT.rating - rows[0][0] if rows else 0.0


def entry_names(store: Store) -> dict[str, str]:
    return {
        row["id"]: policy_name(row["commander_name"] or str(store.entry_meta(row["meta"]).get("label") or row["id"]))
        for row in store.read("SELECT id, commander_name, meta FROM entries")
    }


def standings(store: Store, *, retired: bool = False) -> list[dict[str, Any]]:
    shift = rating_shift(store)
    results = _results(store)
    rows = []
    for row in store.read("SELECT * FROM entries ORDER BY rating DESC, id"):
        check_kind(row["kind"], row["id"])
        if not (KINDS[row["kind"]].plays or retired):
            continue
        wins, draws, losses = results.get(row["id"], (0, 0, 0))
        meta = store.entry_meta(row["meta"])
        rows.append(
            {
                "id": row["id"],
                "name": policy_name(row["commander_name"] or str(meta.get("label") or row["id"])),
                "kind": row["kind"],
                "retired": bool(meta.get(RETIRED)),
                "rating": row["rating"] + shift,
                "rd": row["rd"],
                "low": row["rating"] + shift - Z_95 * row["rd"],
                "high": row["rating"] + shift + Z_95 * row["rd"],
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


def _results(store: Store) -> dict[str, tuple[int, int, int]]:
    rows = store.read(
        "SELECT entry, sum(won), sum(drawn), sum(lost) FROM ("
        "SELECT blue AS entry, winner = 'blue' AS won, winner = 'draw' AS drawn, winner = 'red' AS lost FROM matches "
        "WHERE state = 'played' UNION ALL SELECT red, winner = 'red', winner = 'draw', winner = 'blue' FROM matches "
        "WHERE state = 'played') GROUP BY entry"
    )
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def unfinished_rounds(store: Store) -> list[dict[str, Any]]:
    rows = store.read(
        "SELECT job, round, count(*) AS matches, sum(state <> 'planned') AS played FROM periods "
        "JOIN matches ON matches.period = periods.id WHERE sequence IS NULL GROUP BY periods.id ORDER BY periods.id"
    )
    return [dict(row) for row in rows]


SIDES = ("blue", "red")


def matches(store: Store, *, entry: str = "", recorded: bool = False, limit: int = 0) -> list[dict[str, Any]]:
    """Return played and void matches, newest first: all or the newest ``limit`` for an entry, or with a replay."""
    where, values = ["state <> 'planned'"], []
    if entry:
        where.append("(blue = ? OR red = ?)")
        values += [entry, entry]
    if recorded:
        where.append("replay <> ''")
    query = (
        "SELECT matches.id, job, round, number, blue, red, seed, state, winner, reason, note, hp_blue, hp_red, "
        "score_blue, score_red, seconds, replay, played_at FROM matches CROSS JOIN periods ON periods.id = period "
        f"WHERE {' AND '.join(where)} ORDER BY matches.id DESC LIMIT ?"
    )
    name_of = entry_names(store)
    rows = store.read(query, (*values, limit or -1))
    return [{**dict(row), **{f"{side}_name": name_of.get(row[side], row[side]) for side in SIDES}} for row in rows]


def head_to_head(store: Store, *, retired: bool = False, best: int | None = None) -> dict[str, Any]:
    """Return the results of each pair, and the cycles of three entries of which each beats the next significantly.

    At most ``MAX_CYCLES`` cycles are listed. With ``best`` only that number of best-rated entries is compared.
    ``verdict`` of a pair is ``won`` or ``lost`` where the 95 % confidence interval of one side's win rate is above
    50 %, else empty: a low win rate because of draws is no loss.
    """
    every = [row["id"] for row in standings(store, retired=retired)]
    order = every[:best]
    rank = {i: n for n, i in enumerate(order)}
    name_of = entry_names(store)
    ratings = {i: e.rating for i, e in store.league().entries.items()}
    counts = pair_results(store)
    known = [(a, b) for a, b in counts if a in rank and b in rank and a != b]
    played = sorted(known, key=lambda pair: (rank[pair[0]], rank[pair[1]]))
    pairs = [_pair(a, b, counts[a, b], ratings[a], ratings[b]) for a, b in played]
    beats = {(p["id"], p["against"]) for p in pairs if p["low"] > WIN_THRESHOLD}
    for pair in pairs:
        one, other = pair["id"], pair["against"]
        pair["verdict"] = "won" if (one, other) in beats else "lost" if (other, one) in beats else ""
    return {
        "entries": [{"id": i, "name": name_of[i]} for i in order],
        "left_out": len(every) - len(order),
        "pairs": pairs,
        "cycles": [[name_of[i] for i in cycle] for cycle in islice(_cycles(order, beats), MAX_CYCLES)],
    }


def pair_results(store: Store) -> dict[tuple[str, str], list[int]]:
    """Return wins, draws and losses of each entry against each other that it has played."""
    counts: dict[tuple[str, str], list[int]] = {}
    for row in store.read(
        "SELECT blue, red, winner, count(*) AS n FROM matches WHERE state = 'played' GROUP BY blue, red, winner"
    ):
        for one, other, side in ((row["blue"], row["red"], "blue"), (row["red"], row["blue"], "red")):
            index = 0 if row["winner"] == side else 1 if row["winner"] == "draw" else 2
            counts.setdefault((one, other), [0, 0, 0])[index] += row["n"]
    return counts


def _pair(one: str, other: str, counts: list[int], rating: Glicko2Rating, opponent: Glicko2Rating) -> dict[str, Any]:
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
        "expected": win_probability(rating, opponent),
    }


def _cycles(order: list[str], beats: set[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    import numpy as np

    among = {i for pair in beats for i in pair}
    order = [i for i in order if i in among]
    rank = {i: n for n, i in enumerate(order)}
    won = np.zeros((len(order), len(order)), bool)
    for one, other in beats:
        won[rank[one], rank[other]] = True
    for a, first in enumerate(order):
        seconds, thirds = (a + 1 + np.flatnonzero(line[a + 1 :]) for line in (won[a], won[:, a]))
        for b in seconds:
            for c in thirds[won[b, thirds]]:
                yield first, order[b], order[c]


def rating_history(store: Store, entry: str) -> list[dict[str, Any]]:
    shift = rating_shift(store)
    rows = store.read(
        "SELECT job, round, closed_at, rating, rd, vol, games FROM ratings JOIN periods ON periods.id = period "
        "WHERE entry = ? ORDER BY sequence",
        (entry,),
    )
    return [{**dict(row), "rating": row["rating"] + shift} for row in rows]


def rating_histories(store: Store, newest: int) -> dict[str, list[dict[str, Any]]]:
    """Return each entry's displayed ratings after its ``newest`` last rated periods, oldest first."""
    shift = rating_shift(store)
    found: dict[str, deque[dict[str, Any]]] = {}
    for row in store.read(
        "SELECT entry, rating, rd FROM ratings JOIN periods ON periods.id = period ORDER BY sequence"
    ):
        rated = found.setdefault(row["entry"], deque(maxlen=newest))
        rated.append({"rating": row["rating"] + shift, "rd": row["rd"]})
    return {entry: list(rated) for entry, rated in found.items()}


def all_style_sums(store: Store) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in store.read("SELECT entry, name, value FROM styles"):
        found.setdefault(row["entry"], {})[row["name"]] = row["value"]
    return found


def style_sums(store: Store, entry: str) -> dict[str, float]:
    """Return the style sums of an entry; ``echelon.arena.behaviour`` computes means from them."""
    rows = store.read("SELECT name, value FROM styles WHERE entry = ? ORDER BY name", (entry,))
    return {row["name"]: row["value"] for row in rows}


def find_entry(store: Store, name: str) -> str:
    """Return the id of an entry by id, name, label, level, or an unambiguous part of one of them."""
    name_of = entry_names(store)
    rows = store.read("SELECT id, meta FROM entries")
    labels = {row["id"]: store.entry_meta(row["meta"]).get("label", "") for row in rows}
    found = entries_called(name, {i: (shown, str(labels[i])) for i, shown in name_of.items()})
    if len(found) == 1:
        return found[0]
    if not found:
        have = ", ".join(sorted(name_of.values())) or "no entries"
        raise StoreError(f"entry {name!r} is not in the league (have: {have})")
    raise StoreError(f"entry {name!r} is ambiguous: {', '.join(sorted(name_of[i] for i in found))}")


def policy_path(name: str, what: str = "policy") -> Path:
    """Return the path of the policy that ``name`` refers to; ``RunNotFoundError`` calls it ``what``."""
    if name == champion.NAME:
        return champion.FOLDER
    if name.startswith(AGENT):
        return agent_file(name.removeprefix(AGENT))
    if Path(name := name.removeprefix("onnx:")).exists():
        return Path(name).absolute()
    try:
        return find_run(name).root
    except RunNotFoundError as unknown:
        with contextlib.suppress(StoreError), Store(league_path(), read_only=True) as store:
            entry = store.league().entry(find_entry(store, name))
            if entry.ckpt_path:
                return Path(entry.ckpt_path)
        expected = f"expected a checkpoint, a run or a league entry, or {champion.NAME}"
        raise RunNotFoundError(f"{what} is {name!r}, {expected}: {unknown}") from unknown
