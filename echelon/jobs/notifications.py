"""Notifications of a run: messages for a webhook, ntfy or Slack, sent with a time limit and few attempts.

A URL may contain a secret, so messages and logs name its host alone.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

TIMEOUT_S = 10.0
"""Longest wait for an answer [s]."""
PAUSES_S = (2.0, 10.0)
"""Pauses before further attempts [s]."""
RETRIED = (408, 425, 429, *range(500, 600))
"""Answers after which another attempt may succeed."""
MAX_CHARS = 2_000
"""Longest message."""
HOSTS = {"ntfy.sh": "ntfy", "hooks.slack.com": "slack"}
"""Formats by host."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """What is reported about a run."""

    event: str
    """``end``, ``failure`` or ``alert``."""
    run: str
    title: str
    message: str
    state: str = ""
    level: str = "info"
    """``info``, ``warning`` or ``error``."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Numbers of the run: update, steps, the newest evaluation."""
    host: str = field(default_factory=socket.gethostname)
    time: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Target:
    """Where notifications go."""

    format: str
    """Row of ``FORMATS``."""
    url: SplitResult

    @property
    def shown(self) -> str:
        """The target without what may be secret."""
        return f"{self.format} at {self.url.hostname}"


Request = tuple[str, dict[str, Any]]
"""URL and JSON body of a request."""


def _json(url: str, message: Message) -> Request:
    return url, {"source": "echelon", **asdict(message)}


PRIORITIES = {"info": 3, "warning": 4, "error": 5}
TAGS = {"end": "checkered_flag", "failure": "rotating_light", "alert": "warning"}


def _ntfy(url: str, message: Message) -> Request:
    root, _, topic = url.rstrip("/").rpartition("/")
    return f"{root}/", {
        "topic": unquote(topic),
        "title": message.title,
        "message": message.message,
        "priority": PRIORITIES.get(message.level, 3),
        "tags": [TAGS.get(message.event, message.event)],
    }


def _slack(url: str, message: Message) -> Request:
    # the three characters that Slack reads as markup
    plain = message.message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return url, {"text": f"*{message.title}*\n{plain}"}


FORMATS: dict[str, Callable[[str, Message], Request]] = {"json": _json, "ntfy": _ntfy, "slack": _slack}
"""Request of a message by format."""


def parse_target(text: str) -> Target:
    """Return the target of a URL, whose format its host or a prefix such as ``ntfy+https`` names.

    ``ValueError``, which does not repeat the URL, for one that cannot be used.
    """
    try:
        url = urlsplit(text)
        prefix, _, scheme = url.scheme.rpartition("+")
        host, _ = url.hostname, url.port
    except ValueError:
        host, prefix, scheme, url = None, "", "", urlsplit("")
    if scheme not in ("http", "https") or not host or (prefix and prefix not in FORMATS) or not text.isascii():
        raise ValueError(
            "URL of --notify cannot be used, expected https://HOST/PATH, or with its format "
            f"{', '.join(f'{name}+https://HOST/PATH' for name in FORMATS)}"
        )
    name = prefix or HOSTS.get(host, "json")
    if name == "ntfy" and not url.path.strip("/"):
        raise ValueError(f"URL of --notify at {host} has no topic, expected https://{host}/TOPIC")
    return Target(name, url._replace(scheme=scheme))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirection would send the message elsewhere."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # noqa: PLR0913
        return None


def send(target: Target, message: Message, pause: Callable[[float], object] = time.sleep) -> str:
    """Send a message and return why it could not be sent; empty where it was."""
    secret = target.url.netloc.rpartition("@")[0]
    bare = target.url._replace(netloc=target.url.netloc.rpartition("@")[2])
    url, body = FORMATS[target.format](bare.geturl(), _bounded(message))
    headers = {"Content-Type": "application/json", "User-Agent": "echelon"}
    if secret:
        headers["Authorization"] = f"Basic {base64.b64encode(unquote(secret).encode()).decode()}"
    problem = ""
    for wait in (*PAUSES_S, None):
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            opener = urllib.request.build_opener(_NoRedirects)
            with opener.open(request, timeout=TIMEOUT_S):
                return ""
        except urllib.error.HTTPError as error:
            problem = f"HTTP {error.code}"
            if error.code not in RETRIED:
                break
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = type(getattr(error, "reason", None) or error).__name__
        if wait is not None:
            pause(wait)
    return f"{target.shown} was not reached: {problem}"


def _bounded(message: Message) -> Message:
    return replace(message, message=message.message[:MAX_CHARS], title=message.title[:MAX_CHARS])
