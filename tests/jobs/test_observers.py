"""Observers of runs: notifications to a local HTTP stand-in, mirrors, secrets, and URLs that do not answer."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from echelon.jobs import observers
from echelon.jobs.observers import (
    Channel,
    Observer,
    Observers,
    observers_path,
    open_target,
    read_observers,
    remove_observers,
    requested,
    send,
    write_observers,
)
from echelon.jobs.spec import new_spec
from echelon.jobs.status import JobStatus
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventAlert, EventEval, EventResume, EventUpdate
from echelon.telemetry.log import EventLog
from echelon.telemetry.mirrors import MIRRORS
from tests.jobs.conftest import until, wait_for

SECRET = "T0PSECRET"
MESSAGE = ("failure", "fox failed", "a < b")


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        time.sleep(self.server.delay_s)
        codes = self.server.codes
        self.send_response(codes.pop(0) if len(codes) > 1 else codes[0])
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """A local HTTP server that records requests and answers with ``codes``, the last one for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict, dict]] = []
        self.codes = [200]
        self.delay_s = 0.0
        self.address = f"127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as opened:
        threading.Thread(target=opened.serve_forever, args=(0.01,), daemon=True).start()
        yield opened
        opened.shutdown()


@pytest.fixture
def run() -> RunPaths:
    paths = create_run("fake")
    paths.spec.write_text(json.dumps({"kind": "train", "created": time.time(), "config": {"seed": 7}}))
    return paths


def test_message_is_sent_with_title_text_and_level(server):
    send(open_target(f"json://{server.address}/{SECRET}"), *MESSAGE)
    ((path, headers, body),) = server.requests
    assert path == f"/{SECRET}" and headers["Content-Type"] == "application/json"
    assert (body["title"], body["message"], body["type"]) == ("fox failed", "a < b", "failure")


@pytest.mark.parametrize("url", [f"ftp://host/{SECRET}", f"https:///{SECRET}", SECRET, "file:///etc/passwd", ""])
def test_unusable_url_is_refused_without_repeating_it(url):
    with pytest.raises(ValueError, match="URL of --notify cannot be used") as caught:
        requested([url])
    assert SECRET not in str(caught.value)


def test_notification_without_apprise_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ValueError, match=r"apprise is not installed; try: pip install 'echelon\[notify\]'"):
        requested(["jsons://host/x"])


@pytest.mark.parametrize(("codes", "attempts", "is_sent"), [([503, 429, 200], 3, True), ([500], 3, False)])
def test_send_tries_again(server, codes, attempts, is_sent, caplog, capsys):
    server.codes = codes
    send(open_target(f"json://{server.address}/{SECRET}"), *MESSAGE, pause=lambda _: None)
    found = capsys.readouterr().out
    assert len(server.requests) == attempts and ("JSON was not reached" in found) != is_sent
    assert SECRET not in caplog.text + found


def test_observers_are_readable_by_their_user_alone(run):
    before = os.umask(0)
    try:
        write_observers(run, Observers(notify=(f"jsons://host/{SECRET}",)))
    finally:
        os.umask(before)
    path = observers_path(run)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_observers(run).notify == (f"jsons://host/{SECRET}",)
    assert run.root not in path.parents, "a run folder is copied between people"
    remove_observers(run)
    assert read_observers(run) == Observers() and not path.exists()


def test_observers_of_another_folder_of_that_name_are_ignored(run):
    write_observers(run, Observers(notify=("https://host/x",)))
    run.root.rename(run.root.with_name("moved"))
    run.root.mkdir()
    assert read_observers(run) == Observers()


def test_observers_follow_a_renamed_run_and_no_later_one_with_its_number(run):
    write_observers(run, Observers(notify=(SECRET,)))
    file, renamed = observers_path(run), RunPaths(run.root.rename(run.root.with_name("paper-baseline")))
    assert read_observers(renamed).notify == (SECRET,)
    os.utime(file, (0, 0))
    assert read_observers(renamed) == Observers()
    os.utime(file)
    remove_observers(renamed)
    assert not file.exists()


def test_specification_contains_no_url(monkeypatch):
    monkeypatch.setenv("ECHELON_NOTIFY", f"jsons://host/{SECRET}")
    argv = ["echelon", "train", "--notify", f"jsons://host/{SECRET}", f"--notify=jsons://host/{SECRET}", "--queue"]
    spec = new_spec("train", {}, {}, argv)
    assert SECRET not in json.dumps([spec.argv, spec.environment])
    assert spec.argv == ["echelon", "train", "--notify", "(hidden)", "--notify=(hidden)", "--queue"]
    assert requested().notify == (f"jsons://host/{SECRET}",)


@pytest.mark.parametrize(("name", "message"), [("tensorbord", "does not exist"), ("trackio", "is not installed")])
def test_mirror_that_cannot_be_used_is_refused(monkeypatch, name, message):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=message):
        requested(mirrors=[name])


def write_records(run: RunPaths, *events) -> None:
    with EventLog(run.metrics) as log:
        for event in events:
            log.append(event)


UPDATE = EventUpdate(update=3, global_step=300, entropy=0.5, elapsed_s=60.0)
EVALUATION = EventEval(
    update=3, global_step=300, opponent="medium", episodes=10, win_rate=0.6, win_low=0.4, win_high=0.8
)


def test_observer_reports_alerts_once_and_the_end(server, run):
    alert = EventAlert(message="win rate collapsed")
    write_records(run, UPDATE, EVALUATION, alert, alert, EventAlert(message="fine again", level="info"))
    observers = Observers(notify=(f"json://{server.address}/x",))
    write_observers(run, observers)
    Observer(run, observers).finish(JobStatus(id=run.id, state="completed"))
    bodies = [body for _, _, body in server.requests]
    assert [body["type"] for body in bodies] == ["warning", "success"]
    assert bodies[1]["title"] == f"{run.id} completed"
    assert bodies[1]["message"] == "evaluation 60 % (40-80) against medium; update 3, 300 steps in 1 min"
    Observer(run, observers).finish(JobStatus(id=run.id, state="crashed", reason="worker terminated by SIGKILL"))
    bodies = [body for _, _, body in server.requests[2:]]
    assert [body["type"] for body in bodies] == ["failure"], "alerts are reported once"
    assert bodies[0]["message"] == "worker terminated by SIGKILL"


class FakeMirror:
    """Stand-in of a program that shows curves."""

    opened: list[FakeMirror] = []

    def __init__(self, paths, target, config):
        self.target, self.calls = target, []
        FakeMirror.opened.append(self)

    def write(self, rows):
        self.calls += [("write", row.global_step, row.values["train/entropy"]) for row in rows]

    def resume(self, event):
        self.calls.append(("resume", event.update))

    def close(self, failed):
        self.calls.append(("close", failed))


def test_observer_mirrors_records_and_resumes(run, monkeypatch):
    monkeypatch.setitem(MIRRORS, "trackio", replace(MIRRORS["trackio"], open=FakeMirror))
    write_records(run, UPDATE, EventAlert(message="m"), EventResume(update=2, global_step=200), UPDATE)
    Observer(run, Observers(mirrors=("trackio=mine",))).finish(JobStatus(id=run.id, state="failed"))
    mirror = FakeMirror.opened[-1]
    assert mirror.target == "mine"
    assert mirror.calls == [("write", 300, 0.5), ("resume", 2), ("write", 300, 0.5), ("close", True)]


def test_observer_that_blocks_delays_neither_the_others_nor_the_end(server, run, monkeypatch):
    class Blocking(FakeMirror):
        def write(self, rows):
            threading.Event().wait()

    monkeypatch.setitem(MIRRORS, "trackio", replace(MIRRORS["trackio"], open=Blocking))
    write_records(run, UPDATE)
    found = Observer(run, Observers(notify=(f"json://{server.address}/x",), mirrors=("trackio",)))
    found.finish(JobStatus(id=run.id, state="completed"), linger_s=0.2)
    wait_for(lambda: server.requests, 60.0)
    assert [body["type"] for _, _, body in server.requests] == ["success"]


def test_channel_drops_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(observers, "MAX_QUEUED", 3)
    channel = Channel("slow")
    for _ in range(10):
        channel.put(lambda: None)
    assert channel.dropped == 7


def test_mirror_that_fails_is_logged_and_costs_nothing_else(run, monkeypatch, capsys):
    class Broken(FakeMirror):
        def write(self, rows):
            raise RuntimeError(f"token {SECRET} is wrong")

    monkeypatch.setitem(MIRRORS, "wandb", replace(MIRRORS["wandb"], open=Broken))
    write_records(run, UPDATE, UPDATE)
    Observer(run, Observers(mirrors=("wandb",))).finish(JobStatus(id=run.id, state="completed"))
    assert capsys.readouterr().out.count("wandb: RuntimeError\n") == 2


@pytest.mark.long
@pytest.mark.parametrize("answer", ["at once", "never"])
def test_run_ends_on_time_and_is_reported_whatever_the_url_does(server, start, answer):
    server.delay_s = 60.0 if answer == "never" else 0.0
    paths = create_run("fake")
    write_observers(paths, Observers(notify=(f"json://{server.address}/{SECRET}",)))
    start("short", paths)
    status = until(paths, "completed")
    assert status.update == 5
    wait_for(lambda: server.requests, 60.0)
    assert [body["title"] for _, _, body in server.requests] == [f"{paths.id} completed"]
    for file in paths.root.rglob("*"):
        assert file.is_dir() or SECRET not in file.read_text(errors="replace"), file


def test_observer_process_without_observers_ends(run, repository):
    done = subprocess.run(
        [sys.executable, "-m", "echelon.jobs.observers", str(run.root)], cwd=repository, capture_output=True, timeout=20
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_tensorboard_file_has_the_curves_and_a_resume(run):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    late = EventUpdate(update=4, global_step=400, entropy=0.25)
    again = EventUpdate(update=4, global_step=400, entropy=0.75)
    write_records(run, UPDATE, late, EventResume(update=3, global_step=400), again)
    Observer(run, Observers(mirrors=("tensorboard",))).finish(JobStatus(id=run.id, state="completed"))
    read = EventAccumulator(str(run.root / "tensorboard"))
    read.Reload()
    assert [(point.step, point.value) for point in read.Scalars("train/entropy")] == [(300, 0.5), (400, 0.75)]


def test_send_waits_no_longer_than_its_limit(server, monkeypatch, capsys):
    monkeypatch.setattr(observers, "TIMEOUT_S", 0.05)
    server.delay_s = 0.5
    send(open_target(f"json://{server.address}/x"), *MESSAGE, pause=lambda _: None)
    assert "JSON was not reached" in capsys.readouterr().out
