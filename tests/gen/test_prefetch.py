"""Map prefetch: taken maps equal generated ones, stalls are counted, and workers exit with their parent."""

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
from echelon.gen.map_sampling import NICENESS, MapPrefetcher, MapSpec

WORLD = WorldConfig(size_x=40, size_y=40, size_z=14)
MAX_NICE = 19
TIMEOUT_S = 60.0
"""Time limit for another process on a busy machine."""


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHELON_CACHE", str(tmp_path))


def specs_of(count: int) -> list[MapSpec]:
    return [MapSpec(WORLD, seed, 1, 5.0) for seed in range(count)]


def until(condition) -> bool:
    """Wait for a condition at most ``TIMEOUT_S``, and return it."""
    end = time.monotonic() + TIMEOUT_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


def all_done(prefetcher: MapPrefetcher) -> bool:
    return all(future.done() for future in prefetcher._pending.values())


def assert_maps_of(maps, specs: list[MapSpec]) -> None:
    for taken, spec in zip(maps, specs, strict=True):
        expected = generate(WORLD, spec.seed, num_packs=1, zone_radius_vox=5.0)
        assert np.array_equal(taken.material, expected.material) and taken.recipe == expected.recipe


def test_only_taking_unfinished_maps_counts_a_stall():
    prefetcher, specs = MapPrefetcher(workers=1), specs_of(6)
    prefetcher.prefetch(specs[:3])
    assert_maps_of(prefetcher.take(specs[:3]), specs[:3])
    assert prefetcher.stalls == 1 and (waited_s := prefetcher.waited_s) > 0.0
    prefetcher.prefetch(specs[3:])
    assert until(lambda: all_done(prefetcher))
    assert_maps_of(prefetcher.take(specs[3:]), specs[3:])
    assert (prefetcher.stalls, prefetcher.waited_s) == (1, waited_s)
    prefetcher.close()


def test_prefetcher_without_workers_generates_on_take():
    prefetcher, specs = MapPrefetcher(), specs_of(2)
    prefetcher.prefetch(specs)
    assert_maps_of(prefetcher.take(specs), specs)
    assert prefetcher.stalls == 1
    assert_maps_of(prefetcher.take(specs), specs)
    assert prefetcher.stalls == 1


@pytest.mark.long
def test_killed_worker_loses_no_map():
    prefetcher, specs = MapPrefetcher(workers=1), specs_of(4)
    prefetcher.prefetch(specs[:1])
    assert until(lambda: all_done(prefetcher))
    assert prefetcher._pool is not None
    (pid,) = prefetcher._pool._processes
    os.kill(pid, signal.SIGSTOP)
    prefetcher.prefetch(specs)
    os.kill(pid, signal.SIGKILL)
    assert_maps_of(prefetcher.take(specs), specs)
    prefetcher.prefetch(specs_of(5)[4:])
    assert_maps_of(prefetcher.take(specs_of(5)[4:]), specs_of(5)[4:])
    prefetcher.close()


PARENT = """
import os, time
from echelon.config import WorldConfig
from echelon.gen.map_sampling import MapSpec
from echelon.gen.map_sampling import MapPrefetcher
if __name__ == "__main__":
    prefetcher = MapPrefetcher(workers=1)
    prefetcher.prefetch([MapSpec(WorldConfig(size_x=40, size_y=40), 1, 1, 5.0)])
    prefetcher.take([MapSpec(WorldConfig(size_x=40, size_y=40), 1, 1, 5.0)])
    (pid,) = prefetcher._pool._processes
    print(pid, os.getpriority(os.PRIO_PROCESS, pid), flush=True)
    time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_worker_is_niced_and_exits_with_killed_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert parent.stdout is not None
        pid, priority = (int(word) for word in parent.stdout.readline().split())
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        assert priority == min(MAX_NICE, nice + NICENESS) and alive(pid)
        parent.kill()
        parent.wait()
        assert until(lambda: not alive(pid)), "the worker outlives its parent"
    finally:
        parent.kill()
