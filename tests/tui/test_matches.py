"""The matches screen, the viewer address, copying, and level filters of the log screen."""

import json
import shutil
import time
import urllib.request

import pytest

from echelon_cli.tui.app import COPY_NAME
from echelon_cli.tui.screens.matches import COLUMNS, draw_matches, visible_columns
from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.viewer_server import ViewerServer
from tests.replay.golden import SMALL
from tests.tui.support.canned import make_run


@pytest.fixture
def recorded(living):
    (living.root / "replays").mkdir()
    shutil.copy(SMALL, living.replays / "u000004-s1-blue.ecr")
    return living


@pytest.mark.long
async def test_matches_screen_opens_a_match_in_the_viewer(dashboard, recorded, monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.1 22")
    found = {}
    async with dashboard(recorded) as user:
        await user.until("running")
        await user.press("w")
        await user.until("matches", "1 recorded", "red (zone held)")
        await user.press("enter")
        text = await user.until("#match=", "ssh -L")
        found["url"] = next(word for word in text.split() if "#match=" in word)
        base = found["url"].partition("#")[0]
        with urllib.request.urlopen(f"{base}api/v1/matches", timeout=5) as reply:
            assert json.loads(reply.read())["total"] == 1
        await user.press("y")
        await user.until("copied")
        await user.press("escape")
        await user.until("steps per second")
    assert (recorded.root.parent / COPY_NAME).read_text().strip() == found["url"]
    deadline = time.monotonic() + 10
    with pytest.raises(OSError):
        while time.monotonic() < deadline:
            urllib.request.urlopen(found["url"].partition("#")[0], timeout=2).read()
            time.sleep(0.1)


def test_viewer_server_failure_is_one_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    viewer = ViewerServer(blocked / "runs")
    address = viewer.open("x")
    viewer.close()
    assert address.url or (address.problem and "\n" not in address.problem)


async def test_matches_screen_shows_empty_state(dashboard, living):
    async with dashboard(living, size=(60, 20)) as user:
        await user.until("running")
        await user.press("w")
        await user.until("no recorded matches yet", "0 recorded")
        await user.press("enter", "down")


def test_match_columns_fit_any_width():
    row = {
        "id": "0123456789abcdef", "run": "20260101-120000-quickstart-amber-jackal", "blue": "policy " * 5,
        "red": "hard", "live": False, "complete": True, "winner": 0, "reason": "zone_control", "score": [12.55, 30.05],
        "created": 0.0, "update": 4,
    }  # fmt: skip
    for width in (60, 80, 160, 200):
        grid = draw_matches([row], 0, 0, width, 4, make_theme(), 100.0)
        head, line = grid.text().splitlines()[:2]
        for column in visible_columns(width):
            assert column.name in head
        assert "blue (zone held)" in line and len(line) <= width
        assert "…" not in line.partition("blue (zone held)")[2], "score, run and id are shown whole"
    assert len(visible_columns(200)) == len(COLUMNS)


async def test_copy_saves_name_screen_or_log_lines(dashboard, living):
    def copied() -> str:
        return (living.root.parent / COPY_NAME).read_text()

    async with dashboard(living) as user:
        await user.until("running")
        await user.press("y")
        await user.holds(lambda: (living.root.parent / COPY_NAME).exists() and copied() == f"{living.id}\n")
        await user.press("Y")
        await user.holds(lambda: "gradient norm" in copied() and "win rate" in copied())
        await user.press("l")
        await user.until("worker.log")
        await user.press("y")
        await user.holds(lambda: copied().startswith("2026-11-18") and "gradient norm" not in copied())


async def test_copied_name_is_printable_and_quoted(dashboard, home):
    name = "20260101-120000-\x1b]0;t\x07\n$(evil)\udce9-iron-fox"
    run = make_run(home, name, updates=2)
    async with dashboard(run) as user:
        await user.until("$(evil)")
        await user.press("y")
        await user.holds(lambda: (home / COPY_NAME).exists())
        shown = r"'20260101-120000-\x1b]0;t\x07\n$(evil)\udce9-iron-fox'"
        assert (home / COPY_NAME).read_text() == shown + "\n"
        await user.press("Y")
        await user.holds(lambda: "$(evil)" in (home / COPY_NAME).read_text().replace(shown, ""))


async def test_log_screen_filters_by_level(dashboard, living):
    with open(living.log_worker, "a") as log:
        log.write("2026-11-18 12:00:00 alert level=warning message=disk low\nValueError: it broke\n")
    async with dashboard(living) as user:
        await user.until("running")
        await user.press("l")
        await user.until("worker.log", "it broke", "start device=cpu")
        await user.press("e")
        await user.until("warnings and errors", "disk low", "it broke")
        assert "start device=cpu" not in user.text
        await user.press("e")
        await user.holds(lambda: "disk low" not in user.text and "it broke" in user.text)
        with open(living.log_worker, "a") as log:
            log.write("Error: once more\n")
        await user.until("once more")
        await user.press("e")
        await user.until("start device=cpu")


async def test_long_log_line_is_marked_and_scrolls_sideways(dashboard, living):
    living.log_worker.write_text("short\nlong " + "x" * 66 + " end\n")
    async with dashboard(living, size=(60, 20)) as user:
        await user.until("running")
        await user.press("l")
        lines = (await user.until("short")).splitlines()
        assert " short" in lines and len(lines[2]) == 59 and lines[2].endswith("x…")
        await user.press("right")
        lines = (await user.until("x end")).splitlines()
        assert lines[2].startswith(" …x"), "and at the left, once it is moved"
