"""``echelon policy``: policies as files for other programs, and to and from the Hugging Face Hub."""

from __future__ import annotations

import typer

from echelon_cli.commands import hub
from echelon_cli.commands.export import export_policy

app = typer.Typer(
    help="Export policies, publish and fetch them (Hugging Face Hub).", no_args_is_help=True, rich_markup_mode=None
)
app.command("export")(export_policy)
app.command("push")(hub.push)
app.command("pull")(hub.pull)
