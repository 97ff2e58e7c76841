"""The process that trains: ``python -m echelon.jobs.worker RUN [--resume CHECKPOINT]``, started by a supervisor.

Several may train together, each told its rank by the environment; the first of them is the one that speaks.
It turns the run's spec into a configuration, gives the training loop a way to speak (``metrics.jsonl``) and to be
spoken to (``control/``), beats, and turns a failure into one clear line and an exit code. The loop itself is
``echelon.training.loop``.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from echelon.jobs import config_layers, control
from echelon.jobs.alerts import TrainingAlertRules
from echelon.jobs.process import boot_id
from echelon.jobs.spec import read_spec
from echelon.jobs.usage import ResourceUsage
from echelon.runs import RunPaths, atomic_write
from echelon.telemetry.events import (
    Event,
    EventCheckpoint,
    EventEnd,
    EventEpisodes,
    EventResume,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.log import EventLog

BEAT_S = 1.0
"""Least time between two beats."""

LEVEL_SAVE, LEVEL_ABANDON = 1, 2
"""Stop after the update and save; or at once, keeping the last checkpoint."""

TRAINING = "training"
"""What a job does once it has begun, unless it says otherwise."""

COMPLETED, FAILED, STOPPED = 0, 1, 4
"""Exit codes."""

QUIET = (EventUpdate, EventEpisodes)
"""Records too frequent for the log; they are in the metrics."""

PREPARING = {"maps": "preparing maps"}
COMPILING = "compiling kernels"
"""What a phase is called before training; kernels are announced by the name of their module."""

LOGGED = ("device", "update", "global_step", "opponent", "win_rate", "path", "checkpoint", "reason", "message")
"""Fields of a record that its line in the log shows."""


class RunLink:
    """What connects the training loop with the run folder."""

    def __init__(self, paths: RunPaths, log: EventLog, phase: str = TRAINING) -> None:
        self._anew = paths.metrics.stat().st_size > 0
        self.paths = paths
        self.last: Event | None = None
        self._log = log
        self._signals = 0
        self._parent = os.getppid()
        self._phase, self._update, self._step = "starting", 0, 0
        self._started = phase
        self._beaten = -BEAT_S
        self._usage: ResourceUsage | None = None
        self._watch = TrainingAlertRules()

    def emit(self, event: Event) -> None:
        """Append a record and the alerts it raises, an update with what it used of the machine.

        What a checkpoint names must be on the disk before the world hears of it.
        """
        if isinstance(event, EventUpdate) and self._usage is not None:
            event = replace(event, **self._usage.sample())
        self._append(event)
        for alert in self._watch.look(event):
            self._append(alert)
        self.beat()

    def _append(self, event: Event) -> None:
        if isinstance(event, EventStart):
            self._phase = self._started
            self._usage = ResourceUsage(self.paths.root, event.device)
            self._beaten = -BEAT_S
            if self._anew and event.start_update == 0 and self._started == TRAINING:
                self._log.append(EventResume(update=0, global_step=0, message="no checkpoint yet, so it begins anew"))
        self._log.append(event)
        if isinstance(event, (EventCheckpoint, EventEnd)):
            self._log.sync()
        self._update = getattr(event, "update", self._update)
        self._step = getattr(event, "global_step", self._step)
        self.last = event
        if not isinstance(event, QUIET):
            print(log_line(event), flush=True)

    def progress(self, what: str, done: int, total: int) -> None:
        """Let the beat say how far the preparations are."""
        self._phase = f"starting, {PREPARING.get(what, COMPILING)} {done}/{total}"
        self.beat()

    def should_stop(self) -> int:
        """Return 0 to go on, 1 to save after this update, 2 to leave at once; cheap enough for every decision."""
        self.beat()
        if self._leave_orphaned():
            return LEVEL_ABANDON
        return min(LEVEL_ABANDON, max(self._signals, len(control.stop_requests(self.paths))))

    def _leave_orphaned(self) -> bool:
        """Whether the parent is gone; of several processes each leaves at once, since no exchange can be counted on."""
        if os.getppid() == self._parent:
            return False
        if world_size() > 1:
            raise SystemExit(FAILED)
        return True

    def want_checkpoint(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        if not self.paths.checkpoint_now.exists():
            return False
        with contextlib.suppress(FileNotFoundError):
            self.paths.checkpoint_now.unlink()
        return True

    def beat(self) -> None:
        """Write the beat if the last one is old enough; a full disk is the metrics' business, not the beat's."""
        now = time.monotonic()
        if now - self._beaten < BEAT_S:
            return
        self._beaten = now
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
        """Take SIGTERM and SIGINT as requests to stop; a closed terminal is none."""

        def ask(*_: object) -> None:
            self._signals += 1

        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


class SecondaryRunLink(RunLink):
    """The link of a process that trains along: it may ask to stop, and the first process says everything."""

    def emit(self, event: Event) -> None:
        self.last = event

    def beat(self) -> None:
        pass

    def want_checkpoint(self) -> bool:
        return False

    def should_stop(self) -> int:
        """Return what this process's own signals ask for; the control folder is the first process's to read."""
        self._leave_orphaned()
        return min(LEVEL_ABANDON, self._signals)


def train(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    """Train as the run's spec says; the heavy imports happen here, after the thread budget is set."""
    config = config_layers.validate(read_spec(paths).config)
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.training import loop

    loop.run(
        config,
        link.emit,
        link.should_stop,
        run_dir=paths.root,
        resume=resume,
        want_checkpoint=link.want_checkpoint,
        progress=link.progress,
    )


def rank() -> int:
    """Return the number of this process among those that train together."""
    return int(os.environ.get("RANK") or 0) if world_size() > 1 else 0


def world_size() -> int:
    """Return how many processes train together."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def log_line(event: Event) -> str:
    """Return a record as a line for the log: time, kind, and what matters of it."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
    said = [f"{name}={getattr(event, name)}" for name in LOGGED if getattr(event, name, "") != ""]
    return f"{stamp} {event.kind} {' '.join(said)}"


def explain(error: BaseException) -> str:
    """Return a failure as one line; users' errors speak for themselves, others also name their type."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return f"out of memory: {text or 'lower num_envs or bank_maps'}"
    if isinstance(error, (ValueError, OSError)):
        return text
    return f"{type(error).__name__}: {text}"


def main(
    argv: Sequence[str] | None = None,
    work: Callable[[RunPaths, RunLink, str | None], None] = train,
    phase: str = TRAINING,
) -> int:
    """Do the ``work`` of the run, called ``phase`` once it has begun; return 0 completed, 4 stopped, 1 failed."""
    parser = argparse.ArgumentParser(prog="echelon.jobs.worker", description=__doc__)
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--resume", help="checkpoint to go on from, or 'latest'")
    options = parser.parse_args(argv)
    faulthandler.enable()
    paths = RunPaths(options.run)
    try:
        with EventLog(paths.metrics) as log:
            link = (SecondaryRunLink if rank() else RunLink)(paths, log, phase)
            link.catch_signals()
            link.beat()
            try:
                work(paths, link, options.resume)
            except Exception as error:
                traceback.print_exc()
                said = f"process {rank()}: {explain(error)}" if rank() else explain(error)
                with contextlib.suppress(OSError):
                    (log.append if rank() else link.emit)(EventEnd(reason="failed", message=said))
                print(said, file=sys.stderr, flush=True)
                return FAILED
    except OSError as error:
        print(f"run folder {str(paths.root)!r} cannot be written: {error}", file=sys.stderr, flush=True)
        return FAILED
    return STOPPED if isinstance(link.last, EventEnd) and link.last.reason == "stopped" else COMPLETED


if __name__ == "__main__":
    sys.exit(main())
