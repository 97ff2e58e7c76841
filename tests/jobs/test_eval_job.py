"""Evaluation jobs with real processes: kills, stops, resumes; and the results of a run with several writers."""

import json
import multiprocessing
from dataclasses import replace

import pytest

from echelon.jobs.control import request_stop
from echelon.jobs.evaluations import append_evaluation
from echelon.jobs.launch import stop
from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths, create_run
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EventAlert, EventEval, EventEvalBatch
from echelon.telemetry.log import read_events
from echelon.training.eval_plan import ROWS_PER_BATCH, EvalOptions
from echelon_cli import eval_job
from echelon_cli.players import Player
from tests.arena.policy_files import SMALL, save
from tests.jobs.conftest import kill_all_jobs, kill_job, process_identity, until, wait_for, wait_for_exit

LIMIT_S = 120.0
OPTIONS = EvalOptions(seeds=4, weapon_prob=1.0, threads=1)
LEVELS = [Player(level) for level in ("easy", "medium")]
BATCHES = 8
"""Two parts of the seeds, against two levels, with mean and with sampled actions."""
RESULT = EventEval(update=3, global_step=30, opponent="heuristic:medium", episodes=2, win_rate=0.5, job="job")


@pytest.fixture
def trained(monkeypatch):
    """A training run with one checkpoint; evaluations have batches of 2 seeds. Remaining processes are killed."""
    monkeypatch.setitem(ROWS_PER_BATCH, "cpu", 20)
    paths = create_run("quickstart")
    write_spec(paths, JobSpec(kind="train", config={"preset": "quickstart"}))
    save(paths.checkpoints, 7, env=SMALL)
    yield paths
    kill_all_jobs()


def start(trained: RunPaths) -> RunPaths:
    return eval_job.start(Player("trained", trained.root), LEVELS, OPTIONS, ladder=True, as_json=True).paths


def wait_for_batches(paths: RunPaths, count: int) -> list[EventEvalBatch]:
    found = wait_for(lambda: len(found := read_events(paths.matches)[0]) >= count and found, LIMIT_S)
    return [event for event in found if isinstance(event, EventEvalBatch)]


def without_times(value):
    """Return a result without the values that differ between equal evaluations."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in ("duration_s", "job")}
    return [without_times(item) for item in value] if isinstance(value, list) else value


@pytest.mark.long
def test_killed_eval_job_resumes_with_the_result_of_an_undisturbed_one(trained, request):
    paths = start(trained)
    wait_for_batches(paths, 3)
    worker = process_identity(paths, "worker")
    kill_job(paths)
    wait_for_exit(worker)
    assert until(paths, "crashed").exit_code == 5
    before = wait_for_batches(paths, 3)
    assert len(before) < BATCHES and not paths.result.exists() and read_evaluations(trained.evals) == ()
    request.getfixturevalue("jobs_in_process")
    policy = paths.root / eval_job.POLICY / "model.safetensors"
    whole = policy.read_bytes()
    policy.write_bytes(b"PK torn")
    eval_job.resume(paths.id)
    status = until(paths, "failed", limit_s=LIMIT_S)
    assert "model.safetensors does not match its manifest" in status.reason and "\n" not in status.reason
    policy.write_bytes(whole)
    eval_job.resume(paths.id)
    assert until(paths, "completed", limit_s=LIMIT_S).exit_code == 0
    after = wait_for_batches(paths, BATCHES)
    assert after[: len(before)] == before, "recorded batches stay as they are"
    keys = [(event.batch, event.opponent, event.deterministic) for event in after]
    assert len(keys) == len(set(keys)) == BATCHES, "no batch is played twice"
    other = start(trained)
    assert until(other, "completed", limit_s=LIMIT_S).exit_code == 0
    results = [json.loads(job.result.read_text()) for job in (paths, other)]
    assert results[0]["levels"][0]["duration_s"] > 0 and without_times(results[0]) == without_times(results[1])
    assert [event.job for event in read_evaluations(trained.evals)] == [paths.id] * 2 + [other.id] * 2


@pytest.mark.long
def test_stopped_eval_job_completes_its_batch_and_continues(trained, request):
    paths = start(trained)
    wait_for_batches(paths, 1)
    stop(paths)
    assert until(paths, "stopped", limit_s=LIMIT_S).exit_code == 4
    recorded = len(wait_for_batches(paths, 1))
    assert 1 <= recorded < BATCHES and not paths.result.exists()
    eval_job.resume(paths.id)
    wait_for_batches(paths, recorded + 1)
    request_stop(paths)
    stop(paths)
    assert until(paths, "stopped", limit_s=LIMIT_S).exit_code == 4, "a second request discards the batch"
    trained.evals.mkdir()
    request.getfixturevalue("jobs_in_process")
    eval_job.resume(paths.id)
    assert until(paths, "completed", limit_s=LIMIT_S).exit_code == 0
    events, _ = read_events(paths.metrics)
    assert any("could not be appended" in event.message for event in events if isinstance(event, EventAlert))
    assert paths.result.exists(), "the job has its result all the same"


def test_result_is_appended_once_behind_a_torn_line(tmp_path):
    path = tmp_path / "evals.jsonl"
    append_evaluation(path, RESULT)
    append_evaluation(path, replace(RESULT, win_rate=0.9))
    with open(path, "ab") as file:
        file.write(b'{"kind":"eval","update":4,"opp')
    append_evaluation(path, replace(RESULT, job="other"))
    append_evaluation(path, replace(RESULT, opponent="heuristic:hard"))
    found = [(event.job, event.opponent, event.win_rate) for event in read_evaluations(path)]
    medium, hard = "heuristic:medium", "heuristic:hard"
    assert found == [("job", medium, 0.5), ("other", medium, 0.5), ("job", hard, 0.5)]
    assert len(path.read_text().splitlines()) == 4


def append_many(path, writer: int) -> None:
    for number in range(20):
        append_evaluation(path, replace(RESULT, job=f"{writer}-{number}", seeds=list(range(400))))


def test_concurrent_jobs_lose_no_result(tmp_path):
    path = tmp_path / "evals.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(path, writer)) for writer in range(3)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * 3
    assert {event.job for event in read_evaluations(path)} == {f"{w}-{n}" for w in range(3) for n in range(20)}
    assert len(path.read_text().splitlines()) == 60
