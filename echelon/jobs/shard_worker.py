"""The process that plays a part of a round on another host: ``python -m echelon.jobs.shard_worker SHARD``.

``SHARD`` is a folder in ``shards`` of an arena job. Every result is appended to its ``matches.jsonl`` when the match
ends, from which the arena job stores it: only one host writes the league. Started again after any end, it plays the
matches that have no result yet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from echelon.jobs import worker
from echelon.jobs.memory import require_match_memory
from echelon.jobs.spec import read_spec
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths
from echelon.telemetry.event import Event
from echelon.telemetry.events import EventAlert, EventEnd, EventShardMatch, EventStart
from echelon.telemetry.log import EventLog, read_events

FOLDER = "shards"
"""Folder of the shards in the folder of an arena job."""


def finished(events: Iterable[Event], record: frozenset[int]) -> set[int]:
    """Return the matches that have a result, and a replay where one is to be recorded."""
    found = [event for event in events if isinstance(event, EventShardMatch)]
    recorded = {event.number for event in found if event.replay}
    played = {event.number for event in found if event.result}
    return played - (record - recorded)


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    """Play the matches of the shard that have no result."""
    from echelon.training.runtime.threads import resolve_threads, thread_environment

    os.environ.update(thread_environment())
    from echelon.arena.batches import Batch, LocalPlayer
    from echelon.arena.policies import LRUPolicyCache
    from echelon.arena.store import MatchRecord
    from echelon.training.runtime.devices import resolve_device

    whole = Batch.from_dict(read_spec(paths).config.get("shard"))
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
    """Return the folder of the replays of the arena job to which a shard belongs; ``ValueError`` for another folder."""
    if shard.root.parent.name != FOLDER:
        raise ValueError(f"shard {str(shard.root)!r} lies outside of an arena job, expected a folder in {FOLDER!r}")
    return RunPaths(shard.root.parent.parent).replays


if __name__ == "__main__":
    sys.exit(worker.main(work=work, phase="playing"))
