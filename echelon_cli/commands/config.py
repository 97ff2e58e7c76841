"""``echelon config``: configuration fields, their values and where each value came from."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from echelon.config.presets import PRESETS
from echelon.jobs.config_layers import ResolvedConfig, default_values, field_descriptions, flatten, resolve, schema
from echelon.jobs.spec import read_spec
from echelon.runs import find_run
from echelon_cli import options, output
from echelon_cli.help import help_of
from echelon_cli.options import complete_runs, one_of, option, overrides_of

LAYOUTS = ("suite", "classic")

app = typer.Typer(
    help="Configuration fields, their values and where they come from.", no_args_is_help=True, rich_markup_mode=None
)


def _resolve(preset: str | None, config: Path | None, assignments: list[str] | None) -> ResolvedConfig:
    overrides = overrides_of(assignments)
    return resolve(preset, config, overrides)


@app.command("show")
def show(
    preset: options.Preset = None,
    config: options.Config = None,
    assignments: options.Set = None,
    run: Annotated[str | None, option("--run", "Show the configuration of this run.", "RUN", complete_runs)] = None,
    presets: Annotated[bool, option("--presets", "List the presets instead.")] = False,
    schema: Annotated[bool, option("--schema", "Show each field's default and meaning; --json: JSON schema.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show every field, its value and the layer that set it."""
    if (run is not None) + bool(preset or config or assignments) + presets + schema > 1:
        raise typer.BadParameter("--run, --presets and --schema exclude each other and --preset, --config and --set")
    if presets:
        rows = {name: (help_of(function) or "").strip().splitlines()[0] for name, function in PRESETS.items()}
        return output.show_json(rows) if as_json else output.show_table(("preset", "description"), rows.items())
    if schema:
        return _show_schema(as_json)
    if run:
        spec = read_spec(find_run(run))
        values, provenance = flatten(spec.config), spec.provenance
    else:
        resolved = _resolve(preset, config, assignments)
        values, provenance = resolved.values, resolved.provenance
    if as_json:
        output.show_json({"values": values, "provenance": provenance})
        return
    output.show_table(("key", "value", "from"), [(k, v, provenance.get(k, "default")) for k, v in values.items()])


def _show_schema(as_json: bool) -> None:
    if as_json:
        output.show_json(schema())
        return
    meaning = field_descriptions()
    rows = [(key, default, meaning[key]) for key, default in default_values().items()]
    output.show_table(("key", "default", "meaning"), rows)


@app.command("observation")
def observation(
    layout: Annotated[
        str | None,
        option("--layout", "Layout: suite or classic; default: the configuration's.", "NAME", one_of(*LAYOUTS)),
    ] = None,
    preset: options.Preset = None,
    config: options.Config = None,
    assignments: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """List observation columns: name, unit, bounds, normalised."""
    from echelon.env.layout import SLOT
    from echelon.env.layout import columns as layout_columns

    env = _resolve(preset, config, assignments).config.env
    if layout is not None:
        if layout not in LAYOUTS:
            raise typer.BadParameter(f"--layout is {layout!r}, expected {' or '.join(LAYOUTS)}")
        env = replace(env, obs_layout=layout)
    table = layout_columns(env)
    if as_json:
        columns = [row._asdict() for row in table]
        output.show_json({"layout": env.obs_layout, "columns": columns})
        return
    rows: dict[str, list[Any]] = {}
    for row in table:
        rows.setdefault(SLOT.sub("[]", row.name), []).append(row)
    shown = [
        (first.index, name.replace("[]", f"[0-{len(others)}]"), others[0].index - first.index if others else "",
         first.unit, f"{first.low:g}", f"{first.high:g}", "yes" * first.normalizable)
        for name, (first, *others) in rows.items()
    ]  # fmt: skip
    heads = ("column", "name", "next", "unit", "low", "high", "normalised")
    output.show_table(heads, shown, right=("column", "next", "low", "high"))
    output.print_line("next: how many columns further the same column of the next row is")
