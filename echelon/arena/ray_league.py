"""A league of a Ray cluster, whose nodes share no file system.

Its one writer is an actor on the head, whose ``ECHELON_HOME`` has ``league.db``: a ``SharedDesk``, made by whoever asks
first and made again by Ray when it ends. It names policies by the hash of their contents, and runs keep those that they
play in their own folders. An answer that is lost is asked for again: the desk stores an entry and a result once.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.arena.desk import LeagueDesk, Submission
from echelon.arena.league import find_target
from echelon.arena.ray_matches import MAX_CHARS, Files, RayHosts, connect, read_files, write_files
from echelon.arena.store import Store, league_path

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from echelon.arena.batches import BatchPlayer

NAMESPACE, ACTOR = "echelon", "league"
HEAD = "node:__internal_head__"
"""Resource that only the head of a cluster has."""
READ, READERS, RETRIES = "read", 4, 3
"""Calls that go on while matches are played, how many at a time, and how often Ray repeats a call whose actor ended."""
KEPT = 64
"""Most policies in the folder of a run, at least the pool of its opponents."""
LIMIT_S, POLL_S = 300.0, 0.2
"""Longest wait for an answer without matches [s]; time between two looks for one."""


def content_hash(files: Files) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


class SharedDesk(LeagueDesk):
    """The desk of a league whose runs cannot read its folder: a policy's path is the hash of its contents."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path or league_path())
        self._hashes: dict[tuple[Path, int, int], str] = {}
        """By path, size and time of change [ns]."""
        self._paths: dict[str, Path] = {}

    def read(self, run: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
        league, results = super().read(run)
        for entry in league["entries"]:
            if entry["ckpt_path"]:
                entry["ckpt_path"] = self._hash(Path(entry["ckpt_path"]))
        return league, results

    def policy(self, name: str) -> Files:
        """Return the policy with this hash."""
        if name not in self._paths:
            self.read("")
        if name not in self._paths:
            raise ValueError(f"policy {name!r} is not in the league {str(self.path)!r}, expected that of an entry")
        return read_files(self._paths[name])

    def find(self, name: str, what: str) -> str:
        """Return the hash of the policy of an entry, or of the newest of a run; ``ValueError`` calls it ``what``."""
        with Store(self.path) as store:
            entry = find_target(store.league(), name, 0, what)
        if not entry.ckpt_path:
            raise ValueError(f"{what} is {name!r}, a scripted level, expected a policy of the league")
        return self._hash(Path(entry.ckpt_path))

    def player(self, folder: Path) -> BatchPlayer | None:
        """Return what plays on any node, beside the run that waits for the result."""
        return RayHosts(connect(), folder, 0)

    def _hash(self, path: Path) -> str:
        """Return the hash of a policy, or a word where its file is missing."""
        try:
            info = path.stat()
            key = (path, info.st_size, info.st_mtime_ns)
            if key not in self._hashes:
                self._hashes[key] = content_hash(read_files(path))
        except OSError:
            return "missing"
        self._paths[self._hashes[key]] = path
        return self._hashes[key]


class RemoteDesk:
    """A run's access to a ``SharedDesk``, with the policies that it has fetched, by hash, in a bounded folder."""

    def __init__(self, folder: Path, call: Callable[..., Any]) -> None:
        """``call`` is that of ``RayCalls``."""
        self.folder, self._call = folder.absolute(), call

    def join(self, signature: dict[str, Any]) -> None:
        self._call("join", signature)

    def read(self, run: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
        league, results = self._call("read", run)
        for entry in league["entries"]:
            if entry["ckpt_path"]:
                entry["ckpt_path"] = str(self.folder / entry["ckpt_path"])
        return league, results

    def submit(
        self, submission: Submission, should_stop: Callable[[], bool] = lambda: False
    ) -> tuple[dict[str, Any] | None, list[str]]:
        """As ``LeagueDesk.submit``; a run that stops does not wait for the matches."""
        try:
            return self._call("submit", submission, limit_s=math.inf, should_stop=should_stop)
        except InterruptedError:
            return None, []

    def find(self, name: str, what: str) -> Path:
        """Return the path of the policy that a name in the league refers to."""
        return Path(self.locate(self._call("find", name, what)))

    def locate(self, path: str) -> str:
        """Return the path of a policy by its hash, the last part of ``path``; it is fetched unless it is here."""
        target = self.folder / Path(path).name
        if not target.exists() or content_hash(read_files(target)) != target.name:
            files: Files = self._call("policy", target.name)
            if (found := content_hash(files)) != target.name:
                raise ValueError(f"policy {target.name!r} of the league has the hash {found!r}; add it again")
            scratch = self.folder / f".{target.name}-{os.getpid()}"
            write_files(scratch, files)
            _remove(target)
            scratch.replace(target)
        with contextlib.suppress(OSError):  # another rank may remove the same ones
            os.utime(target)
            for old in sorted(self.folder.iterdir(), key=lambda each: -each.stat().st_mtime)[KEPT:]:
                _remove(old)
        return str(target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class RayCalls:
    """Calls to the actor, from a process of their own: Ray ends a process that loses its cluster."""

    def __init__(self) -> None:
        self._child: tuple[BaseProcess, Connection] | None = None

    def __call__(
        self, method: str, *arguments: Any, limit_s: float = LIMIT_S, should_stop: Callable[[], bool] = lambda: False
    ) -> Any:
        process, pipe = child = self._child or _start()
        self._child, deadline = None, time.monotonic() + limit_s
        value, error, fault = None, None, "the head is gone; try: ray status"
        try:
            pipe.send((method, arguments))
            while not pipe.poll(POLL_S):
                if should_stop():
                    raise InterruptedError("the run stops")
                if time.monotonic() > deadline:
                    fault = f"no answer in {limit_s:.0f} s; try: ray status"
                    break
            else:
                value, error, fault = pipe.recv()
                self._child = None if fault else child
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # Ray has ended it
        finally:
            if self._child is None:
                process.kill()
        if fault:
            raise ConnectionError(f"league of the Ray cluster is out of reach: {fault}")
        if error is not None:
            raise error
        return value


def _start() -> tuple[BaseProcess, Connection]:
    """Start a process that asks the actor, and return it with a pipe to it."""
    context = multiprocessing.get_context("spawn")
    own, other = context.Pipe()
    process = context.Process(target=_ask, args=(other,), daemon=True)
    process.start()
    other.close()
    return process, own


def _ask(pipe: Connection) -> None:
    """Answer ``(method, arguments)`` by ``(value, error of the desk, other fault)``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    actor = None
    with contextlib.suppress(EOFError):
        while True:
            method, arguments = pipe.recv()
            try:
                ray = connect(namespace=NAMESPACE)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)  # for which Ray has a handler that ends in a traceback
                actor = actor or _actor(ray)
                group = {} if method == "submit" else {"concurrency_group": READ}
                pipe.send((ray.get(getattr(actor, method).options(**group).remote(*arguments)), None, ""))
            except Exception as error:
                cause = getattr(error, "cause", None)
                is_own = isinstance(cause, (OSError, ValueError, KeyError))
                pipe.send((None, cause, "") if is_own else (None, None, " ".join(str(error).split())[:MAX_CHARS]))


def _actor(ray: Any) -> Any:
    return (
        ray.remote(concurrency_groups={READ: READERS})(SharedDesk)
        .options(
            name=ACTOR,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            resources={HEAD: 0.001},
            max_restarts=-1,
            max_task_retries=RETRIES,
        )
        .remote()
    )
