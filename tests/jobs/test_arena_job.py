"""Arena jobs with real processes: kills, stops, resumes."""

from dataclasses import asdict, replace

import pytest

from echelon.arena.config import ArenaConfig
from echelon.arena.rounds import RoundCallbacks, play_rounds
from echelon.arena.standings import standings, unfinished_rounds
from echelon.arena.store import ENV_SETTING, Store, league_path
from echelon.arena.submit import submit
from echelon.jobs import launch
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import JobSpec
from echelon.runs import create_run
from echelon.telemetry.events import EventEnd, EventResume, EventRound
from echelon.telemetry.log import read_events
from tests.arena.policy_files import save
from tests.jobs.conftest import kill_all_jobs, kill_job, process_identity, until, wait_for, wait_for_exit

pytestmark = pytest.mark.long

CONFIG = ArenaConfig(rounds=2, seeds=2, envs=4, threads=1)
MATCHES = 24
"""Two rounds of three pairs, two seeds and two sides."""
LIMIT_S = 300.0


@pytest.fixture(name="store")
def league_store(tmp_path):
    """A league with two levels and a policy; remaining processes are killed afterwards."""
    with Store(league_path()) as opened:
        with opened.editing() as league:
            for level in ("easy", "medium"):
                league.add_scripted(level)
        submit(opened, save(tmp_path / "one", 1), label="one")
        yield opened
    kill_all_jobs()


def start_job(paths=None, **changes):
    paths = paths or create_run("arena")
    spec = {"preset": "arena", "arena": asdict(replace(CONFIG, **changes))}
    launch.launch(paths, JobSpec(kind="arena", config=spec), KINDS["arena"])
    return paths


def played_matches(store):
    rows = store.read(
        "SELECT period, number, blue, red, seed, winner, hp_blue, hp_red FROM matches WHERE state <> 'planned'"
    )
    return {tuple(row) for row in rows}


def play_undisturbed(store, folder, **changes) -> Store:
    """Play the rounds of a job in a new league with the entries of ``store``, and return it."""
    other = Store(folder / "other.db")
    with other.editing() as league:
        for entry in store.league().entries.values():
            entry.rating, entry.games = type(entry.rating)(), 0
            league.entries[entry.entry_id] = entry
    other.init_setting(ENV_SETTING, store.setting(ENV_SETTING))
    assert play_rounds(other, "job", replace(CONFIG, **changes), folder / "replays", RoundCallbacks())
    return other


def test_stopped_and_killed_arena_job_resumes(store, tmp_path, request):
    paths = start_job()
    wait_for(lambda: len(played_matches(store)) >= 3, LIMIT_S)
    launch.stop(paths)
    assert until(paths, "stopped", limit_s=LIMIT_S).exit_code == 4
    stopped = len(played_matches(store))
    assert 3 <= stopped < MATCHES and len(unfinished_rounds(store)) == 1
    start_job(paths)
    wait_for(lambda: len(played_matches(store)) > stopped, LIMIT_S)
    worker = process_identity(paths, "worker")
    kill_job(paths)
    wait_for_exit(worker)
    assert until(paths, "crashed").exit_code == 5
    before = played_matches(store)
    assert unfinished_rounds(store)[0]["job"] == paths.id and len(before) < MATCHES
    request.getfixturevalue("jobs_in_process")
    start_job(paths)
    assert until(paths, "completed", limit_s=LIMIT_S).exit_code == 0
    assert before <= played_matches(store) and len(played_matches(store)) == MATCHES and unfinished_rounds(store) == []
    assert {row["games"] for row in standings(store)} == {MATCHES * 2 // 3} and store.recompute() == {}
    events, _ = read_events(paths.metrics)
    assert [e.round for e in events if isinstance(e, EventRound) and e.state == "rated"] == [1, 2]
    assert isinstance(events[-1], EventEnd) and not any(isinstance(e, EventResume) for e in events)
    with play_undisturbed(store, tmp_path) as other:
        assert played_matches(other) == played_matches(store), "same results as without the kill"


def test_arena_job_without_entries_fails_with_one_line_error(store, jobs_in_process):
    with store.editing() as league:
        for entry in league.entries.values():
            entry.kind = "retired"
    status = until(start_job(), "failed", limit_s=LIMIT_S)
    assert "has 0 entries that play, expected at least 2" in status.reason
