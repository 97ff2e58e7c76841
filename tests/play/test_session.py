"""Sessions: seats, what hostile clients send, lost and returning ones, take-over and continuations."""

import asyncio
import errno
import os
import threading
import time
from pathlib import Path

import msgpack
import pytest

from echelon import play_protocol as play
from echelon.actions import ORDER_NAMES
from echelon.arena import branch, coach
from echelon.arena.verify import verify
from echelon.play import what_if
from echelon.play_channel import LENGTH, connect, packet
from echelon.replay.codec import RecordWriter
from echelon.replay.extra_records import read_orders
from echelon.replay.figures import FIGURES, figures_at
from echelon.replay.reader import Replay
from tests.play.clients import ACTIONS, SocketClient, join, running_session, seated

GARBAGE = [
    b"\xc1", b"\x80", b"\xff" * 200, msgpack.packb({"t": "hello"}), msgpack.packb({"t": "frame"}), b"\x93" * 3000,
    msgpack.packb({"t": "start", "tick": -1}), msgpack.packb({"t": "take", "mech": None}), os.urandom(4096),
]  # fmt: skip


async def finished_match(session) -> tuple[play.Source, SocketClient]:
    client, _ = await seated(session)
    client.push()
    ended = await client.wait_for("ended")
    return play.Source(**ended["source"]), client


def recorded(session, source: play.Source) -> Path:
    return session.paths.root.parent / source.run / "replays" / source.file


async def test_flown_match_is_recorded_and_taken_over_at_a_moment(tmp_path):
    async with running_session(tmp_path) as session:
        source, client = await finished_match(session)
        flown = recorded(session, source)
        assert verify(flown).ok and not list(session.paths.playing.iterdir())
        client.send(play.Start(source=source, tick=101, seat="R2", pilots={"B1": "trivial"}))
        begin = await client.wait_for("begin")
        assert (begin["tick"], begin["header"]["roster"][begin["mech"]]["name"]) == (100, "R2")
        client.push(seq=7)
        frame = await client.wait_for("frame", seq=7)
        assert frame["tick"] > 100
        # the present moment of the match in play
        client.send(play.Start(tick=None, seat="B2", pilots={"red": "still"}))
        assert (await client.wait_for("begin"))["mech"] == 1
        client.send(play.Start(tick=None, seat="B3"))  # where the red team stands still
        assert (await client.wait_for("begin"))["mech"] == 2
        branch = session.paths.replays / "played-002.ecr"
        with Replay(branch) as replay:
            parent = replay.header["parent"]
            assert (parent["file"], parent["tick"]) == (source.file, 100)
            assert parent["set"] == {"B1": "trivial", "R2": "human"}
            teams = replay.header["teams"]
            assert [team["name"] for team in teams] == ["trivial", "human and trivial"]
            assert {team["level"] for team in teams} == {"heuristic:trivial"}
    for path in session.paths.replays.glob("*.ecr"):
        assert verify(path).ok, path.name


async def test_pilot_orders_the_mates_of_the_pack(tmp_path):
    async with running_session(tmp_path) as session:
        client, begin = await seated(session)
        names = [row["name"] for row in begin["header"]["roster"]]
        mates = [m for m in range(5) if m not in session._match.seats]
        client.send(play.OrderMates(order="hold"))
        client.send(play.OrderMates(order="screen", mechs=[names[mates[-1]]]))
        client.push(seq=3)
        frame = await client.wait_for("frame", seq=3)
        while not any(frame["orders"]):
            frame = await client.wait_for("frame")
        orders = [ORDER_NAMES[order] for order in frame["orders"]]
        assert orders == ["none" if m not in mates else "screen" if m == mates[-1] else "hold" for m in range(5)]
        for order, words in (("dance", "does not exist"), ("focus", "has no target")):
            client.send(play.OrderMates(order=order))
            assert words in (await client.wait_for("error"))["text"]
        client.send(play.OrderMates(order="hold", mechs=[names[5]]))
        assert "has no team mate" in (await client.wait_for("error"))["text"]
    assert play.ORDERS == ORDER_NAMES


async def test_commander_orders_its_team_and_flies_no_mech(tmp_path):
    options = {"command": True, "team": "red", "opponent": "medium", "packs": 2, "size": 60, "seconds": 30.0}
    async with running_session(tmp_path, options) as session:
        client, begin = await seated(session)
        names = [row["name"] for row in begin["header"]["roster"]]
        assert begin["command"] and begin["mech"] == 10 and names[10] == "R1"
        client.push(seq=1)
        await client.wait_for("frame")
        client.send(play.Pace(paused=True))
        await client.wait_for("state", paused=True)
        for order, mechs, target in (("advance", [], ""), ("screen", ["R1", "R2"], "R2"), ("retreat", ["R10"], "")):
            client.send(play.OrderMates(order=order, mechs=mechs, target=target))
            frame = await client.wait_for("frame")  # a paused match shows them at once
        given = ["screen", *["advance"] * 8, "retreat"]
        assert [ORDER_NAMES[order] for order in frame["orders"]] == given
        assert frame["named"] == [11, *[-1] * 9]
        refused = (("focus", "R3", "X9"), ("focus", "R3", "R1"), ("screen", "R1", "R1"), ("hold", "B1", ""))
        for order, mech, target in refused:
            client.send(play.OrderMates(order=order, mechs=[mech], target=target))
            assert "expected" in (await client.wait_for("error"))["text"]
        client.send(play.Watch())
        assert (await client.wait_for("error"))["re"] == "watch"
        client.send(play.Pace(paused=False, speed=8.0))
        tick = frame["tick"]
        while frame["tick"] <= tick + 5:
            frame = await client.wait_for("frame")
        orders = session._match.engine.batch.row("order_kind", 0)[10:]
        assert [ORDER_NAMES[order] for order in orders] == given and frame["orders"] == orders.tolist()
        ended = await client.wait_for("ended")
        assert ended["winner"] and ended["figures"]["damage"] > 0
        client.send(play.Start(source=play.Source(**ended["source"]), tick=0, seat="R1"))
        assert (await client.wait_for("begin"))["command"]
        flown = recorded(session, play.Source(**ended["source"]))
        assert verify(flown).ok
        with Replay(flown) as replay:
            assert [team["name"] for team in replay.header["teams"]] == ["medium", "medium"]
            assert ended["figures"]["damage"] == pytest.approx(figures_at(replay)["damage"][10:].sum())
            assert {int(mech) for mech in read_orders(replay)[:, 1]} == set(range(10, 20))


async def test_commander_is_refused_a_policy_that_observes_no_orders(tmp_path):
    options = {"command": True, "mates": "champion"}
    async with running_session(tmp_path, options) as session:
        client = await join(session)
        note = (await client.wait_for("state", phase="idle"))["note"]
        while not note:
            note = (await client.wait_for("state"))["note"]
        assert "observes no orders" in note


@pytest.mark.long
@pytest.mark.parametrize("written", [0, 3_000], ids=["at-once", "later"])
async def test_full_disk_ends_the_recording_and_not_the_match(tmp_path, monkeypatch, written):
    write = RecordWriter._write

    def refuse(writer: RecordWriter, data: bytes) -> None:
        if writer.offset + len(data) > written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(writer, data)

    monkeypatch.setattr(RecordWriter, "_write", refuse)
    async with running_session(tmp_path) as session:
        client, _ = await seated(session)
        client.push()
        ended = await client.wait_for("ended")
        assert ended["winner"]
        (problem,) = [message for message in client.received if message["t"] == "error"]
        assert problem["code"] == "recording" and "no space left" in problem["text"]
        assert not list(session.paths.playing.iterdir())
        files = [path.name for path in session.paths.replays.iterdir()]
        assert files == ([ended["source"]["file"]] if written else [])
        if written:
            with Replay(session.paths.replays / files[0]) as part:
                assert part.chunks and part.outcome is None
        client.send(play.Start(source=play.Source(**ended["source"]), tick=0, seat="B1"))
        assert (await client.next())["t"] in ("error", "state")


@pytest.mark.long
async def test_garbage_is_answered_and_the_match_goes_on(tmp_path):
    async with running_session(tmp_path) as session:
        client, _ = await seated(session)
        stranger = SocketClient(*await connect(session.paths))
        for data in GARBAGE:
            stranger.send_bytes(data)
            assert (await stranger.wait_for("error"))["code"] in ("message", "session")
            client.send_bytes(data)
            problem = await client.wait_for("error")
            assert problem["code"] in ("message", "seat") and "\n" not in problem["text"]
        client.send(play.Input(seq=1, action=bytes(ACTIONS - 1)))
        assert (await client.wait_for("error"))["code"] == "message"
        stranger.writer.write(LENGTH.pack(2**31))  # a packet that is longer than any
        for data in (LENGTH.pack(100), b"", packet(b"\xc1") * 50):
            _, writer = await connect(session.paths)
            writer.write(data)
            writer.close()
        tick = (await client.wait_for("frame"))["tick"]
        while (await client.wait_for("frame"))["tick"] <= tick + 20:
            pass


@pytest.mark.long
async def test_seat_has_one_pilot_and_a_lost_one_returns_with_its_key(tmp_path):
    async with running_session(tmp_path, {"seconds": 60.0, "speed": 2.0}, hold_s=1.5) as session:
        client, begin = await seated(session)
        other = await join(session)
        assert (await other.answer(play.Take()))["code"] == "seat"
        assert (await other.answer(play.Take(mech="B1")))["code"] == "seat"
        assert (await other.answer(play.Take(key="x" * 16)))["code"] == "seat"
        assert (await other.answer(play.Input(seq=1, action=bytes(ACTIONS))))["code"] == "seat"
        assert (await other.answer(play.Pace(paused=True)))["code"] == "busy"
        assert (await other.answer(play.Start()))["code"] == "busy"
        client.push(seq=3)
        await client.wait_for("frame", seq=3)
        tab = await join(session)
        tab.send(play.Take(key=begin["key"]))
        assert (await tab.wait_for("begin"))["mech"] == begin["mech"]
        assert "another tab" in (await client.wait_for("error"))["text"]
        tab.push(seq=4)
        await tab.wait_for("frame", seq=4)
        tab.writer.close()
        while [seat["state"] for seat in (await other.wait_for("state"))["seats"]] != ["lost"]:
            pass
        assert not session._seats[0].action.any()  # the mech holds still
        assert (await other.answer(play.Take()))["code"] == "seat"  # reserved
        again = await join(session)
        again.send(play.Take(key=begin["key"]))
        assert (await again.wait_for("begin"))["tick"] > begin["tick"]
        again.writer.close()
        await other.wait_for("state", seats=[])  # no longer reserved
        assert (await other.answer(play.Take(key=begin["key"])))["code"] == "seat"
        other.send(play.Take(mech="B1"))
        await other.wait_for("begin")


@pytest.mark.parametrize("picture_s", [60.0, 0.5], ids=["inputs", "time"])
async def test_clock_starts_with_the_first_input_of_every_pilot_or_after_a_time(tmp_path, picture_s):
    async with running_session(tmp_path, {"seats": 2}, picture_s=picture_s) as session:
        one, _ = await seated(session, "B1")
        two, begin = await seated(session, "R1")
        assert begin["tick"] == 0
        await two.wait_for("state", note="waiting for the first picture")
        if picture_s > 1.0:
            one.push()
            await asyncio.sleep(0.3)
            two.send(play.Ping(n=1))
            assert (await two.wait_for("pong"))["tick"] == 0
            two.push()
        await two.wait_for("state", note="")
        while (await two.wait_for("frame"))["tick"] < 10:
            pass


@pytest.mark.long
async def test_slow_client_gets_the_newest_frame_and_delays_no_other(tmp_path):
    async with running_session(tmp_path, {"seats": 2}) as session:
        client, _ = await seated(session, "B1")
        slow, _ = await seated(session, "R1")  # from now on it reads nothing
        slow.writer.write(packet(b""))
        await client.wait_for("ended")
        ticks = [message["tick"] for message in client.received if message["t"] == "frame"]
        assert ticks == sorted(ticks)
        assert len(ticks) > 20
        before = len(slow.received)
        await slow.wait_for("ended")
        frames = [message for message in slow.received[before:] if message["t"] == "frame"]
        # those on their way when the seat was taken, and the newest that waited
        assert len(frames) <= 5 < len(ticks), [frame["tick"] for frame in frames]


@pytest.mark.long
async def test_names_are_of_the_catalogue_and_never_paths(tmp_path):
    async with running_session(tmp_path) as session:
        source, client = await finished_match(session)
        outside = tmp_path / "outside.ecr"
        outside.write_bytes(recorded(session, source).read_bytes())
        (session.paths.replays / "link.ecr").symlink_to(outside)
        for run, file in (
            (source.run, "../../outside.ecr"), ("..", "outside.ecr"), (str(tmp_path), "outside.ecr"),
            (source.run, "link.ecr"), (source.run, ""), ("", "outside.ecr"), (source.run, "played-999.ecr"),
        ):  # fmt: skip
            problem = await client.answer(play.Start(source=play.Source(run=run, file=file), tick=10, seat="X9"))
            assert problem["code"] == "match", (run, file)
        for pilot in ("/etc/passwd", str(tmp_path), "../champion", "nobody"):
            problem = await client.answer(play.Start(source=source, tick=10, pilots={"red": pilot}))
            assert problem["code"] == "match" and "does not exist" in problem["text"]
        problem = await client.answer(play.Start(source=source, tick=10, changes={"laser.power": 1.0}))
        assert "laser.power" in problem["text"]


@pytest.mark.long
async def test_continuations_report_progress_and_result(tmp_path, monkeypatch):
    async with running_session(tmp_path) as session:
        source, client = await finished_match(session)
        request = play.WhatIf(id=5, source=source, tick=100, runs=5, pilots={"B1": "trivial"})
        client.send(request)
        result = await client.wait_for("what_if", id=5)
        assert sum(result["endings"].values()) == 5 and 0.0 <= result["blue"]["low"] <= result["blue"]["high"]
        monkeypatch.setattr(branch, "WAVE_BYTES", 1)  # one by one
        client.send(request)
        assert (await client.wait_for("what_if", id=5)) == result
        for found in result["replays"].values():
            with Replay(recorded(session, play.Source(**found))) as replay:
                assert replay.header["parent"]["file"] == source.file


async def test_tutorial_has_a_match_in_which_no_other_mech_moves(tmp_path):
    async with running_session(tmp_path, {"opponent": "easy", "tutorial": True, "seconds": 3.0}) as session:
        client, begin = await seated(session)
        assert begin["tutorial"] and begin["opponent"] == "easy"
        client.push()
        while (await client.wait_for("frame"))["tick"] < 70:  # past the length of a match
            pass
        client.send(play.Start(opponent="easy"))
        left = await client.wait_for("ended")
        begin = await client.wait_for("begin")
        assert (left["winner"], left["figures"]) == ("", {}) and not begin["tutorial"]
        client.push(seq=2)
        ended = await client.wait_for("ended")
        assert ended["winner"] and set(ended["figures"]) == set(FIGURES)
        client.send(play.Start(tick=0, seat="B1"))
        begin = await client.wait_for("begin")
        assert (begin["tick"], begin["opponent"], begin["tutorial"]) == (0, "easy", False)
        client.send(play.Start(opponent="still"))
        begin = await client.wait_for("begin")
        assert begin["tutorial"] and begin["opponent"] == "easy"
    path = session.paths.replays / "played-001.ecr"
    with Replay(path) as replay:
        columns = replay.chunk(len(replay.chunks) - 1).frames
        moved = [columns["x"][-1] - replay.chunk(0).frames["x"][0], columns["y"][-1] - replay.chunk(0).frames["y"][0]]
        assert [bool(m) for m in (moved[0] != 0) | (moved[1] != 0)] == [True] + [False] * 9
        assert [team["name"] for team in replay.header["teams"]] == ["human and still", "still"]


@pytest.mark.long
async def test_continuations_are_cancelled_and_refused_during_a_match(tmp_path):
    async with running_session(tmp_path) as session:
        source, client = await finished_match(session)
        client.send(play.WhatIf(id=1, source=source, tick=50, runs=512, pilots={"B1": "trivial"}))
        assert (await client.answer(play.WhatIf(id=2, source=source, tick=50)))["code"] == "busy"
        client.send(play.Cancel(id=1))
        problem = await client.wait_for("error", id=1)
        assert "cancelled" in problem["text"]
        client.send(play.Start(source=source, tick=50))
        await client.wait_for("begin")
        assert (await client.answer(play.WhatIf(id=3, source=source, tick=50)))["code"] == "busy"


@pytest.mark.long
async def test_mistakes_of_a_human_are_stored_and_a_cancelled_request_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(coach, "SCREENED", 16)
    monkeypatch.setattr(coach, "DECIDED", 16)
    async with running_session(tmp_path) as session:
        source, client = await finished_match(session)
        path, before = recorded(session, source), recorded(session, source).read_bytes()
        client.send(play.Coach(id=1, source=source))
        assert (await client.answer(play.Coach(id=2, source=source)))["code"] == "busy"
        client.send(play.Cancel(id=1))
        assert "cancelled" in (await client.wait_for("error", id=1))["text"]
        assert path.read_bytes() == before and [file.name for file in path.parent.glob("*.ecr")] == [source.file]
        client.send(play.Coach(id=3, source=source))
        answer = await client.wait_for("coached", id=3)
        with Replay(path) as replay:
            (coached,) = replay.timeline()["coached"]
            assert answer["of"] == coached["of"] == "B1" and answer["mistakes"] == len(coached["mistakes"])
        assert verify(path).ok
        assert "X9" in (await client.answer(play.Coach(id=4, source=source, who="X9")))["text"]


async def test_coach_at_work_is_cancelled_when_the_session_stops(tmp_path, monkeypatch):
    began, cancelled = threading.Event(), []

    def mistakes(request, path, catalogue, run, folder, on_progress):
        began.set()
        try:
            for done in range(500):
                on_progress(done, 500, "continuations")
                time.sleep(0.01)
        except what_if.Cancelled:
            cancelled.append(request.id)
            raise

    monkeypatch.setattr(what_if, "mistakes", mistakes)
    async with running_session(tmp_path, {"idle": True}) as session:
        monkeypatch.setattr(session.catalogue, "recording", lambda source: tmp_path)
        client = await join(session)
        client.send(play.Coach(id=1, source=play.Source(run="run", file="match.ecr")))
        await asyncio.to_thread(began.wait, 20.0)
    assert cancelled == [1]


async def test_session_ends_after_its_last_client(tmp_path):
    async with running_session(tmp_path, {"seconds": 600.0}, idle_s=0.5) as session:
        client, _ = await seated(session)
        keeper = await connect(session.paths)
        client.writer.close()
        with pytest.raises(OSError):
            while True:  # the session closes its listening socket when it ends
                await asyncio.sleep(0.1)
                await asyncio.open_unix_connection(session.paths.play_socket)
        keeper[1].close()
    assert [verify(path).ok for path in session.paths.replays.glob("*.ecr")] == [True]
