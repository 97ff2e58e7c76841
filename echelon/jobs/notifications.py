"""Notifications of a run, sent through apprise, which knows the URLs of some hundred services.

A URL may contain a secret, so messages and logs name its service alone.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PAUSES_S = (2.0, 10.0)
"""Pauses before further attempts [s]."""
TIMEOUT_S = 10.0
"""Longest wait for a connection, and for an answer [s]."""
MAX_CHARS = 2_000
"""Longest message."""
LEVELS = {"end": "success", "failure": "failure", "alert": "warning"}
"""Level of apprise by event."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """What is reported about a run."""

    event: str
    """Row of ``LEVELS``."""
    title: str
    text: str


def open_target(url: str) -> Any:
    """Return apprise's service for a URL.

    ``ValueError``, which does not repeat the URL, for one that cannot be used, and where apprise is not installed.
    """
    try:
        apprise = importlib.import_module("apprise")
    except ImportError:
        raise ValueError("apprise is not installed; try: pip install 'echelon[notify]'") from None
    # its messages contain URLs
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    target = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if target is None:
        raise ValueError(
            "URL of --notify cannot be used, expected one that apprise knows, such as ntfys://ntfy.sh/TOPIC, "
            "https://hooks.slack.com/services/... or jsons://HOST/PATH"
        )
    target.socket_connect_timeout = target.socket_read_timeout = TIMEOUT_S
    return target


def send(target: Any, message: Message, pause: Callable[[float], object] = time.sleep) -> str:
    """Send a message and return why it could not be sent; empty where it was."""
    for wait_s in (*PAUSES_S, None):
        if target.notify(
            title=message.title[:MAX_CHARS], body=message.text[:MAX_CHARS], notify_type=LEVELS[message.event]
        ):
            return ""
        if wait_s is not None:
            pause(wait_s)
    return f"{target.service_name} was not reached"
