"""The reference of all commands as Markdown, from the help of the program: ``python -m echelon_cli.reference``."""

from collections.abc import Iterator
from typing import Any

import typer

from echelon_cli.main import root
from echelon_cli.output import print_line


def leaves(command: Any, path: str = "echelon") -> Iterator[tuple[str, Any]]:
    """Yield name and command of every command below a group, in the order of the help."""
    if not hasattr(command, "commands"):
        yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, f"{path} {name}")


def reference() -> str:
    parts = ["# Commands\n\nEvery command, as `--help` shows it."]
    for name, command in leaves(root().load_all()):
        context = typer.Context(command, info_name=name, max_content_width=100)
        parts.append(f"## {name}\n\n```text\n{command.get_help(context).strip()}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for line in reference().splitlines():
        print_line(line)
