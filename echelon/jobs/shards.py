"""Shards of an arena job: its matches on the hosts of a launcher, ``python -m echelon.jobs.shards SHARD`` on each.

A shard is a folder in ``shards`` of the arena job. Its process appends every result to ``matches.jsonl`` when the match
ends, from which the arena job stores it: only one host writes the league. A host that goes down costs the matches that
it was playing, which another one plays. Arena job and shard continue after any end with the matches without a result.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.jobs import launch, launchers, worker
from echelon.jobs.kinds import KINDS
from echelon.jobs.leave import leave
from echelon.jobs.memory import require_match_memory
from echelon.jobs.spec import new_spec, read_spec
from echelon.jobs.status import JobStatus
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths
from echelon.telemetry.events import Event, EventAlert, EventEnd, EventShardMatch, EventStart
from echelon.telemetry.log import EventFollower, EventLog, read_events
from echelon.validation import validated

if TYPE_CHECKING:
    from echelon.arena.batches import MatchBatch, Played, Take
    from echelon.arena.store import MatchRecord

FOLDER = "shards"
POLL_S = 0.5
MAX_CRASHES = 5
"""Ends of a shard in a row without a new match after which it is not started again."""


@dataclass(kw_only=True)
class _Shard:
    """A shard that is followed."""

    paths: RunPaths
    matches: EventFollower
    records: EventFollower
    is_done: bool = False


class Hosts:
    """Plays batches on the hosts of a launcher."""

    device = "cpu"

    def __init__(self, arena: RunPaths, poll_s: float = POLL_S) -> None:
        self._arena, self._poll_s = arena, poll_s
        self._crashes: Counter[str] = Counter()

    def __call__(
        self, batch: MatchBatch, take: Take, on_status: Callable[[str], object], should_stop: Callable[[], bool]
    ) -> Played:
        """Play a batch in shards, pass each result to ``take``, and return replays and warnings."""
        from echelon.arena.batches import Played
        from echelon.arena.store import MatchRecord

        shards = [self._follow(paths) for paths in self._shards(batch)]
        numbers = {fixture.number for fixture in batch.fixtures}
        replays: dict[int, Path] = {}
        warnings: list[str] = []
        stopping = False
        while True:
            for shard in shards:
                status = None if shard.is_done else launch.ended_status(shard.paths)
                for event in self._read(shard):
                    if isinstance(event, EventAlert):
                        warnings.append(event.message)
                    elif isinstance(event, EventShardMatch) and event.number in numbers:
                        if event.result:
                            take(event.number, MatchRecord(**event.result))
                        if event.replay:
                            replays[event.number] = self._arena.replays / Path(event.replay).name
                if status is not None:
                    shard.is_done = stopping or self._is_complete(shard, batch, status)
            going = sum(not shard.is_done for shard in shards)
            if not going:
                return Played(stopped=stopping, replays=replays, warnings=warnings)
            on_status(f"matches on {going} hosts")
            if should_stop() and not stopping:
                stopping = True
                for shard in shards:
                    launch.stop(shard.paths)
            time.sleep(self._poll_s)

    def _follow(self, paths: RunPaths) -> _Shard:
        return _Shard(paths=paths, matches=EventFollower(paths.matches), records=EventFollower(paths.metrics))

    def _read(self, shard: _Shard) -> list[Event]:
        found = shard.matches.poll()
        if found:
            del self._crashes[shard.paths.id]
        return [*found, *shard.records.poll()]

    def _is_complete(self, shard: _Shard, batch: MatchBatch, status: JobStatus) -> bool:
        """Whether a shard that has ended is complete; one that its host has interrupted is started again.

        ``ValueError`` where it failed.
        """
        if status.state == "completed":
            return True
        is_interrupted = status.state == "crashed" or launchers.is_preempted(shard.paths)
        self._crashes[shard.paths.id] += 1
        if not is_interrupted or self._crashes[shard.paths.id] > MAX_CRASHES:
            raise ValueError(f"shard {shard.paths.id!r} {status.state}: {status.reason}")
        self._launch(shard.paths, batch)
        return False

    def _shards(self, batch: MatchBatch) -> list[RunPaths]:
        """Return the shards that play a batch: those that exist, and new ones for matches in none of them."""
        prefix = f"r{batch.round:03d}-{'replays-' if batch.repeated else ''}"
        remaining = {fixture.number: fixture for fixture in batch.fixtures}
        found, folder = [], self._arena.root / FOLDER
        for paths in (RunPaths(path) for path in sorted(folder.glob(f"{prefix}[0-9]*"))):
            if not paths.spec.exists():
                continue
            numbers = {fixture.number for fixture in _batch_of(paths).fixtures}
            if numbers & remaining.keys():
                found.append(paths)
                remaining = {number: fixture for number, fixture in remaining.items() if number not in numbers}
                if (status := launch.ended_status(paths)) is not None and status.state != "completed":
                    self._launch(paths, batch)
        fixtures, hosts = list(remaining.values()), batch.config.hosts
        for part in (fixtures[index::hosts] for index in range(hosts)):
            if part:
                index = next(n for n in range(10**6) if not (folder / f"{prefix}{n}" / "spec.json").exists())
                found.append(RunPaths(folder / f"{prefix}{index}"))
                found[-1].root.mkdir(parents=True, exist_ok=True)
                self._launch(found[-1], replace(batch, fixtures=part))
        return found

    def _launch(self, paths: RunPaths, batch: MatchBatch) -> None:
        if paths.spec.exists():
            spec = read_spec(paths)
        else:
            config = replace(
                batch.config, threads=batch.config.threads or launchers.parse_launcher(batch.config.launcher).cpus
            )
            shard = replace(batch, config=config).as_dict()
            spec = new_spec("shard", {"preset": "arena", "device": config.device, "shard": shard}, {})
        launch.launch(paths, spec, KINDS["shard"], launcher=batch.config.launcher)


def _batch_of(shard: RunPaths) -> MatchBatch:
    from echelon.arena.batches import MatchBatch

    return validated(MatchBatch, read_spec(shard).config.get("shard"), "batch of matches is damaged: ")


def finished(events: Iterable[Event], record: frozenset[int]) -> set[int]:
    """Return the matches that have a result, and a replay where one is to be recorded."""
    found = [event for event in events if isinstance(event, EventShardMatch)]
    recorded = {event.number for event in found if event.replay}
    played = {event.number for event in found if event.result}
    return played - (record - recorded)


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    from echelon.arena.batches import LocalPlayer
    from echelon.arena.policies import LRUPolicyCache
    from echelon.training.runtime.devices import resolve_device
    from echelon.training.runtime.threads import resolve_threads

    whole = _batch_of(paths)
    done = finished(read_events(paths.matches)[0], whole.record)
    batch = replace(whole, fixtures=[f for f in whole.fixtures if f.number not in done])
    config, device = batch.config, str(resolve_device(batch.config.device))
    require_match_memory(batch.env, min(config.envs, len(whole.fixtures)), device)
    link.emit(EventStart(device=device, seed=config.seed, preset="arena", num_envs=config.envs))
    player = LocalPlayer(
        folder=_replays(paths),
        cache=LRUPolicyCache(config.cache),
        device=device,
        threads=resolve_threads(config.threads),
    )
    stopped = False
    with EventLog(paths.matches) as log:

        def take(number: int, record: MatchRecord) -> None:
            log.append(EventShardMatch(number=number, result=asdict(record)))
            done.add(number)
            link.report(len(done), len(whole.fixtures), "matches")

        if batch.fixtures:
            played = player(batch, take, lambda text: link.write_progress(), lambda: link.should_stop() > 0)
            for number, path in played.replays.items():
                log.append(EventShardMatch(number=number, replay=path.name))
            for warning in played.warnings:
                link.emit(EventAlert(message=warning))
            stopped = played.stopped
        log.sync()
    link.emit(EventEnd(reason="stopped" if stopped else "completed"))


def _replays(shard: RunPaths) -> Path:
    if shard.root.parent.name != FOLDER:
        raise ValueError(f"shard {str(shard.root)!r} lies outside of an arena job, expected a folder in {FOLDER!r}")
    return RunPaths(shard.root.parent.parent).replays


if __name__ == "__main__":
    leave(worker.main(work=work, phase="playing"))
