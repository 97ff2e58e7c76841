"""``echelon demos``: record what pilots do as data to learn from, and verify recordings."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from echelon.config import EnvConfig
from echelon.jobs.config_layers import resolve
from echelon.runs import command
from echelon_cli import options, output
from echelon_cli.devices import require_device
from echelon_cli.options import argument, complete_policies, complete_presets, option, overrides_of

if TYPE_CHECKING:
    from echelon.demos import Manifest
    from echelon.training.demonstrations import DemoPlayer

MATCHES = 100
DEMONSTRATOR, OPPONENT = "heuristic:expert", "heuristic:hard"
EPOCHS = 4
CLONED_PRESET = "standard"
"""Preset of the network of a cloned policy: its action head has switches and selectors."""
SIDE_METAVAR = "heuristic:LEVEL|champion|RUN|CHECKPOINT|ENTRY"

app = typer.Typer(help="Demonstrations: matches as data to learn from.", no_args_is_help=True)

FolderArgument = Annotated[Path, argument("DIR", "Folder of the recording.")]


@app.command("record")
def record(
    folder: FolderArgument,
    verify: Annotated[bool, option("--verify", "Verify and describe the recording instead.")] = False,
    policy: Annotated[str, option("--policy", "Recorded side.", SIDE_METAVAR, complete_policies)] = DEMONSTRATOR,
    opponent: Annotated[str, option("--opponent", "Other side.", SIDE_METAVAR, complete_policies)] = OPPONENT,
    matches: Annotated[int, option("--matches", "Matches, an even number.", min=2)] = MATCHES,
    seed: Annotated[int, option("--seed", "Seed of the first two matches and their map.")] = 0,
    preset: options.GamePreset = None,
    config: options.Config = None,
    assignments: options.Set = None,
    weapon_prob: options.Weapon = 1.0,
    stochastic: Annotated[bool, option("--stochastic", "Let the policy sample actions instead of the mean.")] = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> int | None:
    """Record matches of one side: observations, actions, outcomes. The same command continues after an interrupt.

    Every seed is played from both sides. The environment is that of the preset; default: that of the first policy's
    training.
    """
    if verify:
        return _verify(folder, as_json)
    from echelon.training.runtime.threads import thread_environment

    require_device(device)
    os.environ.update(thread_environment())
    from echelon.training.demonstrations import DemoPlan
    from echelon.training.demonstrations import record as record_matches

    sides = [player(name, device) for name in (policy, opponent)]
    plan = DemoPlan(
        env=_environment(sides, preset, config, assignments),
        policy=replace(sides[0], samples=stochastic),
        opponent=replace(sides[1], samples=True),
        matches=matches,
        first_seed=seed,
        weapon_prob=weapon_prob,
    )
    with output.waiting(f"recording {matches} matches", quiet=as_json) as show_progress:
        try:
            manifest = record_matches(
                plan,
                folder,
                device=device,
                threads=threads,
                on_wave=lambda recorded: show_progress(f"{recorded} of {matches} matches recorded"),
            )
        except KeyboardInterrupt:
            if not as_json:
                output.print_line(f"stopped; the same command continues the recording in {folder}")
            return output.STOPPED
    _show(folder, manifest, as_json)
    return output.DONE


def _verify(folder: Path, as_json: bool) -> None:
    from echelon.demos import load

    demos = load(folder, partial=True)
    with output.waiting(f"verifying {len(demos)} shards", quiet=as_json):
        for _ in demos:
            pass
    _show(folder, demos.manifest, as_json)


@app.command("clone")
def clone(
    folder: FolderArgument,
    target: Annotated[Path, argument("FILE", "File of the policy, for --start-from.")],
    epochs: Annotated[int, option("--epochs", "Passes over the recording.", min=1)] = EPOCHS,
    preset: Annotated[
        str | None,
        option("--preset", f"Preset of network and learning rate; default: {CLONED_PRESET}.", "NAME", complete_presets),
    ] = None,
    config: options.Config = None,
    assignments: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Train a policy on a recording alone (behaviour cloning). --start-from takes its file.

    The preset sets network and learning rate, the recording the environment.
    """
    from echelon.demos import load
    from echelon.training.cloning import clone as clone_policy

    demos = load(folder)
    overrides = overrides_of(assignments)
    resolved = resolve(preset, config, overrides, fallback=CLONED_PRESET)
    with output.waiting(f"epoch 1 of {epochs}", quiet=as_json) as show_progress:
        last = clone_policy(
            demos,
            resolved.config,
            target,
            epochs=epochs,
            on_epoch=lambda epoch: show_progress(f"epoch {epoch.number} of {epochs}, loss {epoch.imitation_loss:.2f}"),
        )
    if as_json:
        output.show_json({"path": str(target), **asdict(last)})
    else:
        output.print_line(f"{target}: {epochs} epochs, imitation loss {last.imitation_loss:.2f}")
        again = command("train", "--preset", resolved.config.preset, "--start-from", target)
        output.print_line(f"train from it: {again}")


def player(name: str, device: str) -> "DemoPlayer":
    """Return the player that ``name`` refers to: a scripted level, the champion, a checkpoint, run or league entry."""
    from echelon.training.demonstrations import DemoPlayer
    from echelon.training.opponents.fixed import find_opponents

    found = find_opponents(name, device, "pilot")
    (label,) = found.weights
    return DemoPlayer(label, found.single_level, found.policies.get(label))


def _environment(
    sides: "list[DemoPlayer]", preset: str | None, config: Path | None, assignments: list[str] | None
) -> EnvConfig:
    """Return the environment of the options; without any that of the first policy, else of the default preset."""
    from echelon.training.policy_agent import env_config_of

    loaded = [side.loaded for side in sides if side.loaded is not None]
    if loaded and not (preset or config or assignments):
        return env_config_of(loaded[0].meta)
    overrides = overrides_of(assignments)
    return resolve(preset, config, overrides).config.env


def _show(folder: Path, manifest: "Manifest", as_json: bool) -> None:
    if as_json:
        facts = {**asdict(manifest), "shards": len(manifest.shards)}
        return output.show_json({"path": str(folder), "complete": manifest.is_complete, **facts})
    counts = manifest.counts
    output.show_table(
        ("", ""),
        [
            ("recorded", f"{manifest.policy.name} against {manifest.opponent.name}"),
            ("matches", f"{counts.episodes} of {manifest.matches}, seeds from {manifest.first_seed}, both sides"),
            ("outcomes", f"{counts.wins} wins, {counts.draws} draws, {counts.losses} losses"),
            ("samples", f"{output.count(counts.agent_steps)} of living mechs in {output.count(counts.steps)} steps"),
            ("arrays", f"{manifest.obs_dim} observation columns, {manifest.action_dim} action columns"),
            ("files", f"{len(manifest.shards)} shards in {folder}"),
        ],
    )
