"""A run folder saved by version 0.1.0 (before names changed) opens and resumes exactly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from echelon.config import RunConfig
from echelon.rl.weights import load_policy
from echelon.telemetry.events import EventResume, EventUpdate
from echelon.training import env_config_of, loop
from echelon.training.checkpoint import latest_valid

SAVED_RUN = Path(__file__).parent / "fixtures" / "saved_run"
SAVED_UPDATE = 2


@pytest.fixture
def saved_run(tmp_path: Path) -> Path:
    """Return a writable copy of the run folder, whose checkpoint is of update 2."""
    return Path(shutil.copytree(SAVED_RUN, tmp_path / "20260101-000000-quickstart-hollow-quail"))


def test_saved_checkpoint_opens_and_loads(saved_run):
    found = latest_valid(saved_run / "checkpoints")
    assert found.checkpoint is not None and found.notices == ()
    assert found.checkpoint.manifest["update"] == SAVED_UPDATE
    assert found.checkpoint.state().keys() == {
        "trainer", "counters", "window", "rng", "curriculum", "gate", "opponents", "ranks",
    }  # fmt: skip
    loaded = load_policy(saved_run)
    assert loaded.meta["kind"] == "classic" and env_config_of(loaded.meta).world.size_x == 24


def test_saved_run_resumes_with_the_losses_of_the_uninterrupted_run(saved_run):
    config = TypeAdapter(RunConfig).validate_python(json.loads((saved_run / "spec.json").read_text())["config"])
    lines = [json.loads(line) for line in (saved_run / "metrics.jsonl").read_text().splitlines()]
    expected = [row for row in lines if row["kind"] == "update" and row["update"] > SAVED_UPDATE]
    events = []
    result = loop.run(config, events.append, lambda: 0, run_dir=saved_run, resume="latest")
    assert result.reason == "completed" and result.update == config.max_updates == 4
    assert [e.checkpoint for e in events if isinstance(e, EventResume)] == ["step-240"]
    resumed = [e for e in events if isinstance(e, EventUpdate)]
    for event, row in zip(resumed, expected, strict=True):
        for name in ("update", "global_step", "episodes", "opponents", "maps_used"):
            assert getattr(event, name) == row[name], name
        for name in ("loss", "grad_norm", "avg_return", "lr"):
            assert getattr(event, name) == pytest.approx(row[name], rel=1e-3), name
        assert json.loads(json.dumps(event.curriculum)) == row["curriculum"]
