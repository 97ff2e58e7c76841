"""Memory that a run needs at least: runs of every preset fit, a hostile configuration is refused."""

import gc
from dataclasses import asdict, replace

import psutil
import pytest

from echelon.actions import ACTION_DIM
from echelon.config import PACK_SIZE, RunConfig
from echelon.config.presets import PRESETS, get_preset
from echelon.env.layout import obs_dim
from echelon.jobs import memory, worker
from echelon.jobs.memory import (
    GIB,
    bytes_by_option,
    least_bytes,
    require_gpu_memory,
    require_match_memory,
    require_memory,
)
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
    assert per_env - rows * (obs_dim(SMALL) + ACTION_DIM) * 4 == arrays
    assert per_map >= 3 * world.size_x * world.size_y * (world.size_z + 3 * 8)


def test_matches_that_need_terabytes_are_refused_in_one_line():
    require_match_memory(SMALL, 4, "cpu")
    expected = r"^job needs at least \d+ GiB of memory \(1000000000 matches at a time of .*\), expected at most \d+ GiB"
    with pytest.raises(ValueError, match=expected):
        require_match_memory(SMALL, 10**9, "cpu")


def too_large(option: str) -> RunConfig:
    config = RunConfig(num_envs=64, bank_maps=8, ppo=replace(RunConfig().ppo, rollout_steps=8))
    if option == "ppo.rollout_steps":
        return replace(config, ppo=replace(config.ppo, rollout_steps=2048))
    return replace(config, **{option: 4096})


@pytest.mark.parametrize("option", ["num_envs", "bank_maps", "ppo.rollout_steps"])
def test_run_that_a_gpu_cannot_hold_names_the_option_to_lower(option):
    config = too_large(option)
    needed = sum(bytes_by_option(config).values())
    require_gpu_memory(config, needed)
    with pytest.raises(ValueError, match=rf"GiB of GPU memory \(.*free; try a lower {option}$") as caught:
        require_gpu_memory(config, needed - 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"), [(HUGE["num_envs"], "num_envs=1000000000"), (too_large("num_envs"), "try a lower num_envs")]
)
def test_worker_refuses_a_run_that_memory_cannot_hold_before_it_starts(tmp_path, monkeypatch, config, message):
    paths = RunPaths(tmp_path)
    write_spec(paths, JobSpec(kind="train", config=asdict(config)))
    monkeypatch.setattr("echelon.training.runtime.devices.free_memory", lambda name: GIB)
    monkeypatch.setattr("echelon.training.loop.run", lambda *args, **options: pytest.fail("the run was started"))
    with pytest.raises(ValueError, match=message):
        worker.train(paths, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has", "CUDA out of memory; try a lower num_envs"),
        ("Failed to allocate 12 bytes on device 'cuda:0'", "Failed to allocate 12 bytes on device 'cuda:0'; try a"),
    ],
)
def test_errors_of_a_full_gpu_name_options_to_change(error, line):
    assert worker.explain(RuntimeError(error)).startswith(line)
    assert worker.explain(RuntimeError("other")) == "RuntimeError: other"
    assert worker.explain(ValueError("device 'tpu'\ndoes not exist")) == "device 'tpu' does not exist"


def test_garbage_is_collected_again_after_modules_that_cannot_be_loaded():
    with pytest.raises(ImportError), worker.loading():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
