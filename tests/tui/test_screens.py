"""Screens of the dashboard end to end: keys in, text on the screen and files in the run folder out."""

import random
import shutil
import time

import pytest

from echelon.jobs import control
from echelon.jobs.kinds import KINDS
from echelon.jobs.labels import BASELINE
from echelon.jobs.status import job_status
from echelon.telemetry.log import EventLog
from echelon_cli.tui.feed.messages import ViewChanged
from echelon_cli.tui.layout import MIN_SIZE
from echelon_cli.tui.panels import PAGES, PANELS, WIDE_PAGES
from echelon_cli.tui.panels.header import HeaderPanel
from echelon_cli.tui.screens.base import COMMON_KEYS
from echelon_cli.tui.screens.help import HelpScreen
from echelon_cli.tui.screens.log import LogScreen
from echelon_cli.tui.screens.run import RunScreen
from echelon_cli.tui.screens.runs import RunsScreen
from echelon_cli.tui.widgets.run_table import RunTable
from tests.jobs.conftest import FAKE, until
from tests.jobs.conftest import start as start_fake  # noqa: F401  the fixture ends what a test has started
from tests.tui.conftest import POLL_S
from tests.tui.support.canned import CONFIG, make_evaluation, make_run, update_event

SIZES = [(160, 48), (60, 20)]


async def test_run_list_shows_new_and_failed_runs(dashboard, living, home):
    async with dashboard() as user:
        await user.until("amber-jackal", "running")
        make_run(home, "20260101-130000-quickstart-swift-lynx", updates=5, ended="failed")
        text = await user.until("swift-lynx", "failed")
        assert "must be > 0" in text, "the reason of the failure is shown"


async def test_cursor_stays_on_its_run_when_sorted(dashboard, living, ended):
    async with dashboard() as user:
        await user.until("amber-jackal", "quiet-heron")
        table = user.app.screen.query_one(RunTable)
        await user.press("down")
        selected = table.row
        await user.press("O")
        assert table.row == selected and table.rows[0] == selected
        await user.press("o", "o", "o", "o", "o")
        assert table.order == "ladder" and table.row == selected


async def test_enter_opens_a_run_that_is_followed_and_escape_returns(dashboard, living):
    async with dashboard() as user:
        await user.until("amber-jackal")
        await user.press("enter")
        await user.until("win rate", "gradient norm", "entropy", "running", "update 60")
        await user.press("2")
        await user.until("reward terms", "curriculum", "machine")
        assert isinstance(user.app.screen, RunScreen)
        with EventLog(living.metrics) as log:
            log.append(update_event(61, random.Random(1)))
        await user.until("update 61")
        await user.press("escape")
        assert isinstance(user.app.screen, RunsScreen)


async def test_checkpoint_and_stop_write_requests(dashboard, living):
    async with dashboard(living) as user:
        await user.until("amber-jackal", "running")
        await user.press("c")
        await user.until("checkpoint requested")
        assert living.checkpoint_now.exists()
        await user.press("s")
        await user.until("Stop ", "y yes")
        await user.press("n")
        assert not living.stop.exists(), "no request without confirmation"
        await user.press("s", "y")
        await user.until("stop requested")
        assert control.stop_requests(living) == ["stop"]
        await user.until("stopping")
        await user.press("s")
        await user.until("already stopping")
        await user.press("escape")


async def test_action_that_fails_is_a_notice(dashboard, living):
    def refuse(root):
        raise ValueError(f"{root.name} cannot be asked")

    async with dashboard(living) as user:
        await user.until("update 60")
        user.app.run_command(refuse, living.root)
        await user.until("cannot be asked")


async def test_stop_of_ended_run_does_nothing_and_idle_run_is_not_redrawn(dashboard, ended):
    async with dashboard(ended) as user:
        await user.until("completed", "update 40")
        await user.press("s")
        await user.until("is not running: completed")
        assert "y yes" not in user.text and not ended.stop.exists()
        drawn = []
        for panel in user.app.screen.panels.values():
            panel.refresh = lambda *regions, **options: drawn.append(regions)
        began = time.monotonic()
        await user.holds(lambda: time.monotonic() - began > 5 * POLL_S)
        assert drawn == []


@pytest.mark.usefixtures("start_fake")
async def test_resume_restarts_the_run(dashboard, home, monkeypatch):
    monkeypatch.setitem(KINDS, "train", FAKE)
    paths = make_run(home, "20260101-100000-quickstart-tidal-owl", updates=4, ended="stopped")
    async with dashboard(paths) as user:
        await user.until("stopped")
        await user.press("r", "y")
        await user.until("resumed")
        await user.until("running")
    assert job_status(paths).is_alive, "the run continues after the dashboard has quit"
    control.request_stop(paths)
    until(paths, "stopped")


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_run_screen_panels_are_uncut(dashboard, living, size):
    async with dashboard(living, size=size) as user:
        await user.until("running", "amber-jackal")
        seen = set()
        for number in range(1, len(PAGES) + 1):
            await user.press(str(number))
            text = user.text
            seen |= {name for name, panel in user.app.screen.panels.items() if panel.display}
            shown = [p for p in user.app.screen.panels.values() if p.display]
            assert shown and all(p.region in user.app.screen.region for p in shown)
            for one in shown:
                assert not any(one.region.overlaps(other.region) for other in shown if other is not one)
                assert f" {one.title} " in text, "no title is truncated"
            assert "? help" in text and "q quit" in text
        assert seen == PANELS.keys() - user.app.screen.unneeded, "every panel is on a page"


async def test_panels_are_maximised_hidden_and_restored(dashboard, living):
    async with dashboard(living) as user:
        await user.until("running")
        await user.press("tab", "tab", "z")
        panels = user.app.screen.panels
        assert [name for name, panel in panels.items() if panel.display] == ["return"]
        await user.press("tab")
        assert [name for name, panel in panels.items() if panel.display] == ["losses"]
        await user.press("escape")
        overview = {name for name, spec in PANELS.items() if WIDE_PAGES[spec.page] == "overview"}
        assert {name for name, panel in panels.items() if panel.display} == overview - user.app.screen.unneeded
        await user.press("h")
        assert not panels["losses"].display
        await user.press("H")
        assert panels["losses"].display


async def test_axis_key_changes_the_x_axis(dashboard, living):
    async with dashboard(living) as user:
        await user.until("steps")
        await user.press("x")
        text = await user.until("1m15s")
        assert "M steps │" not in text
        await user.press("x")
        await user.until("episodes │")


async def test_small_terminal_shows_required_size_and_recovers(dashboard, living):
    async with dashboard(living, size=(59, 24)) as user:
        for size in ((80, 19), (20, 5)):
            text = await user.until("needs")
            assert "win rate" not in text and "results" not in text
            await user.pilot.resize_terminal(*size)
        await user.press("c")
        assert not living.checkpoint_now.exists(), "no key acts unseen"
        await user.pilot.resize_terminal(80, 24)
        await user.until("win rate", "running")
    assert MIN_SIZE == (60, 20)


async def test_help_lists_every_key(dashboard, living):
    async with dashboard(living, size=(60, 20)) as user:
        await user.until("running")
        await user.press("question_mark")
        screen = user.app.screen
        assert isinstance(screen, HelpScreen)
        lines = ["".join(text for text, _ in line) for line in screen.pager.lines]
        for key in (key for key in (*RunScreen.KEYS, *COMMON_KEYS) if key.help):
            assert any(key.names in line and key.help[:30] in line for line in lines), key
        assert all(len(line) <= 60 for line in lines), "no line is truncated on the narrowest screen"
        await user.press("question_mark")
        assert isinstance(user.app.screen, RunScreen)


def test_screen_keys_are_unique():
    for screen in (RunScreen, RunsScreen, LogScreen, HelpScreen):
        keys = [name for key in (*screen.KEYS, *COMMON_KEYS) for name in key.keys.split(",")]
        assert len(keys) == len(set(keys)), screen


async def test_log_screen_follows_and_searches(dashboard, living):
    living.log_worker.write_text("".join(f"line {n}\n" for n in range(200)))
    async with dashboard(living, size=(80, 24)) as user:
        await user.until("running")
        await user.press("l")
        await user.until("line 199", "following")
        await user.press("pageup", "pageup")
        before = user.app.screen.pager.top
        with open(living.log_worker, "a") as log:
            log.write("one more\n")
        await user.until("of 201")
        assert user.app.screen.pager.top == before and "one more" not in user.text
        await user.press("f")
        await user.until("one more", "following")
        await user.press("slash", *"line 42")
        await user.until("line 42")
        await user.press("enter", "slash", *"?")
        await user.until("no match for")
        await user.press("escape", "escape")
        assert isinstance(user.app.screen, RunScreen)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ("", ("lost", "another-machine", "update 8")),
        ("stopped", ("stopped", "took", "2 alerts", "could not be written", "device (1)")),
    ],
)
async def test_copied_folder_is_lost_unless_it_has_ended_and_shows_alerts(dashboard, home, ended, words):
    name = "20260101-090000-quickstart-noble-yak"
    paths = make_run(home, name, updates=8, host="another-machine", ended=ended, alerts=2 * bool(ended))
    async with dashboard(paths, size=(200, 60)) as user:
        await user.press("2")
        await user.until(*words)


async def test_run_screen_survives_removed_folder(dashboard, living):
    async with dashboard(living) as user:
        await user.until("update 60")
        shutil.rmtree(living.root)
        await user.until("has no readable spec.json")
        await user.press("escape")
        await user.until("no runs yet")


async def test_theme_keys_redraw_the_screen(dashboard, living):
    async with dashboard(living) as user:
        await user.until("running")
        await user.press("g", "g")
        text = user.text
        assert text.isascii(), [c for c in text if not c.isascii()][:5]
        await user.press("T", "g")
        await user.until("╭")


async def test_unneeded_panels_are_hidden_until_searched(dashboard, home, monkeypatch):
    monkeypatch.setitem(CONFIG["opponents"], "mix", {"scripted": 1.0, "self_play": 0.0, "past": 0.0, "league": 0.0})
    alone = make_run(home, "20260101-110000-quickstart-quiet-heron", updates=20, ended="completed")
    monkeypatch.setitem(CONFIG["opponents"]["mix"], "league", 1.0)
    member = make_run(home, "20260101-120000-league-swift-lynx", updates=20, ended="completed")

    def on_page(page):
        return {name for name, spec in PANELS.items() if WIDE_PAGES[spec.page] == page}

    def shown(user):
        return {name for name, panel in user.app.screen.panels.items() if panel.display}

    async with dashboard(alone) as user:
        await user.until("win rate")
        await user.holds(lambda: shown(user) == on_page("overview") - {"imitation"})
        await user.press("right")
        await user.holds(lambda: shown(user) == on_page("details") - {"rating", "league"})
        await user.press("slash", *"league")
        await user.holds(lambda: shown(user) == {"league"})
        await user.press("x")
        await user.until("no panel matches leaguex")
    async with dashboard(member) as user:
        await user.until("win rate")
        await user.press("2")
        await user.holds(lambda: shown(user) == on_page("details") - {"rating"})


async def test_kinds_of_jobs_are_views_of_the_list_with_their_columns(dashboard, living, home):
    make_evaluation(home, "20260101-130000-eval-brave-heron", batches=13)
    async with dashboard(size=(120, 30)) as user:
        text = await user.until("training 1", "evals 1", "amber-jackal", "steps/s")
        assert "brave-heron" not in text and "260 of 800" not in text
        await user.press("2")
        text = await user.until("brave-heron", "260 of 800 matches", "policy", "amber-jackal")
        assert "steps/s" not in text
        await user.press("right")
        await user.until("amber-jackal")
        await user.press("slash", *"kind:eval")
        await user.until("1 of 2 runs", "brave-heron")


async def test_baseline_leads_every_order_and_is_behind_the_charts_of_other_runs(dashboard, living, ended, home):
    other = make_run(home, "20260101-130000-quickstart-swift-lynx", updates=150, ended="stopped")
    async with dashboard(size=(160, 48)) as user:
        await user.until("quiet-heron", "amber-jackal", "swift-lynx")
        table = user.app.screen.query_one(RunTable)
        table.go([row.root for row in table.rows].index(ended.root))
        await user.press("b")
        await user.holds(lambda: table.rows[0].root == ended.root and table.rows[0].tags == (BASELINE,))
        for key in ("o", "O", "o"):
            await user.press(key)
            assert table.rows[0].root == ended.root
        assert "diff" in user.text
        table.go([row.root for row in table.rows].index(other.root))
        await user.press("b")
        await user.holds(lambda: table.rows[0].root == other.root and table.rows[0].tags == (BASELINE,))
        assert [row.tags for row in table.rows[1:]] == [(), ()]
        table.go([row.root for row in table.rows].index(living.root))
        await user.press("space", "m")
        await user.holds(lambda: getattr(user.app.screen, "roots", ()) == (other.root, living.root))
    async with dashboard(living) as user:
        await user.until("baseline  ", "swift-lynx", "diff  ", " points")
        assert user.app.screen.panels["return"].ghost.id == other.id


async def test_screen_being_removed_receives_no_messages(dashboard, living):
    async with dashboard(living) as user:
        await user.until("running", "amber-jackal")
        assert user.app.active_screen is user.app.screen
        await user.app.screen.query_one(HeaderPanel).remove()
        assert user.app.active_screen is None
        user.app.on_view_changed(ViewChanged(user.app.run_view))
