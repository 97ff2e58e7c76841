"""Sequences for the user's terminal over any connection, also through tmux: notifications, and the clipboard.

A terminal does not report whether it accepted one.
"""

import base64
from collections.abc import Mapping

MAX_CHARS = 200
"""Longest text of a notification."""

LIMIT_BYTES = 74_000
"""Longest text that is copied; many terminals refuse longer ones."""

TERMS_777 = ("rxvt", "foot")
"""Starts of ``TERM`` of terminals that know OSC 777."""


def notification(title: str, message: str, environment: Mapping[str, str]) -> str:
    """Return a terminal's notification, OSC 777 where it knows that and else OSC 9, followed by the bell.

    tmux passes it on with ``allow-passthrough on``.
    """
    first, second = (
        "".join(char if char.isprintable() else " " for char in text)[:MAX_CHARS] for text in (title, message)
    )
    is_777 = "VTE_VERSION" in environment or environment.get("TERM", "").startswith(TERMS_777)
    sequence = f"\x1b]777;notify;{first.replace(';', ',')};{second}\x07" if is_777 else f"\x1b]9;{first}: {second}\x07"
    return (_through_tmux(sequence) if "TMUX" in environment else sequence) + "\x07"


def clipboard(text: str, environment: Mapping[str, str]) -> str:
    """Return the sequence that copies the text (OSC 52); empty where it is longer than ``LIMIT_BYTES``.

    tmux accepts the plain sequence with ``set-clipboard on`` and the wrapped one with ``allow-passthrough on``; both
    are sent.
    """
    raw = text.encode()
    if len(raw) > LIMIT_BYTES:
        return ""
    sequence = f"\x1b]52;c;{base64.b64encode(raw).decode()}\x07"
    return sequence + _through_tmux(sequence) if "TMUX" in environment else sequence


def _through_tmux(sequence: str) -> str:
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
