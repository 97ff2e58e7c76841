"""``echelon eval``: measure a policy against scripted pilots on held-out seeds, every seed from both sides."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from echelon.config.opponents import PilotSkill
from echelon_cli import output
from echelon_cli.devices import require_device
from echelon_cli.options import JsonFlag, complete_runs

if TYPE_CHECKING:
    from echelon.config import EnvConfig
    from echelon.rl.weights import LoadedPolicy
    from echelon.training.opponents.pool import OpponentRunner
    from echelon.training.ppo.collect import BatchedEnv
    from echelon.training.recording import RecordedMatch, Recording

SEEDS = 40
FULL_STRENGTH = 1.0
SKILL = "medium"
RIVAL = "rival"
"""What a policy is called in the batch in which it is met."""


def evaluate(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|CHECKPOINT",
            help="A run (its best checkpoint, else its newest), a step-N folder, or an exported file.",
            autocompletion=complete_runs,
            show_default=False,
        ),
    ],
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Held-out seeds; each is played from both sides.")
    ] = SEEDS,
    opponent: Annotated[
        str | None,
        typer.Option(
            "--opponent",
            metavar="heuristic:LEVEL|RUN|CHECKPOINT|ENTRY",
            help=f"Whom to meet; policies draw their actions. By default heuristic:{SKILL}.",
            autocompletion=complete_runs,
        ),
    ] = None,
    skill: Annotated[
        PilotSkill | None,
        typer.Option("--skill", help="The same for a scripted level; legacy is the omniscient baseline."),
    ] = None,
    weapon_prob: Annotated[
        float, typer.Option("--weapon-prob", min=0.0, max=1.0, help="Trigger probability of the scripted opponent.")
    ] = FULL_STRENGTH,
    size: Annotated[
        int | None, typer.Option("--size", help="Map edge instead of the one it was trained on [vox].")
    ] = None,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Draw actions instead of the mean.")] = False,
    ladder: Annotated[
        bool, typer.Option("--ladder", help="Play every level in turn, trivial to expert, instead of --skill.")
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="Keep a replay of every episode, beside the run's.")] = False,
    device: Annotated[str, typer.Option("--device", help="Where to play.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=0, help="Threads; 0 takes every core.")] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Play held-out seeds from both sides and report wins with their doubt."""
    require_device(device)
    path = find_policy(target)
    if ladder and (record or opponent):
        raise typer.BadParameter("--ladder meets every level, keeping nothing; wanted it without --opponent, --record")
    rival = rival_of(opponent, skill)
    if ladder:
        with output.waiting(f"playing {2 * seeds} episodes a level", quiet=as_json) as tell:
            climbed = climb(path, seeds, weapon_prob, size, not stochastic, device, threads, tell)
        output.show_json(climbed) if as_json else show_ladder(climbed)
        return output.DONE
    with output.waiting(f"playing {2 * seeds} episodes", quiet=as_json):
        result = measure(path, seeds, rival, weapon_prob, size, not stochastic, device, threads, record=record)
    if as_json:
        output.show_json(result)
    else:
        _show(result)
    return output.DONE


@dataclasses.dataclass(frozen=True)
class Rival:
    """Whom a policy is measured against."""

    name: str
    path: Path | None = None
    """Where its policy lies; None for the scripted level of that name."""

    @property
    def title(self) -> str:
        """What results call it."""
        return self.name if self.path else f"heuristic:{self.name}"


def rival_of(opponent: str | None, skill: PilotSkill | None) -> Rival:
    """Return whom ``--opponent`` or ``--skill`` means."""
    from echelon.jobs.config_layers import did_you_mean
    from echelon_cli.commands.train import policy_file

    if opponent is None:
        return Rival(skill or SKILL)
    if skill is not None:
        raise typer.BadParameter("--opponent and --skill both say whom to meet, wanted one of them")
    levels, level = get_args(PilotSkill), opponent.removeprefix("heuristic:")
    if level in levels:
        return Rival(level)
    if level != opponent:
        raise typer.BadParameter(
            f"level {level!r} does not exist{did_you_mean(level, levels)} (have: {', '.join(levels)})"
        )
    if opponent == "league":
        raise typer.BadParameter("--opponent is 'league', wanted one of its entries; echelon arena run meets them all")
    return Rival(opponent, policy_file(opponent, "opponent"))


def measure(
    path: Path,
    seeds: int,
    rival: Rival,
    weapon_prob: float,
    size: int | None,
    deterministic: bool,
    device: str,
    threads: int,
    *,
    record: bool = False,
) -> dict[str, Any]:
    """Return the task and what the policy at ``path`` achieved in it, as plain values; ``record`` keeps replays."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.training.evaluation import eval_seeds, make_eval_env, play_and_summarize
    from echelon.training.weights import load_policy

    loaded = load_policy(path, device)
    env, chosen = environment_of(loaded.meta, size), eval_seeds(seeds)
    other = load_policy(rival.path, device) if rival.path else None
    if other is not None and _shown(other) != _shown(loaded):
        raise ValueError(f"opponent {rival.name!r} was built for another observation, wanted that of {path}")
    batch = make_eval_env(
        env,
        chosen,
        weapon_prob=weapon_prob,
        skill=SKILL if other else rival.name,
        device=device,
        threads=threads,
        policy_opponents=other is not None,
    )
    try:
        recording = recording_of(batch, path, loaded.meta, chosen, rival, other) if record else None
        stats = play_and_summarize(
            loaded.policy,
            batch,
            env,
            deterministic=deterministic,
            observers=[recording],
            opponents=_flown_by(batch, other) if other else None,
        )
    finally:
        batch.close()
    return {
        **_described(path, loaded.meta, env, chosen, weapon_prob, deterministic),
        "opponent": rival.title,
        "replays": [str(match.path) for match in finished(recording)] if recording else [],
        **dataclasses.asdict(stats),
    }


def _shown(loaded: LoadedPolicy) -> tuple[Any, ...]:
    """Return what two policies must have alike to play in one batch."""
    env = environment_of(loaded.meta, None)
    return loaded.policy.obs_dim, env.obs_layout, env.comm_dim


def _flown_by(batch: BatchedEnv, other: LoadedPolicy) -> OpponentRunner:
    """Return a policy as the opponent in every episode."""
    from echelon.training.opponents.pool import OpponentRunner
    from echelon.training.opponents.rating import FixedOpponents
    from echelon.training.runtime.thread_pool import ThreadPool

    return OpponentRunner(batch, FixedOpponents([RIVAL] * batch.num_envs, {RIVAL: other.policy}), ThreadPool(1))


def climb(
    path: Path,
    seeds: int,
    weapon_prob: float,
    size: int | None,
    deterministic: bool,
    device: str,
    threads: int,
    tell: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """Return the task and what the policy at ``path`` achieved in it against every level, weakest first."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.config import LADDER
    from echelon.training.evaluation import eval_seeds, evaluate_ladder
    from echelon.training.weights import load_policy

    loaded = load_policy(path, device)
    env, chosen = environment_of(loaded.meta, size), eval_seeds(seeds)
    found = evaluate_ladder(
        loaded.policy,
        env,
        chosen,
        LADDER,
        weapon_prob=weapon_prob,
        device=device,
        threads=threads,
        deterministic=deterministic,
        tell=lambda level: tell(f"playing {2 * seeds} episodes against {level}"),
    )
    return {
        **_described(path, loaded.meta, env, chosen, weapon_prob, deterministic),
        "levels": [{"level": level, **dataclasses.asdict(stats)} for level, stats in found.items()],
    }


def _described(
    path: Path, meta: dict[str, Any], env: EnvConfig, seeds: list[int], weapon_prob: float, deterministic: bool
) -> dict[str, Any]:
    """Return what is evaluated, and in which task."""
    return {
        "checkpoint": str(path),
        "id": meta.get("id", ""),
        "weapon_prob": weapon_prob,
        "deterministic": deterministic,
        "map": [env.world.size_x, env.world.size_y, env.world.size_z],
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
    rival: Rival,
    other: LoadedPolicy | None,
) -> Recording:
    """Return a recording of every episode, into the replays of the run that the policy is from, else beside it."""
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
            name=rival.name,
            level="" if other else rival.title,
            checkpoint=str(other.meta.get("id", "")) if other else "",
        ),
        about=about,
    )
    return Recording(batch, plan)


def finished(recording: Recording) -> list[RecordedMatch]:
    """Close a recording and return its matches; ``ValueError`` says why there are none."""
    matches = recording.finish()
    if recording.fault:
        raise ValueError(recording.fault)
    return matches


def find_policy(target: str) -> Path:
    """Return the path that ``target`` means: a path that exists, else a run by its name."""
    from echelon.runs import find_run

    return Path(target) if Path(target).exists() else find_run(target).root


def environment_of(meta: dict[str, Any], size: int | None) -> EnvConfig:
    """Return the environment a policy was trained in, on maps of another size if one is given."""
    from echelon.training.policy_agent import env_config_of

    env = env_config_of(meta)
    if size is None:
        return env
    return dataclasses.replace(env, world=dataclasses.replace(env.world, size_x=size, size_y=size))


def _show(result: dict[str, Any]) -> None:
    doubt = f"{output.percent(result['win_low'])} to {output.percent(result['win_high'])}"
    output.show_table(
        ("", ""),
        [
            ("wins", f"{output.percent(result['win_rate'])} (95 % interval {doubt})"),
            ("draws, losses", f"{output.percent(result['draw_rate'])}, {output.percent(result['loss_rate'])}"),
            ("episodes", f"{result['episodes']}: {result['seeds']} seeds from {result['first_seed']}, both sides"),
            ("against", _against(result)),
            ("task", _task(result)),
            ("ends", ", ".join(f"{reason} {count}" for reason, count in result["reasons"])),
            ("hp margin", output.figure(result["mean_hp_margin"])),
            ("return", _parts(result["returns_by_role"])),
            ("reward", _parts(result["reward_terms"])),
            ("length", f"{result['mean_episode_length']:.0f} decisions"),
            ("took", output.duration(result["duration_s"])),
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
    right = ("wins", "95 % interval", "draws", "losses", "hp margin", "length")
    output.show_table(
        ("level", *right),
        [
            (
                row["level"],
                output.percent(row["win_rate"]),
                f"{output.percent(row['win_low'])} to {output.percent(row['win_high'])}",
                output.percent(row["draw_rate"]),
                output.percent(row["loss_rate"]),
                output.figure(row["mean_hp_margin"]),
                f"{row['mean_episode_length']:.0f}",
            )
            for row in result["levels"]
        ],
        right=right,
    )
    output.say(
        f"{2 * result['seeds']} episodes a level: {result['seeds']} seeds from {result['first_seed']}, both sides"
    )
    output.say(f"trigger probability {result['weapon_prob']:g}; {_task(result)}")
    output.say(f"{result['checkpoint']} {result['id']}")


def _against(result: dict[str, Any]) -> str:
    scripted = result["opponent"].startswith("heuristic:")
    return f"{result['opponent']}, trigger probability {result['weapon_prob']:g}" if scripted else result["opponent"]


def _parts(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {output.figure(value)}" for name, value in values.items()) or "-"


def _task(result: dict[str, Any]) -> str:
    x, y, z = result["map"]
    how = "mean action" if result["deterministic"] else "sampled action"
    seen = f"{result['observation']} observation"
    return f"packs of five a side: {result['packs']}, {x}x{y}x{z}, {result['seconds']:g} s, {seen}, {how}"
