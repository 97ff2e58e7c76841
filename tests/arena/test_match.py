"""Matches of scripted pilots: independence of the batch, statistics, replays, stops."""

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.arena import match_statistics as statistics
from echelon.arena.contest import Contest, MatchSession
from echelon.arena.match_runner import play
from echelon.arena.results_table import FIRST, SECOND, summarise, upsets, winner_of
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.gen.bank import build_bank
from echelon.replay.figures import figures_at
from echelon.replay.reader import Replay
from echelon.replay.record import Recorder
from echelon.replay.schema import EventKind, HitFlag
from echelon.sim.arsenal import WEAPONS, Weapon

BASE = EnvConfig()
SMALL = replace(BASE, world=replace(BASE.world, size_x=40, size_y=40, size_z=12), max_episode_seconds=20.0)

MOVED_VOX = 3.5
"""Largest change of the distance of two mechs in a decision, at 7 vox/s each [vox]."""


def contest(**changes):
    return Contest(**{"env": SMALL, "pilots": ("easy", "medium"), "matches": 4, **changes})


def played(match, session=None, **options):
    found = play(match.plan, match.pairings(), session or MatchSession(**options))
    return sorted(found, key=lambda result: result.pairing.number)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    match, session = contest(), MatchSession(folder=tmp_path_factory.mktemp("replays"), record=frozenset(range(4)))
    return match, played(match, session), session


def equal(one, two):
    return (
        one.pairing == two.pairing
        and (one.record.winner, one.record.length, one.record.hp)
        == (two.record.winner, two.record.length, two.record.hp)
        and all(np.array_equal(one.statistics[name], two.statistics[name]) for name in one.statistics)
    )


def test_match_result_is_independent_of_batch(recorded):
    match, results, _ = recorded
    for session in ({"envs": 1}, {"envs": 3}, {"envs": 4, "threads": 1}):
        again = played(match, **session)
        assert len(again) == 4 and all(equal(a, b) for a, b in zip(results, again, strict=True)), session
        assert summarise(match, again[::-1]) == summarise(match, results)


def test_statistics_kernels_do_not_change_the_match(recorded, monkeypatch):
    match, results, _ = recorded
    monkeypatch.setattr(statistics, "with_statistics", list)
    plain = played(match, envs=4)
    for one, two in zip(results, plain, strict=True):
        assert (one.record.length, one.record.hp, one.record.zone_score) == (
            two.record.length, two.record.hp, two.record.zone_score,
        )  # fmt: skip
        assert np.array_equal(one.record.returns, two.record.returns)
        assert two.statistics["stat_steps"].sum() == 0


def test_statistics_match_replay_events(recorded):
    _, results, session = recorded
    assert sorted(session.replays) == [0, 1, 2, 3]
    fought = 0
    for result in results:
        with Replay(session.replays[result.pairing.number]) as replay:
            events = [chunk.tables["events"] for chunk in map(replay.chunk, range(len(replay.chunks)))]
        kind, actor, weapon, flags = (
            np.concatenate([e[n] for e in events]) for n in ("kind", "actor", "weapon", "flags")
        )
        direct = np.isin(kind, (EventKind.HIT, EventKind.PAINT)) & ((flags & HitFlag.SPLASH) == 0)
        launched = kind == EventKind.LAUNCH
        for spec in WEAPONS:
            w = int(spec.weapon)
            hits = np.bincount(actor[direct & (weapon == w)], minlength=10)
            assert np.array_equal(result.statistics["stat_hits"][:, w], hits), spec.weapon
            if spec.speed_vox_s:
                shots = np.bincount(actor[launched & (weapon == w)], minlength=10)
                assert np.array_equal(result.statistics["stat_shots"][:, w], shots), spec.weapon
        assists = np.bincount(actor[kind == EventKind.ASSIST], minlength=10)
        assert np.array_equal(result.statistics["stat_assists"], assists)
        victim = np.concatenate([e["target"] for e in events])
        killed = dict(zip(victim[kind == EventKind.KILL].tolist(), actor[kind == EventKind.KILL].tolist(), strict=True))
        dead = np.flatnonzero(result.statistics["stat_cause"] != statistics.Cause.LIVES)
        assert {m: int(result.statistics["stat_killer"][m]) for m in dead.tolist()} == killed
        fought += int(direct.sum()) + len(killed)
    assert fought > 50, "the matches contain hits and kills"


def test_range_statistics_match_replay_distances(recorded):
    _, results, session = recorded
    for result in results:
        expected, hits = np.zeros(10), np.zeros(10)
        with Replay(session.replays[result.pairing.number]) as replay:
            scale = np.array([c["scale"] for c in replay.header["columns"] if c["name"] in ("x", "y", "z")])
            for chunk in map(replay.chunk, range(len(replay.chunks))):
                events, places = chunk.tables["events"], np.stack([chunk.frames[a] for a in "xyz"], axis=2) * scale
                direct = np.isin(events["kind"], (EventKind.HIT, EventKind.PAINT)) & (
                    (events["flags"] & HitFlag.SPLASH) == 0
                )
                for row in np.flatnonzero(direct):
                    frame = min(np.searchsorted(chunk.frames["tick"][:, 0], events["tick"][row]), len(places) - 1)
                    shooter, target = events["actor"][row], events["target"][row]
                    expected[shooter] += np.linalg.norm(places[frame, shooter] - places[frame, target])
                    hits[shooter] += 1
        assert hits.sum() > 0
        error = np.abs(result.statistics["stat_range"].sum(axis=1) - expected)
        assert (error <= MOVED_VOX * hits + 1e-3).all(), error / np.maximum(hits, 1)


def test_damage_dealt_equals_damage_taken(recorded):
    for result in recorded[1]:
        counts = result.statistics
        for side in (0, 1):
            taken = counts["stat_taken"][counts["team"] == side].sum()
            dealt = counts["stat_damage"][counts["team"] != side].sum()
            dealt += counts["stat_friendly"][counts["team"] == side].sum()
            hazards = taken - dealt
            assert hazards >= -1e-2
            if statistics.Cause.LAVA not in counts["stat_cause"].tolist():
                assert hazards < 20


def test_steps_and_deaths_match_episode_record(recorded):
    for result in recorded[1]:
        counts, record = result.statistics, result.record
        assert np.array_equal(counts["stat_cause"] != statistics.Cause.LIVES, record.deaths)
        assert (counts["stat_steps"][~record.deaths] == record.length).all()
        assert (counts["stat_steps"][record.deaths] <= record.length).all()
        assert (counts["stat_zone"] <= counts["stat_steps"]).all()
        assert (counts["stat_hits"].sum(axis=0) <= counts["stat_shots"].sum(axis=0)).all()


def test_figures_of_replays_are_those_of_the_simulator(recorded):
    _, results, session = recorded
    for result in results:
        counts = result.statistics
        with Replay(session.replays[result.pairing.number]) as replay:
            found = figures_at(replay)
            harmful = [row["damage"] > 0 for row in replay.header["weapons"]]
            step_s = replay.header["frame_ticks"] / replay.header["tick_hz"]
        for name, expected in (
            ("assists", counts["stat_assists"]),
            ("shots", counts["stat_shots"][:, harmful].sum(axis=1)),
            ("hits", counts["stat_hits"][:, harmful].sum(axis=1)),
        ):
            np.testing.assert_array_equal(found[name], expected, name)
        # recorded positions are rounded to 1/16 vox
        np.testing.assert_allclose(found["zone_s"], counts["stat_zone"] * step_s, atol=2 * step_s)
        killer, team = counts["stat_killer"], counts["team"]
        kills = [((killer == mech) & (team != team[mech])).sum() for mech in range(len(team))]
        np.testing.assert_array_equal(found["kills"], kills)
        # of a hit to the legs, only a share is damage to the body
        assert (found["damage"] >= counts["stat_damage"].sum(axis=1) - 1.0).all()
        assert found["damage"].sum() > 0 and found["kills"].sum() > 0


def test_replays_are_complete_and_name_teams(recorded):
    _, results, session = recorded
    for result in results:
        with Replay(session.replays[result.pairing.number]) as replay:
            assert replay.complete and replay.header["seed"] == result.pairing.seed == replay.header["map_seed"]
            assert [team["name"] for team in replay.header["teams"]] == ["easy", "medium"]
            assert replay.outcome["winner"] == result.record.winner


def test_pairings_swapped_pair_shares_seed():
    match = contest(swap=True, first_seed=7)
    assert [(p.seed, p.swapped) for p in match.pairings()] == [(7, False), (7, True), (8, False), (8, True)]
    assert [match.plan.sides(p) for p in match.pairings()[:2]] == [("easy", "medium"), ("medium", "easy")]


def test_equal_pilots_split_swapped_pairs():
    match = contest(swap=True, pilots=("easy", "easy"))
    results = played(match)
    assert [r.record.winner for r in results[::2]] == [r.record.winner for r in results[1::2]]
    found = summarise(match, results)
    assert found["pilots"][FIRST]["wins"] == found["pilots"][SECOND]["wins"]
    assert found["teams"][FIRST]["kills"] == found["teams"][SECOND]["kills"]


def test_free_environment_starts_next_match_immediately(monkeypatch):
    match, steps, original_step = contest(matches=7), [], Engine.step

    def step(engine, *given, **more):
        steps.append(1)
        return original_step(engine, *given, **more)

    monkeypatch.setattr(Engine, "step", step)
    results = played(match, envs=2)
    lanes = [0, 0]
    for result in results:
        lanes[lanes.index(min(lanes))] += result.record.length
    assert len(steps) == max(lanes), "no environment is idle"
    assert len({result.record.length for result in results}) > 1, "playing in waves would take longer"


def test_every_scripted_pilot_plays():
    for name in heuristic.SKILLS:
        (result,) = played(contest(pilots=(name, "easy"), matches=1, env=replace(SMALL, max_episode_seconds=2.0)))
        assert result.record.length > 0


def test_stop_keeps_finished_matches():
    match, results = contest(matches=6), []
    session = MatchSession(envs=2, should_stop=lambda: len(results) >= 2)
    for result in play(match.plan, match.pairings(), session):
        results.append(result)
    assert session.stopped and 2 <= len(results) < 6
    assert summarise(match, results)["matches"] == len(results)


def test_stop_during_map_generation_yields_no_results():
    match = contest()
    session = MatchSession(should_stop=lambda: True)
    assert list(play(match.plan, match.pairings(), session)) == [] and session.stopped
    assert summarise(match, [])["pilots"][FIRST]["win_rate"] is None


def test_recording_error_does_not_stop_matches(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    match = contest(matches=2)
    session = MatchSession(folder=blocked / "replays", record=frozenset({0, 1}))
    assert len(list(play(match.plan, match.pairings(), session))) == 2
    (error,) = session.recording_errors
    assert "could not be recorded" in error and session.replays == {}


def test_recording_error_costs_one_batch_only(tmp_path, monkeypatch):
    begin, failed = Recorder.begin, []

    def begin_once_space_is_free(recorder):
        if not failed:
            failed.append(recorder)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        begin(recorder)

    monkeypatch.setattr(Recorder, "begin", begin_once_space_is_free)
    match = contest(matches=2, env=replace(SMALL, max_episode_seconds=2.0))
    session = MatchSession(envs=1, threads=1, folder=tmp_path, record=frozenset({0, 1}))
    assert len(list(play(match.plan, match.pairings(), session))) == 2
    (error,) = session.recording_errors
    assert "no space left" in error and "m00000" in error
    assert list(session.replays) == [1]
    with Replay(session.replays[1]) as replay:
        assert replay.complete


def test_upsets_are_wins_of_the_weaker_pilot(recorded):
    _, results, _ = recorded
    wins = [winner_of(result) for result in results]
    underdog = min((FIRST, SECOND), key=wins.count)
    expected = 0 if wins.count(FIRST) == wins.count(SECOND) else wins.count(underdog)
    assert [winner_of(result) for result in upsets(results)] == [underdog] * expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pilots": ("nobody", "easy")}, "pilot is 'nobody', expected one of: trivial"),
        ({"matches": 0}, "matches is 0"),
        ({"matches": 3, "swap": True}, "matches is 3, expected an even number"),
        ({"first_seed": -1}, "seed is -1, expected an integer from 0 to"),
        ({"weapon_prob": 2.0}, "weapon_prob is 2.0"),
    ],
)
def test_invalid_contest_raises_one_line_error(change, message):
    with pytest.raises(ValueError, match=message):
        contest(**change)


def test_statistics_kernels_follow_the_kernels_they_read():
    match = contest(env=replace(SMALL, landing=True))
    bank = build_bank(match.env.world, [0], num_packs=1, zone_radius_vox=5.0)
    engine = Engine(match.env, 1, bank, pilots=heuristic.install)
    try:
        program = [launch.kernel for launch in statistics.with_statistics(engine.decision())]
    finally:
        engine.close()
    for kernel, counters in statistics.RUN_AFTER.items():
        places = [i for i, other in enumerate(program) if other is kernel]
        assert places, kernel.key
        for i in places:
            assert tuple(program[i + 1 : i + 1 + len(counters)]) == counters


def test_death_causes_do_not_collide_with_weapon_ids():
    assert min(int(cause) for cause in statistics.Cause if cause is not statistics.Cause.LIVES) > max(map(int, Weapon))
