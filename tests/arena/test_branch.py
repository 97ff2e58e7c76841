"""Continuations of a recorded match: independent of their batch, replayable, and counted with honest intervals."""

import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon.arena import branch
from echelon.arena.branch import Brancher, BranchPlan, Continuation, effect, summarise
from echelon.arena.contest import MatchPlan, MatchSession, Pairing, Pilot
from echelon.arena.match_runner import play
from echelon.arena.policy_runner import GroupedPolicyRunner
from echelon.arena.reconstruct import require_playable
from echelon.arena.verify import verify
from echelon.replay.reader import Replay
from echelon.rl.lstm_state import LSTMState
from echelon.sim.random import draw_u32
from echelon.sim.state import array_bytes
from echelon.statistics import paired_difference, wilson_interval
from tests.arena.policy_files import loaded
from tests.arena.recorded_matches import record_matches, small_game

AT = 120
RUNS = 6


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    cfg = small_game(seconds=10.0)
    return record_matches(tmp_path_factory.mktemp("branch"), cfg, levels=("easy", "medium"), random_mech=False)[0].path


@pytest.fixture(scope="module")
def brancher(recorded):
    with Replay(recorded) as replay:
        yield Brancher(replay, BranchPlan(tick=AT, runs=RUNS))


@pytest.fixture(scope="module")
def rows(brancher) -> list[Continuation]:
    return brancher.play()


def test_continuations_are_those_of_separate_runs(brancher, rows):
    assert [row.number for row in rows] == list(range(RUNS)) and len({row.seed for row in rows}) == RUNS
    assert len({row.hp for row in rows}) > 1, "all continuations are the same match"
    for number in (0, RUNS - 1):
        assert brancher.play([number]) == [rows[number]]


@pytest.mark.parametrize("runs", [pytest.param(24, marks=pytest.mark.long), pytest.param(256, marks=pytest.mark.slow)])
def test_mean_of_one_batch_equals_mean_of_separate_runs(brancher, runs):
    numbers = list(range(runs))
    batch = brancher.play(numbers)
    apart = [row for number in numbers for row in brancher.play([number])]
    assert batch == apart and summarise(batch) == summarise(apart)


def test_continuations_are_played_in_batches_of_bounded_size(brancher, rows, monkeypatch):
    opened, engines, left = [], weakref.WeakSet(), []

    def counted(*args, envs, **options):
        assert not engines, "arrays of earlier batches are freed"
        opened.append(envs)
        engine = open_match(*args, envs=envs, **options)
        engines.add(engine)
        return engine

    open_match = branch.reconstruct.open_match
    monkeypatch.setattr(branch.reconstruct, "open_match", counted)
    one = sum(array_bytes(require_playable(brancher.recorded), 1, 0))
    monkeypatch.setattr(branch, "WAVE_BYTES", 3 * one)
    assert brancher.play(on_step=left.append) == rows
    assert sum(opened) == len(rows) and max(opened) == 3
    assert left == sorted(left, reverse=True) and left[-1] == 0
    assert not engines, "arrays of earlier batches are freed"


def test_recorded_continuation_is_a_replay_that_verifies(brancher, rows, recorded, tmp_path):
    assert brancher.play([2, 4], folder=tmp_path) == [rows[2], rows[4]]
    (path, _) = sorted(tmp_path.glob("*.ecr"))
    assert verify(path).ok
    with Replay(path) as branch, Replay(recorded) as parent:
        header = branch.header
        assert branch.complete and branch.outcome is not None and branch.outcome["winner"] == rows[2].winner
        assert branch.chunks[0].tick0 == AT and branch.ticks == rows[2].tick
        assert header["parent"]["tick"] == AT and header["parent"]["file"] == parent.path.name
        assert header["world"] == parent.header["world"] and header["seed"] == rows[2].seed
        again = Brancher(branch, BranchPlan(tick=AT + 7, runs=2))
        assert again.start.moment.tick == AT + 5 and len(again.play()) == 2


def test_pilots_and_parameters_are_changed(recorded, tmp_path):
    pilots = {mech: Pilot(id="expert", label="expert", level="expert") for mech in range(5)}
    changes = {"laser.damage": 400.0}
    plan = BranchPlan(tick=AT, runs=1, pilots=pilots, labels={"blue": "expert"}, changes=changes)
    with Replay(recorded) as replay:
        brancher = Brancher(replay, plan)
        brancher.play(folder=tmp_path)
        assert [team.name for team in brancher.teams()] == ["expert", "medium"]
    (path,) = tmp_path.glob("*.ecr")
    assert verify(path).ok
    with Replay(path) as branch:
        assert branch.header["changes"] == {"laser.damage": 400.0}
        assert len(set(branch.header["pilots"]["script"])) == 2 and branch.header["parent"]["set"] == {"blue": "expert"}


def test_window_repeats_the_recording_without_the_mechs_that_stand_still(recorded, tmp_path):
    plan = BranchPlan(tick=AT, runs=1, still=frozenset((7,)), window=6)
    with Replay(recorded) as replay:
        Brancher(replay, plan).play(folder=tmp_path)
        actions = np.concatenate([replay.chunk(n).frames["action"][1:] for n in range(len(replay.chunks))])
    (path,) = tmp_path.glob("*.ecr")
    with Replay(path) as branch:
        played = branch.chunk(0).frames["action"][1:7].reshape(6, 10, -1)
    expected = actions[AT // 5 : AT // 5 + 6].reshape(6, 10, -1).copy()
    assert expected[:, 7].any(), "the mech did nothing in the recording"
    expected[:, 7] = 0
    np.testing.assert_array_equal(played, expected)
    assert verify(path).ok


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    env = small_game(seconds=6.5)
    policies = {name: loaded(seed, env=env) for seed, name in enumerate("ab", start=1)}
    pilots = {name: Pilot(id=name, label=name, path=name) for name in policies}
    plan = MatchPlan(env=env, pilots=pilots, seats={0: ("a", "b")})
    states: list[list[LSTMState]] = []
    with GroupedPolicyRunner(plan=plan, load=lambda pilot: policies[pilot.path], deterministic=False) as runner:
        act = runner.act

        def act_and_note() -> None:
            act()
            states.append([runner.policies().state_of(mech) for mech in range(10)])

        runner.act = act_and_note  # type: ignore[method-assign]
        folder = tmp_path_factory.mktemp("flown")
        session = MatchSession(envs=1, threads=1, folder=folder, record=frozenset((0,)), policy_runner=runner)
        list(play(plan, [Pairing(0, 5, False)], session))
    by_mech = {mech: pilots["a" if mech < 5 else "b"] for mech in range(10)}
    with Replay(session.replays[0]) as replay:
        yield replay, by_mech, lambda pilot: policies[pilot.path], states


def test_policies_have_the_recurrent_states_of_the_recorded_match(flown):
    replay, pilots, load, states = flown
    start = Brancher(replay, BranchPlan(tick=100, pilots=pilots), load).start
    assert start.moment.from_tick == 0 and start.memories.keys() == pilots.keys()
    for mech, state in start.memories.items():
        assert all(torch.equal(one, two) for one, two in zip(state, states[19][mech], strict=True))


def last_hashes(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.glob("*.ecr")):
        with Replay(path) as replay:
            found[path.name] = replay.chunk(len(replay.chunks) - 1).hash
    return found


def test_continuations_of_policies_do_not_depend_on_the_batch(flown, tmp_path, monkeypatch):
    replay, pilots, load, _ = flown
    brancher = Brancher(replay, BranchPlan(tick=100, runs=3, pilots=pilots), load)
    brancher.play(folder=tmp_path / "batch")
    brancher.play([2], folder=tmp_path / "alone")
    mean = Brancher(replay, BranchPlan(tick=100, runs=1, pilots=pilots, mean_actions=True), load)
    mean.play(folder=tmp_path / "mean")
    batch, alone, other = (last_hashes(tmp_path / name) for name in ("batch", "alone", "mean"))
    assert batch.items() >= alone.items() and len(set(batch.values()) | set(other.values())) == 4
    assert verify(next((tmp_path / "alone").glob("*.ecr"))).ok
    monkeypatch.setitem(replay.header["teams"][1], "mean", True)
    recorded = Brancher(replay, BranchPlan(tick=100, runs=1, pilots=pilots), load)
    recorded.play(folder=tmp_path / "recorded")
    assert last_hashes(tmp_path / "recorded") == other, "a recording of mean actions is continued with mean actions"


def rolled(winners: list[int]) -> list[Continuation]:
    return [
        Continuation(
            number=n,
            seed=n,
            winner=winner,
            reason="time_up",
            tick=10,
            score=(0.0, 0.0),
            hp=(float(n), 5.0),
            alive=(1, 1),
        )
        for n, winner in enumerate(winners)
    ]


def test_summary_counts_wins_draws_and_typical_continuations():
    found = summarise(rolled([1, 0, 0, 2, 1]))
    low, high = wilson_interval(2.5, 5)
    assert found["blue"] == {"score": 0.5, "wins": 2, "low": low, "high": high}
    assert found["draws"] == 1 and found["endings"] == {"red time_up": 2, "draw time_up": 1, "blue time_up": 2}
    assert found["typical"] == {"best_for_red": 0, "median": 3, "best_for_blue": 2}
    assert effect(rolled([0, 0, 2]), rolled([1, 0, 2]), 0)["value"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("both", "first", "second"), [(0.5, 0.2, 0.1), (0.9, 0.02, 0.02), (0.2, 0.1, 0.5)])
def test_intervals_cover_the_truth_in_simulation(both, first, second):
    draws, pairs = np.random.default_rng(11), 64
    kinds = draws.choice(3, (600, pairs), p=[1.0 - first - second, first, second])
    differences = np.array([0.0, 1.0, -1.0])[kinds]
    found = [paired_difference(row) for row in differences]
    covered = np.mean([one.low <= first - second <= one.high for one in found])
    assert 0.93 <= covered <= 1.0
    wins = draws.binomial(pairs, both, 600)
    bounds = np.array([wilson_interval(int(n), pairs) for n in wins])
    assert np.mean((bounds[:, 0] <= both) & (both <= bounds[:, 1])) >= 0.92


def test_paired_difference_of_equal_pairs_has_an_interval():
    found = paired_difference(np.zeros(20))
    assert found.value == 0.0 and found.low == -found.high and 0.05 < found.high < 0.2


def test_moment_at_the_end_is_refused(recorded):
    with Replay(recorded) as replay, pytest.raises(ValueError, match="has ended at this moment"):
        Brancher(replay, BranchPlan(tick=replay.ticks, runs=1)).play()


def test_seeds_depend_on_number_and_plan_alone(brancher):
    assert brancher.seeds([3]) == [draw_u32(0, 7, AT, 0, 3) & (2**31 - 1)]
