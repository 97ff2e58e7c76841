"""Observers of a run: URLs that get notifications through apprise, and live mirrors of its curves.

They are stored beside the runs, in ``.observers`` of the runs folder, which only its user can read: URLs are secrets,
and a run folder is copied between people. A separate process reads the run (``observer``), so no observer slows or ends
it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from echelon.files import fsync
from echelon.jobs.mirrors import MIRRORS
from echelon.runs import RunPaths, read_json

FOLDER = ".observers"
"""Folder beside the runs."""
NOTIFY_VARIABLE = "ECHELON_NOTIFY"
"""Variable with further URLs, separated by blanks; unlike a command line, other users cannot read it."""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
MAX_OBSERVERS = 16
PAUSES_S = (2.0, 10.0)
"""Pauses before further attempts [s]."""
TIMEOUT_S = 10.0
"""Longest wait for a connection, and for an answer [s]."""
MAX_CHARS = 2_000
"""Longest message."""
LEVELS = {"end": "success", "failure": "failure", "alert": "warning"}
"""Level of apprise by event."""


@dataclass(frozen=True, kw_only=True)
class Observers:
    """Observers of one run."""

    notify: tuple[str, ...] = ()
    """URLs."""
    mirrors: tuple[str, ...] = ()
    """Rows of ``MIRRORS``, each with an optional ``=target``."""


def observers_path(paths: RunPaths) -> Path:
    """Return the file with the observers of a run."""
    return paths.root.parent / FOLDER / f"{paths.id}.json"


def requested(notify: Sequence[str] = (), mirrors: Sequence[str] = ()) -> Observers:
    """Return the observers that options and environment name; ``ValueError`` for one that cannot be used."""
    urls = [*notify, *os.environ.get(NOTIFY_VARIABLE, "").split()]
    for url in urls:
        open_target(url)
    for text in mirrors:
        name = text.partition("=")[0]
        if (kind := MIRRORS.get(name)) is None:
            raise ValueError(f"mirror {name!r} does not exist, expected one of: {', '.join(MIRRORS)}")
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"{kind.title} is not installed; try: pip install 'echelon[{name}]'")
    if len(urls) + len(mirrors) > MAX_OBSERVERS:
        raise ValueError(f"{len(urls) + len(mirrors)} observers, expected at most {MAX_OBSERVERS}")
    return Observers(notify=tuple(dict.fromkeys(urls)), mirrors=tuple(dict.fromkeys(mirrors)))


def write_observers(paths: RunPaths, observers: Observers) -> None:
    """Store the observers of a run, readable by its user alone; without any nothing changes."""
    if observers == Observers():
        return
    path = observers_path(paths)
    path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    os.chmod(path.parent, PRIVATE_FOLDER)
    row = {**asdict(observers), "inode": os.stat(paths.root).st_ino}
    write_private(path, json.dumps(row) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its user can read, durably."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    fsync(path.parent)


def mirrors_of_trial(sweep: RunPaths, run: str) -> Observers:
    """Return the observers of a trial's run: the mirrors of its sweep, a folder of which has one for each run."""
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
    for file in observers_path(paths).parent.glob(f"{_escaped(paths.id)}.*"):
        with contextlib.suppress(OSError):
            file.unlink()


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


@dataclass(frozen=True, kw_only=True)
class Message:
    """What is reported about a run."""

    event: str
    """Row of ``LEVELS``."""
    title: str
    text: str


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


def send(target: Any, message: Message, pause: Callable[[float], object] = time.sleep) -> str:
    """Send a message and return why it could not be sent; empty where it was."""
    for wait_s in (*PAUSES_S, None):
        if target.notify(
            title=message.title[:MAX_CHARS], body=message.text[:MAX_CHARS], notify_type=LEVELS[message.event]
        ):
            return ""
        if wait_s is not None:
            pause(wait_s)
    return f"{target.service_name} was not reached"
