"""Matches of an arena job on the nodes of a Ray cluster, which share no file system.

Policies travel through Ray's object store, once to each node. Results and recordings come back as values, and the arena
job alone writes the league. A node that goes down costs the matches that it was playing, which Ray gives to another;
storing a result twice changes nothing. The arena job itself runs on a node of the cluster and goes on after its restart
with the matches without a result.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.jobs.launchers import Launcher, StartError, one_line, passed_environment
from echelon.runs import HOME_VARIABLE, RunPaths

if TYPE_CHECKING:
    from echelon.arena.batches import MatchBatch, Played, Take

PART = 16
"""Most matches of a task: what a node that goes down costs."""
POLL_S = 0.5
Files = dict[str, bytes]
"""Contents by path below a folder; "" is a file in the folder's place."""


class RayHosts:
    """Plays batches as tasks of a Ray cluster."""

    device = "cpu"

    def __init__(self, arena: RunPaths, launcher: Launcher) -> None:
        """``StartError`` where Ray is missing, or no cluster runs here."""
        try:
            self._ray = importlib.import_module("ray")
        except ImportError as error:
            raise StartError(f"launcher ray is not installed ({error}); try: pip install 'echelon[ray]'") from None
        names = {name: value for name, value in passed_environment().items() if name != HOME_VARIABLE}
        try:
            self._ray.init("auto", runtime_env={"env_vars": names}, log_to_driver=False, ignore_reinit_error=True)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise StartError(f"ray does not run on this machine: {one_line(error)}; start it with: ray start") from None
        self._arena, self._cpus = arena, launcher.cpus

    def __call__(
        self, batch: MatchBatch, take: Take, on_status: Callable[[str], object], should_stop: Callable[[], bool]
    ) -> Played:
        """Play a batch in parts, pass each result to ``take``, and return replays and warnings."""
        from echelon.arena.batches import Played
        from echelon.arena.store import MatchRecord

        playing = {name for fixture in batch.fixtures for name in (fixture.blue, fixture.red)}
        pilots = {name: pilot for name, pilot in batch.pilots.items() if name in playing}
        policies = {name: self._ray.put(read_files(Path(p.path))) for name, p in pilots.items() if p.path}
        task = self._ray.remote(num_cpus=self._cpus, max_retries=-1)(play_part)
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
                write_files(self._arena.replays, files)
                replays |= {number: self._arena.replays / name for number, name in recorded.items()}
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
