"""No import cycle among files: top-level, function-level and type-checking imports all count."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("echelon", "echelon_cli")

LAZY = {("echelon_cli.tui.app", "screens"): "screens are loaded when first opened; the table of screens is in app"}
"""(importing module, part of the imported name) -> why this import does not count: it keeps start-up light."""


def module_files(root: Path) -> dict[str, Path]:
    """Return the file of every module by its dotted name."""
    files = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imports(module: str, path: Path, files: dict[str, Path]) -> set[str]:
    """Return the project's modules that ``module`` imports, anywhere in its file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in files else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    lazy = [part for (name, part) in LAZY if name == module]
    return {name for name in found if name in files and name != module and not any(part in name for part in lazy)}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one module (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_imports_have_no_cycle():
    files = module_files(ROOT)
    graph = {module: imports(module, path, files) for module, path in files.items()}
    # a package's __init__ that re-exports lazily is an entry point, not a dependency of the modules below it
    graph["echelon"] = set()
    assert cycles(graph) == []


def test_a_cycle_through_a_function_is_found(tmp_path):
    package = tmp_path / "echelon"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from echelon.b import y\n")
    (package / "b.py").write_text("def y():\n    from echelon import a\n    return a\n")
    files = module_files(tmp_path)
    graph = {module: imports(module, path, files) for module, path in files.items()}
    assert cycles(graph) == [["echelon.a", "echelon.b"]]


def test_lazy_exceptions_name_modules_that_exist():
    files = module_files(ROOT)
    assert [name for name, _ in LAZY if name not in files] == []
