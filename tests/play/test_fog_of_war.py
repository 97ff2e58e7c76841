"""Fog of war on the wire: a frame has nothing that the mech of its seat does not know."""

from collections.abc import Iterator

import numpy as np
import pytest

from echelon import play_protocol as play
from echelon.agents import heuristic
from echelon.arena.contest import Pilot
from echelon.play.match import NewMatch, PlayedMatch, begin_match, seat_header
from echelon.play.perception import Perception
from echelon.sim.state import Mechs, fields_of
from tests.arena.recorded_matches import small_game

LEVEL = Pilot(id="medium", label="medium", level="medium")
assert LEVEL.level in heuristic.SKILLS
SEED, STEPS = 4, 70
HIDDEN_STATE = ("pos", "vel", "yaw", "hp", "leg_hp", "heat", "stability", "fallen", "painted", "cooldown", "noise")
"""Arrays of a mech that change where the pilot does not know of it."""
CONTACTS = {name: i for i, name in enumerate(play.CONTACT_COLUMNS)}
EVENTS = {name: i for i, name in enumerate(play.EVENT_COLUMNS)}


def rows(data: bytes, columns: tuple[str, ...]) -> np.ndarray:
    return np.frombuffer(data, "<f4").reshape(-1, len(columns))


@pytest.fixture(scope="module")
def match(tmp_path_factory) -> Iterator[PlayedMatch]:
    plan = NewMatch(env=small_game(size=80, seconds=40.0), seed=SEED, mates=LEVEL, hostiles=LEVEL)
    played = begin_match(plan, tmp_path_factory.mktemp("fog") / "fog.ecr", {})
    yield played
    played.finish()


def known_to(match: PlayedMatch, mech: int) -> np.ndarray:
    """Return which mechs the pilot detects now, with itself and its living pack."""
    batch = match.engine.batch
    team, alive = batch.row("team", 0), batch.row("alive", 0) == 1
    return ((batch.row("visible", 0)[mech] != 0) | (team == team[mech])) & alive


def test_frames_have_no_hidden_mech(match):
    mech, batch = match.seats[0], match.engine.batch
    still, hidden_ticks, shown_ticks, moved = np.zeros((1, 18), np.int8), 0, 0, 0
    known = known_to(match, mech)
    team = batch.row("team", 0)
    while not match.over and match.now < 5 * STEPS:
        match.tick(still)
        if match.now % 5 == 0:
            known = known_to(match, mech)
        frame = match.perceptions[mech].frame(0)
        wire = play.pack(frame)
        contacts = rows(frame.contacts, play.CONTACT_COLUMNS)
        listed = {int(row[CONTACTS["mech"]]): row for row in contacts}
        for j in np.flatnonzero((team != team[mech]) & (batch.row("alive", 0) == 1) & ~known).tolist():
            hidden_ticks += 1
            place = batch.row("pos", 0)[j]
            if j in listed:  # remembered, where it was detected last
                assert listed[j][CONTACTS["age"]] > 0
                remembered = listed[j][CONTACTS["x"] : CONTACTS["z"] + 1]
                moved += not np.array_equal(remembered, place)
                if np.array_equal(remembered[:2], place[:2]):
                    continue
            assert place[:2].astype("<f4").tobytes() not in wire
            for row in rows(frame.events, play.EVENT_COLUMNS):
                who, target = int(row[EVENTS["actor"]]), int(row[EVENTS["target"]])
                assert j not in (who, target) or match.now % 5 == 0
        shown_ticks += sum(row[CONTACTS["age"]] == 0 and team[int(row[0])] != team[mech] for row in contacts)
    assert hidden_ticks > 200 and shown_ticks > 20 and moved > 5


def test_frame_does_not_depend_on_what_is_hidden(match):
    mech, batch = match.seats[0], match.engine.batch
    observations = match._pilots.observations.numpy()

    def sent() -> bytes:
        return play.pack(Perception(match.engine, mech, observations).frame(0))

    known, before = known_to(match, mech), sent()
    batch.row("visible", 0)[mech] = 0  # it detects no hostile
    batch.row("seen", 0)[mech] = -1
    blind = sent()
    assert blind != before or not (known & (batch.row("team", 0) != batch.row("team", 0)[mech])).any()
    hidden = np.flatnonzero(batch.row("team", 0) != batch.row("team", 0)[mech])
    draws = np.random.default_rng(2)
    for name in HIDDEN_STATE:
        values = batch.row(name, 0)
        values[hidden] = draws.uniform(0, 30, values[hidden].shape).astype(values.dtype)
        assert sent() == blind, name
    assert set(HIDDEN_STATE) <= set(fields_of(Mechs))


def test_commander_knows_what_its_living_mechs_perceive_and_no_more(tmp_path):
    plan = NewMatch(env=small_game(size=80, seconds=40.0), seed=SEED, team=1, command=True, mates=LEVEL, hostiles=LEVEL)
    match = begin_match(plan, tmp_path / "commanded.ecr", {})
    own, batch, still = list(match.team), match.engine.batch, np.zeros((0, 18), np.int8)
    team, alive, pos = (batch.row(name, 0) for name in ("team", "alive", "pos"))
    assert (team[own] == 1).all() and match.seats == ()
    perception, counts = match.perceptions[own[0]], np.zeros(3, int)
    batch.row("hp", 0)[own[-1]] = 1.0
    while not match.over and match.now < 5 * STEPS:
        match.tick(still)
        frame = match.frame(own[0], 0)
        listed = {int(row[0]): row for row in rows(frame.contacts, play.CONTACT_COLUMNS)}
        if match.now % 5:
            continue
        assert [*listed][: len(own) - 1] and set(own[1:]) <= set(listed)  # also the destroyed ones
        detected = batch.row("visible", 0)[[m for m in own if alive[m]]].any(axis=0)
        for j in np.flatnonzero((team == 0) & (alive == 1)).tolist():
            if detected[j]:
                assert listed[j][CONTACTS["x"]] == pos[j, 0] and listed[j][CONTACTS["age"]] == 0
            elif j in listed:
                assert listed[j][CONTACTS["age"]] > 0
            elif np.abs(pos[:, :2] - pos[j, :2]).sum(axis=1)[own].min() > 0:
                assert pos[j, :2].astype("<f4").tobytes() not in play.pack(frame)
            counts += [detected[j], j in listed and not detected[j], j not in listed]
    assert (counts > 5).all() and not alive[own[-1]]
    assert listed[own[-1]][CONTACTS["flags"]] == 0
    lone = Perception(match.engine, own[0], match._pilots.observations.numpy(), team=own)
    hidden = np.flatnonzero(team == 0)
    batch.row("visible", 0)[own], batch.row("seen", 0)[own] = 0, -1

    def sent() -> bytes:
        lone.__init__(match.engine, own[0], match._pilots.observations.numpy(), team=own)
        return play.pack(lone.frame(0))

    blind = sent()
    for name in HIDDEN_STATE:
        batch.row(name, 0)[hidden] += 1
        assert sent() == blind, name
    perception.sense()
    with pytest.raises(ValueError, match="has no target"):  # its number would tell that it is there
        match.order(own[0], "focus", target="B1")
    match.finish()


def test_pilot_of_a_destroyed_mech_perceives_what_its_team_mates_do(tmp_path):
    plan = NewMatch(env=small_game(size=60, seconds=40.0), seed=SEED, mates=LEVEL, hostiles=LEVEL)
    match = begin_match(plan, tmp_path / "watched.ecr", {})
    mech, batch = match.seats[0], match.engine.batch
    team, alive = batch.row("team", 0), batch.row("alive", 0)
    with pytest.raises(ValueError, match="expected it destroyed"):
        match.watch(mech, 1)
    batch.row("hp", 0)[mech] = 1.0
    walk = np.zeros((1, 18), np.int8)
    walk[0, 0] = 127
    while alive[mech] and not match.over:
        match.tick(walk)
    frame = match.perceptions[mech].frame(0)
    killer = int(frame.killer[0])
    assert frame.mech == mech and killer >= 0 and team[killer] != team[mech]
    assert frame.killer[1:] == pytest.approx(batch.row("pos", 0)[killer].tolist())
    mates = [m for m in np.flatnonzero((team == team[mech]) & (alive == 1)).tolist() if m != mech]
    seen = []
    for _ in [*mates, None]:
        match.watch(mech, 1)
        seen.append(match.perceptions[mech].mech)
    assert len(mates) > 1 and sorted(seen[:-1]) == mates and seen[-1] == seen[0]
    match.watch(mech, -1)
    assert match.perceptions[mech].mech == seen[-2]
    match.tick(walk)
    frame = match.perceptions[mech].frame(0)
    own = np.frombuffer(frame.own, "<f4")
    assert (frame.mech, own[:2].tolist()) == (seen[-2], batch.row("pos", 0)[seen[-2]][:2].tolist())
    assert len(rows(frame.contacts, play.CONTACT_COLUMNS))
    assert any(np.frombuffer(frame.senses, "<f4"))  # the mate's observation is written too
    match.finish()


def test_header_of_a_seat_has_no_seeds_and_no_classes_of_hostiles(match):
    header = seat_header(match.header, match.seats[0])
    assert (header["seed"], header["map_seed"]) == (0, 0) and "pilots" not in header
    side = header["roster"][match.seats[0]]["team"]
    assert {row["chassis"] for row in header["roster"] if row["team"] != side} == {0}
    assert len({row["chassis"] for row in match.header["roster"] if row["team"] != side}) > 1


def test_line_of_sight_ends_at_walls(match):
    perception, batch = match.perceptions[match.seats[0]], match.engine.batch
    eye, plane = batch.row("pos", 0)[match.seats[0]].copy(), batch.row("sight_plane", 0)
    stored = plane.copy()
    try:
        plane[:] = 0
        ahead = 1 if eye[0] < 40 else -1
        point = (eye + [10.0 * ahead, 0.0, 0.0]).astype(np.float32)[None]
        assert perception.in_sight(point).all()
        plane[int(eye[1]), int(eye[0]) + 5 * ahead] = np.uint64(1) << np.uint64(int(eye[2]))
        assert not perception.in_sight(point).any()
        assert perception.in_sight((eye + [4.9 * ahead, 0.0, 0.0]).astype(np.float32)[None]).all()
    finally:
        plane[:] = stored
