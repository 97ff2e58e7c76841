"""``echelon ablate`` around a trainer that needs no torch."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from echelon.jobs import launch
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import read_spec
from echelon.jobs.status import job_status
from echelon.runs import list_runs
from echelon.sim.backend import default_threads
from echelon_cli.commands import ablate
from echelon_cli.commands.ablate import WHOLE, threads_each, train_all, variants
from tests.jobs.conftest import FAKE, LIMIT_S, until
from tests.jobs.conftest import start as start_fake  # noqa: F401  the fixture ends what a test has started


@pytest.fixture(autouse=True)
def fake(monkeypatch, repository, start_fake, tmp_path):  # noqa: F811
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    monkeypatch.setitem(KINDS, "train", FAKE)
    monkeypatch.setenv("PYTHONPATH", str(repository))


def living(count: int):
    """Wait until so many runs live and return them, oldest first."""
    deadline = time.monotonic() + LIMIT_S
    while len(found := [paths for paths in list_runs() if job_status(paths).state == "running"]) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} runs live"
        time.sleep(0.02)
    return sorted(found, key=lambda paths: paths.id)


@pytest.fixture
def plan():
    return variants("quickstart", None, {}, ["lstm", "shaping"], [])


def test_ablate_runs_in_parallel_with_shared_cores(plan):
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(lambda: list(train_all(plan, 1, 2, as_json=True)))
        first = living(2)
        assert len(list_runs()) == 2, "the third waits"
        share = max(1, default_threads() // 2)
        assert {read_spec(paths).config["threads"] for paths in first} == {share}
        for paths in first:
            launch.stop(paths)
        (third,) = [paths for paths in living(1) if paths not in first]
        launch.stop(third)
        rows = result.result(LIMIT_S)
    assert [row["variant"] for row in rows] == [WHOLE, "no lstm", "no shaping"]
    assert {row["state"] for row in rows} == {"stopped"} and rows[2]["id"] == third.id


def test_ablate_interrupt_stops_running_and_starts_no_more(plan):
    results = train_all(plan, 2, 1, as_json=True)
    with ThreadPoolExecutor(1) as pool:
        row = pool.submit(next, results)
        (first,) = living(1)
        launch.stop(first)
        assert row.result(LIMIT_S)["id"] == first.id
    (second,) = [paths for paths in living(1) if paths.id != first.id]
    results.close()
    until(second, "stopped")
    assert len(list_runs()) == 2


def test_ablate_interrupt_with_json_prints_only_json(echelon, monkeypatch):
    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ablate, "train_all", leave)
    assert echelon("ablate", "lstm", "--preset", "quickstart", "--json")[:2] == (0, "[]\n")


def test_ablate_keeps_requested_threads():
    assert threads_each(3, 4) == 3 and threads_each(0, 1) == 0
    assert threads_each(0, 10**6) == 1
