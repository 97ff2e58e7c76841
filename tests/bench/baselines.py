"""Trains baselines on benchmark tasks, seed by seed: ``python -m tests.bench.baselines FOLDER`` (``just baselines``).

FOLDER gets one file per training; a later call continues with those that are missing. With ``--write`` it trains
nothing and puts the trainings there are into docs/results/baselines.json and .csv.
"""

import csv
import json
import math
import os
import runpy
import shlex
import subprocess
import sys
import time
from argparse import ArgumentParser
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import echelon
from echelon.config.ablations import BASELINES
from echelon.jobs.sweeps.plan import set_words
from echelon.statistics import mean_of_seeds, wilson_interval
from echelon.training.task_env import TaskVectorEnv

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
NAMES = {
    "quickstart": "quickstart, with its teacher",
    "imitation-alone": "imitation alone",
    "mappo": "MAPPO",
    "recurrent-ppo": "recurrent PPO",
    "feed-forward-ppo": "feed-forward PPO",
    "sb3": "Stable-Baselines3",
    "torchrl": "TorchRL",
    "cleanrl": "CleanRL's style",
}
"""Rows of the table by learner: variants of quickstart (``echelon.config.ablations``) and examples."""
STEPS_OPTION = {"sb3": "--steps", "torchrl": "--steps", "cleanrl": "--total-timesteps"}
LEVELS = ("trivial", "easy", "medium")
SEEDS, STEPS, EVAL_SEEDS = 5, 500_000, 100
PER_ROW = 100
"""Battles of a point of a learning curve, at least."""
HEAD = ("learner", "task", "seed", "step", "episodes", "wins", "mean_return")
COLUMNS = {"mean": "win_rate", "sampled": "sampled_win_rate"}


def task(level: str) -> str:
    return f"5v5-{level}-v1"


def training_file(folder: Path, learner: str, level: str, seed: int) -> Path:
    return folder / f"{learner}-{level}-{seed}.json"


def train_words(learner: str, level: str, seed: int) -> str:
    """Return the arguments of ``echelon`` that train a variant of quickstart on the task of a level."""
    changes = {} if learner == "quickstart" else BASELINES[learner].changes(echelon.get_preset("quickstart"))
    values = {
        **{"total_steps": STEPS, "max_minutes": 0, "threads": 1},
        **{"opponents.mix": "scripted", "opponents.skill": level},
        **{"eval.skill": level, "eval.seeds": EVAL_SEEDS, "eval.every_updates": 0, "eval.at_start": False},
        **changes,
    }
    return shlex.join(["train", "--preset", "quickstart", *set_words({"seed": seed, **values})])


def learn(learner: str, level: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train a variant of quickstart; return curve, steps, CPU seconds and win rates."""
    command = [sys.executable, "-m", "echelon_cli.main", *shlex.split(train_words(learner, level, seed)), "--json"]
    environment = {**os.environ, "ECHELON_HOME": str(folder / "runs")}
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    metrics = folder / "runs" / json.loads(done.stdout.splitlines()[-1])["id"] / "metrics.jsonl"
    events = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    by_kind = {kind: [event for event in events if event["kind"] == kind] for kind in ("update", "episodes", "eval")}
    curve = Curve()
    for event in by_kind["episodes"]:
        curve.add(event["global_step"], event["count"], event["wins"], event["mean_return"] * event["count"])
    clock = [0.0, *(update["elapsed_s"] for update in by_kind["update"])]
    shares = [update["cpu_cores"] or 1.0 for update in by_kind["update"]]
    seconds = sum(share * (b - a) for share, a, b in zip(shares, clock, clock[1:], strict=False))
    (report,) = (event for event in by_kind["eval"] if event["purpose"] == "report")
    return {
        **{"curve": curve.rows, "steps": report["global_step"], "cpu_s": round(seconds)},
        **{column: report[key] for column, key in COLUMNS.items()},
    }


class Curve:
    """Rows of a learning curve: step, battles since the row before, wins, mean return of a mech."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, float]] = []
        self._open = (0, 0, 0.0)

    def add(self, step: int, battles: int, wins: int, returns: float) -> None:
        """Add battles that ended by ``step``; ``returns`` is the sum over them of the mean return of a mech."""
        battles, wins, returns = (a + b for a, b in zip(self._open, (battles, wins, returns), strict=True))
        self._open = battles, wins, returns
        if battles >= PER_ROW:
            self.rows.append((step, battles, wins, round(returns / battles, 3)))
            self._open = (0, 0, 0.0)


def record(file: Path, program: str, arguments: list[str]) -> None:
    """Run an example in this process and write what ``learn`` returns, whatever library learns."""
    curve, times, found, step, evaluate = Curve(), [], [], TaskVectorEnv.step, echelon.evaluate
    steps, returns = 0, 0.0

    def recorded_step(envs: TaskVectorEnv, actions: Any) -> Any:
        nonlocal steps, returns
        times[1:] = [time.process_time()]
        _, rewards, _, _, infos = played = step(envs, actions)
        ended, size = infos["_outcome"], envs.config.team_size
        steps, returns = steps + int(infos["acted"].sum()), returns + rewards
        wins = int((infos["outcome"][ended] == 1).sum()) // size
        curve.add(steps, int(ended.sum()) // size, wins, float(returns[ended].sum()) / size)
        returns[ended] = 0.0
        return played

    def recorded_evaluation(*arguments: Any, **options: Any) -> Any:
        times.append(time.process_time())
        found.append(evaluate(*arguments, **options))
        return found[-1]

    TaskVectorEnv.step, echelon.evaluate = recorded_step, recorded_evaluation
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
    rates = {column: stats.win_rate for column, stats in zip(COLUMNS, found, strict=True)}
    cpu_s = round(times[2] - times[0])
    file.write_text(json.dumps({"curve": curve.rows, "steps": steps, "cpu_s": cpu_s, **rates}))


def write(folder: Path) -> None:
    """Write means over the seeds that ``folder`` has complete, their curves, and commands that repeat them."""
    names = {seed: [training_file(folder, *each, seed) for each in product(NAMES, LEVELS)] for seed in range(SEEDS)}
    complete = [seed for seed, files in names.items() if all(file.exists() for file in files)]
    if not complete:
        sys.exit(f"folder '{folder}' has no seed with all {len(NAMES) * len(LEVELS)} trainings; run it without --write")
    file = RESULTS / "baselines.json"
    content = json.loads(file.read_text(encoding="utf-8")) | {"checks": {}, "results": []}
    content["defaults"]["seeds"] = f"training {', '.join(map(str, complete))}; {EVAL_SEEDS} held-out, both sides"
    of_seeds = "95 % Student's t over seeds, on the logit scale"
    content["defaults"]["interval_of"] = of_seeds if len(complete) > 1 else "95 % Wilson, of matches of one training"
    curves = [HEAD]
    for learner, name in NAMES.items():
        times = []
        for level in LEVELS:
            files = {seed: training_file(folder, learner, level, seed) for seed in range(SEEDS)}
            there = {seed: json.loads(file.read_text()) for seed, file in files.items() if file.exists()}
            found = {seed: there[seed] for seed in complete}
            times += [training["cpu_s"] for training in found.values()]
            curves += [(learner, task(level), seed, *row) for seed, each in found.items() for row in each["curve"]]
            for column in COLUMNS:
                rates = [training[column] for training in found.values()]
                value, *bounds = mean_of_seeds(rates, are_rates=True)
                if len(rates) == 1:
                    bounds = wilson_interval(value * 2 * EVAL_SEEDS, 2 * EVAL_SEEDS)
                interval = None if math.isnan(bounds[0]) else [round(100 * bound) for bound in bounds]
                figure = {"value": round(100 * value, 1), "interval": interval}
                content["results"].append({"row": name, "column": f"{level}, {column}", **figure})
            if learner not in STEPS_OPTION and len(there) > 1:
                words = f"eval RUN --seeds {EVAL_SEEDS} --opponent heuristic:{level} --threads 1"
                how = {"train": train_words(learner, level, 0), "eval": words, "matches": 2 * EVAL_SEEDS}
                spread = max(100 * stdev(training[column] for training in there.values()) for column in COLUMNS)
                content["checks"][f"{name}: {level}"] = how | {"spread": round(spread, 1)}
        cpu = {"value": round(mean(times)), "interval": None, "unit": "s"}
        content["results"].append({"row": name, "column": "CPU [s]", **cpu})
    file.write_text(laid_out(content), encoding="utf-8")
    with (RESULTS / "baselines.csv").open("w", encoding="utf-8", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows(curves)


def laid_out(content: dict[str, Any]) -> str:
    """Return a result file as JSON with a line for each check and each result."""
    parts = {key: json.dumps(content[key]) for key in ("title", "note")}
    parts["defaults"] = json.dumps(content["defaults"], indent=2).replace("\n", "\n  ")
    checks = (f"    {json.dumps(key)}: {json.dumps(how)}" for key, how in content["checks"].items())
    parts["checks"] = "{\n" + ",\n".join(checks) + "\n  }"
    parts["results"] = "[\n" + ",\n".join(f"    {json.dumps(result)}" for result in content["results"]) + "\n  ]"
    return "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in parts.items()) + "\n}\n"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        return write(options.folder)
    for seed, level, learner in product(range(SEEDS), LEVELS, NAMES):
        train(options.folder, learner, level, seed)


def train(folder: Path, learner: str, level: str, seed: int) -> None:
    """Train unless its file exists."""
    file = training_file(folder, learner, level, seed)
    if file.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    if learner in STEPS_OPTION:
        program = [sys.executable, "-m", __spec__.name, "record", part, f"examples/{learner}_ppo.py"]
        words = ["--task", task(level), "--seed", seed, STEPS_OPTION[learner], STEPS, "--eval-seeds", EVAL_SEEDS]
        subprocess.run([*map(str, program), *map(str, words)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    else:
        part.write_text(json.dumps(learn(learner, level, seed, folder)))
    part.rename(file)
    found = json.loads(file.read_text())
    print(f"{learner}, {level}, seed {seed}: {found['mean']:.1%} mean, {found['sampled']:.1%} sampled", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    else:
        main()
