"""Modules keep no state: no function changes a name of its module, except for the listed caches."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
    "update",
}  # fmt: skip
ALLOWED = {
    "echelon/arena/database.py:_CHECKED": "rows of a league that this process has checked",
    "echelon/rl/traced_policy.py:_traces": "traces by architecture",
    "echelon/sim/structs.py:STRUCTS": "structs, which register as their modules are imported",
    "echelon/telemetry/events.py:EVENTS": "kinds of records, which register as the module is imported",
    "echelon/training/runtime/process.py:_passed": "counts of fault points, which only tests set",
}


def changed_names(source: str) -> Iterator[str]:
    """Yield the names of a module that its functions change or declare as global."""
    tree = ast.parse(source)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [target for node in assigned for target in getattr(node, "targets", None) or [node.target]]
    module = {target.id for target in targets if isinstance(target, ast.Name)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        nodes = list(ast.walk(function))
        local = {argument.arg for argument in [*function.args.args, *function.args.kwonlyargs]}
        local |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in nodes:
            if isinstance(node, ast.Global):
                yield from node.names
            owner = None
            if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                owner = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
                owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in module - local:
                yield owner.id


def test_modules_have_no_mutable_state():
    paths = [path for package in ("echelon", "echelon_cli") for path in (ROOT / package).rglob("*.py")]
    found = {
        f"{path.relative_to(ROOT).as_posix()}:{name}"
        for path in paths
        for name in changed_names(path.read_text(encoding="utf-8"))
    }
    assert found == ALLOWED.keys()


def test_changed_names_finds_every_way_to_change_a_module():
    changes = ("A[0] = 1", "del A[0]", "A.append(1)", "A.x = 1", "global A; A = 1")
    for change in changes:
        assert set(changed_names(f"A = []\ndef f():\n    {change}\n")) == {"A"}, change
    assert not set(changed_names("A = []\ndef f(A):\n    A.append(1)\n"))
