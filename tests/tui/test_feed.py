"""The feed: followers of runs and logs, damaged and missing files, and messages only for changes."""

import math
import os
import random
import shutil
import time

import pytest

from echelon.files import atomic_write
from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import create_run
from echelon.telemetry.events import EventEnd, EventResume, EventStart, EventUpdate
from echelon.telemetry.latest import read_latest
from echelon.telemetry.log import EventLog
from echelon_cli.listing import run_row
from echelon_cli.tui.feed import follower as followers
from echelon_cli.tui.feed import runs as run_lists
from echelon_cli.tui.feed.follower import RunFollower
from echelon_cli.tui.feed.logs import MAX_LINE_CHARS, LogFollower
from echelon_cli.tui.feed.messages import FeedFailed, LogView, RunsView, RunView
from echelon_cli.tui.feed.runs import RunsFollower
from echelon_cli.tui.feed.thread import RUNS, Feed
from tests.tui.support.canned import alive, make_run, start_event, update_event


def append(paths, *events):
    with EventLog(paths.metrics) as log:
        for event in events:
            log.append(event)


def update(number: int) -> EventUpdate:
    return update_event(number, random.Random(number))


def test_follower_reads_new_updates(living):
    follower = RunFollower(living.root)
    assert follower.poll() and follower.view.snapshot.update.update == 60
    assert not follower.poll(), "unchanged files cause no update"
    append(living, update(61))
    assert follower.poll()
    view = follower.view
    assert view.snapshot.update.update == 61 and view.curves.updates[-1] == 61 and view.state == "running"


def test_follower_skips_damaged_lines(living):
    follower = RunFollower(living.root)
    follower.poll()
    whole = living.metrics.stat().st_size
    with open(living.metrics, "ab") as file:
        file.write(b'\x00\xff garbage\n{"kind":"update"}\n[1]\n{"kind":"upd')
    assert follower.poll() and follower.view.snapshot.skipped == 3
    append(living, update(61))
    follower.poll()
    assert follower.view.snapshot.update.update == 61
    os.truncate(living.metrics, whole // 2)
    assert follower.poll(), "a truncated file is read again"
    view = follower.view
    assert 0 < view.snapshot.update.update < 60 and view.curves.updates[-1] == view.snapshot.update.update


def test_resume_removes_superseded_updates_from_curves(living):
    follower = RunFollower(living.root)
    follower.poll()
    append(living, EventResume(update=50, global_step=900_000), start_event(), update(51))
    follower.poll()
    curves = follower.view.curves
    assert list(curves.updates) == list(range(1, 52))
    assert list(curves.positions["steps"]) == sorted(curves.positions["steps"]), "no zigzag"


def test_missing_folder_is_reported_until_it_returns(living, home):
    follower = RunFollower(living.root)
    follower.poll()
    moved = home / "elsewhere"
    living.root.rename(moved)
    assert follower.poll()
    assert "no readable spec.json" in follower.view.problem
    assert follower.view.snapshot.update.update == 60, "the last view is kept"
    moved.rename(living.root)
    follower.poll()
    assert follower.view.problem == ""


def test_long_history_shows_newest_records_with_the_curves_so_far(home, monkeypatch):
    paths = make_run(home, "20260101-120000-quickstart-amber-jackal", updates=300)
    monkeypatch.setattr(followers, "READ_BYTES", 1 << 14)
    monkeypatch.setattr("echelon.telemetry.log.CHUNK_BYTES", 1 << 14)
    follower = RunFollower(paths.root)
    assert follower.poll() and follower.behind
    early = follower.view
    assert early.snapshot.update is not None and early.snapshot.update.update == 300
    assert early.snapshot.best is None, "unknown before all evaluations are read"
    assert early.curves.updates[0] == 1 and early.curves.updates[-1] < 300
    while follower.behind:
        assert follower.poll()
    exact = follower.view
    assert exact.snapshot.episodes.count == 300 * 26 and len(exact.snapshot.evals) == 7
    assert exact.curves.updates == tuple(range(1, 301))


def test_unchanged_run_is_not_read_again(home, ended, monkeypatch):
    catalogue = RunsFollower(home)
    first = catalogue.read()
    monkeypatch.setattr(run_lists, "run_row", lambda *_: pytest.fail("it was read again"))
    assert catalogue.read() == first


def test_row_of_a_play_session_has_no_progress_and_does_not_count_as_running(home):
    session = create_run("play", home)
    write_spec(session, JobSpec(kind="play", config={"preset": "play"}))
    session.replays.mkdir()
    (session.replays / "one.ecr").touch()
    row = run_row(session)
    assert row.is_alive and not row.is_working and row.progress != row.progress and row.status == "1 match"


def test_run_row_shows_newest_records(home, ended):
    (row,) = RunsFollower(home).read()
    assert (row.state, row.update, row.opponent, row.device) == ("completed", 40, "heuristic:medium", "cpu")
    assert row.steps == pytest.approx(720_000, abs=1000) and 0 < row.progress < 1
    assert math.isnan(row.eval_rate), "an evaluation of the untrained policy is no result"
    assert row.to_dict()["folder"] == str(ended.root)


def test_progress_uses_limits_of_the_resume(home, ended):
    before = run_row(ended)
    config = {"preset": "quickstart", "total_steps": 80_000_000, "max_minutes": 0}
    write_spec(ended, JobSpec(kind="train", config=config))
    assert run_row(ended).progress == pytest.approx(before.steps / 80_000_000)


def test_run_with_damaged_spec_is_listed_by_its_state(home, living):
    atomic_write(living.spec, "{")
    (row,) = RunsFollower(home).read()
    assert row.state == "running" and "no readable spec.json" in row.reason


def test_latest_records_respect_a_resume(living):
    append(living, EventEnd(reason="stopped", update=60, global_step=1))
    assert read_latest(living.metrics).end.reason == "stopped"
    append(living, EventResume(update=50, global_step=1))
    latest = read_latest(living.metrics)
    assert latest.update.update == 50 and latest.end is None and isinstance(latest.start, EventStart)
    append(living, update(51))
    assert read_latest(living.metrics).update.update == 51


def test_latest_records_are_read_within_a_byte_limit(living):
    append(living, *(update(n) for n in range(61, 3000)))
    with open(living.metrics, "ab") as file:
        file.write(b'{"kind":"update","torn')
    latest = read_latest(living.metrics, limit_bytes=1 << 18)
    assert latest.update.update == 2999 and latest.evals == ()
    assert latest.start.total_steps == 8_000_000, "the start record is found at any length"
    assert read_latest(living.root / "nothing").update is None


def test_feed_posts_only_changes(home, living, ended):
    posted = []
    feed = Feed(posted.append, home)
    feed.subscribe(("run", living.root), RUNS)
    feed.poll()
    assert [type(m.view) for m in posted] == [RunView, RunsView]
    feed.poll()
    feed.poll()
    assert len(posted) == 2
    append(living, update(61))
    feed.poll()
    assert [type(m.view) for m in posted[2:]] == [RunView, RunsView]
    assert {row.state for row in posted[-1].view.rows} == {"running", "completed"}


def test_messages_of_a_burst_replace_older_ones(home, living):
    posted = []
    feed = Feed(posted.append, home)
    feed.subscribe(("run", living.root), RUNS)
    feed.poll()
    run, runs = posted
    assert run.can_replace(run) and runs.can_replace(runs) and not run.can_replace(runs)


def test_feed_survives_exceptions(home, living, monkeypatch):
    posted = []
    monkeypatch.setattr(RunsFollower, "poll", lambda self: 1 / 0)
    feed = Feed(posted.append, home, poll_s=0.01)
    feed.start()
    deadline = time.monotonic() + 5
    while len(posted) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    feed.stop()
    feed.join(5)
    assert not feed.is_alive() and all(isinstance(m, FeedFailed) for m in posted) and len(posted) >= 2


def test_feed_survives_missing_runs_folder(home, living):
    posted = []
    feed = Feed(posted.append, home)
    feed.subscribe(("run", living.root), RUNS)
    feed.poll()
    shutil.rmtree(home)
    feed.poll()
    assert posted[-1].view.rows == ()


def test_log_follower_strips_control_sequences(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(
        b"\x1b[31mred\x1b[0m\x1b]0;title\x07\tx\nprogress 1\rprogress 2\r\n" + b"y" * 9000 + b"\n\xff\x07\n"
    )
    follower = LogFollower(path)
    assert follower.poll()
    red, progress, long, broken = follower.lines
    assert red == "red x" and progress == "progress 2" and len(long) == MAX_LINE_CHARS
    assert "\x07" not in broken and not follower.poll()


def test_log_follower_keeps_newest_lines_and_numbers(tmp_path):
    path = tmp_path / "log"
    path.write_text("".join(f"{n}\n" for n in range(30)) + "not ended")
    follower = LogFollower(path, max_lines=10)
    follower.poll()
    assert list(follower.lines) == [str(n) for n in range(20, 30)] and follower.first == 20
    with open(path, "a") as log:
        log.write(" yet\n")
    follower.poll()
    assert follower.lines[-1] == "not ended yet" and follower.first == 21
    path.rename(tmp_path / "log.1")
    path.write_text("a new session\n")
    assert follower.poll() and list(follower.lines) == ["a new session"]


def test_feed_posts_log_only_when_it_grows(home, living):
    posted = []
    feed = Feed(posted.append, home)
    feed.subscribe(("log", living.log_worker))
    feed.poll()
    feed.poll()
    assert [type(m.view) for m in posted] == [LogView]
    with open(living.log_worker, "a") as log:
        log.write("more\n")
    feed.poll()
    assert posted[-1].view.lines[-1] == "more"


def test_unusual_run_names_are_followed(hostile_home):
    with alive(make_run(hostile_home, "a b'\"c\n机甲", updates=3)) as paths:
        (row,) = RunsFollower(hostile_home).read()
        assert row.root == paths.root and row.update == 3
        follower = RunFollower(paths.root)
        follower.poll()
        assert follower.view.snapshot.update.update == 3
