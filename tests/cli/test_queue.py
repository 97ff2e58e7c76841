"""Commands of the queue: what they print, as text and JSON, and their errors."""

from __future__ import annotations

import json
import os

import pytest

from echelon.jobs import launch, lock, queue
from echelon.jobs.queue_store import WAITING, open_queue
from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths, list_runs, runs_home
from tests.cli.conftest import parsed


@pytest.fixture(autouse=True)
def _not_started(monkeypatch):
    """The queue does not start, so that its runs wait."""
    monkeypatch.setattr(queue, "ensure_started", lambda home=None: None)


@pytest.fixture
def waiting(echelon) -> list[RunPaths]:
    """Two runs that wait, in order."""
    for seed in (1, 2):
        code, out, err = echelon("train", "--preset", "quickstart", "--seed", str(seed), "--queue")
        assert code == 0, err
        assert "queued, next to start" in out if seed == 1 else "queued, 1 before it" in out
    with open_queue()[0] as store:
        return [RunPaths(store.home / entry.run) for entry in store.entries((WAITING,))]


def test_queued_run_has_its_spec_and_state(echelon, waiting):
    rows = parsed(echelon("runs", "list", "--json")[1])
    assert [row["state"] for row in rows] == ["queued", "queued"]
    specs = [json.loads(paths.spec.read_text()) for paths in waiting]
    assert [spec["config"]["seed"] for spec in specs] == [1, 2]
    assert "was not running (queued)" in echelon("runs", "stop", waiting[0].id)[1]


def test_list_shows_order_and_that_the_queue_does_not_run(echelon, waiting):
    code, out, _ = echelon("queue", "list")
    assert code == 0 and out.index(waiting[0].id) < out.index(waiting[1].id)
    assert "the queue does not run; start it with: echelon queue resume" in out
    found = parsed(echelon("queue", "list", "--json")[1])
    assert (found["running"], found["paused"]) == (False, False)
    assert [(row["run"], row["state"]) for row in found["entries"]] == [(paths.id, "waiting") for paths in waiting]


def test_move_pause_slots_and_rm(echelon, waiting):
    first, second = (paths.id for paths in waiting)
    assert parsed(echelon("queue", "move", second, "first", "--json")[1]) == [second, first]
    assert echelon("queue", "move", first, "1")[1] == f"{first} is number 1 of 2\n"
    assert echelon("queue", "pause")[1] == "the queue is paused\n"
    assert "continue with: echelon queue resume" in echelon("queue", "list")[1]
    assert parsed(echelon("queue", "slots", "cpu=2", "--json")[1])[0] == {"device": "cpu", "slots": 2, "runs": []}
    assert parsed(echelon("queue", "rm", first, "--yes", "--json")[1]) == [first]
    assert [run.id for run in list_runs()] == [second], "the folder of a run that never ran is deleted"
    assert parsed(echelon("queue", "resume", "--json")[1]) == {"paused": False, "entries": 1}


MISTAKES = {
    "an unknown run": (("move", "nothing", "first"), 3, "run 'nothing' does not wait in the queue"),
    "no place": (("move", "{first}", "9"), 2, "place '9' is no place of the queue, expected 1 to 2, first or last"),
    "no device": (("slots", "cpu"), 2, "slots 'cpu' are no DEVICE=NUMBER"),
    "a device that does not exist": (("slots", "cuda:9=1"), 2, "device 'cuda:9' does not exist (have: cpu"),
    "rm without confirmation": (("rm", "{first}", "--json"), 2, "add --yes"),
}


@pytest.mark.parametrize(("words", "code", "names"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_one_line(echelon, waiting, words, code, names):
    done, _, err = echelon("queue", *(word.format(first=waiting[0].id) for word in words))
    assert done == code and names in err and err.count("\n") == 1


def test_empty_queue_names_the_command_that_adds_a_run(echelon):
    runs_home().mkdir()
    assert echelon("queue", "list")[1] == "the queue is empty; add a run with: echelon train --queue\n"


@pytest.mark.parametrize("words", [("train", "--notify", "ftp://x/T0P"), ("train", "--mirror", "tensorbord")])
def test_observer_that_cannot_be_used_leaves_no_run(echelon, words):
    code, _, err = echelon(*words)
    assert code in (1, 2) and err.count("\n") == 1 and "T0P" not in err
    assert list_runs() == []


def test_run_without_queue_names_the_queued_runs_that_share_its_device(waiting, monkeypatch):
    monkeypatch.setattr(queue, "is_started", lambda home=None: True)
    assert queue.contention("train", {"device": "cpu"}) == ""
    with open_queue()[0] as store:
        entry = store.entries()[0]
        store.claim(entry, ["cpu"])
        store.set_running(entry)
    found = queue.contention("train", {"device": "cpu"})
    assert found == "1 queued run on cpu, 1 more wait: this one shares the device; with --queue it would wait"
    assert queue.contention("train", {"device": "cuda:3"}) == ""


def test_run_names_the_running_ones_that_share_its_device_without_a_queue(echelon, ended_run, monkeypatch):
    """A queue that has never been used is no reason to say nothing."""
    running = [ended_run(f"20260101-00000{number}-quickstart-calm-fox{number}") for number in range(3)]
    running[2].spec.unlink()
    write_spec(running[2], JobSpec(kind="sweep", config={"preset": "sweep"}))
    assert queue.contention("train", {"device": "cpu"}) == ""
    held = [lock.acquire(paths.lock) for paths in running]
    found = queue.contention("train", {"device": "cpu"})
    assert found == "2 runs on cpu: this one shares the device; with --queue it would wait"
    assert queue.contention("train", {"device": "cuda:3"}) == ""

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("not started")

    monkeypatch.setattr(launch, "launch", refuse)
    err = echelon("train", "--preset", "quickstart", "--device", "cpu")[2]
    assert err.count("notice:") == 1 and f"notice: {found}\n" in err
    assert "notice:" not in echelon("train", "--preset", "quickstart", "--device", "cpu", "--json")[2]
    for handle in held:
        os.close(handle)


def test_run_names_queued_and_other_runs_that_share_its_device(waiting, ended_run, monkeypatch):
    monkeypatch.setattr(queue, "is_started", lambda home=None: True)
    with open_queue()[0] as store:
        store.claim(entry := store.entries()[0], ["cpu"])
        store.set_running(entry)
    handle = lock.acquire(ended_run("20260101-000000-quickstart-calm-fox").lock)
    assert queue.contention("train", {"device": "cpu"}).startswith("1 queued run and 1 other run on cpu, 1 more wait:")
    os.close(handle)
