"""Clients of a session and the seats that they take."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from echelon import play_protocol as protocol
from echelon.play_channel import packet

BEHIND_S = 0.25
"""Delay above which ticks are not caught up with [s]."""


@dataclass
class ClientPace:
    """Pause, speed, and when the next tick is due."""

    paused: bool = False
    speed: float = 1.0
    due: float = field(default=0.0)

    def delay(self, now: float, tick_s: float) -> float:
        """Return the wait until the next tick [s]; time that was lost is not caught up with beyond ``BEHIND_S``."""
        step = tick_s / self.speed
        self.due = self.due + step if now - self.due < BEHIND_S else now
        return max(0.0, min(self.due, now + step) - now)


MAX_UNSENT = 32 << 20
"""Bytes that may wait for a client before it is dropped."""


class Refused(ValueError):
    """A message that cannot be followed now; ``code`` is that of the ``Problem``."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(eq=False)
class Client:
    """A connection."""

    writer: asyncio.StreamWriter
    name: str = ""
    is_known: bool = False
    """Whether it has sent ``hello``; the server's own connection does not."""
    wants_frame: bool = False

    def send(self, message: protocol.Message) -> None:
        """Send a message; a client that does not read is dropped."""
        if self.writer.transport.get_write_buffer_size() > MAX_UNSENT:
            self.writer.transport.abort()
        elif not self.writer.is_closing():
            self.writer.write(packet(protocol.pack(message)))


@dataclass(eq=False)
class Seat:
    """The seat of a mech; free without a key."""

    mech: int
    label: str
    action: NDArray[np.int8]
    client: Client | None = None
    key: str = ""
    name: str = ""
    seq: int = -1
    """Number of the newest input, and of the one that the last tick read; -1 none."""
    read_seq: int = -1
    lost_at: float = 0.0
    """Time at which its client was lost [s of the loop's clock]."""

    def read(self) -> NDArray[np.int8]:
        self.read_seq = self.seq
        return self.action

    def clear(self) -> None:
        self.client, self.key, self.name = None, "", ""
        self.hold_still()

    def hold_still(self) -> None:
        self.action[:] = 0
        self.seq = self.read_seq = -1
