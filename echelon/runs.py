"""What lies in a run folder and how runs are named, found and written safely.

``RunPaths`` holds one property per file, so that no other module spells a file name. What the files contain
belongs to their writers: ``telemetry`` (metrics), ``jobs`` (liveness, control) and ``training`` (checkpoints).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

HOME_VARIABLE = "ECHELON_HOME"
DEFAULT_HOME = "runs"

ADJECTIVES = (
    "amber brave calm dusky eager fierce gentle hidden iron jolly keen lunar misty noble opal proud quiet "
    "rapid silent stormy swift tidal umber vivid wild young zesty crimson golden hollow"
).split()
NOUNS = (
    "badger condor dragon ember falcon gecko heron ibex jackal kestrel lynx marten newt otter panther quail "
    "raven stoat tiger urchin viper walrus yak zebra bison cobra fox hawk moose wolf"
).split()


class RunNotFoundError(ValueError):
    """No run, or more than one, answers to a name."""


@dataclass(frozen=True)
class RunPaths:
    """The files of one run."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def spec(self) -> Path:
        """What was asked for: configuration, provenance, versions; written once."""
        return self.root / "spec.json"

    @property
    def extension(self) -> Path:
        """What the newest resume changed in the configuration, if anything."""
        return self.root / "resume.json"

    @property
    def metrics(self) -> Path:
        """Typed records, one JSON object a line, appended only."""
        return self.root / "metrics.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "supervisor.lock"

    @property
    def processes(self) -> Path:
        """Identity of supervisor and trainer."""
        return self.root / "proc.json"

    @property
    def heartbeat(self) -> Path:
        """The supervisor's beat."""
        return self.root / "heartbeat.json"

    @property
    def progress(self) -> Path:
        """The trainer's beat: phase and step."""
        return self.root / "progress.json"

    @property
    def exit(self) -> Path:
        """How the newest session ended."""
        return self.root / "exit.json"

    @property
    def reserve(self) -> Path:
        """Room that a session keeps for its exit.json, should the disk be full by then."""
        return self.root / ".exit.reserve"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def log_trainer(self) -> Path:
        return self.log / "trainer.log"

    @property
    def log_supervisor(self) -> Path:
        return self.log / "supervisor.log"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def replays(self) -> Path:
        return self.root / "replays"

    @property
    def trace(self) -> Path:
        """What a few updates spent their time on, for chrome://tracing or Perfetto."""
        return self.root / "profile" / "trace.json"

    @property
    def heat(self) -> Path:
        """Heat maps of evaluations."""
        return self.root / "heat"

    @property
    def control(self) -> Path:
        return self.root / "control"

    @property
    def stop(self) -> Path:
        """One line per request to stop."""
        return self.control / "stop"

    @property
    def checkpoint_now(self) -> Path:
        """Present while a checkpoint is asked for."""
        return self.control / "checkpoint"


def runs_home(home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds the runs: ``home``, else ``$ECHELON_HOME``, else ``./runs``."""
    return Path(home or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).absolute()


def new_run_id(preset: str, *, now: float | None = None, rng: random.Random | None = None) -> str:
    """Return ``<utc time>-<preset>-<two words>``; ``now`` is in seconds since the epoch."""
    rng = rng or random.SystemRandom()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    name = "".join(c if c.isalnum() else "_" for c in preset) or "run"
    return f"{stamp}-{name}-{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}"


def create_run(preset: str, home: str | os.PathLike[str] | None = None) -> RunPaths:
    """Make an empty run folder under a new name; ``ValueError`` says why it cannot be written."""
    root = runs_home(home)
    try:
        root.mkdir(parents=True, exist_ok=True)
        while True:
            paths = RunPaths(root / new_run_id(preset))
            with contextlib.suppress(FileExistsError):
                paths.root.mkdir()
                break
        for folder in (paths.log, paths.control, paths.checkpoints):
            folder.mkdir()
    except OSError as error:
        raise ValueError(
            f"runs folder {str(root)!r} cannot be written: {error.strerror} (set {HOME_VARIABLE} to another)"
        ) from error
    return paths


def list_runs(home: str | os.PathLike[str] | None = None) -> list[RunPaths]:
    """Return every run under ``home``, newest first; what is hidden or has no readable spec.json is none.

    ``ValueError`` says why the folder itself cannot be read.
    """
    root = runs_home(home)
    try:
        names = [name for name in os.listdir(root) if not name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ValueError(
            f"runs folder {str(root)!r} cannot be read: {error.strerror} (set {HOME_VARIABLE} to another)"
        ) from error
    return [RunPaths(root / name) for name in sorted(names, reverse=True) if _is_run(root / name)]


def _is_run(folder: Path) -> bool:
    """Whether a run lies there; a folder that may not be looked into holds none."""
    return os.path.isfile(folder / "spec.json")


def find_run(name: str, home: str | os.PathLike[str] | None = None) -> RunPaths:
    """Return the run called ``name``: a folder, an id, ``latest``, or an unambiguous part of an id.

    The beginning of an id wins over its middle. ``RunNotFoundError`` names the nearest or all matching runs.
    """
    if name and _is_run(Path(name)):
        return RunPaths(Path(name).absolute())
    runs = list_runs(home)
    if name == "latest" and runs:
        return runs[0]
    by_id = {run.id: run for run in runs}
    if name in by_id:
        return by_id[name]
    matches = [i for i in by_id if name and i.startswith(name)] or [i for i in by_id if name and name in i]
    if len(matches) == 1:
        return by_id[matches[0]]
    if matches:
        raise RunNotFoundError(f"run {name!r} is ambiguous: {', '.join(sorted(matches))}")
    words = {"-".join(i.split("-")[-2:]): i for i in by_id}
    near = get_close_matches(name, [*by_id, *words], n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise RunNotFoundError(f"run {name!r} does not exist in {str(runs_home(home))!r}{hint}")


def atomic_write(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Replace ``path`` by ``data`` so that a reader, or a crash at any time, sees the old or the new whole.

    Writes a sibling, fsyncs it, renames it and fsyncs the folder. ``OSError`` leaves the old file as it was. A
    beat that is written every second needs no ``durable`` write: it survives a crash of its writer all the same.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(raw)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        fsync_folder(path.parent)


def fsync_folder(folder: Path) -> None:
    """Make renames inside ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in ``path``, or None where the file is missing, damaged or no object."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
