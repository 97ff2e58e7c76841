"""``echelon config``: configuration fields, their values and where each value came from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from echelon_cli import output
from echelon_cli.options import ConfigOption, JsonFlag, PresetOption, SetOption, complete_runs, complete_sides, one_of

LAYOUTS = ("suite", "classic")

app = typer.Typer(
    help="Configuration fields, their values and where they come from.", no_args_is_help=True, rich_markup_mode=None
)


def _resolve(preset: str | None, config: str | None, assignments: list[str] | None):
    from echelon.jobs.config_layers import parse_assignment, resolve

    overrides = dict(parse_assignment(text) for text in assignments or [])
    return resolve(preset, Path(config) if config else None, overrides)


@app.command("show")
def show(
    preset: PresetOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Show the configuration of this run.", autocompletion=complete_runs),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show every field, its value and the layer that set it."""
    if run and (preset or config or assignments):
        raise typer.BadParameter("--run shows the configuration of a run as it is; drop --preset, --config and --set")
    values, provenance = _values(run) if run else _layers(preset, config, assignments)
    if as_json:
        output.show_json({"values": values, "provenance": provenance})
        return output.DONE
    output.show_table(("key", "value", "from"), [(k, v, provenance.get(k, "default")) for k, v in values.items()])
    return output.DONE


@app.command("diff")
def diff(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A run or a preset.", autocompletion=complete_sides)],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help="A run or a preset.", autocompletion=complete_sides)],
    as_json: JsonFlag = False,
) -> int:
    """Show the fields in which two runs or presets differ. Of two runs also source, packages and devices."""
    first, second = _side(left), _side(right)
    environments = [_environment(name) for name in (left, right)]
    if all(environments):
        first, second = first | environments[0], second | environments[1]
    keys = sorted({*first, *second})
    differing = {key: [first.get(key), second.get(key)] for key in keys if first.get(key) != second.get(key)}
    if as_json:
        output.show_json(differing)
    elif differing:
        output.show_table(("key", left, right), [(key, *pair) for key, pair in differing.items()])
    else:
        output.print_line(f"{left} and {right} do not differ")
    return output.DONE


@app.command("schema")
def schema(as_json: JsonFlag = False) -> int:
    """Show every field with its default and meaning. --json prints a JSON schema."""
    from echelon.jobs.config_layers import default_values, field_descriptions
    from echelon.jobs.config_layers import schema as json_schema

    if as_json:
        output.show_json(json_schema())
        return output.DONE
    meaning = field_descriptions()
    rows = [(key, default, meaning[key]) for key, default in default_values().items()]
    output.show_table(("key", "default", "meaning"), rows)
    return output.DONE


@app.command("presets")
def presets(as_json: JsonFlag = False) -> int:
    """List the presets."""
    from echelon.config.presets import PRESETS

    rows = {name: (function.__doc__ or "").strip().splitlines()[0] for name, function in PRESETS.items()}
    if as_json:
        output.show_json(rows)
    else:
        output.show_table(("preset", "description"), rows.items())
    return output.DONE


@app.command("observation")
def observation(
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="NAME",
            help="Layout: suite or classic; default: the configuration's.",
            autocompletion=one_of(*LAYOUTS),
        ),
    ] = None,
    preset: PresetOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    as_json: JsonFlag = False,
) -> int:
    """List observation columns: name, bounds, normalised or not."""
    from dataclasses import replace

    from echelon.env import layout as observe

    env = _resolve(preset, config, assignments).config.env
    if layout is not None:
        if layout not in LAYOUTS:
            raise typer.BadParameter(f"--layout is {layout!r}, expected {' or '.join(LAYOUTS)}")
        env = replace(env, obs_layout=layout)
    table = observe.columns(env)
    if as_json:
        columns = [row._asdict() for row in table]
        output.show_json({"layout": env.obs_layout, "version": env.obs_version, "columns": columns})
        return output.DONE
    shown = [(row.index, row.name, f"{row.low:g}", f"{row.high:g}", "yes" if row.normalizable else "") for row in table]
    output.show_table(("column", "name", "low", "high", "normalised"), shown, right=("column", "low", "high"))
    return output.DONE


def _layers(preset: str | None, config: str | None, assignments: list[str] | None):
    resolved = _resolve(preset, config, assignments)
    return resolved.values, resolved.provenance


def _values(run: str):
    from echelon.jobs.config_layers import flatten
    from echelon.jobs.spec import read_spec
    from echelon.runs import find_run

    spec = read_spec(find_run(run))
    return flatten(spec.config), spec.provenance


def _environment(name: str) -> dict[str, Any]:
    """Return the environment of a run by dotted key; empty for a preset."""
    from echelon.config.presets import PRESETS
    from echelon.jobs.environment import flat_environment, read_environment
    from echelon.runs import find_run

    return {} if name in PRESETS else flat_environment(read_environment(find_run(name)))


def _side(name: str) -> dict[str, Any]:
    from echelon.config.presets import PRESETS
    from echelon.jobs.config_layers import did_you_mean
    from echelon.runs import RunNotFoundError

    if name in PRESETS:
        return _resolve(name, None, None).values
    try:
        return _values(name)[0]
    except RunNotFoundError as error:
        raise RunNotFoundError(f"{error}; it is no preset either{did_you_mean(name, PRESETS)}") from None
