"""Fail the n-th file operation of a protocol, for every n: ``python -m tests.reliability.sweep NAME FOLDER STRIDE``.

Runs below the preload library. Each case is a fork of this process, which has the modules loaded. Prints a JSON object
with the number of cases and a line for each that broke a promise.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.reliability import protocols, recorder
from tests.reliability.test_crash_states import CHECKS, FAILURES

ALWAYS = 10**9
LOST = 70
"""Exit code of a case that raised an error nobody declared."""


@dataclass(frozen=True)
class FaultKind:
    """Which operations fail, and how."""

    error: str
    """Name of the error; ``SHORT`` writes only half of the data."""
    operations: str
    """Letters of ``recorder.KINDS``."""
    persists: bool = False
    """Whether all later operations fail too."""


FAULT_KINDS = (
    FaultKind("ENOSPC", "cwmtr"),
    FaultKind("ENOSPC", "cwm", persists=True),
    FaultKind("EIO", "cowsrut"),
    FaultKind("EMFILE", "co"),
    FaultKind("EINTR", "cows"),
    FaultKind("SHORT", "w"),
)


def run_case(work: Callable[[], object], first: int, fault: FaultKind, log: Path) -> tuple[int, list[str], bool]:
    """Run ``work`` in a fork; return its exit code, its marks, and whether an operation failed."""
    library = ctypes.CDLL(None)
    library.reliability_fail.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]
    library.reliability_fail(0, 0, 0, b"")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        number = 0 if fault.error == "SHORT" else getattr(errno, fault.error)
        library.reliability_fail(first, ALWAYS if fault.persists else first, number, fault.operations.encode())
        code = _guarded(work)
        sys.stdout.flush()
        sys.stderr.flush()
        with open(writer, "w") as file:
            json.dump(recorder.MARKS, file)
        os._exit(code)
    os.close(writer)
    with open(reader) as file:
        raw = file.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(raw or "[]"), bool(library.reliability_failed())


def _guarded(work: Callable[[], object]) -> int:
    """Run a protocol as a command does: a declared error is one line, anything else a traceback."""
    try:
        work()
    except SystemExit as end:
        return int(end.code or 0)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1 if "\n" not in str(error) else LOST
    except BaseException:
        traceback.print_exc()
        return LOST
    return 0


def judge(name: str, root: Path, code: int, marks: list[str], log: Path) -> str:
    """Return what a case broke, empty for nothing: its last line of output, what it acknowledged, and a second run."""
    lines = log.read_text(errors="replace").splitlines()
    if code not in (0, 1):
        return f"exit code {code}: {lines[-1] if lines else ''}"
    if code == 1 and (not lines or lines[-1].split(":")[0].endswith("Error")):
        return f"unclear end: {lines[-1:]}"
    before = root.with_name(f"{root.name}-before")
    shutil.copytree(root, before)
    try:
        CHECKS[name](before, marks)
    except FAILURES as error:
        return f"lost: {error}"
    finally:
        shutil.rmtree(before)
    if name == "records":
        again, later, _ = run_case(lambda: protocols.PROTOCOLS[name](root), 0, FAULT_KINDS[0], log)
        if again or not _end_state(root):
            return f"second run: exit code {again}: {log.read_text(errors='replace').splitlines()[-1:]}"
    return ""


def _end_state(root: Path) -> tuple[int, str]:
    """Return update and id of the newest checkpoint of the protocol ``records``."""
    from echelon.training.checkpoint import latest_valid

    found = latest_valid(root / "run" / "checkpoints").checkpoint
    return (0, "") if found is None else (found.manifest["update"], found.id)


def sweep(name: str, folder: Path, stride: int) -> dict[str, object]:
    """Fail operation 1, 1 + stride, ... of each fault kind until none is left to fail."""
    log, cases, broken = folder.with_name("log"), 0, []
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    code, _, _ = run_case(lambda: protocols.PROTOCOLS[name](undisturbed), 0, FAULT_KINDS[0], log)
    assert code == 0, log.read_text()
    for fault in FAULT_KINDS:
        first, failed = 1, True
        while failed:
            root = folder / "case"
            root.mkdir()
            code, marks, failed = run_case(partial(protocols.PROTOCOLS[name], root), first, fault, log)
            cases += 1
            verdict = judge(name, root, code, marks, log)
            if not verdict and name == "records" and _end_state(root) != _end_state(undisturbed):
                verdict = f"ends at {_end_state(root)}, expected {_end_state(undisturbed)}"
            if verdict:
                broken.append(f"{fault.error}{'...' * fault.persists} at operation {first}: {verdict}")
            shutil.rmtree(root)
            first += stride
    return {"cases": cases, "broken": broken}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        print(json.dumps(sweep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
