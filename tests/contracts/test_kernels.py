"""Rules of Warp kernels and device functions, checked on their source: outputs, parameters, arithmetic."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NORMS = ("wp.length", "xy_length", "wp.length_sq", "wp.normalize")
LIBRARY = ("exp", "log", "log2", "log10", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "tanh")
"""Functions of the platform's math library, whose last bit differs between a CPU and CUDA."""
FIRST_LINE = "# type: ignore\n"
"""Device code is Warp's language: annotations are calls, and arrays are typed by the struct that declares them."""
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


FUNCTIONS = [
    function
    for path in sorted((ROOT / "echelon").rglob("*.py"))
    if "@wp." in (source := path.read_text(encoding="utf-8"))
    for function in functions_in(path, source)
]
FILES = list(dict.fromkeys(function.path for function in FUNCTIONS))
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
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


def test_files_with_device_code_begin_with_type_ignore():
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "echelon").rglob("*.py")}
    code = re.compile(r"^(@wp\.(kernel|func|struct)|@triton\.jit|    \w+: wp\.array)", re.MULTILINE)
    device = {path for path, text in texts.items() if code.search(text)}
    skipped = {path for path, text in texts.items() if text.startswith(FIRST_LINE)}
    assert sorted(device - skipped) == [], f"begin these files with {FIRST_LINE!r}"
    assert sorted(skipped - device) == [], f"remove the first line {FIRST_LINE!r} from these files"


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


def library_calls(node: ast.FunctionDef) -> list[str]:
    """Calls of the platform's math library, and powers."""
    calls = [ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Call)]
    powers = [ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    return [text for text in calls if text.partition("(")[0] in {f"wp.{name}" for name in LIBRARY}] + powers


def found_by(check: Callable[[ast.FunctionDef], list[str]]) -> dict[str, list[str]]:
    return {repr(function): found for function in FUNCTIONS if (found := check(function.node))}


def test_low_7_norms_are_computed_once():
    assert found_by(repeated_norms) == {}


def test_low_8_no_redundant_casts():
    assert found_by(needless_casts) == {}


def test_device_code_calls_no_library_function_that_differs_between_devices():
    assert found_by(library_calls) == {}, "use echelon.sim.geometry"


def test_checks_of_arithmetic_find_faults():
    wasteful = ast.parse(
        "def f(a: float, p: wp.array2d(dtype=wp.float32)):\n"
        "    x = wp.length(a - b) + wp.log(a) + a**2.0\n"
        "    y = wp.length(a - b) + float(a) + float(p[0, 1]) + int(a)\n"
    ).body[0]
    assert isinstance(wasteful, ast.FunctionDef)
    assert repeated_norms(wasteful) == ["wp.length(a - b)"]
    assert sorted(needless_casts(wasteful)) == ["float(a)", "float(p[0, 1])"]
    assert library_calls(wasteful) == ["wp.log(a)", "a ** 2.0"]
