"""``echelon web``: the game as static files for a browser."""

from pathlib import Path
from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.commands.export import show_written
from echelon_cli.options import CHOICES, JsonFlag, argument, one_of, option

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
    as_json: JsonFlag = False,
) -> None:
    """Compile the simulator to WebAssembly (extra web).

    It has the scripted pilots and the observations of every mech. DIR gets a module and a description of its arrays for
    each game.
    """
    from echelon.web.build import build

    if unknown := [name for name in game or () if name not in GAMES]:
        raise typer.BadParameter(f"--game {unknown[0]!r} is unknown, expected one of {', '.join(GAMES)}")
    with output.waiting("compiling", quiet=as_json) as show:
        written = build(
            folder, game or GAMES, lambda name, done, total: show(f"compiling {name}: {done} of {total} files")
        )
    show_written({"folder": str(folder)}, written, as_json)
