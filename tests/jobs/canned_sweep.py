"""A sweep's folder with a journal, written without any process."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

from echelon.files import atomic_write
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.sweeps.plan import UNCHANGED, SweepPlan, Variant
from echelon.jobs.sweeps.schedule import TrialJournal, TrialStart, Wait, next_step
from echelon.runs import RunPaths
from echelon.telemetry.events import EventRung, EventStart, EventTrial
from echelon.telemetry.log import EventLog

SWEEP = "20260101-130000-sweep-brave-otter"
VARY = {"ppo.lr": "1e-5..1e-2:log", "ppo.gamma": "0.9..0.999", "model.recurrence": "lstm,mingru"}


def make_plan(**fields) -> SweepPlan:
    from echelon.jobs.config_layers import resolve

    given = {"total_steps": 9000, "max_minutes": 0.0}
    base = resolve("quickstart", None, given).nested()
    return SweepPlan(base=base, preset="quickstart", given=given, **{"vary": VARY, **fields})


def params_of(number: int) -> dict:
    """Return options that fill the space evenly, as a golden-ratio sequence does."""
    lr, gamma = (number * 0.618034) % 1.0, (number * 0.414214) % 1.0
    return {
        "ppo.lr": 10 ** (-5 + 3 * lr),
        "ppo.gamma": 0.9 + 0.099 * gamma,
        "model.recurrence": ("lstm", "mingru")[number % 2],
    }


def score(params: dict, seed: int, steps: int) -> float:
    lr = params.get("ppo.lr", 3e-4)
    return math.exp(-((math.log10(lr) + 3.0) ** 2)) * (1 - math.exp(-steps / 4000)) * (1 - 0.02 * (seed % 3))


def variants_of(seeds: int) -> dict:
    """Return the fields of a plan that lists the unchanged configuration and two others, each with several seeds."""
    changes = {UNCHANGED: {}, "no lstm": {"model.memory": False}, "high lr": {"ppo.lr": 0.001}}
    variants = tuple(Variant(name=name, params=params) for name, params in changes.items())
    return {"vary": {}, "variants": variants, "rungs": 1, "seeds": seeds}


def journal_of(plan: SweepPlan, most: int = 10**9) -> list:
    """Return the first records of a sweep's journal."""
    events: list = []
    while len(events) < most:
        journal = TrialJournal(plan, events)
        step = next_step(plan, journal)
        match step:
            case None:
                break
            case EventTrial(number=number):
                run = f"20260101-1301{number:02d}-quickstart-calm-fox{number}"
                params = step.params if step.name else params_of(number)
                events.append(replace(step, params=params, run=run))
            case TrialStart(trial, rung):
                events.append(EventRung(trial=trial, rung=rung, state="started"))
                choice = journal.trials[trial].choice
                steps = plan.rung_steps[rung]
                value = score(choice.params, choice.seed, steps)
                events.append(
                    EventRung(
                        trial=trial, rung=rung, state="evaluated", value=value, low=max(0.0, value - 0.1),
                        high=min(1.0, value + 0.1), hp_margin=0.0, global_step=steps, opponent="heuristic:easy",
                        done=1, planned=2,
                    )
                )  # fmt: skip
            case Wait():
                raise AssertionError("nothing runs")
    return events[:most]


def make_sweep(home: Path, name: str = SWEEP, *, most: int = 10**9, ended: bool = True, **fields) -> RunPaths:
    """Write the folder of a sweep with the first ``most`` records of its journal."""
    plan, paths = make_plan(**{"trials": 12, **fields}), RunPaths(home / name)
    for folder in (paths.root, paths.log):
        folder.mkdir(parents=True)
    write_spec(paths, JobSpec(kind="sweep", config={"preset": "sweep", "sweep": asdict(plan)}, created=1.0))
    with EventLog(paths.trials) as log, EventLog(paths.metrics) as metrics:
        metrics.append(EventStart(device="cpu", preset="sweep"))
        for event in journal_of(plan, most):
            log.append(event)
            metrics.append(event)
    if ended:
        atomic_write(paths.exit, json.dumps({"code": 0, "signal": None, "message": ""}))
    return paths
