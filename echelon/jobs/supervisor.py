"""Supervisor process of a job: ``python -m echelon.jobs.supervisor RUN COMMAND...``.

It holds the run's lock, runs the command in its own process group, writes a heartbeat, forwards stop requests, records
how the session ended, and reports stalls and low resources as alerts. No process that it starts inherits the
descriptor of the lock, so the lock is released when the supervisor ends.
"""

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from echelon.files import LOG_FLAGS, atomic_write, error_text, open_own, reason_of
from echelon.jobs import control, lock
from echelon.jobs.alerts import MachineAlertRules
from echelon.jobs.environment import record_environment
from echelon.jobs.exits import exit_record, oom_kills
from echelon.jobs.launchers import StartError
from echelon.jobs.observers import Observers, read_observers
from echelon.jobs.process import SUPERVISED, boot_id, identify, identity_from, send_signal, session_id, works_on
from echelon.jobs.status import foreign_process, job_status
from echelon.jobs.tickets import PYTHON_MODULE, Queue, devices_in_use
from echelon.runs import RunPaths, follow_folder, is_deleted, read_json
from echelon.runs import command as echelon
from echelon.telemetry.log import EventLog

HEARTBEAT_S = 2.0
"""Time between heartbeats, and between reads of the control folder."""
ORPHAN_GRACE_S = 10.0
"""Time an orphaned worker may take to end before a new supervisor kills it [s]."""
ORPHAN_POLL_S = 0.02
ROTATE_BYTES = 16 * 2**20
"""Log size above which a session rotates it; one older log is kept."""
RESERVE_BYTES = 1 << 14
"""Disk space reserved for exit.json, so that it can be written to a full disk."""
READY, FAILED = "READY", "FAILED"
GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "worker")
"""Command that waits for a line before it becomes the worker, or ends where its supervisor ends first."""


class Supervisor:
    """One session of one job."""

    def __init__(
        self,
        paths: RunPaths,
        command: Sequence[str],
        slots: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.paths = paths
        self.command = list(command)
        self._slots = tuple(slots)
        self._environment = {**os.environ, **(environment or {}), SUPERVISED: os.path.realpath(paths.root)}
        self._signal_pipe, wake = os.pipe()
        os.set_blocking(self._signal_pipe, False)
        os.set_blocking(wake, False)
        self._wake = wake
        self._oom_before = oom_kills()
        self._earlier_bytes = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._alert_rules = MachineAlertRules(paths)

    def start(self) -> None:
        """Start the worker and write the process identities; ``OSError`` where that fails."""
        end_orphan(self.paths)
        with contextlib.suppress(FileNotFoundError):
            self._earlier_bytes = self.paths.metrics.stat().st_size
        for path in (self.paths.exit, self.paths.progress):
            path.unlink(missing_ok=True)
        control.clear(self.paths)
        atomic_write(self.paths.reserve, bytes(RESERVE_BYTES))
        self._catch_signals()
        rotate(self.paths.log_worker)
        with os.fdopen(open_own(self.paths.log_worker, LOG_FLAGS), "ab", buffering=0) as log:
            self._child = subprocess.Popen(
                [*GATE, *self.command],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
                pass_fds=self._slots,
            )
        gate = self._child.stdin
        assert gate is not None, "the pipe was requested"
        worker, supervisor = identify(self._child.pid), identify(os.getpid())
        identities = {"supervisor": supervisor and asdict(supervisor), "worker": worker and asdict(worker)}
        try:
            atomic_write(self.paths.processes, json.dumps(identities, indent=2) + "\n")
        except OSError:
            self._kill_group()
            self._child.wait()
            raise
        # a worker that no file names would work on the run without any supervisor that knows it
        with contextlib.suppress(BrokenPipeError):
            os.write(gate.fileno(), b"\n")
        gate.close()

    def _catch_signals(self) -> None:
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def run(self) -> int:
        """Supervise until the worker ends and return its exit code, negative for a signal."""
        child = self._child
        assert child is not None, "start() comes first"
        while child.poll() is None:
            self._write_heartbeat()
            self._write_alerts()
            if is_deleted(self.paths) or control.NOW in control.stop_requests(self.paths):
                self._kill_group()
            select.select([self._signal_pipe], [], [], HEARTBEAT_S)
            self._handle_signals()
        self._kill_group()
        oom = oom_kills() > self._oom_before
        if is_deleted(self.paths):
            return child.returncode
        self.paths.reserve.unlink(missing_ok=True)
        record = exit_record(self.paths, child.returncode, earlier_bytes=self._earlier_bytes, oom=oom)
        with _report_errors("exit.json"):
            atomic_write(self.paths.exit, json.dumps(record, indent=2) + "\n")
        return child.returncode

    def _handle_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for number in os.read(self._signal_pipe, 64):
                if number in (signal.SIGTERM, signal.SIGINT):
                    with _report_errors("control/stop"):
                        control.request_stop(self.paths, origin=signal.Signals(number).name)

    def _write_heartbeat(self) -> None:
        heartbeat = {"time": time.time(), "monotonic": time.monotonic(), "boot_id": boot_id(), "pid": os.getpid()}
        with _report_errors("heartbeat.json"):
            atomic_write(self.paths.heartbeat, json.dumps(heartbeat) + "\n", durable=False)

    def _write_alerts(self) -> None:
        with _report_errors("metrics.jsonl"), contextlib.suppress(ValueError):
            if not self.paths.progress.exists():
                return
            status = job_status(self.paths)
            for alert in self._alert_rules.check(status.state, status.reason):
                with EventLog(self.paths.metrics) as log:
                    log.append(replace(alert, update=status.update, global_step=status.global_step))

    def _kill_group(self) -> None:
        """Kill the worker's process group; its id stays reserved until its last process has ended."""
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)


@contextlib.contextmanager
def _report_errors(file: str) -> Iterator[None]:
    """Report an ``OSError``, or a file of another kind, on stderr and continue: the worker needs its supervisor."""
    try:
        yield
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            print(f"{file} cannot be written: {reason_of(error)}", file=sys.stderr, flush=True)


def end_orphan(paths: RunPaths) -> None:
    """Wait for, then kill, the orphaned worker of a killed supervisor, so that two never write one run.

    A process of proc.json that is none of the run is reported and left alone.
    """
    if notice := foreign_process(paths):
        print(notice, file=sys.stderr, flush=True)
    worker = identity_from((read_json(paths.processes) or {}).get("worker"))
    deadline = time.monotonic() + ORPHAN_GRACE_S
    while works_on(worker, paths):
        if time.monotonic() > deadline:
            send_signal(worker, signal.SIGKILL, paths, group=True)
            deadline = time.monotonic() + ORPHAN_GRACE_S
        time.sleep(ORPHAN_POLL_S)


def start_observer(paths: RunPaths) -> None:
    if read_observers(paths) == Observers():
        return
    with _report_errors("observer.log"), os.fdopen(open_own(paths.log_observer, LOG_FLAGS), "ab", buffering=0) as log:
        subprocess.Popen(
            [*PYTHON_MODULE, "echelon.jobs.observers", str(paths.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def rotate(log: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > ROTATE_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))


def report(ready_fd: int, line: str) -> None:
    print(line, file=sys.stderr, flush=True)
    if ready_fd >= 0:
        with contextlib.suppress(OSError):
            os.write(ready_fd, line.encode() + b"\n")
        os.close(ready_fd)


@contextlib.contextmanager
def begin(
    paths: RunPaths,
    command: Sequence[str],
    *,
    session: str | None = None,
    slots: Sequence[int] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Supervisor]:
    """Start a session under the run's lock and give its supervisor.

    ``session`` is the id of the session before it; ``StartError`` where another one has begun. Without ``slots`` the
    session takes further slots of its devices.
    """
    try:
        held = lock.acquire(paths.lock)
    except OSError as error:
        raise StartError(error_text(error)) from error
    if held is None:
        raise StartError(f"run {paths.id!r} is already running; try: {echelon('runs', 'stop', paths.id)}")
    try:
        if session is not None and session_id(paths) != session:
            raise StartError(f"run {paths.id!r} was started meanwhile; try: {echelon('runs', 'list')}")
        try:
            record_environment(paths)
            supervisor = Supervisor(paths, command, _further_slots(paths) if slots is None else slots, environment)
            supervisor.start()
        except (OSError, ValueError) as error:
            raise StartError(error_text(error)) from error
        yield supervisor
    finally:
        os.close(held)


def _further_slots(paths: RunPaths) -> list[int]:
    spec = read_json(paths.extension) or read_json(paths.spec) or {}
    config = spec.get("config")
    devices = devices_in_use(str(spec.get("kind", "")), config if isinstance(config, dict) else {})
    queue = Queue(paths.root.parent)
    with contextlib.suppress(OSError, ValueError), queue.editing():
        return queue.take_slots(paths.id, devices)
    return []


def main(argv: Sequence[str] | None = None) -> int:
    """Supervise one session; return 0 once its end is recorded, 1 where it could not start."""
    parser = argparse.ArgumentParser(prog="echelon.jobs.supervisor")
    parser.add_argument("--ready-fd", type=int, default=-1, help="pipe on which READY or FAILED is reported")
    parser.add_argument("--session", help="start only after the session with this id, on a host of a launcher")
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="command to run")
    options = parser.parse_args(argv)
    session = options.session
    # a session on a host of a launcher takes no slot of this machine
    slots = None if session is None else ()
    try:
        paths = follow_folder(RunPaths(options.run))
        with begin(paths, options.command, session=session, slots=slots) as supervisor:
            report(options.ready_fd, READY)
            start_observer(paths)
            supervisor.run()
    except StartError as error:
        report(options.ready_fd, f"{FAILED} {' '.join(error_text(error).split())}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
