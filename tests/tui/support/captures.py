"""Captures of every screen in every size and theme, on synthetic runs, for visual review.

``python -m tests.tui.support.captures FOLDER [SCENE | SIZE | THEME ...]`` writes them as text and SVG: all, or those
of the named scenes, sizes (``80x24``) and themes. ``test_captures`` asserts what must hold on all of them.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from echelon.arena.store import league_path
from echelon.runs import RunPaths
from echelon.telemetry.heat_maps import KINDS
from echelon_cli.tui.app import Dashboard
from echelon_cli.tui.theme import Theme, make_theme
from echelon_cli.tui.widgets.compositor import screen_text
from tests.replay.golden import SMALL
from tests.tui.support.canned import alive, make_run
from tests.tui.support.svg import screen_svg

SIZES = ((60, 20), (80, 24), (160, 48), (200, 60))

THEME_VARIANTS: dict[str, Theme] = {
    "dark": make_theme(),
    "light": make_theme(background="light"),
    "plain": make_theme(colour=False),
    "ascii": make_theme("ascii", colour=False),
}

SCENES: dict[str, tuple[bool, tuple[str, ...]]] = {
    "runs": (False, ()),
    "filter": (False, ("slash", "h", "e", "r", "o", "n")),
    "run-1": (True, ("1",)),
    "run-2": (True, ("2",)),
    "run-3": (True, ("3",)),
    "run-4": (True, ("4",)),
    "run-5": (True, ("5",)),
    "zoom": (True, ("tab", "z")),
    "find": (True, ("slash", "n", "o", "r", "m", "enter")),
    "stop": (True, ("s",)),
    "compare": (False, ("space", "space", "m")),
    "configuration": (False, ("space", "space", "m", "3")),
    "league-1": (False, ("a", "down")),
    "league-2": (False, ("a", "down", "2")),
    "league-3": (False, ("a", "down", "3")),
    "league-4": (False, ("a", "down", "4")),
    "sweep-1": (False, ("end", "enter")),
    "sweep-2": (False, ("end", "enter", "2")),
    "matches": (True, ("w",)),
    "no-matches": (False, ("down", "w")),
    "new": (False, ("n",)),
    "log": (True, ("l",)),
    "help": (True, ("question_mark",)),
}
"""Whether a scene starts on one run, and the keys that lead to it."""


LOADING = "loading"
"""Word on a screen that waits for its data."""


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
        return screen_text(app.screen), screen_svg(app, name)


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


def main(folder: Path, selection: Sequence[str] = ()) -> None:
    names, sizes = list(SCENES), {f"{width}x{height}": (width, height) for width, height in SIZES}
    if unknown := set(selection) - {*names, *sizes, *THEME_VARIANTS}:
        raise SystemExit(f"unknown scene, size or theme: {', '.join(sorted(unknown))}")

    def selected(known: Iterable[str]) -> list[str]:
        return [name for name in known if name in selection] or list(known)

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, canned_home(Path(home)) as run:
        for theme, size, name in product(selected(THEME_VARIANTS), selected(sizes), selected(names)):
            text, svg = asyncio.run(capture(Path(home), run, name, sizes[size], THEME_VARIANTS[theme]))
            stem = f"{name}-{size}-{theme}"
            (folder / f"{stem}.txt").write_text(text + "\n", encoding="utf-8")
            (folder / f"{stem}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
