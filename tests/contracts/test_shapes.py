"""Public functions with tensor arguments document their shapes."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("rl", "training")
TENSOR = re.compile(r"\bTensor\b")
PER_NAME = re.compile(r"(dict|Mapping)\[str, (torch\.)?Tensor\]")
"""Dictionaries of tensors: shapes are those of the module whose state they hold."""
SHAPE = re.compile(r"\[[^\]]*\]|\bshape\b")


def stated_by_protocols(files: list[Path]) -> set[str]:
    """Return the methods whose shapes a Protocol states for every class that has them."""
    found: set[str] = set()
    for node in (node for path in files for node in ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
            methods = [method for method in node.body if isinstance(method, ast.FunctionDef)]
            found.update(method.name for method in methods if SHAPE.search(ast.get_docstring(method) or ""))
    return found


def silent(path: Path, stated: set[str]) -> list[str]:
    """Return the public functions of a file that take a tensor and say nothing about its shape."""
    found: list[str] = []

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name not in stated:
                annotations = [ast.unparse(a.annotation) for a in node.args.args + node.args.kwonlyargs if a.annotation]
                takes = [text for text in annotations if TENSOR.search(PER_NAME.sub("", text))]
                protocol = len(node.body) == 1 and ast.unparse(node.body[0]) == "..."
                if takes and not protocol and not SHAPE.search(ast.get_docstring(node) or ""):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {prefix}{node.name}")

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def test_public_tensor_arguments_have_shapes():
    files = [path for name in PACKAGES for path in sorted((ROOT / "echelon" / name).rglob("*.py"))]
    stated = stated_by_protocols(files)
    assert [line for path in files for line in silent(path, stated)] == []


def test_function_without_shape_is_found(tmp_path, monkeypatch):
    file = tmp_path / "silent.py"
    file.write_text('def scale(x: Tensor) -> Tensor:\n    """Make it larger."""\n    return x\n')
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert silent(file, set()) == ["silent.py:1 scale"]
