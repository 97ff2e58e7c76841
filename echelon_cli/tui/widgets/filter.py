"""The line in which one types what is looked for, and which panels that finds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Input

from echelon_cli.tui.theme import Theme
from echelon_cli.tui.widgets.cells import sanitize

PLACEHOLDER = "words of names and curves, such as: loss, or clip|norm"


class PromptField(Input):
    """A line to type in that says before it what the words are for."""

    def __init__(self, prompt: str, *, theme: Theme, **options: Any) -> None:
        super().__init__(compact=True, **options)
        self.theme = theme
        self.cursor_blink = False
        self.prompt = prompt

    @property
    def prompt(self) -> str:
        return self._prompt

    @prompt.setter
    def prompt(self, prompt: str) -> None:
        self._prompt = prompt
        self.styles.padding = (0, 1, 0, cell_len(prompt) + 2)
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the field with its prompt in the room at its left."""
        label = Strip([Segment(f" {sanitize(self.prompt)} ", self.theme.style("key"))])
        wide, lines = label.cell_length, super().render_lines(crop)
        if crop.x >= wide:
            return lines
        return [Strip.join([label.crop(crop.x, crop.right), line.crop(max(0, wide - crop.x))]) for line in lines]


class FilterField(PromptField):
    """Hidden until it is asked for; what is typed counts at once."""

    def __init__(self, *, theme: Theme, **options: Any) -> None:
        super().__init__("find", theme=theme, placeholder=PLACEHOLDER, id="filter", **options)


def matching(words: Mapping[str, str], wanted: str) -> frozenset[str]:
    """Return the names whose words hold every part of ``wanted``; a part is a pattern, or text where it is none."""
    parts = [_pattern(part) for part in wanted.split()]
    return frozenset(name for name, text in words.items() if all(part.search(text) for part in parts))


def _pattern(part: str) -> re.Pattern[str]:
    try:
        return re.compile(part, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(part), re.IGNORECASE)
