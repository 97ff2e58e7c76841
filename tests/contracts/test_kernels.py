"""Rules of Warp kernels and device functions, checked on their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("sim", "env", "agents", "arena", "replay", "nav", "training", "rl")
FOLDERS = tuple(f"echelon/{name}" for name in PACKAGES)

OUT = "_out"
"""Suffix of the parameters that are written."""
MOST_PARAMETERS = 14

ROOT = Path(__file__).resolve().parents[2]


class Function:
    """A kernel or device function and the source it stands in."""

    def __init__(self, path: Path, node: ast.FunctionDef) -> None:
        self.path, self.node, self.name = path, node, node.name
        self.parameters = [argument.arg for argument in node.args.args]
        self.is_kernel = "wp.kernel" in decorators(node)

    def __repr__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.name}"

    def written(self) -> set[str]:
        """Array and struct parameters that the function stores into, or changes by an atomic operation."""
        names = set()
        for node in ast.walk(self.node):
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {base_name(t) for t in targets if isinstance(t, (ast.Subscript, ast.Attribute))}
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("wp.atomic_") and node.args:
                names.add(base_name(node.args[0]))
        return names & set(self.parameters)

    def passed_on(self) -> Iterator[tuple[str, str, str]]:
        """Yield (called function, its parameter, own parameter given) of calls to device functions."""
        for node in ast.walk(self.node):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                for parameter, value in zip(DEVICE.get(name, ()), node.args, strict=False):
                    if base_name(value) in self.parameters and not isinstance(value, ast.Subscript):
                        yield name, parameter, base_name(value)


def base_name(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}


def functions_in(path: Path, source: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and decorators(node) & {"wp.kernel", "wp.func"}:
            yield Function(path, node)


def files() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if any(functions_in(path, path.read_text(encoding="utf-8")))]


FUNCTIONS = [f for path in files() for f in functions_in(path, path.read_text(encoding="utf-8"))]
DEVICE = {f.name: f.parameters for f in FUNCTIONS if not f.is_kernel}
"""Parameters of each device function by its name."""


def faults(function: Function) -> list[str]:
    """Return the rules that a kernel or device function breaks."""
    found = []
    if len(function.parameters) > MOST_PARAMETERS:
        found.append(f"{len(function.parameters)} parameters, expected at most {MOST_PARAMETERS}")
    found += [
        f"{name!r} is written, expected a parameter {name + OUT!r}"
        for name in sorted(function.written())
        if not name.endswith(OUT) and not is_local(function, name)
    ]
    found += [
        f"{given!r} is given to {called} as {parameter!r}, expected a parameter that ends in {OUT!r}"
        for called, parameter, given in function.passed_on()
        if parameter.endswith(OUT) and not given.endswith(OUT)
    ]
    if function.is_kernel and not names_thread(function.node):
        found.append("its first statement does not name the thread: e, m = wp.tid()")
    return found


def is_local(function: Function, name: str) -> bool:
    """Whether a parameter is passed by value: a vector, or a struct whose changed copy the function returns."""
    (argument,) = (a for a in function.node.args.args if a.arg == name)
    annotation = ast.unparse(argument.annotation or argument)
    returned = ast.unparse(function.node.returns) if function.node.returns else ""
    return annotation.startswith(("wp.vec", "wp.mat")) or annotation == returned


def names_thread(node: ast.FunctionDef) -> bool:
    body = node.body
    first = body[1] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else body[0]
    return isinstance(first, ast.Assign) and ast.unparse(first.value) == "wp.tid()"


@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
def test_kernel_names_outputs_and_stays_readable(function):
    assert faults(function) == []


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_kernel_module_disables_gradients(path):
    options = [
        ast.unparse(node)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Expr) and "set_module_options" in ast.unparse(node)
    ]
    assert any("'enable_backward': False" in option for option in options), "enable_backward is not off"


GOOD = """
@wp.kernel
def good(rules: Rules, mechs: Mechs, mechs_out: Mechs, peak_out: wp.array(dtype=float)):
    e, m = wp.tid()
    mechs_out.heat[e, m] = wp.min(mechs.heat[e, m], rules.limit)
    peak_out[e] = mechs.heat[e, m]
"""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("mechs_out.heat[e, m] =", "mechs.heat[e, m] ="), "'mechs' is written"),
        (("peak_out", "peak"), "'peak' is written"),
        (("peak_out[e] = mechs.heat[e, m]", "wp.atomic_add(mechs.heat, e, m, 1.0)"), "'mechs' is written"),
        (("e, m = wp.tid()", "e, m = 3, 4"), "does not name the thread"),
        (("rules: Rules", ", ".join(f"a{i}: int" for i in range(12))), "15 parameters"),
    ],
)
def test_fault_is_found(change, fault):
    (good,) = functions_in(ROOT / "good.py", GOOD)
    assert faults(good) == []
    (bad,) = functions_in(ROOT / "bad.py", GOOD.replace(*change))
    assert any(fault in line for line in faults(bad)), faults(bad)


def test_write_through_device_function_needs_output_parameter(monkeypatch):
    monkeypatch.setitem(DEVICE, "cool", ["e", "mechs_out"])
    (bad,) = functions_in(ROOT / "bad.py", "@wp.func\ndef caller(mechs: Mechs, e: int):\n    cool(e, mechs)\n")
    assert any("is given to cool" in line for line in faults(bad))
