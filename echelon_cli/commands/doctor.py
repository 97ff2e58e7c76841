"""``echelon doctor``: check the requirements of Echelon on this machine, with a remedy for each fault.

A check that raises is itself reported as a fault; the other checks still run. ``--speed`` also measures this machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from echelon.files import error_text
from echelon_cli import output
from echelon_cli.options import JsonFlag, option

Verdict = Literal["ok", "warning", "fault"]

PYTHON_MIN = (3, 11)
DISK_MIN_GB = 2.0
MEMORY_MIN_GB = 2.0
COLUMNS_MIN = 80

CACHE_ADVICE = "set WARP_CACHE_PATH to a writable folder; otherwise kernels compile at every start"

STYLES: dict[str, str] = {"ok": "green", "warning": "yellow", "fault": "red"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""


def check_python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    if sys.version_info < PYTHON_MIN:
        return Finding(name="python", verdict="fault", found=found, advice="install Python 3.11 or newer")
    if os.name != "posix":
        return Finding(name="python", verdict="fault", found=found, advice="jobs need Linux or macOS; use WSL")
    return Finding(name="python", verdict="ok", found=found)


def check_torch() -> Finding:
    try:
        import torch
    except ImportError as error:
        return Finding(name="torch", verdict="fault", found=str(error), advice="pip install 'torch>=2.11,<2.14'")
    found = f"{torch.__version__}, {torch.get_num_threads()} threads"
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding(name="torch", verdict="ok", found=f"{found}, {', '.join(names)}")
    if shutil.which("nvidia-smi") and torch.version.cuda is None:
        advice = "this torch has no CUDA; reinstall it from the CUDA index to use the GPU"
        return Finding(name="torch", verdict="warning", found=f"{found}, CPU only", advice=advice)
    return Finding(name="torch", verdict="ok", found=f"{found}, CPU only")


def _start_warp():
    import warp

    from echelon.sim.backend import start_warp

    start_warp()
    return warp


def check_warp() -> Finding:
    try:
        warp = _start_warp()
    except (ImportError, RuntimeError) as error:
        return Finding(name="warp", verdict="fault", found=str(error), advice="pip install 'warp-lang>=1.19,<1.20'")
    except OSError as error:
        return Finding(name="warp", verdict="fault", found=error_text(error), advice=CACHE_ADVICE)
    devices = ", ".join(str(device) for device in warp.get_devices())
    return Finding(name="warp", verdict="ok", found=f"{warp.config.version}, devices {devices}")


def check_kernel_cache() -> Finding:
    try:
        folder = Path(_start_warp().config.kernel_cache_dir or "")
    except (ImportError, RuntimeError) as error:
        return Finding(name="kernel cache", verdict="fault", found=error_text(error), advice="repair warp first")
    except OSError as error:
        return Finding(name="kernel cache", verdict="fault", found=error_text(error), advice=CACHE_ADVICE)
    if not _writable(folder):
        return Finding(name="kernel cache", verdict="fault", found=f"{folder} cannot be written", advice=CACHE_ADVICE)
    entries = sum(1 for _ in folder.glob("wp_*"))
    return Finding(name="kernel cache", verdict="ok", found=f"{folder}, {entries} modules")


def check_runs() -> Finding:
    from echelon.runs import HOME_VARIABLE, list_runs, runs_home

    home = runs_home()
    parent = next((path for path in (home, *home.parents) if path.exists()), Path("/"))
    if not parent.is_dir() or not _writable(parent):
        advice = f"set {HOME_VARIABLE} to a writable folder"
        return Finding(name="runs", verdict="fault", found=f"{home} cannot be written", advice=advice)
    free_gb = shutil.disk_usage(parent).free / 1e9
    found = f"{home}, {len(list_runs())} runs, {free_gb:.1f} GB free"
    if free_gb < DISK_MIN_GB:
        return Finding(
            name="runs", verdict="warning", found=found, advice="free some disk; echelon runs rm deletes old runs"
        )
    return Finding(name="runs", verdict="ok", found=found)


def check_memory() -> Finding:
    import psutil

    free_gb = psutil.virtual_memory().available / 1e9
    if free_gb < MEMORY_MIN_GB:
        advice = "close other programs, or train with a smaller num_envs (--set num_envs=N)"
        return Finding(name="memory", verdict="warning", found=f"{free_gb:.1f} GB free", advice=advice)
    return Finding(name="memory", verdict="ok", found=f"{free_gb:.1f} GB free")


def check_terminal() -> Finding:
    size = shutil.get_terminal_size()
    encoding = (sys.stdout.encoding or "unknown").lower()
    inside = " in tmux" if os.environ.get("TMUX") else ""
    found = f"{os.environ.get('TERM', 'no TERM')}{inside}, {size.columns}x{size.lines}, {encoding}"
    if "utf" not in encoding:
        return Finding(name="terminal", verdict="warning", found=found, advice="set LANG to a UTF-8 locale")
    if size.columns < COLUMNS_MIN:
        return Finding(name="terminal", verdict="warning", found=found, advice=f"{COLUMNS_MIN} columns show more")
    return Finding(name="terminal", verdict="ok", found=found)


def check_viewer() -> Finding:
    from echelon.server.routes import STATIC

    page = STATIC / "index.html"
    if not page.is_file():
        advice = "build it with: pip install ."
        return Finding(name="viewer", verdict="warning", found=f"{page} is missing", advice=advice)
    return Finding(name="viewer", verdict="ok", found=f"built in {STATIC}")


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_python,
    check_torch,
    check_warp,
    check_kernel_cache,
    check_runs,
    check_memory,
    check_terminal,
    check_viewer,
)


def measure_speed() -> list[Finding]:
    """Return the speed of the simulator at several numbers of environments, on the GPU where there is one."""
    from echelon.training.runtime.threads import thread_environment

    os.environ.update(thread_environment())
    from echelon.bench.scenes import ladder
    from echelon.sim.backend import resolve_device

    device = resolve_device("auto")
    return [
        Finding(
            name=f"speed, {envs} environments",
            verdict="ok",
            found=f"{output.count(rate)} agent-steps/s, 5v5 on {device}",
        )
        for envs, rate in ladder(device)
    ]


def doctor(
    speed: Annotated[bool, option("--speed", "Also measure the simulator at three sizes.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Check devices, versions, kernel cache, disk, terminal and viewer."""
    findings = [run_check(check) for check in CHECKS]
    if speed:
        with output.waiting("measuring", quiet=as_json):
            findings += measure_speed()
    faults = any(finding.verdict == "fault" for finding in findings)
    if as_json:
        output.show_json([asdict(finding) for finding in findings])
    else:
        from rich.text import Text

        rows = [(f.name, Text(f.verdict, style=STYLES[f.verdict]), f.found, f.advice) for f in findings]
        output.show_table(("check", "verdict", "found", "advice"), rows)
    return output.FAILED if faults else output.DONE


def run_check(check: Callable[[], Finding]) -> Finding:
    """Return the finding of a check; an exception becomes a fault."""
    try:
        return check()
    except Exception as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        found = f"{type(error).__name__}: {error_text(error)}"
        return Finding(name=name, verdict="fault", found=found, advice="fix this error and run echelon doctor again")


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
