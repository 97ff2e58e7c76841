"""``echelon sim``: scripted pilots play each other headless, and a table says how it went and why."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.devices import require_device
from echelon_cli.options import JsonFlag

if TYPE_CHECKING:
    from echelon.arena.contest import Contest, MatchResult, MatchSession, Pairing
    from echelon.config import EnvConfig
    from echelon.runs import RunPaths

PILOT = "baseline"
MATCHES = 64
RECORD_NONE, RECORD_ALL, RECORD_UPSETS = "none", "all", "upsets"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Ctrl-C, the system, and ``echelon stop``."""
BEAT_S = 2.0
"""Time between signs of life of a run that records [s]."""
RUN_NAME = "sim"
"""What runs of recorded matches are called, between their time and their two words."""


def complete_pilots(incomplete: str) -> list[str]:
    """Return the pilots that begin with what was typed so far."""
    from echelon.arena.contest import pilot_names

    return [name for name in pilot_names() if name.startswith(incomplete)]


def sim(
    blue: Annotated[str, typer.Option("--blue", help="First pilot.", autocompletion=complete_pilots)] = PILOT,
    red: Annotated[str, typer.Option("--red", help="Second pilot.", autocompletion=complete_pilots)] = PILOT,
    matches: Annotated[int, typer.Option("--matches", min=1, help="Matches to play.")] = MATCHES,
    packs: Annotated[int | None, typer.Option("--packs", help="Packs of five per team.")] = None,
    size: Annotated[int | None, typer.Option("--size", help="Map edge [vox].")] = None,
    height: Annotated[int | None, typer.Option("--height", help="Map height [vox].")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Time limit of a match [s].")] = None,
    fair: Annotated[
        float | None,
        typer.Option("--fair", metavar="RATIO", help="Most that the teams' ways to the zone may differ, as a factor."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the first match and its map.")] = 0,
    weapon_prob: Annotated[
        float, typer.Option("--weapon-prob", min=0.0, max=1.0, help="Trigger probability of both pilots.")
    ] = 1.0,
    swap: Annotated[
        bool | None,
        typer.Option("--swap/--no-swap", help="Play every seed from both sides; by default where pilots differ."),
    ] = None,
    record: Annotated[
        str, typer.Option("--record", metavar="N|all|upsets", help="Keep replays: of the first N, of all, of upsets.")
    ] = RECORD_NONE,
    insight: Annotated[
        bool, typer.Option("--insight", help="Record with each replay what pilots saw, did and were paid.")
    ] = False,
    envs: Annotated[int | None, typer.Option("--envs", min=1, help="Matches played at a time.")] = None,
    device: Annotated[str, typer.Option("--device", help="Where to play.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=0, help="Threads; 0 takes every core.")] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Play scripted pilots against each other and say who wins, how, and with what."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    first = _recorded_first(record, matches)
    contest, note = _contest(
        _environment(packs, size, height, seconds, fair), (blue, red), matches, seed, weapon_prob, swap
    )
    require_device(device)
    found = _play(contest, envs, device, threads, first, record == RECORD_UPSETS, insight=insight, quiet=as_json)
    found["note"] = note
    if as_json:
        output.show_json(found)
    else:
        from echelon_cli.sim_tables import show_contest

        show_contest(found)
    return output.STOPPED if found["stopped"] else output.DONE


def _recorded_first(record: str, matches: int) -> int:
    """Return how many matches are recorded from the first on."""
    from echelon.jobs.config_layers import ConfigError

    if record in (RECORD_NONE, RECORD_UPSETS):
        return 0
    if record == RECORD_ALL:
        return matches
    if not record.isdecimal():
        raise ConfigError(f"record is {record!r}, wanted a number, {RECORD_ALL} or {RECORD_UPSETS}")
    return min(int(record), matches)


def _environment(
    packs: int | None, size: int | None, height: int | None, seconds: float | None, fair: float | None
) -> EnvConfig:
    """Return the game to play, the default one but for what was given."""
    from echelon.config import EnvConfig
    from echelon.jobs.config_layers import ConfigError

    env = EnvConfig()
    world = {"size_x": size, "size_y": size, "size_z": height, "max_distance_ratio": fair}
    game = {"num_packs": packs, "max_episode_seconds": seconds}
    try:
        world = replace(env.world, **{key: value for key, value in world.items() if value is not None})
        return replace(env, world=world, **{key: value for key, value in game.items() if value is not None})
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _contest(
    env: EnvConfig, pilots: tuple[str, str], matches: int, seed: int, weapon_prob: float, swap: bool | None
) -> tuple[Contest, str]:
    """Return the contest, and what the user should know about it."""
    from echelon.arena.contest import PILOT_ALIASES, Contest, pilot_names
    from echelon.gen.spawn import check_world_fits
    from echelon.jobs.config_layers import ConfigError, did_you_mean

    names = pilot_names()
    for name in pilots:
        if name not in names:
            raise ConfigError(f"pilot {name!r} does not exist{did_you_mean(name, names)} (have: {', '.join(names)})")
    same = len({PILOT_ALIASES.get(name, name) for name in pilots}) == 1
    swapped = not same if swap is None else swap and not same
    if swapped and matches % 2:
        raise ConfigError(f"matches is {matches}, wanted an even number, for sides are swapped; or --no-swap")
    note = "both fly the same pilot, so swapped sides would repeat every match: each seed is played once"
    try:
        check_world_fits(env.world, env.num_packs)
        contest = Contest(
            env=env,
            pilots=pilots,
            matches=matches,
            first_seed=seed,
            swap=swapped,
            weapon_prob=weapon_prob,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return contest, note if same and swap else ""


def _play(
    contest: Contest,
    envs: int | None,
    device: str,
    threads: int,
    first: int,
    upsets: bool,
    *,
    insight: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Play the contest and return its table; replays go to a run folder of their own."""
    from echelon.arena.contest import DEFAULT_NUM_ENVS, MatchSession
    from echelon.arena.match_runner import play
    from echelon.arena.results_table import summarise
    from echelon.arena.results_table import upsets as upsets_among

    with ExitStack() as stack:
        stop = stack.enter_context(_interruptible())
        tell = stack.enter_context(output.waiting("preparing", quiet=quiet))
        how = MatchSession(
            envs=envs or DEFAULT_NUM_ENVS, device=device, threads=threads, on_status=tell, should_stop=stop
        )
        how.policy_columns = insight
        run: RunPaths | None = None
        if first:
            run = stack.enter_context(_run_folder(contest))
            _record_into(how, run, contest.pairings()[:first])
            how.should_stop = _beating(run, stop)
        results = list(play(contest, contest.pairings(), how))
        surprising = upsets_among(results) if upsets and not how.stopped else []
        replays, fault = dict(how.replays), how.recording_error
        if surprising:
            again = replace(how, replays={}, seconds=0.0, on_status=lambda text: tell(f"recording upsets: {text}"))
            run = stack.enter_context(_run_folder(contest))
            _record_into(again, run, [result.pairing for result in surprising])
            again.should_stop = _beating(run, stop)
            _check_same(surprising, list(play(contest, [result.pairing for result in surprising], again)))
            replays, fault = dict(again.replays), again.recording_error
        if run is not None:
            _note_matches(run, contest, results, replays)
    found = summarise(contest, results)
    for row in found["rows"]:
        row["replay"] = str(replays.get(row["match"], ""))
    steps = sum(int(result.statistics["stat_steps"].sum()) for result in results)
    speed = {"agent_steps": steps, "play_s": how.seconds, "per_s": steps / how.seconds if how.seconds else None}
    kept = {"run": run.id if run else "", "replays": len(replays), "upsets": len(surprising), "fault": fault}
    return {**found, **kept, "stopped": how.stopped, "speed": {**speed, "envs": min(how.envs, contest.matches)}}


@contextmanager
def _interruptible() -> Iterator[Any]:
    """Give a function that says whether somebody asked for an end; asked again, the program ends as ever."""
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, ask) for number in STOP_SIGNALS}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _run_folder(contest: Contest) -> Iterator[RunPaths]:
    """Give a run folder for replays, alive like a job's while matches are played."""
    from dataclasses import asdict

    from echelon.jobs import lock
    from echelon.jobs.process import identify
    from echelon.jobs.spec import new_spec, write_spec
    from echelon.runs import atomic_write, create_run

    run = create_run(RUN_NAME)
    first, second = contest.pilots
    asked = {"matches": contest.matches, "seed": contest.first_seed, "swap": contest.swap}
    config = {"preset": f"{first} : {second}", **asked, "weapon_prob": contest.weapon_prob, "env": asdict(contest.env)}
    write_spec(run, new_spec(RUN_NAME, config, {}))
    handle = lock.acquire(run.lock)
    who = identify(os.getpid())
    atomic_write(run.processes, json.dumps({"supervisor": who.to_dict() if who else None}))
    ended = {"code": output.FAILED, "signal": None, "message": "the matches were given up"}
    try:
        yield run
        ended |= {"code": output.STOPPED if run.stop.exists() else output.DONE, "message": ""}
    finally:
        atomic_write(run.exit, json.dumps(ended))
        if handle is not None:
            os.close(handle)


def _record_into(how: MatchSession, run: RunPaths, pairings: list[Pairing]) -> None:
    """Have some matches recorded into a run."""
    how.folder = run.replays
    how.record = frozenset(pairing.number for pairing in pairings)
    how.about = {"run": run.id}


def _beating(run: RunPaths, stop: Callable[[], bool]) -> Callable[[], bool]:
    """Return ``stop`` as a function that also shows, now and then, that the run is alive."""
    from echelon.jobs.process import boot_id
    from echelon.runs import atomic_write

    last = -math.inf

    def beat() -> bool:
        nonlocal last
        now = time.monotonic()
        if now - last > BEAT_S:
            last = now
            row = {"phase": "playing", "update": 0, "global_step": 0, "monotonic": now, "boot_id": boot_id()}
            atomic_write(run.progress, json.dumps(row) + "\n", durable=False)
        return stop()

    return beat


def _check_same(before: list[MatchResult], after: list[MatchResult]) -> None:
    """Make sure that matches played again went as they did before."""
    played = {result.pairing.number: result.record.winner for result in after}
    for result in before:
        number = result.pairing.number
        assert played.get(number, result.record.winner) == result.record.winner, f"match {number} went another way"


def _note_matches(run: RunPaths, contest: Contest, results: list[MatchResult], replays: dict[int, Any]) -> None:
    """Write down which matches were recorded, as training does."""
    from echelon.env.referee import WINNERS
    from echelon.telemetry.events import EventMatch
    from echelon.telemetry.log import EventLog

    with EventLog(run.metrics) as log:
        for result in sorted(results, key=lambda result: result.pairing.number):
            path = replays.get(result.pairing.number)
            if path is not None:
                blue, red = contest.sides(result.pairing)
                log.append(
                    EventMatch(
                        update=0,
                        global_step=0,
                        path=f"{path.parent.name}/{path.name}",
                        blue=blue,
                        red=red,
                        winner=WINNERS[result.record.winner],
                        seed=result.pairing.seed,
                    )
                )
