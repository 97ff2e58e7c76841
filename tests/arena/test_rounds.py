"""Rounds of an arena job: results in the store, resuming, broken policies, replays."""

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from echelon.arena.behaviour import style_means
from echelon.arena.config import ArenaConfig
from echelon.arena.rounds import PLAYING, RATED, RoundCallbacks, plan_round, play_rounds
from echelon.arena.standings import head_to_head, matches, standings, style_sums
from echelon.arena.store import DEFAULT_LEVELS, ENV_SETTING, Store, add_default_levels
from echelon.arena.submit import league_env_config, submit
from echelon.config import EnvConfig, WorldConfig, with_fairness
from echelon.jobs.config_layers import ConfigError
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import export_policy_folder, find_checkpoint
from echelon.validation import validated
from echelon_cli.arena_job import prepare
from tests.arena.policy_files import SMALL, save

SHORT = ArenaConfig(seeds=1, envs=8)
GAME = replace(SMALL, max_episode_seconds=5.0)
"""The game of the fixture's league, that of its first policy."""


@contextmanager
def new_league(folder):
    """Open a league of two levels and a policy."""
    with Store(folder / "league.db") as opened:
        with opened.editing() as league:
            for level in ("easy", "medium"):
                league.add_scripted(level)
        submit(opened, save(folder / "one", 1, env=GAME), label="one")
        yield opened


@pytest.fixture
def store(tmp_path):
    with new_league(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """A league after a round."""
    with new_league(tmp_path_factory.mktemp("rated")) as opened:
        assert run_rounds(opened)
        yield opened


def run_rounds(store, config=SHORT, job="job", **callbacks):
    return play_rounds(store, job, config, store.path.parent / job / "replays", RoundCallbacks(**callbacks))


def rows(store):
    names = "number, blue, red, seed, state, winner, hp_blue, hp_red, score_blue, score_red, seconds"
    return [tuple(row) for row in store.read(f"SELECT {names} FROM matches ORDER BY period, number")]


@pytest.mark.parametrize("how", [{}, {"label": "best"}, {"kind": "commander"}], ids=str)
def test_submitted_checkpoint_of_a_run_keeps_its_run(tmp_path, how):
    run = tmp_path / "20260101-000000-quickstart-idle-otter"
    path = save(run / "checkpoints" / "step-7", 1)
    (run / "spec.json").write_text("{}")
    with Store(tmp_path / "league.db") as opened:
        submit(opened, path, **how)
        submit(opened, save(tmp_path / "alone", 2))
        ran, alone = sorted(standings(opened), key=lambda row: row["meta"].get("run", "~"))[:2]
    assert ran["meta"]["run"] == run.name and isinstance(ran["meta"]["update"], int)
    assert "run" not in alone["meta"]


def test_round_rates_levels_and_policies(store, tmp_path):
    submit(store, save(tmp_path / "two", 2), label="two")
    progress = []
    assert run_rounds(store, on_progress=progress.append)
    table = {row["name"]: row for row in standings(store)}
    assert set(table) == {"easy", "medium", "one", "two"} and all(row["games"] == 6 for row in table.values())
    assert table["medium"]["rating"] == 1500, "the anchor"
    assert all(row["rd"] < 350 and row["wins"] + row["draws"] + row["losses"] == 6 for row in table.values())
    assert [item.state for item in progress] == [PLAYING] * 12 + [RATED] and progress[-1].played == 12
    assert progress[-1].closed.rated == 12
    assert store.recompute() == {}


def test_stopped_round_resumes_with_remaining_matches(store, tmp_path):
    config = ArenaConfig(seeds=2, envs=4)
    played = []
    assert not run_rounds(store, config, on_progress=played.append, should_stop=lambda: len(played) > 2)
    some = rows(store)
    done = [row for row in some if row[4] == "played"]
    assert 0 < len(done) < 12 and standings(store)[0]["games"] == 0
    assert run_rounds(store, config)
    assert all(row in rows(store) for row in done) and len(rows(store)) == 12
    with Store(tmp_path / "again.db") as other:
        for row in store.league().entries.values():
            with other.editing() as league:
                league.entries[row.entry_id] = row
                row.rating, row.games = type(row.rating)(), 0
        other.init_setting(ENV_SETTING, store.setting(ENV_SETTING))
        assert run_rounds(other, config)
        assert rows(other) == rows(store), "an interrupted round equals an uninterrupted one"
        assert [r["rating"] for r in standings(other)] == [r["rating"] for r in standings(store)]
    assert run_rounds(store, config) and len(rows(store)) == 12, "a second call plays nothing"


def test_missing_checkpoint_voids_its_matches_only(store, tmp_path):
    submit(store, save(tmp_path / "two", 2), label="two")
    shutil.rmtree(tmp_path / "two")
    (one,) = (Path(e.ckpt_path) for e in store.league().entries.values() if e.name == "one")
    assert one.parent == tmp_path / "league", "an entry has its own file: its run may be deleted"
    shutil.move(one, tmp_path / "elsewhere")
    warnings = []
    assert run_rounds(store, on_warning=warnings.append)
    assert len(warnings) == 1 and "one is excluded from this round" in warnings[0] and "is missing" in warnings[0]
    states = {row[4] for row in rows(store) if not {row[1], row[2]} & {"heuristic:easy", "heuristic:medium"}}
    assert states == {"void"}
    table = {row["name"]: row for row in standings(store)}
    assert table["one"]["games"] == 0 and table["two"]["games"] == 4
    assert all("is missing" in row["note"] for row in matches(store) if row["state"] == "void")


def test_damaged_or_replaced_checkpoint_voids_its_matches(store, tmp_path):
    submit(store, save(tmp_path / "two", 2), label="two")
    one, two = (next(e for e in store.league().entries.values() if e.name == name) for name in ("one", "two"))
    weights = Path(one.ckpt_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"oops")
    shutil.rmtree(two.ckpt_path)
    export_policy_folder(find_checkpoint(save(tmp_path / "three", 2 + 1)), Path(two.ckpt_path))
    warnings = []
    assert run_rounds(store, on_warning=warnings.append)
    assert "is damaged" in warnings[0] and "now, expected" in warnings[1]
    assert store.league().entries[one.entry_id].games == 0
    assert {row["state"] for row in matches(store, entry=one.entry_id)} == {"void"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"world": {"size_x": 10**9}}, "world"),
        ({"world": 5}, "world '5', expected an object"),
        ({"num_packs": 10**7}, "num_packs is 10000000, expected"),
        ({"max_episode_seconds": float("nan")}, "max_episode_seconds"),
    ],
)
def test_policy_of_an_impossible_environment_founds_no_league(tmp_path, changes, named):
    path = save(tmp_path / "one", 1)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "env_cfg": {**manifest["env_cfg"], **changes}}))
    with Store(tmp_path / "league.db") as store:
        with pytest.raises(ValueError, match=named) as caught:
            submit(store, path)
        assert "\n" not in str(caught.value)
        assert store.league().entries == {} and store.setting(ENV_SETTING) is None
        submit(store, save(tmp_path / "two", 2))
        assert store.setting(ENV_SETTING)["world"]["size_x"] == SMALL.world.size_x


def test_pipe_is_no_policy(store, tmp_path):
    os.mkfifo(tmp_path / "policy.pt")
    with pytest.raises(ValueError, match=r"policy.pt' is no folder, expected a run, a checkpoint or the folder"):
        submit(store, tmp_path / "policy.pt")


def test_policy_with_nonfinite_actions_forfeits(store, tmp_path):
    path = save(tmp_path / "broken", 5, broken=True)
    with pytest.raises(ValueError, match="weights that are not finite: core.actor_mean.bias"):
        submit(store, path)
    with store.editing() as league:
        from echelon.rl.weights import load_policy

        meta = {"label": "broken", "checkpoint": load_policy(path).meta["id"]}
        league.upsert_checkpoint(path, kind="candidate", meta=meta)
    assert run_rounds(store)
    table = {row["name"]: row for row in standings(store)}
    assert table["broken"]["losses"] == 6 and table["broken"]["wins"] == 0
    forfeits = [row for row in matches(store) if row["reason"] == "forfeit"]
    assert len(forfeits) == 6 and all("broken gave actions that are not finite" in row["note"] for row in forfeits)


def test_record_share_keeps_readable_replays(store):
    seen = []
    config = ArenaConfig(seeds=2, envs=4, record_share=0.25, most_upsets=0)
    assert run_rounds(store, config, on_replay=lambda path, *about: seen.append((path, about)))
    assert len(seen) == 3 == len(matches(store, recorded=True))
    for path, (blue, red, winner, seed) in seen:
        with Replay(path) as replay:
            assert replay.complete and replay.header["seed"] == seed
            assert [team["name"] for team in replay.header["teams"]] == [blue, red]
            assert ("blue", "red", "draw")[replay.outcome["winner"]] == winner


def test_upset_replays_are_recorded(store):
    with store.editing() as league:
        strong = type(league.entries["heuristic:easy"].rating)
        for name, entry in league.entries.items():
            entry.rating = strong(1500.0, 50.0) if name != "heuristic:easy" else strong(400.0, 50.0)
    assert run_rounds(store, ArenaConfig(seeds=3, envs=12, upset=0.4))
    easy_wins = sum(
        row["winner"] == ("blue" if row["blue"] == "heuristic:easy" else "red")
        for row in matches(store, entry="heuristic:easy")
    )
    recorded = matches(store, recorded=True)
    assert easy_wins > 0 and len(recorded) == min(4, easy_wins)
    for row in recorded:
        assert (row["blue"] if row["winner"] == "blue" else row["red"]) == "heuristic:easy"


def test_round_accumulates_style_sums(rated):
    style = style_means(style_sums(rated, "heuristic:medium"))
    assert style["matches"] == 4 and style["mechs"] == 20
    assert style["damage"] > 0 and 0 < style["accuracy"] <= 1 and sum(style["damage_by"].values()) == pytest.approx(1)
    assert style["deaths"] == pytest.approx(sum(style["lost_to"].values()) / 20)
    assert 0 < style["range_vox"] < 60 and min(style["range_by"].values()) <= style["range_vox"]
    assert style["range_by"].keys() <= style["accuracy_by"].keys() and style["assists"] >= 0
    assert 0 < style["life_s"] <= 10.0 and style["zone_s"] <= style["life_s"]
    assert style_means({})["damage"] is None


def test_round_needs_two_playing_entries(tmp_path):
    with Store(tmp_path / "league.db") as store:
        with pytest.raises(ValueError, match="has 0 entries that play, expected at least 2"):
            plan_round(store.league(), SHORT, 1)
        add_default_levels(store)
        assert [e.meta["level"] for e in store.league().entries.values()] == list(DEFAULT_LEVELS)
        assert len(plan_round(store.league(), SHORT, 1)) == 20


def test_league_env_config_comes_from_first_policy(store, tmp_path):
    game = with_fairness(GAME, "path")
    assert league_env_config(store) == game
    with pytest.raises(ValueError, match="built for another environment than the league's: obs_dim 1000, expected 994"):
        submit(store, save(tmp_path / "other", 7, env=replace(SMALL, observe_target=True)))
    with pytest.raises(ValueError, match="does not exist|contains no valid checkpoint"):
        submit(store, tmp_path / "nothing")
    assert len(store.league().entries) == 3
    assert league_env_config(store) == game


def test_new_league_plays_fair_maps_and_older_league_keeps_its_maps(tmp_path):
    with Store(tmp_path / "new.db") as store:
        assert league_env_config(store).world.fairness == "path"
    with Store(tmp_path / "older.db") as store:
        older = asdict(SMALL)
        del older["world"]["fairness"]
        store.init_setting(ENV_SETTING, older)
        assert league_env_config(store) == SMALL and SMALL.world.fairness == "any"
        assert prepare(store, SMALL) == store.setting(ENV_SETTING)
        with pytest.raises(ConfigError, match="already plays another game"):
            prepare(store, with_fairness(SMALL, "path"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, "arena.rounds is 0, expected 1 to"),
        ({"scheme": "chess"}, "arena.scheme is 'chess', expected one of: round-robin, skill"),
        ({"record_share": 2.0}, "arena.record_share is 2.0, expected 0 to 1"),
    ],
)
def test_invalid_arena_config_raises_one_line_error(change, message):
    with pytest.raises(ValueError, match=message):
        ArenaConfig(**change)
    with pytest.raises(ValueError, match="speed does not exist in this version"):
        validated(ArenaConfig, {"speed": 1})
    assert validated(ArenaConfig, asdict(ArenaConfig(only=("a",)))) == ArenaConfig(only=("a",))


@pytest.mark.slow
def test_round_robin_recovers_level_order(tmp_path):
    with Store(tmp_path / "league.db") as store:
        add_default_levels(store)
        fair = WorldConfig(size_x=60, size_y=60, size_z=20, max_distance_ratio=1.25)  # sides have no advantage
        league_env_config(store, EnvConfig(world=fair))
        assert run_rounds(store, ArenaConfig(rounds=3, seeds=8, envs=64), "levels")
        table = standings(store)
        if out := os.environ.get("ECHELON_FIGURES"):
            with open(out, "w") as file:
                json.dump({"standings": table, "pairs": head_to_head(store)["pairs"]}, file)
        assert [row["name"] for row in table] == list(DEFAULT_LEVELS[::-1])
        assert all(row["games"] == 192 and row["rd"] < 60 for row in table)
        assert store.recompute() == {}
