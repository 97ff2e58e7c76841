"""``echelon doctor``: check the requirements of Echelon on this machine, with a remedy for each fault.

A check that raises is itself reported as a fault; the other checks still run. ``--speed`` also measures this machine.
"""

import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from echelon import machine
from echelon.files import error_text
from echelon.runs import HOME_VARIABLE, list_runs, runs_home
from echelon_cli import options, output
from echelon_cli.options import option
from echelon_cli.output import Column

Verdict = Literal["ok", "warning", "fault"]

PYTHON_MIN = (3, 11)
DISK_MIN_GB = 2.0
MEMORY_MIN_GB = 2.0
COLUMNS_MIN = 80

CACHE_ADVICE = "set WARP_CACHE_PATH to a writable folder; otherwise kernels compile at every start"

STYLES: dict[str, str] = {"ok": "green", "warning": "yellow", "fault": "red"}


class Finding(NamedTuple):
    """Result of one check."""

    verdict: Verdict
    found: str
    advice: str = ""


def check_python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {machine.cores()} cores"
    if sys.version_info < PYTHON_MIN:
        return Finding("fault", found, "install Python 3.11 or newer")
    if os.name != "posix":
        return Finding("fault", found, "jobs need Linux or macOS; use WSL")
    return Finding("ok", found)


def check_torch() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding("fault", str(error), "pip install 'torch>=2.11,<2.14'")
    found = f"{torch.__version__}, {torch.get_num_threads()} threads"
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding("ok", f"{found}, {', '.join(names)}")
    if shutil.which("nvidia-smi") and torch.version.cuda is None:
        advice = "this torch has no CUDA; reinstall it from the CUDA index to use the GPU"
        return Finding("warning", f"{found}, CPU only", advice)
    return Finding("ok", f"{found}, CPU only")


def _start_warp():
    import warp

    from echelon.sim.backend import start_warp

    start_warp()
    return warp


def check_warp() -> Finding:
    try:
        warp = _start_warp()
    except (ImportError, RuntimeError) as error:
        return Finding("fault", str(error), "pip install 'warp-lang>=1.19,<1.20'")
    except (OSError, ValueError) as error:
        return Finding("fault", error_text(error), CACHE_ADVICE)
    devices = ", ".join(str(device) for device in warp.get_devices())
    return Finding("ok", f"{warp.config.version}, devices {devices}")


def check_kernel_cache() -> Finding:
    try:
        folder = Path(_start_warp().config.kernel_cache_dir or "")
    except (ImportError, RuntimeError) as error:
        return Finding("fault", error_text(error), "repair warp first")
    except (OSError, ValueError) as error:
        return Finding("fault", error_text(error), CACHE_ADVICE)
    if not _writable(folder):
        return Finding("fault", f"{folder} cannot be written", CACHE_ADVICE)
    entries = sum(1 for _ in folder.glob("wp_*"))
    return Finding("ok", f"{folder}, {entries} modules")


def check_runs() -> Finding:
    home = runs_home()
    parent = next((path for path in (home, *home.parents) if path.exists()), Path("/"))
    if not parent.is_dir() or not _writable(parent):
        advice = f"set {HOME_VARIABLE} to a writable folder"
        return Finding("fault", f"{home} cannot be written", advice)
    free_gb = shutil.disk_usage(parent).free / 1e9
    found = f"{home}, {len(list_runs())} runs, {free_gb:.1f} GB free"
    if free_gb < DISK_MIN_GB:
        return Finding("warning", found, "free some disk; echelon runs rm deletes old runs")
    return Finding("ok", found)


def check_memory() -> Finding:
    free_gb = machine.memory().available / 1e9
    if free_gb < MEMORY_MIN_GB:
        advice = "close other programs, or train with a smaller num_envs (--set num_envs=N)"
        return Finding("warning", f"{free_gb:.1f} GB free", advice)
    return Finding("ok", f"{free_gb:.1f} GB free")


def check_terminal() -> Finding:
    size = shutil.get_terminal_size()
    encoding = (sys.stdout.encoding or "unknown").lower()
    inside = " in tmux" if os.environ.get("TMUX") else ""
    found = f"{os.environ.get('TERM', 'no TERM')}{inside}, {size.columns}x{size.lines}, {encoding}"
    if "utf" not in encoding:
        return Finding("warning", found, "set LANG to a UTF-8 locale")
    if size.columns < COLUMNS_MIN:
        return Finding("warning", found, f"{COLUMNS_MIN} columns show more")
    return Finding("ok", found)


def check_viewer() -> Finding:
    from echelon.server.routes import STATIC

    page = STATIC / "index.html"
    if not page.is_file():
        advice = "build it with: pip install ."
        return Finding("warning", f"{page} is missing", advice)
    return Finding("ok", f"built in {STATIC}")


CHECKS: dict[str, Callable[[], Finding]] = {
    "python": check_python,
    "torch": check_torch,
    "warp": check_warp,
    "kernel cache": check_kernel_cache,
    "runs": check_runs,
    "memory": check_memory,
    "terminal": check_terminal,
    "viewer": check_viewer,
}


def measure_speed() -> dict[str, Finding]:
    """Return the speed of the simulator at several numbers of environments, on the GPU where there is one."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.bench.scenes import ladder
    from echelon.sim.backend import resolve_device

    device = resolve_device("auto")
    return {
        f"speed, {envs} environments": Finding("ok", f"{output.count(rate)} agent-steps/s, 5v5 on {device}")
        for envs, rate in ladder(device)
    }


def doctor(
    speed: Annotated[bool, option("--speed", "Also measure the simulator at three sizes.")] = False,
    as_json: options.Json = False,
) -> int:
    """Check devices, versions, kernel cache, disk, terminal and viewer."""
    findings = {name: run_check(check) for name, check in CHECKS.items()}
    if speed:
        with output.waiting("measuring", quiet=as_json):
            findings |= measure_speed()
    if as_json:
        output.show_json([{"name": name, **finding._asdict()} for name, finding in findings.items()])
    else:
        output.show_rows(COLUMNS, findings.items())
    return output.FAILED if any(finding.verdict == "fault" for finding in findings.values()) else output.DONE


COLUMNS = (
    Column("check", lambda row: row[0]),
    Column("verdict", lambda row: output.plain(row[1].verdict, STYLES[row[1].verdict])),
    Column("found", lambda row: row[1].found),
    Column("advice", lambda row: row[1].advice),
)


def run_check(check: Callable[[], Finding]) -> Finding:
    """Return the finding of a check; an exception becomes a fault."""
    try:
        return check()
    except Exception as error:
        found = f"{type(error).__name__}: {error_text(error)}"
        return Finding("fault", found, "fix this error and run echelon doctor again")


def _writable(folder: Path) -> bool:
    """Return whether a file can be created in ``folder``, by creating one."""
    probe = folder / f".echelon-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True
