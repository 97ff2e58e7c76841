"""Run folders: paths of their files, run names and lookup; ``load`` returns the data of a run.

``RunPaths`` has one attribute per file; no other module spells these file names. The content is defined by the writers:
``telemetry`` (metrics), ``jobs`` (process state, control) and ``training`` (checkpoints).
"""

import contextlib
import fcntl
import hashlib
import os
import random
import re
import shlex
import sys
import time
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from echelon.files import make_folder, reason_of
from echelon.state_files import IrregularFileError, parse_json, read_bounded

WRITTEN_FOLDERS = ("log", "control", "checkpoints", "replays", "replays/worlds", "heat", "profile")
"""Folders of a run that jobs write into, besides the run's folder."""

ID_DIGITS = 16

LATEST, TRAINING = "latest", "train"
"""Name of the newest training run, and the kind of training runs."""
MAX_TIME_S = 1e15
"""Bound of recorded times [s since the epoch]; a number beyond it is none."""
CLOCK_TOLERANCE_S = 86_400.0
"""How far ahead of this machine's clock that of another may be [s]; a later time is that of a wrong clock."""

HOME_VARIABLE = "ECHELON_HOME"
DEFAULT_HOME = "runs"

LEAGUE_NAME, UPDATE_NAME = re.compile(r"([\w-]+) u(\d+)"), re.compile(r"update \d+")

ADJECTIVES = (
    "amber brave calm dusky eager fierce gentle hidden iron jolly keen lunar misty noble opal proud quiet "
    "rapid silent stormy swift tidal umber vivid wild young zesty crimson golden hollow"
).split()
NOUNS = (
    "badger condor dragon ember falcon gecko heron ibex jackal kestrel lynx marten newt otter panther quail "
    "raven stoat tiger urchin viper walrus yak zebra bison cobra fox hawk moose wolf"
).split()


class RunNotFoundError(ValueError):
    """No run, or more than one, matches a name."""


def __getattr__(name: str) -> Any:
    """Return ``load`` of ``echelon.run_data``, which reads what is above this layer, on first use."""
    if name == "load":
        return import_module("echelon.run_data").load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def command(*words: object) -> str:
    """Return the command line of ``echelon`` with these words, quoted for a shell: names may contain anything."""
    return shlex.join(["echelon", *map(str, words)])


class RunFile:
    """A path inside the folder of a run, as an attribute of ``RunPaths``."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, run: "RunPaths", owner: "type[RunPaths]") -> Path:
        return run.root.joinpath(*self._parts)


@dataclass(frozen=True)
class RunPaths:
    """The files of one run."""

    root: Path

    spec = RunFile("spec.json")
    """The request: configuration, provenance, versions; written once."""
    extension = RunFile("resume.json")
    """The spec of the newest resume with a changed configuration."""
    labels = RunFile("labels.json")
    placement = RunFile("placement.json")
    """Newest submission of the run to a launcher."""
    environment = RunFile("environment.json")
    """Source, packages and devices of the first session."""
    resumed_environment = RunFile("environment.resume.json")
    """The same for the newest resumed session."""
    source_diff = RunFile("source.diff")
    """Difference of the source to its commit at the first session."""
    resumed_source_diff = RunFile("source.resume.diff")
    """The same at the newest resumed session."""
    metrics = RunFile("metrics.jsonl")
    """Records, one JSON object per line, append-only."""
    evals = RunFile("evals.jsonl")
    """Results of evaluation jobs, one record per line, appended by each job under a lock on the file."""
    matches = RunFile("matches.jsonl")
    """Matches that an evaluation job has played, a record per batch, append-only."""
    trials = RunFile("trials.jsonl")
    """Journal of a sweep: its trials and their rungs, append-only."""
    exploit, page = RunFile("exploit.json"), RunFile("redteam.html")
    """How the strongest attacker of a red team wins, and the page of its report."""
    result = RunFile("result.json")
    """Result of an evaluation job, written when all matches are played."""
    lock = RunFile("supervisor.lock")
    """Lock held by the running supervisor."""
    launch_lock = RunFile("launch.lock")
    """Lock held by whoever starts the job, until its supervisor runs."""
    processes = RunFile("proc.json")
    """Process identities of supervisor and worker."""
    heartbeat = RunFile("heartbeat.json")
    progress = RunFile("progress.json")
    """Progress of the worker: phase, update, step."""
    exit = RunFile("exit.json")
    """Exit record of the newest session."""
    reserve = RunFile(".exit.reserve")
    """Reserved disk space for exit.json on a full disk."""
    log = RunFile("log")
    log_worker = RunFile("log", "worker.log")
    log_supervisor = RunFile("log", "supervisor.log")
    log_observer = RunFile("log", "observer.log")
    """Log of the process that reports the run to its observers."""
    checkpoints = RunFile("checkpoints")
    teacher = RunFile("teacher.safetensors")
    """Copy of the policy that teaches, so that a resumed run has the same teacher."""
    champion = RunFile("champion.safetensors")
    """Copy of the policy ``opponents.champion``, likewise."""
    policies = RunFile("policies")
    """Policies of a cluster's league, named by the hash of their contents."""
    replays = RunFile("replays")
    trace = RunFile("profile", "trace.json")
    """Profile of a few updates for chrome://tracing or Perfetto."""
    heat = RunFile("heat")
    channel = RunFile("channel")
    """Folder of a play session's socket and token, for its user alone."""
    play_socket = RunFile("channel", "session.sock")
    """Local socket of a play session."""
    play_token = RunFile("channel", "token")
    playing = RunFile("playing")
    """Recordings of matches that are still played, which the server does not list."""
    control = RunFile("control")
    stop = RunFile("control", "stop")
    """Stop requests, one per line."""
    checkpoint_now = RunFile("control", "checkpoint")
    """Exists while a checkpoint is requested."""

    def __fspath__(self) -> str:
        return str(self.root)

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def queued(self) -> Path:
        """Ticket of a run that the queue starts, until it has ended."""
        return self.root.parent / "queue" / "tickets" / self.id


class OpenRun(RunPaths):
    """A run whose folder this process holds open: its paths follow the folder to another name.

    ``FileNotFoundError`` names the folder once it is deleted, so that nothing is written where it was.
    """

    _root: Path
    _handle: int

    def __init__(self, root: Path) -> None:
        object.__setattr__(self, "_root", root.absolute())
        object.__setattr__(self, "_handle", os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._handle)

    @property
    def root(self) -> Path:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = self._root
        if not self._is_at(found):
            with contextlib.suppress(OSError):
                found = _path_of(self._handle)
            if not self._is_at(found):
                raise FileNotFoundError(f"run folder {str(self._root)!r} was deleted while its job ran")
            object.__setattr__(self, "_root", found)
        return found

    def _is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._handle))
        except OSError:
            return False


def follow_folder(paths: RunPaths) -> RunPaths:
    """Return paths of a run that follow its folder where it is renamed; the same ones where it cannot be opened."""
    try:
        return OpenRun(paths.root)
    except OSError:
        return paths


def is_deleted(paths: RunPaths) -> bool:
    """Whether a run's folder or its spec.json was deleted; ``rm -r`` may leave what was written meanwhile."""
    try:
        return not os.path.lexists(paths.spec)
    except FileNotFoundError:
        return True


def _path_of(handle: int) -> Path:
    """Return the path of an open folder as the system knows it now."""
    if sys.platform == "darwin":
        return Path(os.fsdecode(fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")))
    return Path(os.readlink(f"/proc/self/fd/{handle}"))


def require_plain_files(paths: RunPaths) -> None:
    """Raise ``ValueError`` for anything but files and folders in a run folder: what is written there must stay there.

    Run folders are copied between people; a link in one would let it choose which file is appended to or deleted, and a
    pipe or device would block a writer or swallow its data.
    """
    for folder in (paths.root, *(paths.root / name for name in WRITTEN_FOLDERS)):
        require_plain_folder(folder, f"run {paths.id!r}", paths.root)


def require_plain_folder(folder: Path, owner: str, root: Path | None = None) -> None:
    """Raise ``ValueError`` for anything but files and folders in a folder of ``owner``; a missing one is plain."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                kind, advice = "link", "; replace it by a copy"
            elif not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                kind, advice = "pipe or device", "; delete it"
            else:
                continue
            name = os.path.relpath(entry.path, root or folder)
            raise ValueError(f"{owner} contains the {kind} {name!r}, expected files of its own{advice}")


def runs_home(home: str | os.PathLike[str] | None = None) -> Path:
    """Return the runs folder: ``home``, else ``$ECHELON_HOME``, else ``./runs``."""
    return Path(home or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).absolute()


def require_home() -> None:
    """Raise ``RunNotFoundError`` where ``$ECHELON_HOME`` names a folder that does not exist: it is a wrong one."""
    home = os.environ.get(HOME_VARIABLE)
    if home and not os.path.isdir(home):
        raise RunNotFoundError(
            f"runs folder {home!r} (from {HOME_VARIABLE}) does not exist; try another, or start a run: echelon train"
        )


def new_run_id(preset: str, *, now: float | None = None, rng: random.Random | None = None) -> str:
    """Return ``<utc time>-<preset>-<two words>``; ``now`` is in seconds since the epoch."""
    rng = rng or random.SystemRandom()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    name = "".join(c if c.isalnum() else "_" for c in preset) or "run"
    return f"{stamp}-{name}-{rng.choice(ADJECTIVES)}-{rng.choice(NOUNS)}"


def short_run_id(run_id: str) -> str:
    """Return the last two words of a run's id, which commands accept in its place."""
    words = run_id.split("-")
    return "-".join(words[-2:]) if len(words) >= 4 and words[0].isdigit() else run_id


def policy_name(name: str, run: str = "") -> str:
    """Return a policy as every list, table and page names it: "update 345 of stormy-marten".

    Leagues store it as "stormy-marten u345", recordings of a run as "update 345", others as the run's id
    (``policyName`` of viewer/src/text.ts).
    """
    if found := LEAGUE_NAME.fullmatch(name):
        return f"update {found[2]} of {short_run_id(found[1])}"
    if run and UPDATE_NAME.fullmatch(name):
        return f"{name} of {short_run_id(run)}"
    return short_run_id(name)


def create_run(preset: str, home: str | os.PathLike[str] | None = None) -> RunPaths:
    """Create an empty run folder with a new name; ``ValueError`` where it cannot be written."""
    root = runs_home(home)
    try:
        make_folder(root)
        while True:
            paths = RunPaths(root / new_run_id(preset))
            with contextlib.suppress(FileExistsError):
                make_folder(paths.root, exist_ok=False)
                break
        for folder in (paths.log, paths.control, paths.checkpoints):
            folder.mkdir()
    except OSError as error:
        raise ValueError(
            f"runs folder {str(root)!r} cannot be written: {reason_of(error)}; try another {HOME_VARIABLE}"
        ) from error
    return paths


def list_runs(home: str | os.PathLike[str] | None = None, kind: str = "", *, parts: bool = True) -> list[RunPaths]:
    """Return every run under ``home``, or those of one kind, newest first by the recorded time of the request.

    Hidden folders, folders without spec.json and those whose names a command would take for options are no runs. A
    damaged spec.json costs names and settings only. Without ``parts``, no run that a sweep or red team has started.
    ``ValueError`` where the runs folder cannot be read.
    """
    root = runs_home(home)
    try:
        names = [name for name in os.listdir(root) if not name.startswith((".", "-"))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ValueError(
            f"runs folder {str(root)!r} cannot be read: {reason_of(error)}; try another {HOME_VARIABLE}"
        ) from error
    folder, latest_s = str(root), time.time() + CLOCK_TOLERANCE_S
    requests = {name: found for name in names if (found := _request(os.path.join(folder, name))) is not None}
    chosen = [name for name, found in requests.items() if kind in ("", found.kind) and (parts or not found.is_part)]

    def age(name: str) -> tuple[float, str]:
        created = requests[name].created
        return (created if created <= latest_s else 0.0), name

    return [RunPaths(root / name) for name in sorted(chosen, key=age, reverse=True)]


class Request(NamedTuple):
    """When a job was requested [s since the epoch], 0 where that is unknown, and its kind."""

    created: float = 0.0
    kind: str = ""
    is_part: bool = False


def _request(folder: str) -> Request | None:
    """Return the request of a run; None for a folder that is none, or that cannot be read."""
    path = os.path.join(folder, "spec.json")
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return _read_request(path, state.st_ino, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1 << 16)
def _read_request(path: str, *state: int) -> Request:
    row = read_json(Path(path)) or {}
    created, kind = row.get("created"), row.get("kind")
    if not isinstance(created, (int, float)) or abs(created) >= MAX_TIME_S:
        created = 0.0
    return Request(float(created), kind if isinstance(kind, str) else "", bool(row.get("parent")))


def find_run(name: str, home: str | os.PathLike[str] | None = None, kind: str = TRAINING) -> RunPaths:
    """Return the run with a name: a folder, an id, an unambiguous part of one, or ``latest``, the newest of a kind.
    A prefix takes precedence over another part. ``RunNotFoundError`` names the most similar or all matching runs.
    """
    if name and os.path.lexists(os.path.join(name, "spec.json")):
        return RunPaths(Path(name).absolute())
    if name == LATEST and (newest := list_runs(home, kind, parts=False)):
        return newest[0]
    by_id = {run.id: run for run in list_runs(home)}
    if name in by_id:
        return by_id[name]
    if name == LATEST and by_id:
        raise RunNotFoundError(f"no run in {str(runs_home(home))!r} is of kind {kind!r}; see: echelon runs list")
    matches = [i for i in by_id if name and i.startswith(name)] or [i for i in by_id if name and name in i]
    if len(matches) == 1:
        return by_id[matches[0]]
    if matches:
        raise RunNotFoundError(f"run {name!r} is ambiguous: {', '.join(sorted(matches))}")
    words = {"-".join(i.split("-")[-2:]): i for i in by_id}
    near = get_close_matches(name, [*by_id, *words], n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    raise RunNotFoundError(f"run {name!r} does not exist in {str(runs_home(home))!r}{hint}")


def match_id(run: str, name: str) -> str:
    """Return the id of the recorded match in file ``name`` of a run."""
    return hashlib.sha256(os.fsencode(f"{run}/{name}")).hexdigest()[:ID_DIGITS]


def read_json(path: Path, *, names: bool = False) -> dict[str, Any] | None:
    """Return the JSON object in ``path``; None where the file is missing, unreadable, damaged or no object."""
    try:
        return load_json(path, names=names)
    except OSError:
        return None


def load_json(path: Path, *, names: bool = False) -> dict[str, Any] | None:
    """Return the JSON object in ``path``; None where the file is missing, damaged, too large or no object.

    ``names`` as in ``parse_json``. ``OSError`` where the system cannot read it: that says nothing about the file.
    """
    try:
        value = parse_json(read_bounded(path), names=names)
    except (FileNotFoundError, IrregularFileError, ValueError):
        return None
    return value if isinstance(value, dict) else None
