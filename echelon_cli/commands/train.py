"""``echelon train``: start or resume a run in the background and follow it until it ends or the user detaches."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

from echelon import champion
from echelon.config import MIX_PROFILES, RunConfig
from echelon.config.learner import POLICY_TEACHER, SCRIPTED_TEACHER
from echelon.config.opponents import CLUSTER, PilotSkill
from echelon.jobs.config_layers import DEFAULT_PRESET, FILE, ConfigError, ResolvedConfig, resolve
from echelon.jobs.spec import JobSpec, new_spec
from echelon.jobs.status import job_status
from echelon.runs import RunNotFoundError, RunPaths, create_run
from echelon_cli import job, options, output
from echelon_cli.options import (
    complete_devices,
    complete_networks,
    complete_runs,
    one_of,
    option,
    overrides_of,
    usage_errors,
)

if TYPE_CHECKING:
    from echelon_cli.follow import Follower

GPU_PRESET = "gpu"
"""Default preset on a machine with a usable GPU."""


def train(
    preset: options.TrainedPreset = None,
    config: options.Config = None,
    assignments: options.Set = None,
    opponents: Annotated[
        str | None,
        option(
            "--opponents",
            "Mix of opponents: scripted, self, past, league or exploiter; default: the preset's.",
            "NAME",
            one_of(*MIX_PROFILES),
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        option(
            "--start-from",
            "Checkpoint, run, league entry or champion to start from; default: a new network.",
            "POLICY",
            complete_networks,
        ),
    ] = None,
    resume: Annotated[str | None, option("--resume", "Resume from its last checkpoint.", "RUN", complete_runs)] = None,
    minutes: Annotated[
        float | None, option("--minutes", "Wall-clock limit of training [min], 0: none; default: the preset's.")
    ] = None,
    seed: Annotated[int | None, option("--seed", "Seed of the run; default: the preset's.")] = None,
    device: Annotated[
        str | None, option("--device", "Device: auto, cpu, cuda or cuda:N; default: auto.", complete=complete_devices)
    ] = None,
    nproc: Annotated[int | None, option("--nproc", "Training processes on this machine; default: 1.")] = None,
    detach: options.Detach = False,
    queue: options.Queue = False,
    notify: options.Notify = None,
    mirror: options.Mirror = None,
    as_json: options.Json = False,
) -> int:
    """Start a training run, or resume one, and follow it. It continues in the background; q or Ctrl-C detaches.

    --set reaches every field of the configuration; echelon config show lists them.
    """
    from echelon.jobs.observers import requested, write_observers
    from echelon_cli.follow import show_summary

    given = {
        "opponents.mix": opponents,
        "start_from": start_from,
        "max_minutes": minutes,
        "seed": seed,
        "device": device,
        "nproc": nproc,
    }
    overrides = {key: value for key, value in given.items() if value is not None}
    overrides |= overrides_of(assignments)
    # an entry of a cluster's league may be unknown here
    elsewhere = [RunNotFoundError] if overrides.get("opponents.league.path") == CLUSTER else []
    for key in ("start_from", "opponents.champion"):
        if overrides.get(key) not in (None, "", champion.NAME):
            with contextlib.suppress(*elsewhere):
                overrides[key] = str(readable_policy(str(overrides[key]), key))
    if overrides.get("teacher.policy"):
        overrides["teacher.policy"] = teacher_reference(str(overrides["teacher.policy"]))
    file = config
    if resume and preset:
        raise ConfigError("--resume and --preset exclude each other: a resumed run keeps its configuration")
    with usage_errors():
        observers = requested(notify or (), mirror or ())
    request = _request(preset, file, overrides, resume)

    with job.kept_if_started(request.paths, request.is_new):
        write_observers(request.paths, observers)
    follower = job.start(
        request.paths, request.spec, request.arguments, request.resolved.named, is_new=request.is_new, queue=queue,
        as_json=as_json,
    )  # fmt: skip
    if follower is None:
        return output.DONE
    if not as_json:
        output.print_line(f"in {request.paths.root.parent}", style="dim")
        if request.is_new:
            output.print_line(_plan_line(request.resolved, preset), style="dim")
    if not detach and not as_json and output.is_interactive():
        return _watch(follower)
    return job.follow(
        follower, detach, lambda status: show_summary(status, follower.snapshot, follower.paths), as_json=as_json
    )


def teacher_reference(name: str) -> str:
    """Return ``teacher.policy`` for the name of a teacher: a scripted level, checkpoint, run or league entry."""
    from echelon.arena.standings import policy_path

    if name in get_args(PilotSkill):
        return f"{SCRIPTED_TEACHER}:{name}"
    if name.startswith(f"{SCRIPTED_TEACHER}:"):
        return name
    return f"{POLICY_TEACHER}:{policy_path(name.removeprefix(f'{POLICY_TEACHER}:'), 'teacher.policy')}"


def readable_policy(name: str, field: str) -> Path:
    """Return the path of the policy that a field names; ``ValueError`` where it cannot be read."""
    from echelon.arena.standings import policy_path
    from echelon.rl.weights import load_policy

    path = policy_path(name, field)
    load_policy(path)
    return path


class TrainRequest(NamedTuple):
    """A training run that is to be started or queued."""

    paths: RunPaths
    spec: JobSpec
    arguments: list[str]
    resolved: ResolvedConfig
    is_new: bool


def _request(preset: str | None, file: Path | None, overrides: dict[str, Any], resume: str | None) -> TrainRequest:
    """Return the request for a new run, in a folder of that name, or for a resumed one."""
    if resume:
        (paths, spec), arguments = job.find_job(resume, "train"), ["--resume", "latest"]
        resolved = resolve(None, file, overrides, base=spec.config, base_provenance=spec.provenance)
        if (kept := _kept_environments(spec.config, resolved)) != resolved.config.num_envs:
            overrides = {**overrides, "num_envs": kept}
            resolved = resolve(None, file, overrides, base=spec.config, base_provenance=spec.provenance)
    else:
        resolved = resolve(preset, file, overrides, fallback=preset or default_preset(overrides.get("device")))
        _check_hidden_columns(resolved.config)
        paths, arguments = create_run(resolved.config.preset), []
    spec = new_spec("train", resolved.nested(), resolved.provenance)
    return TrainRequest(paths, spec, arguments, resolved, not resume)


def _kept_environments(before: Mapping[str, Any], resolved: ResolvedConfig) -> int:
    """Return the environments of a process with which all have as many as before; the resolved ones where none do."""
    config, processes = resolved.config, before.get("nproc", 1)
    whole, rest = divmod(config.num_envs * processes, config.nproc)
    return config.num_envs if "num_envs" in resolved.named or rest else whole


def _check_hidden_columns(config: RunConfig) -> None:
    """Raise ``ValueError`` unless observations have the columns that the network shall not read."""
    if config.model.hidden_columns:
        from echelon.env.layout import hidden_columns

        with usage_errors():
            hidden_columns(config)


def default_preset(device: object) -> str:
    """Return the default preset for ``device``, or for the best device of this machine."""
    from echelon.jobs.usage import has_gpu

    return GPU_PRESET if device != "cpu" and has_gpu() else DEFAULT_PRESET


def _plan_line(resolved: ResolvedConfig, preset: str | None) -> str:
    config = resolved.config
    limit = f" or {config.max_minutes:g} minutes" if config.max_minutes else ""
    is_of_file = resolved.provenance.get("preset") == FILE
    origin = "named by the file" if is_of_file else "the default for this machine"
    named = "" if preset else f", {origin}; others: echelon config show --presets"
    return f"preset {config.preset}{named}; until {output.count(config.total_steps)} steps{limit}"


def _watch(follower: "Follower") -> int:
    """Show the dashboard until it is closed; print a summary if the run has ended by then."""
    from echelon_cli.follow import show_summary
    from echelon_cli.tui.app import show

    code = show(follower.paths.root.parent, follower.paths.root)
    status = job_status(follower.paths)
    _, follower.snapshot = follower.feed.poll()
    ended = job.end(follower.paths, status, lambda status: show_summary(status, follower.snapshot, follower.paths))
    return code if status.is_alive else ended
