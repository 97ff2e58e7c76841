"""``echelon dash`` and what ``echelon train`` does on a terminal, without one."""

from __future__ import annotations

import json

import pytest

from echelon.jobs import launch
from echelon.jobs.kinds import KINDS
from echelon.jobs.spec import read_spec
from echelon.jobs.status import job_status
from echelon.runs import list_runs, runs_home
from echelon.telemetry.events import EventStart
from echelon.telemetry.log import read_events
from echelon_cli import output
from echelon_cli.commands.runs import CHARTS
from echelon_cli.tui.panels import PANELS
from echelon_cli.tui.screens.compare import COMPARED
from tests.cli.conftest import parsed
from tests.jobs.conftest import FAKE, until
from tests.jobs.conftest import start as start_fake  # noqa: F401  the fixture ends what a test has started
from tests.tui.support.canned import make_run


def test_without_a_terminal_it_says_what_to_use_instead(echelon):
    code, out, err = echelon("dash")
    assert code == output.FAILED and out == ""
    assert "needs a terminal" in err and "echelon logs -f" in err


def test_json_lists_what_it_would_show(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    ended_run("20260102-000000-quickstart-wild-owl")
    _, out, _ = echelon("dash", "--json")
    assert [row["id"].split("-", 3)[3] for row in parsed(out)] == ["wild-owl", "calm-fox"]
    _, out, _ = echelon("dash", "fox", "--json")
    (row,) = parsed(out)
    assert row["state"] == "completed" and row["last_win_rate"] == 0.6 and row["win_rate"] is None


@pytest.fixture
def at_a_terminal(monkeypatch, repository, start_fake):  # noqa: F811
    """Pretend that somebody sits there; what the dashboard would show is remembered."""
    shown = []
    monkeypatch.setattr(output, "is_interactive", lambda: True)
    monkeypatch.setattr("echelon_cli.tui.app.show", lambda home, run=None: shown.append((home, run)))
    monkeypatch.setitem(KINDS, "train", FAKE)
    monkeypatch.setenv("PYTHONPATH", str(repository))
    return shown


def test_training_on_a_terminal_opens_the_dashboard_and_leaving_it_says_how_to_come_back(echelon, at_a_terminal):
    code, out, _ = echelon("train")
    (paths,) = list_runs()
    assert code == output.DONE and at_a_terminal == [(paths.root.parent, paths.root)]
    assert "goes on in the background" in out
    for command in ("dash", "logs -f", "watch", "stop"):
        assert f"echelon {command} {paths.id}" in out
    assert job_status(paths).is_alive
    launch.stop(paths)
    until(paths, "stopped")


def test_detaching_from_a_resumed_run_waits_until_it_trains_again(echelon, at_a_terminal):
    assert echelon("train", "--detach")[0] == output.DONE
    (paths,) = list_runs()
    launch.stop(paths, now=True)
    until(paths, "stopped")
    before = sum(isinstance(event, EventStart) for event in read_events(paths.metrics)[0])
    assert echelon("train", "--resume", paths.id, "--detach")[0] == output.DONE
    assert sum(isinstance(event, EventStart) for event in read_events(paths.metrics)[0]) == before + 1
    launch.stop(paths)
    until(paths, "stopped")


@pytest.mark.parametrize(
    ("gpu", "words", "preset", "says"),
    [
        (True, (), "gpu", "preset gpu, the one for this machine; others"),
        (True, ("--device", "cpu"), "quickstart", "preset quickstart, the one for this machine; others"),
        (False, (), "quickstart", "preset quickstart, the one for this machine; others"),
        (True, ("--config", "run.toml"), "standard", "preset standard, which the file names; others"),
        (True, ("--preset", "duel"), "duel", "preset duel; until"),
    ],
)
def test_the_preset_fits_the_machine_unless_one_is_named(
    echelon, at_a_terminal, monkeypatch, tmp_path, gpu, words, preset, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text('preset = "standard"\n')
    monkeypatch.setattr("echelon.jobs.usage.has_gpu", lambda: gpu)
    code, out, _ = echelon("train", "--detach", *words)
    (paths,) = list_runs()
    assert code == output.DONE and says in out and read_spec(paths).config["preset"] == preset
    launch.stop(paths, now=True)
    until(paths, "stopped")


def test_a_dashboard_that_fails_is_a_failure(echelon, monkeypatch):
    from echelon_cli.tui.app import Dashboard

    monkeypatch.setattr(output, "is_interactive", lambda: True)
    monkeypatch.setattr(Dashboard, "on_mount", lambda self: 1 / 0)
    run = Dashboard.run
    monkeypatch.setattr(Dashboard, "run", lambda self: run(self, headless=True))
    assert echelon("dash")[0] == output.FAILED


def test_a_run_that_ended_meanwhile_gets_its_summary(echelon, at_a_terminal, monkeypatch):
    def watch_to_the_end(home, run=None):
        (paths,) = list_runs()
        launch.stop(paths)
        until(paths, "stopped")

    monkeypatch.setattr("echelon_cli.tui.app.show", watch_to_the_end)
    code, out, _ = echelon("train")
    assert code == output.STOPPED and "stopped" in out and "goes on" not in out


def test_leaving_a_program_that_reads_json_says_nothing_in_words(echelon, at_a_terminal, monkeypatch):
    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("echelon_cli.follow.Follower.follow", leave)
    code, out, _ = echelon("train", "--json")
    row, (paths,) = parsed(out), list_runs()
    assert code == output.DONE and (row["id"], row["folder"]) == (paths.id, str(paths.root))
    launch.stop(paths, now=True)
    until(paths, "stopped")


@pytest.mark.parametrize("flag", ["--detach", "--json"])
def test_training_for_a_program_opens_no_dashboard(echelon, at_a_terminal, flag):
    _, out, _ = echelon("train", "--detach", flag)
    assert at_a_terminal == []
    (paths,) = list_runs()
    assert flag != "--json" or json.loads(out.splitlines()[-1])["id"] == paths.id
    launch.stop(paths)
    until(paths, "stopped")


def test_once_prints_all_runs_or_one_without_a_terminal(echelon):
    make_run(runs_home(), "20260101-120000-quickstart-amber-jackal", updates=60, ended="completed")
    make_run(runs_home(), "20260101-110000-quickstart-quiet-heron", updates=30, ended="stopped")
    code, out, _ = echelon("dash", "--once")
    assert code == 0 and "jackal" in out and "quiet-heron" in out and "\x1b" not in out
    for width in ("60", "80", "160"):
        code, out, _ = echelon("dash", "jackal", "--once", "--width", width)
        assert code == 0 and all(len(line) <= int(width) for line in out.splitlines())
        assert all(panel.title in out for panel in PANELS.values()) and "completed" in out


def test_once_says_how_to_begin_where_there_are_no_runs(echelon):
    code, out, _ = echelon("dash", "--once")
    assert code == 0 and "echelon train" in out


def test_runs_are_compared_in_a_chart_of_lines(echelon):
    make_run(runs_home(), "20260101-120000-quickstart-amber-jackal", updates=60, ended="completed")
    make_run(runs_home(), "20260101-110000-quickstart-quiet-heron", updates=30, ended="stopped")
    code, out, _ = echelon("runs", "compare", "jackal", "heron", "--chart", "return")
    assert code == 0 and "1■" in out and "2■" in out
    assert any(line.startswith("1 ") and "  2 " in line for line in out.splitlines()), "the legend has both"
    code, _, err = echelon("runs", "compare", "jackal", "heron", "--chart", "nothing")
    assert code == 2 and "wins, return, speed" in err


def test_every_chart_of_the_command_is_one_of_the_dashboard():
    assert set(CHARTS) == set(COMPARED)
