"""Battles do not depend on the order in which the threads of a launch run, which CUDA leaves open."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from echelon.config import EnvConfig
from tests.parity.thread_orders import CASES, LAYOUTS

EQUAL = tuple(name for name in CASES if name.startswith("quick"))
QUICK = (*EQUAL, "fault")
LONG = tuple(name for name in CASES if name not in (*QUICK, "two-hundred"))


def first_differences(names: Sequence[str]) -> dict[str, Any]:
    """Return the first difference between orders of each case, played by another process."""
    command = [sys.executable, "-m", "tests.parity.thread_orders", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(row["shots"] for row in rows) and any(row["dead"] for row in rows), f"no battle was fought: {rows}"
    return {row["case"]: row["difference"] for row in rows}


@cache
def quick() -> dict[str, Any]:
    return first_differences(QUICK)


@pytest.mark.parametrize("name", EQUAL)
def test_small_battle_is_equal_in_every_thread_order(name):
    assert quick()[name] is None


def test_small_battles_have_every_layout():
    usual = EnvConfig()
    small = {"world": usual.world, "max_episode_seconds": usual.max_episode_seconds}
    layouts = [replace(CASES[name].cfg, **small) for name in EQUAL]
    assert [name for name, row in LAYOUTS.items() if EnvConfig(**row) not in layouts] == []


def test_kernel_that_depends_on_thread_order_is_found():
    assert quick()["fault"] == {"order": "reverse", "comparison": 1, "arrays": ["heat", "obs", "trace_body"]}


@pytest.mark.long
def test_battles_of_every_layout_and_pilot_are_equal_in_every_thread_order():
    assert first_differences(LONG) == dict.fromkeys(LONG)
