"""Change kernels in small ways and run their oracles' tests on each: ``python -m tests.kernel_mutants [KERNEL ...]``.

A mutant replaces one operator in a device function: a comparison, a sign, ``and`` by ``or``, ``min`` by ``max``. Each
is a fork of this process, which has imported Warp but no kernel. The fork imports the mutated module from a copy
outside the working tree, so only this module and those that call its functions compile again, into a cache in a
temporary folder. A mutant is killed if an assertion of a test fails. One that survives changes nothing that the rules
of the game say, or shows what the oracles do not compare.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import warp as wp

from echelon.sim.backend import CPU_BLOCK, load_modules, start_warp

ROOT = Path(__file__).resolve().parents[1]
COMBAT, SENSING = "parity/test_combat.py::test", "parity/test_sensing.py::test"
KERNELS: dict[str, tuple[str, ...]] = {
    "echelon.env.referee": ("env/test_referee.py::test_outcomes_and_flags_match_the_reference_on_random_states",),
    "echelon.sim.kernels.damage": (
        f"{COMBAT}_weapons_phase_matches_oracle", f"{COMBAT}_explosions_match_oracle_at_limits",
        f"{COMBAT}_projectile_phase_matches_oracle",
    ),
    "echelon.sim.kernels.motion": (
        f"{COMBAT}_movement_matches_oracle", f"{COMBAT}_movement_matches_oracle_with_slow_clock_and_high_gravity",
        f"{COMBAT}_landings_match_oracle", f"{COMBAT}_landing_shock_matches_oracle_at_limits",
    ),
    "echelon.sim.kernels.fire": (
        f"{COMBAT}_weapons_phase_matches_oracle", f"{COMBAT}_sight_is_cast_from_lower_index",
    ),
    "echelon.sim.kernels.projectiles": (
        f"{COMBAT}_explosions_match_oracle_at_limits", f"{COMBAT}_projectile_phase_matches_oracle",
    ),
    "echelon.sim.kernels.sensing": (
        f"{SENSING}_sensor_quality_matches_oracle", f"{SENSING}_sight_matches_oracle",
        f"{SENSING}_visibility_matches_oracle", f"{SENSING}_tracks_gain_one_row_per_decision",
        f"{COMBAT}_weapons_phase_matches_oracle",
    ),
    "echelon.sim.scan": (
        "sim/test_scan.py::test_searches_of_senses_match_plain_loops",
        "sim/test_scan.py::test_searches_match_plain_loops",
    ),
}  # fmt: skip
"""Tests below ``tests/`` that compare each module with its oracle."""
SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", " + ": " - ", " - ": " + ", "-1": "0",
    " and ": " or ", " or ": " and ", " not ": " ", "wp.min(": "wp.max(", "wp.max(": "wp.min(", "&&": "||", "||": "&&",
}  # fmt: skip
OPERATOR = re.compile(r"<<|>>|->|" + "|".join(re.escape(text) for text in sorted(SWAPS, key=len, reverse=True)))
"""An operator that may be replaced, or one of two characters that contains such a one."""
KILLED, SURVIVED, ERROR, TIMEOUT = "killed", "survived", "error", "timeout"
FAST_COMPILE = '\nwp.set_module_options({"optimization_level": 0})\n'
CPU_LIMIT_S, LIMIT_S = 120, 3600
"""Processor time, and time, after which a mutant that does not end is stopped."""
PRELOADED = ("echelon.nav.lanes", "echelon.sim.state", "numpy.testing", "tests.oracles.shared")
"""Modules without kernels that take long to import."""


class Mutant(NamedTuple):
    """One replacement in the source of a module."""

    line: int
    column: int
    old: str

    def apply(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        text = lines[self.line]
        lines[self.line] = text[: self.column] + SWAPS[self.old] + text[self.column + len(self.old) :]
        return "".join(lines)

    def __str__(self) -> str:
        return f"{self.line + 1}:{self.column + 1} {self.old.strip()} -> {SWAPS[self.old].strip()}"


def mutants_of(source: str) -> list[Mutant]:
    """Return every replacement in the device functions of a module, native code included."""
    lines, found = source.splitlines(), []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
            continue
        decorator = node.decorator_list[0]
        if not ast.unparse(decorator).startswith("wp."):
            continue
        body = node.body[ast.get_docstring(node) is not None :]
        spans = [(statement.lineno - 1, statement.end_lineno or 0) for statement in body]
        if isinstance(decorator, ast.Call):
            spans = [(decorator.lineno, (decorator.end_lineno or 0) - 1)]
        for first, end in spans:
            for number in range(first, end):
                code = lines[number].partition("# ")[0]
                found += [Mutant(number, m.start(), m[0]) for m in OPERATOR.finditer(code) if m[0] in SWAPS]
    return found


@wp.kernel
def first_kernel(values: wp.array(dtype=wp.int32)):
    """Count a thread; compiling it starts the compiler before the forks."""
    i = wp.tid()
    values[i] = values[i] + 1


class FromCopy(importlib.abc.MetaPathFinder):
    """Loads one module from another file."""

    def __init__(self, module: str, path: Path) -> None:
        self.module, self.path = module, path

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(fullname, self.path) if fullname == self.module else None


class FirstFailure:
    """Pytest plugin that records the first failing test, and whether an assertion failed."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        asserted = call.excinfo.errisinstance(AssertionError) and getattr(report, "when", "") == "call"
        detail = " ".join(str(call.excinfo.value).split("\n")[:3]).strip() or call.excinfo.typename
        found = {"status": KILLED if asserted else ERROR, "by": node.name, "detail": detail}
        self.found = self.found or found


def run_tests(module: str, copy: Path) -> dict[str, str]:
    """Run the tests of a module in this process, on its ``copy``; return status, first failing test and its error."""
    sys.meta_path.insert(0, FromCopy(module, copy))
    failure = FirstFailure()
    tests = [str(ROOT / "tests" / name) for name in KERNELS[module]]
    code = pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests], plugins=[failure])
    if failure.found:
        return failure.found
    return {"status": SURVIVED if code == pytest.ExitCode.OK else ERROR, "detail": f"pytest ended with {code!r}"}


def in_fork(module: str, source: str, folder: Path) -> dict[str, str]:
    """Return what ``run_tests`` finds on this source of a module, in a fork."""
    copy, answer, log = folder / f"{module}.py", folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    copy.write_text(source + FAST_COMPILE, encoding="utf-8")
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
            signal.alarm(LIMIT_S)
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
            os.dup2(1, 2)
            answer.write_text(json.dumps(run_tests(module, copy)))
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM):
        return {"status": TIMEOUT}
    if not answer.exists():
        return {"status": ERROR, "detail": f"process ended early, see {log}"}
    return json.loads(answer.read_text())


def results(module: str, sample: int, folder: Path) -> Iterator[str]:
    """Yield the status of a module's mutants, all or a random ``sample``; ``RuntimeError`` if its tests fail anyway."""
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    if (found := in_fork(module, source, folder))["status"] != SURVIVED:
        raise RuntimeError(f"tests of {module} fail without a mutant: {found}")
    mutants = mutants_of(source)
    if sample:
        mutants = sorted(random.Random(0).sample(mutants, min(sample, len(mutants))))
    for mutant in mutants:
        start = time.monotonic()
        found = in_fork(module, mutant.apply(source), folder)
        seconds = time.monotonic() - start
        notes = f"[{found.get('by', '')}] {found.get('detail', '')}"
        print(f"{found['status']:8} {seconds:5.1f} s  {module}:{mutant}  {notes}", flush=True)
        yield found["status"]


def prepare(folder: Path) -> None:
    """Prepare what all forks share: Warp with a copy of its cache in ``folder``."""
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    start_warp()
    shutil.copytree(Path(wp.config.kernel_cache_dir), folder / "cache")
    wp.config.kernel_cache_dir = str(folder / "cache")
    load_modules([(wp.get_module(__name__), CPU_BLOCK)], "cpu")
    for name in PRELOADED:
        importlib.import_module(name)
    loaded = [module for module in KERNELS if module in sys.modules]
    assert not loaded, f"modules {loaded} were imported before the fork"


def main() -> None:
    by_name = {module.rpartition(".")[2]: module for module in KERNELS}
    parser = argparse.ArgumentParser(description="Run the oracles' tests against kernel mutants.")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"modules to mutate: {', '.join(by_name)}; all")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="mutants of each module; all")
    options = parser.parse_args()
    if unknown := set(options.kernels) - by_name.keys():
        parser.error(f"kernel {sorted(unknown)[0]!r} has no oracle here, expected one of: {', '.join(by_name)}")
    with tempfile.TemporaryDirectory(prefix="kernel-mutants-") as folder:
        prepare(Path(folder))
        for name in options.kernels or by_name:
            counts = Counter(results(by_name[name], options.sample, Path(folder)))
            print(f"{name}: {', '.join(f'{n} {status}' for status, n in counts.items())}", flush=True)


if __name__ == "__main__":
    main()
