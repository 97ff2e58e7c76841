"""Arguments and options shared by several commands, their shell completions, and errors about their values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from echelon_cli.foreign_text import completable

CHOICES: dict[str, tuple[str, ...]] = {
    "chart": ("wins", "return", "losses", "kl", "entropy", "speed", "gradient", "explained", "imitation"),
    "class": ("scout", "light", "medium", "heavy"),
    "game": ("5v5", "10v10"),
    "metric": ("win_rate", "sampled_win_rate", "mean_hp_margin", "mean_return"),
    "pilot": ("trivial", "easy", "medium", "hard", "expert"),
    "mirror": ("tensorboard", "wandb", "trackio"),
    "scene": (
        "sim-5v5", "sim-10v10", "sim-20v20", "sim-100v100", "sim-blind", "rays", "observation", "reset", "maps",
        "compile", "update", "train", "scaling",
    ),
    "sampler": ("random", "grid", "tpe"),
    "scheme": ("round-robin", "skill"),
}  # fmt: skip
"""Names of the library that a shell completes, repeated here because completions have no time to import it."""

MapKind = Literal["any", "path"]
"""The same of ``echelon.config.Fairness``."""


Completion = Callable[[str], list[str]]


def option(
    name: str,
    text: str,
    metavar: str | None = None,
    complete: Completion | None = None,
    *,
    short: str = "",
    **more: Any,
) -> Any:
    """Return the declaration of an option with its help text; ``complete`` returns the words that complete one."""
    names = (short, name) if short else (name,) if name else ()
    return typer.Option(*names, metavar=metavar, help=text, autocompletion=complete, **more)


def argument(metavar: str, text: str, complete: Completion | None = None, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete, show_default=False, **more)


def complete_runs(incomplete: str) -> list[str]:
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
    from echelon import champion

    return [*one_of(champion.NAME)(incomplete), *complete_runs(incomplete)]


def complete_presets(incomplete: str) -> list[str]:
    from echelon.config.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def complete_sides(incomplete: str) -> list[str]:
    return [*complete_presets(incomplete), *complete_runs(incomplete)]


def complete_keys(incomplete: str) -> list[str]:
    from echelon.jobs.config_layers import default_values

    return [f"{key}=" for key in default_values() if key.startswith(incomplete)]


def complete_devices(incomplete: str) -> list[str]:
    from echelon.jobs.usage import gpu_count

    gpus = gpu_count()
    names = ("auto", "cpu", *(("cuda",) if gpus else ()), *(f"cuda:{number}" for number in range(gpus)))
    return [name for name in names if name.startswith(incomplete)]


def complete_filter(incomplete: str) -> list[str]:
    """Return the queries that complete the last term of ``incomplete``: fields, and values of some."""
    from echelon_cli.query import complete_term

    *before, term = incomplete.split(" ")
    return [" ".join((*before, found)) for found in complete_term(term)]


def complete_labels(field: str) -> Completion:
    """Return the completion of a label: ``group`` or ``tag``."""

    def complete(incomplete: str) -> list[str]:
        from echelon_cli.query import FIELD_VALUES

        return one_of(*sorted(FIELD_VALUES[field]()))(incomplete)

    return complete


def one_of(*names: str) -> Completion:
    """Return the completion of an option that takes one of ``names``."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


DEVICE_PRESETS = "quickstart, with a GPU gpu"
"""Preset of a training run where none is named."""

TrainedPreset = Annotated[
    str | None,
    option("--preset", f"Named configuration to start from; default: {DEVICE_PRESETS}.", "NAME", complete_presets),
]

GamePreset = Annotated[
    str | None,
    option(
        "--preset", "Preset of the game; default: the first policy's game, else quickstart's.", "NAME", complete_presets
    ),
]

Device = Annotated[str, option("--device", "Device: cpu, cuda, cuda:N or auto.", complete=complete_devices)]

Threads = Annotated[int, option("--threads", "Threads per process; 0 uses every core.", min=0)]

Packs = Annotated[int | None, option("--packs", "Packs of five mechs per team; default: the game's.", min=1)]

Maps = Annotated[
    MapKind | None,
    option("--maps", "Maps with the zone anywhere (any) or equal path costs for teams (path); default: the game's."),
]

Seconds = Annotated[float | None, option("--seconds", "Time limit [s]; default: the game's.", "SECONDS")]

Height = Annotated[int | None, option("--height", "Map height [vox]; default: the game's.")]

Ratio = Annotated[
    float | None,
    option("--max-distance-ratio", "Greatest ratio of straight distances to the zone; 0: any; default: the game's."),
]

Weapon = Annotated[float, option("--weapon-prob", "Trigger probability of levels, 0 to 1.", min=0.0, max=1.0)]

Detach = Annotated[bool, option("--detach", "Return when the job has started.")]

Yes = Annotated[bool, option("--yes", "Skip the confirmation.", short="-y")]

Force = Annotated[bool, option("--force", "Overwrite an existing file.")]

Json = Annotated[bool, option("--json", "Print JSON instead of text.")]

Notify = Annotated[
    list[str] | None,
    option(
        "--notify", "Report ends and alerts to a URL of apprise, such as ntfys://ntfy.sh/TOPIC; may be repeated.", "URL"
    ),
]

Mirror = Annotated[
    list[str] | None,
    option(
        "--mirror",
        "Show the curves live in tensorboard (=folder), wandb or trackio (=project); may be repeated.",
        "NAME[=TARGET]",
        one_of(*CHOICES["mirror"]),
    ),
]


def complete_launchers(incomplete: str) -> list[str]:
    from echelon.jobs.launchers import ENGINES

    return [name for name in ENGINES if name.startswith(incomplete)]


Launcher = Annotated[
    str | None,
    option(
        "--launcher",
        "Start the work on hosts of a cluster: ray or slurm with options, such as slurm:partition=gpu,time=240.",
        "NAME[:KEY=VALUE,...]",
        complete_launchers,
    ),
]

Queue = Annotated[bool, option("--queue", "Append the job to the queue, which starts it when its device is free.")]

Run = Annotated[str, argument("RUN", "Id, part of an id, folder, or 'latest'.", complete_runs)]

Runs = Annotated[list[str], argument("RUN", "Ids, parts of ids, folders, or latest.", complete_runs)]

Policy = Annotated[
    str,
    argument(
        "RUN|CHECKPOINT|ENTRY|champion",
        "A run (its best checkpoint, else its newest), a checkpoint or policy folder, a league entry or champion.",
        complete_networks,
    ),
]

Filter = Annotated[
    str | None,
    option("--filter", "Only runs such as 'state:running eval>50% -tag:old'; default: all.", "QUERY", complete_filter),
]

Preset = Annotated[
    str | None, option("--preset", "Named configuration to start from; default: quickstart.", "NAME", complete_presets)
]

Config = Annotated[Path | None, option("--config", "TOML file of values that override the preset's.", "FILE")]

Set = Annotated[
    list[str] | None, option("--set", "Override a value (ppo.lr=1e-4); may be repeated.", "KEY=VALUE", complete_keys)
]


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ``ValueError`` about the command line into a usage error."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def overrides_of(assignments: list[str] | None) -> dict[str, Any]:
    """Return the values of ``--set`` by key; ``ConfigError`` for text that is no assignment."""
    from echelon.jobs.config_layers import parse_assignment

    return dict(map(parse_assignment, assignments or []))
