"""Fixtures: a served home folder and a page in headless Chromium; tests are skipped without a browser or a viewer."""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from echelon.play_channel import write_token
from echelon.runs import RunPaths
from echelon.server.app import make_app, open_socket
from echelon.server.catalogue import match_id
from echelon.server.security import Access
from tests.browser.player import CHECKED, report
from tests.play.clients import running_session
from tests.replay.golden import INSIGHT, REACH

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "replays" / "small.ecr"
SMOKE = GOLDEN.with_name("smoke.ecr")
"""A match with smoke clouds and point defence."""
RUN = "20260101-000000-quickstart-calm-otter"
MATCH = match_id(RUN, GOLDEN.name)
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
    # on a busy machine a slow picture is no reason to end the process that draws, nor to deny WebGL afterwards
    "--disable-gpu-watchdog", "--disable-domain-blocking-for-3d-apis",
)  # fmt: skip
TIMEOUT_MS = 120_000
VISITED = "try { localStorage.setItem('echelon.welcomed', '1'); } catch {}"
"""Script of a page that is no first visit."""
VIEWPORT: Any = {"width": 480, "height": 300}
"""A small window, which a software renderer draws quickly."""
DESK: Any = {"width": 1280, "height": 720}
WAIT_S = 60
"""Time-out of starting and stopping a server [s]; like the one above only for hanging tests."""
PICTURE_S = 10.0
"""Longest time that a play session waits for the first picture of a pilot [s]."""


def chromium() -> str | None:
    """Return the path of the browser: $CHROMIUM, else the system's, else None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next((path for path in map(shutil.which, names) if path), None)


def missing() -> str:
    """Return why these tests cannot run, or an empty string."""
    from echelon.server.routes import STATIC

    if not (STATIC / "index.html").is_file():
        return "the viewer is not built; `pip install -e .` builds it"
    return "" if chromium() else "Chromium is not installed; set CHROMIUM to its path"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let these tests be rerun once, since browsers are not deterministic; the summary counts reruns."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add to the report of a failed test what its pages show and wait for, and close them."""
    found = yield
    if call.when == "call" and found.failed:
        given = getattr(item, "funcargs", {}).values()
        pages = {id(page): page for page in given if hasattr(page, "wait_for_function")}
        found.sections += [("page", report(page)) for page in pages.values()]
        for page in pages.values():
            page.close()
    return found


@pytest.fixture(scope="session", autouse=True)
def browser_or_skip() -> None:
    reason = missing()
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def make_home(root: Path, *matches: Path) -> Path:
    """Make a home folder with a run of these matches; returns it."""
    replays = root / RUN / "replays"
    replays.mkdir(parents=True)
    (root / RUN / "spec.json").write_text("{}")
    for match in matches:
        shutil.copy(match, replays)
    return root


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"), GOLDEN, INSIGHT, REACH, SMOKE)


@contextmanager
def served_match(home: Path, match: Path) -> Iterator[str]:
    """Add a match to ``home`` within the context; yields its id."""
    path = home / RUN / "replays" / match.name
    shutil.copy2(match, path)
    yield match_id(RUN, match.name)
    path.unlink()


@contextmanager
def on_thread(serving: AbstractAsyncContextManager[str]) -> Iterator[str]:
    """Run an asynchronous context on a thread within this context; yields its value."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(WAIT_S)
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)


@asynccontextmanager
async def serving(home: Path, port: int = 0, play: RunPaths | None = None, **access: Any) -> AsyncIterator[str]:
    """Run a server over ``home`` within the context, on a free port by default; yields its URL."""
    bound = open_socket("127.0.0.1", port)
    port = bound.getsockname()[1]
    runner = web.AppRunner(make_app(home, Access("127.0.0.1", port, **access), play=play), access_log=None)
    await runner.setup()
    await web.SockSite(runner, bound).start()
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


@asynccontextmanager
async def serving_session(home: Path, options: Mapping[str, Any]) -> AsyncIterator[str]:
    """Run a play session and a server within the context; yields the address that joins the session."""
    async with running_session(home, dict(options), picture_s=PICTURE_S) as session:
        async with serving(home, play=session.paths) as address:
            yield f"{address}/?quality=low#play={write_token(session.paths)}"


def served(home: Path, port: int = 0) -> AbstractContextManager[str]:
    return on_thread(serving(home, port))


def served_session(home: Path, options: Mapping[str, Any]) -> AbstractContextManager[str]:
    return on_thread(serving_session(home, options))


@pytest.fixture(scope="session")
def address(home: Path) -> Iterator[str]:
    """The URL of a server over ``home``."""
    with served(home) as where:
        yield where


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium per module: its event loop must not outlive the module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield made
        made.close()


def open_page(browser: Any, errors: list[str], visited: bool = True, **options: Any) -> Any:
    """Return a page of its own context, by default no first visit; its uncaught errors are added to a list."""
    context = browser.new_context(**{"viewport": VIEWPORT, **options})
    if visited:
        context.add_init_script(VISITED)
    made = context.new_page()
    made.set_default_timeout(TIMEOUT_MS)
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("console", lambda message: print(f"console: {message.text}"))
    made.on("requestfailed", lambda request: print(f"failed: {request.url}: {request.failure}"))
    made.on("crash", lambda: print("the page has crashed"))
    return made


@pytest.fixture
def new_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """A function that opens a page with these options of its context; an uncaught error fails the test."""
    errors: list[str] = []
    made: list[Any] = []

    def make(visited: bool = True, **options: Any) -> Any:
        made.append(open_page(browser, errors, visited, **options))
        return made[-1]

    yield make
    for page in made:
        page.context.close()
    assert errors == []


@pytest.fixture(scope="module")
def pages(browser: Any) -> list[tuple[Any, list[str]]]:
    """The page that the tests of a module share, with its errors; empty before the first one."""
    return []


@pytest.fixture
def page(browser: Any, pages: list[tuple[Any, list[str]]]) -> Iterator[Any]:
    """The page that the tests of a module share, so that the viewer starts once; an uncaught error fails the test.

    ``open_match`` and its like take its application to its first state. A test of remembered settings, first visits or
    other devices takes ``new_page``.
    """
    if not pages or pages[0][0].is_closed():
        errors: list[str] = []
        pages[:] = [(open_page(browser, errors), errors)]
    shared, errors = pages[0]
    errors.clear()
    shared.set_viewport_size(VIEWPORT)
    if CHECKED not in shared.url:
        shared.goto("about:blank")
    yield shared
    if not shared.is_closed():
        shared.unroute_all()
    assert errors == []
