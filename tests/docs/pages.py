"""The code blocks of the project's documents."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from echelon_cli.main import root
from echelon_cli.reference import leaves

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
"""Line above a block that no test runs, with the reason."""
FENCE = re.compile(r"^```(\w*)$")
INLINE = re.compile(r"`(echelon [^`]+)`")
ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    not_run: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return README and the other documents of the root, and all pages of ``docs``."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        if opened := FENCE.match(lines[number]):
            end = lines.index("```", number + 1)
            above = NOT_RUN.fullmatch(lines[number - 1]) if number else None
            name = page.relative_to(ROOT).as_posix()
            text = "\n".join(lines[number + 1 : end])
            yield Block(name, number + 1, opened[1], text, above[1] if above else "")
            number = end
        number += 1


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of every simple command of a shell block, without comments and assigned variables."""
    for line in text.replace("\\\n", " ").splitlines():
        command: list[str] = []
        words = shlex.shlex(line, posix=True, punctuation_chars=";&|")
        words.whitespace_split = True
        for word in [*words, ";"]:
            if not set(word) <= set(";&|"):
                if command or not ASSIGNMENT.fullmatch(word):
                    command.append(word)
            elif command:
                yield command
                command = []


def leaves_by_name() -> dict[str, set[str]]:
    """Return the options of every command by its name."""
    return {
        name.removeprefix("echelon "): {
            flag for option in command.params for flag in (*option.opts, *option.secondary_opts)
        }
        for name, command in leaves(root().load_all())
    }
