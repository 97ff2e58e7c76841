"""``echelon play`` as processes: the seat survives the server, the recording survives the session."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgpack
import numpy as np
import psutil
import pytest

from echelon import play_protocol as play
from echelon.arena.verify import verify
from echelon.jobs import play_worker
from echelon.jobs.launch import wait_until
from echelon.jobs.play_worker import session_slot
from echelon.replay.reader import Replay
from echelon.runs import RunPaths, list_runs, read_json

WAIT_S = 120.0


@contextlib.contextmanager
def server(home: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a server's process and the address that it prints; it is interrupted at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "echelon_cli.main", *arguments, "--json"],
        env={**os.environ, "ECHELON_HOME": str(home), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_S)
        if process.stdout is not None:
            process.stdout.close()


def kill_worker(run: RunPaths) -> None:
    psutil.Process((read_json(run.processes) or {})["worker"]["pid"]).kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fly(url: str, *, key: str = "", frames: int = 20) -> tuple[dict[str, Any], int]:
    """Take a seat and walk for some frames; return the message with which the match began, and the last tick."""

    async def go() -> tuple[dict[str, Any], int]:
        base, token = url.split("#play=")
        headers = {"Origin": base.rstrip("/")}
        async with aiohttp.ClientSession() as http, http.ws_connect(base + "api/v1/play", headers=headers) as channel:
            await channel.send_bytes(play.pack(play.Hello(version=play.PLAY_VERSION, token=token)))
            begin, tick, seen, asked = {}, 0, 0, False
            while seen < frames:
                message = msgpack.unpackb((await channel.receive(timeout=WAIT_S)).data)
                if message["t"] == "state" and message["phase"] == "playing" and not asked:
                    asked = True
                    await channel.send_bytes(play.pack(play.Take(key=key)))
                elif message["t"] == "begin":
                    begin = message
                elif message["t"] == "frame":
                    seen, tick = seen + 1, message["tick"]
                    action = np.zeros(18, np.int8)
                    action[0] = seen
                    await channel.send_bytes(play.pack(play.Input(seq=seen, action=action.tobytes())))
                assert message["t"] != "error", message
            return begin, tick

    return asyncio.run(go())


@pytest.mark.long
def test_seat_survives_the_server_the_recording_its_session_and_a_killed_session_is_replaced(tmp_path):
    port = str(free_port())
    with server(tmp_path, "play", "trivial", "--size", "40", "--port", port) as (first, url):
        begin, tick = fly(url)
        os.kill(first.pid, signal.SIGKILL)
        first.wait(WAIT_S)
    (session,) = list_runs(tmp_path)
    with server(tmp_path, "serve", "--play", "--port", port) as (process, other):
        base = other.split("#")[0]
        again, later = fly(base + url[url.index("#") :], key=begin["key"], frames=60)
        assert again["mech"] == begin["mech"] and again["tick"] >= tick
        (own,) = (run for run in list_runs(tmp_path) if run.id != session.id)
        kill_worker(session)
        status = wait_until(session, lambda status: not status.is_alive, timeout_s=WAIT_S)
        assert status is not None and status.state == "crashed"
        assert not list(session.replays.glob("*.ecr"))
        kill_worker(own)
        assert process.stdout is not None
        replaced = json.loads(process.stdout.readline())["url"]
        assert replaced.split("#")[0] == base and replaced != other
        (second,) = (run for run in list_runs(tmp_path) if run.id not in (session.id, own.id))
        assert second.play_socket.exists() and not own.play_socket.exists()
        (recording,) = session.replays.glob("*.ecr")  # the next session lists what a killed one left
        with Replay(recording) as replay:
            assert later - 80 <= replay.ticks <= later + 60 and not replay.complete
        assert verify(recording).ok
    for run in list_runs(tmp_path):
        ended = wait_until(run, lambda status: not status.is_alive, timeout_s=WAIT_S)
        assert ended is not None and (run != second or ended.state in ("stopped", "completed"))


def test_sessions_of_a_runs_folder_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(play_worker, "MAX_SESSIONS", 2)
    paths = [RunPaths(tmp_path / f"20260101-00000{n}-play-some-session") for n in range(3)]
    with session_slot(paths[0]):
        with session_slot(paths[1]), pytest.raises(ValueError, match="2 play sessions run already, expected fewer"):
            with session_slot(paths[2]):
                pytest.fail("a third session runs")
        with session_slot(paths[2]):
            pass  # a place is free again
