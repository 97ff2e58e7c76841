"""``echelon arena``: the league: play rounds in the background, see who is how strong, and who beats whom.

What only looks at the league loads neither torch nor Warp.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from echelon_cli import arena_job, output
from echelon_cli.arena_job import entry_named, open_league
from echelon_cli.devices import require_device
from echelon_cli.options import JsonFlag, PresetOption, SetOption, complete_runs

if TYPE_CHECKING:
    from echelon_cli.follow import Follower

app = typer.Typer(
    help="The league: rounds between policies and scripted levels, and their ratings.", no_args_is_help=True
)
SHOWN = 20
"""Matches listed unless told otherwise."""
MOST = 2**63 - 1
"""SQLite counts no further."""


def complete_entries(incomplete: str) -> list[str]:
    """Return the names of entries that begin with what was typed so far."""
    from echelon.arena.standings import entry_names
    from echelon.arena.store import StoreError

    try:
        with open_league(read_only=True) as store:
            return [name for name in entry_names(store).values() if name.startswith(incomplete)]
    except StoreError:
        return []


EntryArgument = Annotated[
    str, typer.Argument(metavar="ENTRY", help="Name, level, id, or part of one.", autocompletion=complete_entries)
]
RetiredFlag = Annotated[bool, typer.Option("--retired", help="Show the retired as well.")]


@app.command("run")
def run(
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds to play; each is a rating period.")] = 1,
    scheme: Annotated[
        str, typer.Option("--scheme", metavar="round-robin|skill", help="Who meets whom.")
    ] = "round-robin",
    seeds: Annotated[
        int, typer.Option("--seeds", help="Seeds on which two meet in a round, each from both sides.")
    ] = 4,
    opponents: Annotated[int, typer.Option("--opponents", help="Opponents each draws in scheme skill.")] = 3,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ENTRY", help="Only matches of this entry.", autocompletion=complete_entries),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of pairs, maps and battles; a new one by default.")
    ] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Policies draw actions instead of the mean.")
    ] = False,
    record: Annotated[float, typer.Option("--record", metavar="SHARE", help="Share of the matches to keep.")] = 0.0,
    upsets: Annotated[int, typer.Option("--upsets", help="Most surprising matches of a round to keep.")] = 4,
    promote: Annotated[int, typer.Option("--promote", help="Candidates among the first so many rise; 0 none.")] = 0,
    conservatism: Annotated[
        float, typer.Option("--conservatism", help="Deviations below its rating that a candidate ranks by.")
    ] = 2.0,
    age_idle: Annotated[bool, typer.Option("--age-idle", help="Make who does not play less certain.")] = False,
    envs: Annotated[int, typer.Option("--envs", help="Matches played at a time.")] = 64,
    device: Annotated[str, typer.Option("--device", help="Where to play.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", help="Threads of a process; 0 takes every core.")] = 0,
    nproc: Annotated[
        int,
        typer.Option("--nproc", min=1, max=1024, help="Processes that share the matches."),
    ] = 1,
    preset: PresetOption = None,
    assignments: SetOption = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with a job.", autocompletion=complete_runs)
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it plays.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Play rounds of the league in the background and follow them; Ctrl-C leaves them playing.

    Preset and --set choose the game of a league that has none yet.
    """
    if resume is not None:
        return _followed(arena_job.again(resume, as_json), detach)
    require_device(device)
    dials = {"rounds": rounds, "scheme": scheme, "seeds": seeds, "opponents": opponents, "seed": seed}
    dials |= {"deterministic": not stochastic, "envs": envs, "device": device, "threads": threads, "age_idle": age_idle}
    dials |= {"record_share": record, "most_upsets": upsets, "promote_top": promote, "conservatism": conservatism}
    game = arena_job.game(preset, assignments)
    with open_league(create=True) as store:
        follower = arena_job.start(store, dials, only or (), game, nproc, as_json)
    return _followed(follower, detach)


def _followed(follower: Follower, detach: bool) -> int:
    """Follow a job, and show the standings once it is done."""
    status, code = arena_job.follow(follower, detach)
    if status is not None and status.state == "completed" and not follower.as_json:
        standings()
    return code


@app.command("standings")
def standings(retired: RetiredFlag = False, as_json: JsonFlag = False) -> int:
    """Show everybody's rating with its doubt; the scripted level medium stands at 1500."""
    from echelon.arena.standings import standings as read_standings
    from echelon.arena.standings import unfinished_rounds
    from echelon_cli import arena_tables

    with open_league(read_only=True) as store:
        found = {"entries": read_standings(store, retired=retired), "unfinished": unfinished_rounds(store)}
    if as_json:
        output.show_json(found)
    else:
        arena_tables.show_standings(found)
    return output.DONE


@app.command("entries")
def entries(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[ENTRY]", help="One entry, with its history.", autocompletion=complete_entries),
    ] = None,
    retired: RetiredFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Show how everybody behaves, or all about one entry."""
    from echelon.arena.behaviour import style_means
    from echelon.arena.standings import rating_history, style_sums
    from echelon.arena.standings import standings as read_standings
    from echelon_cli import arena_tables

    with open_league(read_only=True) as store:
        rows = [
            {**row, "style": style_means(style_sums(store, row["id"]))} for row in read_standings(store, retired=True)
        ]
        if name is not None:
            wanted = entry_named(store, name)
            row = next(row for row in rows if row["id"] == wanted)
            row["history"] = rating_history(store, wanted)
    if name is not None:
        output.show_json(row) if as_json else arena_tables.show_entry(row)
    else:
        rows = [row for row in rows if retired or row["kind"] != "retired"]
        output.show_json(rows) if as_json else arena_tables.show_entries(rows)
    return output.DONE


@app.command("matches")
def matches(
    entry: Annotated[
        str | None, typer.Option("--entry", metavar="ENTRY", help="Only of one.", autocompletion=complete_entries)
    ] = None,
    recorded: Annotated[bool, typer.Option("--recorded", help="Only those with a replay.")] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=0, max=MOST, help="The newest so many; 0 shows all.")
    ] = SHOWN,
    as_json: JsonFlag = False,
) -> int:
    """List matches, the newest first, and what to call to watch one."""
    from echelon.arena.standings import matches as read_matches
    from echelon_cli import arena_tables

    with open_league(read_only=True) as store:
        wanted = entry_named(store, entry) if entry else ""
        found = read_matches(store, entry=wanted, recorded=recorded, limit=limit)
    output.show_json(found) if as_json else arena_tables.show_matches(found)
    return output.DONE


@app.command("head-to-head")
def head_to_head(retired: RetiredFlag = False, as_json: JsonFlag = False) -> int:
    """Show who beats whom, and rings in which each beats the next."""
    from echelon.arena.standings import head_to_head as read_pairs
    from echelon_cli import arena_tables

    with open_league(read_only=True) as store:
        found = read_pairs(store, retired=retired)
    output.show_json(found) if as_json else arena_tables.show_pairs(found)
    return output.DONE


@app.command("add")
def add(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|CHECKPOINT|LEVEL...", help="Policies or scripted levels.", autocompletion=complete_runs
        ),
    ],
    kind: Annotated[str, typer.Option("--kind", help="candidate, commander or exploiter.")] = "candidate",
    label: Annotated[str, typer.Option("--label", help="What to call it.")] = "",
    target: Annotated[
        str, typer.Option("--target", metavar="ENTRY", help="Whom an exploiter was trained against.")
    ] = "",
    as_json: JsonFlag = False,
) -> int:
    """Add policies or scripted levels; the first policy decides which game the league plays."""
    from echelon.arena.bootstrap import SCRIPTED_LEVELS, add_level

    added = []
    with open_league(create=True) as store:
        against = entry_named(store, target) if target else ""
        for name in what:
            level = name.removeprefix("heuristic:")
            if level in SCRIPTED_LEVELS and not Path(name).exists():
                added.append(add_level(store, level))
                continue
            from echelon.arena.submit import submit

            added.append(submit(store, _policy(name, SCRIPTED_LEVELS), kind=kind, label=label, target=against))
    rows = [{"id": e.entry_id, "name": e.name, "kind": e.kind, "path": e.ckpt_path} for e in added]
    output.show_json(rows) if as_json else output.show_table(
        ("name", "kind", "path"), [list(r.values())[1:] for r in rows]
    )
    return output.DONE


def _policy(name: str, levels: Sequence[str]) -> Path:
    """Return where the policy of a run or checkpoint lies; the nearest level is named where there is none."""
    from echelon.jobs.config_layers import did_you_mean
    from echelon.runs import RunNotFoundError
    from echelon_cli.commands.evaluate import find_policy

    try:
        return find_policy(name)
    except RunNotFoundError as error:
        raise RunNotFoundError(f"{error}; no level is called that either{did_you_mean(name, levels)}") from None


@app.command("remove")
def remove(name: EntryArgument, as_json: JsonFlag = False) -> int:
    """Take an entry out; one that has played retires, for others' ratings rest on its matches."""
    with open_league() as store:
        wanted = entry_named(store, name)
        gone = store.plays(wanted) == 0
        with store.editing() as league:
            if gone:
                del league.entries[wanted]
            else:
                league.entries[wanted].kind = "retired"
    done = "removed" if gone else "retired"
    output.show_json({"id": wanted, "done": done}) if as_json else output.say(f"{wanted} {done}")
    return output.DONE


@app.command("retire")
def retire(
    keep: Annotated[int, typer.Option("--keep", min=0, help="Commanders that stay.")] = 20,
    min_games: Annotated[int, typer.Option("--min-games", min=0, help="Games before which nobody retires.")] = 20,
    as_json: JsonFlag = False,
) -> int:
    """Retire the weakest commanders; they stay in the history."""
    with open_league() as store, store.editing() as league:
        gone = [{"id": e.entry_id, "name": e.name} for e in league.retire_commanders(keep, min_games)]
    output.show_json(gone) if as_json else output.say(f"retired: {', '.join(r['name'] for r in gone) or 'nobody'}")
    return output.DONE


@app.command("recompute")
def recompute(as_json: JsonFlag = False) -> int:
    """Replay every match and rate everybody anew; the ratings come out the same unless the file was changed."""
    with open_league() as store:
        changed = {i: {"before": a.as_dict(), "after": b.as_dict()} for i, (a, b) in store.recompute().items()}
        periods = sum(period.closed for period in store.periods())
    if as_json:
        output.show_json({"periods": periods, "changed": changed})
    else:
        output.say(f"rounds replayed: {periods}; ratings that differed: {len(changed)}")
        for name, row in changed.items():
            output.say(f"  {name}: {row['before']['rating']:.1f} was stored, {row['after']['rating']:.1f} is right")
    return output.DONE


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON file to write.")], as_json: JsonFlag = False
) -> int:
    """Write entries and ratings to a JSON file; checkpoints and matches stay where they are."""
    with open_league(read_only=True) as store:
        league = store.league()
    league.save(file)
    said = {"file": str(file), "entries": len(league.entries)}
    output.show_json(said) if as_json else output.say(f"{said['entries']} entries in {said['file']}")
    return output.DONE


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What export wrote.")], as_json: JsonFlag = False
) -> int:
    """Add the entries of a JSON file, with their ratings; those that are here already stay as they are."""
    from echelon.arena.league import League

    try:
        other = League.load(file)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"league file {str(file)!r} holds no league, wanted what 'arena export' writes") from error
    with open_league(create=True) as store, store.editing() as league:
        league.check_signature(other.env_signature)
        fresh = {i: entry for i, entry in other.entries.items() if i not in league.entries}
        league.entries.update(fresh)
        league.env_signature = league.env_signature or other.env_signature
    said = {"added": sorted(fresh), "known": len(other.entries) - len(fresh)}
    output.show_json(said) if as_json else output.say(f"{len(fresh)} entries added, {said['known']} were here already")
    return output.DONE
