"""Scenes of the dashboard on synthetic runs, as text and styles for tests and as SVG for the documents."""

import io
import shutil
import string
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.segment import Segment, Segments
from rich.terminal_theme import SVG_EXPORT_THEME
from safetensors.numpy import save_file
from textual.screen import Screen

from echelon.arena.store import league_path
from echelon.runs import RunPaths
from echelon.telemetry.heat_maps import KINDS
from echelon_cli.tui.app import Dashboard
from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.compositor import screen_strips, screen_text
from tests.replay.golden import SMALL
from tests.tui.support.canned import alive, make_run

SCENES: dict[str, tuple[bool, tuple[str, ...]]] = {
    "runs": (False, ()),
    "run": (True, ("1",)),
    "run-3": (True, ("3",)),
    "run-4": (True, ("4",)),
    "find": (True, ("slash", "n", "o", "r", "m", "enter")),
    "compare": (False, ("space", "space", "m")),
    "league-1": (False, ("a", "down")),
    "league-2": (False, ("a", "down", "2")),
    "sweep-2": (False, ("end", "enter", "2")),
    "new": (False, ("n",)),
    "help": (True, ("question_mark",)),
}
"""Whether a scene starts on one run, and the keys that lead to it."""

LOADING = "loading"
"""Word on a screen that waits for its data."""

LETTERS = string.ascii_letters + string.digits


@contextmanager
def canned_home(folder: Path) -> Iterator[RunPaths]:
    """Write four runs in four states, a sweep, heat maps and a league into a folder; yield the running one."""
    from tests.jobs.canned_sweep import make_sweep
    from tests.tui.test_league import play

    rng = np.random.default_rng(1)
    make_run(folder, "20260101-090000-quickstart-idle-otter", updates=30, ended="failed", seed=2)
    make_run(folder, "20260101-100000-quickstart-brave-heron", updates=90, ended="stopped", seed=3)
    other = make_run(folder, "20260101-110000-quickstart-quiet-heron", updates=200, ended="completed", seed=4)
    records = other.metrics.read_text(encoding="utf-8")
    other.metrics.write_text(records.replace('"skill":"medium"', '"skill":"hard"'), encoding="utf-8")
    play(league_path(folder), 4)
    make_sweep(folder, "20260101-080000-sweep-brave-otter")
    with ExitStack() as stack:
        living = make_run(folder, "20260101-120000-quickstart-amber-jackal", updates=200, alerts=1)
        living.heat.mkdir()
        maps = {kind: rng.gamma(0.5, 1.0, (16, 16)).astype(np.float32) for kind in KINDS}
        living.replays.mkdir(exist_ok=True)
        for name in ("u000100-s1-blue", "u000200-s1-blue"):
            shutil.copy(SMALL, living.replays / f"{name}.ecr")
        save_file(maps, living.heat / "u000200.safetensors")
        yield stack.enter_context(alive(living))


async def capture(
    home: Path, run: RunPaths, name: str, size: tuple[int, int], theme: Theme, unchanged: int = 6
) -> tuple[str, str]:
    """Return a scene as text and SVG, once its screen has been the same for ``unchanged`` checks."""
    on_run, keys = SCENES[name]
    app = Dashboard(home, run.root if on_run else None, theme=theme, poll_s=0.05)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot, unchanged)
        for key in keys:
            await pilot.press(key)
            await settle(app, pilot, unchanged)
        return screen_text(app.screen), screen_svg(app.screen, name)


async def settle(app: Dashboard, pilot, unchanged: int = 6) -> None:
    """Wait until the screen has been the same for ``unchanged`` checks."""
    before, same = "", 0
    for _ in range(400):
        await pilot.pause(0.05)
        text = screen_text(app.screen)
        same = same + 1 if text == before else 0
        before = text
        if same >= unchanged and LOADING not in text:
            return


def screen_svg(screen: Screen[Any], title: str) -> str:
    console = Console(
        width=screen.size.width, file=io.StringIO(), force_terminal=True, color_system="truecolor", record=True,
        legacy_windows=False, safe_box=False, _environ={},
    )  # fmt: skip
    console.print(Segments([part for strip in screen_strips(screen) for part in (*strip, Segment.line())]))
    return console.export_svg(title=title, theme=SVG_EXPORT_THEME, unique_id="screen")


def styled_rows(screen: Screen[Any]) -> str:
    """Return the rows of a screen, then the same rows with a letter per style, then the meaning of the letters."""
    letters: dict[str, str] = {}

    def letter(char: str, style: str) -> str:
        return " " if char == " " and " on " not in f" {style}" else letters.setdefault(style, LETTERS[len(letters)])

    strips = screen_strips(screen)
    cells = [[(char, str(segment.style)) for segment in strip for char in segment.text] for strip in strips]
    styles = ["".join(letter(*cell) for cell in row).rstrip() for row in cells]
    texts = [strip.text.rstrip() for strip in strips]
    return "\n".join((*texts, "", *styles, "", *(f"{letter} {style}" for style, letter in letters.items())))
