"""The viewer's own checks: its types, and its unit tests over replays that the Python side wrote."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def build_hook(repository: Path) -> ModuleType:
    """Return the build hook, which knows how to run npm without a Node on the machine."""
    spec = importlib.util.spec_from_file_location("hatch_build", repository / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def npm(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Run npm in a copy of the viewer with its packages; the golden replays lie where its tests look for them."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(repository / "viewer", folder / "viewer", ignore=ignored)
    shutil.copytree(repository / "tests" / "golden", folder / "tests" / "golden")
    run = build_hook(repository).npm
    run(folder / "viewer", "ci", "--no-audit", "--no-fund", "--loglevel=error")
    return lambda *arguments: run(folder / "viewer", *arguments)


def test_the_types_hold(npm: Callable[..., None]):
    npm("run", "types", "--silent")


def test_its_unit_tests_pass(npm: Callable[..., None]):
    npm("test", "--silent")
