"""``league.db``: the league on disk, in SQLite, so that no crash or concurrent process loses or doubles a match.

Every change is one transaction. A rating period is planned as a whole, its matches are stored as they end, and closing
it updates all ratings at once; replaying all closed periods reproduces them bit by bit. Several processes can play at
the same time. Import-light, so that commands and dashboard can read it.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from echelon.arena.database import MAX_ROWS, Database, StoreError
from echelon.arena.glicko2 import GameResult, Glicko2Config, Glicko2Rating
from echelon.arena.league import KINDS, League, LeagueEntry, utc_now
from echelon.arena.matchmaking import Fixture
from echelon.runs import runs_home
from echelon.state_files import require_utf8

__all__ = ["MatchRecord", "PeriodResult", "RatingPeriod", "Store", "StoreError", "league_path"]

FILE_NAME = "league.db"
FOLDER = "league"
"""Folder of the entries' policies, beside the league."""
PLANNED, PLAYED, VOID = "planned", "played", "void"
"""States of a match; a ``void`` one has no result."""
BLUE_SCORE = {"blue": 1.0, "red": 0.0, "draw": 0.5}


@dataclass(frozen=True, kw_only=True)
class MatchRecord:
    """Result of a match."""

    winner: str
    """``blue``, ``red`` or ``draw``; empty where it could not be played."""
    reason: str
    note: str = ""
    """Remark for people, such as the cause of a forfeit."""
    hp: tuple[float, float] = (0.0, 0.0)
    score: tuple[float, float] = (0.0, 0.0)
    """Zone scores of blue and red [s]."""
    seconds: float = 0.0
    """Duration in simulated time [s]."""
    styles: tuple[Mapping[str, float], Mapping[str, float]] = field(default_factory=lambda: ({}, {}))
    """Style sums to add to blue and red."""


@dataclass(frozen=True, kw_only=True)
class RatingPeriod:
    """A rating period: one round of one job."""

    id: int
    job: str
    round: int
    closed: bool


@dataclass(frozen=True, kw_only=True)
class PeriodResult:
    """Changes made by closing a rating period."""

    rated: int
    before: dict[str, Glicko2Rating]
    after: dict[str, Glicko2Rating]
    promoted: list[str]
    retired: list[str]


def league_path(home: str | Path | None = None) -> Path:
    """Return the path of the league file in the runs folder ``home``."""
    return runs_home(home) / FILE_NAME


class Store(Database):
    """An open league file."""

    def league(self) -> League:
        constants, signature = self.setting("glicko2"), self.setting("env_signature")
        if not isinstance(signature, dict | None):
            raise StoreError(f"league {str(self.path)!r} is damaged: its environment signature is no object")
        league = League(glicko2=Glicko2Config.from_dict(constants) if constants else None, env_signature=signature)
        for row in self.read("SELECT * FROM entries ORDER BY rowid"):
            rating = Glicko2Rating(row["rating"], row["rd"], row["vol"])
            league.entries[row["id"]] = LeagueEntry(
                row["id"], row["ckpt_path"], row["kind"], row["commander_name"], row["created_at"], rating,
                row["games"], self.entry_meta(row["meta"]),
            )  # fmt: skip
        return league

    @contextlib.contextmanager
    def editing(self) -> Iterator[League]:
        """Give the league for changes of its entries and write it back, in one transaction."""
        with self.writing():
            league = self.league()
            known = set(league.entries)
            yield league
            self._write_entries(league)
            for removed in known - set(league.entries):
                self._db.execute("DELETE FROM entries WHERE id = ?", (removed,))
            for key, value in (("env_signature", league.env_signature), ("glicko2", asdict(league.glicko2))):
                if value is not None:
                    require_utf8(value, f"setting {key!r}")
                    self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value)))

    def _write_entries(self, league: League) -> None:
        if len(league.entries) > (limit := MAX_ROWS["entries"]):
            raise StoreError(f"league {str(self.path)!r} would have {len(league.entries)} entries, at most {limit} fit")
        for entry in league.entries.values():
            r = entry.rating
            require_utf8((entry.entry_id, entry.ckpt_path, entry.commander_name, entry.meta), f"entry {entry.name!r}")
            columns = (entry.ckpt_path, entry.kind, entry.commander_name, entry.created_at, r.rating, r.rd, r.vol)
            columns = (*columns, entry.games, json.dumps(entry.meta))
            self._db.execute(
                "INSERT INTO entries (ckpt_path, kind, commander_name, created_at, rating, rd, vol, games, meta, id, "
                "first_rating, first_rd, first_vol, first_games) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
                "ON CONFLICT (id) DO UPDATE SET ckpt_path=excluded.ckpt_path, kind=excluded.kind, "
                "commander_name=excluded.commander_name, created_at=excluded.created_at, rating=excluded.rating, "
                "rd=excluded.rd, vol=excluded.vol, games=excluded.games, meta=excluded.meta",
                (*columns, entry.entry_id, r.rating, r.rd, r.vol, entry.games),
            )

    def plays(self, entry_id: str) -> int:
        return self.read("SELECT count(*) FROM matches WHERE blue = ? OR red = ?", (entry_id, entry_id))[0][0]

    def open_period(self, job: str, round_number: int, fixtures: Sequence[Fixture]) -> RatingPeriod:
        """Return the rating period of a round, planned with ``fixtures`` where it does not exist yet."""
        with self.writing() as db:
            insert = db.execute(
                "INSERT OR IGNORE INTO periods (job, round, opened_at) VALUES (?, ?, ?)", (job, round_number, utc_now())
            )
            if insert.rowcount:
                db.executemany(
                    "INSERT INTO matches (period, number, blue, red, seed) VALUES (?, ?, ?, ?, ?)",
                    [(insert.lastrowid, f.number, f.blue, f.red, f.seed) for f in fixtures],
                )
        return next(p for p in self.periods(job) if p.round == round_number)

    def periods(self, job: str | None = None) -> list[RatingPeriod]:
        where, values = ("WHERE job = ?", (job,)) if job is not None else ("", ())
        rows = self.read(f"SELECT id, job, round, sequence FROM periods {where} ORDER BY id", values)
        return [
            RatingPeriod(id=r["id"], job=r["job"], round=r["round"], closed=r["sequence"] is not None) for r in rows
        ]

    def unplayed(self, period: RatingPeriod) -> list[Fixture]:
        rows = self.read(
            "SELECT number, blue, red, seed FROM matches WHERE period = ? AND state = 'planned' ORDER BY number",
            (period.id,),
        )
        return [Fixture(*row) for row in rows]

    def count_unplayed(self, period: RatingPeriod) -> int:
        rows = self.read("SELECT count(*) FROM matches WHERE period = ? AND state = 'planned'", (period.id,))
        return int(rows[0][0])

    def record(self, period: RatingPeriod, number: int, played: MatchRecord) -> bool:
        """Store the result of a match; return False, without a change, where it has one already."""
        if played.winner and played.winner not in BLUE_SCORE:
            raise ValueError(f"winner is {played.winner!r}, expected one of: {', '.join(BLUE_SCORE)}")
        # a remark may name a file whose name is no UTF-8; the match counts all the same
        note = played.note.encode(errors="backslashreplace").decode()
        state = PLAYED if played.winner else VOID
        with self.writing() as db:
            row = db.execute(
                "UPDATE matches SET state = ?, winner = ?, reason = ?, note = ?, hp_blue = ?, hp_red = ?, "
                "score_blue = ?, score_red = ?, seconds = ?, played_at = ? "
                "WHERE period = ? AND number = ? AND state = 'planned' "
                "AND EXISTS (SELECT 1 FROM periods WHERE id = period AND sequence IS NULL) RETURNING blue, red",
                (state, played.winner or None, played.reason, note, *played.hp,
                 *played.score, played.seconds, utc_now(), period.id, number),
            ).fetchone()  # fmt: skip
            for entry, style in zip(row or (), played.styles, strict=False):
                db.executemany(
                    "INSERT INTO styles VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
                    [(entry, name, value) for name, value in style.items()],
                )
        return row is not None

    def set_replay(self, period: RatingPeriod, number: int, replay: str) -> None:
        with self.writing() as db:
            db.execute("UPDATE matches SET replay = ? WHERE period = ? AND number = ?", (replay, period.id, number))

    def close_period(
        self,
        period: RatingPeriod,
        *,
        promote_top: int = 0,
        conservatism: float | None = None,
        keep_top: int = 0,
        min_games: int = 0,
        age_idle: bool = False,
    ) -> PeriodResult:
        """Update ratings by the matches of a period, then promote and retire, in one transaction.

        ``ValueError`` while matches are not played or where the period is closed. ``keep_top`` 0 retires no entry.
        Both rank by rating minus ``conservatism`` deviations, by default the league's.
        """
        with self.writing() as db:
            planned = db.execute("SELECT count(*) FROM matches WHERE period = ? AND state = ?", (period.id, PLANNED))
            if missing := planned.fetchone()[0]:
                raise ValueError(
                    f"round {period.round} of {period.job!r} has {missing} unplayed matches, expected none"
                )
            if db.execute("SELECT sequence FROM periods WHERE id = ?", (period.id,)).fetchone()[0] is not None:
                raise ValueError(f"round {period.round} of {period.job!r} is already rated")
            league = self.league()
            results = self._results(period.id)
            if age_idle:
                idle = (e.entry_id for e in league.entries.values() if KINDS[e.kind].plays)
                results |= {entry_id: [] for entry_id in idle if entry_id not in results}
            before = {i: league.entries[i].rating for i in results}
            league.apply_rating_period(results)
            promoted = [i for i in results if self._promote(league, i, promote_top, conservatism)]
            retired = league.retire_commanders(keep_top, min_games, conservatism) if keep_top else []
            self._write_entries(league)
            after = {i: league.entries[i].rating for i in results}
            db.executemany(
                "INSERT INTO ratings VALUES (?, ?, ?, ?, ?, ?)",
                [(period.id, i, r.rating, r.rd, r.vol, league.entries[i].games) for i, r in after.items()],
            )
            db.execute(
                "UPDATE periods SET closed_at = ?, sequence = (SELECT coalesce(max(sequence), 0) + 1 FROM periods) "
                "WHERE id = ?", (utc_now(), period.id),
            )  # fmt: skip
        rated = sum(len(games) for games in results.values()) // 2
        return PeriodResult(
            rated=rated, before=before, after=after, promoted=promoted, retired=[e.entry_id for e in retired]
        )

    @staticmethod
    def _promote(league: League, entry_id: str, promote_top: int, conservatism: float | None) -> bool:
        """Promote an entry that ranks high enough; return whether that changed its kind."""
        before = league.entries[entry_id].kind
        is_commander = promote_top > 0 and league.promote_if_topk(
            entry_id, top_k=promote_top, conservatism=conservatism
        )
        return is_commander and before != "commander"

    def _results(self, period_id: int) -> dict[str, list[GameResult]]:
        """Return each entry's games of a period in match order; the league supplies the opponents' ratings."""
        found: dict[str, list[GameResult]] = {}
        placeholder = Glicko2Rating()
        for row in self.read(
            "SELECT blue, red, winner FROM matches WHERE period = ? AND state = 'played' ORDER BY number", (period_id,)
        ):
            score = BLUE_SCORE[row["winner"]]
            found.setdefault(row["blue"], []).append(GameResult(placeholder, score, row["red"]))
            found.setdefault(row["red"], []).append(GameResult(placeholder, 1.0 - score, row["blue"]))
        return found

    def recompute(self) -> dict[str, tuple[Glicko2Rating, Glicko2Rating]]:
        """Recompute all ratings from the initial ones, store them, and return the entries whose ratings changed.

        The result is empty unless the file or the Glicko-2 constants were edited.
        """
        with self.writing() as db:
            league = self.league()
            before = {i: (e.rating, e.games) for i, e in league.entries.items()}
            for row in self.read("SELECT id, first_rating, first_rd, first_vol, first_games FROM entries"):
                entry = league.entries[row["id"]]
                entry.rating = Glicko2Rating(row["first_rating"], row["first_rd"], row["first_vol"])
                entry.games = row["first_games"]
            for (period,) in self.read("SELECT id FROM periods WHERE sequence IS NOT NULL ORDER BY sequence"):
                results = self._results(period)
                rated = [row[0] for row in self.read("SELECT entry FROM ratings WHERE period = ?", (period,))]
                league.apply_rating_period({**{i: [] for i in rated}, **results})
                db.executemany(
                    "INSERT OR REPLACE INTO ratings VALUES (?, ?, ?, ?, ?, ?)",
                    [(period, i, e.rating.rating, e.rating.rd, e.rating.vol, e.games)
                     for i, e in league.entries.items() if i in results or i in rated],
                )  # fmt: skip
            self._write_entries(league)
        after = {i: (e.rating, e.games) for i, e in league.entries.items()}
        return {i: (old[0], after[i][0]) for i, old in before.items() if after[i] != old}


ENV_SETTING = "env"
DEFAULT_LEVELS = ("trivial", "easy", "medium", "hard", "expert")


def add_default_levels(store: Store) -> None:
    if not store.league().entries:
        with store.editing() as league:
            for level in DEFAULT_LEVELS:
                league.add_scripted(level)


def add_level(store: Store, level: str) -> LeagueEntry:
    add_default_levels(store)
    with store.editing() as league:
        entry = league.add_scripted(level)
        entry.kind = "heuristic"
    return entry
