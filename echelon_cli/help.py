"""Help texts: commands under headings, and ``--help-all``, which shows options of single fields and older spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from echelon_cli import spellings

OTHER, OLDER = "Commands", "Older spellings"
"""Headings of commands without one, and of those that only ``--help-all`` shows."""


class Sections(TyperGroup):
    """A group whose help lists its commands under headings, those of ``rich_help_panel``."""

    order: tuple[str, ...] = ()
    """Names in the order of the help; without them the order of registration."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.order:
            self.commands = {name: self.commands[name] for name in self.order if name in self.commands}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and short helps of the commands that are not hidden."""
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        width = max((len(name) for name in shown), default=0)
        limit = formatter.width - 6 - width
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in shown.items():
            title = getattr(command, "rich_help_panel", None) or OTHER
            sections.setdefault(title, []).append((name.ljust(width), command.get_short_help_str(limit)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def describe_all(command: Any, words: Sequence[str] = (), path: tuple[str, ...] = ()) -> None:
    """Show in the help of a command, and of those below it, every option, its type, unit, default and older names.

    Defaults are those of the preset that the command line names in ``words``, else of the default one.
    """
    if command.hidden:
        command.hidden, command.rich_help_panel = False, OLDER
    for option in command.params:
        option.hidden = False
    if path == ("train",):
        from echelon_cli.commands.train import describe_fields

        describe_fields(command.params, _value_of("--preset", words))
    if older := spellings.older(path):
        command.epilog = f"{OLDER}: {', '.join(older)}."
    for name, below in getattr(command, "commands", {}).items():
        describe_all(below, words, (*path, name))


def _value_of(option: str, words: Sequence[str]) -> str | None:
    """Return the value of an option in a command line; None where it has none."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == option and following and not following.startswith("-"):
            return following
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
