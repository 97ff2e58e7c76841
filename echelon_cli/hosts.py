"""Run folders of other hosts, mirrored over ssh so that the dashboard reads them like those of this machine.

One ``ssh`` process per host runs ``host_script``, which sends what was appended to the records and logs of the newest
runs. A mirror continues where it was after a lost connection or a restart. Nothing is written on the host.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import threading
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echelon.files import LOG_FLAGS, atomic_write, error_text, make_folder, open_own
from echelon.jobs.remote import FILE, SEPARATOR
from echelon.state_files import parse_json, read_bounded
from echelon_cli import host_script

SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
BOOTSTRAP = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
"""Python program that reads the script from its input."""
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses before further connections [s]; the last one repeats."""
LIMITS: dict[str, float] = {
    "bytes_per_s": 1 << 20,
    "poll_s": 2.0,
    "runs": 300,
    "recent": 10,
    "long": 16 << 20,
    "short": 256 << 10,
}
"""Traffic: rate, time between looks, newest runs that are mirrored, and the bytes that are sent at first of a file of
the ``recent`` newest and of the running ones, and of the others."""
MAX_LINE, MAX_BODY = 1 << 16, 8 << 20
MAX_FILE_BYTES = 1 << 30
"""Sizes above which a frame or a mirrored file is refused."""
MAX_LIST = 1 << 20
"""Size above which a list of runs is refused; its values take thirty times as much memory."""
MAX_MIRROR_BYTES = 16 << 30
"""Size of a mirror above which further data is refused."""
END_S = 5.0
"""Time in which ssh ends after its output [s]."""
SAVE_S = 20.0
"""Time between two notes of what a mirror has [s]."""
STATE = ".state.json"
HOST = re.compile(r"ssh:(?P<name>[\w.][\w.@-]*):(?P<path>.+)")
DAMAGED = "sent a damaged frame"
MAX_TEXT = 500
"""Characters of a host's own words that are kept."""
NAME = re.compile(r"[\w][\w.-]*")
"""A run that is mirrored."""


class HostError(ValueError):
    """A host that cannot be followed."""


@dataclass(frozen=True)
class Host:
    """Where runs are."""

    name: str
    path: str

    @property
    def label(self) -> str:
        """The host without its user, which names its runs here."""
        return self.name.rpartition("@")[2]


def _object(data: bytes) -> dict[str, Any]:
    """Return a JSON object that a host sent; ``HostError`` for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise HostError(DAMAGED) from None
    if not isinstance(found, dict):
        raise HostError(DAMAGED)
    return found


def _names(found: object) -> set[str]:
    """Return the runs of a host's list."""
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _bytes(path: Path) -> int:
    """Return the size of a file; 0 without one."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def parse_host(text: str) -> Host:
    """Return the host of ``ssh:NAME:/path``; ``HostError`` for other text."""
    found = HOST.fullmatch(text)
    if found is None:
        raise HostError(f"host {text!r} is no ssh:NAME:/path; try ssh:gpu1:/srv/runs")
    return Host(found["name"], found["path"])


@dataclass(eq=False)
class HostMirror(threading.Thread):
    """Mirrors the runs of a host into a folder until it is stopped."""

    host: Host
    home: Path
    state: RemoteState
    limits: dict[str, float] = field(default_factory=lambda: dict(LIMITS))
    synced: threading.Event = field(default_factory=threading.Event)
    """Set after the first complete look at the host."""
    tried: threading.Event = field(default_factory=threading.Event)
    """Set after the first complete look, or after the first connection that ended without one."""
    received: int = 0
    """Compressed bytes so far."""
    problem: str = "connecting"

    def __post_init__(self) -> None:
        super().__init__(name=f"echelon-{self.host.label}", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._saved_at = 0.0
        self._state_path = self.home / f"{STATE}.{self.host.label}"
        self._have: dict[str, dict[str, list[int]]] = self._read_state()
        self._bytes = sum(self._size(run) for run in self._have)

    def stop(self) -> None:
        """End the connection."""
        self._stopping.set()
        if self._process is not None:
            self._process.kill()

    def run(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            before = self.received
            try:
                self.problem = self._follow()
            except (OSError, ValueError, zlib.error) as error:
                self.problem = error_text(error)
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            self.tried.set()
            attempt = 0 if self.received > before else attempt + 1
            self.state.set(self.host.label, problem=f"no connection to {self.host.label}: {self.problem}")
            self._stopping.wait(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])

    def _follow(self) -> str:
        """Mirror over one connection until it ends; return why it did."""
        script = Path(host_script.__file__).read_bytes()
        remote = f"exec python3 -u -c {shlex.quote(BOOTSTRAP)}"
        self._process = process = subprocess.Popen(
            [*SSH, "--", self.host.name, remote],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin and process.stdout and process.stderr, "pipes were requested"
        request = {"root": self.host.path, "have": self._have, "limits": self.limits}
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"%d\n%s%s\n" % (len(script), script, json.dumps(request).encode()))
            process.stdin.flush()
        while not self._stopping.is_set() and (line := process.stdout.readline(MAX_LINE)):
            row = _object(line)
            size = row.get("size")
            if not isinstance(size, int) or not 0 <= size <= MAX_BODY:
                raise HostError(DAMAGED)
            body = process.stdout.read(size)
            self.received += len(line) + len(body)
            if len(body) < size:
                break
            unpacking = zlib.decompressobj()
            unpacked = unpacking.decompress(body, MAX_BODY)
            if not unpacking.eof:
                raise HostError(DAMAGED)
            self._apply(row, unpacked)
            if time.monotonic() - self._saved_at > SAVE_S:
                self._write_state()
        self._write_state()
        # a host may write to stderr for ever, and then ssh does not end
        lines = process.stderr.read(MAX_LINE).decode(errors="replace").strip().splitlines()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        return lines[-1][:MAX_TEXT] if lines else f"ssh ended with {process.returncode}"

    def _apply(self, row: dict[str, Any], data: bytes) -> None:
        """Write one frame into the mirror."""
        if row.get("op") == "runs":
            if len(data) > MAX_LIST:
                raise HostError(DAMAGED)
            found = _object(data)
            self._drop_others(_names(found.get("runs")))
            self.problem = str(found.get("problem") or "")[:MAX_TEXT]
            self.state.set(self.host.label, running=sorted(_names(found.get("running"))), problem=self.problem)
            self._write_state()
            self.synced.set()
            self.tried.set()
            return
        run, name, op = row.get("run"), row.get("file"), row.get("op")
        known = (*host_script.WHOLE, *host_script.APPENDED)
        if not isinstance(run, str) or not NAME.fullmatch(run) or name not in known:
            raise HostError("sent a file of another name")
        state = row.get("state", [0, 0])
        if not (isinstance(state, list) and len(state) == 2 and all(isinstance(number, int) for number in state)):
            raise HostError(DAMAGED)
        if run not in self._have and len(self._have) >= 2 * self.limits["runs"]:
            raise HostError(f"sent more than {2 * self.limits['runs']} runs")
        target = self._folder(run) / name
        files = self._have.setdefault(run, {})
        if op != "append":
            self._bytes -= _bytes(target)
        if op == "delete":
            target.unlink(missing_ok=True)
            files.pop(name, None)
            return
        self._bytes += len(data)
        if self._bytes > MAX_MIRROR_BYTES:
            raise HostError(f"sent more than {MAX_MIRROR_BYTES} bytes")
        make_folder(target.parent)
        if op == "whole":
            atomic_write(target, data, durable=False)
        elif op in ("start", "append"):
            self._append(target, data, is_start=op == "start")
        files[name] = state

    def _append(self, target: Path, data: bytes, *, is_start: bool) -> None:
        if is_start:
            target.unlink(missing_ok=True)
        handle = open_own(target, LOG_FLAGS)
        try:
            if os.fstat(handle).st_size + len(data) > MAX_FILE_BYTES:
                raise HostError(f"sent more than {MAX_FILE_BYTES} bytes of one file")
            os.write(handle, data)
        finally:
            os.close(handle)

    def _folder(self, run: str) -> Path:
        return self.home / f"{run}{SEPARATOR}{self.host.label}"

    def _size(self, run: str) -> int:
        """Return the bytes of the mirror of a run."""
        return sum(_bytes(self._folder(run) / name) for name in (*host_script.WHOLE, *host_script.APPENDED))

    def _drop_others(self, runs: set[str]) -> None:
        """Delete the mirrors of runs that the host no longer has."""
        for run in self._have.keys() - runs:
            self._bytes -= self._size(run)
            shutil.rmtree(self._folder(run), ignore_errors=True)
            del self._have[run]

    def _read_state(self) -> dict[str, dict[str, list[int]]]:
        """Return what the mirror has of the host's files; files that changed since they were noted are read again."""
        try:
            stored = parse_json(read_bounded(self._state_path, MAX_BODY))
            return {
                run: {
                    name: state
                    for name, (state, size) in files.items()
                    if (self._folder(run) / name).stat().st_size == size
                }
                for run, files in stored.items()
                if NAME.fullmatch(run)
            }
        except (OSError, ValueError, TypeError, AttributeError):
            for folder in self.home.glob(f"*{SEPARATOR}{self.host.label}"):
                shutil.rmtree(folder, ignore_errors=True)
            return {}

    def _write_state(self) -> None:
        """Note what the mirror has, so that the next connection continues there."""
        self._saved_at = time.monotonic()
        stored = {}
        for run, files in self._have.items():
            with contextlib.suppress(OSError):
                folder = self._folder(run)
                stored[run] = {name: (state, (folder / name).stat().st_size) for name, state in files.items()}
        with contextlib.suppress(OSError):
            atomic_write(self._state_path, json.dumps(stored), durable=False)


class RemoteState:
    """The file that tells which mirrored runs are running, for all hosts of a folder."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._lock = threading.Lock()
        self._hosts: dict[str, dict[str, Any]] = {}
        self._written = ""

    def set(self, host: str, **values: Any) -> None:
        """Change what is known about a host."""
        with self._lock:
            self._hosts[host] = {**self._hosts.get(host, {}), **values}
            text = json.dumps(self._hosts)
            if text != self._written:
                with contextlib.suppress(OSError):
                    atomic_write(self._path, text, durable=False)
                    self._written = text


def mirrors(texts: list[str], cache: Path | None = None) -> tuple[Path, list[HostMirror]]:
    """Return the folder with the mirrors of hosts, which only its user can read, and the mirrors, not yet started."""
    hosts = [parse_host(text) for text in texts]
    if len({host.label for host in hosts}) < len(hosts):
        raise HostError("--host names one host twice, expected different ones")
    if cache is None:
        import platformdirs

        cache = Path(platformdirs.user_cache_dir("echelon"))
    key = "+".join(re.sub(r"[^\w.-]", "_", f"{host.name}_{host.path}") for host in hosts)
    home = cache / "hosts" / key[:200]
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    state = RemoteState(home)
    for host in hosts:
        state.set(host.label, running=[], problem=f"no connection to {host.label} yet")
    return home, [HostMirror(host, home, state) for host in hosts]


def wait_until_synced(found: list[HostMirror], limit_s: float) -> list[str]:
    """Wait for the first look at every host and return a line for each without one.

    A host whose first connection fails is not waited for. ``HostError`` where no host was looked at.
    """
    deadline = time.monotonic() + limit_s
    for mirror in found:
        mirror.tried.wait(max(0.0, deadline - time.monotonic()))
    problems = [f"{each.host.label}: {each.problem or 'no answer'}" for each in found if not each.synced.is_set()]
    if len(problems) == len(found):
        raise HostError(f"no connection to {'; '.join(problems)}")
    return problems
