"""A play session in this process, and clients of its socket, for tests."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from echelon import play_protocol as play
from echelon.play.config import PlayConfig
from echelon.play.session import PlaySession
from echelon.play_channel import connect, packet, read_packet
from echelon.runs import RunPaths
from echelon.validation import validated

WAIT_S = 60.0
"""Longest wait for a message [s]."""
ACTIONS = 18
SMALL = {"opponent": "trivial", "size": 40, "seconds": 12.0, "speed": 8.0}
"""Options of a small fast match."""


class SocketClient:
    """A client as the server presents one to the session; it asks for a frame after every message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.received: list[dict[str, Any]] = []

    def send(self, message: play.Message) -> None:
        self.send_bytes(play.pack(message))

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(packet(data))

    async def next(self) -> dict[str, Any]:
        data = await asyncio.wait_for(read_packet(self._reader), WAIT_S)
        self.writer.write(packet(b""))
        self.received.append(message := msgpack.unpackb(data))
        return message

    async def wait_for(self, kind: str, **values: Any) -> dict[str, Any]:
        while True:
            message = await self.next()
            if message["t"] == kind and all(message[key] == value for key, value in values.items()):
                return message

    async def answer(self, message: play.Message) -> dict[str, Any]:
        self.send(message)
        return await self.wait_for("error")

    def push(self, seq: int = 1, level: int = 127) -> None:
        action = np.zeros(ACTIONS, np.int8)
        action[0] = level
        self.send(play.Input(seq=seq, action=action.tobytes()))


@contextlib.asynccontextmanager
async def running_session(
    home: Path, options: dict[str, Any] | None = None, **limits: Any
) -> AsyncIterator[PlaySession]:
    """Yield a session that listens in a run folder of ``home``; it is stopped at the end.

    Its matches do not wait for a first picture by default.
    """
    paths = RunPaths(home / "20260101-000000-play-test-session")
    for folder in (paths.root, paths.replays):
        folder.mkdir(parents=True, exist_ok=True)
    paths.spec.write_text(json.dumps({"kind": "play", "config": {}}))
    stop = False
    config = validated(PlayConfig, {**SMALL, **(options or {})})
    session = PlaySession(paths, config, should_stop=lambda: stop, **{"picture_s": 0.0, **limits})
    ready = asyncio.Event()
    task = asyncio.create_task(session.run(ready.set))
    await ready.wait()
    try:
        yield session
    finally:
        stop = True
        await asyncio.wait_for(task, WAIT_S)


async def join(session: PlaySession, name: str = "") -> SocketClient:
    client = SocketClient(*await connect(session.paths))
    client.send(play.Hello(version=play.PLAY_VERSION, name=name))
    await client.wait_for("welcome")
    return client


async def seated(session: PlaySession, mech: str = "") -> tuple[SocketClient, dict[str, Any]]:
    client = await join(session)
    await client.wait_for("state", phase="playing")
    client.send(play.Take(mech=mech))
    return client, await client.wait_for("begin")
