"""``echelon replay``: list, inspect, export and verify recorded matches."""

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon.files import write_output
from echelon.replay.find import find_replay, home_of
from echelon.replay.match_text import ending_text, match_title, shown_pilots
from echelon.replay.schema import WINNERS, EventKind
from echelon.runs import find_run, require_home, runs_home
from echelon_cli import options, output
from echelon_cli.commands.branch import branch, pilot_finder
from echelon_cli.commands.video import video
from echelon_cli.devices import require_device
from echelon_cli.listing import shown_id
from echelon_cli.matches import MatchArgument
from echelon_cli.options import argument, complete_runs, option
from echelon_cli.output import Column

if TYPE_CHECKING:
    from echelon.arena.verify import VerifyResult
    from echelon.replay.reader import Replay

KILLS_SHOWN = 20
MECHS_SHOWN = 24
"""Most mechs of a team that are listed one by one."""
EXPORTS = (".html", ".ecr")

app = typer.Typer(
    help="List, inspect, export and verify recorded matches.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_matches(
    run: Annotated[str | None, argument("[RUN]", "Only the matches of this run.", complete_runs)] = None,
    as_json: options.Json = False,
) -> None:
    """List recorded matches: live ones first, then newest first."""
    from echelon.server.catalogue import ReplayCatalogue

    if not run:
        require_home()
    run_id = find_run(run).id if run else None
    found = [match.summary for match in ReplayCatalogue(home_of(run or "")).matches() if run_id in (None, match.run)]
    rows = [{**row, "winner": _side(row["winner"])} for row in found]
    if as_json:
        output.show_json(rows)
        return
    if not rows:
        output.print_line(f"no recorded matches in {run_id or runs_home()}; training records some at every evaluation")
        return
    output.show_rows(MATCHES, rows)


MATCHES = (
    Column("match", lambda row: row["id"]),
    Column("run", lambda row: shown_id(row["run"]), whole=True, rank=3),
    Column("file", lambda row: row["file"], rank=4),
    Column("blue", lambda row: row["blue"]),
    Column("red", lambda row: row["red"]),
    Column("result", lambda row: _result(row)),
    Column("score", lambda row: _versus(row["score"]), whole=True, rank=1),
    Column("size", lambda row: output.size(row["bytes"]), right=True, rank=5),
    Column("age", lambda row: output.duration(time.time() - row["created"]), right=True, rank=2),
)


@app.command("info")
def info(
    match: MatchArgument,
    mistakes: Annotated[
        str | None,
        option(
            "--mistakes",
            "Measure the mistakes of a side or mech (loser: of the side that lost), store them in the file, and record "
            "better lines beside it; default: show stored ones.",
            "SIDE|MECH|loser",
        ),
    ] = None,
    seed: Annotated[int, option("--seed", "Seed of the continuations of --mistakes.")] = 0,
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> None:
    """Show a match: teams, figures, kills, turning points, mistakes. Turning point 1 is the most important."""
    from echelon.replay.reader import Replay

    path = find_replay(match)
    if mistakes is not None:
        _coach(path, "" if mistakes == "loser" else mistakes, seed, threads, as_json)
    with Replay(path) as replay:
        line = replay.timeline()
        more = {key: line.get(key, []) for key in ("moments", "win", "coached")}
        found = {**describe(replay), "figures": mech_figures(replay), **more}
    if as_json:
        output.show_json(found)
        return
    output.show_table(("", ""), _rows(found))
    if found["figures"]:
        output.show_rows(FIGURES, figure_rows(found["figures"]), title="")
    if found["kills"]:
        rows = [(f"{kill['time_s']:.1f}s", kill["killer"], kill["killed"]) for kill in found["kills"][:KILLS_SHOWN]]
        output.show_table(("time", "killer", "killed"), rows, right=("time",), title="")
    if found["moments"]:
        rows = [(row["rank"], row["kind"].replace("_", " "), row["caption"]) for row in found["moments"]]
        output.show_table(("rank", "turning point", "moment"), rows, right=("rank",), title="")
    for one in found["coached"]:
        count, of = len(one["mistakes"]), f"mistakes of {one['of']}: {one['tested']} moments tested"
        output.print_line()
        output.print_line(f"{of}, {f'{count} certain' if count else 'nothing is certain'}")
        for mistake in one["mistakes"]:
            output.print_line(mistake["caption"])
            if mistake["file"]:
                output.print_line(f"  better line: {mistake['file']}", style="dim")


def _coach(path: Path, who: str, seed: int, threads: int, quiet: bool) -> None:
    """Measure the mistakes of a side or mech, and store them in the file of the match."""
    from echelon.training.runtime.threads import resolve_threads, thread_environment

    os.environ.update(thread_environment())
    from echelon.arena.coach import cast_of, find_mistakes
    from echelon.config.seeds import require_seed
    from echelon.replay.embed import store_coaching
    from echelon.replay.reader import Replay

    finder = pilot_finder("cpu")
    finder.remedy = "copy its run into the runs folder"
    with Replay(path) as recorded, output.waiting("preparing", quiet=quiet) as show:
        found = find_mistakes(
            recorded,
            cast_of(recorded, finder),
            who,
            seed=require_seed(seed, limit=2**32),
            threads=resolve_threads(threads),
            folder=path.parent,
            run=path.parent.parent.name if path.parent.name == "replays" else "",
            on_progress=lambda done, total, text: show(f"{text}: {done} of {total} continuations"),
        )
    store_coaching(path, found)


FIGURES = (
    Column("mech", lambda row: row["mech"], whole=True),
    Column("class", lambda row: row["class"], rank=2),
    Column("kills", lambda row: f"{row['kills']:.0f}", right=True),
    Column("assists", lambda row: f"{row['assists']:.0f}", right=True, rank=1),
    Column("damage", lambda row: f"{row['damage']:.0f}", right=True),
    Column("taken", lambda row: f"{row['taken']:.0f}", right=True),
    Column("shots", lambda row: f"{row['shots']:.0f}", right=True, rank=3),
    Column("accuracy", lambda row: output.percent(row["accuracy"]), right=True),
    Column("zone", lambda row: f"{row['zone_s']:.0f} s", right=True),
)


@app.command("export")
def export(
    match: MatchArgument,
    out: Annotated[
        Path | None,
        option(
            "--out", "File: .html is a page with viewer, .ecr the replay alone; default: NAME.html.", "FILE", short="-o"
        ),
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Export a match as one HTML page, or as one replay file. Either contains its world."""
    from echelon.replay.embed import embed_world
    from echelon.replay.reader import Replay
    from echelon.server.page import single_page

    path = find_replay(match)
    target = out or Path(f"{path.stem}.html")
    if target.suffix not in EXPORTS:
        raise typer.BadParameter(f"--out is {str(target)!r}, expected a name that ends in {' or '.join(EXPORTS)}")
    if target.exists() and not force:
        raise ValueError(f"file {str(target)!r} already exists; try another --out or --force")
    with Replay(path) as replay:
        data = embed_world(replay)
        title = f"{match_title(replay.header)} · Echelon"
    if target.suffix == ".html":
        data = single_page(data, path.name, title).encode(errors="backslashreplace")
    write_output(target, data)
    if as_json:
        output.show_json({"file": str(target), "bytes": len(data)})
    else:
        output.print_line(f"{target}: {output.size(len(data))}")


@app.command("verify")
def verify_match(
    match: MatchArgument,
    tolerant: Annotated[
        bool, option("--tolerant/--strict", "Compare within bounds instead of bit for bit, for another device.")
    ] = False,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> int:
    """Re-simulate a match from its actions and compare. The first chunk, tick and field that differ are printed."""
    from echelon.arena.verify import verify

    require_device(device)
    path = find_replay(match)
    with output.waiting("simulating", quiet=as_json):
        verdict = verify(path, tolerant=tolerant, device=device)
    if as_json:
        output.show_json({"file": str(path), **asdict(verdict)})
    else:
        output.print_line(_verdict(verdict))
    return output.DONE if verdict.ok else output.FAILED


def _verdict(verdict: "VerifyResult") -> str:
    if verdict.first is None:
        return f"ok ({verdict.mode}): {verdict.chunks} chunks, {verdict.seconds:.1f} s match the recording"
    first = verdict.first
    what = f"{first.field} of {first.mech}" if first.mech else first.field
    values = f": recorded {first.recorded:g}, simulated {first.played:g}" if first.recorded != first.played else ""
    return f"differs ({verdict.mode}): chunk {first.chunk}, tick {first.tick}, {what}{values}"


def describe(replay: "Replay") -> dict[str, Any]:
    """Return the contents of ``replay info`` as plain values."""
    header, line = replay.header, replay.timeline()
    outcome = line["outcome"] or {}
    hz, names = float(header["tick_hz"]), [mech["name"] for mech in header["roster"]]
    kills = [
        {
            "time_s": tick / hz,
            "killer": names[killer] if 0 <= killer < len(names) else "hazard",
            "killed": names[victim] if 0 <= victim < len(names) else "?",
        }
        for tick, kind, killer, victim in line["markers"]
        if kind == EventKind.KILL
    ]
    return {
        "file": str(replay.path),
        "complete": replay.complete,
        "schema": header["schema"],
        "echelon": header.get("echelon", ""),
        "created": header.get("created", 0.0),
        "run": header.get("run", ""),
        "update": header.get("update", 0),
        "teams": [shown_pilots(team["name"], header.get("run", "")) for team in header["teams"]],
        "mechs": sum(bool(mech.get("present", True)) for mech in header["roster"]),
        "map": list(header["world"]["size"]),
        "world": header["world"]["sha256"],
        "seed": header.get("seed", 0),
        "map_seed": header.get("map_seed", 0),
        "seconds": replay.ticks / hz,
        "chunks": len(replay.chunks),
        "bytes": replay.path.stat().st_size,
        "winner": _side(outcome.get("winner", -1)),
        "reason": outcome.get("reason", ""),
        "score": outcome.get("score", []),
        "alive": outcome.get("alive", []),
        "hp": outcome.get("hp", []),
        "kills": kills,
    }


def mech_figures(replay: "Replay") -> list[dict[str, Any]]:
    """Return the figures of each mech at the end of a match, as the viewer's scoreboard shows them."""
    from echelon.replay.figures import accuracy, figures_at

    header, found, rows = replay.header, figures_at(replay), []
    classes = dict(enumerate(spec["name"] for spec in header["chassis"]))
    for mech, entry in enumerate(header["roster"]):
        if not entry["present"]:
            continue
        values = {name: round(float(column[mech]), 2) for name, column in found.items()}
        place = {"mech": entry["name"], "team": WINNERS[entry["team"]], "pack": entry["pack"]}
        kind = classes.get(entry["chassis"], "?")
        rows.append({**place, "class": kind, **values, "accuracy": accuracy(values["hits"], values["shots"])})
    return rows


def figure_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table of figures: mechs below the sum of their team, in large battles the sums of packs."""
    from echelon.replay.figures import FIGURES, accuracy

    def total(name: str, part: list[dict[str, Any]]) -> dict[str, Any]:
        sums = {figure: sum(row[figure] for row in part) for figure in FIGURES}
        return {"mech": name, "class": f"{len(part)} mechs", **sums, "accuracy": accuracy(sums["hits"], sums["shots"])}

    shown = []
    for side in WINNERS[:2]:
        team = [row for row in rows if row["team"] == side]
        packs = sorted({row["pack"] for row in team})
        parts = [total(f"pack {n + 1}", [row for row in team if row["pack"] == pack]) for n, pack in enumerate(packs)]
        shown += [total(side, team), *(team if len(team) <= MECHS_SHOWN else parts)] if team else []
    return shown


def _rows(found: dict[str, Any]) -> list[tuple[str, object]]:
    x, y, z = found["map"]
    blue, red = found["teams"]
    state = "complete" if found["complete"] else "incomplete: live or truncated; plays to its last chunk"
    return [
        ("file", found["file"]),
        ("state", state),
        ("blue, red", f"{blue}, {red}"),
        ("result", _result(found)),
        ("score", _versus(found["score"])),
        ("alive", _versus(found["alive"])),
        ("hit points", _versus(found["hp"])),
        ("length", f"{output.duration(found['seconds'])} in {found['chunks']} chunks, {output.size(found['bytes'])}"),
        ("mechs, map", f"{found['mechs']}, {x}x{y}x{z}"),
        ("seed", f"{found['seed']}, map {found['map_seed']}"),
        ("run", f"{found['run'] or '-'} at update {found['update']}"),
        ("recorded", output.local_time(found["created"])),
        ("by", f"Echelon {found['echelon']}, schema {'.'.join(map(str, found['schema']))}"),
        ("world", found["world"]),
    ]


def _result(row: dict[str, Any]) -> str:
    if row.get("live"):
        return "live"
    if not row["complete"]:
        return "truncated"
    winner, reason = row["winner"], ending_text(row["reason"])
    return f"{winner} ({reason})" if reason else winner or "unfinished"


def _side(winner: int) -> str:
    return WINNERS[winner] if 0 <= winner < len(WINNERS) else ""


def _versus(pair: list[float]) -> str:
    return " : ".join(f"{value:g}" for value in pair) if pair else "-"


app.command("branch")(branch)
app.command("video")(video)
