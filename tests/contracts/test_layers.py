"""Imports follow the layers, and light modules load nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT_MODULES = (
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
HEAVY_MODULES = ("torch", "warp", "numpy", "scipy", "pydantic")

HELP_LIMIT_S = 0.3


def test_imports_follow_the_layers(repository):
    # in a process of its own: import-linter configures logging, which disables the loggers of other tests
    script = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", LIGHT_MODULES)
def test_light_module_loads_nothing_heavy(repository, module):
    script = f"import sys, {module}; print([m for m in {HEAVY_MODULES!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


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
