"""``--profile`` writes a trace of a few updates: every phase, every thread, without warm-up."""

from __future__ import annotations

import json

import pytest

from echelon.runs import RunPaths
from echelon.telemetry.events import EventAlert, EventUpdate
from echelon.training import rollout
from tests.training.runs import of, run


def trace_of(path) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event.get("ph") == "X":
            found.setdefault(event["name"], []).append(event)
    return found


def test_profile_traces_requested_updates_on_all_threads(small_run, tmp_path, monkeypatch):
    monkeypatch.setattr(rollout, "MICRO_BATCH_ROWS", 32)
    config = small_run(profile_updates=2, threads=2, max_updates=5, num_envs=4, ppo={"update_epochs": 1})
    _, events = run(config, tmp_path)
    trace = trace_of(RunPaths(tmp_path).trace)
    assert {name: len(trace[name]) for name in ("collect", "bootstrap", "update")} == dict.fromkeys(
        ("collect", "bootstrap", "update"), 2
    )
    assert len({event["tid"] for event in trace["aten::lstm"]}) >= 2, "micro-batches are traced"
    (alert,) = of(events, EventAlert)
    assert alert.level == "info" and str(RunPaths(tmp_path).trace) in alert.message
    assert len(of(events, EventUpdate)) == 5, "training goes on after it"


@pytest.mark.long
def test_profile_is_written_when_run_ends_early(small_run, tmp_path):
    run(small_run(profile_updates=50, max_updates=4, num_envs=2, ppo={"update_epochs": 1}), tmp_path)
    assert len(trace_of(RunPaths(tmp_path).trace)["update"]) == 2
