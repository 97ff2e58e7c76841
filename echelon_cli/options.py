"""Arguments and options shared by several commands, and their shell completions."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from echelon.config import Fairness


def complete_runs(incomplete: str) -> list[str]:
    """Return the run ids, and the short ids, that start with ``incomplete``."""
    from echelon.runs import list_runs
    from echelon_cli.tui.format import short_run_id

    ids = [run.id for run in list_runs() if run.id.isprintable()]
    return [name for name in (*ids, *(map(short_run_id, ids) if incomplete else ())) if name.startswith(incomplete)]


def complete_policies(incomplete: str) -> list[str]:
    """Return the champion, the scripted levels and the runs that start with ``incomplete``."""
    from echelon import champion
    from echelon.config.opponents import PilotSkill

    names = (champion.NAME, *(f"heuristic:{level}" for level in get_args(PilotSkill)))
    return [*(name for name in names if name.startswith(incomplete)), *complete_runs(incomplete)]


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


MapsOption = Annotated[
    Fairness | None,
    typer.Option("--maps", help="Maps with the zone anywhere (any), or with equal path costs for both teams (path)."),
]

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Id, part of an id, folder, or 'latest'.", autocompletion=complete_runs, show_default=False
    ),
]

RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Ids, parts of ids, folders.", autocompletion=complete_runs),
]

FilterOption = Annotated[
    str | None,
    typer.Option("--filter", metavar="QUERY", help="Show only matches, such as 'state:running wins>50% or age<2h'."),
]

PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset", metavar="NAME", help="Named configuration to start from.", autocompletion=complete_presets
    ),
]

ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="TOML file that overrides the preset.")
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one value, such as ppo.lr=1e-4; may be repeated.",
        autocompletion=complete_keys,
    ),
]
