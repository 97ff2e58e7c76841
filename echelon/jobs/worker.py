"""Training process: ``python -m echelon.jobs.worker RUN [--resume CHECKPOINT]``, started by a supervisor or torchrun.

Reads the run's spec, connects the training loop (``echelon.training.loop``) with the run folder, and turns a failure
into a one-line message and an exit code. Of several processes that train one run, with ranks from the environment,
only rank 0 writes records.
"""

import argparse
import contextlib
import faulthandler
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from echelon.files import atomic_write, error_text, make_folder, reason_of
from echelon.jobs import config_layers, control
from echelon.jobs.alerts import TrainingAlertRules
from echelon.jobs.kinds import RANKS
from echelon.jobs.launchers import StartError
from echelon.jobs.leave import leave
from echelon.jobs.memory import require_gpu_memory, require_memory
from echelon.jobs.process import SUPERVISED, boot_id
from echelon.jobs.spec import read_spec, write_spec
from echelon.jobs.tickets import PYTHON_MODULE
from echelon.jobs.usage import ResourceUsage
from echelon.runs import OpenRun, RunPaths, read_json
from echelon.telemetry import events
from echelon.telemetry.latest import read_latest
from echelon.telemetry.log import EventLog
from echelon.training.runtime.threads import thread_environment

PROGRESS_S = 1.0
"""Minimum time between two writes of the progress file [s]."""
REPEAT_S = 5.0
"""Time within which another signal is the same request: an engine signals tasks directly and through their parents."""
LEVEL_ABANDON = 2
"""Stop level at which a job ends at once; at a lower one it completes its update and saves."""
TRAINING = "training"
LOST_RANK = ("gloo/transport/", "remote process exited")
"""Parts of errors of gloo and NCCL about another rank that has ended."""
FULL_GPU = ("CUDA out of memory", "Failed to allocate")
"""How torch's and Warp's errors of a full GPU begin."""
COMPLETED, FAILED, STOPPED, LOST = 0, 1, 4, 5
"""Exit codes; the last is that of a rank that lost another."""
UNLOGGED = (events.EventUpdate, events.EventEpisodes)
"""Records too frequent for the log; the metrics contain them."""
PREPARING = {"maps": "preparing maps"}
COMPILING = "compiling kernels"
"""Names of the preparation phases; anything else than ``maps`` is a kernel module."""
LOGGED = (
    "device", "update", "global_step", "opponent", "win_rate", "path", "checkpoint", "trial", "rung", "value", "run",
    "reason", "message",
)  # fmt: skip


class RunLink:
    """Connection of the training loop with the run folder: records, progress, stop and checkpoint requests."""

    def __init__(self, paths: RunPaths, log: EventLog, phase: str = TRAINING) -> None:
        self._has_earlier_session = paths.metrics.stat().st_size > 0
        self.paths = paths
        self.last: events.Event | None = None
        self._log = log
        self._signals, self._signalled = 0, -REPEAT_S
        self._parent = os.getppid()
        self._phase, self._update, self._step = "starting", 0, 0
        self._running_phase = phase
        self._progress_written = -PROGRESS_S
        self._usage: ResourceUsage | None = None
        self._alert_rules = TrainingAlertRules()

    def emit(self, event: events.Event) -> None:
        """Append a record and its alerts; a checkpoint's record survives a crash of the machine."""
        if isinstance(event, events.EventUpdate) and self._usage is not None:
            event = replace(event, **self._usage.sample())
        self._append(event)
        for alert in self._alert_rules.check(event):
            self._append(alert)
        self.write_progress()

    def _append(self, event: events.Event) -> None:
        if isinstance(event, events.EventStart):
            self._phase = self._running_phase
            self._usage = ResourceUsage(self.paths, event.device)
            self._progress_written = -PROGRESS_S
            if self._has_earlier_session and event.start_update == 0 and self._running_phase == TRAINING:
                self._log.append(
                    events.EventResume(
                        update=0, global_step=0, message="no checkpoint yet, training restarts from update 0"
                    )
                )
        self._log.append(event)
        if isinstance(event, (events.EventCheckpoint, events.EventEnd)):
            self._log.sync()
        self._update = getattr(event, "update", self._update)
        self._step = getattr(event, "global_step", self._step)
        self.last = event
        if not isinstance(event, UNLOGGED):
            print(log_line(event), flush=True)

    def sync_records(self) -> None:
        self._log.sync()

    def progress(self, task: str, done: int, total: int) -> None:
        self._phase = f"starting, {PREPARING.get(task, COMPILING)} {done}/{total}"
        self.write_progress()

    def report(self, done: int, total: int, unit: str) -> None:
        """Report how much of a job is done; call ``should_stop`` or ``write_progress`` for it to be written."""
        self._phase = f"{self._running_phase}, {done} of {total} {unit}"

    def should_stop(self) -> int:
        """Return 0 to continue, 1 to stop and save after this update, 2 to stop at once; called at every decision."""
        self.write_progress()
        if self._is_orphaned():
            return LEVEL_ABANDON
        return min(LEVEL_ABANDON, max(self._signals, len(control.stop_requests(self.paths))))

    def _is_orphaned(self) -> bool:
        """Whether the supervisor has ended; one of several processes exits, as collective calls could hang."""
        if os.getppid() == self._parent:
            return False
        if world_size() > 1:
            raise SystemExit(FAILED)
        return True

    def want_checkpoint(self) -> bool:
        # a folder in its place would not go away
        if not self.paths.checkpoint_now.is_file():
            return False
        with contextlib.suppress(OSError):
            self.paths.checkpoint_now.unlink()
        return True

    def write_progress(self) -> None:
        """Write the progress file at most every ``PROGRESS_S``; a full disk is detected by the metrics instead."""
        now = time.monotonic()
        if now - self._progress_written < PROGRESS_S:
            return
        self._progress_written = now
        row = {
            "time": time.time(),
            "monotonic": now,
            "boot_id": boot_id(),
            "phase": self._phase,
            "update": self._update,
            "global_step": self._step,
        }
        with contextlib.suppress(OSError):
            atomic_write(self.paths.progress, json.dumps(row) + "\n", durable=False)

    def catch_signals(self) -> None:
        """Handle SIGTERM and SIGINT as stop requests, repeated ones as one, and ignore SIGHUP."""

        def count(*_: object) -> None:
            self._signals += time.monotonic() - self._signalled > REPEAT_S
            self._signalled = time.monotonic()

        signal.signal(signal.SIGTERM, count)
        signal.signal(signal.SIGINT, count)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


class SecondaryRunLink(RunLink):
    """Link of a process with rank > 0: it forwards its own signals and writes no records."""

    def emit(self, event: events.Event) -> None:
        self.last = event

    def write_progress(self) -> None:
        pass

    def want_checkpoint(self) -> bool:
        return False

    def should_stop(self) -> int:
        self._is_orphaned()
        return min(LEVEL_ABANDON, self._signals)


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Collect no garbage while modules are loaded, a third of the time of the simulator's, and never what they made."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def train(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    config = config_layers.validate(read_spec(paths).config)
    require_memory(config)
    with loading():
        from echelon.training import loop
        from echelon.training.runtime.devices import free_memory

    if (free := free_memory(config.device)) is not None:
        require_gpu_memory(config, free)
    try:
        loop.run(
            config,
            link.emit,
            link.should_stop,
            run_dir=paths,
            resume=resume,
            want_checkpoint=link.want_checkpoint,
            progress=link.progress,
            sync_records=link.sync_records,
        )
    except ValueError as error:
        if resume and not rank() and withdraw(paths):
            raise ValueError(f"{error}; the run keeps the settings that it had before this resume") from error
        raise


def withdraw(paths: RunPaths) -> bool:
    """Return a run to the settings with which it last trained, where those of a resume have never begun."""
    spec, start = read_spec(paths), read_latest(paths.metrics, until=(events.EventStart,)).start
    if start is None or start.time >= spec.created:
        return False
    write_spec(paths, replace(spec, config=start.config))
    return True


def rank() -> int:
    return int(os.environ.get("RANK") or 0) if world_size() > 1 else 0


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE") or 1)


def log_line(event: events.Event) -> str:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
    values = [f"{name}={getattr(event, name)}" for name in LOGGED if getattr(event, name, "") != ""]
    return f"{stamp} {event.kind} {' '.join(values)}"


def is_of_lost_rank(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in LOST_RANK)


def explain(error: BaseException) -> str:
    """Return an exception as one line; other types than ``ValueError`` and ``OSError`` are named."""
    text = " ".join(error_text(error).split())
    if isinstance(error, MemoryError):
        return f"out of memory: {text or 'try a lower num_envs or bank_maps'}"
    if isinstance(error, RuntimeError) and (full := next((mark for mark in FULL_GPU if mark in text), "")):
        cause = text[text.index(full) :].partition(". ")[0]
        return f"{cause}; try a lower num_envs, or more ppo.num_minibatches if it failed in an update"
    if isinstance(error, (ValueError, OSError)):
        return text
    if is_of_lost_rank(error):
        return f"lost another process of the run: {text.rpartition('] ')[2].partition('. ')[0]}"
    return f"{type(error).__name__}: {text}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="echelon.jobs.worker")
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--resume", help="checkpoint to resume from, or 'latest'")
    parser.add_argument("--ranks", help="nodes and processes of each, as 2x8; srun starts them")
    return parser


def main(
    argv: Sequence[str] | None = None,
    work: Callable[[RunPaths, RunLink, str | None], None] = train,
    phase: str = TRAINING,
) -> int:
    """Run ``work`` on a run folder, in ``phase`` once started; return an exit code."""
    options = _parser().parse_args(argv)
    faulthandler.enable()
    try:
        paths = OpenRun(options.run)
        with EventLog(paths.metrics) as log:
            link = (SecondaryRunLink if rank() else RunLink)(paths, log, phase)
            link.catch_signals()
            link.write_progress()
            # before torch is loaded, which ``work`` does
            os.environ.update(thread_environment())
            try:
                work(paths, link, options.resume)
            except Exception as error:
                traceback.print_exc()
                message = f"process {rank()}: {explain(error)}" if rank() else explain(error)
                # the others tell why, or cannot: then the run goes on from its last checkpoint
                is_lost = is_of_lost_rank(error)
                with contextlib.suppress(OSError):
                    if not is_lost:
                        (log.append if rank() else link.emit)(events.EventEnd(reason="failed", message=message))
                print(message, file=sys.stderr, flush=True)
                return LOST if is_lost else FAILED
    except OSError as error:
        print(f"run folder {str(options.run)!r} cannot be written: {reason_of(error)}", file=sys.stderr, flush=True)
        return FAILED
    return STOPPED if isinstance(link.last, events.EventEnd) and link.last.reason == "stopped" else COMPLETED


def start(argv: Sequence[str] | None = None) -> int:
    """Train as one process of a run; the first that torchrun or a job script starts gets a supervisor, as others have.

    It holds the run's lock and records processes and end; ``main`` runs below it, with the same environment. torchrun
    and srun get 0 for a stopped run, since they take any other code for a failure.
    """
    options = _parser().parse_args(argv)
    root = options.run.absolute()
    words = [str(root), *(("--resume", options.resume) if options.resume else ())]
    if os.environ.get(SUPERVISED) == os.path.realpath(root):
        return main(words)
    ranks = [RANKS, options.ranks] if options.ranks else []
    code = main(words) if rank() else _supervise(root, [*ranks, "echelon.jobs.worker", *words])
    return COMPLETED if code == STOPPED else code


def _supervise(root: Path, words: list[str]) -> int:
    from echelon.jobs import supervisor

    try:
        paths = OpenRun(root)
        for folder in (paths.log, paths.control, paths.checkpoints):
            make_folder(folder)
        with supervisor.begin(paths, [*PYTHON_MODULE, *words], slots=()) as found:
            supervisor.start_observer(paths)
            code = found.run()
    except (StartError, OSError) as error:
        print(error_text(error), file=sys.stderr, flush=True)
        return FAILED
    if code not in (COMPLETED, STOPPED):
        print((read_json(paths.exit) or {}).get("message", ""), file=sys.stderr, flush=True)
    return code if code >= 0 else FAILED


if __name__ == "__main__":
    leave(start())
