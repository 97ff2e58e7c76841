"""Matches of human pilots in the league: results of the entry ``human``, which count for ratings only on request.

A match enters the league when it is played to its end from its start, by one human pilot against one entry. The pilots
of the human's team mates stand in its note.
"""

from __future__ import annotations

from pathlib import Path

from echelon.arena.entries import HUMAN_ID
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, league_path
from echelon.arena.submit import league_env_config
from echelon.config import EnvConfig
from echelon.play.config import RATED, PlayConfig, league_opponent
from echelon.play.match import PlayedMatch
from echelon.play_protocol import Ended


def league_game(home: Path) -> EnvConfig:
    with Store(league_path(home)) as store:
        return league_env_config(store)


def enter_match(home: Path, job: str, config: PlayConfig, match: PlayedMatch, ended: Ended) -> bool:
    """Store a match of a session in the league; return False for one that was left or continues another."""
    if not ended.winner or "parent" in match.header:
        return False
    opponent = league_opponent(config, home)
    with Store(league_path(home)) as store:
        with store.editing() as league:
            league.add_human()
        blue, red = (HUMAN_ID, opponent) if config.team == "blue" else (opponent, HUMAN_ID)
        period = store.open_period(job, 1 + len(store.periods(job)), [Fixture(0, blue, red, config.seed)])
        record = MatchRecord(
            winner=ended.winner,
            reason=ended.reason,
            note=f"{ended.reason.replace('_', ' ')}; human with {config.mates or config.opponent}",
            hp=match.outcome.hp,
            score=match.outcome.score,
            seconds=ended.tick * match.engine.cfg.dt_sim,
        )
        store.record(period, 0, record, rated=config.league == RATED)
        if ended.source.file:
            store.set_replay(period, 0, f"replays/{ended.source.file}")
        store.close_period(period)
    return True
