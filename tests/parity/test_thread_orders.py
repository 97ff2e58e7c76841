"""Battles do not depend on the order in which the threads of a launch run, which CUDA leaves open."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.parity.thread_orders import CASES

LONG = tuple(name for name in CASES if name not in ("quick", "fault", "two-hundred"))


def first_differences(names: Sequence[str]) -> dict[str, Any]:
    """Return the first difference between orders of each case, played by another process."""
    command = [sys.executable, "-m", "tests.parity.thread_orders", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    battles = [row for row in rows if row["case"] != "fault"]
    fought = all(row["shots"] for row in battles) and any(row["dead"] for row in battles)
    assert fought, f"no battle was fought: {battles}"
    return {row["case"]: row["difference"] for row in rows}


@pytest.mark.long
def test_battle_with_every_block_is_equal_in_every_thread_order_and_a_fault_is_found():
    fault = {"order": "reverse", "comparison": 1, "arrays": ["actions", "heat", "obs", "trace_body", "vent"]}
    assert first_differences(("quick", "fault")) == {"quick": None, "fault": fault}


@pytest.mark.long
def test_battles_of_every_layout_and_pilot_are_equal_in_every_thread_order():
    assert first_differences(LONG) == dict.fromkeys(LONG)
