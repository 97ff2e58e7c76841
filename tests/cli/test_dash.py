"""``echelon dash`` and what ``echelon train`` does on a terminal, without one."""

import json

import pytest

from echelon.jobs import launch
from echelon.jobs.kinds import KINDS
from echelon.jobs.status import job_status
from echelon.runs import list_runs, runs_home
from echelon.telemetry.events import EventStart
from echelon.telemetry.log import read_events
from echelon_cli import job, output
from echelon_cli.tui.panels import PANELS
from tests.cli.conftest import parsed
from tests.jobs.conftest import FAKE, until
from tests.jobs.conftest import start as start_fake  # noqa: F401  the fixture ends what a test has started
from tests.tui.support.canned import make_run


def test_dash_without_terminal_suggests_alternatives(echelon):
    code, out, err = echelon("dash")
    assert code == output.FAILED and out == ""
    assert "needs a terminal" in err and "echelon runs logs -f" in err


def test_dash_json_lists_runs(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    ended_run("20260102-000000-quickstart-wild-owl")
    _, out, _ = echelon("dash", "--json")
    assert [row["id"].split("-", 3)[3] for row in parsed(out)] == ["wild-owl", "calm-fox"]
    _, out, _ = echelon("dash", "fox", "--json")
    (row,) = parsed(out)
    assert row["state"] == "completed" and row["last_win_rate"] == 0.6 and row["win_rate"] is None


@pytest.fixture
def at_a_terminal(monkeypatch, start_fake):  # noqa: F811
    """Pretend that somebody sits there; what the dashboard would show is remembered."""
    shown = []
    monkeypatch.setattr(output, "is_interactive", lambda: True)
    monkeypatch.setattr("echelon_cli.tui.app.show", lambda home, run=None: shown.append((home, run)))
    monkeypatch.setitem(KINDS, "train", FAKE)
    return shown


def test_train_on_terminal_opens_dashboard_and_prints_return_commands(echelon, at_a_terminal):
    code, out, _ = echelon("train")
    (paths,) = list_runs()
    assert code == output.DONE and at_a_terminal == [(paths.root.parent, paths.root)]
    assert "continues in the background" in out
    for command in ("dash", "runs logs -f", "watch", "runs stop"):
        assert f"echelon {command} {paths.id}" in out
    assert job_status(paths).is_alive
    launch.stop(paths)
    until(paths, "stopped")


def test_detach_from_resumed_run_waits_for_training(echelon, at_a_terminal):
    assert echelon("train", "--detach")[0] == output.DONE and at_a_terminal == []
    (paths,) = list_runs()
    launch.stop(paths, now=True)
    until(paths, "stopped")
    before = sum(isinstance(event, EventStart) for event in read_events(paths.metrics)[0])
    assert echelon("train", "--resume", paths.id, "--detach")[0] == output.DONE
    assert sum(isinstance(event, EventStart) for event in read_events(paths.metrics)[0]) == before + 1
    launch.stop(paths)
    until(paths, "stopped")


@pytest.mark.parametrize(
    ("gpu", "words", "preset", "expected_text"),
    [
        (True, (), "gpu", "preset gpu, the default for this machine; others"),
        (True, ("--device", "cpu"), "quickstart", "preset quickstart, the default for this machine; others"),
        (False, (), "quickstart", "preset quickstart, the default for this machine; others"),
        (True, ("--config", "run.toml"), "standard", "preset standard, named by the file; others"),
        (True, ("--preset", "duel"), "duel", "preset duel; until"),
    ],
)
def test_default_preset_depends_on_device(echelon, monkeypatch, tmp_path, gpu, words, preset, expected_text):
    started = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text('preset = "standard"\n')
    monkeypatch.setattr("echelon.jobs.usage.has_gpu", lambda: gpu)
    monkeypatch.setattr(job, "start", lambda paths, spec, *_, **__: started.append(spec) or spec)
    monkeypatch.setattr(job, "follow", lambda *_, **__: output.DONE)
    code, out, _ = echelon("train", "--detach", *words)
    assert code == output.DONE and expected_text in out and started[0].config["preset"] == preset


def test_dashboard_failure_returns_failed(echelon, monkeypatch):
    from echelon_cli.tui.app import Dashboard

    monkeypatch.setattr(output, "is_interactive", lambda: True)
    monkeypatch.setattr(Dashboard, "on_mount", lambda self: 1 / 0)
    run = Dashboard.run
    monkeypatch.setattr(Dashboard, "run", lambda self: run(self, headless=True))
    assert echelon("dash")[0] == output.FAILED


def test_train_summarises_run_that_ended_in_dashboard(echelon, at_a_terminal, monkeypatch):
    def watch_to_the_end(home, run=None):
        (paths,) = list_runs()
        launch.stop(paths)
        until(paths, "stopped")

    monkeypatch.setattr("echelon_cli.tui.app.show", watch_to_the_end)
    code, out, _ = echelon("train")
    assert code == output.STOPPED and "stopped" in out and "continues" not in out


def test_interrupt_with_json_prints_only_json(echelon, at_a_terminal, monkeypatch):
    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("echelon_cli.follow.Follower.follow", leave)
    code, out, _ = echelon("train", "--json")
    row, (paths,) = parsed(out), list_runs()
    assert code == output.DONE and (row["id"], row["folder"]) == (paths.id, str(paths.root))
    launch.stop(paths, now=True)
    until(paths, "stopped")


def test_train_with_json_opens_no_dashboard(echelon, at_a_terminal):
    _, out, _ = echelon("train", "--detach", "--json")
    (paths,) = list_runs()
    assert at_a_terminal == [] and json.loads(out.splitlines()[-1])["id"] == paths.id
    launch.stop(paths)
    until(paths, "stopped")


def test_dash_once_prints_all_runs_or_one(echelon):
    make_run(runs_home(), "20260101-120000-quickstart-amber-jackal", updates=60, ended="completed")
    make_run(runs_home(), "20260101-110000-quickstart-quiet-heron", updates=30, ended="stopped")
    code, out, _ = echelon("dash", "--once")
    assert code == 0 and "jackal" in out and "quiet-heron" in out and "\x1b" not in out
    for width in ("60", "80", "160"):
        code, out, _ = echelon("dash", "jackal", "--once", "--width", width)
        assert code == 0 and all(len(line) <= int(width) for line in out.splitlines())
        assert all(panel.title in out for panel in PANELS.values()) and "completed" in out


def test_dash_once_without_runs_suggests_train(echelon):
    runs_home().mkdir(parents=True, exist_ok=True)
    code, out, _ = echelon("dash", "--once")
    assert code == 0 and "echelon train" in out


def test_runs_compare_draws_overlaid_chart(echelon):
    make_run(runs_home(), "20260101-120000-quickstart-amber-jackal", updates=60, ended="completed")
    make_run(runs_home(), "20260101-110000-quickstart-quiet-heron", updates=30, ended="stopped")
    code, out, _ = echelon("runs", "compare", "jackal", "heron", "--chart", "return")
    assert code == 0 and "1■" in out and "2■" in out
    assert any(line.startswith("1 ") and "  2 " in line for line in out.splitlines()), "the legend has both"
    code, _, err = echelon("runs", "compare", "jackal", "heron", "--chart", "nothing")
    assert code == 2 and "wins, return, losses" in err
