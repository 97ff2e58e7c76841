"""``echelon.runs.load``: a run as columns of numpy arrays."""

import json
import subprocess
import sys

import numpy as np
import pytest

import echelon
from echelon.run_data import columns
from echelon.runs import create_run
from echelon.telemetry.events import EventEval, EventResume, EventUpdate
from echelon.telemetry.log import EventLog


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path))
    paths = create_run("quickstart")
    paths.spec.write_text(json.dumps({"kind": "train", "config": {"ppo": {"lr": 1e-3}}}))
    with EventLog(paths.metrics) as log:
        for update in (1, 2, 3):
            terms = {"zone": 0.5} if update == 2 else {}
            log.append(EventUpdate(time=10.0 + update, update=update, global_step=100 * update, reward_terms=terms))
        log.append(EventResume(time=14.0, update=2, global_step=200))
        log.append(EventUpdate(time=15.0, update=3, global_step=300, loss=7.0, curriculum={"map_size_range": [30, 60]}))
        log.append(EventEval(time=16.0, update=3, global_step=300, opponent="easy", episodes=2, win_rate=0.5))
    with EventLog(paths.evals) as log:
        log.append(
            EventEval(
                time=12.0, update=2, global_step=200, opponent="hard", episodes=2, win_rate=0.25, job="j", seeds=[1]
            )
        )
    for step in (300, 100):
        folder = paths.checkpoints / f"step-{step}"
        folder.mkdir()
        (folder / "manifest.json").write_text(
            json.dumps({"update": step // 100, "global_step": step, "id": f"c{step}"})
        )
    (paths.checkpoints / "best.json").write_text(json.dumps({"checkpoint": "step-100"}))
    return paths


def test_metrics_are_columns_without_superseded_records(run):
    metrics = echelon.runs.load("latest").metrics
    assert metrics["update"].tolist() == [1, 2, 3] and metrics["update"].dtype == np.int64
    assert metrics["loss"].tolist() == [0.0, 0.0, 7.0]
    np.testing.assert_array_equal(metrics["reward_terms/zone"], [np.nan, 0.5, np.nan])
    assert np.isnan(metrics["win_rate"]).all() and "curriculum/map_size_range" not in metrics
    assert {len(column) for column in metrics.values()} == {3}


def test_evals_join_those_of_training_and_of_jobs(run):
    evals = echelon.runs.load(str(run.root)).evals
    assert evals["opponent"].tolist() == ["hard", "easy"] and evals["job"].tolist() == ["j", ""]
    assert evals["win_rate"].tolist() == [0.25, 0.5] and evals["deterministic"].dtype == bool
    assert "seeds" not in evals


def test_checkpoints_and_config_are_read(run):
    data = echelon.runs.load(run.id)
    found = data.checkpoints
    assert found["global_step"].tolist() == [100, 300] and found["is_best"].tolist() == [True, False]
    assert found["path"][0].endswith("step-100") and np.isnan(found["episodes"]).all()
    assert data.config["ppo"]["lr"] == 1e-3 and data.id == run.id


def test_run_without_records_has_empty_tables(run):
    run.metrics.unlink()
    run.evals.unlink()
    data = echelon.runs.load("latest")
    assert data.metrics == data.evals == data.records("rating") == {}
    with pytest.raises(ValueError, match="kind 'nosuch' does not exist, expected one of start"):
        data.records("nosuch")


def test_columns_keep_integers_booleans_and_texts():
    found = columns([{"a": 1, "b": True, "c": "x", "d": {"e": 1}}, {"a": 2, "b": False, "d": {"e": None}}])
    assert [(name, column.dtype.kind) for name, column in found.items()] == [
        ("a", "i"), ("b", "b"), ("c", "U"), ("d/e", "f"),
    ]  # fmt: skip
    assert found["c"].tolist() == ["x", ""]


def test_loading_runs_needs_no_torch_and_no_table_library(run, repository):
    heavy = ("torch", "warp", "pandas", "polars")
    script = (
        f"import sys, echelon; print(echelon.runs.load({str(run.root)!r}).metrics['update'].tolist(),"
        f" [m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[1, 2, 3] []", done.stderr
