"""Notifications of a terminal: the bell with OSC 9 or OSC 777, also through tmux."""

from __future__ import annotations

from collections.abc import Mapping

MAX_CHARS = 200
"""Longest text of a terminal's notification."""
TERMS_777 = ("rxvt", "foot")
"""Starts of ``TERM`` of terminals that know OSC 777."""


def terminal_sequence(title: str, message: str, environment: Mapping[str, str]) -> str:
    """Return a terminal's notification, OSC 777 where it knows that and else OSC 9, followed by the bell.

    tmux passes it on with ``allow-passthrough on``.
    """
    first, second = (_printable(text) for text in (title, message))
    is_777 = "VTE_VERSION" in environment or environment.get("TERM", "").startswith(TERMS_777)
    sequence = f"\x1b]777;notify;{first.replace(';', ',')};{second}\x07" if is_777 else f"\x1b]9;{first}: {second}\x07"
    if "TMUX" in environment:
        sequence = "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return sequence + "\x07"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:MAX_CHARS]
