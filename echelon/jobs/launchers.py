"""Launchers: engines that start a supervised command on a host of a cluster.

A launcher is named with its options in one text, ``slurm:partition=gpu,time=240``. The engine decides on which host and
when a command starts; the run folder, on storage that all hosts share, has everything else. The packages of the engines
are optional, and imported on use.

``placement.json`` of a run folder has the launcher, its handle, and the id of the run's newest session when it was
submitted. The supervisor that the launcher starts refuses any other session, so a run that was submitted twice, or
again after the engine had lost it, starts once.
"""

import contextlib
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from echelon.config.opponents import CLUSTER
from echelon.files import atomic_write
from echelon.jobs import control, lock
from echelon.jobs.kinds import JobKind
from echelon.jobs.process import session_id
from echelon.jobs.tickets import PYTHON_MODULE, demand_of, parsed, read_text
from echelon.jobs.usage import VISIBLE_VARIABLE
from echelon.runs import RunPaths, command

if TYPE_CHECKING:
    from echelon.jobs.spec import JobSpec

MAX_CHARS = 500
VALUE = re.compile(r"[\w.:/@%+-]+")
"""Value of an option: it becomes a word of a command or a line of a batch script."""
PASSED = re.compile(r"(ECHELON|OMP|MKL|WARP|TORCH|CUDA)_\w+|PYTHONPATH")
"""Environment variables that a command gets from the process that submits it; the engine chooses the GPUs."""
NUMBERS = ("cpus", "gpus", "time", "mem", "nodes")
SLURM_WORDS = ("partition", "account", "qos", "constraint")
SLURM_FOLDER = ".submitit"
ONE_TASK = ("--nodes=1", "--ntasks=1")
"""Options of the step that runs the supervisor, on the first node of its job."""
SLURM_MINUTES = 1440
"""Default limit of a SLURM job [min]."""
SLURM_WARNING_S = 300
"""Time before the limit of a SLURM job at which it is asked to save and end [s]."""
RAY_ASK_S, SLURM_ASK_S = 2.0, 30.0
"""Least time between two questions about the jobs of a cluster [s]."""
APPEND_LOG = ("/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1')
"""Command that appends the output of another one to a file."""
PENDING, DROPPED, ACTIVE, OVER = "pending", "dropped", "active", "over"
"""A submission that waits for a host, that will not start, whose session runs or may run, whose session has ended."""
WITHDRAWN = "withdrawn before it started"
PREEMPTIONS = ("SIGTERM", "SIGINT")
"""Origins of stop requests that come from the engine: out of time, preempted, or a host that shuts down."""


class LaunchError(ValueError):
    """A job could not be started."""


class StartError(LaunchError):
    """A job could not be started now: another process works on it, or the machine or a launcher lacks something."""


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """A command for one host, which may start processes on the other nodes of its job."""

    name: str
    command: Sequence[str]
    home: Path
    """Runs folder, which all hosts share."""
    cpus: int
    gpus: int
    nodes: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


class LaunchEngine(Protocol):
    """Starts commands on hosts and says which of them have not ended."""

    def submit(self, request: LaunchRequest) -> str:
        """Return the handle of a submitted command, by which another process finds it."""
        ...

    def is_active(self, handle: str) -> bool:
        """Whether a command waits or runs; True where the engine does not answer."""
        ...

    def cancel(self, handle: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """A launcher with its options."""

    name: str
    options: Mapping[str, str]

    def nodes(self, kind: str) -> int:
        """Return the nodes of a job: only a training spans several."""
        return max(1, int(self.options.get("nodes", 1))) if kind == "train" else 1

    @property
    def cpus(self) -> int:
        return int(self.options.get("cpus", 1))

    def gpus(self, device: str, processes: int) -> int:
        return int(self.options.get("gpus", processes if device.startswith("cuda") else 0))


class RayEngine:
    """The jobs of a Ray cluster: each command is a job of its Jobs API, which outlives the process that submits it."""

    def __init__(self, launcher: Launcher) -> None:
        self._api = importlib.import_module("ray.job_submission")
        address = launcher.options.get("address")
        try:
            self._client = self._api.JobSubmissionClient(address)
        except (RuntimeError, OSError, ValueError) as error:
            raise StartError(f"ray at {address or 'this host'} cannot be reached: {one_line(error)}") from None
        self._asked_at = -RAY_ASK_S
        self._active: frozenset[str] | None = None
        """Handles of the jobs that wait or run; None where the cluster did not answer."""

    def submit(self, request: LaunchRequest) -> str:
        try:
            handle = self._client.submit_job(
                entrypoint=f"exec {shlex.join(request.command)}",
                entrypoint_num_cpus=request.cpus,
                entrypoint_num_gpus=request.gpus or None,
                runtime_env={"env_vars": dict(request.environment)},
                metadata={"run": request.name},
            )
        except (RuntimeError, OSError) as error:
            raise StartError(f"ray refuses {request.name!r}: {one_line(error)}") from None
        self._asked_at = -RAY_ASK_S
        return str(handle)

    def is_active(self, handle: str) -> bool:
        if time.monotonic() - self._asked_at >= RAY_ASK_S:
            self._asked_at = time.monotonic()
            self._active = self._list()
        return self._active is None or handle in self._active

    def _list(self) -> frozenset[str] | None:
        try:
            jobs = self._client.list_jobs()
        except (RuntimeError, OSError):
            return None
        active = (self._api.JobStatus.PENDING, self._api.JobStatus.RUNNING)
        return frozenset(str(job.submission_id) for job in jobs if job.status in active)

    def cancel(self, handle: str) -> None:
        try:
            self._client.stop_job(handle)
        except (RuntimeError, OSError) as error:
            raise StartError(f"ray does not stop job {handle}: {one_line(error)}") from None


class SlurmEngine:
    """The SLURM jobs of one user, submitted and watched by submitit."""

    def __init__(self, launcher: Launcher) -> None:
        self._submitit = importlib.import_module("submitit")
        self._options = launcher.options
        self._asked_at = -SLURM_ASK_S

    def submit(self, request: LaunchRequest) -> str:
        options = self._options
        parameters = {name: options[name] for name in SLURM_WORDS if name in options}
        if "mem" in options:
            parameters["mem"] = f"{options['mem']}GB"
        refusal = self._submitit.core.utils.FailedSubmissionError
        try:
            executor = self._submitit.SlurmExecutor(request.home / SLURM_FOLDER)
            executor.update_parameters(
                job_name=request.name,
                time=int(options.get("time", SLURM_MINUTES)),
                cpus_per_task=request.cpus,
                signal_delay_s=SLURM_WARNING_S,
                **({"gpus_per_node": request.gpus} if request.gpus else {}),
                **({"nodes": request.nodes, "srun_args": ONE_TASK} if request.nodes > 1 else {}),
                **parameters,
            )
            job = executor.submit(run_command, tuple(request.command), dict(request.environment))
        except (refusal, RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            raise StartError(f"slurm refuses {request.name!r}: {one_line(error)}") from None
        return str(job.job_id)

    def is_active(self, handle: str) -> bool:
        watcher = self._submitit.SlurmJob.watcher
        watcher.register_job(handle)
        is_due = time.monotonic() - self._asked_at >= SLURM_ASK_S
        if is_due:
            self._asked_at = time.monotonic()
        return not watcher.is_done(handle, mode="force" if is_due else "cache")

    def cancel(self, handle: str) -> None:
        try:
            self._submitit.SlurmJob(SLURM_FOLDER, handle).cancel()
        except (OSError, subprocess.SubprocessError) as error:
            raise StartError(f"slurm does not cancel job {handle}: {one_line(error)}") from None


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command on the host of a SLURM job and return its exit code.

    Before the time limit SLURM sends SIGUSR2, maybe to every process of the job: they ignore it, and the command gets
    SIGTERM instead, upon which a supervisor lets its job save.
    """
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    child = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGUSR2, lambda *_: child.terminate())
    return child.wait()


@dataclass(frozen=True, kw_only=True)
class _Row:
    engine: type[RayEngine] | type[SlurmEngine]
    options: tuple[str, ...]


ENGINES: dict[str, _Row] = {
    "ray": _Row(engine=RayEngine, options=("address", "cpus", "gpus")),
    "slurm": _Row(engine=SlurmEngine, options=(*SLURM_WORDS, "time", "mem", "cpus", "gpus", "nodes")),
}
"""Engines by the name of the launcher and of Echelon's extra."""


def parse_launcher(text: str) -> Launcher:
    """Return the launcher of ``NAME[:OPTION=VALUE,...]``; ``ValueError`` for other text. Nothing is imported."""
    name, _, rest = text[:MAX_CHARS].partition(":")
    if name not in ENGINES:
        raise ValueError(f"launcher {name[:40]!r} does not exist, expected one of: {', '.join(ENGINES)}")
    options: dict[str, str] = {}
    for word in filter(None, rest.split(",")):
        key, _, value = word.partition("=")
        if key not in ENGINES[name].options:
            expected = ", ".join(ENGINES[name].options)
            raise ValueError(f"launcher {name} has no option {key[:40]!r}, expected one of: {expected}")
        if not VALUE.fullmatch(value) or (key in NUMBERS and not (value.isdecimal() and len(value) < 8)):
            expected = "a number" if key in NUMBERS else "letters, digits and . : / @ % + - _"
            raise ValueError(f"option {key} of launcher {name} is {value[:40]!r}, expected {expected}")
        options[key] = value
    return Launcher(name=name, options=options)


@lru_cache(maxsize=8)
def open_engine(text: str) -> LaunchEngine:
    """Return the engine of a launcher; ``StartError`` where its package is missing or it cannot be reached."""
    launcher = parse_launcher(text)
    try:
        return ENGINES[launcher.name].engine(launcher)
    except ImportError as error:
        install = f"pip install 'echelon[{launcher.name}]'"
        raise StartError(f"launcher {launcher.name} is not installed ({error}); try: {install}") from None


def passed_environment() -> dict[str, str]:
    """Return the variables of this process that a command on another host gets."""
    return {k: v for k, v in os.environ.items() if PASSED.fullmatch(k) and k != VISIBLE_VARIABLE}


def one_line(error: object) -> str:
    text: Any = " ".join(str(error).split())
    return text[:MAX_CHARS]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A submitted start of a run."""

    launcher: str
    handle: str
    session: str
    """Id of the newest session when it was submitted."""
    submitted_at: float
    """Time of the submission [s since the epoch]."""
    inode: int
    """Number of the run's folder, which a copy does not have."""


def read_placement(paths: RunPaths) -> Placement | None:
    """Return the newest submission of a run; None without one, where it is damaged, and of another folder."""
    with contextlib.suppress(OSError, ValueError):
        found = parsed(Placement, read_text(paths.placement))
        if found is not None and os.stat(paths.root).st_ino == found.inode:
            return found
    return None


def require_one_writer(paths: RunPaths, spec: "JobSpec") -> None:
    """Raise ``LaunchError`` for a training run that would write a league's database from a host of a launcher."""
    from echelon.jobs.config_layers import flatten

    config = flatten(spec.config)
    shares = [config.get(f"opponents.mix.{name}") for name in ("league", "exploiters")]
    trains_in_league = spec.kind == "train" and any(isinstance(share, (int, float)) and share > 0 for share in shares)
    if trains_in_league and config.get("opponents.league.path") != CLUSTER:
        raise LaunchError(
            f"run {paths.id!r} would write league.db from another host, expected one host that does; try: "
            f"opponents.league.path={CLUSTER} on a Ray cluster, or {command('runs', 'queue', '--launcher', 'local')}"
        )


def submit_run(paths: RunPaths, text: str, kind: JobKind, arguments: Sequence[str], spec: "JobSpec") -> None:
    """Submit the start of a run's next session; ``StartError`` where the engine refuses it."""
    require_one_writer(paths, spec)
    device, processes = demand_of(spec.kind, spec.config)
    launcher, session = parse_launcher(text), session_id(paths)
    words = kind.command(paths.root, arguments, processes, nodes := launcher.nodes(spec.kind))
    engine = open_engine(text)
    control.clear(paths)
    supervisor = [*PYTHON_MODULE, "echelon.jobs.supervisor", "--session", session, str(paths.root)]
    handle = engine.submit(
        LaunchRequest(
            name=paths.id,
            command=[*APPEND_LOG, str(paths.log_supervisor), *supervisor, *words],
            home=paths.root.parent,
            cpus=max(launcher.cpus, processes),
            gpus=launcher.gpus(device, processes),
            nodes=nodes,
            environment=passed_environment(),
        )
    )
    placement = Placement(
        launcher=text, handle=handle, session=session, submitted_at=time.time(), inode=os.stat(paths.root).st_ino
    )
    atomic_write(paths.placement, json.dumps(asdict(placement)) + "\n")


def is_pending(paths: RunPaths) -> bool:
    if not os.path.lexists(paths.placement):
        return False
    placement = read_placement(paths)
    return placement is not None and session_id(paths) == placement.session and not lock.is_held(paths.lock)


def launch_state(paths: RunPaths) -> str:
    """Return what has become of the newest submission of a run; empty without one and where its folder tells.

    The engine is asked where the folder has neither a session that runs nor a record of its end, so that a host whose
    lock is not seen here is not taken for one that went down. A dropped submission is forgotten.
    """
    if lock.is_held(paths.lock) or (paths.exit.exists() and not is_pending(paths)):
        return ""
    placement = read_placement(paths)
    if placement is None:
        return ""
    try:
        is_active = open_engine(placement.launcher).is_active(placement.handle)
    except ValueError:
        # an engine that does not answer may have the job: starting it again would wait for its lock in vain
        is_active = True
    # after the answer: a session may have begun and ended while the engine was asked
    if session_id(paths) == placement.session and not lock.is_held(paths.lock):
        if not is_active:
            paths.placement.unlink(missing_ok=True)
        return PENDING if is_active else DROPPED
    return ACTIVE if is_active else OVER


def is_preempted(paths: RunPaths) -> bool:
    origins = control.stop_origins(paths)
    return read_placement(paths) is not None and bool(origins) and set(origins) <= set(PREEMPTIONS)


def withdraw(paths: RunPaths) -> bool:
    """End a submission; return False where its session has begun. A supervisor that starts later refuses."""
    held = lock.acquire(paths.lock)
    if held is None:
        return False
    try:
        placement = read_placement(paths)
        if placement is None or session_id(paths) != placement.session:
            return False
        atomic_write(paths.processes, json.dumps({"withdrawn": time.time()}) + "\n")
        record = {"time": time.time(), "code": None, "signal": "SIGTERM", "killed_on_request": True}
        atomic_write(paths.exit, json.dumps({**record, "message": WITHDRAWN}) + "\n")
    finally:
        os.close(held)
    with contextlib.suppress(ValueError):
        open_engine(placement.launcher).cancel(placement.handle)
    return True
