"""Seats: constant inputs play as a policy's actions do, inputs are read every tick, and recordings of them verify."""

from pathlib import Path

import numpy as np
import pytest

from echelon.agents import heuristic
from echelon.arena.branch import Brancher, BranchPlan
from echelon.arena.reconstruct import ReplayedMatch, recorded_inputs, recorded_steps
from echelon.arena.verify import verify
from echelon.env.engine import Engine
from echelon.env.match_state import save_match_state
from echelon.env.seats import Seats, action_of
from echelon.gen.bank import build_bank_for
from echelon.replay import codec
from echelon.replay.extra_records import pack_seat
from echelon.replay.reader import Replay
from echelon.replay.record import MatchInfo, Recorder
from echelon.replay.schema import RecordType
from tests.arena.recorded_matches import small_game
from tests.replay.synthetic import with_records

SEED, SEATS, STEPS, LATER = 9, (0, 3, 6), 46, 30
"""Seed of the match, its seats, its environment steps, and one of them."""


def open_engine() -> Engine:
    cfg = small_game()
    engine = Engine(cfg, 1, build_bank_for(cfg, [SEED]), threads=1, autoreset=False, pilots=heuristic.install)
    script = np.full((1, engine.num_mechs), heuristic.script_of("medium"), np.int32)
    script[:, SEATS] = 0
    engine.batch.set("forced_seed", np.array([SEED], np.int32))
    engine.batch.set("forced_slot", np.zeros(1, np.int32))
    engine.batch.set("script", script)
    engine.reset()
    return engine


def assert_same(one: Engine, two: Engine) -> None:
    first, second = save_match_state(one, 0), save_match_state(two, 0)
    differing = [name for name in first if not np.array_equal(first[name], second[name])]
    assert not differing


def draw_inputs(draws: np.random.Generator, ticks: int) -> np.ndarray:
    """Return inputs ``[ticks, S, A]`` of pilots that hold triggers now and then, -128 among them."""
    return draws.integers(-128, 128, (ticks, len(SEATS), 18)).astype(np.int8)


@pytest.mark.long
def test_constant_inputs_play_as_actions_do():
    draws, plain, seated = np.random.default_rng(1), open_engine(), open_engine()
    seats = Seats(seated, SEATS)
    for _ in range(STEPS):
        inputs = draw_inputs(draws, 1)
        for engine in (plain, seated):
            engine.run("pilots")
        actions = plain.batch.numpy("actions")
        actions[0, SEATS] = action_of(inputs[0])
        plain.step(program="after_pilots")
        # a target that dies within the step is dropped by a seat at once
        if (plain.batch.numpy("died")[0] == 1).any():
            break
        seats.step(np.repeat(inputs, 5, axis=0))
        assert_same(plain, seated)
    assert plain.batch.numpy("tick")[0] > 50
    plain.close()
    seated.close()


def test_input_of_a_later_tick_acts_from_that_tick_on():
    calm, moving = open_engine(), open_engine()
    inputs = np.zeros((5, len(SEATS), 18), np.int8)
    speeds = []
    for engine, first in ((calm, 5), (moving, 3)):
        pushed = inputs.copy()
        pushed[first:, 1, 0] = 127
        seats, row = Seats(engine, SEATS), []
        engine.run("pilots")
        seats.begin_step(pushed[0])
        for each in pushed:
            seats.tick(each)
            row.append(float(np.linalg.norm(engine.batch.numpy("vel")[0, SEATS[1], :2])))
        seats.end_step()
        speeds.append(row)
        engine.close()
    still, pushed = speeds
    assert pushed[:3] == still[:3] and min(pushed[3:]) > max(still[3:])


@pytest.fixture(scope="module")
def flown(tmp_path_factory) -> Path:
    """A recorded match with inputs that change every tick; the seat of mech 6 is taken later than the others."""
    folder, draws, engine = tmp_path_factory.mktemp("flown"), np.random.default_rng(5), open_engine()
    recorder = Recorder(engine, [0], folder, [MatchInfo(name="flown", map_seed=SEED)], policy="actions")
    recorder.begin()
    for step in range(STEPS):
        inputs = draw_inputs(draws, 5)[:, : 2 if step < LATER else 3]
        engine.run("pilots")
        Seats(engine, SEATS[: inputs.shape[1]]).step(inputs)
        recorder.add_inputs(SEATS[: inputs.shape[1]], inputs)
        recorder.after_step()
        if engine.batch.numpy("over")[0]:
            break
    recorder.finish()
    engine.close()
    return recorder.paths[0]


@pytest.mark.long
def test_recording_of_seats_verifies_bit_for_bit(flown):
    with Replay(flown) as replay:
        inputs = recorded_inputs(replay)
        assert sorted(inputs) == list(range(0, replay.ticks, 5))
        assert {seats for seats, _ in inputs.values()} == {SEATS[:2], SEATS}
    result = verify(flown)
    assert result.ok, result.first


@pytest.mark.long
def test_recording_without_its_inputs_plays_another_match(flown, tmp_path):
    result = verify(with_seats(flown, tmp_path, []))
    assert not result.ok


@pytest.mark.long
def test_moment_of_a_match_with_seats_is_that_of_the_match(flown):
    with Replay(flown) as replay, ReplayedMatch(replay) as match:
        match.go_to(LATER * 5)
        early = save_match_state(match.engine, 0)
        match.go_to(replay.ticks)
        match.go_to(LATER * 5, from_start=True)
        again = save_match_state(match.engine, 0)
        assert all(np.array_equal(early[name], again[name]) for name in early)


@pytest.mark.long
def test_branch_repeats_the_inputs_of_its_window(flown):
    with Replay(flown) as replay:
        tick = LATER * 5 + 10
        brancher = Brancher(replay, BranchPlan(tick=tick, runs=1, window=2, still=frozenset({3})))
        window = list(brancher._steps(True, None))
        expected = list(recorded_steps(replay, tick, tick + 10))
    assert [step.seats for step in window] == [SEATS, SEATS]
    for step, recorded in zip(window, expected, strict=True):
        assert (step.inputs[:, 1] == 0).all() and (step.actions[3] == 0).all()
        np.testing.assert_array_equal(step.inputs[:, ::2], recorded.inputs[:, ::2])


def with_seats(path: Path, folder: Path, seats: list[tuple[int, list[int], np.ndarray]]) -> Path:
    """Return a copy of a replay with these SEAT records in place of its own."""
    with Replay(path) as replay:
        removed = {head.offset: b"" for head in replay.extra_heads(RecordType.SEAT)}
    packed = (
        codec.pack_record(RecordType.SEAT, pack_seat(mechs, actions), ticks=(tick, tick + len(actions)))
        for tick, mechs, actions in seats
    )
    return with_records(path, folder, removed, b"".join(packed))


@pytest.mark.long
@pytest.mark.parametrize(
    ("tick", "mechs", "shape"),
    [(0, [0], (3, 1, 18)), (2, [0], (5, 1, 18)), (0, [10], (5, 1, 18)), (0, [0], (5, 1, 17))],
    ids=["half a step", "between steps", "no mech", "other actions"],
)
def test_hostile_inputs_are_refused_in_one_line(flown, tmp_path, tick, mechs, shape):
    path = with_seats(flown, tmp_path, [(tick, mechs, np.zeros(shape, np.int8))])
    with Replay(path) as replay, pytest.raises(ValueError, match="inputs") as refused:
        recorded_inputs(replay)
    assert "\n" not in str(refused.value)
