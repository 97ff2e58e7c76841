"""Fit of the win model to recorded matches, and its evaluation on matches and pilots that the fit has not seen.

Pilots are rated by their matches on fair maps, one pack a side (Bradley-Terry, ``medium`` has 1500); held-out pilots
have the rating that their recordings name, what was known of them before. Matches are split by map, so that both sides
of a swapped pair and all pairings on one map are in one split: one to fit, one to choose the penalty of the fit, one to
test. Matches of held-out pilots are a test of their own. Every match has the same weight, however long it is. Half the
width of the band is that which holds 90 % of the results of continuations, which ``winprob_moments`` writes.
``python -m tests.bench.winprob_fit FOLDER... --out FILE`` fits a model and prints its errors as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from echelon.files import atomic_write
from echelon.replay.codec import ReplayError
from echelon.replay.columns import Ints
from echelon.replay.match_text import LEVEL_PREFIX
from echelon.replay.reader import Replay
from echelon.replay.schema import SUFFIX, WINNERS
from echelon.replay.winprob import (
    FEATURES,
    MAX_SKILL,
    MODEL_FORMAT,
    PILOTS,
    RATING_POINTS,
    Floats,
    MatchSituation,
    Roster,
    features,
    load_model,
    sigmoid,
)

SAMPLE_S = 1.0
"""Match time between two samples [s]."""
MIN_SAMPLES = 3
"""Samples of the shortest match that is used."""
OUTCOMES = (1.0, 0.0, 0.5)
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Penalties of the squared change of coefficients of features with unit variance, of which one is chosen [matches]."""
NEWTON_STEPS, CONVERGED, LEAST_CURVE = 60, 1e-9, 1e-3
CENTRE, ANCHOR = 1500.0, "heuristic:medium"
"""Rating of the centre of the scale, and its pilot."""
BINS = 10
RESAMPLES = 400
"""Resampled test sets of its interval."""
FITTED, CALIBRATED, TESTED = "fit", "calibrate", "test"
SHARES = ((FITTED, 0.7), (CALIBRATED, 0.85), (TESTED, 1.0))
"""Cumulative shares of the maps in each split."""
HOLD_OUT_SHARE = 0.25
"""Share of the pilots that are held out where none is named."""
BAND = 0.9
"""Share of the results of continuations within the band."""


@dataclass(frozen=True)
class Sampled:
    """A decided match: features ``[F, N]`` of F samples."""

    pilots: tuple[str, str]
    world: str
    result: float
    """1 if blue won, 0 if red, 0.5 for a draw."""
    values: Floats
    """With a lead of 1 of blue's rating, or with that of ``with_skill``."""
    known: float | None = None
    """Lead of blue's rating in the recording [unit of the logarithm of the odds]; None unknown."""
    rates: bool = True
    """Whether its result rates its pilots."""


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
        unit = replace(roster, skill=1.0)
        for number in range(len(replay.chunks)):
            chunk = replay.chunk(number)
            chosen = []
            for frame, tick in enumerate(chunk.ticks):
                if tick >= due and tick < replay.ticks:
                    chosen.append(frame)
                    due = tick + SAMPLE_S * roster.hz
            if chosen:
                frames = {name: values[chosen] for name, values in chunk.frames.items()}
                parts.append(features(MatchSituation.of(unit, frames, chunk.ticks[chosen])))
        if sum(map(len, parts)) < MIN_SAMPLES:
            return None
        blue, red = (pilot_name(team) for team in replay.header["teams"])
        config = replay.header["config"]
        return Sampled(
            pilots=(blue, red),
            world=str(replay.header["world"]["sha256"]),
            result=OUTCOMES[outcome["winner"]],
            values=np.concatenate(parts),
            known=roster.skill,
            rates=config.get("world.fairness") == "path" and config.get("num_packs", 1) == 1,
        )


def sample_all(paths: Sequence[Path]) -> Iterator[Sampled | None]:
    for path in paths:
        try:
            yield sample(path)
        except (ReplayError, OSError):
            yield None


OF_PILOTS = np.array([feature.group == PILOTS for feature in FEATURES])


def with_skill(match: Sampled, skill: float) -> Sampled:
    """Return a match that was sampled with a lead of 1 with another lead of blue's rating."""
    return replace(match, values=np.where(OF_PILOTS, match.values * skill, match.values))


def fit_ratings(matches: Iterable[Sampled]) -> dict[str, float]:
    """Return the rating of each pilot by its results, with a won and a lost half match more for each pair."""
    counts: Counter[tuple[str, str]] = Counter()
    points: Counter[tuple[str, str]] = Counter()
    for match in matches:
        if match.rates and match.pilots[0] != match.pilots[1]:
            counts[match.pilots] += 1
            points[match.pilots] += match.result
    names = sorted({name for pair in counts for name in pair})
    at = {name: number for number, name in enumerate(names)}
    rows = np.zeros((len(counts), len(names)))
    for row, (blue, red) in zip(rows, counts, strict=True):
        row[at[blue]], row[at[red]] = 1.0, -1.0
    played = np.array([count + 1.0 for count in counts.values()])
    won = np.array([points[pair] + 0.5 for pair in counts])
    ratings = np.zeros(len(names))
    for _ in range(NEWTON_STEPS):
        p = sigmoid(rows @ ratings)
        curve = (rows * (played * p * (1 - p))[:, None]).T @ rows + LEAST_CURVE * np.eye(len(names))
        ratings -= np.clip(np.linalg.solve(curve, rows.T @ (played * p - won)), -1.0, 1.0)
    centre = ratings[at[ANCHOR]] if ANCHOR in at else 0.0
    return {name: CENTRE + RATING_POINTS * float(ratings[number] - centre) for name, number in at.items()}


def rated(matches: Iterable[Sampled], ratings: Mapping[str, float]) -> list[Sampled]:
    """Return matches with the lead of these ratings, or with that known when they were recorded; 0 where unknown."""
    found = []
    for match in matches:
        blue, red = (ratings.get(name) for name in match.pilots)
        lead = match.known or 0.0 if blue is None or red is None else (blue - red) / RATING_POINTS
        found.append(with_skill(match, max(-MAX_SKILL, min(MAX_SKILL, lead))))
    return found


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


def fit(rows: FitRows, penalty: float, start: Floats | None = None) -> Floats:
    """Return the coefficients ``[N]`` of the logistic fit, penalised for leaving ``start``, by Newton's method."""
    scale = np.sqrt((rows.values**2 * rows.weight[:, None]).sum(axis=0) / rows.weight.sum()) + 1e-9
    scaled, centre = rows.values / scale, np.zeros(len(scale)) if start is None else start * scale
    found = centre.copy()
    for _ in range(NEWTON_STEPS):
        p = sigmoid((scaled * found).sum(axis=1))
        slope = scaled.T @ (rows.weight * (p - rows.result)) + penalty * (found - centre)
        curve = (scaled * (rows.weight * p * (1 - p))[:, None]).T @ scaled + penalty * np.eye(len(found))
        step = np.linalg.solve(curve, slope)
        found = found - step
        if np.abs(step).max() < CONVERGED:
            break
    return found / scale


def fit_penalty(rows: FitRows, held: FitRows, start: Floats | None = None) -> tuple[Floats, float]:
    """Return the coefficients for ``rows`` with the penalty that is best for ``held``, and that penalty."""
    found = {penalty: fit(rows, penalty, start) for penalty in PENALTIES}
    best = min(found, key=lambda penalty: brier(probability(found[penalty], held), held))
    return found[best], best


def probability(weights: Floats, rows: FitRows) -> Floats:
    return sigmoid((rows.values * weights).sum(axis=1))


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


def evaluate(weights: Floats, rows: FitRows, equal: FitRows) -> dict[str, Any]:
    """Return the errors on ``rows``; those for equal pilots are of the same matches, as if no rating were known."""
    p = probability(weights, rows)
    error, low, high = calibration_error(p, rows)
    return {
        "matches": int(rows.match.max()) + 1,
        "brier": brier(p, rows),
        "equal_brier": brier(probability(weights, equal), equal),
        "calibration_error": error,
        "interval": [low, high],
    }


def fit_matches(
    matches: Sequence[Sampled], hold_out: Sequence[str] = (), start: Floats | None = None
) -> tuple[Floats, dict[str, Any]]:
    """Return the coefficients for matches and their report; ``ValueError`` if a split has none."""
    held = choose_hold_out(matches, hold_out)
    unseen = [match for match in matches if held & set(match.pilots)]
    seen = [match for match in matches if not held & set(match.pilots)]
    ratings = fit_ratings(seen)
    parts = {name: [match for match in seen if split_of(match) == name] for name, _ in SHARES}
    for name, part in parts.items():
        if not part:
            raise ValueError(f"split {name!r} has no matches of {len(matches)}; try more recorded matches")
    fitted = FitRows.of(rated(parts[FITTED], ratings))
    weights, penalty = fit_penalty(fitted, FitRows.of(rated(parts[CALIBRATED], ratings)), start)
    tests = {"maps": parts[TESTED], "pilots": unseen, "both": [*parts[TESTED], *unseen]}
    equal = [with_skill(match, 0.0) for match in matches]
    of = {id(match): same for match, same in zip(matches, equal, strict=True)}
    report = {
        "fitted": len(parts[FITTED]),
        "calibrated": len(parts[CALIBRATED]),
        "penalty": penalty,
        "ratings": {name: round(rating) for name, rating in ratings.items()},
        "held_out_pilots": sorted(held),
        "tests": {
            name: evaluate(weights, FitRows.of(rated(part, ratings)), FitRows.of([of[id(match)] for match in part]))
            for name, part in tests.items()
            if part
        },
    }
    return weights, report


def model_text(weights: Floats, spread: tuple[float, float], ratings: Mapping[str, float]) -> str:
    data = {
        "format": MODEL_FORMAT,
        "features": [feature.name for feature in FEATURES],
        "weights": np.round(weights, 6).tolist(),
        "spread": [round(half, 3) for half in spread],
        "ratings": ratings,
    }
    return json.dumps(data) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Fit the model to the matches of some folders, write it, and print its errors.

    Its coefficients are pulled to the present ones, which rest on more matches. The width of the band and the ratings
    of policies stay; those of scripted levels are measured.
    """
    parser = argparse.ArgumentParser(prog="tests.bench.winprob_fit", description=main.__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with recorded matches, or files")
    parser.add_argument("--hold-out", action="append", default=[], help="part of a pilot's name; default: a quarter")
    parser.add_argument("--out", type=Path, help="file of the model")
    given = parser.parse_args(argv)
    paths = replay_files(given.folders)
    sampled = list(sample_all(paths))
    model = load_model()
    weights, report = fit_matches([m for m in sampled if m is not None], given.hold_out, model.weights)
    report = {"files": len(paths), "unused": sum(match is None for match in sampled), **report}
    if given.out is not None:
        levels = {n.removeprefix(LEVEL_PREFIX): r for n, r in report["ratings"].items() if n.startswith(LEVEL_PREFIX)}
        atomic_write(given.out, model_text(weights, model.spread, {**model.ratings, **levels}), durable=False)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
