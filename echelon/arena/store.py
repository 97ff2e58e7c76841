"""``league.db``: the league between processes, in SQLite, so that no process and no crash can lose or double a match.

Every change is one transaction. A rating period is planned whole, its matches are written one by one as they end, and
closing it rates everybody at once; replaying all closed periods gives the same ratings to the last bit. Several
processes may play at the same time. Nothing heavy is loaded, so that a terminal may look.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from echelon.arena.database import Database, StoreError
from echelon.arena.entries import KINDS
from echelon.arena.glicko2 import GameResult, Glicko2Config, Glicko2Rating
from echelon.arena.league import League, LeagueEntry, utc_now
from echelon.arena.matchmaking import Fixture
from echelon.runs import runs_home

__all__ = ["MatchRecord", "PeriodResult", "RatingPeriod", "Store", "StoreError", "league_path"]

FILE_NAME = "league.db"
PLANNED, PLAYED, VOID = "planned", "played", "void"
BLUE_SCORE = {"blue": 1.0, "red": 0.0, "draw": 0.5}
"""What blue gets, by winner."""


@dataclass(frozen=True, kw_only=True)
class MatchRecord:
    """How a match ended."""

    winner: str
    """blue, red or draw; empty where it could not be played."""
    reason: str
    note: str = ""
    """In words, what a person should know of it."""
    hp: tuple[float, float] = (0.0, 0.0)
    """Hit points left of blue and red."""
    score: tuple[float, float] = (0.0, 0.0)
    """Zone scores [s]."""
    seconds: float = 0.0
    """How long it lasted in the game."""
    styles: tuple[Mapping[str, float], Mapping[str, float]] = field(default_factory=lambda: ({}, {}))
    """Sums to add to the behaviour of blue and red."""


@dataclass(frozen=True, kw_only=True)
class RatingPeriod:
    """A rating period: one round of one job."""

    id: int
    job: str
    round: int
    closed: bool


@dataclass(frozen=True, kw_only=True)
class PeriodResult:
    """What closing a period changed."""

    rated: int
    """Matches that counted."""
    before: dict[str, Glicko2Rating]
    after: dict[str, Glicko2Rating]
    promoted: list[str]
    retired: list[str]


def league_path(home: str | Path | None = None) -> Path:
    """Return where the league of the runs under ``home`` lies."""
    return runs_home(home) / FILE_NAME


class Store(Database):
    """One open league."""

    def league(self) -> League:
        """Return the whole league as it is now."""
        constants = self.setting("glicko2")
        league = League(
            glicko2=Glicko2Config(**constants) if constants else None, env_signature=self.setting("env_signature")
        )
        for row in self.read("SELECT * FROM entries ORDER BY rowid"):
            rating = Glicko2Rating(row["rating"], row["rd"], row["vol"])
            league.entries[row["id"]] = LeagueEntry(
                row["id"], row["ckpt_path"], row["kind"], row["commander_name"], row["created_at"], rating,
                row["games"], json.loads(row["meta"]),
            )  # fmt: skip
        return league

    @contextlib.contextmanager
    def editing(self) -> Iterator[League]:
        """Give the league to change who is in it, and write that back, in one transaction."""
        with self.writing():
            league = self.league()
            known = set(league.entries)
            yield league
            self._write_entries(league)
            for gone in known - set(league.entries):
                self._db.execute("DELETE FROM entries WHERE id = ?", (gone,))
            for key, value in (("env_signature", league.env_signature), ("glicko2", asdict(league.glicko2))):
                if value is not None:
                    self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value)))

    def _write_entries(self, league: League) -> None:
        for entry in league.entries.values():
            r = entry.rating
            now = (entry.ckpt_path, entry.kind, entry.commander_name, entry.created_at, r.rating, r.rd, r.vol)
            now = (*now, entry.games, json.dumps(entry.meta))
            self._db.execute(
                "INSERT INTO entries (ckpt_path, kind, commander_name, created_at, rating, rd, vol, games, meta, id, "
                "first_rating, first_rd, first_vol, first_games) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
                "ON CONFLICT (id) DO UPDATE SET ckpt_path=excluded.ckpt_path, kind=excluded.kind, "
                "commander_name=excluded.commander_name, created_at=excluded.created_at, rating=excluded.rating, "
                "rd=excluded.rd, vol=excluded.vol, games=excluded.games, meta=excluded.meta",
                (*now, entry.entry_id, r.rating, r.rd, r.vol, entry.games),
            )

    def plays(self, entry_id: str) -> int:
        """Return how many matches of any state an entry has."""
        return self.read("SELECT count(*) FROM matches WHERE blue = ? OR red = ?", (entry_id, entry_id))[0][0]

    def open_period(self, job: str, round_number: int, fixtures: Sequence[Fixture]) -> RatingPeriod:
        """Plan a round of a job, or return the one that was planned before, whatever ``fixtures`` say now."""
        with self.writing() as db:
            done = db.execute(
                "INSERT OR IGNORE INTO periods (job, round, opened_at) VALUES (?, ?, ?)", (job, round_number, utc_now())
            )
            if done.rowcount:
                db.executemany(
                    "INSERT INTO matches (period, number, blue, red, seed) VALUES (?, ?, ?, ?, ?)",
                    [(done.lastrowid, f.number, f.blue, f.red, f.seed) for f in fixtures],
                )
        return next(p for p in self.periods(job) if p.round == round_number)

    def periods(self, job: str | None = None) -> list[RatingPeriod]:
        """Return the periods of a job, or of all, in order."""
        where, values = ("WHERE job = ?", (job,)) if job is not None else ("", ())
        rows = self.read(f"SELECT id, job, round, sequence FROM periods {where} ORDER BY id", values)
        return [
            RatingPeriod(id=r["id"], job=r["job"], round=r["round"], closed=r["sequence"] is not None) for r in rows
        ]

    def unplayed(self, period: RatingPeriod) -> list[Fixture]:
        """Return the matches of a period that are still to be played."""
        rows = self.read(
            "SELECT number, blue, red, seed FROM matches WHERE period = ? AND state = 'planned' ORDER BY number",
            (period.id,),
        )
        return [Fixture(*row) for row in rows]

    def count_unplayed(self, period: RatingPeriod) -> int:
        """Return how many matches of a period are still to be played."""
        rows = self.read("SELECT count(*) FROM matches WHERE period = ? AND state = 'planned'", (period.id,))
        return int(rows[0][0])

    def record(self, period: RatingPeriod, number: int, played: MatchRecord) -> bool:
        """Write down how a match ended; False where that was known already, which changes nothing."""
        if played.winner and played.winner not in BLUE_SCORE:
            raise ValueError(f"winner is {played.winner!r}, wanted one of: {', '.join(BLUE_SCORE)}")
        with self.writing() as db:
            row = db.execute(
                "UPDATE matches SET state = ?, winner = ?, reason = ?, note = ?, hp_blue = ?, hp_red = ?, "
                "score_blue = ?, score_red = ?, seconds = ?, played_at = ? "
                "WHERE period = ? AND number = ? AND state = 'planned' "
                "AND EXISTS (SELECT 1 FROM periods WHERE id = period AND sequence IS NULL) RETURNING blue, red",
                (PLAYED if played.winner else VOID, played.winner or None, played.reason, played.note, *played.hp,
                 *played.score, played.seconds, utc_now(), period.id, number),
            ).fetchone()  # fmt: skip
            for entry, style in zip(row or (), played.styles, strict=False):
                db.executemany(
                    "INSERT INTO styles VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
                    [(entry, name, value) for name, value in style.items()],
                )
        return row is not None

    def set_replay(self, period: RatingPeriod, number: int, replay: str) -> None:
        """Write down which file a match can be watched in."""
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
        """Rate everybody by the matches of a period, promote and retire, all at once.

        ``ValueError`` while matches are missing or where it was closed before. ``keep_top`` 0 retires nobody. Who is
        promoted ranks by rating less ``conservatism`` deviations, where none is given by as many as the league says.
        """
        with self.writing() as db:
            left = db.execute("SELECT count(*) FROM matches WHERE period = ? AND state = ?", (period.id, PLANNED))
            if missing := left.fetchone()[0]:
                raise ValueError(f"round {period.round} of {period.job!r} has {missing} matches to play, wanted none")
            if db.execute("SELECT sequence FROM periods WHERE id = ?", (period.id,)).fetchone()[0] is not None:
                raise ValueError(f"round {period.round} of {period.job!r} is rated already")
            league = self.league()
            results = self._results(period.id)
            if age_idle:
                idle = (e.entry_id for e in league.entries.values() if KINDS[e.kind].plays)
                results |= {entry_id: [] for entry_id in idle if entry_id not in results}
            before = {i: league.entries[i].rating for i in results}
            league.apply_rating_period(results)
            risen = [i for i in results if self._rises(league, i, promote_top, conservatism)]
            retired = league.retire_commanders(keep_top, min_games) if keep_top else []
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
            rated=rated, before=before, after=after, promoted=risen, retired=[e.entry_id for e in retired]
        )

    @staticmethod
    def _rises(league: League, entry_id: str, promote_top: int, conservatism: float | None) -> bool:
        was = league.entries[entry_id].kind
        stands = promote_top > 0 and league.promote_if_topk(entry_id, top_k=promote_top, conservatism=conservatism)
        return stands and was != "commander"

    def _results(self, period_id: int) -> dict[str, list[GameResult]]:
        """Return each entry's games of a period, in order of the matches; opponents' ratings are the league's."""
        found: dict[str, list[GameResult]] = {}
        nobody = Glicko2Rating()
        for row in self.read(
            "SELECT blue, red, winner FROM matches WHERE period = ? AND state = 'played' ORDER BY number", (period_id,)
        ):
            score = BLUE_SCORE[row["winner"]]
            found.setdefault(row["blue"], []).append(GameResult(nobody, score, row["red"]))
            found.setdefault(row["red"], []).append(GameResult(nobody, 1.0 - score, row["blue"]))
        return found

    def recompute(self) -> dict[str, tuple[Glicko2Rating, Glicko2Rating]]:
        """Replay every closed period from the first ratings on, write down what comes out, and return what differed.

        Nothing does, unless somebody changed the file or the constants.
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
