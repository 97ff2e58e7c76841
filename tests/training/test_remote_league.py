"""Runs of a league on another machine: nothing but values crosses, policies lie in the runs' own folders."""

from __future__ import annotations

import pickle
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from echelon.arena import ray_league
from echelon.arena.desk import LeagueDesk, Submission
from echelon.arena.ray_league import RayCalls, RemoteDesk, SharedDesk, content_hash
from echelon.arena.ray_matches import connect, read_files
from echelon.arena.store import Store
from echelon.config import MIX_PROFILES, MixConfig, OpponentConfig
from echelon.config.opponents import CLUSTER
from echelon.rl.weights import load_policy
from echelon.runs import RunPaths
from echelon.telemetry.events import EventAlert, EventEpisodes, EventLeague, EventUpdate
from echelon.training import loop
from echelon.training.opponents import league_client
from tests.training.fakes import FakeEnv
from tests.training.runs import battle_run, of, run, run_battle
from tests.training.test_league_client import opponent_config, run_folder, sampled


class DeskHere(SharedDesk):
    """The desk of the cluster, which plays matches in its own process."""

    player = LeagueDesk.player


class Pickled:
    """Calls a desk as an actor is called: arguments, results and errors cross as bytes."""

    def __init__(self, home: Path) -> None:
        self.desk, self.is_up, self.calls = DeskHere(home / "league.db"), True, []

    def __call__(self, method: str, *arguments: Any, limit_s: float = 0.0, should_stop: Any = None) -> Any:
        if not self.is_up:
            raise ConnectionError("the head is gone")
        self.calls.append(method)
        try:
            return _crossed(getattr(self.desk, method)(*_crossed(arguments)))
        except (OSError, ValueError, KeyError) as error:
            raise _crossed(error) from None


def _crossed(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.fixture
def head(tmp_path) -> Path:
    home = tmp_path / "head"
    home.mkdir()
    return home


@pytest.fixture
def call(head, monkeypatch) -> Pickled:
    found = Pickled(head)
    monkeypatch.setattr(league_client, "RayCalls", lambda: found)
    return found


def node_folder(tmp_path: Path, words: str) -> Path:
    """Return the folder of a run on a node of its own."""
    return run_folder(tmp_path / words, words)


def shared(mix: MixConfig | None = None, **league) -> OpponentConfig:
    return opponent_config(mix, **{"path": CLUSTER, "submit_every_updates": 0, **league})


def entries_of(head: Path) -> dict[str, Any]:
    with Store(head / "league.db") as store:
        return {e.meta["label"]: e for e in store.league().entries.values() if e.kind != "heuristic"}


def test_runs_of_other_nodes_play_and_exploit_each_other(small_run, tmp_path, head, call):
    learner, exploiter = node_folder(tmp_path, "tidal-owl"), node_folder(tmp_path, "keen-lynx")
    first, _ = run(small_run(opponents=shared(), total_steps=300), learner)
    target = {"target": "tidal-owl", "target_episodes": 10_000}
    exploits = shared(MIX_PROFILES["exploiter"], **target)
    config = small_run(opponents=exploits, total_steps=600, start_from=learner.name)
    _, events = run(config, exploiter)
    assert sampled(events) == {f"candidate:tidal-owl u{first.update}"}
    (submission,) = of(events, EventLeague)
    entries = entries_of(head)
    assert submission.entry_kind == "exploiter" and submission.entry == entries[submission.name].entry_id
    for entry in entries.values():
        assert Path(entry.ckpt_path).parent == head / "league"
    kept = list((exploiter / "policies").iterdir())
    assert [path.name for path in kept] == [content_hash(read_files(path)) for path in kept]
    assert len(kept) == 1 and call.calls.count("policy") == 1, "fetched once, as target and as start"
    assert load_policy(kept[0]).meta["id"] == load_policy(first.checkpoint).meta["id"]
    assert str(head) not in "".join(p.read_text(errors="ignore") for p in exploiter.rglob("*") if p.is_file())


def test_learner_goes_on_without_the_league_and_returns_to_it(small_run, tmp_path, head, call):
    run(small_run(opponents=shared(), total_steps=300), node_folder(tmp_path, "tidal-owl"))
    events: list = []

    def on_event(event) -> None:
        events.append(event)
        if isinstance(event, EventUpdate):
            call.is_up = not 2 <= event.update < 8

    opponents = shared(submit_every_updates=2, refresh_episodes=20)
    folder = node_folder(tmp_path, "iron-fox")
    config = small_run(opponents=opponents, max_updates=12, total_steps=10_000)
    result = loop.run(config, on_event, lambda: 0, run_dir=folder, make_env=FakeEnv)
    alerts = [e for e in of(events, EventAlert) if "league" in e.message]
    assert len(alerts) == 1 and "the head is gone" in alerts[0].message and alerts[0].update == 2
    away = [e for e in of(events, EventEpisodes) if 3 <= e.update <= 7]
    assert any(name.startswith("candidate:tidal-owl") for e in away for name in e.by_opponent), "it has their policies"
    assert [e.update for e in of(events, EventLeague)] == [0, 8, 10, 12]
    assert result.reason == "completed"


def test_last_snapshot_is_submitted_by_a_resume_if_the_league_was_out_of_reach(small_run, tmp_path, head, call):
    config, folder = small_run(opponents=shared(), max_updates=3), node_folder(tmp_path, "iron-fox")
    events: list = []

    def on_event(event) -> None:
        events.append(event)
        call.is_up = not of(events, EventUpdate)

    loop.run(config, on_event, lambda: 0, run_dir=folder, make_env=FakeEnv)
    assert [e.update for e in of(events, EventLeague)] == [0]
    call.is_up = True
    _, resumed = run(config, folder, resume="latest")
    assert [e.update for e in of(resumed, EventLeague)] == [3] and len(entries_of(head)) == 2


def test_league_out_of_reach_at_the_start_is_one_line(small_run, tmp_path, call):
    call.is_up = False
    with pytest.raises(ConnectionError, match="the head is gone"):
        run(small_run(opponents=shared()), node_folder(tmp_path, "iron-fox"))


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConnectionError, match=r"ray is not installed \(.*\); try: pip install 'echelon\[ray\]'"):
        connect()


def test_address_where_no_head_answers_is_given_up_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(
            ConnectionError, match="ray does not run on this machine: .*refused; start it with: ray start"
        ):
            connect()


def test_process_that_ray_ends_is_one_line(monkeypatch):
    monkeypatch.setattr(ray_league, "_ask", hash)
    with pytest.raises(
        ConnectionError, match=r"^league of the Ray cluster is out of reach: the head is gone; try: ray"
    ):
        RayCalls()("read", "iron-fox")


def test_policies_of_a_run_are_verified_and_bounded(small_run, tmp_path, head, call, monkeypatch):
    run(small_run(opponents=shared(submit_every_updates=1), max_updates=4), node_folder(tmp_path, "tidal-owl"))
    desk = RemoteDesk(tmp_path / "policies", call)
    monkeypatch.setattr(ray_league, "KEPT", 2)
    paths = [e["ckpt_path"] for e in desk.read("")[0]["entries"] if e["ckpt_path"]]
    assert len(set(paths)) == 5
    for path in paths:
        desk.locate(path)
    assert {str(path) for path in desk.folder.iterdir()} == set(paths[-2:])
    Path(paths[-1]).write_bytes(b"damaged")
    assert content_hash(read_files(Path(desk.locate(paths[-1])))) == Path(paths[-1]).name
    monkeypatch.setattr(DeskHere, "policy", lambda desk, name: {"": b"another"})
    with pytest.raises(ValueError, match=f"policy '{Path(paths[0]).name}' of the league has the hash .*; add it again"):
        desk.locate(paths[0])
    with pytest.raises(ValueError, match="start_from is 'easy', a scripted level, expected a policy of the league"):
        desk.find("easy", "start_from")


def test_damaged_policy_of_the_league_leaves_the_pool(small_run, tmp_path, head, call):
    run(small_run(opponents=shared(), total_steps=300), node_folder(tmp_path, "tidal-owl"))
    for path in (head / "league").iterdir():
        path.unlink()
    _, events = run(small_run(opponents=shared(), total_steps=900), node_folder(tmp_path, "iron-fox"))
    alerts = [e.message for e in of(events, EventAlert)]
    assert any("candidate:tidal-owl" in text and "policy 'missing' is not in the league" in text for text in alerts)


@pytest.mark.long
def test_rated_submissions_are_stored_once_and_attacked_by_name(tmp_path, head, call, monkeypatch):
    """An answer that is lost is asked for again; a round that was interrupted is finished, by the first who submits."""
    opponents = OpponentConfig(
        mix=MIX_PROFILES["league"], past_every_updates=0,
        league=replace(opponent_config().league, path=CLUSTER, match_opponents=2, match_seeds=1),
    )  # fmt: skip
    submit, sent = DeskHere.submit, []

    def submit_twice(desk: DeskHere, submission: Submission, **options):
        stops = iter([False] * 5)
        submit(desk, submission, lambda: next(stops, True))
        sent.append((submission, submit(desk, submission)))
        return submit(desk, submission)

    monkeypatch.setattr(DeskHere, "submit", submit_twice)
    _, events = run_battle(battle_run(max_updates=1, opponents=opponents), node_folder(tmp_path, "iron-fox"))
    first, last = of(events, EventLeague)
    assert first.games == last.games == 4
    with Store(head / "league.db") as store:
        assert len(entries_of(head)) == 2
        ids = {e.meta["label"].split()[1]: e.meta["checkpoint"] for e in store.league().entries.values() if e.ckpt_path}
        assert [p.job.split()[1] for p in store.periods()] == ["founding", "u0", "u1"]
        assert all(p.closed for p in store.periods()) and store.recompute() == {}

    monkeypatch.setattr(DeskHere, "submit", submit)
    attacks = replace(opponents, mix=MixConfig(scripted=0.0, champion=1.0), champion="iron-fox u0")
    attacker = battle_run(max_updates=1, opponents=attacks, start_from="iron-fox")
    folder = node_folder(tmp_path, "wild-yak")
    _, events = run_battle(attacker, folder)
    assert sampled(events) <= {"champion"} and load_policy(RunPaths(folder).champion).meta["id"] == ids["u0"]
    call.is_up = False
    _, events = run_battle(replace(attacker, max_updates=2), folder, resume="latest")
    assert of(events, EventUpdate)[-1].update == 2, "it has its own copy"
