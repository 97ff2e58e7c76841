"""Device code computes each norm once and casts only where needed; checked on the source."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NORMS = ("wp.length", "xy_length", "wp.length_sq", "wp.normalize")


LIBRARY = ("exp", "log", "log2", "log10", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "tanh")
"""Functions of the platform's math library, whose last bit differs between a CPU and CUDA."""


def device_functions() -> dict[str, ast.FunctionDef]:
    """Every kernel and device function of the package by file and name."""
    found = {}
    for path in sorted((ROOT / "echelon").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "@wp." in source:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef):
                    marks = {ast.unparse(mark) for mark in node.decorator_list}
                    if marks & {"wp.kernel", "wp.func"}:
                        found[f"{path.stem}.{node.name}"] = node
    return found


DEVICE = device_functions()


def blocks(body: list[ast.stmt]) -> list[list[ast.stmt]]:
    """A list of statements and those nested in it, each on its own: two branches are never both taken."""
    found = [body]
    for statement in body:
        for name in ("body", "orelse"):
            if inner := getattr(statement, name, None):
                found += blocks(inner)
    return found


def own_expressions(statement: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement itself, not of the blocks inside it."""
    return [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]


def written(statement: ast.stmt) -> set[str]:
    """Names that a statement, with everything inside it, assigns to."""
    stores = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {n.id for n in stores} | {
        ast.unparse(n.value)
        for n in ast.walk(statement)
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)
    }


def repeated_norms(node: ast.FunctionDef) -> list[str]:
    """Norms that a block works out twice from the same values."""
    twice = []
    for block in blocks(node.body):
        known: set[str] = set()
        for statement in block:
            for expression in own_expressions(statement):
                for call in ast.walk(expression):
                    if isinstance(call, ast.Call) and ast.unparse(call.func) in NORMS:
                        text = ast.unparse(call)
                        if text in known:
                            twice.append(text)
                        known.add(text)
            changed = written(statement)
            known = {text for text in known if not any(name in text for name in changed)}
    return twice


def needless_casts(node: ast.FunctionDef) -> list[str]:
    """Casts of a parameter, or of an entry of one, to the type that it has."""
    types = {a.arg: ast.unparse(a.annotation) for a in node.args.args if a.annotation}
    floats = {n for n, t in types.items() if t in ("float", "wp.float32") or "dtype=wp.float32" in t}
    ints = {n for n, t in types.items() if t in ("int", "wp.int32") or "dtype=wp.int32" in t}
    found = []
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("float", "int")):
            continue
        value = call.args[0]
        inner = value.value if isinstance(value, ast.Subscript) else value
        if isinstance(inner, ast.Name) and inner.id in (floats if call.func.id == "float" else ints):
            found.append(ast.unparse(call))
        if isinstance(value, ast.Call) and ast.unparse(value.func) == call.func.id:
            found.append(ast.unparse(call))
    return found


def test_low_7_norms_are_computed_once():
    assert {name: found for name, node in DEVICE.items() if (found := repeated_norms(node))} == {}


def test_low_8_no_redundant_casts():
    assert {name: found for name, node in DEVICE.items() if (found := needless_casts(node))} == {}


def test_kernel_economy_checks_find_faults():
    wasteful = ast.parse(
        "def f(a: float, p: wp.array2d(dtype=wp.float32)):\n"
        "    x = wp.length(a - b)\n    y = wp.length(a - b) + float(a) + float(p[0, 1]) + int(a)\n"
    ).body[0]
    assert isinstance(wasteful, ast.FunctionDef)
    assert repeated_norms(wasteful) == ["wp.length(a - b)"]
    assert sorted(needless_casts(wasteful)) == ["float(a)", "float(p[0, 1])"]


def library_calls(node: ast.FunctionDef) -> list[str]:
    """Calls of the platform's math library, and powers."""
    calls = [ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Call)]
    powers = [ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    return [text for text in calls if text.partition("(")[0] in {f"wp.{name}" for name in LIBRARY}] + powers


def test_device_code_calls_no_library_function_that_differs_between_devices():
    found = {name: calls for name, node in DEVICE.items() if (calls := library_calls(node))}
    assert not found, f"{found}: use echelon.sim.geometry"


def test_library_call_is_found():
    (function,) = ast.parse("def f(x: float):\n    return wp.log(x) + x**2.0").body
    assert isinstance(function, ast.FunctionDef)
    assert library_calls(function) == ["wp.log(x)", "x ** 2.0"]
