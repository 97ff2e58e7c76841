"""The table of kernel mutants fits today's sources; by hand, every mutant is killed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.kernel_mutants.mutant import ROOT, mutated
from tests.kernel_mutants.table import KERNELS

AT_LEAST = 20


@pytest.mark.parametrize("name", KERNELS)
def test_every_mutant_changes_todays_source_in_one_place(name):
    kernel = KERNELS[name]
    source = kernel.path.read_text(encoding="utf-8")
    faulty = [mutated(source, mutant) for mutant in kernel.mutants]
    assert len({ast.dump(ast.parse(text)) for text in [source, *faulty]}) == len(faulty) + 1, "two mutants are equal"
    assert len({mutant.fault for mutant in kernel.mutants}) == len(faulty) >= AT_LEAST


@pytest.mark.parametrize("name", KERNELS)
def test_every_function_of_a_kernel_module_has_a_mutant(name):
    kernel = KERNELS[name]
    source = kernel.path.read_text(encoding="utf-8")
    lines = [source[: source.index(mutant.old)].count("\n") + 1 for mutant in kernel.mutants]
    # the source of a native function is the argument of its decorator
    functions = {n.name: range(n.decorator_list[0].lineno, (n.end_lineno or 0) + 1) for n in ast.parse(source).body
                 if isinstance(n, ast.FunctionDef)}  # fmt: skip
    assert [f for f, inside in functions.items() if not any(line in inside for line in lines)] == []


@pytest.mark.parametrize("name", KERNELS)
def test_tests_of_every_kernel_exist(name):
    for test in KERNELS[name].tests:
        path, _, function = test.partition("::")
        assert f"\ndef {function}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), test


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_oracles_kill_every_mutant(name):
    command = [sys.executable, "-m", "tests.kernel_mutants.runner", name, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(KERNELS[name].mutants), done.stderr
    assert [one for one in found if one["status"] != "killed"] == []
