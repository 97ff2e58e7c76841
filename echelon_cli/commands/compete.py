"""``echelon compete``: competitions with proof, each a folder that anyone can check (docs/howto/compete.md)."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon.runs import command as words
from echelon_cli import options, output
from echelon_cli.arena_job import game
from echelon_cli.options import argument, complete_policies, option
from echelon_cli.players import find_player

if TYPE_CHECKING:
    from echelon.arena.competition import Competition

app = typer.Typer(
    help="Competitions: hidden maps, ratings, and a board that anyone can check.", no_args_is_help=True,
    rich_markup_mode=None,
)  # fmt: skip
Folder = Annotated[Path, argument("DIR", "Folder of the competition.")]


def _open(folder: Path) -> "Competition":
    from echelon.arena.competition import Competition

    return Competition.open(folder)


@app.command("init")
def init(
    folder: Folder,
    name: Annotated[str, option("--name", "Name; default: the folder's.")] = "",
    maps: Annotated[int, option("--maps", "Hidden maps; each pair plays all, from both sides.", min=1)] = 10,
    preset: options.GamePreset = None,
    assignments: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Begin a competition: draw the secret of its maps.

    Publish the secret's hash, the commitment, before the first match.
    """
    from echelon.arena.competition import Competition
    from echelon.config import with_fairness

    env = game(preset or "quickstart", assignments)
    assert env is not None
    made = Competition.init(folder, name or folder.absolute().name, with_fairness(env, "path"), maps)
    found = {"folder": str(folder), "commitment": made.rules.commitment}
    if as_json:
        return output.show_json(found)
    output.print_line(f"commitment {made.rules.commitment}; publish it before the first match")
    output.print_line(f"next: {words('compete', 'enter', folder, 'medium', 'expert', 'champion')}")


@app.command("enter")
def enter(
    folder: Folder,
    players: Annotated[
        list[str] | None,
        argument("[PLAYER]...", "Levels, runs, policies, champion or process:COMMAND.", complete_policies),
    ] = None,
    names: Annotated[
        list[str] | None, option("--name", "Name of an entry, repeated for each player; default: the players'.", "NAME")
    ] = None,
    attacks: Annotated[
        str, option("--attacks", "Enter attackers of this entry, which play it only: its red-team score.", "ENTRY")
    ] = "",
    remove: Annotated[list[str] | None, option("--remove", "First remove an entry; repeatable.", "ENTRY")] = None,
    as_json: options.Json = False,
) -> None:
    """Enter players. Policies are copied; the first match fixes the entries."""
    if not players and not remove:
        raise typer.BadParameter("no PLAYER is given, expected at least one, or --remove ENTRY")
    if names and len(names) != len(players or ()):
        raise typer.BadParameter(f"{len(names)} times --name for {len(players or ())} players, expected one for each")
    competition, entered = _open(folder), []
    for gone in remove or ():
        competition.remove(gone)
    for number, word in enumerate(players or ()):
        player = find_player(word)
        if player.commander:
            raise typer.BadParameter(f"player {word!r} has a commander, expected a policy, a level or a program")
        own = player.name if player.path is None or player.is_agent else Path(player.name).name
        called = names[number] if names else f"{own} against {attacks}" if attacks else own
        entered.append(competition.enter(called, "" if player.path else player.name, player.path, attacks))
    if as_json:
        return output.show_json([vars(entry) for entry in entered])
    _show_entries(competition)
    output.print_line(f"next: {words('compete', 'run', folder)}")


def _show_entries(competition: "Competition") -> None:
    output.show_table(
        ("entry", "attacks", "file"),
        [(entry.name, entry.attacks, entry.file or "level") for entry in competition.entries],
    )
    output.print_line(f"matches to play: {len(competition.fixtures())}")


@app.command("run")
def run(
    folder: Folder,
    envs: Annotated[int, option("--envs", "Matches at a time; few where programs play.", min=1)] = 8,
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> int:
    """Play the matches that are left, and write the board.

    Run it again to go on. The secret is revealed after the last match.
    """
    from echelon.web.board import write_board

    competition, stopped = _open(folder), []
    begins = not competition.rules.closed and len(competition.entries) > 1
    if begins and not as_json:
        output.print_line(f"seal {competition.close()}; publish it: rules and entries are fixed now")
    before = signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
    try:
        with output.waiting("preparing", quiet=as_json) as show:
            tell = show if as_json or output.is_interactive() else output.print_line
            finished = competition.run(envs=envs, threads=threads, show=tell, should_stop=lambda: bool(stopped))
    finally:
        signal.signal(signal.SIGINT, before)
    _show(write_board(competition), folder, as_json)
    if finished and not as_json:
        output.print_line(f"anyone checks it: {words('compete', 'verify', folder)}")
    return output.DONE if finished else output.STOPPED


@app.command("board")
def board(folder: Folder, as_json: options.Json = False) -> None:
    """Show ratings and write the page; before the matches show entries."""
    from echelon.web.board import write_board

    competition = _open(folder)
    if competition.rows or as_json:
        return _show(write_board(competition), folder, as_json)
    _show_entries(competition)


def _show(found: dict[str, Any], folder: Path, as_json: bool) -> None:
    from echelon.web.board import interval_text, red_team_text

    if as_json:
        return output.show_json(found)
    rows = sorted(found["entries"], key=lambda row: -row["rating"])
    heads = ("rank", "entry", "rating", "±", "matches", "points", "nash", "alpha-rank")
    cells = [
        (r["rank"], r["name"], f"{r['rating']:.0f}", interval_text(r), r["matches"], f"{r['points']:g}",
         f"{r['nash']:.3f}", f"{r['alpha_rank']:.3f}")
        for r in rows
    ]  # fmt: skip
    if found["attackers"]:
        heads = (*heads, "red team [%]")
        cells = [(*cell, red_team_text(r["red_team"])) for cell, r in zip(cells, rows, strict=True)]
    output.show_table(heads, cells, right=(heads[0], *heads[2:]))
    output.print_line(f"{found['played']} of {found['planned']} matches; the page is {folder / 'index.html'}")


@app.command("verify")
def verify(
    folder: Folder,
    sample: Annotated[
        float, option("--sample", "Share of the matches to play again, 0 to 1; at least 20.", min=0.0, max=1.0)
    ] = 0.05,
    seed: Annotated[int | None, option("--seed", "Chooses these matches; default: at random.")] = None,
    published: Annotated[
        list[str] | None, option("--published", "Hash that the host published: commitment or seal; repeatable.", "HASH")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Check a competition from its folder alone.

    That is rules, entries, plan, recordings, ratings, page, and a sample of the matches, played again.
    """
    from echelon.arena.competition import verify as checks
    from echelon.web.board import files_check, page_fault

    with output.waiting("checking", quiet=as_json) as show:
        competition = _open(folder)
        found = list(checks(competition, sample, seed, show, published or ()))
        found.insert(0, ("page", "index.html and the viewer's list", page_fault(competition)))
        found.insert(1, ("other files", *files_check(competition)))
    faults = [name for name, _, wrong in found if wrong]
    if as_json:
        output.show_json([{"check": name, "found": text, "wrong": wrong} for name, text, wrong in found])
        return bool(faults)
    results = [(name, text, wrong or ("-" if text.startswith("not ") else "ok")) for name, text, wrong in found]
    output.show_table(("check", "found", "result"), results)
    failed = f"{len(faults)} of {len(found)} checks fail: {', '.join(faults)}"
    unchecked = [name for name, _, result in results if result == "-"]
    left = f"; not checked: {', '.join(unchecked)}" if unchecked else ""
    output.print_line(failed if faults else f"what was checked holds{left}")
    return bool(faults)
