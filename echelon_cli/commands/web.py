"""``echelon web``: the game as static files for a browser."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from echelon import champion
from echelon_cli import options, output
from echelon_cli.commands.export import show_written
from echelon_cli.options import CHOICES, argument, complete_networks, one_of, option

GAMES = CHOICES["game"]

app = typer.Typer(help="The game as static files for a browser.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    pass


@app.command("build")
def build_page(
    folder: Annotated[Path, argument("DIR", "Folder to write to.")],
    game: Annotated[
        list[str] | None,
        option("--game", "A game, such as 5v5; repeat for several; default: all.", "GAME", one_of(*GAMES)),
    ] = None,
    policy: Annotated[
        str, option("--policy", "The policy in the page: a run, a policy folder or champion.", "RUN", complete_networks)
    ] = champion.NAME,
    as_json: options.Json = False,
) -> None:
    """Write the game as a page that needs no server (extra web).

    In it one flies and watches matches. Any host of static files serves DIR, under any address.
    """
    from echelon.arena.standings import policy_path
    from echelon.web.build import build

    if unknown := [name for name in game or () if name not in GAMES]:
        raise typer.BadParameter(f"--game {unknown[0]!r} is unknown, expected one of {', '.join(GAMES)}")
    with output.waiting("compiling", quiet=as_json) as show:
        written = build(folder, game or GAMES, policy_path(policy), Path(policy).name, show)
    show_written({"folder": str(folder)}, {"page": {"files": len(written), "bytes": sum(written.values())}}, as_json)
    if not as_json:
        output.print_line(f"Next: python -m http.server --directory {shlex.quote(str(folder))}, http://localhost:8000")
