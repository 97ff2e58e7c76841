"""``echelon ablate``: a sweep of listed variants, here with runs that need no torch."""

from __future__ import annotations

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from echelon.config.presets import PRESETS
from echelon.jobs import launch
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import read_spec
from echelon.jobs.status import job_status
from echelon.runs import RunPaths, list_runs, runs_home
from echelon.sim.backend import default_threads
from echelon_cli import sweep_job
from echelon_cli.commands import ablate
from echelon_cli.commands.ablate import WHOLE, results_of, sweep_plan, variants
from echelon_cli.follow import Follower
from echelon_cli.sweep_job import threads_each
from tests.jobs.canned_sweep import make_sweep
from tests.jobs.conftest import LIMIT_S, until
from tests.jobs.sweep_stand_ins import FAKE_SWEEP, end_all


@pytest.fixture(autouse=True)
def fake(monkeypatch, repository, tmp_path):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    monkeypatch.setitem(KINDS, "sweep", FAKE_SWEEP)
    monkeypatch.setenv("PYTHONPATH", str(repository))
    yield
    end_all()


def trained():
    """The training runs, in the order of their trials."""
    found = [paths for paths in list_runs() if job_status(paths).kind == "train"]
    return sorted(found, key=lambda paths: read_spec(paths).created)


def living(count: int):
    """Wait until a number of training runs is running and return them, oldest first."""
    deadline = time.monotonic() + LIMIT_S
    while len(found := [paths for paths in trained() if job_status(paths).state == "running"]) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} are running"
        time.sleep(0.02)
    return found


@pytest.fixture
def plan():
    return variants("quickstart", None, {}, ["lstm", "shaping"], [])


def train_all(plan, seeds: int, at_once: int):
    """Yield the results of a new sweep of the variants."""
    listed = sweep_plan(plan, seeds, at_once)
    yield from results_of(sweep_job.start(listed, quiet=True).paths, listed, True)


def test_ablate_runs_in_parallel_with_shared_cores(plan):
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(lambda: list(train_all(plan, 1, 2)))
        first = living(2)
        assert len(trained()) == 2, "the third waits"
        share = max(1, default_threads() // 2)
        assert {read_spec(paths).config["threads"] for paths in first} == {share}
        for paths in first:
            launch.stop(paths)
        (third,) = [paths for paths in living(1) if paths not in first]
        launch.stop(third)
        rows = result.result(LIMIT_S)
    assert [row["variant"] for row in rows] == [WHOLE, "no lstm", "no shaping"]
    assert {row["state"] for row in rows} == {"stopped"} and rows[2]["id"] == third.id


@pytest.mark.long
def test_ablate_interrupt_stops_running_and_starts_no_more(plan):
    results = train_all(plan, 2, 1)
    with ThreadPoolExecutor(1) as pool:
        row = pool.submit(next, results)
        (first,) = living(1)
        launch.stop(first)
        assert row.result(LIMIT_S)["id"] == first.id
    (second,) = [paths for paths in living(1) if paths.id != first.id]
    results.close()
    until(second, "stopped")
    until(next(paths for paths in list_runs() if paths not in trained()), "stopped")
    assert len(trained()) == 2, "and the sweep that they belong to can be resumed"


def test_ablate_interrupt_with_json_prints_only_json(echelon, monkeypatch):
    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_job, "start", lambda *_, **how: Follower(RunPaths(runs_home() / "x"), **how))
    monkeypatch.setattr(ablate, "results_of", leave)
    assert echelon("ablate", "lstm", "--preset", "quickstart", "--json")[:2] == (0, "[]\n")


def test_ablate_keeps_requested_threads():
    assert threads_each(3, 4) == 3 and threads_each(0, 1) == 0
    assert threads_each(0, 10**6) == 1


def results(**rates: list[float | None]) -> list[dict]:
    """Return the results of variants by name, one per training seed; None for a run without an evaluation."""
    whole = {"id": "x", "state": "completed", "changes": {}, "global_step": 1, "steps_per_s": 1.0, "opponent": "easy",
             "weapon_prob": 1.0, "episodes": 80, "win_low": 0.0, "win_high": 1.0, "hp_margin": 0.0}  # fmt: skip
    return [
        {**whole, "variant": name, "seed": seed, "last_win_rate": rate}
        for name, values in rates.items()
        for seed, rate in enumerate(values)
    ]


def test_ablate_reports_statistics_over_training_seeds(echelon, monkeypatch):
    found = results(whole=[0.5, 0.6, 0.7, 0.9], less=[0.4, 0.6, 0.2, None])
    monkeypatch.setattr(sweep_job, "start", lambda *_, **how: Follower(RunPaths(runs_home() / "x"), **how))
    monkeypatch.setattr(ablate, "results_of", lambda *_: iter(found))
    statistics = ablate.across_seeds(found)
    assert statistics[WHOLE]["win_rate"]["value"] == pytest.approx(0.65) and statistics[WHOLE]["improvement"] is None
    assert 0.5 <= statistics[WHOLE]["win_rate"]["low"] <= 0.65 <= statistics[WHOLE]["win_rate"]["high"] <= 0.9
    assert statistics["less"]["seeds"] == 3 and statistics["less"]["improvement"]["value"] == pytest.approx(0.5 / 3)
    code, text, _ = echelon("ablate", "lstm", "--preset", "quickstart", "--seeds", "4")
    assert code == 1 and "better than whole" in text and "65%" in text and "17%" in text
    code, text, _ = echelon("ablate", "lstm", "--preset", "quickstart", "--runs", "4", "--json")
    rows = json.loads(text)
    assert len(rows) == 8 and rows[-1]["across_seeds"] == statistics["less"]


def test_ablate_detaches_is_limited_in_steps_and_resumes(echelon, monkeypatch):
    words = ("--preset", "quickstart", "--steps", "300", "--seeds", "2", "--at-once", "4")
    code, out, _ = echelon("ablate", "lstm", *words, "--detach", "--json")
    assert code == 0
    (sweep,) = [paths for paths in list_runs() if job_status(paths).kind == "sweep"]
    config = read_spec(sweep).config["sweep"]
    assert (config["base"]["total_steps"], config["base"]["max_minutes"]) == (300, 0.0)
    code, _, err = echelon("ablate", "--resume", sweep.id, "--seeds", "3")
    assert code == 2 and "as it was planned" in err
    until(sweep, "completed")
    code, out, _ = echelon("ablate", "--resume", sweep.id)
    assert code == 0 and "no lstm" in out and "better than whole" in out
    shown = echelon("sweep", "show", sweep.id)[1]
    assert "whole · seed 0" in shown and "2 of 2" in shown and "same seed of whole" in shown


def test_ablate_has_no_limit_in_minutes_unless_asked(echelon, monkeypatch):
    plans = []

    def keep(listed, **how):
        plans.append(listed)
        return Follower(RunPaths(runs_home() / "x"), **how)

    monkeypatch.setattr(sweep_job, "start", keep)
    monkeypatch.setattr(ablate, "results_of", lambda *_: iter(()))
    for words in ((), ("--minutes", "0"), ("--minutes", "3")):
        assert echelon("ablate", "lstm", "--preset", "quickstart", *words)[0] == 0
    assert [plan.base["max_minutes"] for plan in plans] == [0.0, 0.0, 3.0]
    assert {plan.base["total_steps"] for plan in plans} == {PRESETS["quickstart"]().total_steps}


def test_ablate_resumes_no_sweep_of_dimensions(echelon):
    make_sweep(runs_home())
    code, _, err = echelon("ablate", "--resume", "brave-otter")
    assert code == 2 and "lists no variants; try: echelon sweep --resume" in err


def test_ablate_statistics_of_one_seed_have_no_interval():
    (row,) = ablate.across_seeds(results(whole=[0.5])).values()
    assert row["win_rate"]["value"] == 0.5 and math.isnan(row["win_rate"]["low"])
