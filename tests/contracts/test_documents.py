"""Documents agree with the code: named paths, commands, presets, decisions, figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from echelon.config.presets import PRESETS
from echelon_cli.main import root
from tests.docs.pages import leaves

ROOT = Path(__file__).resolve().parents[2]

GENERATED = {"echelon/server/static"}
"""Paths that a build creates."""


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_page_names_existing_paths(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:echelon|echelon_cli|viewer|tests|docs)/[\w./-]*)`", text))
    assert named and sorted(name for name in named - GENERATED if not (ROOT / name).exists()) == []


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


@pytest.mark.parametrize(("name", "command"), list(leaves(root().load_all())))
def test_command_has_help_and_json(name, command):
    assert command.help and command.help.strip()
    assert "--json" in {flag for parameter in command.params for flag in parameter.opts}
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"


def test_figures_in_documents_are_those_of_the_results(repository):
    done = subprocess.run(
        [sys.executable, repository / "docs/results/figures.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run just figures"


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_valid_and_documented(name):
    from echelon.jobs.config_layers import resolve

    config = PRESETS[name]()
    assert config.preset == name
    assert (PRESETS[name].__doc__ or "").strip()
    assert resolve(name).config == config
