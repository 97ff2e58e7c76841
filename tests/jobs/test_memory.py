"""Memory that a run needs at least: runs of every preset fit, a hostile configuration is refused."""

from __future__ import annotations

from dataclasses import asdict, replace

import psutil
import pytest

from echelon.actions import action_dim
from echelon.config import PACK_SIZE, RunConfig
from echelon.config.presets import PRESETS, get_preset
from echelon.env.layout import obs_dim
from echelon.jobs import memory, worker
from echelon.jobs.memory import GIB, least_bytes, require_memory
from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths
from echelon.sim.batch import Batch
from echelon.sim.state import all_fields
from tests.arena.policy_files import SMALL
from tests.sim.flat_field import flat_maps

LARGEST_PRESET_BYTES = 64 * GIB


@pytest.mark.parametrize("name", PRESETS)
def test_least_memory_of_a_preset_is_what_machines_have(name):
    assert 0 < least_bytes(get_preset(name)) < LARGEST_PRESET_BYTES


HUGE = {
    "num_envs": RunConfig(num_envs=10**9),
    "bank_maps": RunConfig(bank_maps=10**9),
    "rollout_steps": replace(RunConfig(), ppo=replace(RunConfig().ppo, rollout_steps=10**9)),
}


@pytest.mark.parametrize("config", HUGE.values(), ids=HUGE)
def test_run_that_needs_terabytes_is_refused_in_one_line(config):
    with pytest.raises(ValueError, match=r"needs at least \d+ GiB of memory .*, expected at most \d+ GiB") as caught:
        require_memory(config)
    assert "\n" not in str(caught.value)


def test_worker_refuses_before_it_loads_the_simulator(tmp_path, monkeypatch):
    paths = RunPaths(tmp_path)
    write_spec(paths, JobSpec(kind="train", config=asdict(HUGE["num_envs"])))
    monkeypatch.setattr("echelon.training.loop.run", lambda *args, **options: pytest.fail("the run was started"))
    with pytest.raises(ValueError, match="num_envs=1000000000"):
        worker.train(paths, None, None)  # type: ignore[arg-type]


def test_memory_of_a_gpu_counts_where_it_is_used(monkeypatch):
    machine = psutil.virtual_memory().total + psutil.swap_memory().total
    monkeypatch.setattr(memory, "least_bytes", lambda config: machine + GIB)
    monkeypatch.setattr(memory, "has_gpu", lambda: True)
    require_memory(RunConfig(device="cuda"))
    with pytest.raises(ValueError, match="run needs at least"):
        require_memory(RunConfig(device="cpu"))


def test_least_memory_is_that_of_the_arrays():
    config = RunConfig(num_envs=2, bank_maps=1, env=SMALL, ppo=replace(RunConfig().ppo, rollout_steps=1))
    more = replace(config, num_envs=5), replace(config, bank_maps=4)
    rows, world = 3 * SMALL.num_packs * PACK_SIZE, SMALL.world
    batch = Batch(SMALL, 3, flat_maps(SMALL))
    arrays = sum(batch.backend.arrays[name].capacity for name in all_fields())
    per_env, per_map = ((least_bytes(m) - least_bytes(config)) for m in more)
    assert per_env - rows * (obs_dim(SMALL) + action_dim(SMALL.comm_dim)) * 4 == arrays
    assert per_map >= 3 * world.size_x * world.size_y * (world.size_z + 3 * 8)
