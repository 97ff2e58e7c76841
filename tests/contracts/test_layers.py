"""Light modules load nothing heavy; ``lint-imports`` checks the layers."""

import subprocess
import sys

import pytest

LIGHT_MODULES = (
    "echelon",
    "echelon_cli.main",
    "echelon_cli.follow",
    "echelon_cli.tui.app",
    "echelon_cli.tui.actions",
    "echelon.telemetry.latest",
    "echelon.jobs.launch",
    "echelon.jobs.supervisor",
    "echelon.jobs.worker",
    "echelon.arena.standings",
    "echelon.telemetry.snapshot",
    "echelon.config",
    "echelon.config.presets",
)
HEAVY_MODULES = {"torch", "warp", "numpy", "scipy", "pydantic"}

HELP_LIMIT_S = 0.3


def test_light_modules_load_nothing_heavy(repository):
    lines = [
        "import importlib, sys",
        f"for name in {LIGHT_MODULES!r}:",
        "    importlib.import_module(name)",
        f"    print(name, *sys.modules.keys() & {HEAVY_MODULES!r})",
    ]
    script = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == list(LIGHT_MODULES), done.stdout + done.stderr


@pytest.mark.bench
def test_help_is_fast(repository):
    import time

    taken = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "echelon_cli.main", "--help"], cwd=repository, check=True, capture_output=True
        )
        taken.append(time.perf_counter() - began)
    assert min(taken) < HELP_LIMIT_S
