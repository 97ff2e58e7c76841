"""Snapshots of a run built from its records."""

from dataclasses import replace

import pytest

from echelon.telemetry import snapshot
from echelon.telemetry.events import (
    EventAlert,
    EventCheckpoint,
    EventEnd,
    EventEpisodes,
    EventEval,
    EventResume,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.log import EventLog
from echelon.telemetry.snapshot import (
    MAX_ALERTS,
    MAX_LISTED,
    MAX_MARKS,
    MAX_REASONS,
    RunSnapshot,
    SnapshotBuilder,
    SnapshotFeed,
    read_snapshot,
)


def update(number: int, elapsed_s: float = 0.0) -> EventUpdate:
    return EventUpdate(update=number, global_step=number * 100, elapsed_s=elapsed_s)


def episodes(number: int, wins: int, losses: int) -> EventEpisodes:
    totals = {"count": wins + losses, "wins": wins, "losses": losses, "reasons": {"time_up": wins}}
    return EventEpisodes(update=number, global_step=number * 100, **totals)


def evaluation(number: int, win_rate: float) -> EventEval:
    return EventEval(update=number, global_step=number * 100, opponent="baseline", episodes=80, win_rate=win_rate)


def test_empty_run_has_empty_snapshot():
    result = SnapshotBuilder().snapshot()
    assert result == RunSnapshot() and (result.progress, result.eta_s, result.global_step) == (0.0, None, 0)


def test_progress_is_maximum_of_steps_and_time():
    start = EventStart(device="cpu", total_steps=1000, max_minutes=10.0)
    assert SnapshotBuilder([start, update(5, elapsed_s=60.0)]).snapshot().progress == pytest.approx(0.5)
    result = SnapshotBuilder([start, update(5, elapsed_s=480.0)]).snapshot()
    assert result.progress == pytest.approx(0.8)
    assert result.eta_s == pytest.approx(120.0)


def test_method_is_imitation_until_its_share_of_the_plan():
    config = {"ppo": {"lr": 0.1}, "teacher": {"policy": "expert", "imitation": 0.5}}
    start = EventStart(device="cpu", total_steps=1000, config=config)
    untaught = replace(start, config={**config, "teacher": {"policy": "", "imitation": 0.5}})
    methods = [SnapshotBuilder([each, update(n)]).snapshot().method for each in (start, untaught) for n in (4, 5)]
    assert methods == ["imitation", "PPO", "PPO", "PPO"] and RunSnapshot().method == ""


def test_episode_totals_accumulate():
    result = SnapshotBuilder([episodes(1, 2, 1), episodes(2, 3, 0)]).snapshot()
    assert (result.episodes.count, result.episodes.wins, result.episodes.losses) == (6, 5, 1)
    assert result.episodes.reasons == {"time_up": 5}


def test_reasons_of_ends_are_bounded():
    many = {f"reason {n}": 1 for n in range(1000)}
    ends = [EventEpisodes(update=1, global_step=1, count=1000, reasons=part) for part in ({"time_up": 2, **many}, many)]
    reasons = SnapshotBuilder(ends).snapshot().episodes.reasons
    assert len(reasons) == MAX_REASONS and reasons["time_up"] == reasons["reason 1"] == 2


def test_best_evaluation_is_the_newest_that_chose_a_checkpoint_and_no_report():
    chosen = [replace(evaluation(update, rate), is_best=True) for update, rate in ((0, 0.1), (5, 0.7), (9, 0.6))]
    result = SnapshotBuilder([*chosen, evaluation(12, 0.3)]).snapshot()
    assert result.best is not None and result.best.update == 9
    assert [e.update for e in result.evals] == [0, 5, 9, 12]
    report = replace(evaluation(9, 0.9), purpose="report")
    result = SnapshotBuilder([evaluation(5, 0.6), report]).snapshot()
    assert result.best is not None and result.best.update == 5 and result.evals[-1] == report
    harder = replace(evaluation(12, 0.2), opponent="heuristic:hard", is_best=True)
    result = SnapshotBuilder([evaluation(5, 0.6), harder, EventResume(update=20, global_step=1)]).snapshot()
    assert result.best is not None and result.best.update == 12


def test_resume_removes_superseded_records_from_snapshot():
    events = [
        EventStart(device="cpu", total_steps=1000),
        update(1),
        episodes(1, 1, 0),
        update(2),
        episodes(2, 0, 4),
        evaluation(2, 0.9),
        EventEnd(reason="stopped"),
        EventResume(update=1, global_step=100),
    ]
    result = SnapshotBuilder(events).snapshot()
    assert result.update is not None and result.update.update == 1
    assert result.episodes.count == 1
    assert result.evals == () and result.end is None


def test_snapshot_keeps_newest_alerts_only():
    result = SnapshotBuilder(EventAlert(message=str(n)) for n in range(MAX_ALERTS + 5)).snapshot()
    assert len(result.alerts) == MAX_ALERTS
    assert result.alerts[-1].message == str(MAX_ALERTS + 4)


def test_feed_restarts_when_file_is_replaced(tmp_path):
    path, other = tmp_path / "metrics.jsonl", tmp_path / "other"
    feed = SnapshotFeed(path)
    with EventLog(path) as log:
        log.append(episodes(1, 1, 0))
        assert feed.poll()[1].episodes.count == 1
        log.append(episodes(2, 1, 0))
        events, result = feed.poll()
        assert len(events) == 1 and result.episodes.count == 2
    with EventLog(other) as log:
        log.append(episodes(1, 5, 0))
    other.replace(path)
    assert feed.poll()[1].episodes.count == 5


def test_resume_to_old_checkpoint_restores_totals():
    builder = SnapshotBuilder()
    for number in range(1, 3 * MAX_MARKS):
        builder.add(update(number))
        builder.add(episodes(number, 1, 0))
        if number == 100:
            builder.add(EventCheckpoint(update=100, global_step=10_000, path="checkpoints/step-10000"))
    builder.add(EventResume(update=100, global_step=10_000))
    result = builder.snapshot()
    assert result.update is not None and result.update.update == 100
    assert result.episodes.count == 100
    builder.add(EventResume(update=0, global_step=0))
    assert builder.snapshot().update is None and builder.snapshot().episodes.count == 0


def test_event_lists_are_bounded_and_keep_best_and_newest():
    numbers = range(1, 3 * MAX_LISTED)
    result = SnapshotBuilder(replace(evaluation(n, 0.5), is_best=n in (1, 33)) for n in numbers).snapshot()
    assert len(result.evals) <= MAX_LISTED
    assert result.best is not None and result.best.update == 33
    assert 33 in [e.update for e in result.evals] and result.evals[-1].update == 3 * MAX_LISTED - 1


def test_chunked_reading_gives_same_snapshot(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    with EventLog(path) as log:
        for number in range(1, 40):
            log.append(update(number))
            log.append(episodes(number, 1, 1))
    whole = read_snapshot(path)
    monkeypatch.setattr(snapshot, "CHUNK_BYTES_PER_POLL", 100)
    assert read_snapshot(path) == whole and whole.episodes.count == 78
