"""The process that reports a run to its observers: ``python -m echelon.jobs.observer RUN``, started by a supervisor.

It follows the run's records and sends notifications and curves, each observer in a thread, so that one that does not
answer delays neither the run nor another observer. It ends after the run, at the latest ``LINGER_S`` later. Where it
continues after a kill is stored beside the observers.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from echelon.jobs import lock
from echelon.jobs.mirrors import MIRRORS, MirrorWriter
from echelon.jobs.observers import (
    Message,
    Observers,
    observers_path,
    open_target,
    read_observers,
    send,
    write_private,
)  # fmt: skip
from echelon.jobs.spec import read_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths, read_json
from echelon.telemetry.events import Event, EventAlert, EventEval, EventResume, EventUpdate
from echelon.telemetry.export import rows
from echelon.telemetry.log import EventFollower

POLL_S = 1.0
"""Time between looks at the records [s]."""
LINGER_S = 120.0
"""Longest time for the last messages after the run has ended [s]."""
MAX_QUEUED = 10_000
"""Records that wait for an observer; further ones are dropped."""
SAVE_S = 10.0
"""Time between two notes of the position in the records [s]."""
READ_BYTES = 4 << 20
"""Bytes of records read per look."""
ALERT_PAUSE_S = 30.0
"""Least time between two alerts with the same text [s]."""
MAX_ALERTS = 30
"""Most alerts of a session that are sent."""
EVENTS = {"completed": "end", "stopped": "end"}
"""Event of the final message by state; all others are failures."""


class Channel(threading.Thread):
    """A thread that hands records or messages to one observer, and drops them where it does not keep up."""

    def __init__(
        self, name: str, deliver: Callable[[Any], None], close: Callable[[bool], None] = lambda _: None
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._queue: queue.Queue[Any] = queue.Queue(MAX_QUEUED)
        self._deliver, self._close = deliver, close
        self.dropped = 0
        """Items that did not fit."""

    def put(self, item: object) -> None:
        """Queue an item without waiting."""
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self.dropped += 1

    def end(self, failed: bool) -> None:
        """End after what is queued."""
        self.put(_End(failed))

    def run(self) -> None:
        while True:
            item = self._queue.get()
            try:
                if isinstance(item, _End):
                    return self._close(item.failed)
                self._deliver(item)
            except Exception as error:
                # packages of others can fail in any way; a message of theirs may contain an address
                log(f"{self.name}: {type(error).__name__}")
                if isinstance(item, _End):
                    return


class _End:
    def __init__(self, failed: bool) -> None:
        self.failed = failed


def log(text: str) -> None:
    """Write a line into the observer's log."""
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


class Observer:
    """Reports one run from where an earlier observer stopped."""

    def __init__(self, paths: RunPaths, observers: Observers) -> None:
        self.paths = paths
        self._state_path = observers_path(paths).with_suffix(".state")
        stored = read_json(self._state_path) or {}
        offset = stored.get("offset")
        size = paths.metrics.stat().st_size if paths.metrics.exists() else 0
        self._offset = offset if isinstance(offset, int) and 0 <= offset <= size else 0
        self._follower = EventFollower(paths.metrics, offset=self._offset)
        self._alerts: dict[str, float] = {}
        self._alert_count = 0
        self._update: EventUpdate | None = None
        self._eval: EventEval | None = None
        self.notified = [self._notifier(url) for url in observers.notify]
        self.mirrored = [self._mirror(text) for text in observers.mirrors]
        for channel in self.channels:
            channel.start()

    @property
    def channels(self) -> Sequence[Channel]:
        return [*self.notified, *self.mirrored]

    def _notifier(self, url: str) -> Channel:
        def deliver(message: Message) -> None:
            if problem := send(open_target(url), message):
                log(problem)

        return Channel("notification", deliver)

    def _mirror(self, text: str) -> Channel:
        name, _, target = text.partition("=")
        opened: list[MirrorWriter] = []

        def writer() -> MirrorWriter:
            # opening may take seconds, or need a network
            if not opened:
                opened.append(MIRRORS[name].open(self.paths, target, read_spec(self.paths).config))
            return opened[0]

        def deliver(event: Event) -> None:
            if isinstance(event, EventResume):
                writer().resume(event)
            elif found := [row for row in rows([event]) if row.values]:
                writer().write(found)

        return Channel(name, deliver, lambda failed: opened[0].close(failed) if opened else None)

    def poll(self) -> bool:
        """Pass on new records; return whether there were any."""
        events = self._follower.poll(READ_BYTES)
        for event in events:
            if isinstance(event, EventUpdate):
                self._update = event
            elif isinstance(event, EventEval):
                self._eval = event
            elif isinstance(event, EventAlert) and event.level != "info" and self._is_new(event.message):
                self._notify("alert", f"{self.paths.id}: {event.level}", event.message)
            for channel in self.mirrored:
                channel.put(event)
        return bool(events)

    def _is_new(self, text: str) -> bool:
        """Whether an alert is sent: neither one of many nor a repetition."""
        now = time.monotonic()
        if self._alert_count >= MAX_ALERTS or now - self._alerts.get(text, -ALERT_PAUSE_S) < ALERT_PAUSE_S:
            return False
        self._alerts[text], self._alert_count = now, self._alert_count + 1
        return True

    def _notify(self, event: str, title: str, text: str) -> None:
        for channel in self.notified:
            channel.put(Message(event=event, title=title, text=text))

    def finish(self, status: JobStatus, linger_s: float = LINGER_S) -> None:
        """Report how the session ended and wait, for ``linger_s`` at most, until everything is sent."""
        while self.poll():
            pass
        event = EVENTS.get(status.state, "failure")
        text = ". ".join(part for part in (status.reason, self._result()) if part)
        self._notify(event, f"{self.paths.id} {status.state}", text or "no update yet")
        for channel in self.channels:
            channel.end(event == "failure")
        deadline = time.monotonic() + linger_s
        for channel in self.channels:
            channel.join(max(0.0, deadline - time.monotonic()))
            if channel.is_alive() or channel.dropped:
                log(f"{channel.name}: {channel.dropped} dropped{', did not end' * channel.is_alive()}")
        self.save()

    def _result(self) -> str:
        """Return the newest evaluation and the length of the training in one line; empty without any."""
        update, found, parts = self._update, self._eval, []
        if found is not None:
            interval = (
                f" ({100 * found.win_low:.0f}-{100 * found.win_high:.0f})" if found.win_low == found.win_low else ""
            )
            parts.append(f"evaluation {100 * found.win_rate:.0f} %{interval} against {found.opponent}")
        if update is not None:
            parts.append(f"update {update.update}, {update.global_step} steps in {update.elapsed_s / 60:.0f} min")
        return "; ".join(parts)

    def save(self) -> None:
        """Store where the next observer continues."""
        with contextlib.suppress(OSError):
            write_private(self._state_path, json.dumps({"offset": self._follower.position}) + "\n")


def observe(paths: RunPaths, observers: Observers, poll_s: float = POLL_S) -> None:
    """Report a session until it has ended."""
    observer, saved_at = Observer(paths, observers), time.monotonic()
    while lock.is_held(paths.lock):
        if observer.poll() and time.monotonic() - saved_at > SAVE_S:
            observer.save()
            saved_at = time.monotonic()
        time.sleep(poll_s)
    observer.finish(job_status(paths))


def main(argv: Sequence[str] | None = None) -> int:
    """Report the run of a folder; return 0."""
    (folder,) = sys.argv[1:] if argv is None else argv
    paths = RunPaths(Path(folder))
    observers = read_observers(paths)
    if observers == Observers():
        return 0
    # a session may begin before the observer of the one before has ended
    deadline = time.monotonic() + 2 * LINGER_S
    while lock.acquire(observers_path(paths).with_suffix(".lock")) is None:
        if time.monotonic() > deadline:
            log("another observer reports this run")
            return 0
    with contextlib.suppress(OSError):
        os.nice(10)
    observe(paths, observers)
    # threads of packages, or a request without answer, must not keep the process
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
