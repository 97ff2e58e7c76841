"""Fit of the win model to recorded matches, and its evaluation on matches and policies that the fit has not seen.

Matches are split by map, so that both sides of a swapped pair and all pairings on one map are in one split: one to
fit, one to calibrate (a factor of the logit, so that the model stays symmetric), one to test. Matches of held-out
pilots are a test of their own. Every match has the same weight, however long it is.
``python -m tests.bench.winprob_fit FOLDER... --out FILE`` fits a model and prints its errors as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from echelon.files import atomic_write
from echelon.replay.codec import ReplayError
from echelon.replay.columns import Ints
from echelon.replay.reader import Replay
from echelon.replay.schema import SUFFIX, WINNERS
from echelon.replay.winprob import FEATURES, MODEL_FORMAT, Floats, MatchSituation, Roster, WinModel, features, sigmoid

SAMPLE_S = 1.0
"""Match time between two samples [s]."""
MIN_SAMPLES = 3
"""Samples of the shortest match that is used."""
OUTCOMES = (1.0, 0.0, 0.5)
L2 = 50.0
"""Penalty of squared coefficients of features with unit variance [matches]; less fits the pilots that were seen."""
ENSEMBLE = 24
"""Fits to resampled matches."""
NEWTON_STEPS, CONVERGED = 50, 1e-9
BINS = 10
RESAMPLES = 400
"""Resampled test sets of its interval."""
FITTED, CALIBRATED, TESTED = "fit", "calibrate", "test"
SHARES = ((FITTED, 0.6), (CALIBRATED, 0.8), (TESTED, 1.0))
"""Cumulative shares of the maps in each split."""
HOLD_OUT_SHARE = 0.25
"""Share of the pilots that are held out where none is named."""
BASELINE = ("alive", "lead")


@dataclass(frozen=True)
class Sampled:
    """A decided match: features ``[F, N]`` of F samples."""

    pilots: tuple[str, str]
    world: str
    result: float
    """1 if blue won, 0 if red, 0.5 for a draw."""
    values: Floats


def replay_files(places: Iterable[Path]) -> list[Path]:
    found = [sorted(place.rglob(f"*{SUFFIX}")) if place.is_dir() else [place] for place in places]
    return list(dict.fromkeys(path for paths in found for path in paths))


def pilot_name(team: Mapping[str, Any]) -> str:
    return team["level"] or " ".join(filter(None, (Path(team["name"]).name, team["checkpoint"])))


def sample(path: Path) -> Sampled | None:
    """Return the samples of a decided match before its last frame, None without result or with too few samples."""
    with Replay(path) as replay:
        outcome = replay.outcome or {}
        if not 0 <= outcome.get("winner", -1) < len(WINNERS):
            return None
        roster, parts, due = Roster.of(replay.header), [], 0.0
        for number in range(len(replay.chunks)):
            chunk = replay.chunk(number)
            chosen = []
            for frame, tick in enumerate(chunk.ticks):
                if tick >= due and tick < replay.ticks:
                    chosen.append(frame)
                    due = tick + SAMPLE_S * roster.hz
            if chosen:
                frames = {name: values[chosen] for name, values in chunk.frames.items()}
                parts.append(features(MatchSituation.of(roster, frames, chunk.ticks[chosen])))
        if sum(map(len, parts)) < MIN_SAMPLES:
            return None
        blue, red = (pilot_name(team) for team in replay.header["teams"])
        world = str(replay.header["world"]["sha256"])
        return Sampled((blue, red), world, OUTCOMES[outcome["winner"]], np.concatenate(parts))


def sample_all(paths: Sequence[Path]) -> Iterator[Sampled | None]:
    for path in paths:
        try:
            yield sample(path)
        except (ReplayError, OSError):
            yield None


def choose_hold_out(matches: Sequence[Sampled], names: Sequence[str]) -> set[str]:
    """Return the held-out pilots: those whose name contains one of ``names``, without names a fixed share."""
    pilots = sorted({pilot for match in matches for pilot in match.pilots})
    if names:
        return {pilot for pilot in pilots if any(name in pilot for name in names)}
    return set(sorted(pilots, key=_share)[: int(len(pilots) * HOLD_OUT_SHARE)])


def _share(text: str) -> float:
    """Return a number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32


def split_of(match: Sampled) -> str:
    share = _share(match.world)
    return next(name for name, limit in SHARES if share < limit)


@dataclass(frozen=True)
class FitRows:
    """Samples of several matches, one after another; R rows."""

    values: Floats
    """Features ``[R, N]``."""
    result: Floats
    """``[R]``."""
    weight: Floats
    """``[R]``; those of a match sum to 1."""
    match: Ints
    """Index of the match ``[R]``."""

    @staticmethod
    def of(matches: Sequence[Sampled]) -> FitRows:
        counts = [len(match.values) for match in matches]
        return FitRows(
            values=np.concatenate([m.values for m in matches]) if matches else np.zeros((0, len(FEATURES))),
            result=np.repeat([m.result for m in matches], counts),
            weight=np.repeat([1.0 / count for count in counts], counts),
            match=np.repeat(np.arange(len(matches)), counts),
        )


def fit(values: Floats, result: Floats, weight: Floats, start: Floats | None = None, *, penalty: float = L2) -> Floats:
    """Return the coefficients ``[N]`` of the penalised logistic fit, by Newton's method."""
    total = max(weight.sum(), 1e-12)
    scale = np.sqrt((values**2 * weight[:, None]).sum(axis=0) / total) + 1e-9
    scaled = values / scale
    found = np.zeros(values.shape[1]) if start is None else start * scale
    for _ in range(NEWTON_STEPS):
        p = sigmoid((scaled * found).sum(axis=1))
        slope = scaled.T @ (weight * (p - result)) + penalty * found
        curve = (scaled * (weight * p * (1 - p))[:, None]).T @ scaled + penalty * np.eye(len(found))
        step = np.linalg.solve(curve, slope)
        found = found - step
        if np.abs(step).max() < CONVERGED:
            break
    return found / scale


def fit_model(rows: FitRows, held: FitRows, seed: int = 0) -> WinModel:
    """Return the model fitted to ``rows`` and calibrated on ``held``."""
    rng = np.random.default_rng(seed)
    weights = fit(rows.values, rows.result, rows.weight)
    matches = int(rows.match.max()) + 1
    draws = (np.bincount(rng.integers(0, matches, matches), minlength=matches) for _ in range(ENSEMBLE))
    ensemble = np.stack([fit(rows.values, rows.result, rows.weight * drawn[rows.match], weights) for drawn in draws])
    factor = calibration_factor(WinModel(weights, ensemble), held)
    return WinModel(weights * factor, ensemble * factor)


def calibration_factor(model: WinModel, held: FitRows) -> float:
    if not len(held.values):
        return 1.0
    return float(fit(model.logit(held.values)[:, None], held.result, held.weight, penalty=0.0)[0])


def brier(p: Floats, rows: FitRows) -> float:
    return float((rows.weight * (p - rows.result) ** 2).sum() / rows.weight.sum())


def calibration_error(p: Floats, rows: FitRows, seed: int = 0) -> tuple[float, float, float]:
    number = np.minimum(BINS - 1, (p * BINS).astype(int))
    matches = int(rows.match.max()) + 1
    gaps, weights = np.zeros((matches, BINS)), np.zeros(matches)
    np.add.at(gaps, (rows.match, number), rows.weight * (p - rows.result))
    np.add.at(weights, rows.match, rows.weight)
    draws = np.random.default_rng(seed).multinomial(matches, np.full(matches, 1 / matches), RESAMPLES)
    drawn = np.abs(draws @ gaps).sum(axis=1) / (draws @ weights)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(np.abs(gaps.sum(axis=0)).sum() / weights.sum()), float(low), float(high)


def evaluate(model: WinModel, baseline: Floats, rows: FitRows) -> dict[str, Any]:
    p = model.probability(rows.values)
    plain = sigmoid((rows.values[:, _columns(BASELINE)] * baseline).sum(axis=1))
    error, low, high = calibration_error(p, rows)
    return {
        "matches": int(rows.match.max()) + 1,
        "brier": brier(p, rows),
        "baseline_brier": brier(plain, rows),
        "calibration_error": error,
        "interval": [low, high],
    }


def _columns(names: Sequence[str]) -> list[int]:
    return [[feature.name for feature in FEATURES].index(name) for name in names]


def fit_matches(matches: Sequence[Sampled], hold_out: Sequence[str] = ()) -> tuple[WinModel, dict[str, Any]]:
    """Return the model of matches and its report; ``ValueError`` if a split has none."""
    held = choose_hold_out(matches, hold_out)
    unseen = [match for match in matches if held & set(match.pilots)]
    seen = [match for match in matches if not held & set(match.pilots)]
    splits = {name: FitRows.of([match for match in seen if split_of(match) == name]) for name, _ in SHARES}
    for name, rows in splits.items():
        if not len(rows.values):
            raise ValueError(f"split {name!r} has no matches of {len(matches)}; try more recorded matches")
    fitted = splits[FITTED]
    model = fit_model(fitted, splits[CALIBRATED])
    baseline = fit(fitted.values[:, _columns(BASELINE)], fitted.result, fitted.weight, penalty=1.0)
    tests = {"matches": splits[TESTED], "pilots": FitRows.of(unseen)}
    both = [match for match in seen if split_of(match) == TESTED] + unseen
    tests["both"] = FitRows.of(both)
    report = {
        "fitted": int(fitted.match.max()) + 1,
        "calibrated": int(splits[CALIBRATED].match.max()) + 1,
        "pilots": sorted({pilot for match in seen for pilot in match.pilots}),
        "held_out_pilots": sorted(held),
        "tests": {name: evaluate(model, baseline, rows) for name, rows in tests.items() if len(rows.values)},
    }
    return model, report


def model_text(model: WinModel, report: Mapping[str, Any]) -> str:
    digits = 6
    both = report["tests"]["both"]
    data = {
        "format": MODEL_FORMAT,
        "features": [feature.name for feature in FEATURES],
        "weights": np.round(model.weights, digits).tolist(),
        "ensemble": np.round(model.ensemble, digits).tolist(),
        "fitted": report["fitted"],
        "tested": {name: both[name] for name in ("matches", "brier", "baseline_brier", "calibration_error")},
    }
    return json.dumps(data) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Fit the model to the matches of some folders, write it, and print its errors."""
    parser = argparse.ArgumentParser(prog="tests.bench.winprob_fit", description=main.__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with recorded matches, or files")
    parser.add_argument("--hold-out", action="append", default=[], help="part of a pilot's name; default: a quarter")
    parser.add_argument("--out", type=Path, help="file of the model")
    given = parser.parse_args(argv)
    paths = replay_files(given.folders)
    sampled = list(sample_all(paths))
    model, report = fit_matches([match for match in sampled if match is not None], given.hold_out)
    report = {"files": len(paths), "unused": sum(match is None for match in sampled), **report}
    if given.out is not None:
        atomic_write(given.out, model_text(model, report), durable=False)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
