"""Metadata beside the package agrees with it: the container image's recipe and the citation."""

import re
import tomllib
from pathlib import Path

import pytest


@pytest.fixture
def project(repository: Path) -> dict:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_image_takes_the_torch_of_the_package_and_runs_the_command_as_a_user(repository: Path, project: dict):
    lines = (repository / "Containerfile").read_text(encoding="utf-8")
    (torch,) = [line for line in project["dependencies"] if line.startswith("torch")]
    assert f'"{torch}"' in lines
    last = lines.rpartition("\nFROM ")[2]
    assert re.search(r"^USER (?!root|0)\w+$", last, re.MULTILINE) and 'ENTRYPOINT ["echelon"]' in last
    version = re.search(r"python:(\d+)\.(\d+)-slim", lines)
    assert version and (int(version[1]), int(version[2])) >= tuple(map(int, project["requires-python"][2:].split(".")))


def test_image_has_the_sources_of_the_build(repository: Path):
    ignored = (repository / ".dockerignore").read_text(encoding="utf-8").splitlines()
    needed = ("echelon", "echelon_cli", "viewer", "docs", "examples", ".git", "*.md", "mkdocs.yml", "hatch_build.py")
    assert not set(ignored) & {*needed, *(f"{name}/" for name in needed), "*", "**"}


def test_citation_names_version_and_licence(repository: Path, project: dict):
    citation = (repository / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^([\w-]+): (.+)$", citation, re.MULTILINE))
    assert (fields["version"], fields["license"]) == (project["version"], project["license"])
    assert fields["cff-version"] == "1.2.0" and f"- name: {project['authors'][0]['name']}" in citation
