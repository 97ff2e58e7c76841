"""Cores and memory of a process within its control groups, read from a folder in the place of the system's."""

import os

import psutil
import pytest

from echelon import machine
from echelon.jobs.usage import machine_memory
from echelon.training.runtime.threads import resolve_threads

MIB = 2**20
V2 = {
    "job/cpu.max": "max 100000",
    "cpu.max": "250000 100000",
    "job/step/memory.max": str(512 * MIB),
    "job/step/memory.current": str(400 * MIB),
    "job/step/memory.stat": f"anon 5\ninactive_file {100 * MIB}\n",
    "job/step/memory.swap.max": "0",
    "job/memory.max": "max",
}
V1 = {
    "cpu/cpu.cfs_quota_us": "-1",
    "cpu/cpu.cfs_period_us": "100000",
    "cpu/job/cpu.cfs_quota_us": "290000",
    "cpu/job/cpu.cfs_period_us": "100000",
    "memory/memory.limit_in_bytes": str(512 * MIB),
    "memory/memory.usage_in_bytes": str(400 * MIB),
    "memory/memory.stat": f"cache 7\ntotal_inactive_file {100 * MIB}\n",
    "memory/memory.memsw.limit_in_bytes": str(512 * MIB),
}
OWN = {"v2": "0::/job/step\n", "v1": "5:memory:/job/step\n4:cpu,cpuacct:/job\n1:name=systemd:/\n0::/\n"}


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Put a tree of control groups into the place of the system's, on a machine of eight cores."""

    def put(own, files):
        monkeypatch.setattr(machine, "GROUPS", tmp_path / "tree")
        monkeypatch.setattr(machine, "OWN_GROUPS", tmp_path / "own")
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            path = tmp_path / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return put


@pytest.mark.parametrize(("own", "files"), [(OWN["v2"], V2), (OWN["v1"], V1)], ids=["v2", "v1"])
def test_quota_and_memory_of_a_control_group_bound_threads_and_memory(groups, own, files):
    groups(own, files)
    assert machine.cores() == resolve_threads(0) == 2 and resolve_threads(0, 2) == 1 and resolve_threads(5) == 5
    assert machine.memory() == (512 * MIB, 212 * MIB, 0) and machine_memory() == 512 * MIB


@pytest.mark.parametrize("own", ["", "0::/gone/../elsewhere\n", "damaged\n"])
@pytest.mark.parametrize(
    "files", [{}, {"cpu.max": "", "memory.max": "damaged"}, {"cpu.max": "max 100000", "memory.max": str(2**63)}]
)
def test_without_a_limit_the_machine_counts(groups, own, files):
    groups(own, files)
    found = machine.memory()
    assert machine.cores() == 8 and found.total == psutil.virtual_memory().total and found.available > 0


def test_less_than_one_core_is_one(groups):
    groups("0::/\n", {"cpu.max": "50000 100000"})
    assert machine.cores() == 1
