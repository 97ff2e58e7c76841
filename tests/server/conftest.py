"""Fixtures: a home folder with one run that holds the golden replay, and a client of a server over it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from echelon.runs import RunPaths
from echelon.server.app import make_app
from echelon.server.catalogue import match_id
from echelon.server.play import Another
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


@asynccontextmanager
async def serving(
    home: Path, play: RunPaths | None = None, another: Another | None = None, **access: Any
) -> AsyncIterator[TestClient]:
    """Yield a client of a loopback server, or of one with the given access, to which a session may belong."""
    rules = Access(**{"host": "127.0.0.1", "port": 1, **access})
    server = TestServer(make_app(home, rules, play=play, another=another))
    await server.start_server()
    object.__setattr__(rules, "port", server.port)
    async with TestClient(server) as client:
        yield client


@pytest.fixture
def client(home: Path, runner: asyncio.Runner) -> Iterator[TestClient]:
    opened = serving(home)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


async def get_json(client: TestClient, path: str) -> tuple[int, Any]:
    reply = await client.get(path)
    return reply.status, await reply.json(content_type=None)
