"""``echelon train``: start or resume a run in the background and follow it until it ends or the user detaches."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

import typer
from typer.models import OptionInfo

from echelon_cli import output, queue_job
from echelon_cli.options import (
    ConfigOption,
    JsonFlag,
    MirrorOption,
    NotifyOption,
    QueueFlag,
    SetOption,
    TrainedPresetOption,
    complete_devices,
    complete_labels,
    complete_networks,
    complete_policies,
    complete_runs,
    one_of,
)
from echelon_cli.spellings import SWITCHES
from echelon_cli.usage import usage_errors

if TYPE_CHECKING:
    from echelon.config import RunConfig
    from echelon.jobs.config_layers import ResolvedConfig
    from echelon.jobs.spec import JobSpec
    from echelon.runs import RunPaths
    from echelon_cli.follow import Follower

ALIASES: dict[str, tuple[str, ...]] = {
    "seed": ("seed",),
    "start-from": ("start_from",),
    "teacher": ("teacher.policy",),
    "target": ("opponents.league.target",),
    "device": ("device",),
    "threads": ("threads",),
    "envs": ("num_envs",),
    "nproc": ("nproc",),
    "deterministic": ("deterministic",),
    "minutes": ("max_minutes",),
    "steps": ("total_steps",),
    "updates": ("max_updates",),
    "games": ("max_episodes",),
    "save-every": ("save_every",),
    "packs": ("env.num_packs",),
    "size": ("env.world.size_x", "env.world.size_y"),
    "mode": ("env.observation_mode",),
    "dt-sim": ("env.dt_sim",),
    "decision-repeat": ("env.decision_repeat",),
    "comm-dim": ("env.comm_dim",),
    "obs-layout": ("env.obs_layout",),
    "model": ("model.kind",),
    "lr": ("ppo.lr",),
    "lr-schedule": ("ppo.lr_schedule",),
    "critic-lr-mult": ("ppo.critic_lr_mult",),
    "gamma": ("ppo.gamma",),
    "gae-lambda": ("ppo.gae_lambda",),
    "clip-coef": ("ppo.clip_coef",),
    "vf-coef": ("ppo.vf_coef",),
    "ent-coef-start": ("ppo.ent_coef",),
    "ent-coef-end": ("ppo.ent_coef_end",),
    "max-grad-norm": ("ppo.max_grad_norm",),
    "grad-accum-steps": ("ppo.grad_accum_steps",),
    "rollout-steps": ("ppo.rollout_steps",),
    "update-epochs": ("ppo.update_epochs",),
    "num-minibatches": ("ppo.num_minibatches",),
    "tbptt-chunk-length": ("ppo.tbptt_chunk_length",),
    "burn-in": ("ppo.burn_in_steps",),
    "aux-coef": ("ppo.aux_coef",),
    "target-kl": ("ppo.target_kl",),
    "recompute-advantages": ("ppo.recompute_advantages",),
    "amp": ("ppo.amp",),
    "compile": ("ppo.compile",),
    "nonfinite-policy": ("ppo.nonfinite_policy",),
    "eval-after-updates": ("eval.every_updates",),
    "eval-seeds": ("eval.seeds",),
}
"""Flag -> configuration keys that it sets; every other key is set with ``--set``."""

COMMON = {
    "seed": ("<int>", "Seed of the run; default: the preset's."),
    "device": ("<str>", "Device: auto, cpu, cuda or cuda:N; default: auto."),
    "envs": ("<int>", "Environments per process; default: the preset's."),
    "nproc": ("<int>", "Training processes on this machine; default: 1."),
    "minutes": ("<float>", "Wall-clock limit of training [min], 0: none; default: the preset's."),
    "steps": ("<int>", "Planned length [learner agent-steps]; default: the preset's."),
    "start-from": ("POLICY", "Checkpoint, run, league entry or champion to start from; default: a new network."),
    "lr": ("<float>", "Learning rate; default: the preset's."),
}
"""Flags of ``ALIASES`` that ``--help`` shows too, with type and help."""

COMPLETIONS = {"device": complete_devices, "start-from": complete_networks, "teacher": complete_policies}
"""Completions of values of ``ALIASES``."""

GPU_PRESET = "gpu"
"""Default preset on a machine with a usable GPU."""

PROFILED_UPDATES = 3
"""Number of updates that ``--profile`` traces."""


def complete_mixes(incomplete: str) -> list[str]:
    """Return the opponent mixes that start with ``incomplete``."""
    from echelon.config import MIX_PROFILES

    return one_of(*MIX_PROFILES)(incomplete)


def with_aliases(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add one option per row of ``ALIASES`` to a command; their values arrive as configuration keys in ``aliases``.

    All but ``COMMON`` are left out of ``--help``; ``--help-all`` describes them.
    """
    signature = inspect.signature(command, eval_str=True)
    plain = [p for p in signature.parameters.values() if p.name != "aliases"]
    flags = [
        inspect.Parameter(
            flag.replace("-", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[bool | None if f"--{flag}" in SWITCHES else str | None, _option(flag, keys)],
        )
        for flag, keys in ALIASES.items()
    ]

    @wraps(command)
    def wrapped(**given: Any) -> Any:
        aliases = {}
        for flag, keys in ALIASES.items():
            value = given.pop(flag.replace("-", "_"))
            value = str(value).lower() if isinstance(value, bool) else value
            aliases.update({key: value for key in keys if value is not None})
        return command(**given, aliases=aliases)

    vars(wrapped)["__signature__"] = signature.replace(
        parameters=[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in plain] + flags
    )
    return wrapped


def _option(flag: str, keys: Sequence[str]) -> OptionInfo:
    """Return the option of a flag that sets ``keys``."""
    is_switch = f"--{flag}" in SWITCHES
    metavar, text = COMMON.get(flag, (None if is_switch else "VALUE", f"Same as --set {' and '.join(keys)}."))
    return typer.Option(
        f"--{flag}/--no-{flag}" if is_switch else f"--{flag}",
        metavar=metavar,
        help=text,
        hidden=flag not in COMMON,
        show_default=False,
        autocompletion=COMPLETIONS.get(flag),
    )


def describe_fields(options: Sequence[Any], preset: str | None = None) -> None:
    """Describe the options of single fields: meaning with unit, type, key, and the value of a preset."""
    from echelon.jobs.config_layers import field_descriptions, resolve

    chosen = preset or default_preset(None)
    meaning, defaults = field_descriptions(), resolve(chosen).values
    for option in options:
        keys = ALIASES.get(option.opts[0].removeprefix("--"))
        if keys is not None:
            default = defaults[keys[0]]
            option.help = (
                f"{meaning[keys[0]]} [--set {' and '.join(keys)}; default: {_shown_default(default)} ({chosen})]"
            )
            if option.metavar == "VALUE" and default is not None:
                option.metavar = f"<{type(default).__name__}>"


def _shown_default(value: object) -> str:
    """Return the value of a field as its option takes it."""
    return "none" if value is None else str(value)


@with_aliases
def train(
    preset: TrainedPresetOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    opponents: Annotated[
        str | None,
        typer.Option(
            "--opponents",
            metavar="NAME",
            help="Opponent mix: scripted, self, past, league or exploiter; default: the preset's.",
            autocompletion=complete_mixes,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="RUN", help="Resume a run from its latest checkpoint.", autocompletion=complete_runs
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Group of the run (echelon runs label); default: none.",
            autocompletion=complete_labels("group"),
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag", metavar="WORD", help="Tag the run; may be repeated.", autocompletion=complete_labels("tag")
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help=f"Write a trace of {PROFILED_UPDATES} updates into the run folder.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return when training has started.")] = False,
    queue: QueueFlag = False,
    notify: NotifyOption = None,
    mirror: MirrorOption = None,
    as_json: JsonFlag = False,
    aliases: dict[str, str] | None = None,
) -> int:
    """Start a training run and follow it. It continues in the background; q or Ctrl-C detaches.

    --help-all lists the options of further configuration fields, with type, unit and default.
    """
    from echelon.jobs.config_layers import ConfigError, parse_assignment
    from echelon.jobs.labels import change_labels
    from echelon.jobs.observers import requested, write_observers
    from echelon.jobs.status import job_status
    from echelon_cli.listing import job_json

    overrides = dict(parse_assignment(f"{key}={value}") for key, value in (aliases or {}).items())
    if opponents is not None:
        overrides["opponents.mix"] = opponents
    if profile:
        overrides["profile_updates"] = PROFILED_UPDATES
    overrides |= dict(parse_assignment(text) for text in assignments or [])
    if overrides.get("start_from"):
        overrides["start_from"] = str(readable_policy(str(overrides["start_from"])))
    if overrides.get("teacher.policy"):
        overrides["teacher.policy"] = teacher_reference(str(overrides["teacher.policy"]))
    file = Path(config) if config else None
    if resume and preset:
        raise ConfigError("--resume and --preset exclude each other: a resumed run keeps its configuration")
    with usage_errors():
        observers = requested(notify or (), mirror or ())
    request = _request(preset, file, overrides, resume)

    def prepare() -> None:
        change_labels(request.paths, group=group, add=tag or ())
        write_observers(request.paths, observers)

    if queue:
        return queue_job.add(request.paths, request.spec, request.arguments, prepare, request.is_new, as_json)
    follower = _begin(request, preset, prepare, as_json)
    paths = follower.paths
    before = follower.snapshot.start
    if not detach and not as_json and output.is_interactive():
        return _watch(follower)
    try:
        if detach:
            status = follower.follow(lambda _, snapshot: snapshot.start is not before and snapshot.end is None)
        else:
            status = follower.follow(lambda *_: False)
    except KeyboardInterrupt:
        status = job_status(paths)
    if status.is_alive:
        output.show_json(job_json(paths, status), indent=None) if as_json else _show_detached(paths.id)
        return output.DONE
    return _finish(follower, status)


def teacher_reference(name: str) -> str:
    """Return ``teacher.policy`` for the name of a teacher: a scripted level, checkpoint, run or league entry."""
    from echelon.config.learner import POLICY_TEACHER, SCRIPTED_TEACHER
    from echelon.config.opponents import PilotSkill

    if name in get_args(PilotSkill):
        return f"{SCRIPTED_TEACHER}:{name}"
    if name.startswith(f"{SCRIPTED_TEACHER}:"):
        return name
    return f"{POLICY_TEACHER}:{policy_file(name.removeprefix(f'{POLICY_TEACHER}:'), 'teacher.policy')}"


def readable_policy(name: str) -> Path:
    """Return the path of the policy with the initial weights; ``ValueError`` where it cannot be read."""
    from echelon.rl.weights import load_policy

    path = policy_file(name)
    load_policy(path)
    return path


def policy_file(name: str, what: str = "start_from") -> Path:
    """Return the path of the policy that ``name`` refers to: the champion, a path, a run, or a league entry."""
    from echelon.arena.lookup import policy_path

    return policy_path(name, what)


class Request(NamedTuple):
    """A training run that is to be started or queued."""

    paths: RunPaths
    spec: JobSpec
    arguments: list[str]
    resolved: ResolvedConfig
    is_new: bool


def _request(preset: str | None, file: Path | None, overrides: dict[str, Any], resume: str | None) -> Request:
    """Return the request for a new run, in a folder of that name, or for a resumed one."""
    from echelon.jobs.config_layers import ConfigError, resolve
    from echelon.jobs.spec import new_spec, read_spec
    from echelon.runs import create_run, find_run

    if resume:
        paths, arguments = find_run(resume), ["--resume", "latest"]
        spec = read_spec(paths)
        if spec.kind != "train":
            raise ConfigError(f"run {paths.id!r} is of kind {spec.kind!r}, expected a training run")
        resolved = resolve(None, file, overrides, base=spec.config, base_provenance=spec.provenance)
    else:
        resolved = resolve(preset, file, overrides, fallback=preset or default_preset(overrides.get("device")))
        _check_hidden_columns(resolved.config)
        paths, arguments = create_run(resolved.config.preset), []
    spec = new_spec("train", resolved.nested(), resolved.provenance)
    return Request(paths, spec, arguments, resolved, not resume)


def _check_hidden_columns(config: RunConfig) -> None:
    """Raise ``ValueError`` unless observations have the columns that the network shall not read."""
    if config.model.hidden_columns:
        from echelon.env.layout import hidden_columns

        with usage_errors():
            hidden_columns(config)


def _begin(request: Request, preset: str | None, prepare: Callable[[], None], as_json: bool) -> Follower:
    """Start a run after ``prepare`` and return its follower."""
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.launch import launch
    from echelon_cli.follow import Follower

    paths, resolved = request.paths, request.resolved
    if not as_json:
        queue_job.warn_of_contention(request.spec)
    follower = Follower(paths, as_json=as_json)
    try:
        prepare()
        launch(paths, request.spec, KINDS["train"], request.arguments, resolved.named)
    except (ValueError, OSError):
        if request.is_new and not paths.metrics.exists():
            _discard(paths.root)
        raise
    if not as_json:
        output.print_line(f"run {paths.id}", style="bold")
        output.print_line(f"in {paths.root.parent}", style="dim")
        if request.is_new:
            output.print_line(_plan_line(resolved.config, preset, resolved.provenance.get("preset")), style="dim")
    return follower


def default_preset(device: object) -> str:
    """Return the default preset for ``device``, or for the best device of this machine."""
    from echelon.jobs.config_layers import DEFAULT_PRESET
    from echelon.jobs.usage import has_gpu

    return GPU_PRESET if device != "cpu" and has_gpu() else DEFAULT_PRESET


def _plan_line(config: Any, preset: str | None, source: str | None) -> str:
    """Return the plan of a new run in one line; ``source`` is the layer that named its preset."""
    from echelon.jobs.config_layers import FILE

    limit = f" or {config.max_minutes:g} minutes" if config.max_minutes else ""
    origin = "named by the file" if source == FILE else "the default for this machine"
    named = "" if preset else f", {origin}; others: echelon config presets"
    return f"preset {config.preset}{named}; until {output.count(config.total_steps)} steps{limit}"


def _discard(root: Path) -> None:
    import shutil

    with contextlib.suppress(OSError):
        shutil.rmtree(root)


def _show_detached(run_id: str) -> None:
    from echelon.runs import command

    output.print_line()
    output.print_line(f"{run_id} continues in the background.")
    output.print_line(f"  dashboard: {command('dash', run_id)}    as lines: {command('runs', 'logs', '-f', run_id)}")
    output.print_line(f"  replays:   {command('watch', run_id)}")
    output.print_line(f"  stop:      {command('runs', 'stop', run_id)}    all runs: echelon dash")


def _watch(follower: Any) -> int:
    """Show the dashboard until it is closed; print a summary if the run has ended by then."""
    from echelon.jobs.status import job_status
    from echelon_cli.tui.app import show

    code = show(follower.paths.root.parent, follower.paths.root)
    status = job_status(follower.paths)
    if status.is_alive:
        _show_detached(status.id)
        return code
    _, follower.snapshot = follower.feed.poll()
    return _finish(follower, status)


def _finish(follower: Any, status: Any) -> int:
    from echelon_cli.follow import show_summary
    from echelon_cli.listing import job_json

    if follower.as_json:
        output.show_json(job_json(follower.paths, status), indent=None)
    else:
        show_summary(status, follower.snapshot, follower.paths)
    if status.exit_code in (output.FAILED, output.CRASHED):
        output.show_error(f"run {status.id!r} {status.state}: {status.reason}", code=status.exit_code)
    return status.exit_code
