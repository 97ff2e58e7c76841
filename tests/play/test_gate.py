"""The server's side of a play session: tokens, origins, limits, and a session that is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from aiohttp.test_utils import TestClient

from echelon import play_protocol as play
from echelon.play_channel import ChannelError, listening_socket, packet, read_packet, write_token
from echelon.runs import RunPaths, require_plain_files
from echelon.server import play as gate
from tests.server.conftest import serving

WAIT_S = 20.0


class EchoSession:
    """A session that answers each message with a pong of its length, and sends a frame when asked for one."""

    def __init__(self, home: Path, words: str = "test-session") -> None:
        self.home, self.paths = home, RunPaths(home / f"20260101-000000-play-{words}")
        self.paths.root.mkdir(parents=True)
        self.paths.spec.write_text('{"kind": "play"}')
        self.token, self.received, self.asked = write_token(self.paths), [], 0
        self.joined = 0

    async def start(self) -> EchoSession:
        self._server = await asyncio.start_unix_server(self._serve, sock=listening_socket(self.paths))
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.joined += 1
        with contextlib.suppress(ChannelError):
            while True:
                if data := await read_packet(reader):
                    self.received.append(msgpack.unpackb(data, strict_map_key=False))
                    writer.write(packet(play.pack(play.Pong(n=len(data), tick=0))))
                else:
                    self.asked += 1
        writer.close()


@pytest.fixture
def session(tmp_path: Path, runner: asyncio.Runner) -> EchoSession:
    return runner.run(EchoSession(tmp_path).start())


@pytest.fixture
def client(session: EchoSession, runner: asyncio.Runner) -> Iterator[TestClient]:
    opened = serving(session.home, session.paths)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


async def receive(socket: Any) -> dict[str, Any]:
    message = await socket.receive(timeout=WAIT_S)
    assert message.type is WSMsgType.BINARY, message
    return msgpack.unpackb(message.data)


def hello(token: str = "", version: int = play.PLAY_VERSION) -> bytes:
    return play.pack(play.Hello(version=version, token=token))


def join(client: TestClient, **headers: str) -> Any:
    return client.ws_connect("/api/v1/play", headers={"Origin": f"http://127.0.0.1:{client.port}", **headers})


async def test_messages_pass_in_both_directions_without_the_token(client, session):
    async with join(client) as socket:
        await socket.send_bytes(hello(session.token))
        assert (await receive(socket))["t"] == "pong"
        await socket.send_bytes(play.pack(play.Ping(n=1)))
        assert (await receive(socket))["t"] == "pong"
    assert [message["t"] for message in session.received] == ["hello", "ping"]
    assert session.received[0]["token"] == "" and session.asked == 3


async def test_token_in_the_cookie_admits(client, session):
    cookie = f"{gate.COOKIE.format(port=client.port)}={session.token}"
    async with join(client, Cookie=cookie) as socket:
        await socket.send_bytes(hello())
        assert (await receive(socket))["t"] == "pong"


async def test_channels_without_a_token_keep_no_pilot_out(client, session, monkeypatch):
    monkeypatch.setattr(gate, "MAX_WAITING", 8)
    async with contextlib.AsyncExitStack() as opened:
        silent = [await opened.enter_async_context(join(client)) for _ in range(30)]
        socket = await opened.enter_async_context(join(client))
        await socket.send_bytes(hello(session.token))
        assert (await receive(socket))["t"] == "pong"
        silent += [await opened.enter_async_context(join(client)) for _ in range(30)]
        await socket.send_bytes(play.pack(play.Ping(n=1)))
        assert (await receive(socket))["t"] == "pong", "an admitted channel gives way to none"
        # those that made room have been closed, the newest wait
        await asyncio.gather(*(each.receive() for each in silent[:-8]))
        assert [each.closed for each in silent[-8:]] == [False] * 8


async def test_channels_with_a_token_are_bounded(client, session, monkeypatch):
    monkeypatch.setattr(gate, "MAX_CLIENTS", 2)
    async with contextlib.AsyncExitStack() as opened:
        answers = []
        for _ in range(3):
            socket = await opened.enter_async_context(join(client))
            await socket.send_bytes(hello(session.token))
            answers.append(await receive(socket))
        assert [answer["t"] for answer in answers] == ["pong", "pong", "error"]
        assert answers[2]["code"] == "busy"


async def test_each_browser_at_a_server_with_play_has_its_own_session(tmp_path, session, monkeypatch):
    further = [await EchoSession(tmp_path, "test-other").start()]

    def another() -> RunPaths:
        if not further:
            raise ValueError("2 people fly here")
        return further.pop().paths

    (other,) = further
    async with serving(session.home, session.paths, another) as client, contextlib.AsyncExitStack() as opened:

        async def fly(name: str) -> Any:
            cookie = {"Cookie": f"{gate.PILOT_COOKIE.format(port=client.port)}={name}"} if name else {}
            socket = await opened.enter_async_context(join(client, **cookie))
            await socket.send_bytes(hello(session.token))
            return socket, await receive(socket)

        one, two = "o" * 16, "t" * 16
        assert [(await fly(name))[1]["t"] for name in (one, two, one, two, two)] == ["pong"] * 5
        assert len(session.received) == 2 and len(other.received) == 3
        socket, answer = await fly("")
        assert (answer["code"], answer["text"]) == ("busy", "2 people fly here")
        assert (await socket.receive()).type is WSMsgType.CLOSE and socket.close_code == gate.CLOSE_BUSY
        assert [len(cookie.value) for cookie in client.session.cookie_jar] == [22], "a browser gets its cookie"
        await opened.aclose()
        monkeypatch.setattr(gate.protocol, "SEAT_HOLD_S", 0.0)
        assert (await fly("f" * 16))[1]["t"] == "pong"


FIRST = {
    "no token": (hello(), "token"), "wrong token": (hello("x"), "token"), "zero": (hello("\0"), "token"),
    "letters": (hello("é" * 20), "token"), "long token": (hello("A" * 128), "token"), "garbage": (b"\xc1", "message"),
    "nothing": (b"", "message"), "take": (play.pack(play.Take()), "message"), "version": (hello(version=99), "version"),
    "long": (bytes(5000), "message"),
}  # fmt: skip


@pytest.mark.parametrize(("first", "code"), FIRST.values(), ids=FIRST)
async def test_wrong_first_message_closes_the_channel(client, session, first, code):
    async with join(client) as socket:
        await socket.send_bytes(first)
        assert (await receive(socket))["code"] == code
        assert (await socket.receive()).type is WSMsgType.CLOSE
        assert code != "token" or socket.close_code == gate.CLOSE_TOKEN
    assert session.received == []


async def test_stolen_token_is_of_no_use_to_another_page_or_without_an_origin(client, session):
    origin = f"http://127.0.0.1:{client.port}"
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {}, {"Origin": origin, "Host": "evil"}):
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(f"/api/v1/play?token={session.token}", headers=headers)
        assert refused.value.status in (403, 421)
    assert session.received == []


async def test_server_without_play_is_read_only(session):
    async with serving(session.home) as client:
        with pytest.raises(WSServerHandshakeError) as refused:
            await join(client)
        assert refused.value.status == 404
        assert (await client.post("/api/v1/play")).status == 405


async def test_long_text_and_many_messages_are_refused_and_the_channel_lives(client, session):
    async with join(client) as socket:
        await socket.send_bytes(hello(session.token))
        await receive(socket)
        await socket.send_bytes(bytes(play.MAX_CLIENT_BYTES + 1))
        assert "at most 4096" in (await receive(socket))["text"]
        await socket.send_str("take")
        assert (await receive(socket))["code"] == "message"
        for n in range(2 * play.MAX_CLIENT_RATE):
            await socket.send_bytes(play.pack(play.Ping(n=n)))
        while (await receive(socket)).get("code") != "rate":
            pass
        await asyncio.sleep(0.3)
        await socket.send_bytes(play.pack(play.Ping(n=1)))
        while (await receive(socket))["t"] != "pong":
            pass
    assert len(session.received) <= play.MAX_CLIENT_RATE + 30


async def test_flood_closes_the_channel(client, session, monkeypatch):
    monkeypatch.setattr(gate, "MAX_REFUSED", 50)
    async with join(client) as socket:
        await socket.send_bytes(hello(session.token))
        with contextlib.suppress(ConnectionError):
            for n in range(400):
                await socket.send_bytes(play.pack(play.Ping(n=n)))
        while (await socket.receive()).type is WSMsgType.BINARY:
            pass
        assert socket.close_code == gate.CLOSE_FLOOD
    assert len(session.received) < 100


@pytest.mark.parametrize(("left", "text"), [(True, ""), (False, "no play session runs")], ids=["crashed", "none"])
async def test_session_that_is_gone_is_named_apart_from_a_wrong_token(client, session, left, text):
    session._server.close()
    if not left:
        session.paths.play_socket.unlink()
    async with join(client) as socket:
        await socket.send_bytes(hello(session.token))
        problem = await receive(socket)
        assert problem["code"] == "session" and text in problem["text"]
        assert (await socket.receive()).type is WSMsgType.CLOSE and socket.close_code == gate.CLOSE_SESSION


async def test_crashed_session_is_replaced_at_a_bounded_rate(tmp_path, session, monkeypatch):
    for name, value in (("RETRY_S", 0.01), ("REVIVE_S", 0.1)):
        monkeypatch.setattr(gate, name, value)
    asked: list[float] = []
    gone, clock = RunPaths(tmp_path / "first"), asyncio.get_running_loop().time

    def revive(paths: RunPaths) -> RunPaths | None:
        assert paths.root == gone.root
        asked.append(clock())
        if len(asked) < 3:
            raise ValueError("2 play sessions run already")
        return session.paths

    keeper = gate.PlayGate(tmp_path)
    keeper.keep(gone, revive)
    async with asyncio.timeout(WAIT_S):
        while not session.joined:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    await keeper.stop()
    assert len(asked) == 3 and asked[1] - asked[0] >= 0.2 and asked[2] - asked[1] >= 0.4


async def test_socket_and_token_are_private_in_a_deep_folder(tmp_path):
    session = await EchoSession(tmp_path / ("d" * 80) / ("e" * 80)).start()
    for path in (session.paths.play_token, session.paths.play_socket, session.paths.channel):
        assert (path.stat().st_mode & 0o077) == 0
    require_plain_files(session.paths)  # the socket does not keep the job from being stopped
    async with serving(session.home, session.paths) as client, join(client) as socket:
        await socket.send_bytes(hello(session.token))
        assert (await receive(socket))["t"] == "pong"
