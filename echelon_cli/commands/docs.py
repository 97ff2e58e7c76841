"""``echelon docs``: the docs site in the browser, without a network, or written into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from echelon_cli import output
from echelon_cli.commands.serve import OpenOption, PortOption, browser_here, show_address
from echelon_cli.options import JsonFlag


def docs(
    build: Annotated[
        Path | None,
        typer.Option("--build", metavar="DIR", help="Write the site into this folder, for any web server, and end."),
    ] = None,
    port: PortOption = None,
    open_browser: OpenOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Show the docs of this version in the browser. No network is used; building them takes the extra 'docs'."""
    from echelon_cli.docs_site import build_site, cached_site, serve_site, trim_cache

    folder, is_built = (build.resolve(), False) if build else cached_site()
    if not is_built:
        with output.waiting("building the docs site", quiet=as_json):
            build_site(folder)
    if build:
        if as_json:
            output.show_json({"folder": str(folder)})
        else:
            output.print_line(f"written: {folder}; serve it with any web server")
        return output.DONE
    trim_cache(folder)
    opened = browser_here() if open_browser is None else open_browser

    def announce(url: str) -> None:
        show_address(url, opened, as_json)
        if not as_json:
            output.print_line("Ctrl-C stops the server.", style="dim")

    serve_site(folder, port=port, ready=announce)
    return output.DONE
