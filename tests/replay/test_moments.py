"""Moments are found, ranked and captioned while a match is recorded, and hostile files cost only themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from echelon.replay import match_text, schema
from echelon.replay import moments as module
from echelon.replay.moments import AGAINST, BONUS, MIN_SCORE, MomentScan, TurningPoint
from echelon.replay.reader import Replay
from echelon.replay.schema import (
    EVENTS,
    MAX_MOMENT_MECHS,
    MAX_MOMENTS,
    MAX_WIN_POINTS,
    REASONS,
    EventKind,
    HitFlag,
    MechFlag,
)
from echelon.replay.winprob import FEATURES, WinModel
from echelon.runs import policy_name
from tests.golden import FOLDER, assert_golden_json
from tests.replay.golden import EDITS, GOLDEN, SMALL, SMOKE
from tests.replay.synthetic import FRAME_TICKS, HZ, header

SECONDS = 30
SIZE = 4
"""Mechs per team; mechs 0 to 3 are B1 to B4."""
WEIGHTS = {"alive": 4.0, "lead": 3.0}
GAUSS, MISSILE = 3, 2
VALUES = FOLDER / "moments.json"
LEAGUE = "docs/replays/league-exploiter.ecr"
"""A match with swings, a comeback and kills, beside the golden ones."""


def model(weights: Mapping[str, float] = WEIGHTS) -> WinModel:
    """Return a model with these coefficients and no spread."""
    values = np.array([weights.get(feature.name, 0.0) for feature in FEATURES])
    return WinModel(values, (0.0, 0.0), {})


class Match:
    """A match of 4 against 4 that tests write frame by frame."""

    def __init__(self) -> None:
        roster = [
            {"team": m // SIZE, "pack": 0, "chassis": 2, "name": f"{'BR'[m // SIZE]}{m % SIZE + 1}", "present": True}
            for m in range(2 * SIZE)
        ]
        self.header = header(mechs=2 * SIZE, roster=roster)
        count = SECONDS * HZ // FRAME_TICKS + 1
        self.tick = np.arange(count) * FRAME_TICKS
        self.flags = np.full((count, 2 * SIZE), int(MechFlag.ALIVE), np.int64)
        self.x = np.full((count, 2 * SIZE), 16 * 12, np.int64)
        self.score = np.zeros((count, 2), np.int64)
        self.events: list[list[int]] = []

    def at(self, second: float) -> int:
        return int(second * HZ) // FRAME_TICKS

    def mark(self, mech: int, second: float, flag: MechFlag) -> None:
        self.flags[self.at(second) :, mech] |= int(flag)

    def kill(self, second: float, killer: int, victim: int, weapon: int = -1, flags: int = 0) -> None:
        tick = int(second * HZ)
        if weapon >= 0:
            self.events.append([tick, EventKind.HIT, killer, victim, weapon, 400, flags, 0, 0, 0])
        self.events.append([tick, EventKind.KILL, killer, victim, -1, 0, 0, 0, 0, 0])
        self.flags[self.at(second) :, victim] &= ~int(MechFlag.ALIVE)

    def scan(self, winner: int = -1, weights: Mapping[str, float] = WEIGHTS) -> dict[str, Any]:
        scan = MomentScan(self.header, model(weights))
        half = len(self.tick) // 2
        for part in (slice(0, half + 1), slice(half, None)):
            scan.add(*self.chunk(part))
        rows, moments = scan.result(winner)
        return {"moments": moments, "tick": rows[:, 0].tolist(), "win": (rows[:, 1:4] / 65535).tolist()}

    def chunk(self, part: slice) -> tuple[dict[str, Any], dict[str, Any], int]:
        first, last = int(self.tick[part][0]), int(self.tick[part][-1])
        rows = [row for row in self.events if first < row[0] <= last or (first == 0 and row[0] == 0)]
        table = np.array(rows, np.int64).reshape(-1, len(EVENTS.columns))
        events = {column.name: table[:, i] for i, column in enumerate(EVENTS.columns)}
        events["tick"] = events["tick"] - first
        zero = np.zeros_like(self.x[part])
        frames = {
            "tick": (self.tick[part] - first)[:, None],
            "score": self.score[part],
            "x": self.x[part],
            "y": zero + 16 * 5,
            "z": zero,
            "hp": zero + 100,
            "leg_hp": zero,
            "flags": self.flags[part],
        }
        return frames, events, first

    def captions(self, **options: Any) -> list[str]:
        return [moment["caption"] for moment in self.scan(**options)["moments"]]


def test_kill_caption_has_weapon_side_and_change_of_probability():
    match = Match()
    match.kill(15.0, 1, 4, GAUSS, HitFlag.REAR)
    found = match.scan()["moments"]
    assert [row["caption"] for row in found] == [
        "0:15 first blood: B2's gauss round kills R1 from behind: blue 50 % → 64 %"
    ]
    (row,) = found
    assert row["kind"] == "exploit" and row["rank"] == 1 and row["team"] == 0 and row["mechs"] == ["B2", "R1"]
    assert (row["tick"], row["from"], row["to"]) == (300, 13.0, 16.5) and row["before"] == 0.5 < row["after"]
    assert row["score"] == pytest.approx(row["after"] - row["before"] + BONUS["exploit"], abs=0.002)


@pytest.mark.parametrize(
    ("flag", "marks", "words"),
    [
        (MechFlag.SHUTDOWN, HitFlag.REAR, ", shut down by heat"),
        (MechFlag.FALLEN, 0, ", knocked down"),
        (MechFlag.PAINTED, 0, ""),
    ],
    ids=["shutdown", "fallen", "painted"],
)
def test_kill_caption_has_the_state_of_the_target(flag, marks, words):
    match = Match()
    match.mark(5, 9.0, flag)
    match.kill(10.0, 0, 5, MISSILE, marks)
    found = match.scan()["moments"][0]
    assert found["caption"] == f"0:10 first blood: B1's missile kills R2{words}: blue 50 % → 64 %"
    assert found["kind"] == ("first_blood" if flag == MechFlag.PAINTED else "exploit")


def test_only_a_hostile_that_cannot_fight_back_is_exploited():
    match = Match()
    match.kill(5.0, 0, 4)
    match.mark(1, 9.0, MechFlag.SHUTDOWN)
    match.mark(5, 19.0, MechFlag.FALLEN)
    for second, killer, victim, marks in ((10.0, 0, 1, 0), (20.0, 2, 5, 0), (28.0, 6, 3, HitFlag.REAR)):
        match.kill(second, killer, victim, GAUSS, marks)
    kinds = {row["second"]: row["kind"] for row in match.scan()["moments"]}
    assert BONUS["exploit"] < MIN_SCORE  # one that changes nothing is no moment
    assert kinds == {5.0: "first_blood", 10.0: "friendly_fire", 20.0: "exploit", 28.0: "exploit"}


def test_kills_within_seconds_are_one_moment_with_own_losses():
    match = Match()
    for second, killer, victim in ((10.0, 0, 4), (11.0, 0, 5), (11.5, 6, 1), (20.0, 2, 6), (21.0, 3, 7)):
        match.kill(second, killer, victim)
    captions = match.captions(winner=0)
    assert captions[0].startswith("0:10 first blood: B1 kills R1 and R2 within 1 s, blue loses B2: blue 50 % → ")
    assert captions[-1].startswith("0:20 Blue kills R3 and R4 within 1 s: blue ")
    assert len(captions) == 2, "the kill of B2 belongs to the first moment"


def test_strongest_hit_of_a_kill_is_the_one_that_a_scan_finds():
    rng = np.random.default_rng(0)
    for count in (0, 60, 2000):
        limits = {
            "kind": (0, 4), "tick": (0, 6), "actor": (-1, 4), "target": (-1, 4), "value": (0, 9), "weapon": (0, 99),
        }  # fmt: skip
        events = {name: rng.integers(*limit, count) for name, limit in limits.items()}
        events["flags"] = np.arange(count) % 7
        hits = module._Hits(events)
        for tick, killer, victim in np.ndindex(7, 5, 5):
            same = (events["kind"] == int(EventKind.HIT)) & (events["tick"] == tick)
            rows = np.flatnonzero(same & (events["actor"] == killer - 1) & (events["target"] == victim - 1))
            row = rows[np.argmax(events["value"][rows])] if len(rows) else None
            found = (-1, 0) if row is None else (events["weapon"][row], events["flags"][row])
            assert hits.strongest(tick, killer - 1, victim - 1) == found


def test_hazards_and_friendly_fire_are_named():
    match = Match()
    match.kill(8.0, -1, 4)
    match.kill(16.0, 0, 1, MISSILE)
    captions = match.captions()
    assert captions[0].startswith("0:08 first blood: R1 is destroyed by a hazard: blue 50 % → ")
    assert captions[1].startswith("0:16 B1's missile destroys its own B2: blue 64 % → 50 %")


def test_single_mech_that_keeps_the_zone_from_many_is_a_hold():
    match = Match()
    for mech in (1, 2, 3):
        match.kill(2.0 + mech * 0.1, 4, mech)
    match.x[match.at(6) : match.at(14), 0] = 16 * 6
    match.score[match.at(6) :, 0] = np.minimum(160, 5 * np.arange(len(match.tick) - match.at(6)))
    assert any(c.startswith("0:06 B1 alone holds the zone against 4 for 8 s: blue ") for c in match.captions())
    match.x[:, 4] = 16 * 6
    assert not any("holds" in caption for caption in match.captions()), "a contested zone is held by nobody"


def test_winner_far_behind_is_a_comeback():
    match = Match()
    for number, second in enumerate((4.0, 5.0)):
        match.kill(second, 4, number)
    match.score[match.at(10) :, 1] = 300
    for number, second in enumerate((20.0, 22.0, 24.0, 26.0)):
        match.kill(second, 2, 4 + number)
    found = match.scan(winner=0)["moments"]
    top = next(row for row in found if row["rank"] == 1)
    assert top["kind"] == "comeback" and top["after"] == 1.0
    assert top["caption"] == "0:10 Blue comes back from 2 against 4 mechs, 0.0 to 15.0 zone points: blue 6 % → 100 %"
    assert all(row["kind"] != "comeback" for row in match.scan()["moments"])


def test_change_without_kill_is_a_swing_with_its_cause():
    match = Match()
    match.score[match.at(12) :, 1] = 160
    assert match.captions() == ["0:11 Red scores 8.0 zone points to 0.0 within 1 s: blue 50 % → 31 %"]


def test_swing_starts_just_before_its_change_and_is_shown_to_its_end():
    match = Match()
    drift = match.at(9), match.at(12)
    match.score[slice(*drift), 1] = np.linspace(0, 4, drift[1] - drift[0])
    match.score[match.at(12) : match.at(14), 1] = np.linspace(8, 160, match.at(14) - match.at(12))
    match.score[match.at(14) :, 1] = 160
    (row,) = match.scan()["moments"]
    assert row["second"] == pytest.approx(12.0, abs=0.3) and row["to"] == pytest.approx(14.0 + 1.5, abs=0.3)
    assert row["caption"].startswith("0:12 Red scores 7.") and row["after"] < 0.32


def test_swing_goes_on_over_small_reversals_and_ends_at_large_ones():
    match = Match()
    for second, score in ((10.0, 60), (10.5, 52), (11.0, 160), (12.0, 20)):
        match.score[match.at(second) :, 1] = score
    first, second = sorted(match.scan()["moments"], key=lambda row: row["tick"])[:2]
    assert (first["second"], first["to"]) == (9.75, 12.5) and first["before"] == 0.5
    assert second["team"] == 0 and second["second"] == pytest.approx(11.75, abs=0.3)


def test_league_match_has_its_swing_where_the_curve_falls(repository):
    with Replay(repository / LEAGUE) as replay:
        found, hz = replay.timeline(), replay.header["tick_hz"]
    curve = dict(zip(found["win"]["tick"], found["win"]["blue"], strict=True))
    (row,) = (row for row in found["moments"] if row["kind"] == "swing" and row["second"] > 20)
    assert curve[31 * hz] > 0.9 and curve[32 * hz] < 0.5
    assert 31.0 <= row["second"] < 32.0 <= row["to"] and row["before"] > 0.9 and row["after"] < 0.5


def test_moment_of_several_kills_is_shown_to_the_last():
    match = Match()
    match.kill(10.0, 0, 4)
    match.kill(12.5, 0, 5)
    (row,) = match.scan()["moments"]
    assert (row["from"], row["to"]) == (8.0, 14.0)


@pytest.mark.golden
def test_golden_moments(repository):
    golden = {}
    for path in (SMALL, EDITS, SMOKE, repository / LEAGUE):
        with Replay(path) as replay:
            golden[path.relative_to(repository).as_posix()] = replay.timeline()["moments"]
    assert_golden_json(VALUES, golden)


def test_points_in_captions_are_rounded_down():
    assert match_text.comeback_text(0, (2, 3), (7.35, 9.99)).endswith("7.3 to 9.9 zone points")
    assert match_text.swing_text("zone points", 1, (0, 0), (1.26, 7.35), 4) == (
        "Red scores 7.3 zone points to 1.2 within 4 s"
    )


def test_policy_has_one_name_whoever_recorded_it():
    run = "20261122-055435-standard-stormy-marten"
    names = [policy_name("update 345", run), policy_name("stormy-marten u345"), policy_name(run), policy_name("boss")]
    assert names == ["update 345 of stormy-marten", "update 345 of stormy-marten", "stormy-marten", "boss"]
    teams = [{"name": "human and update 5", "level": ""}, {"name": "medium", "level": "heuristic:medium"}]
    title = "human and update 5 of stormy-marten against bot: medium"
    assert match_text.match_title({"teams": teams, "run": run}) == title


def test_match_text_names_teams_and_endings():
    header = {"teams": [{"name": "a\x1bb", "level": ""}, {"name": "", "level": "heuristic:medium"}], "tick_hz": 20.0}
    assert [match_text.team_name(header, team) for team in (0, 1)] == ["a?b", "bot: medium"]
    words = ["", "zone held", "elimination", "time up"]
    assert [match_text.ending_text(reason) for reason in REASONS] == words and match_text.ending_text(None) == ""


def test_quiet_match_has_a_curve_and_no_moments():
    found = Match().scan(winner=1)
    assert found["moments"] == []
    assert found["tick"] == [HZ // 2 * n for n in range(2 * SECONDS + 1)]
    assert all(p == pytest.approx(0.5, abs=1e-4) for row in found["win"][:-1] for p in row)
    assert found["win"][-1] == [0.0, 0.0, 0.0]


def test_only_the_result_is_certain():
    match = Match()
    for number in range(SIZE):
        match.kill(3.0 + number, 0, SIZE + number)
    curve = match.scan(winner=0, weights={"alive": 400.0})["win"]
    assert max(max(row) for row in curve[:-1]) < 1.0 and curve[-1] == [1.0, 1.0, 1.0]


def test_long_match_has_a_bounded_number_of_samples(monkeypatch):
    match = Match()
    match.kill(15.0, 1, 4)
    monkeypatch.setattr(module, "MAX_SAMPLES", 16)
    monkeypatch.setattr(schema, "MAX_WIN_POINTS", 6)
    scan = MomentScan(match.header, model())
    for first in range(0, len(match.tick) - 1, 8):
        scan.add(*match.chunk(slice(first, first + 9)))
        assert scan._samples.count <= 16 + 9
    rows, moments = scan.result()
    assert len(rows) <= 6 and len(moments) == 1 and moments[0]["second"] == 15.0


def test_moment_names_a_bounded_number_of_mechs():
    match = Match()
    for number in range(SIZE):
        match.kill(10.0 + number / 10, number, SIZE + number)
    (row,) = match.scan()["moments"]
    assert len(row["mechs"]) == 2 * SIZE == MAX_MOMENT_MECHS


@pytest.mark.parametrize("path", [golden.path for golden in GOLDEN], ids=lambda path: path.stem)
def test_index_has_what_an_unclosed_file_computes_up_to_the_result(path, tmp_path):
    with Replay(path) as replay:
        found, last, end = replay.timeline(), replay.ticks, replay.chunks[-1]
    cut = tmp_path / "cut.ecr"
    cut.write_bytes(path.read_bytes()[: end.offset + end.length])
    with Replay(cut) as replay:
        assert not replay.complete and replay.top_moment == ""
        computed = replay.timeline()
    assert [computed[name] for name in ("markers", "series")] == [found[name] for name in ("markers", "series")]
    assert computed["outcome"]["winner"] == -1
    assert [computed["outcome"][name] for name in ("ticks", "alive")] == [
        found["outcome"][name] for name in ("ticks", "alive")
    ]
    for name, values in found["win"].items():
        before_the_result = [v[:-1] for v in values] if name == "parts" else values[:-1]
        part = computed["win"][name]
        assert before_the_result == ([v[:-1] for v in part] if name == "parts" else part[:-1])
    assert len(found["win"]["tick"]) <= MAX_WIN_POINTS and found["win"]["tick"][-1] == last
    moments: Sequence[Mapping[str, Any]] = found["moments"]
    assert 1 <= len(moments) <= MAX_MOMENTS
    assert sorted(row["rank"] for row in moments) == list(range(1, len(moments) + 1))
    assert [row["tick"] for row in moments] == sorted(row["tick"] for row in moments)
    assert all(0 <= row["tick"] <= last and row["from"] < row["to"] for row in moments)
    assert all(0.0 <= p <= 1.0 for row in moments for p in (row["before"], row["after"]))


@pytest.mark.parametrize(
    ("team", "change", "score"), [(0, 0.2, 0.2), (1, 0.2, 0.2 * AGAINST), (1, -0.2, 0.2), (-1, -0.2, 0.2)]
)
def test_moment_counts_less_when_the_acting_team_loses_by_it(team, change, score):
    moment = TurningPoint(20, "kill", team, (), 0.5, 0.5 + change, "", 20)
    assert moment.score == pytest.approx(score + BONUS["kill"])
    assert replace(moment, kind="hold", after=moment.before).score == 0, "what changes nothing is no turning point"
