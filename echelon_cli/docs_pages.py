"""Pages of the docs site that are generated at its build: commands, configuration, Python names, examples."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from echelon.config import RunConfig, ranges
from echelon.jobs.config_layers import default_values, field_descriptions, field_types
from echelon_cli.commands import train
from echelon_cli.main import app

COMMANDS, CONFIGURATION, PYTHON = "reference/commands.md", "reference/configuration.md", "reference/python.md"
FOUND_FIRST = "---\nsearch:\n  boost: 4\n---\n\n"
"""Front matter of pages that a search lists before others."""
EXAMPLES, NOTEBOOK = "examples", "python-tour.md"
ROOT_DOCUMENTS = {
    "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
}  # fmt: skip
"""Documents beside ``docs/`` -> their pages."""
TRAIN = "train"
"""Command with options of single fields."""
API: dict[str, tuple[str, ...]] = {
    "Train and evaluate": (
        "echelon.training.api.train", "echelon.training.api.evaluate", "echelon.training.loop.run",
        "echelon.training.loop.RunResult", "echelon.training.evaluation.EvalStats",
        "echelon.training.evaluation.evaluate_ladder",
    ),
    "Environments": (
        "echelon.training.task_env.make_vec", "echelon.training.task_env.TaskVectorEnv",
        "echelon.training.task_parallel.parallel_env", "echelon.env.gym_vector.EchelonVectorEnv",
        "echelon.env.env.EchelonEnv", "echelon.training.vec_env.VectorEnv",
    ),
    "Policies": (
        "echelon.training.weights.load_policy", "echelon.rl.weights.LoadedPolicy",
        "echelon.training.policy_agent.PolicyAgent", "echelon.rl.build.FlatPolicy", "echelon.rl.model.ActorCriticLSTM",
    ),
    "Rewards": ("echelon.env.reward.Term", "echelon.env.reward.add_term", "echelon.env.reward.remove_term"),
    "Runs and replays": (
        "echelon.run_data.load", "echelon.run_data.RunData", "echelon.replay.reader.Replay",
        "echelon.server.notebook.show",
    ),
    "Events of a run": ("echelon.telemetry.events",),
    "Statistics": ("echelon.statistics",),
    "Configuration": (
        "echelon.config.presets.get_preset", "echelon.config.RunConfig", "echelon.config.EnvConfig",
        "echelon.config.WorldConfig",
    ),
}  # fmt: skip
"""What the reference of the Python interface describes, by heading; fields of configurations have a separate page."""
EXAMPLE_LANGUAGES = {".py": "python", ".sh": "sh", ".sbatch": "sh"}
SECTION_RANGES = {
    "": ranges.RUN_RANGES,
    "curriculum": ranges.CURRICULUM_RANGES,
    "env": ranges.ENV_RANGES,
    "env.display": ranges.DISPLAY_RANGES,
    "env.obs_norm": ranges.OBS_NORM_RANGES,
    "env.physics": ranges.PHYSICS_RANGES,
    "env.reward": ranges.REWARD_RANGES,
    "env.world": ranges.WORLD_RANGES,
    "env.world.connectivity": ranges.CONNECTIVITY_RANGES,
    "eval": ranges.EVAL_RANGES,
    "model": ranges.MODEL_RANGES,
    "opponents": ranges.OPPONENT_RANGES,
    "opponents.league": ranges.LEAGUE_RANGES,
    "ppo": ranges.PPO_RANGES,
    "teacher": ranges.TEACHER_RANGES,
}
"""Ranges of the fields of each section of a configuration."""
UNIT = re.compile(r"\s*\[([^\]]+)\]")
"""Unit of a field within its description."""
MARKUP = re.compile(r"`[^`]+`|[\\*_<>\[\]|]")
"""Code, or a character that means something in Markdown or ends a cell; within code a cell does not end."""
VALUE_NAMES = {"str": "text", "int": "integer", "float": "number"}
"""Types of options, as the commands print them -> words."""
TYPE_NAMES = {bool: "true or false", int: "integer", float: "number", str: "text", NoneType: "none"}


def generated_pages(root: Path) -> dict[str, str]:
    """Return the Markdown of every generated page by its path in the site; ``root`` has ``docs/`` and ``examples/``."""
    return {
        COMMANDS: FOUND_FIRST + command_page(),
        CONFIGURATION: FOUND_FIRST + configuration_page(),
        PYTHON: FOUND_FIRST + python_page(),
        **example_pages(root / "examples"),
        NOTEBOOK: notebook_page(root / "examples" / "tour.ipynb"),
        **{page: root_page(root / name) for name, page in ROOT_DOCUMENTS.items()},
    }


def root_page(document: Path) -> str:
    """Return a document of the root as a page beside those of ``docs``."""
    text = document.read_text(encoding="utf-8").replace("](docs/", "](")
    for name, page in ROOT_DOCUMENTS.items():
        text = text.replace(f"]({name}", f"]({page}")
    return text


def command_page() -> str:
    """Return the page of all commands: usage, arguments and options with types and defaults."""
    parts = [
        "# Commands",
        "Every command and option of `echelon`, generated from the program. Every command takes `--json`; "
        "`--help-all` shows all options in the terminal.",
    ]
    for path, command in leaves(typer.main.get_command(app)):
        parts += _command(path, command)
    return "\n\n".join(parts) + "\n"


def leaves(group: Any, path: tuple[str, ...] = ("echelon",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and command of every leaf command below a group that the program's help shows, in its order."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


def _command(path: tuple[str, ...], command: Any) -> list[str]:
    """Return heading, usage, help and tables of one command."""
    name = " ".join(path)
    context = typer.Context(command, info_name=name)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, *map(_argument, arguments), "[OPTIONS]"])
    parts = [f"## {name}", f"`{usage}`", prose(command.help)]
    rows = [(f"`{p.display_name_raw.strip('[]')}`", _type(p, context), prose(p.help)) for p in arguments]
    if rows:
        parts.append(table(("Argument", "Type", "Meaning"), rows))
    fields = [p for p in command.params if path[-1] == TRAIN and p.opts[0].removeprefix("--") in train.ALIASES]
    options = [p for p in command.params if p.param_type_name == "option" and not (p.hidden or p in fields)]
    rows = [(_spelling(p), _type(p, context), _default(p, context), prose(p.help)) for p in options]
    parts.append(table(("Option", "Type", "Default", "Meaning"), rows))
    if fields:
        parts += [
            f"Options of single fields of the [configuration]({Path(CONFIGURATION).name}); presets have other values:",
            table(("Option", "Sets", "Type", "Unit", "Default", "Meaning"), map(_field_row, fields)),
        ]
    return parts


def _field_row(option: Any) -> tuple[str, ...]:
    """Return the row of an option that sets a field of the configuration."""
    keys = train.ALIASES[option.opts[0].removeprefix("--")]
    kind, unit, default, _, meaning = _field(keys[0])
    spelling = " ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    return spelling, ", ".join(f"`{key}`" for key in keys), kind, unit, default, meaning


def _argument(argument: Any) -> str:
    """Return an argument as the usage line shows it."""
    name = argument.display_name_raw.strip("[]")
    several = "..." if argument.nargs != 1 and not name.endswith("...") else ""
    return f"{name}{several}" if argument.required else f"[{name}]{several}"


def _spelling(option: Any) -> str:
    """Return the flags of an option, with what its value is called."""
    value = f" {option.metavar}" if option.metavar and not option.is_flag else ""
    return " ".join(f"`{flag}{value}`" for flag in (*option.opts, *option.secondary_opts))


def _type(parameter: Any, context: Any) -> str:
    """Return the type of a parameter, with its range."""
    if getattr(parameter, "is_flag", False):
        return "switch"
    shown = parameter.display_type(context).strip("<>").removesuffix(" range")
    shown = shown.removeprefix("list[").removesuffix("]")
    name = str(VALUE_NAMES.get(shown, shown))
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    bounds = "" if low is None else f" from {low:g}" if high is None else f" {low:g} to {high:g}"
    return f"{prose(name.replace('|', ' | '))}{bounds}"


def _default(option: Any, context: Any) -> str:
    if option.required:
        return "required"
    default = option._extract_default_help_str(ctx=context)
    if default is None or default is False or default == "" or not option.show_default:
        return ""
    return f"`{option._get_default_string(ctx=context, show_default_is_str=False, default_value=default)}`"


def configuration_page() -> str:
    """Return the page of all configuration fields: type, unit, default, bounds and meaning."""
    parts = [
        "# Configuration",
        "Every field of a run's configuration, generated from the program. Set one with `--set KEY=VALUE`, several in "
        "a TOML file for `--config`; presets set their own values (`echelon config show --preset standard`).",
    ]
    for section, description in sections(RunConfig):
        prefix = f"{section}." if section else ""
        rows = [
            (f"`{key}`", *_field(key, SECTION_RANGES.get(section, {}).get(name)))
            for key in default_values()
            if key.startswith(prefix) and "." not in (name := key.removeprefix(prefix))
        ]
        heading = f"## {section}" if section else "## Run"
        parts += [heading, prose(description), table(("Key", "Type", "Unit", "Default", "Bounds", "Meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _field(key: str, bounds: tuple[float, float] | None = None) -> tuple[str, str, str, str, str]:
    """Return type, unit, default, bounds and meaning of a configuration field."""
    description = _descriptions()[key]
    unit = UNIT.search(description)
    return (
        " or ".join(map(type_name, field_types()[key])),
        unit[1] if unit else "",
        f"`{spelled(default_values()[key])}`",
        f"{bounds[0]:g} to {bounds[1]:g}".replace("e+0", "e").replace("e+", "e") if bounds else "",
        prose(UNIT.sub("", description)),
    )


_descriptions = cache(field_descriptions)


def sections(config: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted key and description of every section of a configuration, the configuration itself first."""
    yield prefix, (config.__doc__ or "").partition("\n\n")[0]
    for name, hint in get_type_hints(config).items():
        if is_dataclass(hint) and isinstance(hint, type):
            yield from sections(hint, f"{prefix}.{name}".lstrip("."))


def type_name(hint: Any) -> str:
    """Return a type annotation in words."""
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) is tuple:
        return "two integers"
    return TYPE_NAMES[hint]


def spelled(value: object) -> str:
    """Return a value as ``--set`` reads it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value) or '""'


def python_page() -> str:
    """Return the page from which mkdocstrings builds the reference of the Python interface."""
    parts = [
        "# Python interface",
        "`import echelon` offers the names that most programs need (`dir(echelon)`); [From Python](../api.md) shows "
        "them at work. Arrays have their shape in brackets: N learner rows, E environments, M mechs, D columns of an "
        "observation.",
    ]
    for heading, names in API.items():
        parts.append(f"## {heading}")
        options = "\n    options:\n      members: false" if heading == "Configuration" else ""
        parts += [f"::: {name}{options}" for name in names]
    return "\n\n".join(parts) + "\n"


def notebook_page(notebook: Path) -> str:
    """Return a notebook as a page: its texts and programs."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]).strip()
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
    return "\n\n".join(parts).replace("](../docs/", "](") + "\n"


def example_pages(folder: Path) -> dict[str, str]:
    """Return a page with the source of every example, and their list."""
    pages: dict[str, str] = {}
    rows = []
    for path in sorted(folder.glob("*")):
        if path.suffix not in EXAMPLE_LANGUAGES:
            continue
        source = path.read_text(encoding="utf-8")
        purpose = prose(_purpose(source, path.suffix))
        page = f"{path.name.replace('.', '-')}.md"
        rows.append((f"[{path.name}]({page})", purpose))
        pages[f"{EXAMPLES}/{page}"] = (
            f"# {path.name}\n\n{purpose}\n\n```{EXAMPLE_LANGUAGES[path.suffix]}\n{source.strip()}\n```\n"
        )
    if not rows:
        return {}
    text = "Whole programs to start from; `examples/` of the repository has them, and tests run them."
    pages[f"{EXAMPLES}/index.md"] = f"# Examples\n\n{text}\n\n{table(('Program', 'Does'), rows)}\n"
    return pages


def _purpose(source: str, suffix: str) -> str:
    """Return the first line of what a program states about itself."""
    if suffix == ".py":
        return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    stated = re.search(r"^# (.+)$", source, re.MULTILINE)
    return stated[1] if stated else ""


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    header = tuple(header)
    lines = (header, ("---",) * len(header), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def prose(text: str | None) -> str:
    """Return a text in one line, as Markdown of a cell that shows its characters as they are, and code as code."""
    line = " ".join((text or "").split())
    return MARKUP.sub(lambda found: found[0] if found[0].startswith("`") else f"\\{found[0]}", line)
