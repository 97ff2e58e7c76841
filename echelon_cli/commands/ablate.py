"""``echelon ablate``: train one run whole and others with one thing changed each, and print what that cost or bought.

Every variant is a run like any other in the background, one after another or some at a time, so that curves,
checkpoints and matches are there to look at, and stopping this command leaves what is done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.options import ConfigOption, JsonFlag, PresetOption, SetOption

if TYPE_CHECKING:
    from echelon.jobs.config_layers import ResolvedConfig

MINUTES = 10.0
WHOLE = "whole"
"""Name of the run from which nothing is taken."""


def complete_ablations(incomplete: str) -> list[str]:
    """Return the ablations that begin with what was typed so far."""
    from echelon.config.ablations import ABLATIONS

    return [name for name in ABLATIONS if name.startswith(incomplete)]


def ablate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ABLATION]...",
            help="What to take away; everything that the preset has by default.",
            autocompletion=complete_ablations,
        ),
    ] = None,
    preset: PresetOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=VALUE[,...]", help="A variant of one's own; may be given several times."),
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.0, help="Wall time of each run; 0 leaves it to its configuration.")
    ] = MINUTES,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Training seeds of each, from the configuration's.")] = 1,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, help="Runs trained at the same time, each with its share of the cores.")
    ] = 1,
    list_them: Annotated[bool, typer.Option("--list", help="Only say what would be trained.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Train with one thing taken away at a time, and compare by the last evaluation."""
    from echelon.jobs.config_layers import parse_assignment

    overrides: dict[str, Any] = {"max_minutes": minutes} if minutes else {}
    overrides |= dict(parse_assignment(text) for text in assignments or [])
    plan = variants(preset, Path(config) if config else None, overrides, names, vary or [])
    found = []
    if list_them:
        found = [{"variant": name, "changes": changes} for name, (_, changes) in plan.items()]
        output.show_json(found) if as_json else _show_plan(plan)
        return output.DONE
    try:
        for result in train_all(plan, runs, at_once, as_json):
            found.append(result)
    except KeyboardInterrupt:
        if not as_json:
            output.say("\nstopped; these are done")
    if as_json:
        output.show_json(found)
    else:
        show(found)
    return output.DONE if all(result["last_win_rate"] is not None for result in found) else output.FAILED


Variants = dict[str, "tuple[ResolvedConfig, dict[str, Any]]"]
"""By name: the whole configuration, and what differs from the first one's."""


def variants(
    preset: str | None,
    file: Path | None,
    overrides: Mapping[str, Any],
    names: Sequence[str] | None,
    vary: Sequence[str],
) -> Variants:
    """Return what is trained, the whole run first; ``ConfigError`` for what does not exist or changes nothing."""
    from echelon.config.ablations import ABLATIONS
    from echelon.jobs.config_layers import ConfigError, did_you_mean, parse_assignment, resolve

    whole = resolve(preset, file, overrides)
    plan: Variants = {WHOLE: (whole, {})}
    for name in names or ([] if vary else ABLATIONS):
        if name not in ABLATIONS:
            near, have = did_you_mean(name, ABLATIONS), ", ".join(ABLATIONS)
            raise ConfigError(f"ablation {name!r} does not exist{near} (have: {have})")
        changes = _differing(ABLATIONS[name].changes(whole.config), whole.values)
        if changes:
            plan[f"no {name}"] = (resolve(preset, file, {**overrides, **changes}), changes)
        elif names:
            raise ConfigError(
                f"ablation {name!r} changes nothing: this configuration has no {ABLATIONS[name].description}"
            )
    for text in vary:
        changes = dict(parse_assignment(part) for part in text.split(","))
        plan[text] = (resolve(preset, file, {**overrides, **changes}), changes)
    return plan


def _differing(changes: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that are some, absent values as the word for it."""
    real = {key: value for key, value in changes.items() if values[key] != value}
    return {key: "none" if value is None else value for key, value in real.items()}


def train_all(plan: Variants, runs: int, at_once: int, as_json: bool) -> Iterator[dict[str, Any]]:
    """Train every variant on every seed, ``at_once`` at a time, and yield how each ended, in order.

    Where the caller is interrupted, the runs that have begun are stopped, and no other begins.
    """
    from concurrent.futures import ThreadPoolExecutor

    todo = [
        (name, resolved, changes, resolved.config.seed + number)
        for name, (resolved, changes) in plan.items()
        for number in range(runs)
    ]
    over = threading.Event()

    def train(name: str, resolved: ResolvedConfig, seed: int) -> dict[str, Any]:
        if not as_json:
            output.say(f"{name}, seed {seed}", style="bold")
        return train_one(resolved, seed, threads_each(resolved.config.threads, at_once), over)

    pool = ThreadPoolExecutor(at_once, thread_name_prefix="ablate")
    try:
        waiting = [pool.submit(train, name, resolved, seed) for name, resolved, _, seed in todo]
        for (name, _, changes, seed), result in zip(todo, waiting, strict=True):
            yield {"variant": name, "changes": changes, "seed": seed, **result.result()}
    finally:
        over.set()
        pool.shutdown(cancel_futures=True)


def threads_each(threads: int, at_once: int) -> int:
    """Return the threads of one of ``at_once`` runs: those asked for, else its share of the cores, at least 1."""
    from echelon.sim.backend import default_threads

    return threads if threads or at_once == 1 else max(1, default_threads() // at_once)


def train_one(resolved: ResolvedConfig, seed: int, threads: int, over: threading.Event) -> dict[str, Any]:
    """Train one run to its end, or stop it once it is ``over``; return its id, end, last evaluation and speed."""
    from echelon.jobs import launch
    from echelon.jobs.kinds import KINDS
    from echelon.jobs.spec import new_spec
    from echelon.runs import create_run
    from echelon.telemetry.snapshot import SnapshotFeed
    from echelon_cli.listing import job_json

    nested = {**resolved.nested(), "seed": seed, "threads": threads}
    paths = create_run(resolved.config.preset)
    launch.launch(paths, new_spec("train", nested, resolved.provenance), KINDS["train"])
    status = launch.wait_until(paths, lambda status: over.is_set() or not status.is_alive)
    if over.is_set():
        launch.stop(paths)
    assert status is not None, "there is no limit to the waiting"
    _, picture = SnapshotFeed(paths.metrics).poll()
    last, update = (picture.evals[-1] if picture.evals else None), picture.update
    return {
        **job_json(paths),
        "state": status.state,
        "reason": status.reason,
        "global_step": picture.global_step,
        "steps_per_s": update.global_step / update.elapsed_s if update and update.elapsed_s > 0 else 0.0,
        "opponent": last.opponent if last else "",
        "weapon_prob": last.weapon_prob if last else None,
        "episodes": last.episodes if last else 0,
        "last_win_rate": last.win_rate if last and last.update else None,
        "win_low": last.win_low if last else None,
        "win_high": last.win_high if last else None,
        "hp_margin": last.hp_margin if last else None,
    }


def show(found: Sequence[Mapping[str, Any]]) -> None:
    """Print a line per run, and what they were measured by."""
    right = ("seed", "steps", "steps/s", "wins", "95 % interval", "hp margin")
    rows = [(result["variant"], *_figures(result), result["id"]) for result in found]
    output.show_table(("variant", *right, "run"), rows, right=right)
    measured = next((result for result in found if result["last_win_rate"] is not None), None)
    if measured:
        how = f"trigger probability {measured['weapon_prob']:g}, {measured['episodes']} episodes on held-out seeds"
        output.say(f"against {measured['opponent']}, {how}, both sides")


def _figures(result: Mapping[str, Any]) -> tuple[str, ...]:
    head = (str(result["seed"]), output.count(result["global_step"]), output.count(result["steps_per_s"]))
    if result["last_win_rate"] is None:
        return (*head, result["state"], "", "")
    doubt = f"{output.percent(result['win_low'])} to {output.percent(result['win_high'])}"
    return (*head, output.percent(result["last_win_rate"]), doubt, output.figure(result["hp_margin"]))


def _show_plan(plan: Variants) -> None:
    rows = [
        (name, ", ".join(f"{key}={value}" for key, value in changes.items())) for name, (_, changes) in plan.items()
    ]
    output.show_table(("variant", "changes"), rows)
