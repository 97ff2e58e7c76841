"""Help texts, and names that are repeated where a library would be slow to import."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

from echelon.agents.heuristic import SKILLS
from echelon.arena.matchmaking import SCHEMES
from echelon.bench.scenes import SCENES
from echelon.config import Fairness
from echelon.jobs.sweeps import plan
from echelon.sim.arsenal import CHASSIS
from echelon.telemetry.mirrors import MIRRORS
from echelon.web.build import GAMES
from echelon_cli.main import COMMANDS, root
from echelon_cli.options import CHOICES, MapKind
from echelon_cli.reference import leaves, reference
from echelon_cli.tui.panels import COMPARED

ROOT = root().load_all()


def groups(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every group of commands."""
    if below := getattr(command, "commands", {}):
        yield path
    for name, found in below.items():
        yield from groups(found, (*path, name))


def test_help_of_the_top_level_imports_no_command(repository):
    code = (
        "import sys; from echelon_cli.main import run; code = run(['--help']); "
        "assert code == 0 and not [m for m in sys.modules if m.startswith(('echelon_cli.commands.', 'pydantic'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=repository, stdout=subprocess.DEVNULL)


def test_help_is_the_same_without_docstrings(repository):
    argv = [sys.executable, "-OO", "-m", "echelon_cli.reference"]
    done = subprocess.run(argv, check=True, cwd=repository, capture_output=True, text=True)
    assert done.stdout == reference()


def test_line_of_the_top_level_help_fits_a_terminal_of_80_columns(echelon):
    listed = echelon("--help")[1]
    assert all(f"{row.help}\n" in listed for row in COMMANDS.values())


def test_short_helps_fit_a_terminal_of_80_columns(echelon):
    for group in groups(ROOT):
        listed = echelon(*group, "--help")[1].splitlines()[1:]
        assert [line for line in listed if line.endswith("...")] == []


def test_names_that_are_repeated_for_speed_agree():
    assert get_args(MapKind) == get_args(Fairness)
    assert {name: tuple(values) for name, values in CHOICES.items()} == {
        "class": tuple(row.chassis.name.lower() for row in CHASSIS),
        "chart": tuple(COMPARED),
        "game": tuple(GAMES),
        "metric": get_args(plan.Metric),
        "pilot": SKILLS,
        "scene": tuple(SCENES),
        "mirror": tuple(MIRRORS),
        "sampler": get_args(plan.Sampler),
        "scheme": tuple(SCHEMES),
    }


def test_numbers_and_choices_state_default_and_unit():
    incomplete = []
    for path, command in leaves(ROOT):
        for option in command.params:
            if option.param_type_name != "option" or option.is_flag or option.multiple:
                continue
            descriptor = option.type_descriptor
            is_typed = descriptor.is_choice or option.metavar in (None, "<int>", "<float>", "SECONDS", "COLUMNS")
            if is_typed and option.default is None and "default" not in option.help:
                incomplete.append(f"{path} {option.opts[0]}: no default")
            if descriptor.annotation is float and not re.search(r"\[.+\]|0 to 1|0: any|real time", option.help):
                incomplete.append(f"{path} {option.opts[0]}: no unit")
    assert incomplete == []
