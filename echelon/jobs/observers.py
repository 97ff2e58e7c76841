"""Observers of a run: URLs that get notifications through apprise, and live mirrors of its curves.

They are stored beside the runs, in ``.observers`` of the runs folder, which only its user can read: URLs are secrets,
and a run folder is copied between people. A supervisor with observers starts ``python -m echelon.jobs.observers RUN``.
The process follows the run's records and has a thread for each observer, so one that does not answer delays neither
the run nor another observer. It ends at the latest ``LINGER_S`` after the run. After a kill the next one continues at
the stored position.
"""

import contextlib
import glob
import importlib
import json
import logging
import math
import os
import queue
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from echelon.files import atomic_write
from echelon.jobs import lock
from echelon.jobs.spec import NOTIFY_VARIABLE, read_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths, follow_folder, read_json
from echelon.telemetry.events import Event, EventAlert, EventEval, EventResume, EventRung, EventUpdate
from echelon.telemetry.export import rows
from echelon.telemetry.log import EventFollower
from echelon.telemetry.mirrors import MIRRORS, Mirror, require_mirror

FOLDER = ".observers"
"""Folder beside the runs."""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
MAX_OBSERVERS = 16
PAUSES_S = (2.0, 10.0)
"""Pauses before further attempts to send a message [s]."""
TIMEOUT_S = 10.0
"""Longest wait for a connection, and for an answer [s]."""
MAX_CHARS = 2_000
"""Longest message."""
POLL_S, SAVE_S = 1.0, 10.0
"""Time between two looks at the records, and between two notes of the position in them [s]."""
LINGER_S = 120.0
"""Longest time for the last messages after the run has ended [s]."""
REQUEST_S = 60.0
"""Longest time between the observers of a new run and its request [s]."""
MAX_QUEUED = 10_000
"""Records that wait for an observer; further ones are dropped."""
READ_BYTES = 4 << 20
"""Bytes of records read per look."""
ALERT_PAUSE_S, MAX_ALERTS = 30.0, 30
"""Least time between two alerts with the same text [s], and most alerts of a session."""


@dataclass(frozen=True, kw_only=True)
class Observers:
    """Observers of one run."""

    notify: tuple[str, ...] = ()
    """URLs."""
    mirrors: tuple[str, ...] = ()
    """Rows of ``mirrors.MIRRORS``, each with an optional ``=target``."""


def observers_path(paths: RunPaths) -> Path:
    """Return the file of a run's observers, which keeps its name where the run's folder is renamed.

    The number of a deleted folder may be that of a later one, which is of a run that was requested later.
    """
    own, created = paths.root.parent / FOLDER / f"{paths.id}.json", (read_json(paths.spec) or {}).get("created")
    if own.exists() or not isinstance(created, float):
        return own
    inode = os.stat(paths.root).st_ino
    for file in own.parent.glob("*.json"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime + REQUEST_S > created and (read_json(file) or {}).get("inode") == inode:
                return file
    return own


def requested(notify: Sequence[str] = (), mirrors: Sequence[str] = ()) -> Observers:
    """Return the observers that options and environment name; ``ValueError`` for one that cannot be used."""
    urls = [*notify, *os.environ.get(NOTIFY_VARIABLE, "").split()]
    for url in urls:
        open_target(url)
    for text in mirrors:
        require_mirror(text.partition("=")[0])
    if len(urls) + len(mirrors) > MAX_OBSERVERS:
        raise ValueError(f"{len(urls) + len(mirrors)} observers, expected at most {MAX_OBSERVERS}")
    return Observers(notify=tuple(dict.fromkeys(urls)), mirrors=tuple(dict.fromkeys(mirrors)))


def write_observers(paths: RunPaths, observers: Observers) -> None:
    """Store the observers of a run, if there are any."""
    if observers == Observers():
        return
    path = observers_path(paths)
    path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    os.chmod(path.parent, PRIVATE_FOLDER)
    row = {**asdict(observers), "inode": os.stat(paths.root).st_ino}
    atomic_write(path, json.dumps(row) + "\n", mode=PRIVATE_FILE)


def mirrors_of_trial(sweep: RunPaths, run: str) -> Observers:
    """Return the mirrors of a sweep for the run of a trial; a folder gets a subfolder for each run."""
    found = []
    for text in read_observers(sweep).mirrors:
        name, equals, target = text.partition("=")
        is_folder = bool(target) and name in MIRRORS and MIRRORS[name].target == "folder"
        found.append(f"{name}{equals}{os.path.join(target, run) if is_folder else target}")
    return Observers(mirrors=tuple(found))


def read_observers(paths: RunPaths) -> Observers:
    """Return the observers of a run; none where the file is another user's or of another folder of that name."""
    path = observers_path(paths)
    try:
        found, row = os.lstat(path), read_json(path) or {}
        owned = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
        if not owned or os.stat(paths.root).st_ino != row.get("inode"):
            return Observers()
    except OSError:
        return Observers()
    return Observers(notify=_texts(row.get("notify")), mirrors=_texts(row.get("mirrors")))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value[:MAX_OBSERVERS] if isinstance(text, str)) if isinstance(value, list) else ()


def remove_observers(paths: RunPaths) -> None:
    """Delete what is stored about the observers of a run."""
    path = observers_path(paths)
    for file in path.parent.glob(f"{glob.escape(path.stem)}.*"):
        with contextlib.suppress(OSError):
            file.unlink()


def open_target(url: str) -> Any:
    """Return apprise's service for a URL.

    ``ValueError``, which does not repeat the URL, for one that cannot be used, and where apprise is not installed.
    """
    try:
        apprise = importlib.import_module("apprise")
    except ImportError:
        raise ValueError("apprise is not installed; try: pip install 'echelon[notify]'") from None
    # its messages contain URLs
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    target = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if target is None:
        raise ValueError(
            "URL of --notify cannot be used, expected one that apprise knows, such as ntfys://ntfy.sh/TOPIC, "
            "https://hooks.slack.com/services/... or jsons://HOST/PATH"
        )
    target.socket_connect_timeout = target.socket_read_timeout = TIMEOUT_S
    return target


def send(target: Any, level: str, title: str, text: str, pause: Callable[[float], object] = time.sleep) -> None:
    """Send a message of one of apprise's levels: ``success``, ``warning`` or ``failure``; log it if it is not sent."""
    for wait_s in (0.0, *PAUSES_S):
        pause(wait_s)
        if target.notify(title=title[:MAX_CHARS], body=text[:MAX_CHARS], notify_type=level):
            return
    log(f"{target.service_name} was not reached")


class Channel(threading.Thread):
    """A thread that makes the calls for one observer, and drops them where it does not keep up."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue(MAX_QUEUED)
        self.dropped = 0
        """Calls that did not fit."""

    def put(self, call: Callable[[], None] | None) -> None:
        """Queue a call without waiting; None ends the thread."""
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            self.dropped += 1

    def run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception as error:
                # packages of others can fail in any way; a message of theirs may contain an address
                log(f"{self.name}: {type(error).__name__}")


def show(mirror: Callable[[], Mirror], event: Event) -> None:
    """Pass a record on to a mirror, which its first curve opens."""
    if isinstance(event, EventResume):
        mirror().resume(event)
    elif found := list(rows([event])):
        mirror().write(found)


def log(text: str) -> None:
    """Write a line into the observers' log."""
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


class Observer:
    """Reports one run from where an earlier observer stopped."""

    def __init__(self, paths: RunPaths, observers: Observers) -> None:
        self.paths = paths
        self._state_path = observers_path(paths).with_suffix(".state")
        offset = (read_json(self._state_path) or {}).get("offset")
        size = paths.metrics.stat().st_size if paths.metrics.exists() else 0
        if not isinstance(offset, int) or not 0 <= offset <= size:
            offset = 0
        self._follower = EventFollower(paths.metrics, offset=offset)
        self._alerts: dict[str, float] = {}
        self._alert_count = 0
        self._update: EventUpdate | None = None
        self._eval: EventEval | None = None
        self._rung: EventRung | None = None
        """The best trial of a sweep: of those that came furthest the one with the largest value."""
        self._urls = [(Channel("notification"), url) for url in observers.notify]
        self._mirrors = [(Channel(text.partition("=")[0]), self._opener(text)) for text in observers.mirrors]
        self._channels = [channel for channel, _ in (*self._urls, *self._mirrors)]
        for channel in self._channels:
            channel.start()

    def _opener(self, text: str) -> Callable[[], Mirror]:
        """Return a function that opens a mirror once, which may take seconds or need a network."""
        name, _, target = text.partition("=")
        return cache(lambda: MIRRORS[name].open(self.paths.root, target, read_spec(self.paths).config))

    def poll(self) -> bool:
        """Pass on new records; return whether there were any."""
        self._follower.path = self.paths.metrics
        events = self._follower.poll(READ_BYTES)
        for event in events:
            if isinstance(event, EventUpdate):
                self._update = event
            elif isinstance(event, EventEval):
                self._eval = event
            elif isinstance(event, EventRung) and math.isfinite(event.value):
                self._rung = max(filter(None, (self._rung, event)), key=lambda found: (found.rung, found.value))
            elif isinstance(event, EventAlert) and event.level != "info" and self._is_new(event.message):
                self._notify("warning", f"{self.paths.id}: {event.level}", event.message)
            for channel, mirror in self._mirrors:
                channel.put(partial(show, mirror, event))
        return bool(events)

    def _is_new(self, text: str) -> bool:
        """Whether an alert is sent: neither one of many nor a repetition."""
        now = time.monotonic()
        if self._alert_count >= MAX_ALERTS or now - self._alerts.get(text, -ALERT_PAUSE_S) < ALERT_PAUSE_S:
            return False
        self._alerts[text], self._alert_count = now, self._alert_count + 1
        return True

    def _notify(self, level: str, title: str, text: str) -> None:
        for channel, url in self._urls:
            channel.put(lambda url=url: send(open_target(url), level, title, text))

    def finish(self, status: JobStatus, linger_s: float = LINGER_S) -> None:
        """Report how the session ended and wait, for ``linger_s`` at most, until everything is sent."""
        while self.poll():
            pass
        failed = status.state not in ("completed", "stopped")
        text = ". ".join(part for part in (status.reason, self._result()) if part)
        level = "failure" if failed else "success"
        self._notify(level, f"{self.paths.id} {status.state}", text or "no result yet")
        for channel, mirror in self._mirrors:
            channel.put(lambda mirror=mirror: mirror().close(failed) if mirror.cache_info().currsize else None)
        for channel in self._channels:
            channel.put(None)
        deadline = time.monotonic() + linger_s
        for channel in self._channels:
            channel.join(max(0.0, deadline - time.monotonic()))
            if channel.is_alive() or channel.dropped:
                log(f"{channel.name}: {channel.dropped} dropped{', did not end' * channel.is_alive()}")
        self.save()

    def _result(self) -> str:
        """Return the newest evaluation and the length of the training in one line; empty without any."""
        update, found, parts = self._update, self._eval, []
        if found is not None:
            has_interval = found.win_low == found.win_low
            interval = f" ({100 * found.win_low:.0f}-{100 * found.win_high:.0f})" if has_interval else ""
            parts.append(f"evaluation {100 * found.win_rate:.0f} %{interval} against {found.opponent}")
        if (best := self._rung) is not None:
            parts.append(f"best trial {best.trial}: {best.value:.3g} at {best.global_step} steps")
        if update is not None:
            parts.append(f"update {update.update}, {update.global_step} steps in {update.elapsed_s / 60:.0f} min")
        return "; ".join(parts)

    def save(self) -> None:
        """Store where the next observer continues."""
        with contextlib.suppress(OSError):
            atomic_write(self._state_path, json.dumps({"offset": self._follower.position}), mode=PRIVATE_FILE)


def main(argv: Sequence[str] | None = None) -> int:
    """Report the run of a folder until its session has ended."""
    (folder,) = sys.argv[1:] if argv is None else argv
    paths = follow_folder(RunPaths(Path(folder)))
    observers = read_observers(paths)
    if observers == Observers():
        return 0
    # a session may begin before the observer of the one before has ended
    if lock.acquire(observers_path(paths).with_suffix(".lock"), 2 * LINGER_S) is None:
        log("another observer reports this run")
        return 0
    with contextlib.suppress(OSError):
        os.nice(10)
    observer, saved_at = Observer(paths, observers), time.monotonic()
    while lock.is_held(paths.lock):
        if observer.poll() and time.monotonic() - saved_at > SAVE_S:
            observer.save()
            saved_at = time.monotonic()
        time.sleep(POLL_S)
    observer.finish(job_status(paths))
    # threads of packages, or a request without answer, must not keep the process
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
