"""``echelon arena``: the league: rounds in the background, ratings, behaviour, matches and head-to-head.

Commands that only read the league load neither torch nor Warp.
"""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from echelon.jobs.config_layers import ConfigError
from echelon.jobs.status import JobStatus
from echelon_cli import arena_job, arena_tables, job, options, output
from echelon_cli.arena_job import find_entry_id, open_league
from echelon_cli.devices import require_device
from echelon_cli.foreign_text import completable
from echelon_cli.options import CHOICES, argument, complete_runs, one_of, option
from echelon_cli.players import find_player

if TYPE_CHECKING:
    from echelon_cli.follow import Follower

app = typer.Typer(help="The league: rounds between policies and levels, ratings.", no_args_is_help=True)
DEFAULT_LIMIT = 20
"""Matches listed by default."""
MAX_LIMIT = 2**63 - 1
"""Greatest integer of SQLite."""


def complete_entries(incomplete: str) -> list[str]:
    from echelon.arena.standings import entry_names
    from echelon.arena.store import StoreError

    try:
        with open_league(read_only=True) as store:
            return [name for name in completable(entry_names(store).values()) if name.startswith(incomplete)]
    except StoreError:
        return []


RetiredFlag = Annotated[bool, option("--retired", "Include retired entries, which play no more.")]


@app.command("run")
def run(
    rounds: Annotated[int, option("--rounds", "Rounds to play; each is one rating period.")] = 1,
    scheme: Annotated[
        str,
        option(
            "--scheme", "Pairs of a round: all, or similar ratings.", "round-robin|skill", one_of(*CHOICES["scheme"])
        ),
    ] = "round-robin",
    seeds: Annotated[int, option("--seeds", "Seeds per pair and round, each played from both sides.")] = 4,
    opponents: Annotated[int, option("--opponents-per-entry", "Opponents of each entry in scheme skill.")] = 3,
    only: Annotated[
        list[str] | None,
        option("--only", "Play only matches of this entry; may be repeated.", "ENTRY", complete_entries),
    ] = None,
    seed: Annotated[int | None, option("--seed", "Seed of pairs, maps and battles; default: a new one.")] = None,
    stochastic: Annotated[bool, option("--stochastic", "Sample actions instead of taking the mean.")] = False,
    record: Annotated[float, option("--record-share", "Fraction of the matches to record, 0 to 1.")] = 0.0,
    upsets: Annotated[int, option("--upsets", "Upsets (wins of the weaker) to record per round.")] = 4,
    promote: Annotated[int, option("--promote", "Promote candidates ranked in the top N; 0: none.")] = 0,
    conservatism: Annotated[float, option("--conservatism", "Rank candidates by rating - k deviations; k [1].")] = 2.0,
    age_idle: Annotated[bool, option("--age-idle", "Increase the rating deviation of idle entries.")] = False,
    envs: Annotated[int, option("--envs", "Matches played in parallel.")] = 64,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    nproc: Annotated[int, option("--nproc", "Processes that play; with --launcher, its hosts.", min=1, max=1024)] = 1,
    launcher: options.Launcher = None,
    preset: options.GamePreset = None,
    assignments: options.Set = None,
    resume: Annotated[str | None, option("--resume", "Resume a stopped or crashed job.", "RUN", complete_runs)] = None,
    detach: options.Detach = False,
    queue: options.Queue = False,
    notify: options.Notify = None,
    as_json: options.Json = False,
) -> int:
    """Play rounds of the league and follow them. They continue in the background; Ctrl-C detaches.

    --preset and --set choose the game of a new league.
    """
    if resume is not None and queue:
        raise typer.BadParameter("--queue takes new jobs only; drop --resume")
    if resume is not None:
        return _followed(arena_job.resume(resume, as_json), detach, as_json)
    if launcher is None:
        require_device(device)
    fields = {"rounds": rounds, "scheme": scheme, "seeds": seeds, "opponents": opponents, "seed": seed}
    fields |= {
        "deterministic": not stochastic,
        "envs": envs,
        "device": device,
        "threads": threads,
        "age_idle": age_idle,
    }
    fields |= {"record_share": record, "most_upsets": upsets, "promote_top": promote, "conservatism": conservatism}
    if launcher is not None:
        fields |= {"launcher": launcher, "hosts": nproc}
        nproc = 1
    game = arena_job.game(preset, assignments)
    with open_league(create=True) as store:
        follower = arena_job.start(store, fields, only or (), game, nproc, as_json, queue=queue, notify=notify or ())
    return _followed(follower, detach, as_json)


def _followed(follower: "Follower | None", detach: bool, as_json: bool) -> int:
    """Follow a job, and print the ratings when it has completed."""
    from echelon_cli.follow import show_next_steps

    def show(status: JobStatus) -> None:
        if status.state == "completed":
            standings()
        else:
            show_next_steps(status)

    return output.DONE if follower is None else job.follow(follower, detach, show, as_json=as_json)


@app.command("standings")
def standings(
    name: Annotated[str | None, argument("[ENTRY]", "One entry, with its history.", complete_entries)] = None,
    behaviour: Annotated[bool, option("--behaviour", "Show the behaviour of the entries.")] = False,
    retired: RetiredFlag = False,
    as_json: options.Json = False,
) -> None:
    """Show ratings with 95 % intervals. The scripted level medium is fixed at 1500."""
    from echelon.arena.behaviour import style_means
    from echelon.arena.standings import rating_history, style_sums, unfinished_rounds
    from echelon.arena.standings import standings as read_standings

    with open_league(read_only=True) as store:
        entry_id = find_entry_id(store, name) if name is not None else None
        rows = read_standings(store, retired=retired or name is not None)
        if name is None and not behaviour:
            found = {"entries": rows, "unfinished": unfinished_rounds(store)}
            output.show_json(found) if as_json else arena_tables.show_standings(found)
            return
        chosen = [
            {**row, "style": style_means(style_sums(store, row["id"]))} for row in rows if entry_id in (None, row["id"])
        ]
        history = rating_history(store, entry_id) if entry_id is not None else []
    if entry_id is not None:
        entry = {**chosen[0], "history": history}
        output.show_json(entry) if as_json else arena_tables.show_entry(entry)
    else:
        output.show_json(chosen) if as_json else arena_tables.show_entries(chosen)


@app.command("matches")
def matches(
    entry: Annotated[str | None, option("--entry", "Only matches of this entry.", "ENTRY", complete_entries)] = None,
    recorded: Annotated[bool, option("--recorded", "Only matches with a replay.")] = False,
    limit: Annotated[
        int, option("--limit", "Number of matches, newest first; 0: all.", short="-n", min=0, max=MAX_LIMIT)
    ] = DEFAULT_LIMIT,
    as_json: options.Json = False,
) -> None:
    """List matches, newest first, with the command to watch one."""
    from echelon.arena.standings import matches as read_matches

    with open_league(read_only=True) as store:
        entry_id = find_entry_id(store, entry) if entry else ""
        found = read_matches(store, entry=entry_id, recorded=recorded, limit=limit)
    output.show_json(found) if as_json else arena_tables.show_matches(found)


@app.command("head-to-head")
def head_to_head(retired: RetiredFlag = False, as_json: options.Json = False) -> None:
    """Show scores between entries with intervals. Nash equilibrium, alpha-rank and cycles of three follow."""
    from echelon.arena.metagame import cross_play

    with open_league(read_only=True) as store:
        found = cross_play(store, retired=retired)
    output.show_json(found) if as_json else arena_tables.show_pairs(found)


@app.command("add")
def add(
    what: Annotated[
        list[str],
        argument("RUN|CHECKPOINT|LEVEL|FILE", "Policies, levels, or one .json file of arena export.", complete_runs),
    ],
    kind: Annotated[
        str,
        option(
            "--kind", "Kind of entries.", "candidate|commander|exploiter", one_of("candidate", "commander", "exploiter")
        ),
    ] = "candidate",
    label: Annotated[str, option("--label", "Display name of the entry; default: the policy's.", "NAME")] = "",
    target: Annotated[str, option("--target", "Entry that an exploiter attacks.", "ENTRY", complete_entries)] = "",
    as_json: options.Json = False,
) -> None:
    """Add policies, scripted levels or an exported league. The first policy fixes the game of the league."""
    from echelon.arena.store import add_level

    if len(what) == 1 and what[0].endswith(".json"):
        return _import(Path(what[0]), as_json)
    players, added = [find_player(name) for name in what], []
    if led := [player.title for player in players if player.commander]:
        raise ConfigError(f"entry {led[0]!r} has a commander, expected a policy or a level; a league runs no code")
    with open_league(create=True) as store:
        against = find_entry_id(store, target) if target else ""
        for player in players:
            if player.path is None:
                added.append(add_level(store, player.name))
                continue
            from echelon.arena.submit import submit

            added.append(submit(store, player.path, kind=kind, label=label, target=against))
    rows = [{"id": e.entry_id, "name": e.name, "kind": e.kind, "path": e.ckpt_path} for e in added]
    output.show_json(rows) if as_json else output.show_table(
        ("name", "kind", "path"), [list(r.values())[1:] for r in rows]
    )


@app.command("edit")
def edit(
    remove: Annotated[
        str | None,
        option("--remove", "Remove an entry; one that has played is retired instead.", "ENTRY", complete_entries),
    ] = None,
    keep: Annotated[int | None, option("--keep", "Keep the N best commanders; default: all.", min=0)] = None,
    min_games: Annotated[int, option("--min-games", "Games of a commander before --keep retires it.", min=0)] = 20,
    recompute: Annotated[bool, option("--recompute", "Compute ratings again from the matches; show changes.")] = False,
    as_json: options.Json = False,
) -> None:
    """Remove or retire entries, or compute the ratings again."""
    if (remove is not None) + (keep is not None) + recompute != 1:
        raise typer.BadParameter("expected one of --remove, --keep and --recompute")
    if remove is not None:
        _remove(remove, as_json)
    elif recompute:
        _recompute(as_json)
    else:
        _retire(keep or 0, min_games, as_json)


def _remove(name: str, as_json: bool) -> None:
    from echelon.arena.store import FOLDER

    with open_league() as store:
        entry_id = find_entry_id(store, name)
        unplayed = store.plays(entry_id) == 0
        with store.editing() as league:
            if unplayed:
                file = Path(league.entries.pop(entry_id).ckpt_path)
            else:
                league.entries[entry_id].kind = "retired"
        if unplayed and file.parent == store.path.absolute().parent / FOLDER:
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    done = "removed" if unplayed else "retired"
    output.show_json({"id": entry_id, "done": done}) if as_json else output.print_line(f"{entry_id} {done}")


def _retire(keep: int, min_games: int, as_json: bool) -> None:
    with open_league() as store, store.editing() as league:
        retired = [{"id": e.entry_id, "name": e.name} for e in league.retire_commanders(keep, min_games)]
    output.show_json(retired) if as_json else output.print_line(
        f"retired: {', '.join(r['name'] for r in retired) or 'none'}"
    )


def _recompute(as_json: bool) -> None:
    with open_league() as store:
        changed = {i: {"before": asdict(a), "after": asdict(b)} for i, (a, b) in store.recompute().items()}
        periods = sum(period.closed for period in store.periods())
    if as_json:
        output.show_json({"periods": periods, "changed": changed})
    else:
        output.print_line(f"rounds rated again: {periods}; ratings that differed: {len(changed)}")
        for name, row in changed.items():
            output.print_line(f"  {name}: stored {row['before']['rating']:.1f}, computed {row['after']['rating']:.1f}")


@app.command("export")
def export(file: Annotated[Path, argument("FILE", "JSON file to write.")], as_json: options.Json = False) -> None:
    """Write entries and ratings to a JSON file. Checkpoints and matches are not included."""
    with open_league(read_only=True) as store:
        league = store.league()
    league.save(file)
    written = {"file": str(file), "entries": len(league.entries)}
    output.show_json(written) if as_json else output.print_line(f"{written['entries']} entries in {written['file']}")


def _import(file: Path, as_json: bool) -> None:
    """Add the entries of a file of ``arena export``; entries that the league has are not changed."""
    from echelon.arena.league import League

    try:
        other = League.load(file)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"file {str(file)!r} holds no league, expected one written by 'arena export'") from error
    with open_league(create=True) as store, store.editing() as league:
        league.check_signature(other.env_signature)
        fresh = {i: entry for i, entry in other.entries.items() if i not in league.entries}
        league.entries.update(fresh)
        league.env_signature = league.env_signature or other.env_signature
    result = {"added": sorted(fresh), "known": len(other.entries) - len(fresh)}
    output.show_json(result) if as_json else output.print_line(
        f"{len(fresh)} entries added, {result['known']} already known"
    )
