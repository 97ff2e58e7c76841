"""A run in a league: submissions, rating matches, opponents, exploiters and exact resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from echelon.arena.standings import standings
from echelon.arena.store import Store
from echelon.config import MIX_PROFILES, EvalConfig, LeagueConfig, MixConfig, OpponentConfig
from echelon.rl.weights import load_policy
from echelon.runs import policy_name
from echelon.telemetry.events import EventAlert, EventCheckpoint, EventEnd, EventEpisodes, EventLeague, EventUpdate
from echelon.training import loop
from echelon.training.opponents.league_client import LeagueClient
from echelon.training.opponents.league_source import LeagueSource
from echelon.training.opponents.runner import OpponentRunner
from tests.training.fakes import FakeEnv
from tests.training.runs import assert_equal_weights, assert_resumes_exactly, battle_run, of, run, run_battle, weights

QUIET = {"match_opponents": 0, "refresh_episodes": 20}
"""No rating matches: a policy of the fake environment cannot play them."""


def opponent_config(mix: MixConfig | None = None, **league) -> OpponentConfig:
    mix = mix or MixConfig(scripted=0.0, easy=1.0, league=2.0, exploiters=1.0)
    return OpponentConfig(mix=mix, skill="medium", past_every_updates=0, league=LeagueConfig(**{**QUIET, **league}))


def run_folder(home: Path, words: str) -> Path:
    path = home / f"20260101-000000-test-{words}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def entries(home: Path) -> dict[str, str]:
    with Store(home / "league.db") as store:
        return {row["name"]: row["kind"] for row in standings(store) if row["kind"] != "heuristic"}


def sampled(events) -> set[str]:
    return {name for e in of(events, EventEpisodes) for name in e.by_opponent}


@pytest.fixture
def tidal_owl(small_run, tmp_path) -> None:
    """A short run that has submitted its first and its last policy."""
    run(
        small_run(opponents=opponent_config(submit_every_updates=0), total_steps=300), run_folder(tmp_path, "tidal-owl")
    )


def test_run_submits_snapshots_and_plays_against_them(small_run, tmp_path):
    config = small_run(opponents=opponent_config(submit_every_updates=2), total_steps=1600)
    result, events = run(config, run_folder(tmp_path, "iron-fox"))
    submissions = of(events, EventLeague)
    last = of(events, EventUpdate)[-1].update
    expected = [f"iron-fox u{n}" for n in (*range(0, last, 2), last)]
    assert [e.name for e in submissions] == expected
    assert set(entries(tmp_path)) == {policy_name(name) for name in expected}
    assert all(1 <= e.rank <= e.ranked for e in submissions) and submissions[-1].ranked > submissions[0].ranked
    assert all(e.entry_kind == "candidate" and e.update == int(e.name.rpartition("u")[2]) for e in submissions)
    assert {"candidate:iron-fox u0", "heuristic:easy"} <= sampled(events)
    assert not any(name.startswith("candidate:iron-fox") for name in submissions[0].pool), (
        "a run does not play its own submissions"
    )
    files = sorted((tmp_path / "league").glob("*.safetensors"))
    assert len(files) == len(expected)
    first, *_, final = (load_policy(path) for path in files)
    assert first.meta["id"] != final.meta["id"] and first.meta["env_cfg"] == final.meta["env_cfg"]
    assert result.checkpoint is not None and final.meta["id"] == load_policy(result.checkpoint).meta["id"]
    assert_equal_weights(final.policy.state_dict(), weights(result))


@pytest.mark.long
def test_exploiter_stops_when_target_is_beaten_and_becomes_opponent(small_run, tmp_path, tidal_owl):
    exploits = opponent_config(MIX_PROFILES["exploiter"], target="tidal-owl u0", target_episodes=40)
    config = small_run(opponents=exploits, num_envs=12, total_steps=60_000, ppo={"lr": 5e-3, "obs_norm": True})
    result, events = run(config, run_folder(tmp_path, "keen-lynx"))
    assert result.reason == "completed" and result.global_step < 60_000, "before its budget is spent"
    (submission,) = of(events, EventLeague)
    assert submission.entry_kind == "exploiter" and submission.target_win_rate > 0.7
    assert sampled(events) == {"candidate:tidal-owl u0"}
    with Store(tmp_path / "league.db") as store:
        entry = store.league().entry(submission.entry)
    assert entry.kind == "exploiter" and entry.meta["target"] == submission.target and entry.meta["beaten"] is True
    later = small_run(opponents=opponent_config(submit_every_updates=0), total_steps=2400)
    _, events = run(later, run_folder(tmp_path, "tidal-owl"))
    assert any(name.startswith("exploiter:keen-lynx") for name in sampled(events)), "its target samples it"


def test_exploiter_out_of_budget_is_submitted_as_unbeaten(small_run, tmp_path, tidal_owl):
    exploits = opponent_config(MIX_PROFILES["exploiter"], target="tidal-owl", target_episodes=10_000)
    _, events = run(small_run(opponents=exploits, total_steps=600), run_folder(tmp_path, "keen-lynx"))
    (submission,) = of(events, EventLeague)
    with Store(tmp_path / "league.db") as store:
        entry = store.league().entry(submission.entry)
    assert entry.kind == "exploiter" and entry.meta["beaten"] is False
    assert of(events, EventEnd)[-1].reason == "completed"


@pytest.mark.long
def test_league_is_reread_every_refresh_episodes(small_run, tmp_path):
    home, seen = run_folder(tmp_path, "iron-fox"), []
    events: list = []

    def on_event(event) -> None:
        events.append(event)
        if isinstance(event, EventUpdate) and not seen:
            seen.append(event.episodes)
            with Store(tmp_path / "league.db") as store, store.editing() as league:
                for level in ("trivial", "easy", "medium", "expert"):
                    del league.entries[f"heuristic:{level}"]

    config = small_run(opponents=opponent_config(MIX_PROFILES["exploiter"], submit_every_updates=0), total_steps=3000)
    loop.run(config, on_event, lambda: 0, run_dir=home, make_env=FakeEnv)
    rows = of(events, EventUpdate)
    before = [e for e in rows if e.episodes < QUIET["refresh_episodes"]]
    after = [e for e in rows if e.episodes >= 2 * QUIET["refresh_episodes"]]
    assert len(before) >= 1 and len({name for e in before for name in e.opponents}) > 1
    assert after and all(set(e.opponents) == {"heuristic:hard"} for e in after)


def test_run_meets_and_retires_an_exploiter_that_joins_between_two_reads(small_run, tmp_path, monkeypatch, tidal_owl):
    began: dict[tuple[int, int], str] = {}  # opponent that the running episode began with
    refreshes, retired = [], []
    after_step, refresh = OpponentRunner.after_step, LeagueClient.refresh_if_due

    def check_opponents(runner, over, any_over) -> None:
        for e, name in enumerate(runner.names):
            assert began.setdefault((id(runner), e), name) == name, "an episode changed its opponent"
        after_step(runner, over, any_over)
        began.update({(id(runner), e): runner.names[e] for e in over.nonzero().flatten().tolist()})

    def refresh_checked(client, episodes) -> None:
        done = client.runner.done.clone()
        refresh(client, episodes)
        assert torch.equal(client.runner.done, done)
        refreshes.append(set(client.source.pool))

    monkeypatch.setattr(OpponentRunner, "after_step", check_opponents)
    monkeypatch.setattr(LeagueClient, "refresh_if_due", refresh_checked)
    monkeypatch.setattr(LeagueSource, "record_outcomes", record_wins_against_exploiters)
    events: list = []

    def on_event(event) -> None:
        events.append(event)
        retired.extend(event.retired if isinstance(event, EventLeague) else [])
        if isinstance(event, EventUpdate) and event.update == 1:
            with Store(tmp_path / "league.db") as store, store.editing() as league:
                (first,) = [e for e in league.entries.values() if "tidal-owl-u000000" in e.ckpt_path]
                first.kind, first.meta["target"] = "exploiter", "20260101-000000-test-iron-fox"

    mix = MixConfig(scripted=0.0, league=0.5, exploiters=0.5)
    opponents = replace(opponent_config(mix, submit_every_updates=4), pfsp=1.0)
    config = small_run(opponents=opponents, total_steps=4000)
    result = loop.run(config, on_event, lambda: 0, run_dir=run_folder(tmp_path, "iron-fox"), make_env=FakeEnv)
    name = "exploiter:tidal-owl u0"
    assert name not in refreshes[0] and name in refreshes[-1]
    assert {name, "candidate:tidal-owl u0"} <= sampled(events), "the name of an episode is that of its beginning"
    assert set(retired) == {name}
    with Store(tmp_path / "league.db") as store:
        assert [row["name"] for row in standings(store) if row["retired"]] == [policy_name("tidal-owl u0")]
    assert sum(sum(found.values()) for e in of(events, EventEpisodes) for found in e.by_opponent.values()) == (
        result.episodes
    )


def record_wins_against_exploiters(source, episodes, opponents) -> None:
    for name in opponents:
        source.record_outcome(name, "win" if name.startswith("exploiter") else "draw")


@pytest.mark.parametrize("saves", ["scheduled", "stop"])
def test_league_run_resume_is_bit_exact(small_run, tmp_path, saves):
    """Also where the stop puts an evaluation off, in an update that reads the league again."""
    put_off = saves == "stop"
    evaluation = EvalConfig(seeds=2, every_updates=2 if put_off else 0, at_start=False)
    opponents = opponent_config(submit_every_updates=2)
    config = small_run(opponents=opponents, max_updates=5, eval=evaluation, save_every=100 if put_off else 3)
    homes = tuple(f"{part}/20260101-000000-test-iron-fox" for part in "ab")
    whole, resumed, _ = assert_resumes_exactly(config, tmp_path, 2 if put_off else 3, homes=homes)
    reasons = [e.reason for e in of(resumed, EventCheckpoint)]
    assert reasons[0] == saves
    assert [e.name for e in of(whole, EventLeague)] == [e.name for e in of(resumed, EventLeague)]


@pytest.mark.parametrize("damage", ["file", "target"])
def test_unreadable_league_skips_refresh_and_keeps_opponents(small_run, tmp_path, tidal_owl, damage):
    events: list = []

    def on_event(event) -> None:
        events.append(event)
        if not isinstance(event, EventUpdate) or event.update > 1:
            return
        if damage == "file":
            (tmp_path / "league.db").write_bytes(b"nothing" * 1000)
            return
        with Store(tmp_path / "league.db") as store, store.editing() as league:
            (target,) = [e for e in league.entries.values() if "u000000" in e.ckpt_path and e.kind == "candidate"]
            del league.entries[target.entry_id]

    exploits = opponent_config(
        MIX_PROFILES["exploiter"], target="tidal-owl u0", target_episodes=10_000, refresh_episodes=30
    )
    config = small_run(opponents=exploits, total_steps=1000)
    result = loop.run(config, on_event, lambda: 0, run_dir=run_folder(tmp_path, "keen-lynx"), make_env=FakeEnv)
    alerts = [e.message for e in of(events, EventAlert) if "could not be read" in e.message]
    assert result.reason == "completed" and sampled(events) == {"candidate:tidal-owl u0"}, "the previous opponents stay"
    assert len(alerts) == result.episodes // 30, alerts


def test_update_that_is_trained_again_is_another_entry_only_if_it_differs(small_run, tmp_path):
    for seed in (1, 2, 2):
        config = small_run(opponents=opponent_config(submit_every_updates=0), total_steps=300, seed=seed)
        run(config, run_folder(tmp_path, "iron-fox"))
    with Store(tmp_path / "league.db") as store:
        found = [entry for entry in store.league().entries.values() if entry.ckpt_path]
    assert len(found) == len({entry.ckpt_path for entry in found}) == 4
    assert all(load_policy(entry.ckpt_path).meta["id"] == entry.meta["checkpoint"] for entry in found)


def test_damaged_league_policy_is_reported_and_not_sampled(small_run, tmp_path, tidal_owl):
    for path in (tmp_path / "league").glob("*.safetensors"):
        path.write_bytes(b"nothing")
    _, events = run(small_run(opponents=opponent_config(), total_steps=1600), run_folder(tmp_path, "iron-fox"))
    alerts = [e.message for e in of(events, EventAlert)]
    assert any("candidate:tidal-owl" in text and "is no longer sampled" in text for text in alerts), alerts
    assert not any("tidal-owl" in name for name in sampled(events))
    assert len([name for name in entries(tmp_path) if "tidal-owl" in name]) == 2, "the league keeps its entries"


def test_unwritable_league_skips_submission(small_run, tmp_path, monkeypatch):
    home = run_folder(tmp_path, "iron-fox")
    with Store(tmp_path / "league.db"):
        pass
    (tmp_path / "league").write_text("in the way")
    result, events = run(small_run(opponents=opponent_config(), total_steps=600), home)
    assert result.reason == "completed" and entries(tmp_path) == {}
    assert any("snapshot could not be submitted to the league" in e.message for e in of(events, EventAlert))


def test_league_of_another_game_is_rejected(small_run, tmp_path):
    run(small_run(opponents=opponent_config(), total_steps=300), run_folder(tmp_path, "tidal-owl"))
    config = small_run(opponents=opponent_config(), total_steps=300)
    config = replace(config, env=replace(config.env, decision_repeat=4))
    with pytest.raises(ValueError, match="built for another environment than the league's: decision_repeat 4, .* 5"):
        run(config, run_folder(tmp_path, "iron-fox"))


def test_start_from_loads_weights_of_checkpoint_or_submission(small_run, tmp_path):
    first, _ = run(small_run(opponents=opponent_config(), total_steps=600), run_folder(tmp_path, "tidal-owl"))
    assert first.checkpoint is not None
    expected = load_policy(first.checkpoint).policy.state_dict()
    submitted = tmp_path / "league" / f"tidal-owl-u{first.update:06d}.safetensors"
    for words, start in (("iron-fox", first.checkpoint), ("keen-lynx", submitted)):
        run(small_run(opponents=opponent_config(), total_steps=300, start_from=str(start)), run_folder(tmp_path, words))
        initial = load_policy(tmp_path / "league" / f"{words}-u000000.safetensors")
        assert all(torch.equal(tensor, expected[name]) for name, tensor in initial.policy.state_dict().items())
    with pytest.raises(ValueError, match="checkpoint"):
        run(small_run(opponents=opponent_config(), start_from=str(tmp_path / "none")), run_folder(tmp_path, "wild-yak"))


def test_league_match_settings_reach_rating_matches(small_run, tmp_path, monkeypatch):
    configs: list = []

    def played(store, job, config, *_, **__):
        configs.append(config)
        return True

    monkeypatch.setattr("echelon.arena.desk.play_rounds", played)
    expected = {"promote_top": 3, "keep_top": 5, "conservatism": 0.5}
    league = opponent_config(submit_every_updates=0, match_opponents=2, match_seeds=4, **expected)
    run(small_run(opponents=league, total_steps=300), run_folder(tmp_path, "iron-fox"))
    last = configs[-1]
    assert {name: getattr(last, name) for name in expected} == expected and (last.opponents, last.seeds) == (2, 4)


@pytest.mark.long
def test_submission_is_rated_by_matches_counted_once(tmp_path):
    opponents = opponent_config(MIX_PROFILES["exploiter"], match_opponents=2, match_seeds=1)
    config = battle_run(max_updates=1, opponents=opponents)
    _, events = run_battle(config, run_folder(tmp_path, "iron-fox"))
    first, last = of(events, EventLeague)
    for submissions in (first, last):
        assert submissions.games == 4 and submissions.rd < 350
        assert sum(row["games"] for row in submissions.results.values()) == 4
    with Store(tmp_path / "league.db") as store:
        jobs = [f"{run_folder(tmp_path, 'iron-fox').name} {word}" for word in ("founding", "u0", "u1")]
        assert [p.job for p in store.periods()] == jobs
        levels = [e for e in store.league().entries.values() if e.kind == "heuristic"]
        assert all(level.games >= 4 * 2 for level in levels), "the levels played each other first"
        assert all(p.closed for p in store.periods()) and store.recompute() == {}
