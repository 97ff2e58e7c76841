"""``--profile`` writes a trace of a few updates: every phase, every thread, without warm-up."""

from __future__ import annotations

import json

from echelon.runs import RunPaths
from echelon.telemetry.events import EventAlert, EventUpdate
from echelon.training import loop, rollout
from tests.training.fakes import FakeEnv


def trace_of(path) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for event in json.loads(path.read_text())["traceEvents"]:
        if event.get("ph") == "X":
            found.setdefault(event["name"], []).append(event)
    return found


def test_profile_traces_requested_updates_on_all_threads(small_run, tmp_path, monkeypatch):
    monkeypatch.setattr(rollout, "MICRO_BATCH_ROWS", 32)
    events = []
    config = small_run(profile_updates=2, threads=2, total_steps=1500)
    loop.run(config, events.append, lambda: 0, run_dir=tmp_path, make_env=FakeEnv)
    trace = trace_of(RunPaths(tmp_path).trace)
    assert {name: len(trace[name]) for name in ("collect", "bootstrap", "update")} == dict.fromkeys(
        ("collect", "bootstrap", "update"), 2
    )
    assert len({event["tid"] for event in trace["aten::lstm"]}) >= 2, "micro-batches are traced"
    (alert,) = [e for e in events if isinstance(e, EventAlert)]
    assert alert.level == "info" and str(RunPaths(tmp_path).trace) in alert.message
    assert sum(isinstance(e, EventUpdate) for e in events) > 4, "training goes on after it"


def test_profile_is_written_when_run_ends_early(small_run, tmp_path):
    config = small_run(profile_updates=50, max_updates=4)
    loop.run(config, lambda _: None, lambda: 0, run_dir=tmp_path, make_env=FakeEnv)
    assert len(trace_of(RunPaths(tmp_path).trace)["update"]) == 2


def test_profile_is_off_by_default(small_run, tmp_path):
    loop.run(small_run(max_updates=4), lambda _: None, lambda: 0, run_dir=tmp_path, make_env=FakeEnv)
    assert not RunPaths(tmp_path).trace.exists()
