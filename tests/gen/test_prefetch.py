"""Maps made ahead: what is taken is what was ordered, waiting is counted, and no process outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from echelon.config import WorldConfig
from echelon.gen.generate import generate
from echelon.gen.map_sampling import MapSpec
from echelon.gen.prefetch import NICENESS, MapPrefetcher

WORLD = WorldConfig(size_x=40, size_y=40, size_z=14)
MOST_NICE = 19
PATIENCE_S = 60.0
"""How long another process may take on a busy machine."""


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path))


def orders(count: int) -> list[MapSpec]:
    return [MapSpec(WORLD, seed, 1, 5.0) for seed in range(count)]


def until(holds) -> bool:
    """Wait for something to hold, but not for ever."""
    end = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(holds())


def ready(supply: MapPrefetcher) -> bool:
    return all(coming.done() for coming in supply._ahead.values())


def assert_the_maps_of(maps, wanted: list[MapSpec]) -> None:
    for made, order in zip(maps, wanted, strict=True):
        exact = generate(WORLD, order.seed, num_packs=1, zone_radius_vox=5.0)
        assert np.array_equal(made.material, exact.material) and made.recipe == exact.recipe


def test_taking_ready_maps_counts_no_stall():
    supply, wanted = MapPrefetcher(workers=1), orders(3)
    supply.prefetch(wanted)
    assert until(lambda: ready(supply))
    assert_the_maps_of(supply.take(wanted), wanted)
    assert (supply.stalls, supply.waited_s) == (0, 0.0)
    supply.close()


def test_taking_unfinished_maps_counts_one_stall():
    supply, wanted = MapPrefetcher(workers=1), orders(3)
    supply.prefetch(wanted)
    assert_the_maps_of(supply.take(wanted), wanted)
    assert supply.stalls == 1 and supply.waited_s > 0.0
    supply.close()


def test_prefetcher_without_workers_generates_on_take():
    supply, wanted = MapPrefetcher(), orders(2)
    supply.prefetch(wanted)
    assert_the_maps_of(supply.take(wanted), wanted)
    assert supply.stalls == 1
    assert_the_maps_of(supply.take(wanted), wanted)
    assert supply.stalls == 1


def test_killed_worker_loses_no_map():
    supply, wanted = MapPrefetcher(workers=1), orders(4)
    supply.prefetch(wanted[:1])
    assert until(lambda: ready(supply))
    assert supply._pool is not None
    (pid,) = supply._pool._processes
    os.kill(pid, signal.SIGSTOP)
    supply.prefetch(wanted)
    os.kill(pid, signal.SIGKILL)
    assert_the_maps_of(supply.take(wanted), wanted)
    supply.prefetch(orders(5)[4:])
    assert_the_maps_of(supply.take(orders(5)[4:]), orders(5)[4:])
    supply.close()


PARENT = """
import os, time
from echelon.config import WorldConfig
from echelon.gen.map_sampling import MapSpec
from echelon.gen.prefetch import MapPrefetcher
if __name__ == "__main__":
    supply = MapPrefetcher(workers=1)
    supply.prefetch([MapSpec(WorldConfig(size_x=40, size_y=40), 1, 1, 5.0)])
    supply.take([MapSpec(WorldConfig(size_x=40, size_y=40), 1, 1, 5.0)])
    (pid,) = supply._pool._processes
    print(pid, os.getpriority(os.PRIO_PROCESS, pid), flush=True)
    time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks /proc who lives")
def test_worker_is_niced_and_exits_with_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert parent.stdout is not None
        pid, priority = (int(word) for word in parent.stdout.readline().split())
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert priority == min(MOST_NICE, own + NICENESS) and alive(pid)
        parent.kill()
        parent.wait()
        assert until(lambda: not alive(pid)), "a worker lives on without its parent"
    finally:
        parent.kill()
