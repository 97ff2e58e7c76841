"""Files of an earlier version: a league and the run folders of a killed and a completed arena job.

``saved`` was written by commit 1d684ef; the killed job had rated one of two rounds.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from echelon.arena.standings import rating_history, standings, unfinished_rounds
from echelon.arena.store import Store, league_path
from echelon.jobs.kinds import KINDS
from echelon.jobs.launch import launch
from echelon.jobs.spec import read_spec
from echelon.jobs.status import job_status
from echelon.runs import RunPaths, runs_home
from echelon.telemetry.events import EventRound
from echelon.telemetry.log import read_events
from tests.jobs.conftest import until

SAVED = Path(__file__).with_name("saved")
JOB = "20260101-000000-arena-calm-fox"
LIMIT_S = 120.0


@pytest.fixture
def crashed() -> RunPaths:
    """Return the killed job's run folder, beside the league it played in."""
    home = runs_home()
    home.mkdir(parents=True, exist_ok=True)
    league = sqlite3.connect(league_path())
    league.executescript((SAVED / "league.sql").read_text())
    league.close()
    return RunPaths(Path(shutil.copytree(SAVED / "crashed", home / JOB)))


def test_saved_league_opens_with_reproducible_ratings(crashed):
    with Store(league_path()) as store:
        assert [(row["name"], row["games"]) for row in standings(store)] == [("medium", 12), ("easy", 12)]
        assert unfinished_rounds(store) == [{"job": JOB, "round": 2, "matches": 12, "played": 3}]
        assert len(rating_history(store, "heuristic:easy")) == 1
        assert store.recompute() == {}


def test_saved_arena_job_resumes_to_completion(crashed):
    assert job_status(crashed).state == "lost", "started on another host"
    launch(crashed, read_spec(crashed), KINDS["arena"])
    assert until(crashed, "completed", limit_s=LIMIT_S).exit_code == 0
    with Store(league_path()) as store:
        assert {row["games"] for row in standings(store)} == {24} and unfinished_rounds(store) == []
        assert store.recompute() == {}
    events, skipped = read_events(crashed.metrics)
    rated = [event.round for event in events if isinstance(event, EventRound) and event.state == "rated"]
    assert rated == [1, 2] and skipped == 0


def test_saved_exit_record_is_read(tmp_path):
    status = job_status(RunPaths(Path(shutil.copytree(SAVED / "completed", tmp_path / JOB))))
    assert (status.state, status.kind, status.preset, status.exit_code) == ("completed", "arena", "arena", 0)
