"""``echelon arena run --nproc``: several processes share the matches of a job."""

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import psutil
import pytest

from echelon.arena.config import ArenaConfig
from echelon.arena.rounds import RoundCallbacks, play_rounds
from echelon.arena.store import ENV_SETTING, MatchRecord, Store, league_path
from echelon.arena.workers import CallbackRelay, SingleProcess, shard
from echelon.jobs.status import job_status
from echelon.runs import find_run
from echelon_cli.main import run
from tests.arena.policy_files import SMALL, save
from tests.jobs.conftest import wait_for

GAME = ("--set", "env.world.size_x=40", "--set", "env.world.size_y=40", "--set", "env.world.size_z=12",
        "--set", "env.num_packs=1")  # fmt: skip
LIMIT_S = 120.0


def table():
    """Return what the league holds: every match, and everybody's rating."""
    with Store(league_path()) as store:
        names = "number, blue, red, seed, state, winner, hp_blue, hp_red, replay <> ''"
        rows = [tuple(row) for row in store.read(f"SELECT {names} FROM matches ORDER BY period, number")]
        ratings = {e.name: (e.rating.rating, e.rating.rd, e.games) for e in store.league().entries.values()}
    return rows, ratings


@pytest.mark.long
def test_two_processes_play_the_matches_of_one(capsys, tmp_path, monkeypatch, request):
    save(tmp_path / "one", 1)
    found = []
    for processes in (2, 1):
        if processes == 1:
            request.getfixturevalue("jobs_in_process")
        monkeypatch.setenv("ECHELON_HOME", str(tmp_path / f"home{processes}"))
        assert run(["arena", "add", str(tmp_path / "one"), "--label", "one"]) == 0
        words = ["--record-share", "0.2", "--upsets", "2", "--nproc", str(processes)]
        assert run(["arena", "run", "--seeds", "1", "--seed", "5", *words, "--json"]) == 0
        found.append(table())
        paths = find_run("latest", kind="arena")
        reported = [json.loads(line) for line in paths.metrics.read_bytes().splitlines()]
        remaining = sum(row[-1] for row in found[-1][0])
        assert sum(record["kind"] == "match" for record in reported) == remaining > 2
        assert len(list(paths.replays.glob("*.ecr"))) == remaining
    capsys.readouterr()
    assert found[0] == found[1] and len(found[0][0]) == 30


@pytest.mark.long
def test_lost_process_crashes_job_and_resume_continues(capsys, tmp_path, monkeypatch, request):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    long = (*GAME, "--seeds", "4", "--envs", "4", "--set", "env.max_episode_seconds=10", "--upsets", "0")
    assert run(["arena", "run", *long, "--nproc", "2", "--detach", "--json"]) == 0
    paths = find_run(json.loads(capsys.readouterr().out.splitlines()[-1])["id"])

    def second():
        """The second of the processes; it is found before there are matches, as they take a second."""
        for process in psutil.process_iter(["cmdline", "environ"]):
            words, environment = process.info["cmdline"] or [], process.info["environ"] or {}
            if str(paths.root) in words and environment.get("RANK") == "1":
                return process
        return None

    def written():
        with Store(league_path()) as store:
            return store.read("SELECT count(*) FROM matches WHERE state = 'played'")[0][0]

    found = wait_for(second, LIMIT_S)
    wait_for(lambda: written() >= 4, LIMIT_S)
    found.send_signal(signal.SIGKILL)
    wait_for(lambda: not job_status(paths).is_alive, LIMIT_S)
    assert job_status(paths).state == "crashed" and 4 <= written() < 80
    before = table()[0]
    request.getfixturevalue("jobs_in_process")
    assert run(["arena", "run", "--resume", paths.id, "--json"]) == 0
    after, ratings = table()
    kept = [(a, b) for a, b in zip(after, before, strict=True) if b[4] == "played"]
    assert all(a == b for a, b in kept)
    assert written() == len(after) == 80 and all(games == 32 for _, _, games in ratings.values())


class Pair:
    """Two threads that meet: what ``ProcessGroup`` asks of processes."""

    size = 2

    def __init__(self, rank: int, barrier: threading.Barrier, box: list) -> None:
        self.rank, self._barrier, self._box = rank, barrier, box

    def all_gather(self, value):
        self._box[self.rank] = value
        self._barrier.wait(LIMIT_S)
        found = list(self._box)
        self._barrier.wait(LIMIT_S)
        return found

    def broadcast(self, value):
        return self.all_gather(value)[0]

    def any(self, flag):
        return any(self.all_gather(flag))


def test_matches_are_divided_evenly_and_completely():
    parts = [shard(range(11), SingleProcess(rank, 3)) for rank in range(3)]
    assert sorted(sum(parts, [])) == list(range(11)) and {len(part) for part in parts} == {3, 4}


def test_main_process_reports_for_others_once():
    class Heard:
        def __init__(self) -> None:
            self.words: list[str] = []

        def on_warning(self, text: str) -> None:
            self.words.append(text)

    heard, barrier, box = [Heard(), Heard()], threading.Barrier(2), [None, None]

    def act(rank: int) -> None:
        relay = CallbackRelay(Pair(rank, barrier, box), heard[rank])
        relay.call("on_warning", f"from {rank}")
        relay.flush()
        relay.flush()

    threads = [threading.Thread(target=act, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert heard[0].words == ["from 0", "from 1"] and heard[1].words == []


def test_late_process_still_gets_its_matches(tmp_path, monkeypatch):
    """What is left is read once: the list of a process that looks later lacks what others have played by then."""
    path, barrier, box, played = tmp_path / "league.db", threading.Barrier(2), [None, None], [[], []]
    with Store(path) as store:
        with store.editing() as league:
            for level in ("easy", "medium", "hard"):
                league.add_scripted(level)
        store.init_setting(ENV_SETTING, asdict(SMALL))

    def pretend(session, expected, record, take, *, repeated=False):
        for fixture in expected:
            session.store.record(session.period, fixture.number, MatchRecord(winner="draw", reason="time_up"))
            played[session.process_group.rank].append(fixture.number)
        return True

    monkeypatch.setattr("echelon.arena.rounds._RoundRunner._play", pretend)

    def play(rank: int) -> bool:
        with Store(path) as own:
            if rank:
                own.unplayed = lambda period: []
            config = ArenaConfig(seeds=1, most_upsets=0)
            return play_rounds(own, "job", config, tmp_path, RoundCallbacks(), Pair(rank, barrier, box))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(play, range(2))) == [True, True]
    assert sorted(played[0] + played[1]) == list(range(6)) and len(played[0]) == len(played[1]) == 3
