"""``python -m tests.bench.gpu PART FOLDER``: measurements on a GPU, in parts that continue from one file each.

A part (``parity``, ``scenes`` or ``arms``) writes FOLDER/gpu-PART.json after each of its tasks, as docs/results has it,
and runs the tasks that are missing there. It begins no task that would end after its minutes. Killed, it is run again:
a training arm continues from its newest checkpoint.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

from echelon.bench import scenes
from echelon.config import RunConfig
from echelon.config.presets import get_preset
from echelon.files import atomic_write
from echelon.jobs.config_layers import flatten, parse_assignment, unflatten, validate
from echelon.jobs.environment import git_state
from echelon.machine import cores
from echelon.rl.checkpoint import latest_valid
from echelon.runs import RunPaths
from echelon.telemetry.events import EvalStats, Event, EventResume, EventUpdate
from echelon.training.loop import run
from tests.bench.__main__ import CUDA_ENVS, SCENES

EVALUATION_MINUTES = 1.5
"""Minutes of an arm for maps, captures and its evaluation, besides its training."""
SAVE_SECONDS = 60.0
"""Seconds of an arm's clock between checkpoints."""
IMITATION_UPDATES = 40
MIX = {"easy": 1.0, "medium": 1.0, "hard": 1.0, "expert": 2.0, "self_play": 2.0, "past": 0.0}
RECIPE = {
    "num_envs": 2048,
    "ppo.rollout_steps": 16,
    "ppo.num_minibatches": 20,
    "ppo.update_epochs": 1,
    "ppo.kl_lr_target": 0.01,
    "teacher.imitation": 0.0,
    "teacher.rl_lr_factor": 1.0,
    "opponents.past_every_updates": 0,
    **{f"opponents.mix.{name}": weight for name, weight in MIX.items()},
}
"""Minibatches of 21,064 rows: two sevenths of the environments have learners on both sides."""
SMALL, LONG = {"ppo.num_minibatches": 50}, {"ppo.num_minibatches": 200, "ppo.rollout_steps": 64}
"""Minibatches of 8,426 rows, in rollouts of 16 and of 64 steps."""
EVALUATION = {"eval.every_updates": 0, "eval.at_start": False, "eval.report": True, "eval.seeds": 100}


@dataclass(frozen=True)
class Phase:
    """A part of an arm's training with its own changes of the preset."""

    changes: Mapping[str, Any]
    share: float = 1.0
    """Share of the arm's minutes at which the phase ends."""
    updates: int = 10**9
    """Updates at which it ends, where that is earlier."""

    def is_over(self, elapsed_s: float, update: int, minutes: float) -> bool:
        return update >= self.updates or (self.share < 1.0 and elapsed_s >= 60.0 * self.share * minutes)


def recipe(*phases: Phase) -> tuple[Phase, ...]:
    """Return the phases of an arm that imitates first: for half of a plan that ends at the double of its updates."""
    plan = {"max_updates": 2 * IMITATION_UPDATES, "teacher.imitation": 0.5}
    return (Phase({**RECIPE, **plan}, updates=IMITATION_UPDATES), *phases)


THIRDS = (Phase(RECIPE, 1 / 3), Phase(RECIPE | SMALL, 2 / 3), Phase(RECIPE | LONG))
ARMS: dict[str, tuple[Phase, ...]] = {
    "recipe": recipe(*THIRDS),
    "recipe-overlapped": recipe(*(replace(phase, changes={**phase.changes, "ppo.overlap": True}) for phase in THIRDS)),
    "preset": (Phase({}),),
    "recipe-short": recipe(Phase(RECIPE, 1 / 3), Phase(RECIPE | SMALL)),
}
"""Training arms by decreasing expectation."""


class Results:
    """The results of a part, in a file that is replaced after each."""

    def __init__(self, path: Path, title: str, interval_of: str | None, now: Mapping[str, str]) -> None:
        self.path, self._now = path, {**now, "unit": ""}
        content = {"title": title, "defaults": {**self._now, "interval_of": interval_of}, "results": []}
        self.content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else content

    def value(self, row: str, column: str) -> float | None:
        found = (r["value"] for r in self.content["results"] if (r["row"], r["column"]) == (row, column))
        return next(found, None)

    def add(self, row: str, column: str, value: float, interval: Sequence[float] | None = None, **facts: str) -> None:
        """Write a result with what differs from the file's defaults; it replaces an earlier one."""
        facts = {key: text for key, text in {**self._now, **facts}.items() if text != self.content["defaults"][key]}
        kept = [r for r in self.content["results"] if (r["row"], r["column"]) != (row, column)]
        interval = None if interval is None else [float(f"{bound:.4g}") for bound in interval]
        new = {"row": row, "column": column, "value": float(f"{value:.4g}"), "interval": interval}
        self.content["results"] = [*kept, {**new, **facts}]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.path, json.dumps(self.content, indent=2) + "\n")
        print(f"{row}, {column}: {new['value']:g}", flush=True)


class Deadline:
    """The time of a part, which ends before a task of it would be killed."""

    def __init__(self, minutes: float) -> None:
        self._end, self._longest = time.monotonic() + 60.0 * minutes, 0.0
        self._began: float | None = None

    def allows(self, minutes: float = 0.0) -> bool:
        """Return whether the next task may begin.

        The first may. A later one needs ``minutes``, and as much time as the longest before it.
        """
        now, first = time.monotonic(), self._began is None
        self._longest = 0.0 if self._began is None else max(self._longest, now - self._began)
        self._began = now
        allowed = first or now + max(60.0 * minutes, self._longest) <= self._end
        if not allowed:
            print("no time is left: run the part again")
        return allowed


class Parity:
    """A plugin of pytest that leaves out the tests that have passed, and writes the outcome of each."""

    def __init__(self, results: Results, deadline: Deadline) -> None:
        self._results, self._deadline, self.has_failed = results, deadline, False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.has_failed |= report.failed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._results.value(item.nodeid, "passed") != 1.0]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if not self._deadline.allows():
            item.session.shouldstop = "no time is left"
            pytest.skip("no time is left")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or (report.when == "call" and report.passed):
            self._results.add(report.nodeid, "passed", float(report.passed))
        self.has_failed |= report.failed


def parity(results: Results, deadline: Deadline, options: argparse.Namespace) -> bool:
    """Run the tests that need a GPU, and return whether none failed."""
    files = sorted(Path("tests").rglob("test_*.py"))
    marked = [str(file) for file in files if "pytest.mark.gpu" in file.read_text(encoding="utf-8")]
    plugin = Parity(results, deadline)
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-m", "gpu", *(options.name or marked)], plugins=[plugin])
    return not plugin.has_failed and code != pytest.ExitCode.USAGE_ERROR


def measure(results: Results, deadline: Deadline, options: argparse.Namespace) -> bool:
    """Measure every scene, or those named, with each number of environments."""
    scenes.SCENES.update(SCENES)
    scenes.CUDA_ENVS.update(CUDA_ENVS)
    for name in options.name or CUDA_ENVS:
        for setting in scenes.settings_of(name, options.device, options.envs):
            column = f"{setting.envs:,} environments"
            if results.value(name, column) is not None:
                continue
            if not deadline.allows():
                return True
            (row,) = scenes.run_scenes([name], 2, device=options.device, envs=[setting.envs])
            interval = [row["min_per_s"], row["max_per_s"]]
            results.add(name, column, row["median_per_s"], interval, unit=f"{row['unit']}/s")
    return True


def train(results: Results, deadline: Deadline, options: argparse.Namespace) -> bool:
    """Train every arm, or those named, from nothing, and evaluate each."""
    for name in options.name or ARMS:
        if results.value(name, "expert, mean") is not None:
            continue
        if not deadline.allows(options.arm_minutes + EVALUATION_MINUTES):
            return True
        arm = Arm(options.folder / "arms" / name, options)
        stats = arm.train(ARMS[name])
        for kind, rates in (
            ("mean", (stats.win_rate, stats.win_low, stats.win_high)),
            ("sampled", (stats.sampled_win_rate, stats.sampled_low, stats.sampled_high)),
        ):
            rate, *bounds = (100 * share for share in rates)
            results.add(name, f"expert, {kind}", rate, bounds, unit="% of matches won")
        results.add(name, "updates", arm.update)
        results.add(name, "steps", arm.global_step / 1e6, unit="million learner agent-steps")
        results.add(name, "speed", arm.global_step / arm.elapsed_s, unit="learner agent-steps/s")
    return True


class Arm:
    """The training of an arm: its run folder, and how far it is."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self._options = folder, options
        self.update, self.global_step, self.elapsed_s, self._saved_s = 0, 0, 0.0, 0.0

    def train(self, phases: Sequence[Phase]) -> EvalStats:
        """Train through the phases that are not over, from the newest checkpoint, and return the final evaluation."""
        minutes, checkpoints, evaluation = self._options.arm_minutes, RunPaths(self.folder).checkpoints, None
        for phase in phases:
            saved = latest_valid(checkpoints).checkpoint if checkpoints.exists() else None
            if saved is not None:
                counters = saved.state()["counters"]
                self.update, self.elapsed_s = counters["update"], counters["elapsed_s"]
            self._saved_s = self.elapsed_s
            if phase.is_over(self.elapsed_s, self.update, minutes):
                continue
            evaluation = run(
                config_of(phase, self._options),
                self._follow,
                lambda phase=phase: int(phase.is_over(self.elapsed_s, self.update, minutes)),
                run_dir=self.folder,
                resume=None if saved is None else saved.path,
                want_checkpoint=self._wants_checkpoint,
            ).evaluation
        assert evaluation is not None, "the last phase ends with the report of a completed run"
        return evaluation

    def _follow(self, event: Event) -> None:
        if isinstance(event, (EventUpdate, EventResume)):
            self.update, self.global_step, self.elapsed_s = event.update, event.global_step, event.elapsed_s

    def _wants_checkpoint(self) -> bool:
        wanted = self.elapsed_s - self._saved_s >= SAVE_SECONDS
        self._saved_s = self.elapsed_s if wanted else self._saved_s
        return wanted


def config_of(phase: Phase, options: argparse.Namespace) -> RunConfig:
    """Return the preset with the changes of a phase, then those of ``--set``, which also rehearse on a CPU."""
    shared = {**EVALUATION, "device": options.device, "max_minutes": options.arm_minutes, "save_every": 10**6}
    changes = {**shared, **phase.changes, **dict(parse_assignment(text) for text in options.set)}
    return validate(unflatten({**flatten(asdict(get_preset(options.preset))), **changes}))


PARTS = {
    "parity": (parity, "Tests on a GPU that passed", None, ""),
    "scenes": (measure, "Speed on a GPU", "minimum and maximum", "0"),
    "arms": (train, "Four minutes of training on a GPU, from nothing", "95 % Wilson", "training 0; report seeds"),
}
"""What runs, and title, interval and seeds of its file."""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.bench.gpu", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("folder", type=Path, help="folder of gpu-PART.json and of the arms' runs")
    parser.add_argument("name", nargs="*", help="test paths, scenes or arms; all by default")
    parser.add_argument("--minutes", type=float, default=8.0, help="minutes of this part")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--envs", type=int, nargs="*", default=(), help="environments of a scene")
    parser.add_argument("--preset", default="gpu", help="preset of the arms")
    parser.add_argument("--arm-minutes", type=float, default=4.0)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE in every arm")
    return parser


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    deadline = Deadline(options.minutes)
    work, title, interval_of, seeds = PARTS[options.part]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    now = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": str(git_state().get("commit", ""))[:7],
        "machine": f"{device}, {cores()} cores, CUDA {torch.version.cuda}, torch {torch.__version__}",
        "command": f"just gpu {' '.join(arguments)}",
        "seeds": seeds,
    }
    done = work(Results(options.folder / f"gpu-{options.part}.json", title, interval_of, now), deadline, options)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
