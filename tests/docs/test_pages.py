"""Generated pages of the docs site: every command with its options, every field with its bounds."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

import echelon
from echelon.config import ranges
from echelon.jobs.config_layers import default_values
from echelon_cli import docs_hooks, docs_pages
from echelon_cli.commands.train import ALIASES
from tests.docs.pages import ROOT, leaves_by_name


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def commands() -> str:
    return docs_pages.command_page()


def test_command_page_has_every_command_and_option(commands):
    for name, flags in leaves_by_name().items():
        text = section(commands, f"echelon {name}")
        assert [flag for flag in flags if flag.startswith("--") and not re.search(f"`{flag}[ `]", text)] == [], name
    assert all(f"`--{flag}`" in section(commands, "echelon train") for flag in ALIASES)


def test_command_page_states_types_ranges_and_defaults(commands):
    serve = section(commands, "echelon serve")
    assert re.search(r"^\| `--port` \| integer 1 to 65535 \|  \| Port", serve, re.MULTILINE)
    assert re.search(r"^\| `--host ADDRESS` \| text \| `127\.0\.0\.1` \| Address", serve, re.MULTILINE)
    assert "| `--json` | switch |  |" in serve
    stop = section(commands, "echelon runs stop")
    assert "`echelon runs stop RUN... [OPTIONS]`" in stop and "| `--timeout SECONDS` | number | `300.0` |" in stop
    sim = section(commands, "echelon sim")
    assert "| `--size` | integer |" in sim and "| `--seed` | integer from 0 | `0` |" in sim
    assert "`echelon world make [SEED] [OPTIONS]`" in section(commands, "echelon world make")
    assert "`echelon play [OPPONENT] [OPTIONS]`" in section(commands, "echelon play")


def test_command_page_describes_options_of_fields_as_fields(commands):
    train = section(commands, "echelon train")
    assert "| `--minutes` | `max_minutes` | number | min | `0.0` | Wall-clock limit of training, which" in train
    assert "| `--envs` | `num_envs` | integer |  | `64` |" in train and "Same as --set" not in train


def test_configuration_page_has_every_field_once():
    rows = re.findall(r"^\| `([\w.]+)` \|", docs_pages.configuration_page(), re.MULTILINE)
    assert sorted(rows) == sorted(default_values())


def test_configuration_page_states_type_unit_default_and_bounds():
    page = docs_pages.configuration_page()
    assert "| `max_minutes` | number | min | `0.0` | 0 to 1e9 | Wall-clock limit of training, which" in page
    assert re.search(r"^\| `ppo\.optimizer` \| `adam`, `muon` \|  \| `adam` \|  \| Optimiser", page, re.MULTILINE)
    assert "| `env.map_size_range` | two integers or none | vox | `none` |" in page


def test_sections_of_bounds_are_complete_and_name_fields():
    stated = {id(value) for value in docs_pages.SECTION_RANGES.values()}
    assert [name for name in dir(ranges) if name.endswith("_RANGES") and id(getattr(ranges, name)) not in stated] == []
    keys = {f"{s}.{name}".lstrip(".") for s, found in docs_pages.SECTION_RANGES.items() for name in found}
    assert sorted(keys - default_values().keys()) == []


def test_python_page_has_every_public_name():
    described = {name.rpartition(".")[2] for names in docs_pages.API.values() for name in names}
    assert set(echelon.__all__) - described == {"PRESETS", "TASKS", "runs"}


def test_every_example_has_a_page():
    pages = docs_pages.example_pages(ROOT / "examples")
    listed = pages["examples/index.md"]
    for path in (ROOT / "examples").iterdir():
        if path.suffix in docs_pages.EXAMPLE_LANGUAGES:
            assert f"[{path.name}](" in listed and f"examples/{path.name.replace('.', '-')}.md" in pages
    assert not re.search(r"\| \|$", listed, re.MULTILINE), "an example states no purpose"


def test_links_are_named_by_titles_and_code_loses_escapes_of_bars():
    config = SimpleNamespace(nav=[{"Start": ["index.md", {"A tour": "tour.md"}]}, {"Tasks": "tasks.md"}])
    text = r"[tasks.md](tasks.md) [docs/tour.md](tour.md) [other.md](other.md) | `a` | b \| c | `d\|e` |"
    expected = r"[Tasks](tasks.md) [A tour](tour.md) [other.md](other.md) | `a` | b \| c | `d|e` |"
    assert docs_hooks.on_page_markdown(text, config=config, page=None, files=None) == expected


def test_navigation_lists_the_pages_of_a_folder_below_its_index():
    config = SimpleNamespace(
        nav=[{"Project": ["index.md", {"Decisions": "decisions/README.md"}]}], docs_dir=ROOT / "docs"
    )
    (_, entry) = docs_hooks.on_config(config).nav[0]["Project"]
    listed = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("0*.md"))
    assert entry["Decisions"] == ["decisions/README.md", *(f"decisions/{name}" for name in listed)]
