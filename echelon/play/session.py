"""A play session: one match with human pilots at a time, served to clients over the session's local socket.

The event loop plays a tick when it is due and sends each pilot its frame; loading a match and continuations run on one
thread beside it. A message that does not fit is answered by a ``Problem``, whatever it contains; the session goes on.
"""

import asyncio
import contextlib
import logging
import secrets
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from echelon import play_protocol as protocol
from echelon.agents.heuristic import SKILLS
from echelon.config.seeds import MAX_SEED
from echelon.files import error_text
from echelon.play import what_if
from echelon.play.catalogue import Catalogue
from echelon.play.clients import Client, ClientPace, Refused, Seat
from echelon.play.config import FIRST_LEVEL, PlayConfig
from echelon.play.loading import figures_of, first_match, moment_of, opponent_of
from echelon.play.match import PlayedMatch, seat_header
from echelon.play_channel import ChannelError, listening_socket, read_packet
from echelon.replay.match_text import STILL, mechs_by_name
from echelon.replay.schema import SUFFIX
from echelon.replay.writer import world_payload
from echelon.runs import RunPaths
from echelon.sim.overrides import override_names
from echelon.version import SIM_VERSION

LOG = logging.getLogger(__name__)
IDLE_S = 60.0
"""Time without a client after which a session ends [s]."""
POLL_S = 0.05
"""Time between checks while no match is played [s]."""
CHECK_S = 0.5
"""Time between checks of stop requests and of lost seats [s]."""
PICTURE_S = 10.0
"""Longest time that a match waits for the first picture of its pilots [s]."""
WAITING, DRAWING = "waiting for pilots", "waiting for the first picture"
"""Notes of a match whose clock stands until every seat is taken, and until every pilot has sent an input."""
WORLD_LEVEL = 1
"""Compression level of the map at the beginning of a match, which the pilot waits for."""


class PlaySession:
    """One session; ``run`` serves until it is idle or told to stop."""

    def __init__(
        self,
        paths: RunPaths,
        config: PlayConfig,
        *,
        should_stop: Callable[[], object] = lambda: False,
        on_match: Callable[[PlayedMatch, protocol.Ended], object] = lambda match, ended: None,
        idle_s: float = IDLE_S,
        hold_s: float = protocol.SEAT_HOLD_S,
        picture_s: float = PICTURE_S,
    ) -> None:
        self.paths, self.config = paths, config
        self.catalogue = Catalogue(paths.root.parent)
        self._should_stop, self._on_match = should_stop, on_match
        self._idle_s, self._hold_s, self._picture_s = idle_s, hold_s, picture_s
        self._seated_at = 0.0  # time at which the last seat of the match was taken
        self._clients: set[Client] = set()
        self._seats: dict[int, Seat] = {}
        self._match: PlayedMatch | None = None
        self._is_tutorial, self._opponent, self._matches = config.tutorial, "", 0
        self._last = protocol.Source()
        """The recording of the match that ended last."""
        self._pace = ClientPace(speed=config.speed)
        self._phase, self._note = "idle", ""
        self._asked, self._had_client = 0.0, False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._what_if: int | None = None
        self._cancelled, self._has_ended = set[int](), False
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[type[protocol.Message], Callable[[Client, Any], Awaitable[None]]] = {
            protocol.Hello: self._hello,
            protocol.Take: self._take,
            protocol.Leave: self._leave,
            protocol.Input: self._input,
            protocol.Watch: self._watch,
            protocol.OrderMates: self._order,
            protocol.Pace: self._set_pace,
            protocol.Start: self._start,
            protocol.WhatIf: self._ask,
            protocol.Coach: self._ask,
            protocol.Cancel: self._cancel,
            protocol.Ping: self._pong,
        }

    async def run(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve until the session is idle for a minute or told to stop; the recording is closed in any case."""
        self._asked = self._clock()
        for folder in (self.paths.playing, self.paths.replays):  # a disk that fills up later ends no match
            folder.mkdir(exist_ok=True)
        server = await asyncio.start_unix_server(self._serve, sock=listening_socket(self.paths))
        ready()
        try:
            if not self.config.idle:
                self._spawn(self._begin_first())
            checked = 0.0
            while True:
                if (now := self._clock()) - checked >= CHECK_S:
                    checked = now
                    if self._should_stop() or self._is_idle(now):
                        break
                    self._free_lost_seats(now)
                if self._is_running():
                    await self._wait_for_tick()
                    self._tick()
                else:
                    await asyncio.sleep(POLL_S)
                    self._start_clock()
        finally:
            server.close()
            self._has_ended = True
            for task in self._tasks:
                task.cancel()
            await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
            self._close_match()
            for client in list(self._clients):
                client.writer.close()
            self.paths.play_socket.unlink(missing_ok=True)

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()

    def _is_idle(self, now: float) -> bool:
        """Whether no client has been there for a minute, or none but the server after the last one left."""
        known = any(client.is_known for client in self._clients)
        waits = bool(self._clients) and (self.config.idle or not self._had_client)
        if known or waits:
            self._asked = now
        return now - self._asked > self._idle_s

    # clients

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(writer)
        self._clients.add(client)
        try:
            while True:
                data = await read_packet(reader, protocol.MAX_CLIENT_BYTES)
                if data:
                    await self._receive(client, data)
                else:
                    client.wants_frame = True
                    self._send_frame(client)
        except ChannelError:
            pass
        finally:
            self._clients.discard(client)
            self._lose(client)
            writer.close()

    async def _receive(self, client: Client, data: bytes) -> None:
        kind, ident = "", -1
        try:
            message = protocol.parse_client(data)
            kind, ident = message.model_dump()["t"], getattr(message, "id", -1)
            if not client.is_known and not isinstance(message, protocol.Hello):
                raise Refused("session", "the first message is of another type, expected hello")
            await self._handlers[type(message)](client, message)
        except protocol.MessageError as error:
            self._refuse(client, "message", str(error), error.kind)
        except Refused as error:
            self._refuse(client, error.code, str(error), kind, ident)
        except Exception:
            LOG.exception("message %r failed", kind)
            self._refuse(client, "session", "the request failed; see the log of the session", kind, ident)

    def _refuse(self, client: Client, code: Any, text: str, kind: str = "", ident: int = -1) -> None:
        client.send(protocol.Problem(code=code, text=" ".join(text.split())[:400], re=kind, id=ident))

    def _send_state(self) -> None:
        for client in self._clients:
            if client.is_known:
                client.send(self._state())

    def _state(self) -> protocol.SessionState:
        seats = [
            protocol.SeatState(mech=seat.label, name=seat.name, state="taken" if seat.client else "lost")
            for seat in self._seats.values()
            if seat.key
        ]
        return protocol.SessionState(
            phase=self._phase,  # type: ignore[arg-type]
            paused=self._pace.paused,
            speed=self._pace.speed,
            seats=seats,
            clients=sum(client.is_known for client in self._clients),
            tick=self._match.now if self._match else 0,
            note=self._note,
        )

    async def _hello(self, client: Client, message: protocol.Hello) -> None:
        if message.version != protocol.PLAY_VERSION:
            raise Refused("version", f"version is {message.version}, expected {protocol.PLAY_VERSION}; reload the page")
        policies = await asyncio.to_thread(self.catalogue.policies)
        client.name, client.is_known, self._had_client = message.name, True, True
        client.send(
            protocol.Welcome(
                version=protocol.PLAY_VERSION,
                session=self.paths.id,
                sim_version=SIM_VERSION,
                seats=self.config.seats,
                levels=[STILL, *SKILLS],
                policies=policies,
                parameters=override_names(),
            )
        )
        self._send_state()

    async def _pong(self, client: Client, message: protocol.Ping) -> None:
        client.send(protocol.Pong(n=message.n, tick=self._match.now if self._match else 0))

    # seats

    def _seat_of(self, client: Client) -> Seat | None:
        return next((seat for seat in self._seats.values() if seat.client is client), None)

    async def _take(self, client: Client, message: protocol.Take) -> None:
        if self._match is None:
            raise Refused("seat", f"no match is played: {self._note or 'start one'}")
        if message.key:
            seat = next((s for s in self._seats.values() if secrets.compare_digest(s.key, message.key)), None)
            if seat is None:
                raise Refused("seat", "the key fits no seat: it was reserved for 60 s, or the match has ended")
        else:
            free = [seat for seat in self._seats.values() if not seat.key]
            seat = next((seat for seat in free if message.mech in ("", seat.label)), None)
            if seat is None:
                labels = f"seat {message.mech!r} is not free, free seats: {', '.join(s.label for s in free)}"
                raise Refused("seat", labels if free else "every seat is taken, by another tab or another pilot")
        self._give(client, seat)

    def _give(self, client: Client, seat: Seat) -> None:
        """Give a seat to a client; another tab on it and the client's former seat lose it."""
        assert self._match is not None
        if (former := self._seat_of(client)) is not None and former is not seat:
            former.clear()
        if seat.client is not None and seat.client is not client:
            self._refuse(seat.client, "seat", "the seat was taken in another tab with its key")
        seat.hold_still()
        seat.client, seat.name, seat.key = client, client.name, seat.key or secrets.token_urlsafe(12)
        perception = self._match.perceptions[seat.mech]
        client.send(
            protocol.Begin(
                header=seat_header(self._match.header, seat.mech),
                world=zlib.compress(world_payload(perception.known_material), WORLD_LEVEL),
                mech=seat.mech,
                command=bool(self._match.team),
                key=seat.key,
                tick=self._match.now,
                actions=list(self._match.engine.action_names),
                tutorial=self._is_tutorial,
                opponent=self._opponent,
            )
        )
        if self._note == WAITING and all(seat.key for seat in self._seats.values()):
            self._note, self._seated_at = DRAWING, self._clock()
        self._send_state()
        self._send_frame(client, even_if_sent=True)

    def _lose(self, client: Client) -> None:
        if (seat := self._seat_of(client)) is not None:
            seat.hold_still()
            seat.client, seat.lost_at = None, self._clock()
        if client.is_known:
            self._send_state()

    def _free_lost_seats(self, now: float) -> None:
        lost = [s for s in self._seats.values() if s.key and s.client is None and now - s.lost_at > self._hold_s]
        for seat in lost:
            seat.clear()
        if lost:
            self._send_state()

    async def _leave(self, client: Client, message: protocol.Leave) -> None:
        if (seat := self._seat_of(client)) is None:
            raise Refused("seat", "you have no seat")
        seat.clear()
        self._send_state()

    async def _input(self, client: Client, message: protocol.Input) -> None:
        if (seat := self._seat_of(client)) is None:
            raise Refused("seat", "you have no seat")
        if len(message.action) != len(seat.action):
            raise Refused("message", f"action has {len(message.action)} entries, expected {len(seat.action)}")
        seat.action[:] = np.frombuffer(message.action, np.int8)
        seat.seq = message.seq
        self._start_clock()

    async def _watch(self, client: Client, message: protocol.Watch) -> None:
        seat = self._seat_of(client)
        if self._match is None or seat is None:
            raise Refused("seat", "you have no seat")
        try:
            self._match.watch(seat.mech, message.step)
        except ValueError as error:
            raise Refused("match", str(error)) from None
        self._send_frame(client, even_if_sent=True)

    async def _order(self, client: Client, message: protocol.OrderMates) -> None:
        seat = self._seat_of(client)
        if self._match is None or seat is None:
            raise Refused("seat", "you have no seat")
        try:
            self._match.order(seat.mech, message.order, message.mechs, message.target)
        except ValueError as error:
            raise Refused("match", str(error)) from None
        self._send_frame(client, even_if_sent=self._pace.paused)

    def _require_alone(self, client: Client) -> None:
        others = [seat for seat in self._seats.values() if seat.key and seat.client is not client]
        if others:
            raise Refused("busy", f"{len(others)} other pilots play, this needs one who plays alone")

    async def _set_pace(self, client: Client, message: protocol.Pace) -> None:
        self._require_alone(client)
        self._pace.paused, self._pace.speed = message.paused, message.speed
        self._send_state()

    # the match

    def _is_running(self) -> bool:
        return self._match is not None and not self._pace.paused and self._phase == "playing" and self._note == ""

    def _start_clock(self) -> None:
        """Start the clock of a match once every pilot has its picture and has sent an input, or had time for both."""
        if self._note != DRAWING:
            return
        drawn = all(seat.seq >= 0 or seat.client is None for seat in self._seats.values())
        if drawn or self._clock() - self._seated_at > self._picture_s:
            self._note = ""
            self._send_state()

    async def _wait_for_tick(self) -> None:
        """Wait until the next tick is due; other tasks run once in any case."""
        assert self._match is not None
        await asyncio.sleep(self._pace.delay(self._clock(), self._match.engine.cfg.dt_sim))

    def _tick(self) -> None:
        match = self._match
        if match is None or not self._is_running():
            return
        inputs = [self._seats[mech].read() for mech in match.seats]
        match.tick(np.array(inputs, np.int8).reshape(len(inputs), len(match.engine.action_names)))
        if problem := match.new_problem():
            self._warn(problem)
        for seat in self._seats.values():
            if seat.client is not None:
                self._send_frame(seat.client, even_if_sent=match.over)  # the last one has the final score
        if match.over:
            self._close_match()
            self._phase = "ended"
            self._send_state()

    def _send_frame(self, client: Client, even_if_sent: bool = False) -> None:
        seat = self._seat_of(client)
        if self._match is None or seat is None or not (client.wants_frame or even_if_sent):
            return
        perception = self._match.perceptions[seat.mech]
        if perception.has_next() or even_if_sent:
            client.wants_frame = False
            client.send(self._match.frame(seat.mech, seat.read_seq))

    def _close_match(self) -> None:
        match, self._match = self._match, None
        if match is None:
            return
        tick, outcome = match.now, match.outcome
        file = match.finish(self.paths.replays)
        self._last = protocol.Source(run=self.paths.id, file=file) if file else protocol.Source()
        seats, self._seats = self._seats, {}
        winner: Any = outcome.winner
        ended = protocol.Ended(winner=winner, reason=outcome.reason, tick=tick, source=self._last, figures={})
        self._on_match(match, ended)
        figures = figures_of(self.paths.replays / file) if file and outcome.winner else {}
        for client in self._clients:
            seat = next((seat for seat in seats.values() if seat.client is client), None)
            mechs = [*match.team] or [seat.mech] if seat else []
            own = {name: float(values[mechs].sum()) for name, values in figures.items()} if seat else {}
            if client.is_known:
                client.send(ended.model_copy(update={"figures": own}))

    def _warn(self, text: str) -> None:
        LOG.warning("%s", text)
        for client in self._clients:
            if client.is_known:
                self._refuse(client, "recording", text)

    def _open(self, match: PlayedMatch) -> None:
        width = len(match.engine.action_names)
        labels = {mech: label for label, mech in mechs_by_name(match.header).items()}
        self._match = match
        self._seats = {mech: Seat(mech, labels[mech], np.zeros(width, np.int8)) for mech in match.perceptions}
        self._pace.paused, self._pace.speed, self._pace.due = False, self.config.speed, 0.0
        self._phase, self._note = "playing", WAITING

    def _next_name(self) -> str:
        taken = {path.name for folder in (self.paths.playing, self.paths.replays) for path in folder.glob("*")}
        return next(name for n in range(1, len(taken) + 2) if (name := f"played-{n:03d}{SUFFIX}") not in taken)

    async def _begin_first(self) -> None:
        path = self.paths.playing / self._next_name()
        loading = partial(first_match, self.config, self.catalogue, path, {"run": self.paths.id})
        self._opponent = opponent_of(self.config, self.catalogue)
        try:
            self._open(await self._load("loading the match", loading))
        except (ValueError, OSError) as error:
            self._phase, self._note = "idle", f"the match cannot be played: {error_text(error)}"
            LOG.warning("%s", self._note)
        self._send_state()

    async def _load(self, note: str, load: Callable[[], Any]) -> Any:
        """Run a function beside the event loop, in phase ``loading``."""
        before = self._phase, self._note
        self._phase, self._note = "loading", note
        self._send_state()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, load)
        finally:
            self._phase, self._note = before

    def _require_free(self) -> None:
        if self._phase == "loading" or self._what_if is not None:
            raise Refused("busy", "the session is busy, expected it to finish first; try again in a moment")

    async def _start(self, client: Client, message: protocol.Start) -> None:
        self._require_alone(client)
        self._require_free()
        self._spawn(self._take_over(client, message))

    async def _take_over(self, client: Client, message: protocol.Start) -> None:
        try:
            if not message.source.file and self._match is not None:
                for name in filter(None, (*message.pilots.values(), message.opponent, message.mates)):
                    self.catalogue.named(name)
                self._close_match()
            source = message.source if message.source.file else self._last
            path, about = self.paths.playing / self._next_name(), {"run": self.paths.id}
            if message.opponent:
                plan = self._next_match(message)
                match = await self._load("loading the match", partial(first_match, plan, self.catalogue, path, about))
            else:
                load = partial(moment_of, message, source, self.catalogue, path, about, self.config.command)
                match = await self._load("reconstructing the moment", load)
        except (ValueError, OSError) as error:
            self._refuse(client, "match", error_text(error), "start")
            self._phase = "playing" if self._match else "idle"
            self._send_state()
            return
        self._close_match()
        self._is_tutorial = message.opponent == STILL or (self._is_tutorial and not message.opponent)
        if message.opponent:
            self._opponent = self.config.opponent or FIRST_LEVEL if self._is_tutorial else message.opponent
        elif message.source.file or message.pilots:
            self._opponent = ""
        self._open(match)
        if client in self._clients:
            self._give(client, next(iter(self._seats.values())))

    def _next_match(self, message: protocol.Start) -> PlayConfig:
        """Return the options of a new match for one pilot, by default on another map than those before."""
        self._matches += 1
        seed = (self.config.seed + self._matches) % MAX_SEED if message.seed is None else message.seed
        named = {"opponent": message.opponent, "mates": message.mates, "tutorial": message.opponent == STILL}
        return self.config.model_copy(update={**named, "seed": seed, "seats": 1})

    # continuations

    async def _ask(self, client: Client, message: protocol.WhatIf | protocol.Coach) -> None:
        self._require_free()
        if self._match is not None and not self._pace.paused:
            raise Refused("busy", "a match is played, expected it paused or ended")
        if self._match is not None and not message.source.file:
            raise Refused("match", "the match is not recorded to its end, expected a recorded one")
        self._what_if = message.id
        self._spawn(self._continue(client, message))

    async def _continue(self, client: Client, message: protocol.WhatIf | protocol.Coach) -> None:
        loop, last = asyncio.get_running_loop(), 0.0

        def on_progress(done: int, total: int, text: str) -> None:
            nonlocal last
            if self._has_ended or message.id in self._cancelled:
                raise what_if.Cancelled
            if (now := loop.time()) - last >= CHECK_S:
                last = now
                sent = protocol.Progress(id=message.id, done=done, total=total, text=text)
                loop.call_soon_threadsafe(client.send, sent)

        def play() -> protocol.Message:
            path = self.catalogue.recording(message.source if message.source.file else self._last)
            about = self.catalogue, self.paths.id, self.paths.replays, on_progress
            if isinstance(message, protocol.Coach):
                return what_if.mistakes(message, path, *about)
            return what_if.continuations(message, path, *about)

        try:
            client.send(await loop.run_in_executor(self._pool, play))
        except what_if.Cancelled:
            self._refuse(client, "match", "the request was cancelled", message.t, message.id)
        except (ValueError, OSError) as error:
            self._refuse(client, "match", error_text(error), message.t, message.id)
        except Exception:
            self._refuse(client, "match", "the request failed; see the log", message.t, message.id)
            raise
        finally:
            self._cancelled.discard(message.id)
            self._what_if = None

    async def _cancel(self, client: Client, message: protocol.Cancel) -> None:
        if self._what_if != message.id:
            raise Refused("match", "no such request is being played")
        self._cancelled.add(message.id)

    def _spawn(self, work: Any) -> None:
        """Run a coroutine beside the session; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await work
            except Exception:
                LOG.exception("a request failed")
                self._phase, self._note = ("playing" if self._match else "idle"), "a request failed; see the log"
                self._send_state()
