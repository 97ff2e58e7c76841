"""A command on a pty of a given size, whose output a thread collects and counts."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path


class Terminal:
    """Runs one command; ``sent`` is its output so far."""

    def __init__(self, *words: str, cwd: Path, columns: int = 160, rows: int = 48, **environment: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._sent = bytearray()
        self._hung_up = False
        self.arrivals: list[tuple[float, int]] = []
        self.began = time.perf_counter()
        plain_rows = {
            name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "COLUMNS")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "echelon_cli.main", *words],
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**plain_rows, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", **environment},
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        while not self._hung_up:
            if not select.select([self._master], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            self._sent += data
            self.arrivals.append((time.perf_counter() - self.began, len(data)))

    @property
    def sent(self) -> bytes:
        return bytes(self._sent)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, condition: Callable[[bytes], object], limit_s: float = 20.0) -> float:
        """Wait until the output satisfies a condition; return the seconds since the start."""
        while not condition(self.sent):
            assert time.perf_counter() - self.began < limit_s, self.sent[-2000:]
            time.sleep(0.005)
        return time.perf_counter() - self.began

    def until_quiet(self, quiet_s: float = 0.8, limit_s: float = 20.0) -> None:
        """Wait until there has been no output for ``quiet_s``."""
        deadline = time.perf_counter() + limit_s
        size, since = -1, time.perf_counter()
        while time.perf_counter() - since < quiet_s:
            assert time.perf_counter() < deadline, "output never stopped"
            if len(self._sent) != size:
                size, since = len(self._sent), time.perf_counter()
            time.sleep(0.02)

    def bytes_during(self, work: Callable[[], None]) -> int:
        """Return the number of bytes written while ``work`` ran."""
        before = len(self._sent)
        work()
        return len(self._sent) - before

    def hang_up(self) -> None:
        """Close the pty, as a closed terminal window does."""
        self._hung_up = True
        self._reader.join()
        os.close(self._master)

    def end(self) -> int:
        """Kill the command if it is running and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        return self.process.wait(10)
