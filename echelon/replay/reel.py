"""Highlight reel of a match: the spans of time around its most important moments.

``viewer/src/data/reel.ts`` chooses the same; tests/golden/reel.json holds both to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

REEL_S = 20.0
"""Length of a reel [s]."""
ENDING_S = 3.0
"""Time before the end of the match that every reel shows [s]."""
JOIN_S = 1.0
"""Spans closer than this become one [s]."""
WIDENINGS = 8
"""Rounds in which spans are lengthened until they fill the reel."""
LEAD_SHARE = 0.6
"""Share of the added time that comes before a span."""
CAPTION_LEAD_S, CAPTION_S = 0.3, 3.5
"""Time before a moment from which its caption is shown, and for how long [s]."""


class Span(NamedTuple):
    """Part of a match [s]."""

    start: float
    end: float


def choose_spans(moments: Sequence[Mapping[str, Any]], seconds: float, length: float = REEL_S) -> list[Span]:
    """Return the spans of a reel in order of time, with the best-ranked moments first to be in it.

    ``moments`` are those of ``Replay.timeline``. ``seconds`` is the length of the match; a shorter one is shown whole.
    """
    if seconds <= length:
        return [Span(0.0, seconds)]
    spans = [Span(max(0.0, seconds - ENDING_S), seconds)]
    for moment in sorted(moments, key=lambda row: row["rank"]):
        longer = _joined([*spans, Span(float(moment["from"]), float(moment["to"]))], seconds)
        if _total(longer) <= length:
            spans = longer
    share = 1.0
    for _ in range(WIDENINGS):
        added = share * (length - _total(spans)) / len(spans)
        before, after = added * LEAD_SHARE, added * (1 - LEAD_SHARE)
        longer = _joined([Span(start - before, end + after) for start, end in spans], seconds)
        if _total(longer) <= length:
            spans = longer
        else:
            share /= 2  # joining filled gaps
    return spans


def caption_at(moments: Sequence[Mapping[str, Any]], second: float) -> str:
    shown = [
        row for row in moments if row["second"] - CAPTION_LEAD_S <= second < row["second"] - CAPTION_LEAD_S + CAPTION_S
    ]
    return str(max(shown, key=lambda row: row["second"])["caption"]) if shown else ""


def _joined(spans: Sequence[Span], seconds: float) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        start, end = max(0.0, start), min(seconds, end)
        if joined and start - joined[-1].end < JOIN_S:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, end))
        else:
            joined.append(Span(start, end))
    return joined


def _total(spans: Sequence[Span]) -> float:
    return sum(end - start for start, end in spans)
