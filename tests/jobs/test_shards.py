"""Shards of an arena job: results of hosts are taken whatever ends a host, and no match is in two shards."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from echelon.arena.batches import Batch
from echelon.arena.config import ArenaConfig
from echelon.arena.contest import Pilot
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord
from echelon.config import EnvConfig
from echelon.jobs import launchers, shards
from echelon.jobs.shards import Hosts
from echelon.jobs.spec import read_spec
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventShardMatch
from echelon.telemetry.log import EventLog
from tests.jobs.test_placement import Cluster

PILOTS = {name: Pilot(id=name, label=name, level=name) for name in ("easy", "medium")}


class PlayingCluster(Cluster):
    """Hosts that play ``each`` matches of a shard and go down, until all are played."""

    def __init__(self, each: int) -> None:
        super().__init__()
        self._each = each

    def advance(self, text: str = "") -> None:
        for handle in list(self.jobs):
            paths = RunPaths(shards.Path(self.jobs[handle][-1]))
            fixtures = Batch.from_dict(read_spec(paths).config["shard"]).fixtures
            at = self.sessions[paths.id] * self._each
            with EventLog(paths.matches) as log:
                for fixture in fixtures[at : at + self._each]:
                    result = MatchRecord(winner="blue", reason="zone_control", hp=(float(fixture.number), 0.0))
                    log.append(EventShardMatch(number=fixture.number, result=asdict(result)))
            self.start(handle, {"code": 0} if at + self._each >= len(fixtures) else None)


def batch(numbers=range(10)) -> Batch:
    fixtures = [Fixture(number, "easy", "medium", 7 + number) for number in numbers]
    config = ArenaConfig(launcher="ray:cpus=2", hosts=3)
    return Batch(env=EnvConfig(), signature=None, config=config, pilots=PILOTS, fixtures=fixtures, job="arena", round=1)


@pytest.fixture
def cluster(monkeypatch) -> PlayingCluster:
    found = PlayingCluster(2)
    monkeypatch.setattr(launchers, "open_engine", lambda text: found)
    return found


def test_batch_is_the_same_after_it_was_written():
    written = Batch.from_dict(batch().as_dict())
    assert written.as_dict() == batch().as_dict() and written.fixtures[3] == batch().fixtures[3]


def test_hosts_that_go_down_cost_no_match(cluster):
    taken: dict[int, MatchRecord] = {}
    played = Hosts(create_run("arena"), poll_s=0.0)(batch(), taken.__setitem__, cluster.advance, lambda: False)
    assert not played.stopped and sorted(taken) == list(range(10))
    assert {number: record.hp[0] for number, record in taken.items()} == {n: float(n) for n in range(10)}
    assert dict(cluster.sessions) == {"r001-0": 2, "r001-1": 2, "r001-2": 2}, "4, 3 and 3 matches, two a session"
    assert {request.cpus for request in cluster.requests} == {2}


def test_arena_job_that_starts_again_follows_its_shards(cluster):
    arena = create_run("arena")

    def kill(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Hosts(arena, poll_s=0.0)(batch(), lambda *_: None, kill, lambda: False)
    cluster.advance()
    taken: list[int] = []
    Hosts(arena, poll_s=0.0)(batch(range(5, 10)), lambda n, _: taken.append(n), cluster.advance, lambda: False)
    assert sorted(taken) == [5, 6, 7, 8, 9], "those that the league has are not stored again"
    assert sorted(cluster.sessions) == ["r001-0", "r001-1", "r001-2"], "no match is in a second shard"


def test_shard_that_fails_ends_the_job_with_its_reason(cluster, monkeypatch):
    monkeypatch.setattr(
        cluster, "advance", lambda text: [cluster.start(h, {"code": 1, "message": "no GPU"}) for h in [*cluster.jobs]]
    )
    with pytest.raises(ValueError, match=r"shard 'r001-0' failed: no GPU"):
        Hosts(create_run("arena"), poll_s=0.0)(batch(), lambda *_: None, cluster.advance, lambda: False)


def test_host_that_plays_nothing_is_given_up(cluster, monkeypatch):
    monkeypatch.setattr(cluster, "advance", lambda text: [cluster.start(handle) for handle in [*cluster.jobs]])
    with pytest.raises(ValueError, match="shard 'r001-0' crashed"):
        Hosts(create_run("arena"), poll_s=0.0)(batch(), lambda *_: None, cluster.advance, lambda: False)
    assert cluster.sessions["r001-0"] == 1 + shards.MAX_CRASHES
