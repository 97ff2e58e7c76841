"""Runs of other hosts: mirrored over a stand-in of ssh, read like local ones, and never changed."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.jobs import control, launch
from echelon.jobs.remote import FILE
from echelon.jobs.status import job_status
from echelon.runs import RunPaths, list_runs
from echelon.telemetry.events import EventStart, EventUpdate
from echelon.telemetry.log import EventLog, read_events
from echelon_cli import hosts
from echelon_cli.hosts import HostError, HostMirror, mirrors, parse_host
from tests.cli.conftest import parsed

SSH = """#!/bin/sh
# a stand-in of ssh: options and the name of the host, then a command for a shell
echo "$@" >> "{log}"
while [ "$1" != -- ]; do shift; done
shift 2
[ -e "{down}" ] && {{ echo "no route to host" >&2; exit 255; }}
exec /bin/sh -c "$1"
"""
RUN = "20260101-000000-fake-calm-fox"


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs folder of the other host."""
    tools = tmp_path / "tools"
    tools.mkdir()
    ssh = tools / "ssh"
    ssh.write_text(SSH.format(log=tools / "log", down=tools / "down"))
    ssh.chmod(0o755)
    (tools / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hosts, "PAUSES_S", (0.05,))
    monkeypatch.setitem(hosts.LIMITS, "poll_s", 0.05)
    folder = tmp_path / "it's remote"
    folder.mkdir()
    return folder


def end(mirror: HostMirror) -> None:
    mirror.stop()
    mirror.join(10)
    assert not mirror.is_alive()


def add_run(folder: Path, name: str = RUN, updates: int = 3) -> RunPaths:
    paths = RunPaths(folder / name)
    paths.log.mkdir(parents=True)
    paths.spec.write_text(json.dumps({"kind": "train", "config": {"preset": "fake"}, "created": 1.0, "host": "gpu1"}))
    with EventLog(paths.metrics) as log:
        log.append(EventStart(device="cpu", total_steps=1000))
    add_updates(paths, updates)
    return paths


def add_updates(paths: RunPaths, count: int, first: int = 1) -> None:
    with EventLog(paths.metrics) as log:
        for update in range(first, first + count):
            log.append(EventUpdate(update=update, global_step=update * 100))


@pytest.fixture
def connect(remote: Path) -> Iterator:
    opened: list[HostMirror] = []

    def start() -> tuple[Path, HostMirror]:
        home, (mirror,) = mirrors([f"ssh:me@gpu1:{remote}"])
        mirror.start()
        opened.append(mirror)
        return home, mirror

    yield start
    for mirror in opened:
        end(mirror)


def until(check, limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def updates(paths: RunPaths) -> list[int]:
    return [event.update for event in read_events(paths.metrics)[0] if isinstance(event, EventUpdate)]


@pytest.mark.parametrize(
    "text", ["gpu1:/runs", "ssh:gpu1", "ssh:-oProxy=x:/runs", "ssh:a b:/runs", "ssh:$(x):/runs", "ssh::/runs", ""]
)
def test_host_that_is_none_is_refused(text):
    with pytest.raises(HostError, match="is no ssh:NAME:/path; try ssh:gpu1:/srv/runs"):
        parse_host(text)


def test_mirror_follows_appended_records_and_the_state(remote, connect):
    there = add_run(remote)
    home, mirror = connect()
    assert mirror.synced.wait(20), mirror.problem
    (run,) = list_runs(home)
    assert run.id == f"{RUN}@gpu1" and updates(run) == [1, 2, 3]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert job_status(run).state == "crashed", "nothing holds its lock and there is no exit record"
    with open(there.lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        until(lambda: job_status(run).state == "starting")
        before = mirror.received
        add_updates(there, 2, first=4)
        until(lambda: updates(run) == [1, 2, 3, 4, 5])
        assert mirror.received - before < there.metrics.stat().st_size, "only what was appended is sent"
        there.exit.write_text(json.dumps({"code": 0}))
    until(lambda: job_status(run).state == "completed")
    there.exit.unlink()
    until(lambda: not run.exit.exists())


def test_mirror_refuses_what_would_change_the_run(remote, connect):
    add_run(remote)
    home, mirror = connect()
    assert mirror.synced.wait(20), mirror.problem
    (run,) = list_runs(home)
    for change in (launch.stop, launch.remove, control.request_checkpoint):
        with pytest.raises(ValueError, match="is one of host 'gpu1'; try there: echelon runs stop"):
            change(run)


def test_mirror_connects_again_and_continues(remote, connect, tmp_path):
    there = add_run(remote)
    home, mirror = connect()
    assert mirror.synced.wait(20), mirror.problem
    (run,) = list_runs(home)
    process = mirror._process
    assert process is not None
    (tmp_path / "tools" / "down").touch()
    process.kill()
    until(lambda: "no route to host" in (home / FILE).read_text())
    add_updates(there, 1, first=4)
    (tmp_path / "tools" / "down").unlink()
    until(lambda: updates(run) == [1, 2, 3, 4])
    assert read_events(run.metrics)[1] == 0, "no line is torn or there twice"


def test_mirror_continues_after_a_restart_with_what_it_has(remote, connect):
    there = add_run(remote, updates=200)
    home, mirror = connect()
    assert mirror.synced.wait(20), mirror.problem
    end(mirror)
    first = mirror.received
    add_updates(there, 1, first=201)
    _, mirror = connect()
    (run,) = list_runs(home)
    until(lambda: updates(run) == list(range(1, 202)))
    assert mirror.received < first / 2


def test_damaged_mirror_is_read_again(remote, connect):
    add_run(remote)
    home, mirror = connect()
    assert mirror.synced.wait(20), mirror.problem
    end(mirror)
    (run,) = list_runs(home)
    run.metrics.write_bytes(run.metrics.read_bytes()[:50])
    connect()
    until(lambda: updates(run) == [1, 2, 3])


def test_of_a_long_file_first_line_and_end_are_sent(remote, connect, monkeypatch):
    monkeypatch.setitem(hosts.LIMITS, "long", 2_000)
    there = add_run(remote, updates=500)
    home, mirror = connect()
    assert mirror.synced.wait(20), mirror.problem
    (run,) = list_runs(home)
    events, skipped = read_events(run.metrics)
    assert isinstance(events[0], EventStart) and skipped == 0
    assert updates(run)[-1] == 500 and len(updates(run)) < 20
    add_updates(there, 1, first=501)
    until(lambda: updates(run)[-1] == 501)


def test_deleted_run_leaves_the_mirror(remote, connect):
    import shutil

    there = add_run(remote)
    home, mirror = connect()
    assert mirror.synced.wait(20), mirror.problem
    shutil.rmtree(there.root)
    until(lambda: list_runs(home) == [])


@pytest.mark.parametrize(
    "row",
    [
        {"run": "../x", "file": "spec.json", "op": "whole", "state": [1, 1]},
        {"run": ".x", "file": "spec.json", "op": "whole", "state": [1, 1]},
        {"run": RUN, "file": "../../x", "op": "whole", "state": [1, 1]},
        {"run": RUN, "file": "control/stop", "op": "append", "state": [1, 1]},
    ],
)
def test_host_cannot_write_outside_of_its_mirror(remote, row):
    home, (mirror,) = mirrors([f"ssh:gpu1:{remote}"])
    with pytest.raises(HostError, match="sent a file of another name"):
        mirror._apply(row, b"x")
    assert list(home.rglob("x")) == []


@pytest.mark.parametrize(
    "frame",
    [
        b"[" * 60_000,
        b"[1]",
        b"{",
        b'{"size": -1}',
        b'{"size": 1e9}',
        b'{"op": "runs", "size": 9}',
        b'{"run": "a", "file": "spec.json", "op": "whole", "state": {}, "size": 9}',
        b'{"run": "a", "file": "spec.json", "op": "append", "state": ["x", 1], "size": 9}',
    ],
)
def test_damaged_frame_costs_the_connection_and_not_the_mirror(remote, monkeypatch, frame):
    """A host that was taken over ended the thread that follows it without a word."""
    body = b"x\x9c\x03\x00\x00\x00\x00\x01\n"
    sent = remote.parent / "frame"
    sent.write_bytes(frame + b"\n" + body)
    (remote.parent / "tools" / "ssh").write_text(f"#!/bin/sh\nexec cat '{sent.name}'\n")
    monkeypatch.chdir(remote.parent)
    _, (mirror,) = mirrors([f"ssh:gpu1:{remote}"])
    mirror.start()
    until(lambda: mirror.problem == hosts.DAMAGED)
    assert mirror.is_alive() and not mirror.synced.is_set()
    end(mirror)


def test_host_cannot_send_runs_without_end(remote, monkeypatch):
    monkeypatch.setitem(hosts.LIMITS, "runs", 2)
    home, (mirror,) = mirrors([f"ssh:gpu1:{remote}"])
    with pytest.raises(HostError, match="sent more than 4 runs"):
        for number in range(9):
            mirror._apply({"run": f"r{number}", "file": "spec.json", "op": "whole", "state": [1, 1]}, b"{}")
    assert len(list(home.glob("r*"))) == 4


def test_command_shows_runs_of_a_host_once(remote, repository, tmp_path):
    add_run(remote)
    done = subprocess.run(
        [sys.executable, "-m", "echelon_cli.main", "dash", "--host", f"ssh:gpu1:{remote}", "--once", "--width", "120"],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "calm-fox@gpu1" in done.stdout


@pytest.mark.parametrize("words", [("--once",), ("--json",), ("calm-fox",)], ids=" ".join)
def test_command_fails_at_once_where_no_host_answers(remote, echelon, monkeypatch, words):
    monkeypatch.setattr(hosts, "PAUSES_S", (600.0,))
    (remote.parent / "tools" / "down").touch()
    code, out, err = echelon("dash", "--host", f"ssh:gpu1:{remote}", *words)
    assert code == 1 and "no connection to gpu1: no route to host" in err
    assert out == "" or parsed(out)["code"] == 1


def test_host_that_does_not_answer_is_named_beside_one_that_does(remote, echelon, monkeypatch):
    add_run(remote)
    script = (remote.parent / "tools" / "ssh").read_text().replace("[ -e", '[ "$name" = gpu2 ] || [ -e')
    (remote.parent / "tools" / "ssh").write_text(script.replace("shift 2", "name=$2; shift 2"))
    (remote.parent / "tools" / "down").unlink(missing_ok=True)
    hosts_given = ("--host", f"ssh:gpu1:{remote}", "--host", f"ssh:gpu2:{remote}")
    code, out, err = echelon("dash", *hosts_given, "--once")
    assert code == 0 and "calm-fox" in out and "gpu2: no route to host" in err


HOSTILE = """
import json, os, sys, zlib
def frame(row, data):
    body = zlib.compress(data)
    sys.stdout.buffer.write(json.dumps({**row, "size": len(body)}).encode() + b"\\n" + body)
    sys.stdout.flush()
"""
"""Program of a hostile host; more follows."""


@pytest.fixture
def hostile(remote, monkeypatch):
    """Make the host run a program in place of ours."""

    def start(program: str) -> HostMirror:
        ssh = next(Path(folder) / "ssh" for folder in os.environ["PATH"].split(":") if (Path(folder) / "ssh").exists())
        ssh.with_name("hostile.py").write_text(HOSTILE + program)
        ssh.write_text(f"#!/bin/sh\nexec {sys.executable} {ssh.with_name('hostile.py')}\n")
        _, (mirror,) = mirrors([f"ssh:me@gpu1:{remote}"])
        return mirror

    return start


PROBLEMS = {
    "list that takes much memory": (
        """frame({"op": "runs"}, b'{"runs":[' + b'{"":0},' * 200_000 + b"0]}")""", "damaged frame",
    ),
    "text of 50 kB": ("""sys.stderr.write("z" * 50_000)""", "zzz"),
    "errors for ever": (
        """
os.close(1)
while True:
    sys.stderr.write("z" * 65536)
""",
        "zzz",
    ),
    "files without end": (
        """
for number in range(100):
    frame({"op": "whole", "run": f"r{number}", "file": "spec.json", "state": [1, 2]}, b" " * 1000)
""",
        "sent more than 10000 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROBLEMS)
def test_hostile_host_costs_its_mirror_only(hostile, monkeypatch, case):
    program, problem = PROBLEMS[case]
    monkeypatch.setattr(hosts, "MAX_MIRROR_BYTES", 10_000, raising=False)
    monkeypatch.setattr(hosts, "END_S", 0.1, raising=False)
    mirror = hostile(program)
    mirror.start()
    try:
        until(lambda: problem in mirror.problem)
        assert len(mirror.problem) <= hosts.MAX_TEXT
        assert sum(file.stat().st_size for file in mirror.home.rglob("spec.json")) <= 10_000
    finally:
        end(mirror)


def test_files_that_are_replaced_count_once(hostile, monkeypatch):
    monkeypatch.setattr(hosts, "MAX_MIRROR_BYTES", 3_000)
    mirror = hostile("")
    for op in ("whole", "start", "delete") * 5:
        for name in ("metrics.jsonl", "evals.jsonl"):
            mirror._apply({"op": op, "run": "r", "file": name, "state": [1, 2]}, bytes(1000))
    mirror._apply({"op": "whole", "run": "r", "file": "spec.json", "state": [1, 2]}, bytes(3000))
    with pytest.raises(HostError, match="more than 3000 bytes"):
        mirror._apply({"op": "append", "run": "r", "file": "metrics.jsonl", "state": [1, 2]}, bytes(1))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": {"spec.json": 5}}', "\\xff", "{"])
def test_damaged_note_of_a_mirror_begins_it_again(remote, text):
    home, (mirror,) = mirrors([f"ssh:me@gpu1:{remote}"])
    mirror._state_path.write_text(text)
    (home / "run@gpu1").mkdir()
    home, (mirror,) = mirrors([f"ssh:me@gpu1:{remote}"])
    assert mirror._have == {} and not (home / "run@gpu1").exists()
