"""Evaluation jobs of ``echelon eval``: prepare, start, resume and follow them, and read their results."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon import champion
from echelon.jobs.config_layers import ConfigError
from echelon.jobs.spec import new_spec
from echelon.jobs.status import JobStatus
from echelon.runs import RunPaths, command, create_run, read_json
from echelon.state_files import parse_json, read_bounded
from echelon_cli import job, output
from echelon_cli.options import usage_errors
from echelon_cli.players import Player

if TYPE_CHECKING:
    from echelon.training.eval_plan import EvalOptions, EvalPlan
    from echelon_cli.follow import Follower

POLICY, OPPONENT_POLICY = "policy", "opponent"
"""Copies of the policies in the job's folder, files or folders."""
MAX_RESULT_BYTES = 64 << 20
"""Size above which a result counts as damaged; 10,000 matches have some 300 KiB."""


def start(
    target: Player,
    opponents: list[Player],
    options: EvalOptions,
    *,
    ladder: bool = False,
    record: bool = False,
    queue: bool = False,
    notify: Sequence[str] = (),
    as_json: bool = False,
    mates: Sequence[Player] = (),
    sizes: Sequence[tuple[int, int]] = (),
) -> Follower | None:
    """Start a job that evaluates ``target`` and return a follower.

    At most one opponent is a policy. With ``mates`` teamwork is measured; ``sizes`` are edge and packs of each cell of
    a matrix, 0 for those of the training. With ``queue`` the job is queued, and None is returned. ``ValueError`` where
    a policy cannot be read; then no folder is left.
    """
    from echelon.gen.spawn import check_world_fits
    from echelon.jobs.evaluations import copy_commander, open_policy
    from echelon.jobs.observers import requested, write_observers
    from echelon.jobs.tickets import resolved_device
    from echelon.training.eval_plan import (
        EvalPlan,
        GameSize,
        batch_seeds,
        check_interfaces,
        environment_of,
        scripted_meta,
    )

    with usage_errors():
        observers = requested(notify)
    policy = open_policy(target.path) if target.path else None
    opponent = next((opponent for opponent in opponents if opponent.path), None)
    other = open_policy(opponent.path) if opponent and opponent.path else None
    meta, source = policy.meta if policy else {}, policy or other
    played = source.meta if source else scripted_meta()
    with usage_errors():
        env = environment_of(played, options.size, options.maps)
        games = [
            environment_of(played, edge or env.world.size_x, options.maps, packs or env.num_packs)
            for edge, packs in sizes
        ]
        for game in games:
            check_world_fits(game.world, game.num_packs)
    device = resolved_device(options.device)
    if opponent is not None and other is not None and policy is not None:
        try:
            check_interfaces(meta, other.meta, str(target.path), opponent.name, "opponent")
        except ValueError as error:
            if not ladder:
                raise
            # the scripted levels are a yardstick without it
            if not as_json:
                output.print_line(f"{opponent.name} is omitted: {error}", style="dim")
            opponents, opponent, other = [each for each in opponents if each.path is None], None, None
    others = {mate.title: open_policy(mate.path) for mate in mates if mate.path}
    for name, source in others.items():
        check_interfaces(meta, source.meta, str(target.path), name, "--with")
    # the result of a policy under a commander says nothing about the run
    home = run_of(target.path) if target.path and not target.commander else None
    evaluated = target if target.is_agent else replace(target, name=str(target.path or target.name))
    sources = {opponent.title if opponent else "": other, **others, evaluated.title: policy}
    led = {player.title: player for player in (evaluated, *opponents, *mates) if player.commander}
    for title, player in led.items():
        player.open_commander(getattr(sources.get(title), "meta", None))
    plan = EvalPlan(
        **asdict(options),
        target=evaluated.title,
        policy=POLICY if policy else "",
        opponents=tuple(opponent.title for opponent in opponents),
        opponent_policy=OPPONENT_POLICY if other else "",
        opponent_mean=opponent is not None and opponent.is_mean,
        ladder=ladder,
        mates=tuple(dict.fromkeys(mate.title for mate in mates)),
        batch_seeds=batch_seeds(env, device),
        games=tuple(
            GameSize(edge=game.world.size_x, packs=game.num_packs, batch_seeds=batch_seeds(game, device))
            for game in games
        ),
        run=str(home.absolute()) if home else "",
        replay_prefix=f"eval-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-u{int(meta.get('update', 0)):06d}",
    )
    paths = create_run("eval")
    if record:
        plan = replace(plan, replays=str(_replays(target, home, paths)))
    with job.kept_if_started(paths):
        files = {title: paths.root / f"commander-{n}.py" for n, title in enumerate(led)}
        copies = {title: copy_commander(led[title].commander, file) for title, file in files.items()}
        plan = replace(plan, commanders=copies)
        mate_files = ((others[name], file) for name, file in plan.mate_files.items())
        for each, name in ((policy, plan.policy), (other, plan.opponent_policy), *mate_files):
            if each is not None:
                each.copy(paths.root / name)
        _admit(plan, paths)
        write_observers(paths, observers)
    spec = new_spec("eval", {"preset": "eval", "eval": asdict(plan)}, {})
    return job.start(paths, spec, queue=queue, as_json=as_json, quiet=as_json, live=True)


def run_of(path: Path) -> Path | None:
    """Return the folder of the training run that contains a policy, None for a policy that is in no run."""
    folders = (path, *path.absolute().parents)
    return next((p for p in folders if (read_json(RunPaths(p).spec) or {}).get("kind") == "train"), None)


def _replays(target: Player, home: Path | None, paths: RunPaths) -> Path:
    """Return the folder of recordings: that of the policy's run, one beside its file, or else that of the job."""
    if home is not None:
        return RunPaths(home.absolute()).replays
    if target.path in (None, champion.FOLDER) or target.commander:
        return paths.replays
    return target.path.absolute().parent / "replays"


def _admit(plan: EvalPlan, paths: RunPaths) -> None:
    """Note in the folder of the evaluated run, or of the recordings, that the job writes there.

    A run that cannot be written costs an alert when the job appends its result.
    """
    from echelon.jobs.evaluations import admit, written_folder

    if plan.run or _is_beside(plan, paths):
        with contextlib.suppress(OSError):
            admit(written_folder(plan), paths)


def _is_beside(plan: EvalPlan, paths: RunPaths) -> bool:
    """Whether matches of a policy in no run are recorded beside its file."""
    return bool(plan.replays) and not plan.run and Path(plan.replays) != paths.replays


def resume(name: str, as_json: bool = False, target: Player | None = None) -> Follower | None:
    """Resume a job that was stopped or killed; recorded batches are not played again.

    ``target`` is the policy that it evaluates, where the user names it to let the job write beside it.
    """
    from echelon.training.eval_plan import EvalPlan

    paths, spec = job.find_job(name, "eval")
    if target is not None:
        plan = EvalPlan.from_dict(spec.config.get("eval"))
        home = run_of(target.path) if target.path else None
        beside = target.path.absolute().parent / "replays" if target.path and not home else None
        if (plan.run and plan.run != str(home and home.absolute())) or (
            _is_beside(plan, paths) and plan.replays != str(beside)
        ):
            named = str(target.path or target.name)
            raise ConfigError(f"run {paths.id!r} evaluates {plan.run or plan.target!r}, expected {named!r}")
        _admit(plan, paths)
    return job.start(paths, spec, is_new=False, as_json=as_json, quiet=as_json, live=True)


def follow(follower: Follower, *, detach: bool, as_json: bool) -> int:
    """Follow a job until it ends or the user detaches, print its result, and return the exit code."""
    from echelon_cli.eval_tables import show_result
    from echelon_cli.follow import show_next_steps

    def show(status: JobStatus) -> None:
        if status.state == "completed":
            show_result(read_result(follower.paths))
        else:
            show_next_steps(status)

    return job.follow(follower, detach, show, as_json=as_json, result=lambda: read_result(follower.paths))


def read_result(paths: RunPaths) -> dict[str, Any]:
    """Return the result of a completed job; ``ValueError`` where it cannot be read."""
    try:
        result = parse_json(read_bounded(paths.result, MAX_RESULT_BYTES))
    except (OSError, ValueError):
        result = None
    if not isinstance(result, dict):
        raise ValueError(f"run {paths.id!r} has no readable result.json; try: {command('eval', '--resume', paths.id)}")
    return result
