"""``echelon serve`` and ``echelon watch``: the replay server, and one match or run opened in a browser.

Neither loads the simulator. Over SSH the address is printed with the tunnel that reaches it.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlsplit

import typer

from echelon_cli import output
from echelon_cli.options import JsonFlag, complete_runs

if TYPE_CHECKING:
    from echelon.server.catalogue import Match, ReplayCatalogue
    from echelon.server.security import Access

PortOption = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="Port; the first free one from 8400 by default.")
]
HostOption = Annotated[
    str, typer.Option("--host", help="Address to listen on; anything but loopback asks viewers for a token.")
]
LeagueOption = Annotated[
    Path | None,
    typer.Option("--league", help="League to show: a league.db or its folder; by default that of the runs here."),
]
OPENED = "opened"
"""What the run is called to which a replay belongs that was opened by its path."""
OpenOption = Annotated[bool | None, typer.Option("--open/--no-open", help="Open a browser; by default where one is.")]


def serve(
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    embed_origin: Annotated[str, typer.Option("--embed-origin", help="Origin whose pages may frame the viewer.")] = "",
    league: LeagueOption = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the viewer in a browser.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Serve replays and the viewer over the runs here, until interrupted."""
    from echelon.server.app import serve as run_server

    run_server(
        None,
        host=host,
        port=port,
        embed_origin=embed_origin,
        league=find_league(league),
        ready=lambda access: _announce(access, "", open_browser, as_json),
    )
    return output.DONE


def watch(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|MATCH|FILE", help="A run, its newest match; a match; a replay.", autocompletion=complete_runs
        ),
    ] = "",
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    league: LeagueOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on to each newer match of the run by itself, or wait for its first.")
    ] = False,
    open_browser: OpenOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Open a match in the browser: that one, the newest of a run, a replay file; with --league alone, the league."""
    from echelon.server.app import running_server
    from echelon.server.app import serve as run_server

    shown = find_league(league)
    opened = browser_here() if open_browser is None else open_browser
    with ExitStack() as stack:
        if is_replay(what):
            home, fragment = stack.enter_context(alone(Path(what)))
        else:
            home = shown.parent if shown and not what else home_of(what)
            fragment = "#league" if shown and not what else fragment_of(what or "latest", follow)
        is_usual = host == "127.0.0.1" and port is None and home is None and shown is None
        if is_usual and (found := running_server(None)) is not None:
            show_address(found + fragment, opened, as_json)
            return output.DONE
        run_server(
            home, host=host, port=port, league=shown, ready=lambda access: _announce(access, fragment, opened, as_json)
        )
    return output.DONE


def is_replay(what: str) -> bool:
    """Whether the path of a replay file is meant."""
    from echelon.replay.schema import SUFFIX

    return what.endswith(SUFFIX) and Path(what).is_file()


@contextmanager
def alone(file: Path) -> Iterator[tuple[Path, str]]:
    """Put a replay, its world with it, into a home of its own; gives that, and the end of its address."""
    from echelon.replay.embed import embed_world
    from echelon.replay.reader import Replay
    from echelon.server.catalogue import match_id

    with Replay(file) as replay:
        whole = embed_world(replay)
    with tempfile.TemporaryDirectory(prefix="echelon-watch-") as folder:
        replays = Path(folder) / OPENED / "replays"
        replays.mkdir(parents=True)
        (replays.parent / "spec.json").write_text("{}", encoding="utf-8")
        (replays / file.name).write_bytes(whole)
        yield Path(folder), f"#match={match_id(OPENED, file.name)}"


def find_league(given: Path | None) -> Path | None:
    """Return the file that ``--league`` means; ``StoreError`` in one line if there is none or it cannot be read."""
    from echelon.arena.store import Store, league_path

    if given is None:
        return None
    path = (league_path(given) if given.is_dir() else given).resolve()
    Store(path, read_only=True).close()
    return path


def home_of(what: str) -> Path | None:
    """Return where the run lies that the path of its folder names, None where that is among the runs here."""
    from echelon.runs import RunNotFoundError, find_run, runs_home

    try:
        home = find_run(what).root.parent
    except RunNotFoundError:
        return None
    return None if home.resolve() == runs_home().resolve() else home


def fragment_of(what: str, follow: bool) -> str:
    """Return the end of the address that opens what was asked for; ``follow`` keeps to a run's newest match."""
    from echelon.runs import find_run
    from echelon.server.catalogue import ReplayCatalogue

    if follow:
        return f"#newest={quote(find_run(what).id)}"
    catalogue = ReplayCatalogue(home_of(what))
    try:
        return f"#match={find_match(catalogue, what).id}"
    finally:
        catalogue.close()


def find_match(catalogue: ReplayCatalogue, what: str) -> Match:
    """Return the match with this id, or the newest of the run; ``RunNotFoundError`` says what is missing."""
    from echelon.runs import RunNotFoundError, find_run

    known = catalogue.matches()
    exact = [m for m in known if m.id == what or m.path.name == what]
    if exact:
        return exact[0]
    run = find_run(what)
    of_run = sorted((m for m in known if m.run == run.id), key=lambda m: -m.summary["created"])
    if not of_run:
        raise RunNotFoundError(f"run {run.id!r} has no match to watch yet; training records some at every evaluation")
    return of_run[0]


def browser_here() -> bool:
    """Whether a browser would open where the user sits."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _announce(access: Access, fragment: str, opened: bool, as_json: bool) -> None:
    from echelon.server.app import address

    show_address(address(access, fragment), opened, as_json)
    if not as_json:
        output.say("Ctrl-C ends the server.", style="dim")


def show_address(url: str, opened: bool, as_json: bool) -> None:
    """Print where to look, over SSH with the tunnel that leads there, and open a browser if wanted."""
    tunnel = tunnel_to(url)
    if as_json:
        output.show_json({"url": url, "tunnel": tunnel}, indent=None)
    else:
        output.say(url, style="bold")
        if tunnel:
            output.say(f"from your own machine first: {tunnel}")
    if opened:
        webbrowser.open(url)


def tunnel_to(url: str) -> str:
    """Return the ssh command that makes a loopback address reachable from afar; empty when not over SSH."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    parts = urlsplit(url)
    if len(connection) < 4 or parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return ""
    here = connection[2] if connection[2] else socket.gethostname()
    return f"ssh -L {parts.port}:127.0.0.1:{parts.port} {quote(getpass.getuser())}@{here}"
