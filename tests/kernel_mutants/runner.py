"""Run the oracles' tests against kernel mutants: ``python -m tests.kernel_mutants.runner [KERNEL ...] [--only TEXT]``.

Each mutant is a fork of this process, which has imported Warp but no kernel. The fork imports the mutated module from a
copy outside the working tree, so only this module and those that call its functions compile again. Kernels are
compiled into a cache in a temporary folder. A mutant is killed only if an assertion of a test fails; an error while it
compiles or runs is a fault of its row.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import warp as wp

from echelon.sim.backend import CPU_BLOCK, load_modules, start_warp
from tests.kernel_mutants.mutant import ROOT, Kernel, Mutant, mutated
from tests.kernel_mutants.table import KERNELS

KILLED, SURVIVED, ERROR, TIMEOUT = "killed", "survived", "error", "timeout"
FAST_COMPILE = '\nwp.set_module_options({"optimization_level": 0})\n'
CPU_LIMIT_S, LIMIT_S = 120, 3600
"""Processor time, and time, after which a mutant that does not end is stopped."""


PRELOADED = ("echelon.nav.lanes", "echelon.sim.state", "numpy.testing", "tests.oracles.shared")
"""Modules without kernels that take long to import."""


@wp.kernel
def first_kernel(values: wp.array(dtype=wp.int32)):
    """Count a thread; compiling it starts the compiler before the forks."""
    i = wp.tid()
    values[i] = values[i] + 1


@dataclass
class Result:
    """What the tests found for one mutant."""

    kernel: str
    fault: str
    status: str
    by: str = ""
    """First test that failed."""
    detail: str = ""
    """First lines of its error."""
    seconds: float = 0.0


class FromCopy(importlib.abc.MetaPathFinder):
    """Loads one module from another file."""

    def __init__(self, module: str, path: Path) -> None:
        self.module, self.path = module, path

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the copy for the one module, None for others."""
        return importlib.util.spec_from_file_location(fullname, self.path) if fullname == self.module else None


class FirstFailure:
    """Pytest plugin that records the first failing test, and whether an assertion failed."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        """Record the failure of a test, a fixture or a collection."""
        asserted = call.excinfo.errisinstance(AssertionError) and getattr(report, "when", "") == "call"
        detail = " ".join(str(call.excinfo.value).split("\n")[:3]).strip() or call.excinfo.typename
        found = {"status": KILLED if asserted else ERROR, "by": node.nodeid, "detail": detail}
        self.found = self.found or found


def run_tests(kernel: Kernel, copy: Path | None) -> dict[str, str]:
    """Run the tests of a kernel in this process, on the module in ``copy`` if given; return status, test and error."""
    if copy is not None:
        sys.meta_path.insert(0, FromCopy(kernel.module, copy))
    failure = FirstFailure()
    tests = [str(ROOT / "tests" / name) for name in kernel.tests]
    code = pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests], plugins=[failure])
    if failure.found:
        return failure.found
    return {"status": SURVIVED if code == pytest.ExitCode.OK else ERROR, "detail": f"pytest ended with {code!r}"}


def in_fork(kernel: Kernel, source: str | None, folder: Path) -> dict[str, str]:
    """Run ``run_tests`` in a fork on a mutated source, or on the module as it is; return what it found."""
    copy, answer, log = folder / f"{kernel.module}.py", folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    if source is not None:
        copy.write_text(source + FAST_COMPILE, encoding="utf-8")
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
            signal.alarm(LIMIT_S)
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
            os.dup2(1, 2)
            answer.write_text(json.dumps(run_tests(kernel, copy if source is not None else None)))
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM):
        return {"status": TIMEOUT}
    if not answer.exists():
        return {"status": ERROR, "detail": f"process ended early, see {log}"}
    return json.loads(answer.read_text())


def results(kernels: dict[str, Kernel], only: str, folder: Path) -> Iterator[Result]:
    """Yield the result of every mutant whose fault contains ``only``; ``RuntimeError`` if a test fails without one."""
    for name, kernel in kernels.items():
        chosen = [mutant for mutant in kernel.mutants if only in mutant.fault]
        if not chosen:
            continue
        found = in_fork(kernel, None, folder)
        if found["status"] != SURVIVED:
            raise RuntimeError(f"tests of {name} fail without a mutant: {found}")
        source = kernel.path.read_text(encoding="utf-8")
        for mutant in chosen:
            yield result(name, kernel, mutant, source, folder)


def result(name: str, kernel: Kernel, mutant: Mutant, source: str, folder: Path) -> Result:
    start = time.monotonic()
    found = in_fork(kernel, mutated(source, mutant), folder)
    found["by"] = found.get("by", "").rpartition("::")[2]
    return Result(name, mutant.fault, seconds=round(time.monotonic() - start, 2), **found)


def start(folder: Path) -> None:
    """Prepare what all forks share: Warp with a copy of its cache in ``folder``."""
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    start_warp()
    cache = Path(wp.config.kernel_cache_dir)
    shutil.copytree(cache, folder / "cache")
    wp.config.kernel_cache_dir = str(folder / "cache")
    load_modules([(wp.get_module(__name__), CPU_BLOCK)], "cpu")
    for name in PRELOADED:
        importlib.import_module(name)
    loaded = [kernel.module for kernel in KERNELS.values() if kernel.module in sys.modules]
    assert not loaded, f"modules {loaded} were imported before the fork"


def main() -> int:
    """Run the mutants; return 1 if one was not killed."""
    parser = argparse.ArgumentParser(description="Run the oracles' tests against kernel mutants.")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"kernels to mutate: {', '.join(KERNELS)}; all")
    parser.add_argument("--only", default="", metavar="TEXT", help="run mutants whose fault contains TEXT")
    parser.add_argument("--json", action="store_true", help="print a JSON object per mutant")
    options = parser.parse_args()
    if unknown := set(options.kernels) - KERNELS.keys():
        parser.error(f"kernel {sorted(unknown)[0]!r} has no mutants, expected one of: {', '.join(KERNELS)}")
    kernels = {name: KERNELS[name] for name in options.kernels or KERNELS}
    alive = 0
    with tempfile.TemporaryDirectory(prefix="kernel-mutants-") as folder:
        start(Path(folder))
        for one in results(kernels, options.only, Path(folder)):
            alive += one.status != KILLED
            text = f"{one.status:8} {one.seconds:5.1f} s  {one.kernel}: {one.fault}  [{one.by}] {one.detail}"
            print(json.dumps(asdict(one)) if options.json else text, flush=True)
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
