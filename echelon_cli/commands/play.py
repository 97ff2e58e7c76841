"""``echelon play``: a match with a human pilot in the browser."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from echelon import champion
from echelon.config.presets import PRESETS
from echelon.jobs.config_layers import ConfigError, did_you_mean
from echelon.runs import RunNotFoundError, find_run
from echelon.validation import validated
from echelon_cli import options
from echelon_cli.commands.serve import AllowHostOption, HostOption, OpenOption, PortOption, announce, browser_here
from echelon_cli.commands.sim import complete_pilots
from echelon_cli.options import CHOICES, argument, one_of, option

if TYPE_CHECKING:
    from echelon.play.config import PlayConfig


def play(
    opponent: Annotated[
        str,
        argument(
            "OPPONENT",
            "A level, champion, a run or a league entry, also as commander:FILE.py[:FUNCTION]+PILOT; "
            "default: the newest run, or medium without one.",
            complete_pilots,
        ),
    ] = "",
    team: Annotated[str, option("--team", "Your team.", "blue|red", one_of("blue", "red"))] = "blue",
    chassis: Annotated[
        str, option("--class", "Mech class; default: the first.", "scout|light|medium|heavy", one_of(*CHOICES["class"]))
    ] = "",
    mates: Annotated[
        str,
        option(
            "--with",
            "Pilots of your team mates; default: the opponent, of --command medium where that is a policy.",
            "POLICY|LEVEL",
            complete_pilots,
        ),
    ] = "",
    preset: options.GamePreset = None,
    size: Annotated[int | None, option("--size", "Map edge [vox]; default: the game's.", min=20)] = None,
    packs: options.Packs = None,
    seconds: options.Seconds = None,
    seed: Annotated[int, option("--seed", "Seed of the match and its map.")] = 0,
    speed: Annotated[float, option("--speed", "Pace of play, 1: real time, 0.5: slow motion.")] = 1.0,
    seats: Annotated[int, option("--seats", "Human pilots; the second one flies for the other team.", min=1)] = 1,
    command: Annotated[bool, option("--command", "Command the whole team from above, flying no mech.")] = False,
    tutorial: Annotated[bool, option("--tutorial", "Practice that waits for you, then the match.")] = False,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    allow_host: AllowHostOption = None,
    open_browser: OpenOption = None,
    as_json: options.Json = False,
) -> None:
    """Fly a mech in the browser, or command a team, against any policy or level. The match is recorded."""
    from echelon.config.opponents import split_commander
    from echelon.server.app import serve as run_server
    from echelon_cli.play_job import fragment_of_session, play_session

    commander, opponent = split_commander(opponent)
    config = _config(
        opponent=_name(opponent),
        commander=commander and str(Path(commander).expanduser().absolute()),
        mates=_name(mates),
        team=team,
        chassis=chassis,
        preset=preset or "",
        size=size,
        packs=packs,
        seconds=seconds,
        seed=seed,
        speed=speed,
        seats=seats,
        command=command,
        tutorial=tutorial,
    )
    opened = browser_here() if open_browser is None else open_browser
    with play_session(config.model_dump(), quiet=as_json) as job:
        fragment = fragment_of_session(job.paths)
        run_server(
            None,
            host=host,
            port=port,
            allowed_hosts=tuple(allow_host or ()),
            play=job.paths,
            ready=lambda access: announce(access, fragment, opened, as_json),
        )


def _config(**given: object) -> "PlayConfig":
    """Return the options of the session; ``ConfigError`` for an unknown class or preset, or a value out of range."""
    from echelon.play.config import PlayConfig

    try:
        config = validated(PlayConfig, given, "play option ")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if config.command and (config.chassis or config.seats > 1 or config.tutorial):
        raise ConfigError("--command flies no mech, expected no --class, --seats and --tutorial beside it")
    for what, name, names in (("class", config.chassis, CHOICES["class"]), ("preset", config.preset, PRESETS)):
        if name and name not in names:
            near = did_you_mean(name, names)
            raise ConfigError(f"{what} {name!r} does not exist{near} (have: {', '.join(names)})")
    return config


def _name(pilot: str) -> str:
    """Return the full name of a pilot: a run may be given by a part of its id; ``ConfigError`` for an unknown one."""
    from echelon.arena.standings import find_entry
    from echelon.arena.store import Store, StoreError, league_path
    from echelon.replay.match_text import STILL

    levels = (*CHOICES["pilot"], STILL, champion.NAME)
    if not pilot or pilot.removeprefix("heuristic:") in levels:
        return pilot
    with contextlib.suppress(RunNotFoundError):
        return find_run(pilot).id
    with contextlib.suppress(StoreError), Store(league_path(), read_only=True) as store:
        return find_entry(store, pilot)
    near = did_you_mean(pilot, levels)
    raise ConfigError(f"pilot {pilot!r} does not exist{near} (have: {', '.join(levels)}, runs and league entries)")
