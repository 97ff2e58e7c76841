"""No text of unknown origin reaches the screen as a control character, on any screen of the dashboard."""

import json
import shutil
from pathlib import Path

import pytest

from echelon.runs import RunPaths, runs_home
from echelon_cli.tui.app import LAZY_SCREENS
from echelon_cli.tui.screens.base import COMMON_KEYS
from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.widgets.cells import Grid, truncate
from tests.cli.hostile_home import HOSTILE, control_characters, make_home
from tests.jobs.canned_sweep import make_sweep

SCREENS = ("compare", "confirm", "help", "league", "log", "matches", "new_run", "run", "runs", "sweep")
SHOWN = "\\x1b]52"
SHOWING = ("confirm", "league", "matches", "run", "runs", "sweep")
"""Screens that show foreign text of these runs."""


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    return make_home(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def hostile(template) -> list[Path]:
    home = shutil.copytree(template, runs_home())
    return sorted(path for path in home.iterdir() if path.is_dir())


def hostile_sweep() -> Path:
    paths = make_sweep(runs_home(), most=30)
    text = paths.trials.read_text(encoding="utf-8").replace('"evaluated"', '"failed"')
    paths.trials.write_text(text.replace('"message":""', f'"message":{json.dumps(HOSTILE)}'), encoding="utf-8")
    return paths.root


def arguments(name: str, roots: list[Path]) -> tuple:
    return {
        "compare": (tuple(roots),),
        "confirm": (f"{HOSTILE}?", make_theme()),
        "help": (COMMON_KEYS,),
        "log": (roots[0],),
        "matches": (None,),
        "sweep": (hostile_sweep(),) if name == "sweep" else (),
    }.get(name, ())


def test_every_screen_is_tested():
    assert {*LAZY_SCREENS, "run", "runs"} == set(SCREENS)


@pytest.mark.parametrize("name", SCREENS)
async def test_screen_shows_no_control_character(dashboard, hostile, name):
    async with dashboard(RunPaths(hostile[0]) if name == "run" else None, size=(200, 60)) as user:
        if name in LAZY_SCREENS:
            user.app.open(name, *arguments(name, hostile))
        text = await user.until(SHOWN) if name in SHOWING else user.text
        assert control_characters(text) == set()
        await user.pilot.pause(0.1)
        if (screen := user.app.active_screen) is not None:
            screen.show_notice(HOSTILE, "bad")
            await user.until(SHOWN)
        for key in ("down", "tab", "enter", "slash", "end"):
            await user.press(key)
            assert control_characters(user.text) == set()


def test_truncate_is_bounded_by_the_width():
    assert truncate("\u0301" * 1_000_000, 10)[:1] == "\u0301" and len(truncate("\u0301" * 1_000_000, 10)) <= 50
    assert truncate("a\x1b" * 500_000, 10, "~") == "a\\x1ba\\x1~"


def test_grid_shows_control_characters_as_escapes():
    grid = Grid(40, 1)
    grid.put(0, 0, "a\x1b\u202e\x9b[bold]")
    assert grid.text() == "a\\x1b\\u202e\\x9b[bold]"
