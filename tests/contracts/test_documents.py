"""Documents agree with the code: trees, commands, presets, decisions, length limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from echelon.config.presets import PRESETS
from echelon_cli.main import app

ROOT = Path(__file__).resolve().parents[2]

TREE_LINE = re.compile(r"^(?P<indent>(?: {2})*)(?P<names>\S+(?: \S+)*?)(?: {2,}(?P<clause>.+))?$")
"""Two blanks of indent per level; one or more names; two or more blanks; what it is for."""

MAX_ARCHITECTURE_WORDS = 1200
MIN_NAMED_PATHS = 10
GENERATED = {"echelon/server/static"}
"""Paths that a build creates."""
MAX_CHANGELOG_LINES = 40


def commands(group=None, prefix: str = "") -> dict[str, typer.core.TyperCommand]:
    """Every command by its full name, groups opened, without older spellings."""
    found = {}
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            found |= commands(command, f"{prefix}{name} ")
        else:
            found[f"{prefix}{name}"] = command
    return found


COMMANDS = commands()


def tree(document: Path) -> dict[Path, str]:
    """Every path named in the fenced tree of a document, and the clause beside it."""
    block = re.search(r"```text\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.S)
    assert block, f"{document.name} has no ```text tree"
    found: dict[Path, str] = {}
    parents: list[Path] = []
    for line in block.group(1).rstrip().splitlines():
        match = TREE_LINE.match(line)
        assert match, f"{document.name}: cannot read {line!r}"
        depth = len(match["indent"]) // 2
        folder = parents[depth - 1] if depth else Path()
        for name in match["names"].split():
            found[folder / name.rstrip("/")] = match["clause"] or ""
        parents[depth:] = [folder / match["names"].split()[0].rstrip("/")]
    return found


def test_readme_tree_names_existing_paths():
    missing = [str(path) for path in tree(ROOT / "README.md") if not (ROOT / path).exists()]
    assert missing == []


def test_readme_tree_describes_every_root_entry():
    named = {path.parts[0]: clause for path, clause in tree(ROOT / "README.md").items()}
    assert all(named.values()), named
    from tests.contracts.test_sources import tracked

    there = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert sorted(there - named.keys()) == []


def test_contributing_names_existing_paths():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:echelon|echelon_cli|viewer|tests|docs)/[\w./-]*)`", text))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_architecture_is_short():
    words = len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split())
    assert words <= MAX_ARCHITECTURE_WORDS


def test_architecture_names_existing_paths():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:echelon|echelon_cli|viewer|tests|docs)/[\w./-]*)`", text))
    assert len(named) > MIN_NAMED_PATHS
    assert sorted(name for name in named - GENERATED if not (ROOT / name).exists()) == []


def test_changelog_is_short():
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= MAX_CHANGELOG_LINES


def test_decisions_are_numbered_dated_and_listed():
    folder = ROOT / "docs" / "decisions"
    pages = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    index = (folder / "README.md").read_text(encoding="utf-8")
    for name in pages:
        title, _, date, *_ = (folder / name).read_text(encoding="utf-8").splitlines()
        assert re.fullmatch(rf"# {int(name[:4])}\. .+", title), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", date), name
        assert f"[{title[2:]}]({name})" in index, name


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_help_json_and_readme_entry(name):
    command = COMMANDS[name]
    assert command.help and command.help.strip()
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert "--json" in flags
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"
    assert re.search(rf"`echelon {name}\b", (ROOT / "README.md").read_text(encoding="utf-8")), f"README: echelon {name}"


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_valid_and_documented(name):
    from echelon.jobs.config_layers import resolve

    config = PRESETS[name]()
    assert config.preset == name
    assert (PRESETS[name].__doc__ or "").strip()
    assert resolve(name).config == config


NAMED_TEST = re.compile(r"`((?:[\w/]+\.py)?)::(\w+)`")


def test_comparison_names_existing_tests():
    file, missing = "", []
    for match in NAMED_TEST.finditer((ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")):
        file = match[1] or file
        path = ROOT / "tests" / file
        if not path.is_file() or f"def {match[2]}(" not in path.read_text(encoding="utf-8"):
            missing.append(match[0])
    assert missing == []


def test_comparison_rows_name_evidence():
    table = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row[0].strip() for row in rows if "`" not in row[-1]] == []
