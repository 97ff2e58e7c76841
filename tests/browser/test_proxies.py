"""The viewer in Chromium through proxies: the blocks of the page on serving, below a prefix, and refusals in words."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType, web

from tests.browser.conftest import GOLDEN, MATCH, WAIT_S, on_thread, served_match, serving
from tests.browser.player import FIRST_PICTURE
from tests.docs.pages import ROOT, blocks

pytestmark = pytest.mark.long

NAME = "echelon.localhost"
"""Stands for the name of the proxy: browsers take it for this machine."""
TOKEN = "0123456789abcdef"
BLOCKS = {block.language: block.text for block in blocks(ROOT / "docs" / "howto" / "serve.md")}
CONFIGURATIONS = {
    "nginx": "daemon off; pid nginx.pid; error_log stderr; events {{}} http {{ access_log off; "
    "client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e; {block} }}",
    "caddy": "{{\n admin off\n auto_https off\n}}\n{block}\n",
}
COMMANDS = {
    "nginx": ("nginx", "-e", "stderr", "-p", ".", "-c", "file"),
    "caddy": ("caddy", "run", "--adapter", "caddyfile", "--config", "file"),
}


@contextmanager
def installed_proxy(kind: str, server: int, folder: Path) -> Iterator[int]:
    """Run nginx or Caddy with its block of the documents, with other names and ports; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    changes = {
        "nginx": {"listen 443 ssl;": f"listen {port};", "echelon.example": NAME, ":8400": f":{server}"},
        "caddy": {"echelon.example": f"http://{NAME}:{port}", ":8400": f":{server}"},
    }
    block = BLOCKS[kind]
    for before, after in changes[kind].items():
        assert before in block
        block = block.replace(before, after)
    (folder / "file").write_text(CONFIGURATIONS[kind].format(block=block), encoding="utf-8")
    environment = {"HOME": str(folder), "PATH": "/usr/sbin:/usr/local/bin:/usr/bin:/bin"}
    process = subprocess.Popen(COMMANDS[kind], cwd=folder, env=environment, stderr=(folder / "log").open("w"))
    try:
        deadline = time.monotonic() + WAIT_S
        while True:
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text(encoding="utf-8")
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(WAIT_S)


@asynccontextmanager
async def small_proxy(server: str, prefix: str = "/echelon", keep: tuple[str, ...] = ()) -> AsyncIterator[str]:
    """Run a proxy that names its upstream as Host and removes a prefix, as nginx does; yields its port."""
    hop = {"host", "connection", "upgrade", "keep-alive", "transfer-encoding", "content-length", "sec-websocket-key"}

    async def forward(request: web.Request) -> web.StreamResponse:
        url = server + str(request.rel_url).removeprefix(prefix)
        dropped = (hop | {"sec-websocket-version", "sec-websocket-extensions"}) - set(keep)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in dropped}
        if request.headers.get("Upgrade", "").lower() != "websocket":
            async with session.get(url, headers=headers, allow_redirects=False) as reply:
                kept = {name: value for name, value in reply.headers.items() if name.lower() not in hop}
                return web.Response(body=await reply.read(), status=reply.status, headers=kept)
        async with session.ws_connect(url, headers=headers) as upstream:
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in upstream:
                if message.type is WSMsgType.TEXT:
                    await socket.send_str(message.data)
            return socket

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    async with ClientSession(auto_decompress=False) as session:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield str(runner.addresses[0][1])
        await runner.cleanup()


@pytest.mark.parametrize("kind", ["nginx", "caddy", "small"])
def test_viewer_plays_and_follows_live_below_a_prefix_of_a_proxy(kind, new_page, home, tmp_path):
    if kind in COMMANDS and shutil.which(kind, path="/usr/sbin:/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip(f"{kind} is not installed")
    with ExitStack() as stack:
        server = stack.enter_context(on_thread(serving(home, token=TOKEN, extra_hosts=(NAME,))))
        if kind == "small":
            port = stack.enter_context(on_thread(small_proxy(server)))
        else:
            port = str(stack.enter_context(installed_proxy(kind, int(server.rpartition(":")[2]), tmp_path)))
        page = new_page()
        refused: list[Any] = []
        page.on("response", lambda reply: reply.status >= 400 and refused.append((reply.status, reply.url)))
        page.goto(f"http://{NAME}:{port}/echelon/?token={TOKEN}&quality=low#match={MATCH}")
        page.wait_for_function(FIRST_PICTURE)
        page.wait_for_function("() => echelon.state.tick > 2 && echelon.state.connected")
        page.goto(f"http://{NAME}:{port}/echelon/")
        page.wait_for_function("() => echelon.state.connected && echelon.state.list.total > 0")
        copy = tmp_path / "later.ecr"
        shutil.copy(GOLDEN, copy)
        with served_match(home, copy) as ident:  # only a notice tells an idle page
            page.locator(f'a.card[href="#match={ident}"]').wait_for()
        cookies = page.context.cookies()
    assert [cookie["path"] for cookie in cookies] == ["/echelon"] and refused == []


def test_proxy_that_the_server_does_not_know_is_named_in_the_page(new_page, home):
    page = new_page()
    with ExitStack() as stack:
        server = stack.enter_context(on_thread(serving(home)))
        port = stack.enter_context(on_thread(small_proxy(server)))
        page.goto(f"http://{NAME}:{port}/echelon/?quality=low#match={MATCH}")
        page.wait_for_function(FIRST_PICTURE)
        page.get_by_role("alert").filter(has_text=f"--allow-host '{NAME}'").wait_for(state="visible")
        other = stack.enter_context(on_thread(small_proxy(server, keep=("host",))))
        page.goto(f"http://{NAME}:{other}/echelon/")
        text = page.locator("body").inner_text()
    assert re.search(rf"Unknown host name\s.*--allow-host '{NAME}'", text, re.DOTALL)
