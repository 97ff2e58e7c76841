"""Groups of commands: help under headings, and a top level that imports a command when it is first used."""

import ast
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

OTHER = "Commands"
"""Heading of the commands without a heading of their own."""


class Command(NamedTuple):
    """One command or group of the top level."""

    section: str
    """Heading above it in the help."""
    help: str
    module: str
    """Module of ``echelon_cli.commands``."""
    function: str = "app"
    """Its function; ``app`` is a group."""

    def load(self, name: str) -> Any:
        """Import the command and return it as the parser needs it."""
        target = getattr(import_module(f"echelon_cli.commands.{self.module}"), self.function)
        if isinstance(target, typer.Typer):
            for listed in target.registered_commands:
                listed.help = listed.help or help_of(listed.callback)
            target.rich_markup_mode = None
            group = get_group(target)
            group.name = name
            return group
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        single.command(name, help=help_of(target))(target)
        return get_command(single)


def help_of(function: Any) -> str | None:
    """Return the docstring of a function, which ``python -OO`` removes, then from its source."""
    text = getattr(function, "__doc__", None)
    if text or not inspect.isfunction(function):
        return text
    return ast.get_docstring(ast.parse(inspect.getsource(function)).body[0])  # pyright: ignore[reportArgumentType]


class Sections(TyperGroup):
    """A group whose help lists its commands under headings, those of ``rich_help_panel``."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self.write_sections(
            formatter, [(name, *self.listed(name, formatter.width)) for name in self.list_commands(ctx)]
        )

    def listed(self, name: str, width: int) -> tuple[str, str]:
        command = self.commands[name]
        return getattr(command, "rich_help_panel", None) or OTHER, command.get_short_help_str(width)

    @staticmethod
    def write_sections(formatter: Any, rows: list[tuple[str, str, str]]) -> None:
        """Write (name, heading, line) of each command."""
        width = max(len(name) for name, _, _ in rows)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, heading, line in rows:
            sections.setdefault(heading, []).append((name.ljust(width), line))
        for heading, listed in sections.items():
            with formatter.section(heading):
                formatter.write_dl(listed)


class LazyRoot(Sections):
    """The top level: a table of commands, each of which is imported when it is first used."""

    table: Mapping[str, Command]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # names without a command: the parser suggests one of them for a misspelled name
        self.commands = dict.fromkeys(self.table)  # pyright: ignore[reportAttributeAccessIssue]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.table and self.commands[cmd_name] is None:
            self.commands[cmd_name] = self.table[cmd_name].load(cmd_name)
        return self.commands.get(cmd_name)

    def listed(self, name: str, width: int) -> tuple[str, str]:
        return self.table[name].section, self.table[name].help

    def load_all(self) -> "LazyRoot":
        """Return the group with every command imported, for tools that read all of them."""
        for name in self.table:
            self.get_command(None, name)
        return self
