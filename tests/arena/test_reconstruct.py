"""Any moment of a recorded match is reconstructed bit for bit, or refused in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from echelon.arena.observations import observe
from echelon.arena.reconstruct import RebuiltMoment, ReplayedMatch, Step, load_nearest_state, play_step
from echelon.arena.verify import verify
from echelon.env.engine_state import EngineStateMismatch
from echelon.env.match_state import load_match_state, save_match_state
from echelon.replay import codec
from echelon.replay.embed import embed_world
from echelon.replay.extra_records import pack_state, read_state, state_heads
from echelon.replay.reader import Replay
from echelon.replay.schema import RecordType
from echelon.sim.arsenal import Weapon
from echelon.version import SIM_VERSION
from tests.arena.recorded_matches import Played, attach_rows, record_matches, small_game
from tests.replay.golden import SMALL
from tests.replay.synthetic import with_records
from tests.state_hash import state_hash

CASES, NUMBERS = 400, (-1, 0, 1, 7, 40, 127, 2**15, 2**30)
"""Random states, and the values put into them."""
STEPS = (1, 7, 39, 40, 41, 61, 80, 83)
"""Environment steps after which the recording run notes its state; states are recorded after 40 and 80."""


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> list[Played]:
    return record_matches(tmp_path_factory.mktemp("recorded"), small_game(), seeds=(9, 21), steps=STEPS, threads=2)


def assert_same_state(again: ReplayedMatch, rows: np.ndarray, tick: int, match: Played) -> None:
    expected, state = match.states[tick], save_match_state(again.engine, 0)
    assert state.keys() == expected.keys()
    differing = [name for name in expected if not np.array_equal(state[name], expected[name])]
    assert not differing, f"tick {tick}: {differing}"
    np.testing.assert_array_equal(rows[0], match.obs[tick])
    assert state_hash(again.engine.batch, 0) == match.hashes[tick]


@contextmanager
def opened(path: Path, **options) -> Iterator[tuple[ReplayedMatch, np.ndarray]]:
    """Yield a match and the observations ``[E, M, D]`` of its engine."""
    rows: list[np.ndarray] = []
    with (
        Replay(path) as replay,
        ReplayedMatch(replay, prepare=lambda engine: rows.append(attach_rows(engine)), **options) as match,
    ):
        yield match, rows[0]


@pytest.fixture(scope="module")
def again(played) -> Iterator[tuple[ReplayedMatch, np.ndarray]]:
    with opened(played[0].path) as found:
        yield found


def test_moments_equal_recording_run(played, again):
    compared = 0
    for tick in sorted(played[0].states, reverse=True):
        moment = again[0].go_to(tick)
        assert moment == RebuiltMoment(tick, tick // 200 * 200, ())
        assert_same_state(*again, tick, played[0])
        compared += 1
    assert compared == len(STEPS)


@pytest.mark.parametrize("mech", [0, 7])
def test_observations_are_those_that_the_run_received_bit_for_bit(played, again, mech):
    with Replay(played[0].path) as recorded:
        found = observe(recorded, mech)
        ticks = recorded.ticks
    assert (found.tick, found.step, len(found.rows)) == (0, 5, 1 + ticks // 5)
    compared = 0
    for tick, rows in played[0].obs.items():
        np.testing.assert_array_equal(found.rows[tick // found.step], rows[mech])
        compared += 1
    assert compared == len(STEPS) and [column.index for column in found.columns] == list(range(found.rows.shape[1]))
    again[0].go_to(205)
    np.testing.assert_array_equal(found.contacts[41], again[0].engine.batch.numpy("contact")[0, mech])
    names = {column.name: column.index for column in found.columns}
    padding = found.rows[:, [names[f"contact_mask[{slot}].padding"] for slot in range(found.contacts.shape[1])]]
    alive = found.rows[:, names["ego.hull"]] > 0
    np.testing.assert_array_equal(found.contacts[alive] < 0, padding[alive] == 1)


def test_observations_of_no_mech_and_of_other_actions_are_refused(played, tmp_path):
    with Replay(played[0].path) as recorded, pytest.raises(ValueError, match=r"'m9.ecr' has no mech 10"):
        observe(recorded, 10)
    with Replay(SMALL) as recorded, pytest.raises(ValueError, match=r"'small.ecr' has no actions"):
        observe(recorded, 0)


@pytest.mark.parametrize("tick", [305, 309])
def test_moment_from_start_equals_that_from_state(played, again, tick):
    seen = []
    assert again[0].go_to(tick, from_start=True, before_step=seen.append) == RebuiltMoment(305, 0, ())
    assert len(seen) == 61
    assert_same_state(*again, 305, played[0])


def test_every_environment_is_at_the_moment(played):
    with opened(played[1].path, envs=3, threads=2) as (match, rows):
        match.go_to(305)
        assert {state_hash(match.engine.batch, env) for env in range(3)} == {played[1].hashes[305]}
        assert all((rows[env] == played[1].obs[305]).all() for env in range(3))


def test_verify_compares_states(played, tmp_path):
    assert verify(played[0].path).ok

    def warmer(arrays):
        arrays["heat"] = arrays["heat"] + np.float32(0.5)

    first = verify(with_state(played[0].path, tmp_path, warmer)).first
    assert first is not None and (first.tick, first.field) == (200, "state.heat")


def test_moment_of_a_match_with_another_state_or_condition_is_refused(played, tmp_path):
    def hotter(arrays):
        arrays["heat"] = arrays["heat"] + np.float32(20.0)

    with opened(with_state(played[0].path, tmp_path, hotter)) as (match, _):
        with pytest.raises(ValueError, match="at tick 200: heat is not that of its state; verify it") as passed:
            match.go_to(305, from_start=True)
        with pytest.raises(ValueError, match="at tick 205: heat is not that of its frame; verify it"):
            match.go_to(205)
    assert "\n" not in str(passed.value)


def with_state(path: Path, folder: Path, change, version: int | None = None) -> Path:
    """Return a copy of a replay whose first STATE was changed by ``change(arrays)``."""
    with Replay(path) as replay:
        (head, *_) = state_heads(replay)
        state = read_state(replay, head)
    arrays = {name: values.copy() for name, values in state.arrays.items()}
    change(arrays)
    payload = pack_state(arrays, state.sim_version if version is None else version)
    record = codec.pack_record(RecordType.STATE, payload, ticks=(head.tick0, head.tick1))
    return with_records(path, folder, {head.offset: record})


HOSTILE = {
    "another shape": lambda arrays: arrays.update(hp=arrays["hp"][:3]),
    "another type": lambda arrays: arrays.update(hp=arrays["hp"].astype(np.int32)),
    "mech outside": lambda arrays: arrays["painter"].fill(10**6),
    "mech before": lambda arrays: arrays["contact"].fill(-2),
    "weapon outside": lambda arrays: arrays["round_weapon"].fill(99),
    "missile without target": lambda arrays: (
        arrays["round_weapon"].fill(int(Weapon.MISSILE)),
        arrays["round_target"].fill(-1),
    ),
    "painter of the past": lambda arrays: arrays["trace_marks"].fill(2**30),
    "far away": lambda arrays: arrays["pos"].fill(1e9),
    "no number": lambda arrays: arrays["round_vel"].fill(np.nan),
    "negative step": lambda arrays: arrays["decision"].fill(-5),
    "another tick": lambda arrays: arrays["tick"].fill(205),
    "missing array": lambda arrays: arrays.pop("stability"),
    "voxel outside": lambda arrays: arrays.update(edit_cell=arrays["edit_cell"] + 10**12),
    "unknown material": lambda arrays: arrays["edit_material"].fill(200),
    "fewer voxels": lambda arrays: arrays.update(edit_hp=arrays["edit_hp"][:-1]),
    "another term": lambda arrays: arrays.update(term_names=np.frombuffer(b"luck", np.uint8)),
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_impossible_state_costs_only_itself(played, again, tmp_path, fault):
    before = save_match_state(again[0].engine, 0)
    with Replay(with_state(played[0].path, tmp_path, HOSTILE[fault])) as replay:
        tick, notes = load_nearest_state(replay, again[0].engine, 205)
    assert tick == 0 and len(notes) == 1 and "\n" not in notes[0]
    after = save_match_state(again[0].engine, 0)
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_state_may_have_a_round_that_left_the_map_but_none_that_flies_there(played, again):
    match, engine = played[0], again[0].engine
    with Replay(match.path) as replay:
        arrays = {name: values.copy() for name, values in read_state(replay, state_heads(replay)[0]).arrays.items()}
    arrays["round_weapon"][0, 0], arrays["round_pos"][0, 0] = -1, -1.5
    load_match_state(engine, arrays)
    arrays["round_weapon"][0, 0] = int(Weapon.LASER)
    with pytest.raises(EngineStateMismatch, match="impossible values in array 'round_pos'"):
        load_match_state(engine, arrays)


@pytest.mark.long
def test_random_states_are_refused_in_one_line_or_played_on(played, again):
    match, engine, draws = played[0], again[0].engine, np.random.default_rng(4)
    with Replay(match.path) as replay:
        stored = read_state(replay, state_heads(replay)[0]).arrays
    accepted = 0
    for case in range(CASES):
        arrays = {name: values.copy() for name, values in stored.items()}
        for name in draws.choice(sorted(arrays), 1 + case % 3):
            flat = arrays[name].reshape(-1)
            some = slice(None) if draws.random() < 0.3 else draws.integers(max(1, flat.size))
            if draws.random() < 0.3:
                flat.view(np.uint8)[:] = np.frombuffer(draws.bytes(flat.nbytes), np.uint8)
            elif flat.size:
                flat[some] = np.array(draws.choice(NUMBERS)).astype(flat.dtype)
        engine.clear()
        engine.reset()
        try:
            load_match_state(engine, arrays)
        except EngineStateMismatch as error:
            assert "\n" not in str(error)
            continue
        accepted += 1
        for _ in range(3):
            play_step(engine, Step(np.zeros(engine.batch["actions"].shape[1:], np.float32)))
        assert engine.batch.numpy("tick")[0] == arrays["tick"] + 15
    assert CASES / 10 < accepted < CASES


def test_moment_does_not_need_a_foreign_or_damaged_state(played, tmp_path):
    with opened(with_state(played[0].path, tmp_path, lambda arrays: None, version=7)) as found:
        moment = found[0].go_to(205)
        assert moment.from_tick == 0 and f"simulation version 7, expected {SIM_VERSION}" in moment.notes[0]
        assert_same_state(*found, 205, played[0])
        data = bytearray(played[0].path.read_bytes())
        with Replay(played[0].path) as replay:
            data[state_heads(replay)[0].offset + 60] ^= 255
        (tmp_path / "damaged.ecr").write_bytes(data)
        with Replay(tmp_path / "damaged.ecr") as replay:
            tick, notes = load_nearest_state(replay, found[0].engine, 205)
        assert tick == 0 and "damaged" in notes[0]


def test_shared_replay_keeps_states(played, tmp_path):
    with Replay(played[0].path) as replay:
        (tmp_path / "shared.ecr").write_bytes(embed_world(replay))
        states = [replay.payload(head) for head in state_heads(replay)]
        chunks = [replay.chunk(n).hash for n in range(len(replay.chunks))]
    with Replay(tmp_path / "shared.ecr") as shared:
        assert [shared.payload(head) for head in state_heads(shared)] == states and len(states) == 2
        assert [shared.chunk(n).hash for n in range(len(shared.chunks))] == chunks and shared.complete


def test_moments_are_refused_in_one_line(played, again, monkeypatch):
    with pytest.raises(ValueError, match=r"has no actions, expected a column of them") as refused:
        with opened(SMALL):
            pass
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match=r"moment is at 500 s, expected 0 to"):
        again[0].go_to(10_000)
    monkeypatch.setattr("echelon.arena.reconstruct.SIM_VERSION", SIM_VERSION + 1)
    with pytest.raises(ValueError, match=rf"version {SIM_VERSION}, expected {SIM_VERSION + 1}: .* the Echelon of 20"):
        with opened(played[0].path):
            pass


@pytest.mark.long
@pytest.mark.parametrize(
    ("packs", "size", "seconds", "seeds"), [(1, 40, 24.0, 6), (4, 64, 21.0, 3), (20, 128, 12.0, 1)]
)
def test_forty_moments_of_ten_replays_are_reconstructed(tmp_path, packs, size, seconds, seeds):
    steps = (3, 17, 42, 47) if packs == 20 else (11, 40, 63, 82)
    cfg = small_game(packs, size, seconds, zone_win_share=1.0)  # no match ends before its last moment
    matches = record_matches(tmp_path, cfg, seeds=range(9, 9 + seeds), steps=steps)
    assert sum(len(match.states) for match in matches) == 4 * seeds
    for match in matches:
        with opened(match.path) as found:
            for tick in match.states:
                assert found[0].go_to(tick).notes == ()
                assert_same_state(*found, tick, match)
        assert verify(match.path).ok
