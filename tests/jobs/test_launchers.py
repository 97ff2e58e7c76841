"""Queue, sweeps and arena rounds on a cluster, one of whose nodes is killed in the middle: everything runs once."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from echelon.arena.config import ArenaConfig
from echelon.arena.rounds import RoundCallbacks, play_rounds
from echelon.arena.store import ENV_SETTING, Store, league_path
from echelon.arena.submit import submit
from echelon.jobs import tickets
from echelon.jobs.kinds import KINDS
from echelon.jobs.launch import launch
from echelon.jobs.launchers import read_placement
from echelon.jobs.queue import open_queue
from echelon.jobs.shards import FOLDER
from echelon.jobs.spec import JobSpec
from echelon.jobs.status import job_status
from echelon.runs import RunPaths, create_run, list_runs
from echelon_cli import sweep_job
from tests.arena.policy_files import save
from tests.jobs.clusters import CLUSTERS, works_on_victim
from tests.jobs.conftest import kill_all_jobs, kill_job
from tests.jobs.conftest import wait_for as wait_until
from tests.jobs.queue_standin import WAITER
from tests.jobs.sweep_stand_ins import FAKE_SWEEP, UPDATE_S_VARIABLE
from tests.jobs.test_arena_job import played_matches
from tests.jobs.test_queue import change, count, order, processes, put
from tests.jobs.test_sweep_worker import make_plan, storm, table, trained_once


@pytest.fixture(params=CLUSTERS)
def cluster(request, tmp_path_factory, monkeypatch):
    package, kind = CLUSTERS[request.param]
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'echelon[{request.param}]'")
    # sockets of Ray need a short path
    found = kind(tmp_path_factory.mktemp("c", numbered=True) / request.param, monkeypatch)
    yield found
    kill_all_jobs()
    found.end()


def wait_for(condition) -> None:
    wait_until(condition, 240.0)


@pytest.mark.long
def test_queue_with_a_killed_node_runs_every_entry_once(cluster, monkeypatch):
    monkeypatch.setattr(tickets, "WAITER", WAITER)
    runs = [put(number, updates=60) for number in range(5)]
    change(launcher=cluster.text, at_once=4)
    open_queue().revive()
    wait_for(lambda: any(works_on_victim(cluster, run) and count(run, "sessions") for run in runs))
    hit = {run.id for run in runs if works_on_victim(cluster, run)}
    cluster.kill_node()
    for process in processes():
        if "wait" in process.cmdline():
            process.kill()

    def is_empty() -> bool:
        open_queue().revive()
        return not order()

    wait_for(is_empty)
    for run in runs:
        sessions = count(run, "sessions")
        assert len(count(run, "results")) == 1 and "overlap" not in sessions, f"{run.id}: {sessions}"
        if run.id not in hit:
            assert sessions == ["first"], run.id
    assert any("resumed" in count(run, "sessions") for run in runs if run.id in hit)
    assert {job_status(run).state for run in runs} == {"completed"}


@pytest.mark.slow
def test_sweep_with_a_killed_node_has_the_undisturbed_table(cluster, monkeypatch, tmp_path, repository):
    monkeypatch.setitem(KINDS, "sweep", FAKE_SWEEP)
    monkeypatch.setenv(UPDATE_S_VARIABLE, "0.02")
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "here"))
    undisturbed, _ = storm(0, 0, make_plan(at_once=3))
    monkeypatch.setenv(UPDATE_S_VARIABLE, "0.2")
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "shared"))
    plan = make_plan(at_once=3, launcher=cluster.text)
    paths = sweep_job.start(plan).paths
    try:
        wait_for(lambda: any(works_on_victim(cluster, run) for run in list_runs() if run.id != paths.id))
        cluster.kill_node()
        kill_job(paths)

        def is_complete() -> bool:
            if not job_status(paths).is_alive and job_status(paths).state != "completed":
                sweep_job.resume(paths.id)
            return job_status(paths).state == "completed"

        wait_for(is_complete)
        assert table(paths, plan) == undisturbed
        trained_once(paths, plan)
        assert all(read_placement(run) is not None for run in list_runs() if run.id != paths.id)
    finally:
        kill_all_jobs()


@pytest.mark.slow
def test_arena_rounds_with_a_killed_node_have_the_undisturbed_results(cluster, tmp_path):
    config = ArenaConfig(rounds=1, seeds=8, envs=4, threads=1, most_upsets=1, upset=0.5)
    with Store(league_path()) as store:
        with store.editing() as league:
            for level in ("easy", "medium"):
                league.add_scripted(level)
        submit(store, save(tmp_path / "one", 1), label="one")
        paths = create_run("arena")
        spec = {"preset": "arena", "arena": asdict(replace(config, launcher=cluster.text, hosts=4))}
        launch(paths, JobSpec(kind="arena", config=spec), KINDS["arena"])
        shards = paths.root / FOLDER
        wait_for(lambda: any(works_on_victim(cluster, RunPaths(shard)) for shard in shards.glob("r001-[0-9]*")))
        cluster.kill_node()
        wait_for(lambda: played_matches(store))
        kill_job(paths)

        def is_complete() -> bool:
            if job_status(paths).state == "crashed":
                launch(paths, JobSpec(kind="arena", config=spec), KINDS["arena"])
            return job_status(paths).state == "completed"

        wait_for(is_complete)
        assert len(played_matches(store)) == 48 and store.recompute() == {}
        assert len([path for path in shards.iterdir() if path.name.startswith("r001-")]) == 5, "four and one of replays"
        assert len(list(paths.replays.glob("*.ecr"))) == 1
        with Store(tmp_path / "other.db") as other:
            with other.editing() as league:
                for entry in store.league().entries.values():
                    entry.rating, entry.games = type(entry.rating)(), 0
                    league.entries[entry.entry_id] = entry
            other.init_setting(ENV_SETTING, store.setting(ENV_SETTING))
            assert play_rounds(other, "job", config, tmp_path / "replays", RoundCallbacks())
            assert played_matches(other) == played_matches(store)
            styles = "SELECT * FROM styles ORDER BY entry, name"
            assert list(map(tuple, other.read(styles))) == list(map(tuple, store.read(styles)))
