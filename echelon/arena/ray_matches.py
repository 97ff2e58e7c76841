"""Matches on the nodes of a Ray cluster, which share no file system.

Policies travel through Ray's object store, once to each node. Results and recordings come back as values, and only the
process that plays a round writes the league. A node that goes down costs the matches that it was playing, which Ray
gives to another; storing a result twice changes nothing.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.files import error_text
from echelon.runs import HOME_VARIABLE

if TYPE_CHECKING:
    from echelon.arena.batches import MatchBatch, Played, Take

PART = 16
"""Most matches of a task: what a node that goes down costs."""
POLL_S = 0.5
MAX_CHARS = 300
ADDRESS, PROBE_S = re.compile(r"([\w.-]+):([0-9]{1,5})"), 10.0
"""Address of a head; longest wait for its port [s]."""
Files = dict[str, bytes]
"""Contents by path below a folder; "" is a file in the folder's place."""


def connect(environment: Mapping[str, str] | None = None, **options: Any) -> Any:
    """Return the package ``ray``, connected to the cluster of this machine, for tasks with these variables.

    ``ConnectionError`` where Ray is missing, or no cluster runs here.
    """
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ConnectionError(f"ray is not installed ({error}); try: pip install 'echelon[ray]'") from None
    if environment:
        passed = {name: value for name, value in environment.items() if name != HOME_VARIABLE}
        options["runtime_env"] = {"env_vars": passed}
    try:
        if not ray.is_initialized():
            if named := ADDRESS.fullmatch(os.environ.get("RAY_ADDRESS", "")):  # where Ray would try for minutes
                socket.create_connection((named[1], int(named[2])), PROBE_S).close()
            ray.init("auto", log_to_driver=False, **options)
    except (OSError, RuntimeError, ValueError) as error:
        text = " ".join(error_text(error).split())[:MAX_CHARS]
        raise ConnectionError(f"ray does not run on this machine: {text}; start it with: ray start") from None
    return ray


class RayHosts:
    """Plays batches as tasks of a Ray cluster."""

    device = "cpu"

    def __init__(self, ray: Any, folder: Path, cpus: int) -> None:
        """``folder`` gets the replays; a part takes ``cpus`` cores of a node."""
        self._ray, self._folder, self._cpus = ray, folder, cpus

    def __call__(
        self, batch: MatchBatch, take: Take, on_status: Callable[[str], object], should_stop: Callable[[], bool]
    ) -> Played:
        """Play a batch in parts, pass each result to ``take``, and return replays and warnings."""
        from echelon.arena.batches import Played
        from echelon.arena.store import MatchRecord

        playing = {name for fixture in batch.fixtures for name in (fixture.blue, fixture.red)}
        pilots = {name: pilot for name, pilot in batch.pilots.items() if name in playing}
        policies = {name: self._ray.put(read_files(Path(p.path))) for name, p in pilots.items() if p.path}
        task = self._ray.remote(num_cpus=self._cpus, max_retries=-1, scheduling_strategy="SPREAD")(play_part)
        sent = replace(batch, pilots={name: replace(pilot, path="") for name, pilot in pilots.items()}, fixtures=[])
        threads = batch.config.threads or self._cpus
        parts = [batch.fixtures[first : first + PART] for first in range(0, len(batch.fixtures), PART)]
        waiting = [
            task.remote(replace(sent, fixtures=part), threads, list(policies), *policies.values()) for part in parts
        ]
        replays: dict[int, Path] = {}
        warnings: list[str] = []
        while waiting:
            on_status(f"matches in {len(waiting)} parts")
            if should_stop():
                for part in waiting:
                    self._ray.cancel(part, force=True)
                return Played(stopped=True, replays=replays, warnings=warnings)
            ended, waiting = self._ray.wait(waiting, timeout=POLL_S)
            for results, recorded, files, told in self._ray.get(ended):
                write_files(self._folder, files)
                replays |= {number: self._folder / name for number, name in recorded.items()}
                warnings += told
                for number, record in results.items():
                    take(number, MatchRecord(**record))
        return Played(stopped=False, replays=replays, warnings=warnings)


def play_part(
    batch: MatchBatch, threads: int, names: list[str], *policies: Files
) -> tuple[dict[int, dict[str, Any]], dict[int, str], Files, list[str]]:
    """Play a part of a batch on this node; return results and names of replays by match, the replays, and warnings."""
    from echelon.arena.batches import LocalPlayer
    from echelon.arena.policies import LRUPolicyCache

    results: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="echelon-ray-") as scratch:
        pilots = dict(batch.pilots)
        for number, (name, files) in enumerate(zip(names, policies, strict=True)):
            path = Path(scratch) / f"policy-{number}"
            write_files(path, files)
            pilots[name] = replace(pilots[name], path=str(path))
        folder = Path(scratch) / "replays"
        player = LocalPlayer(
            folder=folder, cache=LRUPolicyCache(batch.config.cache), device=batch.config.device, threads=threads
        )
        played = player(
            replace(batch, pilots=pilots), lambda n, record: results.update({n: asdict(record)}), str, lambda: False
        )
        recorded = {number: path.name for number, path in played.replays.items()}
        return results, recorded, read_files(folder) if recorded else {}, list(played.warnings)


def read_files(path: Path) -> Files:
    """Return a file, or all files below a folder."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        target = path / name if name else path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
