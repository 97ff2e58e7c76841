"""``echelon sim``: play scripted levels and policies against each other headless, and print tables of the results."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from echelon import champion
from echelon.config import EnvConfig
from echelon.files import atomic_write
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.process import boot_id, identify
from echelon.jobs.spec import new_spec, write_spec
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventMatch
from echelon.telemetry.log import EventLog
from echelon_cli import options, output
from echelon_cli.devices import require_device
from echelon_cli.options import CHOICES, complete_runs, one_of, option
from echelon_cli.players import Player, find_player

if TYPE_CHECKING:
    from echelon.arena.commander import Commander
    from echelon.arena.contest import Contest, MatchResult, MatchSession, Pairing
    from echelon.arena.policy_runner import GroupedPolicyRunner
    from echelon.rl.weights import LoadedPolicy

PILOT = "medium"
MATCHES = 64
FAIRNESS = "path"
RECORD_NONE, RECORD_ALL, RECORD_UPSETS = "none", "all", "upsets"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Sent by Ctrl-C, by the system, and by ``echelon runs stop``."""
HEARTBEAT_S = 2.0
"""Interval between progress files of a run that records [s]."""
RUN_NAME = "sim"
"""Middle part of the id of a run of recorded matches."""


def complete_pilots(incomplete: str) -> list[str]:
    """Return the scripted levels, the champion and the runs that start with ``incomplete``."""
    return [*one_of(*CHOICES["pilot"], champion.NAME)(incomplete), *complete_runs(incomplete)]


PilotOption = Annotated[
    str,
    option(
        "",
        "Pilots of the team: a scripted level, a policy, which samples its actions, or either under a commander.",
        "LEVEL|champion|RUN|CHECKPOINT|ENTRY|commander:FILE.py[:FUNCTION]+PILOT",
        complete_pilots,
    ),
]


def sim(
    blue: PilotOption = PILOT,
    red: PilotOption = PILOT,
    matches: Annotated[int, option("--matches", "Matches to play.", min=1)] = MATCHES,
    packs: options.Packs = None,
    size: Annotated[int | None, option("--size", "Map edge [vox]; default: the game's.")] = None,
    height: options.Height = None,
    seconds: options.Seconds = None,
    fair: options.Ratio = None,
    maps: options.Maps = FAIRNESS,
    seed: Annotated[int, option("--seed", "Seed of the first match and its map.")] = 0,
    weapon_prob: options.Weapon = 1.0,
    swap: Annotated[
        bool | None, option("--swap/--no-swap", "Play every seed from both sides; default: if the levels differ.")
    ] = None,
    record: Annotated[
        str,
        option(
            "--record",
            "Record replays of the first N matches, of all (also without a value), or of upsets.",
            "N|all|upsets",
            one_of("all", "upsets"),
        ),
    ] = RECORD_NONE,
    insight: Annotated[bool, option("--insight", "Add contacts, rewards and probabilities to replays.")] = False,
    envs: Annotated[int | None, option("--envs", "Matches played in parallel; default: 64.", min=1)] = None,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> int:
    """Play levels and policies against each other. Tables show results, endings, classes, weapons and causes of death.

    The game is that of the first policy's training; options change its maps and limits.
    """
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    first = _recorded_first(record, matches)
    players = {name: find_player(name, "pilot") for name in (blue, red)}
    if any(player.path for player in players.values()):
        require_device(device)
    loaded = _load_policies(players, device)
    commanders = _commanders(players, loaded)
    world = {"size_x": size, "size_y": size, "size_z": height, "fairness": maps, "max_distance_ratio": fair}
    env = _environment(loaded, world, {"num_packs": packs, "max_episode_seconds": seconds})
    if commanders.keys() & loaded.keys():
        env = replace(env, observe_orders=True)
    contest, note = _contest(env, (blue, red), players, loaded, matches, seed, weapon_prob, swap)
    require_device(device)
    from echelon.arena.contest import DEFAULT_NUM_ENVS, MatchSession

    with _policy_runner(contest, loaded, threads, insight) as policy_runner:
        session = MatchSession(
            envs=envs or DEFAULT_NUM_ENVS, device=device, threads=threads, policy_columns=insight,
            policy_runner=policy_runner, commanders=commanders,
        )  # fmt: skip
        found = _play(contest, session, first, record == RECORD_UPSETS, quiet=as_json)
        reports = [commander.report() for commander in commanders.values()]
        reports += policy_runner.reports() if policy_runner else []
    found["note"] = "; ".join(filter(None, (note, *reports)))
    if as_json:
        output.show_json(found)
    else:
        from echelon_cli.sim_tables import show_contest

        show_contest(found)
    return output.STOPPED if found["stopped"] else output.DONE


def _recorded_first(record: str, matches: int) -> int:
    if record in (RECORD_NONE, RECORD_UPSETS):
        return 0
    if record == RECORD_ALL:
        return matches
    if not record.isdecimal():
        raise ConfigError(f"record is {record!r}, expected a number, {RECORD_ALL} or {RECORD_UPSETS}")
    return min(int(record), matches)


def _commanders(players: dict[str, Player], loaded: dict[str, LoadedPolicy]) -> dict[str, Commander]:
    """Return the commanders by name of the pilots that they command."""
    found = {name: player.open_commander(getattr(loaded.get(name), "meta", None)) for name, player in players.items()}
    return {name: commander for name, commander in found.items() if commander}


def _load_policies(players: dict[str, Player], device: str) -> dict[str, LoadedPolicy]:
    """Return the loaded policies by name; torch is loaded only for one."""
    paths = {name: player.path for name, player in players.items() if player.path}
    if not paths:
        return {}
    from echelon.rl.weights import load_policy
    from echelon.training.runtime.devices import resolve_device

    return {name: load_policy(path, resolve_device(device)) for name, path in paths.items()}


@contextmanager
def _policy_runner(
    contest: Contest, loaded: dict[str, LoadedPolicy], threads: int, insight: bool
) -> Iterator[GroupedPolicyRunner | None]:
    """Yield what controls the policies' mechs, None without policies."""
    if not loaded:
        yield None
        return
    from echelon.arena.policy_runner import GroupedPolicyRunner
    from echelon.training.runtime.threads import resolve_threads

    with GroupedPolicyRunner(
        plan=contest.plan,
        load=lambda pilot: loaded[pilot.id],
        deterministic=False,
        threads=resolve_threads(threads),
        chances=insight,
    ) as runner:
        yield runner


def _environment(loaded: dict[str, LoadedPolicy], world: dict[str, Any], game: dict[str, Any]) -> EnvConfig:
    """Return the environment of the first policy, else the default one, with the fields replaced that are not None."""
    env = EnvConfig()
    for policy in loaded.values():
        from echelon.training.policy_agent import env_config_of

        env = replace(env_config_of(policy.meta), map_size_range=None, packs_per_team_range=None)
        break
    try:
        changed = replace(env.world, **{key: value for key, value in world.items() if value is not None})
        return replace(env, world=changed, **{key: value for key, value in game.items() if value is not None})
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _contest(
    env: EnvConfig,
    pilots: tuple[str, str],
    players: dict[str, Player],
    loaded: dict[str, LoadedPolicy],
    matches: int,
    seed: int,
    weapon_prob: float,
    swap: bool | None,
) -> tuple[Contest, str]:
    """Return the contest, and a notice for the user or an empty string."""
    from echelon.arena.contest import Contest, Pilot
    from echelon.arena.named_pilots import loaded_pilot
    from echelon.gen.spawn import check_world_fits

    same = pilots[0] == pilots[1]
    swapped = not same if swap is None else swap and not same
    if swapped and matches % 2:
        raise ConfigError(f"matches is {matches}, expected an even number because sides are swapped; try --no-swap")
    note = "both teams have the same pilots, so swapping sides would repeat every match: each seed is played once"
    policies = {
        name: loaded_pilot(name, player.path, loaded[name])
        if player.path
        else Pilot(id=name, label=name, level=player.name)
        for name, player in players.items()
    }
    try:
        check_world_fits(env.world, env.num_packs)
        contest = Contest(
            env=env,
            pilots=pilots,
            policies=policies,
            matches=matches,
            first_seed=seed,
            swap=swapped,
            weapon_prob=weapon_prob,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return contest, note if same and swap else ""


def _play(contest: Contest, session: MatchSession, first: int, upsets: bool, *, quiet: bool) -> dict[str, Any]:
    """Play the contest and return its results; replays go to a separate run folder."""
    from echelon.arena.match_runner import play
    from echelon.arena.results_table import summarise
    from echelon.arena.results_table import upsets as upsets_among

    with ExitStack() as stack:
        stop = stack.enter_context(_interruptible())
        show_progress = stack.enter_context(output.waiting("preparing", quiet=quiet))
        session.on_status, session.should_stop = show_progress, stop
        run: RunPaths | None = None
        if first:
            run = stack.enter_context(_run_folder(contest))
            _record_into(session, run, contest.pairings()[:first])
            session.should_stop = _with_heartbeat(run, stop)
        results = list(play(contest.plan, contest.pairings(), session))
        surprising = upsets_among(results) if upsets and not session.stopped else []
        replays, faults = dict(session.replays), session.recording_errors
        if surprising:
            repeat = replace(
                session,
                replays={},
                recording_errors=[],
                seconds=0.0,
                on_status=lambda text: show_progress(f"recording upsets: {text}"),
            )
            run = stack.enter_context(_run_folder(contest))
            _record_into(repeat, run, [result.pairing for result in surprising])
            repeat.should_stop = _with_heartbeat(run, stop)
            _check_same(surprising, list(play(contest.plan, [result.pairing for result in surprising], repeat)))
            replays, faults = dict(repeat.replays), repeat.recording_errors
        if run is not None:
            _log_matches(run, contest, results, replays)
    found = summarise(contest, results)
    for row in found["rows"]:
        row["replay"] = str(replays.get(row["match"], ""))
    steps = sum(int(result.statistics["stat_steps"].sum()) for result in results)
    seconds = session.seconds
    speed = {"agent_steps": steps, "play_s": seconds, "per_s": steps / seconds if seconds else None}
    fault = "; ".join(faults)
    recorded = {"run": run.id if run else "", "replays": len(replays), "upsets": len(surprising), "fault": fault}
    envs_used = min(session.envs, contest.matches)
    return {**found, **recorded, "stopped": session.stopped, "speed": {**speed, "envs": envs_used}}


@contextmanager
def _interruptible() -> Iterator[Any]:
    """Yield a function that returns whether a stop signal arrived; a second signal has its usual effect."""
    requested = False

    def request(number: int, frame: object) -> None:
        nonlocal requested
        requested = True
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, request) for number in STOP_SIGNALS}
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _run_folder(contest: Contest) -> Iterator[RunPaths]:
    """Yield a run folder for replays that has the state of a running job while matches are played."""
    from echelon.jobs import lock

    run = create_run(RUN_NAME)
    first, second = contest.pilots
    plan = {"matches": contest.matches, "seed": contest.first_seed, "swap": contest.swap}
    config = {"preset": f"{first} : {second}", **plan, "weapon_prob": contest.weapon_prob, "env": asdict(contest.env)}
    write_spec(run, new_spec(RUN_NAME, config, {}))
    handle = lock.acquire(run.lock)
    process = identify(os.getpid())
    atomic_write(run.processes, json.dumps({"supervisor": asdict(process) if process else None}))
    ended = {"code": output.FAILED, "signal": None, "message": "the matches were aborted"}
    try:
        yield run
        ended |= {"code": output.STOPPED if run.stop.exists() else output.DONE, "message": ""}
    finally:
        atomic_write(run.exit, json.dumps(ended))
        if handle is not None:
            os.close(handle)


def _record_into(session: MatchSession, run: RunPaths, pairings: list[Pairing]) -> None:
    session.folder = run.replays
    session.record = frozenset(pairing.number for pairing in pairings)
    session.about = {"run": run.id}


def _with_heartbeat(run: RunPaths, stop: Callable[[], bool]) -> Callable[[], bool]:
    """Return ``stop`` wrapped in a function that also writes the run's progress file every ``HEARTBEAT_S``."""
    last = -math.inf

    def check() -> bool:
        nonlocal last
        now = time.monotonic()
        if now - last > HEARTBEAT_S:
            last = now
            row = {"phase": "playing", "update": 0, "global_step": 0, "monotonic": now, "boot_id": boot_id()}
            atomic_write(run.progress, json.dumps(row) + "\n", durable=False)
        return stop()

    return check


def _check_same(before: list[MatchResult], after: list[MatchResult]) -> None:
    """Assert that repeated matches have the winners of the first time."""
    played = {result.pairing.number: result.record.winner for result in after}
    for result in before:
        number = result.pairing.number
        assert played.get(number, result.record.winner) == result.record.winner, f"match {number} has another winner"


def _log_matches(run: RunPaths, contest: Contest, results: list[MatchResult], replays: dict[int, Any]) -> None:
    """Append an ``EventMatch`` per recorded match to the run's metrics."""
    from echelon.env.referee import WINNERS

    with EventLog(run.metrics) as log:
        for result in sorted(results, key=lambda result: result.pairing.number):
            path = replays.get(result.pairing.number)
            if path is not None:
                blue, red = contest.plan.sides(result.pairing)
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
