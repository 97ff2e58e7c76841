"""The server's side of a play session: tokens, origins, limits, and a session that is gone."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgpack
import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer

from echelon import play_protocol as play
from echelon.play_channel import ChannelError, listening_socket, packet, read_packet, write_token
from echelon.runs import RunPaths, require_plain_files
from echelon.server import play as gate
from echelon.server.app import make_app
from echelon.server.security import Access

WAIT_S = 20.0


class EchoSession:
    """A session that answers each message with a pong of its length, and sends a frame when asked for one."""

    def __init__(self, home: Path) -> None:
        self.paths = RunPaths(home / "20260101-000000-play-test-session")
        self.paths.root.mkdir(parents=True)
        self.paths.spec.write_text('{"kind": "play"}')
        self.token, self.received, self.asked = write_token(self.paths), [], 0
        self.joined = 0

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, sock=listening_socket(self.paths))

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


def with_gate(tmp_path: Path, work: Any, *, play_enabled: bool = True, **access: Any) -> EchoSession:
    """Run ``work(client, session, origin)`` with a server that plays, over a session."""

    async def go() -> EchoSession:
        session = EchoSession(tmp_path)
        await session.start()
        rules = Access(**{"host": "127.0.0.1", "port": 1, **access})
        server = TestServer(make_app(tmp_path, rules, play=session.paths if play_enabled else None))
        await server.start_server()
        object.__setattr__(rules, "port", server.port)
        async with TestClient(server) as client:
            await asyncio.wait_for(work(client, session, f"http://127.0.0.1:{server.port}"), WAIT_S)
        return session

    return asyncio.run(go())


async def receive(socket: Any) -> dict[str, Any]:
    message = await socket.receive()
    assert message.type is WSMsgType.BINARY, message
    return msgpack.unpackb(message.data)


def hello(token: str = "", version: int = play.PLAY_VERSION) -> bytes:
    return play.pack(play.Hello(version=version, token=token))


def join(client: TestClient, origin: str, **headers: str) -> Any:
    return client.ws_connect("/api/v1/play", headers={"Origin": origin, **headers})


def test_messages_pass_in_both_directions_without_the_token(tmp_path):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        async with join(client, origin) as socket:
            await socket.send_bytes(hello(session.token))
            assert (await receive(socket))["t"] == "pong"
            await socket.send_bytes(play.pack(play.Ping(n=1)))
            assert (await receive(socket))["t"] == "pong"

    session = with_gate(tmp_path, work)
    assert [message["t"] for message in session.received] == ["hello", "ping"]
    assert session.received[0]["token"] == "" and session.asked == 3


def test_token_in_the_cookie_admits(tmp_path):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        cookie = f"{gate.COOKIE.format(port=origin.rsplit(':', 1)[1])}={session.token}"
        async with join(client, origin, Cookie=cookie) as socket:
            await socket.send_bytes(hello())
            assert (await receive(socket))["t"] == "pong"

    with_gate(tmp_path, work)


def test_channels_without_a_token_keep_no_pilot_out(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "MAX_WAITING", 8)

    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        async with contextlib.AsyncExitStack() as opened:
            silent = [await opened.enter_async_context(join(client, origin)) for _ in range(30)]
            socket = await opened.enter_async_context(join(client, origin))
            await socket.send_bytes(hello(session.token))
            assert (await receive(socket))["t"] == "pong"
            silent += [await opened.enter_async_context(join(client, origin)) for _ in range(30)]
            await socket.send_bytes(play.pack(play.Ping(n=1)))
            assert (await receive(socket))["t"] == "pong", "an admitted channel gives way to none"
            # those that made room have been closed, the newest wait
            await asyncio.gather(*(each.receive() for each in silent[:-8]))
            assert [each.closed for each in silent[-8:]] == [False] * 8

    with_gate(tmp_path, work)


def test_channels_with_a_token_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "MAX_CLIENTS", 2)

    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        async with contextlib.AsyncExitStack() as opened:
            answers = []
            for _ in range(3):
                socket = await opened.enter_async_context(join(client, origin))
                await socket.send_bytes(hello(session.token))
                answers.append(await receive(socket))
            assert [answer["t"] for answer in answers] == ["pong", "pong", "error"]
            assert answers[2]["code"] == "busy"

    with_gate(tmp_path, work)


@pytest.mark.parametrize("token", ["", "x", "\0", "é" * 20, "A" * 128])
def test_wrong_token_closes_the_channel(tmp_path, token):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        async with join(client, origin) as socket:
            await socket.send_bytes(hello(token))
            assert (await receive(socket))["code"] == "token"
            assert (await socket.receive()).type is WSMsgType.CLOSE and socket.close_code == gate.CLOSE_TOKEN

    assert with_gate(tmp_path, work).received == []


def test_stolen_token_is_of_no_use_to_another_page_or_without_an_origin(tmp_path):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {}, {"Origin": origin, "Host": "evil"}):
            with pytest.raises(WSServerHandshakeError) as refused:
                await client.ws_connect(f"/api/v1/play?token={session.token}", headers=headers)
            assert refused.value.status in (403, 421)

    assert with_gate(tmp_path, work).received == []


def test_server_without_play_is_read_only(tmp_path):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        with pytest.raises(WSServerHandshakeError) as refused:
            await join(client, origin)
        assert refused.value.status == 404
        assert (await client.post("/api/v1/play")).status == 405

    with_gate(tmp_path, work, play_enabled=False)


@pytest.mark.parametrize(
    ("first", "code"),
    [(b"\xc1", "message"), (b"", "message"), (play.pack(play.Take()), "message"), (hello(version=99), "version"),
     (bytes(5000), "message")],
    ids=["garbage", "nothing", "take", "version", "long"],
)  # fmt: skip
def test_wrong_first_message_is_named(tmp_path, first, code):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        async with join(client, origin) as socket:
            await socket.send_bytes(first)
            assert (await receive(socket))["code"] == code
            assert (await socket.receive()).type is WSMsgType.CLOSE

    assert with_gate(tmp_path, work).received == []


def test_long_text_and_many_messages_are_refused_and_the_channel_lives(tmp_path):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        async with join(client, origin) as socket:
            await socket.send_bytes(hello(session.token))
            await receive(socket)
            await socket.send_bytes(bytes(play.MAX_CLIENT_BYTES + 1))
            assert "at most 4096" in (await receive(socket))["text"]
            await socket.send_str("take")
            assert (await receive(socket))["code"] == "message"
            for n in range(2 * play.MAX_CLIENT_RATE):
                await socket.send_bytes(play.pack(play.Ping(n=n)))
            answers = []
            while not answers or answers[-1].get("code") != "rate":
                answers.append(await receive(socket))
            await asyncio.sleep(0.3)
            await socket.send_bytes(play.pack(play.Ping(n=1)))
            while (await receive(socket))["t"] != "pong":
                pass

    session = with_gate(tmp_path, work)
    assert len(session.received) <= play.MAX_CLIENT_RATE + 30


def test_flood_closes_the_channel(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "MAX_REFUSED", 50)

    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        async with join(client, origin) as socket:
            await socket.send_bytes(hello(session.token))
            with contextlib.suppress(ConnectionError):
                for n in range(400):
                    await socket.send_bytes(play.pack(play.Ping(n=n)))
            while (await socket.receive()).type is WSMsgType.BINARY:
                pass
            assert socket.close_code == gate.CLOSE_FLOOD

    assert len(with_gate(tmp_path, work).received) < 100


def test_session_that_is_gone_is_named(tmp_path):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        session._server.close()
        async with join(client, origin) as socket:
            await socket.send_bytes(hello(session.token))
            assert (await receive(socket))["code"] == "session"
            assert (await socket.receive()).type is WSMsgType.CLOSE and socket.close_code == gate.CLOSE_SESSION

    with_gate(tmp_path, work)


def test_no_session_is_named_apart_from_a_wrong_token(tmp_path):
    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        session._server.close()
        session.paths.play_socket.unlink()
        async with join(client, origin) as socket:
            await socket.send_bytes(hello(session.token))
            assert "no play session runs" in (await receive(socket))["text"]
            assert (await socket.receive()).type is WSMsgType.CLOSE and socket.close_code == gate.CLOSE_SESSION

    with_gate(tmp_path, work)


def test_crashed_session_is_replaced_at_a_bounded_rate(tmp_path, monkeypatch):
    for name, value in (("RETRY_S", 0.01), ("REVIVE_S", 0.1)):
        monkeypatch.setattr(gate, name, value)
    asked: list[float] = []

    async def go() -> RunPaths:
        session = EchoSession(tmp_path / "second")
        await session.start()
        gone, clock = RunPaths(tmp_path / "first"), asyncio.get_running_loop().time

        def revive(paths: RunPaths) -> RunPaths | None:
            assert paths.root == gone.root
            asked.append(clock())
            if len(asked) < 3:
                raise ValueError("2 play sessions run already")
            return session.paths

        keeper = gate.PlayGate(tmp_path)
        keeper.keep(gone, revive)
        while not session.joined:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        await keeper.stop()
        return session.paths

    asyncio.run(asyncio.wait_for(go(), WAIT_S))
    assert len(asked) == 3 and asked[1] - asked[0] >= 0.2 and asked[2] - asked[1] >= 0.4


def test_socket_and_token_are_private_in_a_deep_folder(tmp_path):
    deep = tmp_path / ("d" * 80) / ("e" * 80)

    async def work(client: TestClient, session: EchoSession, origin: str) -> None:
        assert (session.paths.play_token.stat().st_mode & 0o077) == 0
        assert (session.paths.play_socket.stat().st_mode & 0o077) == 0
        assert (session.paths.channel.stat().st_mode & 0o077) == 0
        require_plain_files(session.paths)  # the socket does not keep the job from being stopped
        async with join(client, origin) as socket:
            await socket.send_bytes(hello(session.token))
            assert (await receive(socket))["t"] == "pong"

    with_gate(deep, work)
