"""Commands of the queue: what they print, as text and JSON, and their errors."""

import json
import os

import pytest

from echelon.jobs import launch
from echelon.jobs.queue import contention, open_queue
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.tickets import Queue
from echelon.runs import RunPaths, create_run, list_runs, runs_home
from echelon_cli import job
from tests.cli.conftest import parsed


@pytest.fixture(autouse=True)
def revived(monkeypatch) -> list[str]:
    """Supervisors do not start, so that their runs wait; the list has the runs for which a command would start one."""
    found: list[str] = []

    def revive(queue, runs=None):
        found.extend(run for run in queue.runs() if not queue.has_supervisor(run))
        return []

    monkeypatch.setattr(Queue, "revive", revive)
    return found


@pytest.fixture
def waiting(echelon) -> list[RunPaths]:
    """Two runs that wait, in order."""
    for seed in (1, 2):
        code, out, err = echelon("train", "--preset", "quickstart", "--seed", str(seed), "--queue")
        assert code == 0, err
        assert "queued, next to start" in out if seed == 1 else "queued, 1 before it" in out
    return [RunPaths(runs_home() / run) for run in open_queue().runs()]


def test_queued_run_has_its_spec_and_state(echelon, waiting):
    rows = parsed(echelon("runs", "list", "--json")[1])
    assert [row["state"] for row in rows] == ["queued", "queued"]
    specs = [json.loads(paths.spec.read_text()) for paths in waiting]
    assert [spec["config"]["seed"] for spec in specs] == [1, 2]
    assert "was not running (queued)" in echelon("runs", "stop", waiting[0].id)[1]


@pytest.mark.parametrize(
    "words", [("runs", "queue"), ("dash", "--once"), ("train", "--preset", "quickstart", "--queue"), ("train",)]
)
def test_command_starts_the_supervisors_that_a_reboot_has_ended(echelon, waiting, revived, monkeypatch, words):
    monkeypatch.setattr(launch, "_spawn", lambda paths, command: launch.READY)
    monkeypatch.setattr("echelon.jobs.status.LAUNCH_LIMIT_S", 0.1)  # `train` waits that long for a start
    revived.clear()
    echelon(*words)
    assert set(revived) >= {paths.id for paths in waiting}


def test_list_shows_the_order(echelon, waiting):
    code, out, _ = echelon("runs", "queue")
    assert code == 0 and out.index(waiting[0].id) < out.index(waiting[1].id)
    found = parsed(echelon("runs", "queue", "--json")[1])
    assert not found["paused"] and found["slots"] == {}
    assert [(row["run"], row["state"], row["place"]) for row in found["runs"]] == [
        (waiting[0].id, "queued", 1),
        (waiting[1].id, "queued", 2),
    ]


def test_move_pause_slots_and_rm(echelon, waiting):
    first, second = (paths.id for paths in waiting)
    moved = parsed(echelon("runs", "queue", second, "--move", "first", "--json")[1])
    assert [row["run"] for row in moved["runs"]] == [second, first]
    assert echelon("runs", "queue", first, "--move", "1")[1].index(first) < 300
    assert open_queue().runs() == [first, second]
    assert "continue with: echelon runs queue --resume" in echelon("runs", "queue", "--pause")[1]
    assert parsed(echelon("runs", "queue", "--slots", "cpu=2", "--json")[1])["slots"] == {"cpu": 2}
    left = parsed(echelon("runs", "queue", first, "--rm", "--yes", "--json")[1])
    assert [row["run"] for row in left["runs"]] == [second]
    assert [run.id for run in list_runs()] == [second], "the folder of a run that never ran is deleted"
    assert not parsed(echelon("runs", "queue", "--resume", "--json")[1])["paused"]


MISTAKES = {
    "an unknown run": (("nothing", "--move", "first"), 3, "run 'nothing' does not exist"),
    "no place": (("{first}", "--move", "9"), 2, "place '9' is no place of the queue, expected 1 to 2, first or last"),
    "no device": (("--slots", "cpu"), 2, "slots 'cpu' are no DEVICE=NUMBER"),
    "a device that does not exist": (("--slots", "cuda:9=1"), 2, "device 'cuda:9' does not exist (have: cpu"),
    "rm without confirmation": (("{first}", "--rm", "--json"), 2, "add --yes"),
    "a run without an action": (("{first}",), 2, "RUN needs either --move or --rm"),
    "an action without a run": (("--rm",), 2, "RUN needs either --move or --rm"),
}


@pytest.mark.parametrize(("words", "code", "names"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_one_line(echelon, waiting, words, code, names):
    done, _, err = echelon("runs", "queue", *(word.format(first=waiting[0].id) for word in words))
    assert done == code and names in err and err.count("\n") == 1


def test_empty_queue_names_the_command_that_adds_a_run(echelon):
    runs_home().mkdir()
    assert echelon("runs", "queue")[1] == "the queue is empty; add a run with: echelon train --queue\n"


@pytest.mark.parametrize("words", [("train",), ("sweep", "start", "--vary", "ppo.lr=1e-4,1e-3")])
def test_url_that_cannot_be_notified_is_not_shown_and_leaves_no_run(echelon, words):
    code, _, err = echelon(*words, "--notify", "ftp://x/T0P")
    assert code == 2 and err.count("\n") == 1 and "T0P" not in err
    assert list_runs() == []


def test_run_without_queue_names_the_runs_that_share_its_device(echelon, waiting, ended_run, monkeypatch, capsys):
    running = [ended_run(f"20260101-00000{number}-quickstart-calm-fox{number}") for number in range(2)]
    sweep = ended_run("20260101-000003-sweep-calm-fox")
    sweep.spec.unlink()
    write_spec(sweep, JobSpec(kind="sweep", config={"preset": "sweep"}))
    assert contention("train", {"device": "cpu"}) == ""
    queue = open_queue()
    with queue.editing():
        held = [handle for paths in (*running, sweep) for handle in queue.take_slots(paths.id, ["cpu"])]
    found = contention("train", {"device": "cpu"})
    assert found == f"shares cpu with {running[0].id}, {running[1].id}"
    assert contention("train", {"device": "cuda:3"}) == ""

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("not started")

    monkeypatch.setattr(launch, "launch", refuse)
    err = echelon("train", "--preset", "quickstart", "--device", "cpu")[2]
    assert err.count("notice:") == 1 and f"notice: {found}; with --queue it would wait\n" in err
    with pytest.raises(ValueError, match="not started"):
        job.start(create_run("quickstart"), JobSpec(kind="train", config={"device": "cpu"}))
    err = capsys.readouterr().err
    assert f"notice: {found}\n" in err, "a command without --queue does not name it"
    assert "notice:" not in echelon("train", "--preset", "quickstart", "--device", "cpu", "--json")[2]
    for handle in held:
        os.close(handle)
