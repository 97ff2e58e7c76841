"""Arguments and options shared by several commands, and their shell completions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, get_args

import typer

from echelon_cli.foreign_text import completable

CHOICES: dict[str, tuple[str, ...]] = {
    "chart": ("wins", "return", "speed", "gradient", "losses", "kl", "entropy", "explained", "imitation"),
    "class": ("scout", "light", "medium", "heavy"),
    "metric": ("win_rate", "sampled_win_rate", "mean_hp_margin", "mean_return"),
    "pilot": ("trivial", "easy", "medium", "hard", "expert"),
    "mirror": ("tensorboard", "wandb", "trackio"),
    "scene": (
        "sim-5v5", "sim-10v10", "sim-20v20", "sim-100v100", "sim-blind", "rays", "observation", "reset", "maps",
        "compile", "gym-vec", "update", "train", "chunk", "crowded", "league-scripted", "league-4", "league-20",
        "league-opponents", "league-history", "dash-first", "dash-live", "dash-four", "dash-long", "server-load",
        "scaling", "scaling-train",
    ),
    "sampler": ("random", "grid", "tpe"),
    "scheme": ("round-robin", "skill"),
}  # fmt: skip
"""Names of the library that a shell completes, repeated here because completions have no time to import it."""

MapKind = Literal["any", "path"]
"""The same of ``echelon.config.Fairness``."""


def complete_runs(incomplete: str) -> list[str]:
    """Return the run ids, and the short ids, that start with ``incomplete``."""
    from echelon.runs import list_runs
    from echelon_cli.tui.format import short_run_id

    ids = completable(run.id for run in list_runs())
    return [name for name in (*ids, *(map(short_run_id, ids) if incomplete else ())) if name.startswith(incomplete)]


def complete_policies(incomplete: str) -> list[str]:
    """Return the champion, the scripted levels and the runs that start with ``incomplete``."""
    from echelon import champion
    from echelon.config.opponents import PilotSkill

    names = (champion.NAME, *(f"heuristic:{level}" for level in get_args(PilotSkill)))
    return [*(name for name in names if name.startswith(incomplete)), *complete_runs(incomplete)]


def complete_networks(incomplete: str) -> list[str]:
    """Return the champion and the runs that start with ``incomplete``."""
    from echelon import champion

    return [*one_of(champion.NAME)(incomplete), *complete_runs(incomplete)]


def complete_presets(incomplete: str) -> list[str]:
    """Return the presets that start with ``incomplete``."""
    from echelon.config.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def complete_sides(incomplete: str) -> list[str]:
    """Return the presets and runs that start with ``incomplete``."""
    return [*complete_presets(incomplete), *complete_runs(incomplete)]


def complete_keys(incomplete: str) -> list[str]:
    """Return the configuration keys that start with ``incomplete``."""
    from echelon.jobs.config_layers import default_values

    return [f"{key}=" for key in default_values() if key.startswith(incomplete)]


def complete_devices(incomplete: str) -> list[str]:
    """Return the devices of this machine that start with ``incomplete``."""
    from echelon.jobs.usage import gpu_count

    gpus = gpu_count()
    names = ("auto", "cpu", *(("cuda",) if gpus else ()), *(f"cuda:{number}" for number in range(gpus)))
    return [name for name in names if name.startswith(incomplete)]


def complete_filter(incomplete: str) -> list[str]:
    """Return the queries that complete the last term of ``incomplete``: fields, and values of some."""
    from echelon_cli.query_terms import complete_term

    *before, term = incomplete.split(" ")
    return [" ".join((*before, found)) for found in complete_term(term)]


def complete_labels(field: str) -> Callable[[str], list[str]]:
    """Return the completion of a label: ``group`` or ``tag``."""

    def complete(incomplete: str) -> list[str]:
        from echelon_cli.query_terms import FIELD_VALUES

        return one_of(*sorted(FIELD_VALUES[field]()))(incomplete)

    return complete


def one_of(*names: str) -> Callable[[str], list[str]]:
    """Return the completion of an option that takes one of ``names``."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


DEVICE_PRESETS = "quickstart, with a GPU gpu"
"""Preset of a training run where none is named."""

TrainedPresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help=f"Named configuration to start from; default: {DEVICE_PRESETS}.",
        autocompletion=complete_presets,
    ),
]

GamePresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="Preset whose game is played; default: the first policy's game, without one quickstart's.",
        autocompletion=complete_presets,
    ),
]

DeviceOption = Annotated[
    str, typer.Option("--device", help="Device: cpu, cuda, cuda:N or auto.", autocompletion=complete_devices)
]

ThreadsOption = Annotated[int, typer.Option("--threads", min=0, help="Threads per process; 0 uses every core.")]

PacksOption = Annotated[
    int | None, typer.Option("--packs", min=1, help="Packs of five mechs per team; default: the game's.")
]

MapsOption = Annotated[
    MapKind | None,
    typer.Option(
        "--maps",
        help="Maps with the zone anywhere (any) or equal path costs for both teams (path); default: the game's.",
    ),
]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

NotifyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        metavar="URL",
        help="Report end, failure and alerts to a URL of apprise, such as ntfys://ntfy.sh/TOPIC; may be repeated.",
    ),
]

MirrorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mirror",
        metavar="NAME[=TARGET]",
        help="Show the curves live in tensorboard (=folder), wandb or trackio (=project); may be repeated.",
        autocompletion=one_of(*CHOICES["mirror"]),
    ),
]


def complete_launchers(incomplete: str) -> list[str]:
    """Return the launchers that start with ``incomplete``."""
    from echelon.jobs.launchers import ENGINES

    return [name for name in ENGINES if name.startswith(incomplete)]


LauncherOption = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        metavar="NAME[:KEY=VALUE,...]",
        help="Start the work on hosts of a cluster: ray or slurm with options, such as slurm:partition=gpu,time=240.",
        autocompletion=complete_launchers,
    ),
]

QueueFlag = Annotated[
    bool, typer.Option("--queue", help="Append the job to the queue, which starts it when its device is free.")
]

RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Id, part of an id, folder, or 'latest'.", autocompletion=complete_runs, show_default=False
    ),
]

RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="Ids, parts of ids, folders, or latest.", autocompletion=complete_runs),
]

PolicyArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN|CHECKPOINT|ENTRY|champion",
        help="A run (its best checkpoint, else its newest), a checkpoint or policy folder, a league entry or champion.",
        autocompletion=complete_networks,
        show_default=False,
    ),
]

FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="QUERY",
        help="Only runs that match, such as 'state:running eval>50% -tag:old'; default: all.",
        autocompletion=complete_filter,
    ),
]

PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="Named configuration to start from; default: quickstart.",
        autocompletion=complete_presets,
    ),
]

ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="TOML file of values that override the preset's.")
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a value (ppo.lr=1e-4); may be repeated.",
        autocompletion=complete_keys,
    ),
]
