"""Battles whose CPU threads run forward, in reverse and scattered: ``python -m tests.parity.thread_orders CASE...``.

On the CPU Warp runs the threads of a launch one after the other; on CUDA their order is unknown. This process changes
the loop of Warp's CPU template, so that each launch takes its threads in the order last set, plays the named cases of
``CASES`` once per order, and prints one JSON line per case: the comparison at which arrays first differ between orders,
with their names, or null. Kernels are compiled into a separate cache, without optimisation.
"""

import ctypes
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import warp as wp
from warp._src import codegen

from echelon.agents import heuristic
from echelon.agents.levels import SKILLS, script_of
from echelon.config import DisplayConfig, EnvConfig, WorldConfig
from echelon.env.engine import Engine
from echelon.env.layout import OPTIONAL_BLOCKS
from echelon.gen.bank import stack_maps
from echelon.gen.generate import generate
from echelon.sim import step
from echelon.sim.backend import Launch, start_warp
from echelon.sim.state import Mechs
from tests.parity.scenes import many_lanes

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

ORDERS = ("forward", "reverse", "scattered")
"""Orders of the threads of a launch; the value of a module's order variable is the index."""
STRIDE = 7919
"""Prime stride of the scattered order."""
LOOP = "    for (size_t task_index = 0; task_index < dim->size; ++task_index)\n    {{\n"
ORDERED_LOOP = f"""    for (size_t step = 0; step < dim->size; ++step)
    {{{{
        size_t task_index = step;
        if ({{name}}_thread_order == 1)
            task_index = dim->size - 1 - step;
        if ({{name}}_thread_order == 2)
            task_index = (step * {STRIDE} + 13) % dim->size;
"""
VARIABLE = '\nextern "C" {{\nvolatile int {name}_thread_order = 0;\n}}\n'
FIRST_SEED = 3
"""Seed of the first environment's map and episode."""
COMPARE_EVERY = 12
"""Decisions between comparisons, where a case is longer."""
OPTIMIZATION = 0
"""Level at which LLVM compiles: the battles are short, and compiling takes longer."""


@wp.kernel
def share_heat(mechs: Mechs, mechs_out: Mechs):
    """Take over half the heat of the next mech: a fault, since that mech may have done so before or not."""
    e, m = wp.tid()
    after = (m + 1) % mechs.heat.shape[1]
    mechs_out.heat[e, m] = 0.5 * (mechs_out.heat[e, m] + mechs_out.heat[e, after]) + float(m)


@dataclass(frozen=True)
class Case:
    """A battle that is played in every order."""

    cfg: EnvConfig
    pilots: tuple[str, ...] = SKILLS
    """Scripted pilots, dealt to the mechs of all environments in turn."""
    decisions: int = 36
    envs: int = 2
    faults: tuple[Any, ...] = field(default=())
    """Kernels over mechs that are launched after the pilots."""
    spread: bool = False
    """Whether tasks are shared among as many threads as on CUDA, and mechs move by the launches for CUDA."""


def _cfg(edge: int, seconds: float, **changes: Any) -> EnvConfig:
    return EnvConfig(world=WorldConfig(size_x=edge, size_y=edge), max_episode_seconds=seconds, **changes)


ALL_BLOCKS = {block.config_field: True for block in OPTIONAL_BLOCKS}
LAYOUTS: dict[str, dict[str, Any]] = {
    "suite": {},
    "suite-full": {"observation_mode": "full"},
    "suite-fill": {"display": DisplayConfig(fill="suite")},
    "suite-blocks": {**ALL_BLOCKS, "nav_mode": "assist", "landing": True},
    "classic": {"obs_layout": "classic"},
}
"""Layouts, with every optional block, navigation assist and hard landings in one."""
LONELY = ("suite-full", "suite-fill")
"""Layouts that no other case has."""
ALONE = tuple(name for name in SKILLS for _ in range(10))
"""Ten pilots of one level after the other: an environment for each."""
QUICK = _cfg(28, 6.0, **LAYOUTS["suite-blocks"])
CASES: dict[str, Case] = {
    "quick": Case(QUICK),
    "spread": Case(QUICK, spread=True),
    "quick-classic": Case(_cfg(28, 6.0, **LAYOUTS["classic"]), pilots=("expert", "easy", "hard"), envs=1),
    "fault": Case(QUICK, decisions=3, envs=1, faults=(share_heat,)),
    **{name: Case(_cfg(40, 12.0, num_packs=2, **LAYOUTS[name]), decisions=60) for name in LONELY},
    "pilots": Case(_cfg(40, 15.0), pilots=ALONE, decisions=72, envs=len(SKILLS)),
    "two-hundred": Case(_cfg(48, 60.0, **LAYOUTS["suite-blocks"]), decisions=204, envs=3),
    "crowd": Case(_cfg(64, 12.0, num_packs=6), decisions=60, envs=1),
}
"""Battles by name; all but "fault" begin a second episode."""


def order_threads() -> None:
    template = codegen.cpu_module_template_forward
    if template.count(LOOP) != 1:
        raise RuntimeError("Warp's CPU template has another loop over threads, expected the one of LOOP; adapt LOOP")
    codegen.cpu_module_template_forward = VARIABLE + template.replace(LOOP, ORDERED_LOOP)
    start_warp()
    wp.config.optimization_level = OPTIMIZATION
    name = hashlib.sha256(codegen.cpu_module_template_forward.encode()).hexdigest()[:12]
    wp.config.kernel_cache_dir = str(Path(wp.config.kernel_cache_dir) / f"thread-orders-{name}")


def set_order(engine: Engine, order: str) -> None:
    """Let the kernels of a reset and of a step take their threads in ``order``."""
    lookup = wp._src.context.runtime.llvm.wp_lookup
    kernels = {launch.kernel for name in ("reset", "decision") for launch in engine.program(name)}
    for kernel in kernels:
        (loaded,) = kernel.module.execs.values()
        address = lookup(loaded.handle.encode(), f"{kernel.get_mangled_name()}_thread_order".encode())
        ctypes.c_int.from_address(address).value = ORDERS.index(order)


def written_arrays(engine: Engine) -> dict[str, wp.array]:
    """Return the arrays that a step may write, by name."""
    backend = engine.batch.backend
    return {name: array for name, array in backend.arrays.items() if name in backend.per_env or name == "obs"}


def battle(case: Case, engine: Engine, fought: Counter[str]) -> Iterator[dict[str, str]]:
    """Play a case, yield the sha256 of each array at each comparison, and count shots and dead mechs of steps."""
    arrays = written_arrays(engine)
    every = min(COMPARE_EVERY, case.decisions)
    engine.reset()
    for decision in range(case.decisions + 1):
        if decision:
            engine.step()
            fought["shots"] += int(np.count_nonzero(engine.batch.numpy("fired")))
            fought["dead"] += int(np.count_nonzero(engine.batch.numpy("alive") == 0))
        if decision % every == 0:
            yield {name: hashlib.sha256(array.numpy().tobytes()).hexdigest() for name, array in arrays.items()}


def engine_of(case: Case, device: str = "cpu") -> Engine:
    """Return the engine of a case, its maps, seeds and pilots set and every observation row written."""
    cfg, envs = case.cfg, range(case.envs)
    options = {"num_packs": cfg.num_packs, "zone_radius_vox": cfg.zone_radius_vox}
    maps = stack_maps([generate(cfg.world, FIRST_SEED + env, **options) for env in envs])

    def pilots(engine: Engine) -> list[Launch]:
        return [*heuristic.install(engine), *(Launch(kernel, "EM") for kernel in case.faults)]

    engine = Engine(cfg, case.envs, maps, device=device, threads=1, pilots=pilots)
    rows = np.arange(case.envs * engine.num_mechs, dtype=np.int32).reshape(case.envs, -1)
    shape = (1, rows.size, engine.obs_dim)
    engine.attach(*(wp.zeros(shape, dtype=wp.float32, device=engine.batch.device) for _ in range(2)))
    scripts = np.array([script_of(pilot) for pilot in case.pilots], np.int32)
    engine.batch.set("row_of", rows)
    engine.batch.set("forced_seed", np.array([FIRST_SEED + env for env in envs], np.int32))
    engine.batch.set("forced_slot", np.array(envs, np.int32))
    engine.batch.set("script", np.resize(scripts, rows.shape))
    return engine


@contextmanager
def spread_over_threads() -> Iterator[None]:
    with mock.patch.dict(step.MOVES, {False: step.MOVES[True]}), many_lanes():
        yield


def first_difference(case: Case, fought: Counter[str]) -> dict[str, Any] | None:
    """Return the order, the comparison and the arrays that first differ from the forward order, None if none does."""
    engine = engine_of(case)
    start = {name: array.numpy().copy() for name, array in written_arrays(engine).items()}
    for program in ("reset", "decision"):
        engine.prepare(program)
    forward = list(battle(case, engine, fought))
    for order in ORDERS[1:]:
        for name, values in start.items():
            engine.batch[name].assign(values)
        set_order(engine, order)
        for index, (found, expected) in enumerate(zip(battle(case, engine, Counter()), forward, strict=True)):
            if names := sorted(name for name in expected if found[name] != expected[name]):
                return {"order": order, "comparison": index, "arrays": names}
    return None


def main(names: Sequence[str]) -> None:
    """Print the first difference of each named case, and how much was fought in it."""
    order_threads()
    for name in names:
        case, fought = CASES[name], Counter[str]()
        with spread_over_threads() if case.spread else nullcontext():
            difference = first_difference(case, fought)
        print(json.dumps({"case": name, "difference": difference, **fought}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
