"""Agents in any language: programs that play teams of mechs over their standard streams.

A message is a map in MessagePack after its length, 4 bytes, the highest first. Each team of a match has a process of
its own, which plays one match after another:

- ``hello`` tells the game; the agent answers ``{"type": "hello"}`` within ``START_S``.
- ``match`` begins a match.
- ``act`` has the observations of the team's mechs; the agent answers with their actions and the number of the decision.
- ``end`` ends the match. The agent exits when its standard input ends.

A decision has ``DECISION_S``; what it takes longer comes out of the match's time bank of ``BANK_S``. An agent that is
late, wrong or dead leaves its mechs idle for that decision; after ``MOST_FAULTS`` of them ``lost`` names its team,
whose mechs a scripted pilot flies to the end of the match. Nothing here loads torch.
"""

import contextlib
import os
import re
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

PROTOCOL = 1
START_S = 30.0
"""Longest time from the start of a program to its ``hello`` [s]."""
DECISION_S = 0.1
"""Time for each decision [s]."""
BANK_S = 10.0
"""Time bank of a match [s]."""
END_S = 1.0
"""Time in which an agent exits after the end of its input [s]."""
DEATH_S = 0.5
"""Longest wait for the status and the last words of an agent that closed its output [s]."""
MOST_FAULTS = 3
"""Faults in a match after which a scripted pilot takes over."""
MAX_BYTES = 1 << 24
"""Longest message of an agent."""
STAND_IN = "medium"
"""Scripted level that takes over."""
LOG_BYTES = 1 << 16
"""End of an agent's standard error that is kept."""
LOG_LINES, ERROR = 20, re.compile(r"error|exception|panic|fault", re.IGNORECASE)
"""Last lines of it in which a fault looks for the error, which few languages print last, and what names one."""
PREFIX = 4
UNSENT_S = 0.005
"""Time after which a message is written on that an agent does not read fast enough [s]."""


@dataclass(frozen=True)
class Calls:
    """Counts of calls of a person's code."""

    calls: int = 0
    failed: int = 0
    slow: int = 0
    """Calls that took longer than they should; their results count."""
    first: str = ""
    """When and why the first one failed."""

    def __add__(self, other: "Calls") -> "Calls":
        failed, slow = self.failed + other.failed, self.slow + other.slow
        return Calls(self.calls + other.calls, failed, slow, self.first or other.first)


class Fault(Exception):
    """Why an agent gave no actions."""


class AgentProcess:
    """A running agent; its streams are read and written without waiting."""

    def __init__(self, command: str, folder: str) -> None:
        """Start it; ``ValueError`` for a command that cannot be started."""
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                shlex.split(command), cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise ValueError(f"agent {command!r} cannot be started: {error}") from None
        streams = self._process.stdin, self._process.stdout, self._process.stderr
        self.input, self.output, errors = (stream.fileno() for stream in streams if stream)
        for handle in (self.input, self.output):
            os.set_blocking(handle, False)
        self._waiting, self._read, self._log = bytearray(), bytearray(), bytearray()
        self.fault = ""
        """Why it can answer nothing more."""
        self._reader = threading.Thread(target=self._keep_log, args=(errors,), daemon=True)
        self._reader.start()

    def _keep_log(self, errors: int) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(errors, LOG_BYTES):
                self._log += chunk
                del self._log[:-LOG_BYTES]

    @property
    def log(self) -> str:
        return self._log.decode(errors="replace")

    @property
    def is_alive(self) -> bool:
        return not self.fault and self._process.poll() is None

    @property
    def has_unsent(self) -> bool:
        return bool(self._waiting)

    def send(self, message: Mapping[str, Any]) -> None:
        packed: bytes = msgpack.packb(message)  # pyright: ignore[reportAssignmentType]
        self._waiting += len(packed).to_bytes(PREFIX, "big") + packed
        self.write()

    def write(self) -> None:
        """Write what the agent takes now."""
        try:
            while self._waiting:
                del self._waiting[: os.write(self.input, self._waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._die()

    def receive(self) -> list[Any]:
        """Return the messages that have arrived."""
        try:
            while chunk := os.read(self.output, 1 << 16):
                self._read += chunk
            self._die()
        except BlockingIOError:
            pass
        found = []
        while len(self._read) >= PREFIX and not self.fault.startswith("wrong"):
            end = PREFIX + int.from_bytes(self._read[:PREFIX], "big")
            if end > MAX_BYTES:
                self.fault = (
                    f"wrong: it begins with {bytes(self._read[:12])!r}, expected a message after its length "
                    f"in {PREFIX} bytes, highest first; did something print to its standard output?"
                )
            elif len(self._read) < end:
                break
            else:
                try:
                    found.append(msgpack.unpackb(bytes(self._read[PREFIX:end])))
                except ValueError:
                    self.fault = "wrong: a message that is not MessagePack"
            del self._read[:end]
        return found

    def _die(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(DEATH_S)
        self._reader.join(DEATH_S)  # its last words
        code = self._process.poll()
        ended = "closed its output" if code is None else f"ended with status {code}"
        lines = [line.strip() for line in self.log.strip().splitlines()[-LOG_LINES:]]
        told = next((line for line in lines if ERROR.search(line)), lines[-1] if lines else "")
        self.fault = self.fault or f"dead: it {ended}{told and f': {told}'}"

    def close(self) -> None:
        """End its input, and after ``END_S`` the agent and all that it started."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.fault = self.fault or f"wrong: it did not exit within {END_S:g} s of the end of its input"
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@dataclass(frozen=True)
class Asked:
    """A message to an agent, the time for its answer [s] and the decision that the answer names, none for a hello."""

    message: Mapping[str, Any]
    limit_s: float
    decision: int | None = None


def ask(asked: Mapping[AgentProcess, Asked]) -> dict[AgentProcess, tuple[Any, float]]:
    """Return each agent's answer, None for none in time, and the seconds that it took.

    Answers to other decisions came late and are dropped.
    """
    began: dict[AgentProcess, float] = {}
    found: dict[AgentProcess, tuple[Any, float]] = {agent: (None, 0.0) for agent in asked if agent.fault}
    with selectors.DefaultSelector() as selector:
        for agent, request in asked.items():
            if agent in found:
                continue
            began[agent] = time.monotonic()
            agent.send(request.message)
            selector.register(agent.output, selectors.EVENT_READ)
        while open_ := [agent for agent in asked if agent not in found]:
            left = [UNSENT_S] if any(agent.has_unsent for agent in open_) else []
            for agent in open_:
                request = asked[agent]
                agent.write()
                answers = [m for m in agent.receive() if isinstance(m, dict) and m.get("decision") == request.decision]
                waited = time.monotonic() - began[agent]
                left.append(request.limit_s - waited)
                if answers or agent.fault or waited >= request.limit_s:
                    found[agent] = answers[0] if answers else None, waited
                    selector.unregister(agent.output)
            if len(found) < len(asked):
                selector.select(max(0.0, min(left)))
    return found


@dataclass
class _Team:
    process: AgentProcess
    bank_s: float
    decision: int = 0
    faults: int = 0


@dataclass(kw_only=True)
class AgentTeams:
    """Teams of matches that are played by processes of one command."""

    command: str
    folder: str
    """Working directory."""
    game: Mapping[str, Any]
    """What ``hello`` tells beside the limits of time."""
    num_actions: int
    calls: Calls = Calls()
    taken_over: int = 0
    start_s: float = 0.0
    """Longest time from a start to the ``hello`` [s]."""
    seconds: list[float] = field(default_factory=list)
    """Time of each answer [s]."""
    log: str = ""
    """End of the standard error of the agent that failed or ended last."""
    _teams: dict[int, _Team] = field(default_factory=dict)
    _free: list[AgentProcess] = field(default_factory=list)
    _failed_start: AgentProcess | None = None
    """One whose start failed: no other is started, since each may take ``START_S``."""
    _next: int = 1

    def begin(self, count: int) -> list[int]:
        """Begin a match of ``count`` teams; return their numbers."""
        self._free = [process for process in self._free if process.is_alive]
        new = count - len(self._free)
        if self._failed_start:
            self._free += [self._failed_start] * new
            new = 0
        started = [AgentProcess(self.command, self.folder) for _ in range(new)]
        hello = {"type": "hello", "protocol": PROTOCOL, "decision_s": DECISION_S, "bank_s": BANK_S, **self.game}
        for process, (answer, seconds) in ask({each: Asked(hello, START_S) for each in started}).items():
            self.start_s = max(self.start_s, seconds)
            if not process.fault and (answer or {}).get("type") != "hello":
                process.fault = f"wrong: no hello within {seconds:.1f} s"
            if process.fault:
                self._failed_start = process
        numbers = list(range(self._next, self._next + count))
        self._next += count
        for number, process in zip(numbers, [*self._free, *started], strict=False):
            self._teams[number] = _Team(process, BANK_S)
            process.send({"type": "match"})
        del self._free[:count]
        return numbers

    def act(
        self, observations: Mapping[int, tuple[Sequence[int], NDArray[np.float32]]]
    ) -> dict[int, NDArray[np.float32]]:
        """Return the actions ``[k, A]`` of each team from the numbers of its k mechs and their observations ``[k, D]``.

        Matches of other teams are over. Teams without an entry idle: they had a fault now, or are ``lost``.
        """
        self.end(self._teams.keys() - observations.keys())
        playing = {self._teams[number].process: number for number in observations.keys() - self.lost}
        asked, actions = {}, {}
        for process, number in playing.items():
            team, (mechs, rows) = self._teams[number], observations[number]
            team.decision += 1
            message = {"type": "act", "decision": team.decision, "bank_s": team.bank_s, "mechs": list(mechs)}
            message["observations"] = rows.astype("<f4").tobytes()
            asked[process] = Asked(message, DECISION_S + team.bank_s, team.decision)
        for process, (answer, seconds) in ask(asked).items():
            number, team = playing[process], self._teams[playing[process]]
            self.seconds.append(seconds)
            team.bank_s -= min(team.bank_s, max(0.0, seconds - DECISION_S))
            try:
                actions[number] = self._actions(process, answer, len(observations[number][0]))
                self.calls += Calls(1, 0, int(seconds > DECISION_S))
            except Fault as fault:
                self._count(team, fault)
        return actions

    def _actions(self, process: AgentProcess, answer: Any, mechs: int) -> NDArray[np.float32]:
        if answer is None:
            raise Fault(process.fault or f"late: no answer within {DECISION_S:g} s, and its time bank is empty")
        given, shape = answer.get("actions"), (mechs, self.num_actions)
        try:
            found = np.frombuffer(given, "<f4") if isinstance(given, bytes) else np.asarray(given, np.float32)
            found = found.reshape(shape)
        except (TypeError, ValueError):
            raise Fault(f"wrong: actions that are not {mechs} rows of {self.num_actions} numbers") from None
        if not np.isfinite(found).all():
            raise Fault("wrong: actions that are not finite")
        return found

    def _count(self, team: _Team, fault: Fault) -> None:
        team.faults += 1
        self.log = team.process.log or self.log
        self.taken_over += team.faults == MOST_FAULTS
        self.calls += Calls(1, 1, 0, f"decision {team.decision}: {fault}")

    @property
    def lost(self) -> frozenset[int]:
        """Running teams that a scripted pilot flies."""
        return frozenset(number for number, team in self._teams.items() if team.faults >= MOST_FAULTS)

    def end(self, numbers: Iterable[int]) -> None:
        """End the matches of these teams; their agents play others, except those that failed."""
        for number in list(numbers):
            team = self._teams.pop(number)
            self.log = team.process.log or self.log
            if team.faults or team.process.fault:
                team.process.close()
                continue
            team.process.send({"type": "end"})
            self._free.append(team.process)

    def take_calls(self) -> Calls:
        """Return the decisions since the last call; failed ones left the mechs idle, slow ones used the time bank."""
        calls, self.calls = self.calls, Calls()
        return calls

    def report(self) -> str:
        """Return a line about the decisions since the last report, "" if all succeeded."""
        over = f", {STAND_IN} took over in {self.taken_over} matches" * bool(self.taken_over)
        calls, self.taken_over = self.take_calls(), 0
        failed = f"{calls.failed} failed{over}, the first at {calls.first}"
        return f"of {calls.calls} decisions of {self.command!r} {failed}" if calls.failed else ""

    def close(self) -> list[str]:
        """End all agents; return what was wrong with their ends."""
        self.end(list(self._teams))
        ended, self._free = self._free, []
        for process in ended:
            process.close()
            self.log = process.log or self.log
        return [process.fault for process in ended if process.fault]
