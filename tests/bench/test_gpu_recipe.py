"""The recipe ``gpu`` of the justfile: run with a stand-in for Python, it reports each step that fails."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import CUDA_ENVS

pytestmark = pytest.mark.long

PYTHON = f"""#!/usr/bin/env bash
[ -n "$FAULT" ] && [[ "$*" == *CUDA_ENVS* ]] && exit 0
[ "$1" = -c ] && exec {sys.executable} "$@"
echo "$*" >> "$LOG"
[ -n "$FAULT" ] && [[ "$*" == *"$FAULT"* ]] && exit 1
[[ "$*" == *--detach* ]] && echo '{{"id": "of-a-gpu"}}'
exit 0
"""
"""Notes its arguments and runs code of ``-c``; with ``FAULT`` it fails where they contain it, and names no scene."""


def script_of(justfile: str, recipe: str, values: dict[str, str]) -> str:
    """Return the body of a recipe with ``values`` in place of its parameters."""
    found = re.search(rf"^{recipe}\b.*:\n((?:    .*\n|\n)+)", justfile, re.MULTILINE)
    assert found, f"the justfile has no recipe {recipe!r}"
    body = re.sub(r"^    ", "", found[1], flags=re.MULTILINE)
    return re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], body)


def played(repository: Path, folder: Path, fault: str = "") -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Return the recipe's outcome, and the arguments of every call of Python."""
    python, log = folder / "python", folder / "log"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    values = {"python": str(python), "MINUTES": "0", "FOLDER": str(folder), "DEVICE": "cuda", "PRESET": "gpu"}
    script = script_of((repository / "justfile").read_text(encoding="utf-8"), "gpu", values)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(repository), "LOG": str(log), "FAULT": fault}
    done = subprocess.run(
        ["bash"], input=script, capture_output=True, text=True, check=False, env=environment, cwd=repository
    )
    return done, log.read_text(encoding="utf-8").splitlines()


def test_gpu_recipe_runs_all_marked_tests_and_all_scenes_of_cuda(tmp_path, repository):
    done, calls = played(repository, tmp_path)
    assert done.returncode == 0 and "failed: nothing" in done.stdout, done.stdout + done.stderr
    assert any("pytest" in call and call.endswith("-m gpu tests") for call in calls)
    assert [call.rpartition(" ")[2] for call in calls if "-m tests.bench " in call] == list(CUDA_ENVS)
    assert [call for call in calls if "of-a-gpu" in call] == [
        f"-m echelon_cli.main {part} of-a-gpu" for part in ("runs stop", "train --resume", "runs show")
    ]


@pytest.mark.parametrize("fault", ["--detach", "runs stop", "--resume"])
def test_gpu_recipe_reports_a_training_that_does_not_start_stop_or_resume(tmp_path, repository, fault):
    done, calls = played(repository, tmp_path, fault)
    assert done.returncode == 1 and "failed: training\n" in done.stdout, done.stdout + done.stderr
    assert not any("runs show" in call for call in calls)
