"""Supervision of real processes: completion, stops, kills, stalls, resumes."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from echelon.jobs import control, exits, launch, lock
from echelon.jobs.exits import exit_record
from echelon.jobs.launchers import LaunchError, StartError
from echelon.jobs.process import identify, is_alive, send_signal, works_on
from echelon.jobs.spec import JobSpec
from echelon.jobs.status import job_status
from echelon.jobs.supervisor import begin
from echelon.rl.checkpoint import latest_valid
from echelon.runs import RunPaths, create_run, list_runs, read_json
from echelon.telemetry.events import EventEnd, EventUpdate
from echelon.telemetry.log import read_events
from tests.conftest import HOSTILE_NAMES
from tests.jobs.conftest import FAKE, kill, process_identity, until, wait_for, wait_for_exit
from tests.jobs.stand_ins import SLOW


def test_job_completes_and_reports_final_status(start, tmp_path, monkeypatch):
    for name in ("queue", "json", "echelon"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the working directory was imported')\n")
    monkeypatch.chdir(tmp_path)
    paths = start("short")
    status = until(paths, "completed")
    assert (status.update, status.checkpoint, status.exit_code) == (5, "checkpoints/step-500", 0)
    wait_for_exit(process_identity(paths, "supervisor"))
    assert not lock.is_held(paths.lock)
    updates = [event for event in read_events(paths.metrics)[0] if isinstance(event, EventUpdate)]
    assert all(0 <= event.cpu_cores < 64 and event.memory_mb > 5 for event in updates)
    assert all(event.disk_free_mb > 0 and event.memory_free_mb > 0 for event in updates)
    assert all(math.isnan(event.gpu_share) for event in updates)


def test_stop_saves_a_checkpoint_in_any_home_path(start, tmp_path, monkeypatch):
    home = tmp_path.joinpath(*HOSTILE_NAMES.values())
    monkeypatch.setenv("ECHELON_HOME", str(home))
    paths = start()
    assert paths.root.parent == home
    until(paths, "running")
    launch.stop(paths)
    status = until(paths, "stopped")
    assert status.checkpoint == f"checkpoints/step-{status.global_step}"
    assert status.exit_code == 4


def test_sigterm_to_supervisor_requests_stop(start):
    paths = start()
    until(paths, "running")
    kill(process_identity(paths, "supervisor"), signal.SIGTERM)
    assert until(paths, "stopped").checkpoint


def test_second_stop_abandons_update(start):
    paths = start("stubborn")
    until(paths, "running")
    launch.stop(paths)
    assert until(paths, "stopping").is_alive
    time.sleep(0.3)
    assert job_status(paths).state == "stopping", "this worker ignores one request"
    launch.stop(paths)
    assert until(paths, "stopped").checkpoint == ""


def test_stop_on_ended_job_is_noop(ended):
    before = job_status(ended)
    assert launch.stop(ended).state == "completed"
    assert job_status(ended) == before
    assert not ended.stop.exists()


def test_killed_trainer_is_reported_crashed_with_its_last_update(start):
    paths = start()
    wait_for(lambda: job_status(paths).update)
    kill(process_identity(paths, "worker"), signal.SIGRTMIN + 5)
    status = until(paths, "crashed")
    assert "SIGRTMIN+5" in status.reason and status.exit_code == 5 and status.update >= 1
    record = read_json(paths.exit)
    assert record is not None and record["signal"] == "SIGRTMIN+5" and record["code"] is None
    wait_for_exit(process_identity(paths, "supervisor"))
    assert "Traceback" not in paths.log_supervisor.read_text()


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGSEGV, "SIGSEGV"), (32, "signal 32"), (signal.SIGRTMAX, "SIGRTMAX")]
)
def test_end_by_any_signal_is_recorded_with_its_name(tmp_path, number, name):
    paths = RunPaths(tmp_path)
    record = exit_record(paths, -number, earlier_bytes=0, oom=False)
    assert (record["code"], record["signal"]) == (None, name)
    assert record["message"] == f"worker terminated by {name}: see its log"


@pytest.mark.parametrize("saved", [False, True])
def test_full_disk_names_a_checkpoint_only_where_there_is_one(tmp_path, monkeypatch, saved):
    paths = RunPaths(tmp_path / "run")
    paths.checkpoints.mkdir(parents=True)
    if saved:
        (paths.checkpoints / "step-7").mkdir()
    monkeypatch.setattr(exits, "disk_free_mb", lambda folder: 0.0)
    message = exit_record(paths, 1, earlier_bytes=0, oom=False)["message"]
    assert "is full" in message and ("the last checkpoint is intact" in message) == saved


def test_exception_of_the_trainer_fails_with_one_line_and_logs_its_traceback(start):
    paths = start("bug")
    status = until(paths, "failed")
    assert (status.reason, status.exit_code) == ("RuntimeError: the same explosion", 1)
    assert "Traceback" in paths.log_worker.read_text()


def test_second_supervisor_on_run_is_refused(start):
    paths = start()
    until(paths, "running")
    with pytest.raises(LaunchError, match="already running"):
        start("steady", paths)
    argv = [sys.executable, "-m", "echelon.jobs.supervisor", str(paths.root), *FAKE.command(paths.root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "already running" in done.stderr
    assert job_status(paths).state == "running"


def test_crashed_run_resumes_with_monotonic_updates(start):
    paths = start()
    wait_for(lambda: job_status(paths).update >= 5)
    kill(process_identity(paths, "worker"))
    until(paths, "crashed")
    spec = paths.spec.read_bytes()
    start("short", paths, "--resume", "latest")
    until(paths, "completed")
    events, _ = read_events(paths.metrics)
    updates = [e.update for e in events if isinstance(e, EventUpdate)]
    assert updates == [1, 2, 3, 4, 5]
    assert paths.spec.read_bytes() == spec, "the first spec is unchanged"


DIES_BEFORE_NAMES = """
import os, sys
from echelon.jobs import supervisor
write = supervisor.atomic_write
supervisor.atomic_write = lambda path, *rest, **named: os._exit(9) if path.name == "proc.json" else write(path, *rest)
supervisor.main(sys.argv[1:])
"""


def test_trainer_that_no_file_names_does_not_begin(tmp_path):
    paths, done = create_run("fake"), tmp_path / "done"
    argv = [sys.executable, "-c", DIES_BEFORE_NAMES, str(paths.root), "/bin/sh", "-c", f"touch {done}"]
    assert subprocess.run(argv, timeout=20).returncode == 9
    time.sleep(0.3)
    assert not done.exists()


def test_session_that_another_start_has_overtaken_is_refused(ended):
    before = read_json(ended.exit)
    with pytest.raises(StartError, match="was started meanwhile"), begin(ended, ["false"], session=""):
        pass
    assert read_json(ended.exit) == before


@pytest.mark.long
def test_new_supervisor_waits_for_orphaned_trainer(start):
    paths = start()
    until(paths, "running")
    worker = process_identity(paths, "worker")
    kill(process_identity(paths, "supervisor"))
    assert "supervisor was killed" in until(paths, "crashed").reason
    start("short", paths, "--resume", "latest")
    assert not is_alive(worker)
    until(paths, "completed")
    ends = [event.reason for event in read_events(paths.metrics)[0] if isinstance(event, EventEnd)]
    assert ends == ["stopped", "completed"], "the orphan has ended by itself"


@pytest.mark.parametrize("has_ended", [False, True], ids=["foreign", "another process had its pid"])
def test_resume_of_a_run_that_names_a_foreign_process_leaves_it_alone(start, ended, has_ended):
    paths, unrelated = ended, subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        real = identify(unrelated.pid)
        assert real is not None
        if has_ended:
            real = replace(real, create_time=real.create_time - 1)
        paths.processes.write_text(json.dumps({"supervisor": asdict(real), "worker": asdict(real)}))
        paths.exit.unlink()
        assert not has_ended or job_status(paths).state == "crashed"
        assert not send_signal(real, signal.SIGTERM, paths) and not send_signal(real, signal.SIGTERM, paths, group=True)
        launch.stop(paths, now=True)
        start("short", paths, "--resume", "latest")
        until(paths, "completed")
        assert unrelated.poll() is None
        is_named = f"names process {unrelated.pid} as its" in paths.log_supervisor.read_text()
        assert is_named is not has_ended
    finally:
        unrelated.kill()
        unrelated.wait()


@pytest.mark.parametrize("change", ["log deleted", "hard links"])
def test_orphaned_worker_is_recognised_and_can_be_stopped(start, tmp_path, change):
    paths = start("slow")  # does not notice within the test that its supervisor ended
    until(paths, "running")
    if change == "log deleted":
        paths.log_worker.unlink()
    else:  # as of a backup
        for number, path in enumerate((paths.lock, paths.metrics, paths.log_worker, paths.log_supervisor)):
            os.link(path, tmp_path / f"backup-{number}")
    worker, supervisor = process_identity(paths, "worker"), process_identity(paths, "supervisor")
    assert works_on(worker, paths) and works_on(supervisor, paths)
    kill(supervisor)
    until(paths, "crashed")
    assert is_alive(worker) and launch.has_orphan(paths)
    with pytest.raises(ValueError, match="its worker is still ending"):
        launch.remove(paths)
    launch.stop(paths, now=True)
    wait_for_exit(worker)
    assert not launch.has_orphan(paths)


def test_stop_of_a_copy_leaves_the_original_running(start, tmp_path):
    paths = start()
    until(paths, "running")
    copied = RunPaths(tmp_path / "elsewhere" / paths.id)
    shutil.copytree(paths.root, copied.root)
    assert not launch.has_orphan(copied)
    status = job_status(copied)
    assert status.state == "lost" and "copy" in status.reason
    launch.stop(copied, now=True)
    launch.remove(copied)
    assert job_status(paths).state == "running" and is_alive(process_identity(paths, "worker"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_read_only_run_folder_raises_one_line_error(start, tmp_path):
    paths = create_run("fake")
    paths.root.chmod(0o555)
    try:
        with pytest.raises(LaunchError, match="cannot be written"):
            start("short", paths)
    finally:
        paths.root.chmod(0o755)


def test_supervisor_kills_trainer_when_identity_file_fails(start):
    paths = create_run("fake")
    paths.processes.mkdir()
    with pytest.raises(LaunchError, match=r"proc\.json"):
        start("steady", paths)
    assert not lock.is_held(paths.lock)


def test_run_is_removed_once_it_is_stopped_without_saving(start):
    paths = start("stubborn")
    until(paths, "running")
    with pytest.raises(ValueError, match="try: echelon runs stop"):
        launch.remove(paths)
    launch.stop(paths, now=True)
    assert "without saving" in until(paths, "stopped").reason
    wait_for_exit(process_identity(paths, "worker"))
    launch.remove(paths)
    assert not paths.root.exists()
    assert list_runs() == []


def test_remove_linked_run_removes_link_only(ended, tmp_path):
    elsewhere = tmp_path / ended.id
    ended.root.rename(elsewhere)
    ended.root.symlink_to(elsewhere)
    launch.remove(ended)
    assert list_runs() == [] and RunPaths(elsewhere).spec.is_file()


def test_control_records_every_stop_request(tmp_path):
    paths = RunPaths(tmp_path)
    control.request_stop(paths)
    control.request_stop(paths, now=True)
    assert control.stop_requests(paths) == ["stop", "now"]
    control.clear(paths)
    assert control.stop_requests(paths) == []


@pytest.mark.long
def test_host_taken_away_in_the_middle_of_a_long_update_leaves_the_checkpoint_of_the_one_before(monkeypatch):
    """SIGTERM gives the notice during the fourth update. SIGKILL comes before this update ends."""
    paths = create_run("preempted")
    plan = {"pause_s": 0.0, "updates": 6, "save_every": 100, "slow_update_s": 0.0, "preset": "fake"}
    monkeypatch.setenv("ECHELON_FAULT", "train.update:4:STOP")
    launch.launch(paths, JobSpec(kind="train", config=plan), SLOW)
    until(paths, "stalled", limit_s=120.0)
    kill(process_identity(paths, "supervisor"), signal.SIGTERM)
    wait_for(lambda: control.stop_origins(paths) == ["SIGTERM"])
    kill(process_identity(paths, "worker"), signal.SIGKILL)
    assert until(paths, "crashed").update == 3
    saved = latest_valid(paths.checkpoints).checkpoint
    assert saved is not None and saved.manifest["update"] == 3
    monkeypatch.delenv("ECHELON_FAULT")
    launch.launch(paths, JobSpec(kind="train", config=plan), SLOW, ("--resume", "latest"))
    until(paths, "completed", limit_s=120.0)
    updates = [event.update for event in read_events(paths.metrics)[0] if isinstance(event, EventUpdate)]
    assert updates == [1, 2, 3, 4, 5, 6]
