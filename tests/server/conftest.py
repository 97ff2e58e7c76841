"""Fixtures: a home folder with one run that holds the golden replay, and a client of a server over it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from echelon.server.app import make_app
from echelon.server.catalogue import match_id
from echelon.server.security import Access

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "replays" / "small.ecr"
RUN = "20260101-000000-quickstart-calm-otter"
NAME = "eval-0001-blue.ecr"
MATCH = match_id(RUN, NAME)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    replays = tmp_path / RUN / "replays"
    replays.mkdir(parents=True)
    (tmp_path / RUN / "spec.json").write_text("{}")
    shutil.copy(GOLDEN, replays / NAME)
    return tmp_path


@pytest.fixture
def ask(home: Path) -> Callable[..., Any]:
    """Return a function that runs a coroutine function with a client of a loopback server, or of the given access."""

    def run(work: Callable[[TestClient], Awaitable[Any]], **access: Any) -> Any:
        async def go() -> Any:
            rules = Access(**{"host": "127.0.0.1", "port": 1, **access})
            server = TestServer(make_app(home, rules))
            await server.start_server()
            object.__setattr__(rules, "port", server.port)
            async with TestClient(server) as client:
                return await work(client)

        return asyncio.run(go())

    return run
