"""Results of continuations from sampled moments of recorded matches, and how far the win model is from them.

``python -m tests.bench.winprob_moments FOLDER --out FILE`` continues moments of matches with their recorded pilots and
appends the share that blue won, one JSON line a moment; a moment that the file has is not played again.
``--report`` prints the errors of the win model on the file's moments.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from echelon.arena.branch import SEED_MASK, play_on, summarise
from echelon.arena.branch_pilots import BranchPilots
from echelon.arena.named_pilots import choose_pilots
from echelon.arena.reconstruct import ReplayedMatch, moment_tick, open_match, recorded_pilots
from echelon.arena.standings import policy_path
from echelon.env.engine import Engine
from echelon.env.engine_state import EDITS, TERMS, place_terms, write_voxels
from echelon.env.match_state import State, load_match_state, save_match_state
from echelon.play.catalogue import Catalogue
from echelon.replay.reader import Replay
from echelon.replay.winprob import Floats, MatchSituation, Roster, WinModel, load_model
from echelon.rl.lstm_state import LSTMState
from echelon.rl.weights import LoadedPolicy
from echelon.sim.random import StreamId, draw_u32
from tests.bench.winprob_fit import BAND, replay_files

FAR = 0.25
BINS = 10
LAST_S = 1.0
"""Time before the end of a match from which no moment is taken [s]."""


def sampled_moments(path: Path, each: int) -> list[int]:
    """Return a random tick of each of ``each`` equal parts of a match."""
    with Replay(path) as replay:
        last = replay.ticks - LAST_S * float(replay.header["tick_hz"])
        rng = np.random.default_rng(int(replay.header["seed"]))
        return [moment_tick(replay, int(rng.uniform(part, part + 1) * last / each)) for part in range(each)]


def continued(path: Path, ticks: Sequence[int], runs: int, finder: Catalogue) -> list[dict[str, Any]]:
    """Return the share of continuations from each tick that blue won: those of ``Brancher``, in one batch."""
    with Replay(path) as recorded:
        cast = choose_pilots(recorded, {}, finder)
        flown = cast.policy_by_mech()
        states, memories = _moments(recorded, flown, ticks)
        envs = runs * len(ticks)
        with BranchPilots(flown) as pilots:
            engine = open_match(recorded, envs=envs, prepare=pilots.attach)
            try:
                _load(engine, states, runs)
                seeds = [_seed(tick, number) for tick in ticks for number in range(runs)]
                engine.batch.set("seed", np.array(seeds, np.uint32))
                script = cast.script(recorded_pilots(recorded)[0])
                engine.batch.set("script", np.repeat(script[None], envs, axis=0))
                engine.run("observe")
                pilots.start({}, seeds)
                for moment, by_mech in enumerate(memories):
                    pilots.go_on(range(moment * runs, (moment + 1) * runs), by_mech)
                found = play_on(engine, pilots, iter(()), None, lambda running: None)
            finally:
                engine.close()
    parts = [found[moment * runs : (moment + 1) * runs] for moment in range(len(ticks))]
    shares = [summarise(part)["blue"]["score"] for part in parts]
    return [{"file": path.name, "tick": t, "share": s, "runs": runs} for t, s in zip(ticks, shares, strict=True)]


def _seed(tick: int, number: int) -> int:
    return draw_u32(0, StreamId.RUN, tick, 0, number) & SEED_MASK


def _moments(
    recorded: Replay, flown: Mapping[int, LoadedPolicy], ticks: Sequence[int]
) -> tuple[list[State], list[dict[int, LSTMState]]]:
    """Return the state of the match at each tick, and the recurrent states by mech."""
    states, memories = list[State](), list[dict[int, LSTMState]]()
    with BranchPilots(flown) as pilots, ReplayedMatch(recorded, prepare=pilots.attach) as match:

        def watch(engine: Engine) -> None:
            if int(engine.batch.numpy("tick")[0]) in ticks:
                states.append(save_match_state(engine, 0))
                memories.append(pilots.states())
            pilots.act()

        match.go_to(max(ticks) + int(recorded.header["frame_ticks"]), from_start=True, before_step=watch)
    return states, memories


def _load(engine: Engine, states: Sequence[State], runs: int) -> None:
    """Give each state to ``runs`` environments in turn."""
    load_match_state(engine, states[0])
    arrays = {
        name: np.concatenate([np.repeat(state[name][None], runs, axis=0) for state in states])
        for name in states[0]
        if name not in (*EDITS, TERMS)
    }
    for name, values in place_terms(engine, {**arrays, TERMS: states[0][TERMS]}).items():
        engine.batch.set(name, values)
    env = [np.repeat(np.arange(runs) + moment * runs, len(s[EDITS[1]])) for moment, s in enumerate(states)]
    edits = [np.concatenate([np.tile(state[name], runs) for state in states]) for name in EDITS[1:]]
    write_voxels(engine.batch, np.concatenate(env), *edits)
    engine.set_row(0)


def estimates(model: WinModel, folder: Path, rows: Sequence[Mapping[str, Any]], *, equal: bool = False) -> Floats:
    """Return probability and ends of the band at moments ``[R, 3]``; ``equal`` leaves the ratings out."""
    paths, found = {path.name: path for path in replay_files([folder])}, []
    for row in rows:
        with Replay(paths[row["file"]]) as replay:
            header = replay.header
            if equal:
                header = {**header, "teams": [{**team, "rating": None} for team in header["teams"]]}
            number = next(n for n, ref in enumerate(replay.chunks) if ref.tick0 <= row["tick"] <= ref.tick1)
            chunk = replay.chunk(number)
            at = [int(np.searchsorted(chunk.ticks, row["tick"]))]
            frames = {name: values[at] for name, values in chunk.frames.items()}
            found.append(model.estimate(MatchSituation.of(Roster.of(header), frames, chunk.ticks[at]))[:3])
    return np.array(found)[:, :, 0]


def errors(found: Floats, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the differences between estimates ``[R, 3]`` and the shares of continuations, and the band's coverage."""
    share, runs = (np.array([row[name] for row in rows], np.float64) for name in ("share", "runs"))
    p, low, high = found.T
    number = np.minimum(BINS - 1, (p * BINS).astype(int))
    gaps = np.bincount(number, p - share, BINS)
    return {
        "moments": len(rows),
        "matches": len({row["file"] for row in rows}),
        "mean_difference": float(np.abs(p - share).mean()),
        "noise": float(np.sqrt(2 / np.pi * share * (1 - share) / runs).mean()),
        "far": float((np.abs(p - share) > FAR).mean()),
        "calibration_error": float(np.abs(gaps).sum() / len(rows)),
        "coverage": float(((low <= share + 0.5 / runs) & (share - 0.5 / runs <= high)).mean()),
    }


def spread_of(p: Floats, rows: Sequence[Mapping[str, Any]]) -> float:
    """Return half the width of the band that holds ``BAND`` of the shares [unit of the logarithm of the odds].

    A share stands for the probabilities that round to it.
    """
    share, half = (np.array(part) for part in zip(*((row["share"], 0.5 / row["runs"]) for row in rows), strict=True))
    z, below, above = (
        np.log(q / (1 - q)) for q in (np.clip(q, 1e-9, 1 - 1e-9) for q in (p, share - half, share + half))
    )
    return float(np.quantile(np.maximum(0.0, np.maximum(below - z, z - above)), BAND))


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def play(folder: Path, out: Path, each: int, runs: int, limit_s: float) -> Iterator[dict[str, Any]]:
    done = {row["file"] for row in read_rows(out)}
    finder = Catalogue(find=lambda name: policy_path(name, "pilot"))
    until = time.monotonic() + limit_s
    for path in replay_files([folder]):
        if path.name not in done and time.monotonic() < until:
            rows = continued(path, sampled_moments(path, each), runs, finder)
            with out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
            yield from rows


def main(argv: Sequence[str] | None = None) -> None:
    """Continue moments of recorded matches, or report the errors of the win model on them."""
    parser = argparse.ArgumentParser(prog="tests.bench.winprob_moments", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder with recorded matches")
    parser.add_argument("--out", type=Path, required=True, help="file of the results")
    parser.add_argument("--each", type=int, default=5, help="moments of a match")
    parser.add_argument("--runs", type=int, default=256, help="continuations of a moment")
    parser.add_argument("--limit", type=float, default=3600.0, help="time limit [s]")
    parser.add_argument("--report", action="store_true", help="play nothing")
    given = parser.parse_args(argv)
    for row in () if given.report else play(given.folder, given.out, given.each, given.runs, given.limit):
        print(json.dumps(row), flush=True)
    rows, model = read_rows(given.out), load_model()
    report = {}
    for name, equal in (("known", False), ("equal", True)):
        found = estimates(model, given.folder, rows, equal=equal)
        report[name] = {**errors(found, rows), "spread": spread_of(found[:, 0], rows)}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
