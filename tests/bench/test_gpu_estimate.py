"""The predicted speed on a GPU: arrays that kernels name, bounds of a launch, and rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import warp as wp

from echelon.bench.gpu_estimate import (
    GPUS,
    LIKELY,
    OPTIMISTIC,
    PESSIMISTIC,
    LaunchCost,
    Learner,
    StepCost,
    describe,
    end_to_end,
    on_cuda,
    snapshots_s,
    unmasked,
)
from echelon.bench.kernel_traffic import WHOLE, Traffic, arrays_of, touched, traffic
from echelon.config.presets import get_preset
from echelon.sim import step
from echelon.sim.backend import Launch
from echelon.sim.kernels import sensing
from echelon.sim.state import Mechs, World
from tests.sim.flat_field import Field5v5

wp.set_module_options({"enable_backward": False, "fuse_fp": False})
H100 = GPUS[0]


@wp.func
def warmth(mechs: Mechs, e: int, m: int) -> float:
    return mechs.heat[e, m]


@wp.kernel
def warm(world: World, mechs: Mechs, fresh: wp.array(dtype=wp.int32), mechs_out: Mechs):
    e, m = wp.tid()
    if fresh[e] < mechs.alive.shape[1] and world.move_plane[e, 0, 0] == wp.uint64(0):
        mechs_out.hp[e, m] = warmth(mechs, e, m)


def test_touched_follows_device_functions_and_ignores_shapes():
    found = {"world": {"move_plane"}, "mechs": {"heat"}, "fresh": {WHOLE}, "mechs_out": {"hp"}}
    assert touched(warm) == found


def test_touched_includes_fields_that_a_called_function_uses():
    assert {"alive", "shutdown", "team", "pos", "chassis"} <= touched(sensing.sense_for_launch)["mechs"]
    assert touched(sensing.sense_sight)["senses_out"] == {"sight"}


def test_traffic_counts_arrays_of_mechs_but_no_maps():
    scene = Field5v5(envs=2)
    launch = Launch(warm, "EM", {"fresh": "every"})
    assert set(arrays_of(launch)) == {("move_plane", False), ("heat", False), ("every", False), ("hp", True)}
    assert traffic(launch, scene.batch.backend, 2) == Traffic(read=10 * 4 + 4, written=10 * 4)


def cost(**changes: float) -> LaunchCost:
    given = {"threads": 10, "bytes": 100.0, "core_s": 1e-9, "occupancy": 0.5}
    return LaunchCost(name="k", phase="p", **{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, "launch"),
        ({"bytes": 1e5}, "bytes"),
        ({"core_s": 1e-5, "threads": 1000}, "work"),
        ({"core_s": 1e-5}, "thread"),
    ],
)
def test_launch_is_bound_by_its_longest_part(changes, bound):
    seconds, found = cost(**changes).seconds(H100, 4096, LIKELY)
    assert found == bound and seconds > LIKELY.launch_s


def test_bytes_take_their_share_of_the_bandwidth():
    seconds, _ = cost(bytes=1e6, core_s=0.0).seconds(H100, 1000, replace(LIKELY, bandwidth_share=0.5, launch_s=0.0))
    assert seconds == pytest.approx(1e9 / (0.5 * 3.35e12))


def test_small_grid_leaves_multiprocessors_idle():
    """One thread per environment is 16 blocks of 256; idle multiprocessors take none of their work."""
    given = replace(LIKELY, thread_slowdown=0.0, launch_s=0.0)
    few, many = (cost(core_s=1e-4, threads=1, block=256).seconds(H100, envs, given) for envs in (16 * 256, 132 * 256))
    assert few == (pytest.approx(many[0]), "work")


def test_thread_of_a_masked_launch_is_that_of_an_environment_that_takes_part():
    """At 4,096 environments some environment resets in every step, and the launch waits for its threads."""
    mean, masked = (cost(core_s=1e-7, share=share).seconds(H100, 4096, LIKELY) for share in (1.0, 0.004))
    assert mean[1] == "launch" and masked[1] == "thread"
    assert masked[0] - LIKELY.launch_s == pytest.approx(1e-7 / 0.004 / 10 * 40.0 * 4.0)
    assert cost(core_s=1e-7, share=1e-9).seconds(H100, 4, LIKELY) == cost(core_s=1e-7, share=0.25).seconds(
        H100, 4, LIKELY
    )


def test_launches_of_ended_episodes_are_measured_over_all_environments():
    program = [Launch(warm, "EM", {"fresh": mask, "obs": "final_obs"}) for mask in ("every", "over", "cut")]
    expected = {"fresh": "every", "obs": "final_obs"}
    assert [(i, launch.given) for i, launch in unmasked(program)] == [(1, expected), (2, expected)]


STEP = StepCost((cost(core_s=1e-5), cost(bytes=4e4)), 10, alive=0.6, rays=28.0, ray_cells=49.0, state_bytes=8.7e5)


def test_rates_grow_with_environments_and_better_assumptions():
    slow, likely, fast = (STEP.rate(H100, 4096, given) for given in (PESSIMISTIC, LIKELY, OPTIMISTIC))
    assert slow < likely < fast and likely < STEP.rate(H100, 16384, LIKELY)
    assert STEP.seconds(H100, 4096, LIKELY) == pytest.approx(sum(STEP.by_bound(H100, 4096, LIKELY).values()))


def test_training_is_slower_than_half_of_the_simulator():
    """Half of the mechs are the learner's."""
    rate = end_to_end(STEP, H100, 4096, LIKELY, Learner())
    assert 0 < rate < STEP.rate(H100, 4096, LIKELY) / 2
    assert "4096 environments" in describe(STEP, H100, 4096)


def test_each_snapshot_of_the_pool_acts_outside_the_graph():
    learner, config = Learner(), get_preset("gpu")
    pool = replace(config, opponents=replace(config.opponents, past_keep=4))
    assert snapshots_s(config, 0, 10**6, learner) == pytest.approx(8 * 80 * 6e-6)
    assert snapshots_s(pool, 0, 10**6, learner) == pytest.approx(4 * 80 * 6e-6)
    none = replace(config, opponents=replace(config.opponents, mix=replace(config.opponents.mix, past=0.0)))
    assert snapshots_s(none, 10**4, 10**6, learner) == 0.0
    forward_s = 8 * 10**4 * (1 - (1 - 0.25 / 8) ** 4) * 2 * 10**6 / learner.flops
    assert snapshots_s(config, 10**4, 10**6, learner) == pytest.approx(8 * 80 * 6e-6 + forward_s)


def test_snapshots_slow_training_down(monkeypatch):
    config = get_preset("gpu")
    none = replace(config, opponents=replace(config.opponents, mix=replace(config.opponents.mix, past=0.0)))
    with_snapshots = end_to_end(STEP, H100, 4096, LIKELY, Learner())
    monkeypatch.setattr("echelon.bench.gpu_estimate.get_preset", lambda name: none)
    assert with_snapshots < end_to_end(STEP, H100, 4096, LIKELY, Learner())


def test_program_on_cuda_moves_mechs_by_four_launches():
    tick = step.tick()
    assert [launch.kernel for launch in on_cuda(tick)] == [launch.kernel for launch in step.tick(spread=True)]
    assert {launch.phase for launch in on_cuda(tick)} == {launch.phase for launch in tick}
