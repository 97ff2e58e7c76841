"""Text fields with a prompt, and the filter that finds panels by words or patterns."""

import re
from collections.abc import Mapping
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Input

from echelon_cli.foreign_text import visible
from echelon_cli.tui.theme import Theme

FIND, NOT_FOUND = "find", "no panel matches"
PLACEHOLDER = "panel or metric, words or a pattern: loss, clip|norm"


class PromptField(Input):
    """A one-line text field with a prompt that says what it is for."""

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
        """Return the field with its prompt in the padding at the left."""
        label = Strip([Segment(f" {visible(self.prompt)} ", self.theme.style("key"))])
        prompt_width, lines = label.cell_length, super().render_lines(crop)
        if crop.x >= prompt_width:
            return lines
        return [
            Strip.join([label.crop(crop.x, crop.right), line.crop(max(0, prompt_width - crop.x))]) for line in lines
        ]


class FilterField(PromptField):
    """The panel filter: hidden until opened, applied while typing."""

    def __init__(self, *, theme: Theme, **options: Any) -> None:
        super().__init__(FIND, theme=theme, placeholder=PLACEHOLDER, id="filter", **options)


def matching(texts: Mapping[str, str], query: str) -> frozenset[str]:
    """Return the names whose text matches every word of ``query``: regular expressions, or literals where invalid."""
    parts = [_pattern(part) for part in query.split()]
    return frozenset(name for name, text in texts.items() if all(part.search(text) for part in parts))


def _pattern(part: str) -> re.Pattern[str]:
    try:
        return re.compile(part, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(part), re.IGNORECASE)
