"""Fixtures: a dashboard without a terminal, on synthetic runs."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from textual import _wait
from textual.pilot import Pilot

from echelon.runs import RunPaths, runs_home
from echelon_cli.tui.app import Dashboard
from echelon_cli.tui.theme import make_theme
from echelon_cli.tui.widgets.compositor import screen_text
from tests.tui.support.canned import alive, make_run

LIMIT_S = 10.0
POLL_S = 0.05

_wait.SLEEP_GRANULARITY, _wait.SLEEP_IDLE = 1 / 1000, 1 / 4000
# Textual's pilot waits twice after each key for a time without work, 20 ms by default


@pytest.fixture
def home() -> Path:
    return runs_home()


@pytest.fixture
def living(home: Path) -> Iterator[RunPaths]:
    """A run whose supervisor lock is held, so that it counts as running."""
    with alive(make_run(home, "20260101-120000-quickstart-amber-jackal", updates=60)) as paths:
        yield paths


@pytest.fixture
def ended(home: Path) -> RunPaths:
    return make_run(home, "20260101-110000-quickstart-quiet-heron", updates=40, ended="completed", seed=3)


class User:
    """A user of the dashboard: presses keys and reads the screen."""

    def __init__(self, app: Dashboard, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def text(self) -> str:
        return screen_text(self.app.screen)

    async def until(self, *words: str) -> str:
        """Wait until the screen shows all the words; return its text."""
        return await self.holds(lambda: all(word in self.text for word in words), f"no {words} on\n")

    async def holds(self, condition: Callable[[], object], message: str = "condition never true on\n") -> str:
        """Wait until a condition is true; return the text of the screen."""
        for _ in range(int(LIMIT_S / 0.02)):
            if condition():
                return self.text
            await self.pilot.pause(0.02)
        raise AssertionError(f"{message}{self.text}")


@pytest.fixture
def dashboard(home: Path) -> Callable[..., contextlib.AbstractAsyncContextManager[User]]:
    """Open the dashboard, on one run where given, and yield its user."""

    @contextlib.asynccontextmanager
    async def opened(run: RunPaths | None = None, size: tuple[int, int] = (160, 48)) -> AsyncIterator[User]:
        app = Dashboard(home, run.root if run else None, theme=make_theme(), poll_s=POLL_S)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield User(app, pilot)

    return opened


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    return True
