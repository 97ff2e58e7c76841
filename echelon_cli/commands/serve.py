"""``echelon serve`` and ``echelon watch``: the replay server, and a match or run opened in the browser.

Neither loads the simulator. Over SSH the address is printed with the tunnel command that reaches it.
"""

import getpass
import os
import shlex
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

from echelon import champion
from echelon.replay.find import find_replay, home_of
from echelon.replay.schema import SUFFIX
from echelon.runs import find_run, match_id
from echelon_cli import options, output
from echelon_cli.matches import complete_matches
from echelon_cli.options import argument, option

if TYPE_CHECKING:
    from echelon.server.security import Access

PortOption = Annotated[int | None, option("--port", "Port; default: the first free one from 8400.", min=1, max=65535)]
HostOption = Annotated[str, option("--host", "Address to listen on; any but loopback requires a token.", "ADDRESS")]
AllowHostOption = Annotated[
    list[str] | None,
    option(
        "--allow-host", "Further name of this server, such as a proxy's.", "NAME[:PORT]", envvar="ECHELON_ALLOW_HOST"
    ),
]
LeagueOption = Annotated[
    Path | None, option("--league", "League to show: a league.db or its folder; default: that of the runs folder.")
]
OPENED = "opened"
"""Run name of a replay that was opened by its path."""
OpenOption = Annotated[bool | None, option("--open/--no-open", "Open a browser; default: if one is available.")]


def serve(
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    embed_origin: Annotated[str, option("--embed-origin", "Origin whose pages may frame the viewer.", "URL")] = "",
    allow_host: AllowHostOption = None,
    league: LeagueOption = None,
    play: Annotated[bool, option("--play", "Let browsers take over replays, in a session kept ready.")] = False,
    open_browser: Annotated[bool, option("--open", "Open the viewer in a browser.")] = False,
    as_json: options.Json = False,
) -> None:
    """Serve the viewer with all recorded matches. It runs until interrupted; without --play it only reads."""
    from echelon.server.app import serve as run_server
    from echelon_cli.play_job import fragment_of_session, play_session

    league_file = find_league(league)
    with ExitStack() as stack:
        job = stack.enter_context(play_session({"idle": True}, quiet=as_json)) if play else None
        fragment = fragment_of_session(job.paths) if job else ""

        def ready(access: "Access") -> None:
            announce(access, fragment, open_browser, as_json)
            if job:
                job.announce = lambda fragment: announce_again(access, fragment, as_json)

        run_server(
            None,
            host=host,
            port=port,
            embed_origin=embed_origin,
            allowed_hosts=tuple(allow_host or ()),
            league=league_file,
            play=job.paths if job else None,
            revive=job.revive if job else lambda paths: None,
            another=job.another if job else None,
            ready=ready,
        )


def watch(
    what: Annotated[
        str, argument("RUN|MATCH|FILE", "A run (its newest match), a match id, or a replay file.", complete_matches)
    ] = "",
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    allow_host: AllowHostOption = None,
    league: LeagueOption = None,
    demo: Annotated[bool, option("--demo", "Open the match of the champion that Echelon comes with.")] = False,
    follow: Annotated[bool, option("--follow", "Switch to each newer match of the run as it appears.")] = False,
    open_browser: OpenOption = None,
    as_json: options.Json = False,
) -> None:
    """Open a match, or the newest one of a run, in the browser. --league alone opens the league."""
    from echelon.server.app import running_server
    from echelon.server.app import serve as run_server

    if demo:
        if what or follow or league:
            raise typer.BadParameter("--demo opens one match, expected no run, match, file, --follow or --league")
        what = str(champion.MATCH)
    shown = find_league(league)
    opened = browser_here() if open_browser is None else open_browser
    with ExitStack() as stack:
        if what.endswith(SUFFIX) and Path(what).is_file():
            home, fragment = stack.enter_context(temporary_home(Path(what)))
        else:
            home = shown.parent if shown and not what else home_of(what)
            fragment = "#league" if shown and not what else fragment_of(what or "latest", follow)
        is_usual = host == "127.0.0.1" and not (port or home or shown or allow_host)
        if is_usual and (found := running_server(None)) is not None:
            show_address(found + fragment, opened, as_json)
            return
        run_server(
            home,
            host=host,
            port=port,
            allowed_hosts=tuple(allow_host or ()),
            league=shown,
            ready=lambda access: announce(access, fragment, opened, as_json),
        )


@contextmanager
def temporary_home(file: Path) -> Iterator[tuple[Path, str]]:
    """Copy a replay with its world into a temporary runs folder; yield the folder and the URL fragment."""
    from echelon.replay.embed import embed_world
    from echelon.replay.reader import Replay

    with Replay(file) as replay:
        data = embed_world(replay)
    with tempfile.TemporaryDirectory(prefix="echelon-watch-") as folder:
        replays = Path(folder) / OPENED / "replays"
        replays.mkdir(parents=True)
        (replays.parent / "spec.json").write_text("{}", encoding="utf-8")
        (replays / file.name).write_bytes(data)
        yield Path(folder), f"#match={match_id(OPENED, file.name)}"


def find_league(given: Path | None) -> Path | None:
    """Return the file of ``--league``; ``StoreError`` in one line if it is missing or unreadable."""
    from echelon.arena.store import Store, league_path

    if given is None:
        return None
    path = (league_path(given) if given.is_dir() else given).resolve()
    Store(path, read_only=True).close()
    return path


def fragment_of(what: str, follow: bool) -> str:
    """Return the URL fragment that opens ``what``; ``follow`` selects the newest match of a run continuously."""
    if follow:
        return f"#newest={quote(find_run(what).id)}"
    file = find_replay(what)
    return f"#match={match_id(file.parent.parent.name, file.name)}"


def browser_here() -> bool:
    """Return whether a browser can open on the user's own screen."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def announce(access: "Access", fragment: str, opened: bool, as_json: bool) -> None:
    """Print the address of a server that listens, and open a browser if requested."""
    from echelon.server.app import address

    here = address(access, fragment, here=True)
    show_address(here, opened, as_json, elsewhere=address(access, fragment))
    if not as_json:
        output.print_line("Ctrl-C stops the server.", style="dim")


def announce_again(access: "Access", fragment: str, as_json: bool) -> None:
    """Print the address that joins the session which took the place of a crashed one, in one line."""
    from echelon.server.app import address

    url = address(access, fragment)
    if as_json:
        output.show_json({"url": url}, indent=None)
    else:
        output.print_line(f"the play session has crashed, another one was started: {url}")


def show_address(url: str, opened: bool, as_json: bool, *, elsewhere: str = "") -> None:
    """Print the address, over SSH with the tunnel command, and open a browser if requested.

    ``elsewhere`` is the address for other machines.
    """
    tunnel, elsewhere = tunnel_to(url), elsewhere or url
    if as_json:
        output.show_json({"url": elsewhere, "tunnel": tunnel}, indent=None)
    else:
        if tunnel:
            output.print_line("first, on your own machine, with the host and port by which you log in:")
            output.print_line(tunnel)
            output.print_line("then open there:")
        output.print_line(url, style="bold")
        if elsewhere != url:
            output.print_line("from other machines:")
            output.print_line(elsewhere, style="bold")
    if opened:
        webbrowser.open(url)


def tunnel_to(url: str) -> str:
    """Return the ssh command that forwards a loopback address; empty when not over SSH."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    parts = urlsplit(url)
    if len(connection) < 4 or parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        return ""
    server, sshd = connection[2:4]
    if "%" in server or server == "UNKNOWN":  # an address within one link, and that of a connection without one
        server = socket.gethostname()
    bound = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = () if sshd in ("22", "65535") else ("-p", sshd)
    forward = f"{parts.port}:{bound}:{parts.port}"
    return shlex.join(("ssh", *port, "-L", forward, f"{getpass.getuser()}@{server}"))
