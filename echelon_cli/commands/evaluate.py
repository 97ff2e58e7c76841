"""``echelon eval``: evaluate a policy on held-out seeds, every seed from both sides, in the background."""

from typing import Annotated

import typer

from echelon import champion
from echelon.config import LADDER
from echelon_cli import eval_job, options, output
from echelon_cli.devices import require_device
from echelon_cli.options import argument, complete_policies, complete_runs, option
from echelon_cli.players import Player, find_player

SEEDS = 40
SKILL = "medium"
PILOTS = "heuristic:LEVEL|champion|RUN|CHECKPOINT|ENTRY|commander:FILE.py[:FUNCTION]+PILOT"
STAND_IN = "heuristic:expert"
"""Scripted level that controls mechs in the policy's place, and the opponent, where teamwork is measured."""


def evaluate(
    target: Annotated[
        str | None,
        argument(
            PILOTS,
            "A run (its best checkpoint, else its newest), a checkpoint folder, an exported file, a league entry, "
            "the champion, a scripted level, or one of them under a commander.",
            complete_policies,
        ),
    ] = None,
    seeds: Annotated[int, option("--seeds", "Held-out seeds; each is played from both sides.", min=1)] = SEEDS,
    opponent: Annotated[
        str | None,
        option(
            "--opponent", f"Opponent; only champion plays mean actions; default: {SKILL}.", PILOTS, complete_policies
        ),
    ] = None,
    weapon_prob: options.Weapon = 1.0,
    edges: Annotated[
        str | None, option("--size", "Map edge [vox], or several for a matrix; default: that of the training.", "LIST")
    ] = None,
    packs: Annotated[
        str | None,
        option("--packs", "Packs per team, or several for a matrix; default: those of the training.", "LIST"),
    ] = None,
    maps: options.Maps = None,
    stochastic: Annotated[bool, option("--stochastic", "Play sampled actions only, not mean ones before.")] = False,
    ladder: Annotated[
        bool,
        option("--ladder", "Evaluate against every level, trivial to expert, then against champion's mean actions."),
    ] = False,
    teamwork: Annotated[
        bool, option("--teamwork", f"Measure teamwork with mean actions; default of --opponent: {STAND_IN}.")
    ] = False,
    mates: Annotated[
        list[str] | None,
        option("--with", "Play mixed teams with it in --teamwork; repeatable.", PILOTS, complete_policies),
    ] = None,
    record: Annotated[bool, option("--record", "Record a replay of every episode into the run's replays.")] = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    resume: Annotated[
        str | None,
        option("--resume", "Resume a stopped or crashed evaluation after its last match.", "RUN", complete_runs),
    ] = None,
    detach: options.Detach = False,
    queue: options.Queue = False,
    notify: options.Notify = None,
    as_json: options.Json = False,
) -> int:
    """Measure win rates on held-out seeds, each played from both sides.

    It continues in the background; Ctrl-C detaches. Reports mean and sampled actions with 95 % intervals, and adds
    them to the evaluated run.
    """
    if resume is not None and queue:
        raise typer.BadParameter("--queue takes new evaluations only; drop --resume")
    if resume is not None:
        policy = None if target is None else find_player(target)
        follower = eval_job.resume(resume, as_json, policy)
        return eval_job.follow(follower, detach=detach, as_json=as_json) if follower else output.DONE
    if target is None:
        raise typer.BadParameter("policy is missing, expected a run, a checkpoint, a league entry or heuristic:LEVEL")
    from echelon.training.eval_plan import EvalOptions

    require_device(device)
    policy = find_player(target)
    if ladder and (record or opponent):
        raise typer.BadParameter("--ladder plays every level and records nothing; drop --opponent and --record")
    if mates and not teamwork:
        raise typer.BadParameter("--with is given without --teamwork, which plays mixed teams; add it")
    if teamwork and (ladder or record or policy.path is None):
        raise typer.BadParameter("--teamwork takes a policy, not a level; drop --ladder and --record")
    sizes = sizes_of(edges, packs)
    if sizes and (ladder or teamwork or record):
        raise typer.BadParameter("a matrix plays one opponent; drop --ladder, --teamwork and --record")
    size = int(edges) if edges and not sizes else None
    opponents = [opponent_of(opponent or (STAND_IN if teamwork else None))]
    if ladder:
        opponents = [*map(Player, LADDER), *([find_player(champion.NAME)] if policy.path else [])]
    conditions = EvalOptions(
        seeds=seeds, weapon_prob=weapon_prob, size=size, maps=maps, deterministic=not stochastic, device=device,
        threads=threads,
    )  # fmt: skip
    follower = eval_job.start(
        policy, opponents, conditions, ladder=ladder, record=record, queue=queue, notify=notify or (), as_json=as_json,
        mates=[opponent_of(mate, "--with") for mate in (STAND_IN, *(mates or ()))] if teamwork else (),
        sizes=sizes,
    )  # fmt: skip
    if follower is None:
        return output.DONE
    return eval_job.follow(follower, detach=detach, as_json=as_json)


def sizes_of(edges: str | None, packs: str | None) -> list[tuple[int, int]]:
    """Return map edge and packs of each cell of a matrix, 0 for those of the training; none for a single edge."""
    found = []
    for name, text, least, most in (("--size", edges, 20, 200), ("--packs", packs, 1, 20)):
        words = text.split(",") if text is not None else ["0"]
        if text is not None and not all(word.isdecimal() and least <= int(word) <= most for word in words):
            raise typer.BadParameter(
                f"{name} is {text!r}, expected {least} to {most}, or several such as {least},{most}"
            )
        found.append(list(map(int, words)))
    is_matrix = packs is not None or len(found[0]) > 1
    return [(edge, count) for edge in found[0] for count in found[1]] if is_matrix else []


def opponent_of(opponent: str | None, name: str = "--opponent") -> Player:
    """Return the opponent that option ``name`` selects."""
    if opponent == "league":
        raise typer.BadParameter(f"{name} is 'league', expected one of its entries; try echelon arena run for all")
    return find_player(opponent or SKILL, name.removeprefix("--"))
