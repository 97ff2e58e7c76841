"""Predicted speed of the simulator on H100 and H200: ``python -m echelon.bench.gpu_estimate``.

Each launch of an environment step is bound by one of three times, and takes the launch itself besides: its bytes at the
memory's bandwidth, its instructions at the device's rate, and its longest thread. Bytes come from the arrays that the
kernel names (``kernel_traffic``), instructions from its time on one core of this machine, residency from its registers
(``cuda_kernels``). ``Assumptions`` holds what was not measured; docs/decisions/0028 argues for the values.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from echelon.bench.cuda_kernels import KernelResources, compile_all
from echelon.bench.kernel_traffic import traffic
from echelon.bench.league import fresh_policy
from echelon.bench.scenes import battle
from echelon.config import PACK_SIZE, RunConfig
from echelon.config.presets import get_preset
from echelon.env import layout
from echelon.sim import step
from echelon.sim.backend import BLOCK, Launch, Program, in_phase
from echelon.sim.kernels import motion
from echelon.sim.state import lanes
from echelon.sim.structs import OUT
from echelon.training.ppo.device_rollout import episode_slots
from echelon.training.vec_env import VectorEnv

MEASURED_ENVS, SAMPLES, STEPS_PER_SAMPLE = 64, 24, 10
"""Environments and launches-timed steps of the measurement, and the steps from one to the next: an episode in all."""
UNMASKED_SAMPLES = 4
"""Measurements, over another episode, of launches that run only where an episode ended, as if all had."""
ENVS = (4096, 16384)
PACKS = (1, 2)
SM_THREADS = 2048
"""Threads that a multiprocessor holds at most."""
MASKS = ("over", "cut")
"""Masks of the launches that run only where an episode ended."""
DEVICE = "cuda:0"
CELL_BYTES = 32
"""Bytes that a step of a ray to the next column loads: a sector of the cache."""


@dataclass(frozen=True)
class Gpu:
    """Figures of the data sheet."""

    name: str
    bandwidth: float
    """Memory bandwidth [B/s]."""
    multiprocessors: int = 132
    clock: float = 1.7e9
    """Clock under load [1/s]."""
    lanes: int = 128
    """Instructions a multiprocessor starts per cycle, times 32 threads."""


GPUS = (Gpu("H100", 3.35e12), Gpu("H200", 4.8e12))


@dataclass(frozen=True)
class Assumptions:
    """Figures that only a run on the device can measure."""

    launch_s: float
    """Time from one kernel of a captured graph to the next, if each loads a few values one after the other [s]."""
    bandwidth_share: float
    """Fraction of the bandwidth that kernels reach."""
    lane_share: float
    """Fraction of the device's instruction slots that do useful work: divergence and waiting take the rest."""
    thread_slowdown: float
    """Time of one thread alone on the device over its time on a core of this machine."""
    imbalance: float
    """Work of the longest thread of a launch over that of a mean one."""


LIKELY = Assumptions(launch_s=3.0e-6, bandwidth_share=0.6, lane_share=0.06, thread_slowdown=40.0, imbalance=4.0)
PESSIMISTIC = Assumptions(launch_s=5.0e-6, bandwidth_share=0.4, lane_share=0.025, thread_slowdown=80.0, imbalance=8.0)
OPTIMISTIC = Assumptions(launch_s=2.0e-6, bandwidth_share=0.8, lane_share=0.12, thread_slowdown=25.0, imbalance=2.0)
CORE_RATE = 6.0e9
"""Instructions per second of one core of the machine that measures: 3 GHz, two a cycle."""


@dataclass(frozen=True)
class LaunchCost:
    """What a launch does per environment, and its residency."""

    name: str
    phase: str
    threads: int
    """Threads per environment."""
    bytes: float
    """Bytes read and written per environment."""
    core_s: float
    """Time on one core per environment [s]."""
    occupancy: float
    """Fraction of the device's warps that can be resident."""
    block: int = BLOCK
    """Threads of a block."""
    share: float = 1.0
    """Fraction of the environments in which the launch does anything; bytes and time are means over all."""

    def seconds(self, gpu: Gpu, envs: int, given: Assumptions) -> tuple[float, str]:
        """Return the time of the launch [s] and what bounds it: bytes, work, thread or launch."""
        grid = self.threads * envs
        blocks = -(-grid // self.block)
        busy = min(1.0, blocks / gpu.multiprocessors)
        waves = max(1.0, grid / (gpu.multiprocessors * SM_THREADS * self.occupancy))
        rate = gpu.multiprocessors * gpu.lanes * gpu.clock * given.lane_share * busy
        # an environment that takes part, if one is expected to; else as often as one does
        longest = self.core_s / max(self.share, 1 / envs) / self.threads
        bounds = {
            "bytes": self.bytes * envs / (gpu.bandwidth * given.bandwidth_share),
            "work": self.core_s * CORE_RATE * envs / rate,
            "thread": longest * given.thread_slowdown * (waves - 1 + given.imbalance),
        }
        bound = max(bounds, key=lambda name: bounds[name])
        return given.launch_s + bounds[bound], bound if bounds[bound] >= given.launch_s else "launch"


@dataclass(frozen=True)
class StepCost:
    """An environment step of one scene."""

    launches: tuple[LaunchCost, ...]
    mechs: int
    alive: float
    """Fraction of the mechs that live at the start of a step."""
    rays: float
    """Rays of sight and of rounds per environment."""
    ray_cells: float
    """Cells of a sight ray."""
    state_bytes: float
    """Memory of an environment [B]."""

    def seconds(self, gpu: Gpu, envs: int, given: Assumptions) -> float:
        """Return the time of a step [s]."""
        return sum(self.by_bound(gpu, envs, given).values())

    def rate(self, gpu: Gpu, envs: int, given: Assumptions) -> float:
        """Return agent-steps per second."""
        return envs * self.mechs * self.alive / self.seconds(gpu, envs, given)

    def by_bound(self, gpu: Gpu, envs: int, given: Assumptions) -> dict[str, float]:
        """Return the time of a step [s] by what bounds its launches; the bytes of rays are a part of their own."""
        sums: defaultdict[str, float] = defaultdict(float)
        sums["rays"] = self.rays * envs * self.ray_cells * CELL_BYTES / (gpu.bandwidth * given.bandwidth_share)
        for launch in self.launches:
            seconds, bound = launch.seconds(gpu, envs, given)
            sums[bound] += seconds
        return dict(sums)


def ray_cells(env: VectorEnv) -> float:
    """Return the mean number of cells of the sight rays between living mechs."""
    pos, alive = env.engine.batch.numpy("pos"), env.engine.batch.numpy("alive") == 1
    spans = np.abs(pos[:, :, None] - pos[:, None]).sum(-1)
    pairs = (alive[:, :, None] & alive[:, None])[:, *np.triu_indices(env.mechs, 1)]
    return 1.0 + float(spans[:, *np.triu_indices(env.mechs, 1)][pairs].mean())


def on_cuda(program: Program) -> list[Launch]:
    """Return a program of the CPU with the launches that move mechs on CUDA."""
    moves = in_phase("tick.movement", step.MOVES[True])
    return [launch for one in program for launch in (moves if one.kernel is motion.move else [one])]


def measure(num_packs: int, resources: Iterable[KernelResources]) -> StepCost:
    """Return the costs of a step of the scene ``sim-5v5`` or its like, played and timed on one core."""
    rows = {row.kernel: row for row in resources}
    envs = MEASURED_ENVS
    with battle(num_packs, envs=envs, observe=True, maps=16) as env:
        engine, batch = env.engine, env.engine.batch
        program = on_cuda(engine.program("decision"))
        lengths = {**batch.lengths, **lanes(DEVICE, env.mechs)}
        seconds: defaultdict[int, list[float]] = defaultdict(list)
        alive, rays, cells = [], [], []
        ended: dict[str, list[float]] = {mask: [] for mask in MASKS}
        ticks = engine.cfg.decision_repeat
        for _ in range(SAMPLES):
            for _ in range(STEPS_PER_SAMPLE - 1):
                env.step()
                _note_ends(env, ended)
            living = batch.numpy("alive").sum(1)
            flying = np.count_nonzero(batch.numpy("round_weapon") >= 0) / envs
            alive.append(living.mean() / env.mechs)
            rays.append((living * (living - 1) / 2).mean() + ticks * flying)
            cells.append(ray_cells(env))
            _add_times(enumerate(program), env, seconds)
            _note_ends(env, ended)
        idle = min(map(statistics.mean, seconds.values()))  # of a launch that does next to nothing: not on the device
        for i, _ in unmasked(program):
            seconds[i].clear()
        for _ in range(UNMASKED_SAMPLES):
            for _ in range(SAMPLES * STEPS_PER_SAMPLE // UNMASKED_SAMPLES):
                env.step()
            _add_times(unmasked(program), env, seconds)
        writers = [launch for launch in program if "obs" in _parameters(launch)]
        row_bytes = 4 * engine.obs_dim * env.mechs / sum(launch.given.get("fresh") == "every" for launch in writers)
        launches = []
        for i, launch in enumerate(program):
            moved = traffic(launch, batch.backend, envs)
            share = statistics.mean(ended.get(str(launch.given.get("fresh")), [1.0]))
            launches.append(
                LaunchCost(
                    name=launch.kernel.key,
                    phase=launch.phase,
                    threads=int(np.prod([lengths[letter] for letter in launch.dims if letter != "E"])),
                    bytes=share * (moved.read + moved.written + row_bytes * (launch in writers)),
                    core_s=share * (statistics.mean(seconds[i]) - idle) / envs,
                    occupancy=rows[launch.kernel.key].occupancy(),
                    block=launch.block_on(DEVICE),
                    share=share,
                )
            )
        arrays = batch.backend.arrays
        state = sum(arrays[name].capacity for name in batch.backend.per_env) / envs
        return StepCost(
            launches=tuple(launches),
            mechs=env.mechs,
            alive=float(np.mean(alive)),
            rays=float(np.mean(rays)),
            ray_cells=float(np.mean(cells)),
            state_bytes=state,
        )


def _note_ends(env: VectorEnv, ended: Mapping[str, list[float]]) -> None:
    """Append the fraction of environments that each mask marked in the last step."""
    for mask, shares in ended.items():
        shares.append(float(np.mean(env.engine.batch.numpy(mask) != 0)))


def _add_times(program: Iterable[tuple[int, Launch]], env: VectorEnv, seconds: Mapping[int, list[float]]) -> None:
    """Run the launches of a program by index; append the CPU time of each [s]."""
    for i, launch in program:
        one: dict[str, float] = {}
        env.engine.batch.backend.timed([launch], one, time.thread_time)
        seconds[i].append(sum(one.values()))


def unmasked(program: Program) -> list[tuple[int, Launch]]:
    """Return the launches of a program that ``MASKS`` restrict, with their index, over all environments."""
    return [
        (i, replace(launch, given={**launch.given, "fresh": "every"}))
        for i, launch in enumerate(program)
        if launch.given.get("fresh") in MASKS
    ]


def _parameters(launch: Launch) -> set[str]:
    """Return the names of a kernel's parameters, without the suffix of outputs."""
    return {argument.label.removesuffix(OUT) for argument in launch.kernel.adj.args}


@dataclass(frozen=True)
class Learner:
    """Assumptions of a training step by the preset ``gpu``, per row of a learner."""

    flops: float = 1.0e14
    """Multiplications and additions that small matrices reach in bfloat16, of 9.9e14 on the data sheet [1/s]."""
    eager_s: float = 6.0e-6
    """Time of an operation of torch outside a graph [s]."""
    operations: int = 80
    """Operations of a forward pass, of sampling and of storing."""
    activations: int = 40_000
    """Bytes that layers write and read per row of an update, there and back."""
    row_reads: int = 5
    """Times that an update reads or writes an observation row: gathered, normalised, multiplied, and its gradient."""


def snapshots_s(config: RunConfig, rows: float, weights: int, learner: Learner) -> float:
    """Return the time by which the snapshots of a full pool act in a step [s], for ``rows`` opponents in all.

    Each runs a forward pass of its own outside the graph, for the rows of all environments that have it in the running
    or in a scheduled episode of the rollout.
    """
    mix, count = config.opponents.mix, config.opponents.past_keep
    drawn = mix.past / sum(vars(mix).values()) / count
    episodes = 1 + episode_slots(config.ppo.rollout_steps)
    own = rows * (1 - (1 - drawn) ** episodes)
    return count * (drawn > 0) * (learner.operations * learner.eager_s + own * 2 * weights / learner.flops)


def end_to_end(cost: StepCost, gpu: Gpu, envs: int, given: Assumptions, learner: Learner) -> float:
    """Return learner agent-steps per second of training with preset ``gpu``, its pool of snapshots full."""
    preset = get_preset("gpu")
    env, ppo = replace(preset.env, num_packs=cost.mechs // (2 * PACK_SIZE)), preset.ppo
    weights = sum(weight.numel() for weight in fresh_policy(0, env, preset.model).policy.parameters())
    rows, row_bytes = envs * cost.mechs / 2, 4 * layout.obs_dim(env)
    forward_s = learner.operations * learner.eager_s + rows * 2 * weights / learner.flops
    moved = learner.row_reads * row_bytes + learner.activations
    row_s = 6 * weights / learner.flops + moved / (gpu.bandwidth * given.bandwidth_share)
    opponents_s = snapshots_s(preset, rows, weights, learner)
    rollout_s = ppo.rollout_steps * (cost.seconds(gpu, envs, given) + forward_s + opponents_s)
    update_s = ppo.update_epochs * ppo.rollout_steps * rows * row_s
    return ppo.rollout_steps * rows * cost.alive / (rollout_s + update_s)


def describe(cost: StepCost, gpu: Gpu, envs: int) -> str:
    """Return the line of one device and number of environments."""
    slow, likely, fast = (cost.rate(gpu, envs, given) / 1e6 for given in (PESSIMISTIC, LIKELY, OPTIMISTIC))
    train = [end_to_end(cost, gpu, envs, given, Learner()) / 1e6 for given in (PESSIMISTIC, LIKELY, OPTIMISTIC)]
    bounds = ", ".join(f"{name} {1e3 * value:.2f}" for name, value in sorted(cost.by_bound(gpu, envs, LIKELY).items()))
    return (
        f"  {gpu.name} {envs:6d} environments: {1e3 * cost.seconds(gpu, envs, LIKELY):.2f} ms ({bounds}), "
        f"{likely:.1f} M agent-steps/s ({slow:.1f} to {fast:.1f}); "
        f"training {train[1]:.1f} M learner agent-steps/s ({train[0]:.1f} to {train[2]:.1f})"
    )


def main(arguments: Sequence[str]) -> None:
    """Print the predictions for 5v5 and 10v10; with ``--launches`` also every launch at the first size."""
    resources = [row for module in compile_all() for row in module.kernels]
    for num_packs in PACKS:
        cost = measure(num_packs, resources)
        moved, core = (sum(getattr(launch, name) for launch in cost.launches) for name in ("bytes", "core_s"))
        team = num_packs * PACK_SIZE
        print(
            f"{team}v{team}: {len(cost.launches)} launches; per environment {moved / 1e3:.0f} kB moved, "
            f"{cost.rays:.0f} rays of {cost.ray_cells:.0f} cells, {core * 1e6:.0f} µs of one core, "
            f"{cost.state_bytes / 1e6:.2f} MB of arrays; {cost.alive:.0%} of mechs alive"
        )
        for gpu in GPUS:
            for envs in ENVS:
                print(describe(cost, gpu, envs))
        if "--launches" in arguments:
            for launch in sorted(cost.launches, key=lambda row: -row.seconds(GPUS[0], ENVS[0], LIKELY)[0]):
                seconds, bound = launch.seconds(GPUS[0], ENVS[0], LIKELY)
                print(
                    f"  {launch.phase + '.' + launch.name:45s} {seconds * 1e6:8.1f} µs {bound:7s}"
                    f" {launch.bytes:9.0f} B {launch.core_s * 1e6:7.2f} µs of one core, {launch.threads} threads"
                )


if __name__ == "__main__":
    main(sys.argv[1:])
