"""The win model is symmetric and equals an oracle; its fit finds the coefficients behind results."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from echelon.replay import winprob
from echelon.replay.reader import Replay
from echelon.replay.schema import WIN_GROUPS, MechFlag
from echelon.replay.winprob import FEATURES, MODEL_FILE, MatchSituation, Roster, features, load_model
from tests.bench import winprob_fit
from tests.bench.winprob_fit import FitRows, Sampled
from tests.golden import FOLDER, assert_golden_json
from tests.replay.golden import SMALL, SMOKE

VALUES = FOLDER / "winprob.json"
CHUNKS = (0, 3, 7)
"""Chunks of the golden replay whose first frames are compared."""


def situation(replay: Replay, number: int, roster: Roster | None = None) -> MatchSituation:
    """Return the state in all frames of a chunk."""
    chunk = replay.chunk(number)
    return MatchSituation.of(roster or Roster.of(replay.header), chunk.frames, chunk.ticks)


def swapped(header: dict[str, Any]) -> dict[str, Any]:
    """Return a header with the mechs in the other team."""
    roster = [{**mech, "team": 1 - mech["team"]} for mech in header["roster"]]
    return {**header, "roster": roster, "teams": header["teams"][::-1]}


def with_ratings(header: dict[str, Any], *ratings: float | None) -> dict[str, Any]:
    """Return a header with the ratings of blue and red; None for an unknown one."""
    teams = [{**team, "rating": rating} for team, rating in zip(header["teams"], ratings, strict=True)]
    return {**header, "teams": teams}


def test_probability_knows_the_pilots_and_takes_unknown_ones_for_equal():
    model = load_model()
    with Replay(SMALL) as replay:
        one = {
            ratings: model.estimate(situation(replay, 0, Roster.of(with_ratings(replay.header, *ratings))))
            for ratings in ((2000.0, 1600.0), (1600.0, 2000.0), (1700.0, 1700.0), (None, 2000.0), (2000.0, None))
        }
    equal = one[1700.0, 1700.0]
    better, worse = one[2000.0, 1600.0], one[1600.0, 2000.0]
    assert (better.p > equal.p + 0.05).all() and (worse.p < equal.p - 0.05).all()
    assert (better.parts[:, -1] > 0.5).all() and (equal.parts[:, -1] == 0).all()
    for unknown in (one[None, 2000.0], one[2000.0, None]):
        assert (unknown.p == equal.p).all()
        assert (unknown.high - unknown.low > equal.high - equal.low).all()  # who flies is not known


@pytest.mark.parametrize("path", [SMALL, SMOKE], ids=["small", "smoke"])
def test_swapped_teams_have_exactly_the_remaining_probability(path):
    model = load_model()
    with Replay(path) as replay:
        for number in range(len(replay.chunks)):
            chunk = replay.chunk(number)
            frames = {**chunk.frames, "score": chunk.frames["score"][:, ::-1]}
            header = with_ratings(replay.header, 1900.0, 1600.0)
            one = situation(replay, number, Roster.of(header))
            two = MatchSituation.of(Roster.of(swapped(header)), frames, chunk.ticks)
            assert (features(two) == -features(one)).all() and features(one)[:, -3:].any()
            found, mirrored = model.estimate(one), model.estimate(two)
            assert (mirrored.p == 1 - found.p).all() and (mirrored.low == 1 - found.high).all()
            assert (found.low <= found.p).all() and (found.p <= found.high).all()


def oracle(header: dict[str, Any], columns: dict[str, list[float]], score: list[float], tick: int) -> dict[str, float]:
    """Return features of one frame, computed from the rules in plain Python."""
    sums = [dict.fromkeys(("n", "alive", "hp", "full", "zone", "travel", "down"), 0.0) for _ in range(2)]
    for m, mech in enumerate(header["roster"]):
        spec, team = header["chassis"][mech["chassis"]], sums[mech["team"]]
        team["n"] += 1
        team["full"] += spec["hp"]
        flags = int(columns["flags"][m])
        if not flags & MechFlag.ALIVE:
            continue
        away = math.hypot(columns["x"][m] - header["zone"][0], columns["y"][m] - header["zone"][1])
        speed = spec["max_speed"] * (0.4 if flags & MechFlag.LEGGED else 1.0)
        team["alive"] += 1
        team["hp"] += columns["hp"][m]
        team["zone"] += spec["hp"] if away < header["zone"][2] else 0.0
        team["travel"] += min(30.0, max(0.0, away - header["zone"][2]) / speed)
        team["down"] += bool(flags & (MechFlag.FALLEN | MechFlag.SHUTDOWN))
    blue, red = sums
    left = header["duration_s"] - tick / header["tick_hz"]
    late, size = 10 / (10 + left), math.log2((blue["n"] + red["n"]) / 2 / 5)
    close = [math.exp(-max(0.0, header["score_to_win"] - points) / 6) for points in score]

    def share(name: str) -> float:
        total = blue[name] + red[name]
        return (blue[name] - red[name]) / total if total else 0.0

    def mean(name: str) -> float:
        return blue[name] / max(1, blue["alive"]) - red[name] / max(1, red["alive"])

    return {
        "alive": share("alive"),
        "alive_size": share("alive") * size,
        "hp": share("hp"),
        "hp_ratio": math.log((blue["hp"] / blue["full"] + 0.05) / (red["hp"] / red["full"] + 0.05)),
        "hp_late": share("hp") * late,
        "lead": (score[0] - score[1]) / header["score_to_win"],
        "lead_late": math.tanh((score[0] - score[1]) / 2) * late,
        "close": close[0] - close[1],
        "zone": share("zone"),
        "zone_close": share("zone") * max(close),
        "travel": -mean("travel") / 10,
        "down": -mean("down"),
    }


@pytest.mark.parametrize("path", [SMALL, SMOKE], ids=["small", "smoke"])
def test_features_equal_those_of_the_rules(path):
    with Replay(path) as replay:
        scale = {column["name"]: column["scale"] for column in replay.header["columns"]}
        for number in range(len(replay.chunks)):
            chunk, values = replay.chunk(number), features(situation(replay, number))
            for frame in (0, len(chunk.ticks) - 1):
                columns = {n: (chunk.frames[n][frame] * scale[n]).tolist() for n in ("x", "y", "hp", "flags")}
                score = (chunk.frames["score"][frame] * scale["score"]).tolist()
                expected = oracle(replay.header, columns, score, int(chunk.ticks[frame]))
                found = dict(zip([feature.name for feature in FEATURES], values[frame], strict=True))
                for name, value in expected.items():
                    assert found[name] == pytest.approx(value, abs=1e-9), (number, frame, name)


@pytest.mark.golden
def test_golden_win_probability():
    model, rows = load_model(), []
    with Replay(SMOKE) as replay:
        for number in CHUNKS:
            state = situation(replay, number, Roster.of(with_ratings(replay.header, 1834.0, 1650.0)))
            row = {name: values[:1] for name, values in model.estimate(state)._asdict().items()}
            rows.append(row | {"features": features(state)[:1], "chunk": number})
        line = replay.timeline()
    plain = [
        {name: v if isinstance(v, int) else np.round(v, 12).reshape(-1).tolist() for name, v in row.items()}
        for row in rows
    ]
    index = {name: line[name] for name in ("win", "outcome")}
    assert_golden_json(VALUES, {"replay": SMOKE.name, "index": index, "frames": plain}, compact=True)


def test_groups_of_the_schema_are_those_of_the_features():
    assert tuple(dict.fromkeys(feature.group for feature in FEATURES)) == (*WIN_GROUPS, winprob.PILOTS)


def test_model_of_other_features_is_refused(tmp_path):
    path = tmp_path / "model.json"
    data = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "features": data["features"][1:]}))
    with pytest.raises(ValueError, match="try just fit-winprob"):
        load_model(path)


STATE, OF_SKILL = ~winprob_fit.OF_PILOTS, [feature.name for feature in FEATURES].index("skill")


def sampled(
    count: int, weights: np.ndarray, seed: int, pilots: tuple[str, str] = ("a", "b"), lead: float = 0.0
) -> list[Sampled]:
    """Return matches whose results follow a model with the given coefficients and blue's lead."""
    rng = np.random.default_rng(seed)
    matches = []
    for number in range(count):
        values = np.repeat(rng.normal(size=(1, len(FEATURES))) * STATE, 3, axis=0)
        result = float(rng.random() < winprob.sigmoid(values[:1] @ weights + lead)[0])
        values[:, winprob_fit.OF_PILOTS] = [1.0, 0.0, 0.0]
        matches.append(Sampled(pilots, f"{seed} {number}", result, values))
    return matches


def test_fit_finds_the_coefficients_behind_results_and_the_pilots():
    weights = np.zeros(len(FEATURES))
    weights[:4] = 1.5, -1.0, 0.5, 0.8
    matches = [*sampled(700, weights, 0, lead=1.0), *sampled(700, weights, 1, ("b", "a"), lead=-1.0)]
    rows = FitRows.of(winprob_fit.rated(matches, {"a": 1500 + winprob.RATING_POINTS, "b": 1500}))
    found = winprob_fit.fit(rows, penalty=1.0)
    weights[OF_SKILL] = 1.0
    assert np.abs(found - weights).max() < 0.35
    kept = winprob_fit.fit(rows, penalty=1e9, start=3 * weights)
    assert kept == pytest.approx(3 * weights, abs=1e-3)


def test_penalty_is_that_which_predicts_unseen_matches_best():
    weights = np.zeros(len(FEATURES))
    weights[0] = 2.0
    few, many = (FitRows.of(sampled(count, weights, count)) for count in (20, 800))
    found, penalty = winprob_fit.fit_penalty(few, many)
    errors = {
        p: winprob_fit.brier(winprob_fit.probability(winprob_fit.fit(few, p), many), many)
        for p in winprob_fit.PENALTIES
    }
    assert errors[penalty] == min(errors.values()) and (found == winprob_fit.fit(few, penalty)).all()


def test_ratings_of_pilots_follow_their_results():
    scores = {("x", "heuristic:medium"): 30, ("heuristic:medium", "x"): 10, ("heuristic:medium", "y"): 30}
    matches = [
        Sampled(pilots, "", float(number < wins), np.zeros((3, len(FEATURES))))
        for pilots, wins in scores.items()
        for number in range(40)
    ]
    ratings = winprob_fit.fit_ratings([*matches, replace(matches[0], pilots=("z", "x"), rates=False)])
    lead = winprob.RATING_POINTS * np.log(30.5 / 10.5)
    assert ratings == pytest.approx({"heuristic:medium": 1500, "x": 1500 + lead, "y": 1500 - lead}, abs=1.0)


def test_calibration_error_of_a_known_gap():
    matches = [Sampled(("a", "b"), str(i), float(i % 10 < 6), np.zeros((4, len(FEATURES)))) for i in range(1000)]
    rows = FitRows.of(matches)
    error, low, high = winprob_fit.calibration_error(np.full(len(rows.result), 0.75), rows)
    assert error == pytest.approx(0.15) and low < error < high
    assert winprob_fit.brier(np.full(len(rows.result), 0.6), rows) == pytest.approx(0.24)


def test_held_out_pilots_and_maps_are_never_fitted(monkeypatch):
    matches = sampled(300, np.ones(len(FEATURES)), 3) + sampled(200, np.ones(len(FEATURES)), 4, ("c", "a"))
    seen: list[int] = []
    fit = winprob_fit.fit

    def counted(rows: FitRows, *given: Any) -> np.ndarray:
        seen.append(len(rows.values))
        return fit(rows, *given)

    monkeypatch.setattr(winprob_fit, "fit", counted)
    monkeypatch.setattr(winprob_fit, "PENALTIES", (10.0,))
    _, report = winprob_fit.fit_matches(matches, ["c"])
    assert report["held_out_pilots"] == ["c"] and set(report["ratings"]) == {"a", "b"}
    tests = report["tests"]
    assert tests["pilots"]["matches"] == 200 and [report["fitted"] * 3] == seen
    assert report["fitted"] + report["calibrated"] + tests["maps"]["matches"] == 300
    assert tests["both"]["matches"] == 200 + tests["maps"]["matches"]
    assert len({winprob_fit.split_of(match) for match in matches if match.world == matches[0].world}) == 1


def test_sample_leaves_out_the_last_frame_and_undecided_files(tmp_path):
    found = winprob_fit.sample(SMALL)
    assert found is not None and found.result == 0.0 and len(found.values) >= 8
    with Replay(SMALL) as replay:
        assert len(found.values) < replay.ticks / 20 + 1
    cut = tmp_path / "cut.ecr"
    cut.write_bytes(SMALL.read_bytes()[:-200])
    (tmp_path / "other.ecr").write_bytes(b"no replay")
    assert list(winprob_fit.sample_all(winprob_fit.replay_files([tmp_path]))) == [None, None]
