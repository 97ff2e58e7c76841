"""House rules of Warp kernels, read from their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("sim", "env", "agents", "arena", "replay", "training", "rl")
FOLDERS = tuple(f"echelon/{name}" for name in PACKAGES)

GROUPS = ("rules", "world", "state in", "controls", "state out", "events", "scratch", "out")
"""Comment lines that head the parameter groups of a kernel."""

WRITABLE = {"state out", "events", "scratch", "out"}

ROOT = Path(__file__).resolve().parents[2]


class Kernel:
    """A kernel function and the source it stands in."""

    def __init__(self, path: Path, node: ast.FunctionDef, lines: list[str]) -> None:
        self.path, self.node, self.lines = path, node, lines

    def __repr__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.node.name}"

    def groups(self) -> dict[str, str]:
        """Group of each parameter: the nearest comment line above it inside the signature."""
        found: dict[str, str] = {}
        for argument in self.node.args.args:
            heading = ""
            for number in range(self.node.lineno, argument.lineno):
                line = self.lines[number - 1].strip()
                if line.startswith("#"):
                    heading = line[1:].strip()
            found[argument.arg] = heading
        return found

    def headings(self) -> list[str]:
        end = self.node.body[0].lineno
        inside = (self.lines[number - 1].strip() for number in range(self.node.lineno, end))
        return [line[1:].strip() for line in inside if line.startswith("#")]

    def written(self) -> set[str]:
        """Parameters that the kernel stores into, or changes by an atomic operation."""
        names = set()
        for node in ast.walk(self.node):
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {base_name(t) for t in targets if isinstance(t, ast.Subscript)}
            elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("wp.atomic_") and node.args:
                names.add(base_name(node.args[0]))
        return names & {argument.arg for argument in self.node.args.args}


def base_name(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_kernel(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(d.func if isinstance(d, ast.Call) else d) in ("wp.kernel", "warp.kernel")
        for d in node.decorator_list
    )


def kernels_in(path: Path, source: str) -> Iterator[Kernel]:
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and is_kernel(node):
            yield Kernel(path, node, lines)


def kernel_files() -> list[Path]:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in files if "wp.kernel" in path.read_text(encoding="utf-8")]


KERNELS = [kernel for path in kernel_files() for kernel in kernels_in(path, path.read_text(encoding="utf-8"))]


def faults(kernel: Kernel) -> list[str]:
    """Return what a kernel does that it must not."""
    groups, found = kernel.groups(), []
    for heading in kernel.headings():
        if heading not in GROUPS:
            found.append(f"group {heading!r} is none of {GROUPS}")
    if len(set(kernel.headings())) < len(kernel.headings()):
        found.append("a group is headed twice")
    found += [f"parameter {name} stands in no group" for name, heading in groups.items() if not heading]
    found += [
        f"{name} is written but stands under {groups[name]!r}"
        for name in sorted(kernel.written())
        if groups[name] and groups[name] not in WRITABLE
    ]
    body = kernel.node.body
    first = body[1] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else body[0]
    if not isinstance(first, ast.Assign) or ast.unparse(first.value) != "wp.tid()":
        found.append("its first statement does not name the thread")
    return found


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_kernel_says_what_it_reads_and_writes(kernel):
    assert faults(kernel) == []


@pytest.mark.parametrize("path", kernel_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_of_kernels_asks_for_no_gradients(path):
    options = [
        ast.unparse(node)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Expr) and "set_module_options" in ast.unparse(node)
    ]
    assert any("'enable_backward': False" in option for option in options), "enable_backward is not off"


GOOD = """
@wp.kernel
def good(
    # rules
    limit: wp.array(dtype=float),
    # state in
    heat_in: wp.array(dtype=float),
    # state out
    heat: wp.array(dtype=float),
):
    env = wp.tid()
    heat[env] = wp.min(heat_in[env], limit[0])
"""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("# state out\n    heat:", "# state in\n    heat:"), "heat is written"),
        (("# rules\n", ""), "limit stands in no group"),
        (("# state out", "# outputs"), "'outputs' is none of"),
        (("# state in", "# rules"), "headed twice"),
        (("env = wp.tid()", "env = 3"), "does not name the thread"),
        (("heat[env] =", "heat_in[env] +="), "heat_in is written"),
    ],
)
def test_the_rule_finds_what_is_wrong(change, fault):
    (good,) = kernels_in(ROOT / "good.py", GOOD)
    assert faults(good) == []
    (bad,) = kernels_in(ROOT / "bad.py", GOOD.replace(*change))
    assert any(fault in line for line in faults(bad)), faults(bad)
