"""Every command line that was documented keeps working; older spellings are hidden and give a notice."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from typer.main import get_command

from echelon.arena.contest import pilot_names
from echelon.arena.matchmaking import SCHEMES
from echelon.bench.scenes import SCENES
from echelon.config import Fairness
from echelon.jobs.observers import MIRRORS
from echelon.jobs.sweeps import plan
from echelon.sim.arsenal import CHASSIS
from echelon_cli.commands.train import ALIASES
from echelon_cli.main import COMMANDS, HELP_ALL, application
from echelon_cli.options import CHOICES, MapKind
from echelon_cli.spellings import MOVED, RENAMED, SWITCHES, current
from echelon_cli.tui.panels import COMPARED

DOCUMENTED = """
train --preset --config --set --resume --detach --nproc --profile --queue --notify --mirror --init-from --num-envs
train --packs-per-team --opponents --minutes --total-steps --device --lr --seed
eval --opponent --maps --record --detach --resume --ladder
heat --kind --png
export --csv --tensorboard --wandb --torchscript --onnx --weights --policy
runs export --csv --tensorboard --wandb --torchscript --onnx --weights --policy
push --dry-run --replay
pull --out
jobs --filter --all
queue list
queue slots
queue move
queue pause
queue resume
queue rm
stop --now
wait --timeout
logs -f -n
rm --yes
runs list --sort --filter --columns
runs show
runs compare --chart
runs label --group --tag --notes
runs disk
runs archive --filter --keep
runs restore
runs prune --keep
runs filter
config show
config diff
config schema
config presets
config observation --layout
dash --host --once
watch --demo --league --follow
serve --play
play --class --with --tutorial --league
replay list
replay info
replay export --out
replay video --from --to --view
replay branch --at --set --changes --without --record
replay moments
replay fit-winprob --hold-out --out
replay verify --tolerant
sim --blue --red --maps --record --insight --fair --packs --envs
arena run --nproc --resume --opponents --record --envs
arena standings
arena entries
arena matches --recorded
arena head-to-head
arena add
arena remove
arena retire --keep
arena recompute
arena export
arena import
world make --maps --out --png --count --packs
world show --layer --heights --nav --png
demos record --policy --opponent
demos played
demos info
demos clone
sweep start --vary --resume
sweep show
ablate --baselines --vary --runs --at-once
bench --envs
doctor --speed
"""
"""Commands and options of documents and messages up to the grouping of commands."""

ROOT = get_command(application())


def options_of(words: list[str]) -> tuple[set[str], list[str]]:
    """Return the options of the command that a line names, and the words after its name."""
    command = ROOT
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    assert not hasattr(command, "commands"), f"{words} names no command"
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)}, words


@pytest.mark.parametrize("line", DOCUMENTED.strip().splitlines())
def test_documented_command_line_is_understood(line):
    known, rest = options_of(current(line.split()).words)
    assert {word for word in rest if word.startswith("-")} <= known


def test_moved_commands_are_hidden_and_the_same_functions():
    for name, path in MOVED.items():
        old, new = ROOT.commands[name], ROOT.commands[path[0]].commands[path[1]]
        assert old.hidden and not new.hidden and old.help == new.help
    assert {name for name, row in COMMANDS.items() if not row.section} == set(MOVED)


@pytest.mark.parametrize(
    ("line", "spelled", "notice"),
    [
        ("stop fox --now", "runs stop fox --now", "'echelon stop' is 'echelon runs stop' now"),
        ("train --num-envs 8", "train --envs 8", "--num-envs is --envs now"),
        ("train --num-envs=8", "train --envs=8", "--num-envs is --envs now"),
        ("train --total-steps 9", "train --steps 9", "--total-steps is --steps now"),
        ("ablate lstm --runs=3", "ablate lstm --seeds=3", "--runs is --seeds now"),
        ("train --amp false --lr 1", "train --no-amp --lr 1", "--amp and other switches take no value now: --amp"),
        ("train --amp --detach", "train --amp --detach", ""),
        ("arena run --record 0.1", "arena run --record-share 0.1", "--record is --record-share now"),
        ("replay branch m.ecr --record out", "replay branch m.ecr --out out", "--record is --out now"),
        ("export fox --onnx p", "runs export fox --onnx p", "with --onnx is 'echelon policy export' now"),
        ("export fox --csv c", "runs export fox --csv c", "'echelon export' is 'echelon runs export' now"),
        ("runs export fox --onnx=p", "runs export fox --onnx=p", "with --onnx is 'echelon policy export' now"),
        ("runs label fox -- --record", "runs label fox -- --record", ""),
        ("sim --record --json", "sim --record all --json", ""),
        ("sim --record", "sim --record all", ""),
        ("sim --record 3", "sim --record 3", ""),
        ("--version", "--version", ""),
        ("", "", ""),
    ],
)
def test_older_spelling_becomes_that_of_today(line, spelled, notice):
    found = current(line.split())
    assert found.words == spelled.split()
    assert len(found.notices) == bool(notice) and notice in "".join(found.notices)


def test_notice_is_on_stderr_and_absent_with_json(echelon, ended_run):
    ended_run("20260101-000000-quickstart-calm-fox")
    code, out, err = echelon("wait", "fox")
    assert (code, err) == (0, "notice: 'echelon wait' is 'echelon runs wait' now\n") and "notice" not in out
    assert echelon("wait", "fox", "--json")[2] == ""
    assert echelon("runs", "wait", "fox")[2] == ""


def test_options_have_one_spelling():
    """``--num-envs`` beside ``--envs`` were two names of one thing; a name of an option is not that of another."""
    for path, names in RENAMED.items():
        known, _ = options_of(list(path))
        assert set(names.values()) <= known and not set(names) & known
    assert {name.removeprefix("--") for name in SWITCHES} <= set(ALIASES)


def test_help_lists_groups_and_help_all_the_older_spellings(echelon):
    short, full = echelon("--help")[1], echelon(HELP_ALL)[1]
    assert not any(re.search(rf"^  {name} ", short, re.MULTILINE) for name in MOVED)
    assert all(re.search(rf"^  {name} ", full, re.MULTILINE) for name in MOVED)
    assert "Older spellings: --num-envs is --envs" in " ".join(echelon("train", HELP_ALL)[1].split())
    assert "--onnx" not in echelon("runs", "export", "--help")[1]
    assert "--onnx" in echelon("runs", "export", HELP_ALL)[1]


def leaves(command, path=()):
    """Yield path and command of every command that ``--help`` shows."""
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from leaves(below, (*path, name)) if hasattr(below, "commands") else [((*path, name), below)]


def test_short_helps_fit_a_terminal_of_80_columns(echelon):
    for group in ("", *(name for name, command in ROOT.commands.items() if hasattr(command, "commands"))):
        listed = echelon(*group.split(), "--help")[1].splitlines()[1:]
        assert [line for line in listed if line.endswith("...")] == []


def test_names_that_are_repeated_for_speed_agree():
    assert get_args(MapKind) == get_args(Fairness)
    assert {name: tuple(values) for name, values in CHOICES.items()} == {
        "class": tuple(row.chassis.name.lower() for row in CHASSIS),
        "chart": tuple(COMPARED),
        "metric": plan.METRICS,
        "pilot": pilot_names(),
        "scene": tuple(SCENES),
        "mirror": tuple(MIRRORS),
        "pruning": plan.PRUNING,
        "sampler": plan.SAMPLERS,
        "scheme": tuple(SCHEMES),
    }


def test_numbers_and_choices_state_default_and_unit():
    """Of files and names no default is something: what they would write or show is left out."""
    incomplete = []
    for path, command in leaves(ROOT):
        for option in command.params:
            if option.param_type_name != "option" or option.hidden or option.is_flag or option.multiple:
                continue
            descriptor = option.type_descriptor
            is_typed = descriptor.is_choice or option.metavar in (None, "<int>", "<float>", "SECONDS", "COLUMNS")
            if is_typed and option.default is None and "default" not in option.help:
                incomplete.append(f"{' '.join(path)} {option.opts[0]}: no default")
            if descriptor.annotation is float and not re.search(r"\[.+\]|0 to 1|0: any|real time", option.help):
                incomplete.append(f"{' '.join(path)} {option.opts[0]}: no unit")
    assert incomplete == []
