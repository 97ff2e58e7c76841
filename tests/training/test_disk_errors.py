"""A disk error costs the file being written; only records and the last checkpoint end a run."""

from __future__ import annotations

import pytest

from echelon.config import EvalConfig
from echelon.telemetry.events import EventAlert, EventCheckpoint
from echelon.training import checkpoint as checkpoints
from echelon.training import loop
from tests.training.fakes import FakeEnv
from tests.training.runs import of, run


def fills_disk(monkeypatch, name: str, times: int = 10**6) -> None:
    """Let a function for checkpoints find a full disk in its first calls."""
    calls, keep = iter(range(times)), getattr(checkpoints, name)

    def call(*args, **options):
        if next(calls, None) is not None:
            raise OSError(28, "No space left on device")
        return keep(*args, **options)

    monkeypatch.setattr(checkpoints, name, call)


def test_full_disk_skips_checkpoint_and_run_continues(small_run, tmp_path, monkeypatch):
    fills_disk(monkeypatch, "save_packed", times=1)
    result, events = run(small_run(), tmp_path)
    (alert,) = of(events, EventAlert)
    assert "no space left" in alert.message and f"'step-{alert.global_step}'" in alert.message
    assert result.reason == "completed"


def test_best_pointer_without_room_is_an_alert(small_run, tmp_path, monkeypatch):
    fills_disk(monkeypatch, "mark_best")
    result, events = run(small_run(eval=EvalConfig(seeds=2, every_updates=2, at_start=False)), tmp_path)
    assert "best.json could not be written" in of(events, EventAlert)[0].message and result.reason == "completed"


def test_best_pointer_is_set_by_the_save_after_one_that_failed(small_run, tmp_path, monkeypatch):
    """The policy of the best evaluation is saved twice in an update; the second checkpoint is the best too."""
    fills_disk(monkeypatch, "save_packed", times=1)
    config = small_run(save_every=2, max_updates=2, eval=EvalConfig(seeds=2, every_updates=2, at_start=False))
    _, events = run(config, tmp_path)
    assert len(of(events, EventAlert)) == 1
    best = checkpoints.read_best(tmp_path / "checkpoints")
    assert best is not None and best["eval"]["update"] == 2 and best["id"] == of(events, EventCheckpoint)[-1].id


def test_best_pointer_does_not_wait_for_the_record(small_run, tmp_path):
    events = []

    def emit(event):
        events.append(event)
        if isinstance(event, EventCheckpoint) and len(of(events, EventCheckpoint)) == 1:
            raise OSError(5, "Input/output error")

    config = small_run(save_every=2, max_updates=2, eval=EvalConfig(seeds=2, every_updates=2, at_start=False))
    loop.run(config, emit, lambda: 0, run_dir=tmp_path, make_env=FakeEnv)
    (alert,) = of(events, EventAlert)
    assert "input/output error" in alert.message and checkpoints.read_best(tmp_path / "checkpoints") is not None


def test_last_checkpoint_without_room_ends_run_with_one_line(small_run, tmp_path, monkeypatch):
    fills_disk(monkeypatch, "save_checkpoint")
    with pytest.raises(OSError, match="^checkpoint 'step-.*no space left on device; free disk space and resume$"):
        run(small_run(save_every=100), tmp_path)
