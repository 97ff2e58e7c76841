"""The line in which one types what is looked for, and which panels that finds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from textual.widgets import Input

PLACEHOLDER = "words of names and curves, such as: loss, or clip|norm"


class FilterField(Input):
    """Hidden until it is asked for; what is typed counts at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(placeholder=PLACEHOLDER, id="filter", compact=True, **options)
        self.cursor_blink = False


def matching(words: Mapping[str, str], wanted: str) -> frozenset[str]:
    """Return the names whose words hold every part of ``wanted``; a part is a pattern, or text where it is none."""
    parts = [_pattern(part) for part in wanted.split()]
    return frozenset(name for name, text in words.items() if all(part.search(text) for part in parts))


def _pattern(part: str) -> re.Pattern[str]:
    try:
        return re.compile(part, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(part), re.IGNORECASE)
