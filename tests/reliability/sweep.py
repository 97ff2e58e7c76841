"""Fail the n-th file operation of a protocol, for every n: ``python -m tests.reliability.sweep NAME FOLDER STRIDE``.

Runs below the preload library. Each case is a fork of this process. Prints a JSON object with the number of cases and a
line for each that broke a promise.
"""

import contextlib
import ctypes
import errno
import faulthandler
import json
import os
import shutil
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from tests.reliability import played, protocols, recorder
from tests.reliability.test_crash_states import FAILURES, values

ALWAYS = 10**9
LOST = 70
"""Exit code of a case that raised an error nobody declared."""
CASE_LIMIT_S = 100
"""Time after which a case counts as hanging [s]."""
UNNAMED = ("worlds", "progress.json", "league.db-wal", "league.db-shm")
"""Files and folders that may be missing without a line that names them: a world belongs to its replays."""
CALM = 3
"""Number of cases in a row that end before their operation, after which a whole sweep ends: some protocols poll."""
NO_FAULT = 10**12


@dataclass(frozen=True)
class FaultKind:
    """Which operations fail, and how."""

    error: str
    """Name of the error; ``SHORT`` writes only half of the data."""
    operations: str
    persists: bool = False


FAULT_KINDS = (
    FaultKind("ENOSPC", "cwmtr"),
    FaultKind("ENOSPC", "cwm", persists=True),
    FaultKind("EIO", "cowsrut"),
    FaultKind("EMFILE", "co"),
    FaultKind("EINTR", "cows"),
    FaultKind("SHORT", "w"),
)


def run_case(name: str, root: Path, first: int, fault: FaultKind, log: Path) -> tuple[int, list[str], bool]:
    """Run a protocol in a fork; return its exit code, its marks, and whether an operation failed."""
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
        recorder.MARKS.clear()
        faulthandler.dump_traceback_later(CASE_LIMIT_S - 1)
        signal.alarm(CASE_LIMIT_S)
        number = 0 if fault.error == "SHORT" else getattr(errno, fault.error)
        library.reliability_fail(first, ALWAYS if fault.persists else first, number, fault.operations.encode())
        code = _guarded(name, root)
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


def _guarded(name: str, root: Path) -> int:
    """Run a protocol as a command does: a declared error is one line, anything else a traceback."""
    try:
        protocols.PROTOCOLS[name](root)
    except SystemExit as end:
        return int(end.code or 0)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1 if "\n" not in str(error) else LOST
    except BaseException:
        traceback.print_exc()
        return LOST
    return 0


class Sweep:
    """The cases of one protocol, which this process has played once, so that modules and kernels are loaded."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.template, self.log = folder / "template", folder.with_name("log")
        self.template.mkdir()
        played.PREPARE.get(name, lambda root: None)(self.template)
        played.launch_directly()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        with contextlib.redirect_stdout(sys.stderr):
            protocols.PROTOCOLS[name](self.place("warm"))
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def place(self, name: str) -> Path:
        return Path(shutil.copytree(self.template, self.folder / name))

    def run(self, stride: int) -> dict[str, object]:
        """Fail operation 1, 1 + stride, ... of each fault kind until none is left to fail."""
        undisturbed, cases, broken = self.place("undisturbed"), 0, []
        code, marks, _ = run_case(self.name, undisturbed, NO_FAULT, FAULT_KINDS[0], self.log)
        assert code == 0, self.log.read_text()
        for fault in FAULT_KINDS:
            first, unreached = 1, 0
            while unreached < (CALM if stride == 1 else 1):
                root = self.place("case")
                code, marks_of_case, failed = run_case(self.name, root, first, fault, self.log)
                unreached = 0 if failed else unreached + 1
                cases += failed
                if verdict := self.judge(root, code, marks_of_case, fault, undisturbed, marks):
                    broken.append(f"{fault.error}{'...' * fault.persists} at operation {first}: {verdict}")
                    print(broken[-1], file=sys.stderr, flush=True)
                shutil.rmtree(root)
                first += stride
            print(f"{self.name} {fault.error}{'...' * fault.persists}: {first - 1} operations", file=sys.stderr)
        return {"cases": cases, "broken": broken}

    def judge(
        self, root: Path, code: int, marks: list[str], fault: FaultKind, undisturbed: Path, expected: list[str]
    ) -> str:
        """Return what a case broke, empty for nothing.

        It ends well, with all results and a line for each file it gave up, or with one clear line. Whatever it
        acknowledged is there, temporary files are not, and started again it ends as the undisturbed one.
        """
        text = self.log.read_text(errors="replace")
        lines = text.splitlines()
        if code not in (0, 1):
            return f"exit code {code}: {lines[-1:]}"
        if code == 1 and (not lines or lines[-1].split(":")[0].endswith("Error")):
            return f"unclear end: {lines[-1:]}"
        if code == 0 and values(marks, "match") != values(expected, "match"):
            return "a match differs"
        missing = _files(undisturbed) - _files(root) if code == 0 else set()
        if unnamed := [str(path) for path in missing if not _is_named(path, root, text)]:
            return f"missing, and no line names it: {unnamed}"
        if "u" not in fault.operations and (left := [str(path) for path in _files(root) if _is_temporary(path)]):
            return f"temporary files are left: {left}"
        before = shutil.copytree(root, self.folder / "before")
        try:
            played.ALL_CHECKS[self.name](before, marks)
            return self._continued(root, undisturbed)
        except FAILURES as error:
            return f"lost: {type(error).__name__} {error}"
        finally:
            shutil.rmtree(before)

    def _continued(self, root: Path, undisturbed: Path) -> str:
        """Return what differs after the job is started again, which is done unless it is complete."""
        outcome = played.OUTCOMES.get(self.name)
        if outcome is None or outcome(root) == (expected := outcome(undisturbed)):
            return ""
        code, _, _ = run_case(self.name, root, NO_FAULT, FAULT_KINDS[0], self.log)
        if code:
            return f"second run: exit code {code}: {self.log.read_text(errors='replace').splitlines()[-1:]}"
        return "" if (found := outcome(root)) == expected else f"ends at {found}, expected {expected}"


def _files(root: Path) -> set[Path]:
    return {path.relative_to(root) for path in root.rglob("*") if path.is_file()}


def _is_named(path: Path, root: Path, text: str) -> bool:
    """Whether a text names a missing file or a missing folder above it, or may leave it out."""
    gone = [part.name for part in (path, *path.parents) if not (root / part).exists()]
    return any(name in text for name in gone) or not {*path.parts}.isdisjoint(UNNAMED)


def _is_temporary(path: Path) -> bool:
    return path.name.endswith(".tmp") or any(part.startswith(".tmp") for part in path.parts)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        print(json.dumps(Sweep(sys.argv[1], Path(sys.argv[2])).run(int(sys.argv[3]))))
