"""``echelon eval``: evaluate a policy on held-out seeds, every seed from both sides."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from echelon.config.opponents import PilotSkill
from echelon_cli import output
from echelon_cli.devices import require_device
from echelon_cli.options import JsonFlag, MapsOption, complete_policies, complete_runs

if TYPE_CHECKING:
    from echelon.config import EnvConfig, Fairness
    from echelon.rl.weights import LoadedPolicy
    from echelon.training.opponents.pool import OpponentRunner
    from echelon.training.ppo.collect import BatchedEnv
    from echelon.training.recording import RecordedMatch, Recording

SEEDS = 40
FULL_STRENGTH = 1.0
SKILL = "medium"
OPPONENT_NAME = "opponent"
"""Name of the opponent policy within the batch."""


def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|CHECKPOINT",
            help="A run (its best checkpoint, else its newest), a checkpoint folder, or an exported file.",
            autocompletion=complete_runs,
            show_default=False,
        ),
    ],
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Number of held-out seeds; each is played from both sides.")
    ] = SEEDS,
    opponent: Annotated[
        str | None,
        typer.Option(
            "--opponent",
            metavar="heuristic:LEVEL|champion|RUN|CHECKPOINT|ENTRY",
            help=f"Opponent; policies sample their actions. Default: heuristic:{SKILL}.",
            autocompletion=complete_policies,
        ),
    ] = None,
    skill: Annotated[
        PilotSkill | None,
        typer.Option("--skill", help="Scripted level as opponent; legacy is the omniscient baseline."),
    ] = None,
    weapon_prob: Annotated[
        float, typer.Option("--weapon-prob", min=0.0, max=1.0, help="Trigger probability of the scripted opponent.")
    ] = FULL_STRENGTH,
    size: Annotated[int | None, typer.Option("--size", help="Map edge [vox]; default: that of the training.")] = None,
    maps: MapsOption = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Play sampled actions only, not mean actions and then sampled ones.")
    ] = False,
    ladder: Annotated[bool, typer.Option("--ladder", help="Evaluate against every level, trivial to expert.")] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Record a replay of every episode into the run's replays.")
    ] = False,
    device: Annotated[str, typer.Option("--device", help="Device: cpu, cuda, cuda:N or auto.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=0, help="Threads; 0 uses every core.")] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Play held-out seeds from both sides; report the win rates of mean and sampled actions with 95 % intervals."""
    require_device(device)
    path = find_policy(target)
    if ladder and (record or opponent):
        raise typer.BadParameter("--ladder plays every level and records nothing; drop --opponent and --record")
    chosen = opponent_of(opponent, skill)
    if ladder:
        with output.waiting(f"playing {2 * seeds} episodes per level", quiet=as_json) as show_progress:
            result = evaluate_levels(
                path, seeds, weapon_prob, size, maps, not stochastic, device, threads, show_progress
            )
        output.show_json(result) if as_json else show_ladder(result)
        return output.DONE
    with output.waiting(f"playing {2 * seeds} episodes", quiet=as_json):
        result = evaluate_one(
            path, seeds, chosen, weapon_prob, size, maps, not stochastic, device, threads, record=record
        )
    if as_json:
        output.show_json(result)
    else:
        _show(result)
    return output.DONE


@dataclasses.dataclass(frozen=True)
class Opponent:
    """The opponent of an evaluation."""

    name: str
    path: Path | None = None
    """File of its policy; None for the scripted level of that name."""

    @property
    def title(self) -> str:
        """Return its name in results."""
        return self.name if self.path else f"heuristic:{self.name}"


def opponent_of(opponent: str | None, skill: PilotSkill | None) -> Opponent:
    """Return the opponent that ``--opponent`` or ``--skill`` selects."""
    from echelon.jobs.config_layers import did_you_mean
    from echelon_cli.commands.train import policy_file

    if opponent is None:
        return Opponent(skill or SKILL)
    if skill is not None:
        raise typer.BadParameter("--opponent and --skill both select the opponent; use one of them")
    levels, level = get_args(PilotSkill), opponent.removeprefix("heuristic:")
    if level in levels:
        return Opponent(level)
    if level != opponent:
        raise typer.BadParameter(
            f"level {level!r} does not exist{did_you_mean(level, levels)} (have: {', '.join(levels)})"
        )
    if opponent == "league":
        raise typer.BadParameter("--opponent is 'league', expected one of its entries; try echelon arena run for all")
    return Opponent(opponent, policy_file(opponent, "opponent"))


def evaluate_one(
    path: Path,
    seeds: int,
    opponent: Opponent,
    weapon_prob: float,
    size: int | None,
    maps: Fairness | None,
    deterministic: bool,
    device: str,
    threads: int,
    *,
    record: bool = False,
) -> dict[str, Any]:
    """Return the task and the results of the policy at ``path`` as plain values; ``record`` writes replays."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.config.seeds import eval_seeds
    from echelon.rl.weights import version_of
    from echelon.training.evaluation import make_eval_env, play_and_summarize, play_mean_and_sampled
    from echelon.training.weights import load_policy

    loaded = load_policy(path, device)
    env, chosen = environment_of(loaded.meta, size, maps), eval_seeds(seeds)
    other = load_policy(opponent.path, device) if opponent.path else None
    if other is not None and _interface(other) != _interface(loaded):
        raise ValueError(f"opponent {opponent.name!r} has another observation layout than {path}; both must be equal")
    batch = make_eval_env(
        env,
        chosen,
        weapon_prob=weapon_prob,
        skill=SKILL if other else opponent.name,
        device=device,
        threads=threads,
        policy_opponents=other is not None,
        opponent_obs_version=version_of(other.meta) if other else None,
    )
    try:
        recording = recording_of(batch, path, loaded.meta, chosen, opponent, other) if record else None
        play = play_mean_and_sampled if deterministic else partial(play_and_summarize, deterministic=False)
        stats = play(
            loaded.policy,
            batch,
            env,
            observers=[recording],
            opponents=_opponent_runner(batch, other) if other else None,
        )
    finally:
        batch.close()
    return {
        **_task_values(path, loaded.meta, env, chosen, weapon_prob, deterministic),
        "opponent": opponent.title,
        "replays": [str(match.path) for match in finished(recording)] if recording else [],
        **dataclasses.asdict(stats),
    }


def _interface(loaded: LoadedPolicy) -> tuple[Any, ...]:
    """Return what must be equal for two policies to play in one batch, of whichever observation versions."""
    from echelon.env.layout import dim_of_version

    env = environment_of(loaded.meta)
    return dim_of_version(env, loaded.policy.obs_dim, 1), env.obs_layout, env.comm_dim


def _opponent_runner(batch: BatchedEnv, other: LoadedPolicy) -> OpponentRunner:
    """Return a runner that plays ``other`` as the opponent in every episode."""
    from echelon.training.opponents.pool import OpponentRunner
    from echelon.training.opponents.rating import FixedOpponents
    from echelon.training.runtime.thread_pool import ThreadPool

    return OpponentRunner(
        batch, FixedOpponents([OPPONENT_NAME] * batch.num_envs, {OPPONENT_NAME: other.policy}), ThreadPool(1)
    )


def evaluate_levels(
    path: Path,
    seeds: int,
    weapon_prob: float,
    size: int | None,
    maps: Fairness | None,
    deterministic: bool,
    device: str,
    threads: int,
    show_progress: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """Return the task and the results of the policy at ``path`` against every level, weakest first."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.config import LADDER
    from echelon.config.seeds import eval_seeds
    from echelon.training.evaluation import evaluate_ladder
    from echelon.training.weights import load_policy

    loaded = load_policy(path, device)
    env, chosen = environment_of(loaded.meta, size, maps), eval_seeds(seeds)
    found = evaluate_ladder(
        loaded.policy,
        env,
        chosen,
        LADDER,
        weapon_prob=weapon_prob,
        device=device,
        threads=threads,
        deterministic=deterministic,
        tell=lambda level: show_progress(f"playing {2 * seeds} episodes against {level}"),
    )
    return {
        **_task_values(path, loaded.meta, env, chosen, weapon_prob, deterministic),
        "levels": [{"level": level, **dataclasses.asdict(stats)} for level, stats in found.items()],
    }


def _task_values(
    path: Path, meta: dict[str, Any], env: EnvConfig, seeds: list[int], weapon_prob: float, deterministic: bool
) -> dict[str, Any]:
    """Return the evaluated checkpoint and the task."""
    return {
        "checkpoint": str(path),
        "id": meta.get("id", ""),
        "weapon_prob": weapon_prob,
        "deterministic": deterministic,
        "map": [env.world.size_x, env.world.size_y, env.world.size_z],
        "maps": env.world.fairness,
        "packs": env.num_packs,
        "seconds": env.max_episode_seconds,
        "observation": env.observation_mode,
        "first_seed": seeds[0],
        "seeds": len(seeds),
    }


def recording_of(
    batch: BatchedEnv,
    path: Path,
    meta: dict[str, Any],
    seeds: list[int],
    opponent: Opponent,
    other: LoadedPolicy | None,
) -> Recording:
    """Return a recording of every episode into the replays of the policy's run, or beside the policy's file."""
    from echelon.replay.header import TeamInfo
    from echelon.runs import RunPaths
    from echelon.training.recording import Recording, RecordingPlan

    home = next((p for p in (path, *path.absolute().parents) if (p / "spec.json").is_file()), None)
    folder = RunPaths(home).replays if home else path.absolute().parent / "replays"
    update = int(meta.get("update", 0))
    about = {"run": home.name if home else "", "update": update, "global_step": int(meta.get("global_step", 0))}
    plan = RecordingPlan(
        folder=folder,
        seeds=seeds,
        count=len(seeds),
        prefix=f"eval-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-u{update:06d}",
        policy=TeamInfo(name=f"update {update}", checkpoint=str(meta.get("id", ""))),
        opponent=TeamInfo(
            name=opponent.name,
            level="" if other else opponent.title,
            checkpoint=str(other.meta.get("id", "")) if other else "",
        ),
        about=about,
    )
    return Recording(batch, plan)


def finished(recording: Recording) -> list[RecordedMatch]:
    """Close a recording and return its matches; ``ValueError`` with the reason if it failed."""
    matches = recording.finish()
    if recording.fault:
        raise ValueError(recording.fault)
    return matches


def find_policy(target: str) -> Path:
    """Return the champion's folder, ``target`` if it is an existing path, else the folder of the run of that name."""
    from echelon import champion
    from echelon.runs import find_run

    if target == champion.NAME:
        return champion.FOLDER
    return Path(target) if Path(target).exists() else find_run(target).root


def environment_of(meta: dict[str, Any], size: int | None = None, maps: Fairness | None = None) -> EnvConfig:
    """Return the environment a policy was trained in, with maps of edge ``size`` [vox] and this fairness if given."""
    from echelon.config import with_fairness
    from echelon.training.policy_agent import env_config_of

    env = env_config_of(meta)
    env = env if maps is None else with_fairness(env, maps)
    if size is None:
        return env
    return dataclasses.replace(env, world=dataclasses.replace(env.world, size_x=size, size_y=size))


def _interval(row: dict[str, Any]) -> str:
    return f"{output.percent(row['win_low'])} to {output.percent(row['win_high'])}"


def _show(result: dict[str, Any]) -> None:
    sampled = result["sampled"]
    output.show_table(
        ("", ""),
        [
            ("wins", f"{output.percent(result['win_rate'])} (95 % interval {_interval(result)})"),
            *(
                [("wins, sampled", f"{output.percent(sampled['win_rate'])} (95 % interval {_interval(sampled)})")]
                if sampled
                else []
            ),
            ("draws, losses", f"{output.percent(result['draw_rate'])}, {output.percent(result['loss_rate'])}"),
            ("episodes", f"{result['episodes']}: {result['seeds']} seeds from {result['first_seed']}, both sides"),
            ("against", _against(result)),
            ("task", _task(result)),
            ("endings", ", ".join(f"{reason} {count}" for reason, count in result["reasons"])),
            ("hp margin", output.figure(result["mean_hp_margin"])),
            ("return", _named_values(result["returns_by_role"])),
            ("reward", _named_values(result["reward_terms"])),
            ("length", f"{result['mean_episode_length']:.0f} environment steps"),
            ("duration", output.duration(result["duration_s"])),
            ("policy", f"{result['checkpoint']} {result['id']}"),
            *(
                [("replays", f"{len(result['replays'])} in {Path(result['replays'][0]).parent}")]
                if result["replays"]
                else []
            ),
        ],
    )


def show_ladder(result: dict[str, Any]) -> None:
    """Print a line per level."""
    right = ("wins", "95 % interval", "sampled", "its interval", "draws", "losses", "hp margin", "length")
    output.show_table(
        ("level", *right),
        [
            (
                row["level"],
                output.percent(row["win_rate"]),
                _interval(row),
                *((output.percent(row["sampled"]["win_rate"]), _interval(row["sampled"])) if row["sampled"] else "--"),
                output.percent(row["draw_rate"]),
                output.percent(row["loss_rate"]),
                output.figure(row["mean_hp_margin"]),
                f"{row['mean_episode_length']:.0f}",
            )
            for row in result["levels"]
        ],
        right=right,
    )
    output.print_line(
        f"{2 * result['seeds']} episodes per level: {result['seeds']} seeds from {result['first_seed']}, both sides"
    )
    output.print_line(f"trigger probability {result['weapon_prob']:g}; {_task(result)}")
    output.print_line(f"{result['checkpoint']} {result['id']}")


def _against(result: dict[str, Any]) -> str:
    scripted = result["opponent"].startswith("heuristic:")
    return f"{result['opponent']}, trigger probability {result['weapon_prob']:g}" if scripted else result["opponent"]


def _named_values(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {output.figure(value)}" for name, value in values.items()) or "-"


def _task(result: dict[str, Any]) -> str:
    x, y, z = result["map"]
    actions = "mean actions, then sampled ones" if result["deterministic"] else "sampled actions"
    observation = f"{result['observation']} observation"
    maps = f"{result['maps']} maps of {x}x{y}x{z}"
    return f"packs of five per team: {result['packs']}, {maps}, {result['seconds']:g} s, {observation}, {actions}"
