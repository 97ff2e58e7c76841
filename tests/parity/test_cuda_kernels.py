"""Every kernel compiles for H100 and H200 without a GPU, within budgets of registers, stack, code and parameters."""

import json
import struct
import subprocess
import sys
from functools import cache

import pytest

from echelon.agents import heuristic
from echelon.config import EnvConfig, WorldConfig
from echelon.config.presets import PRESETS
from echelon.env.engine import Engine
from echelon.gen.bank import stack_maps_for
from echelon.gen.generate import generate
from tests.parity.cuda_budgets import EXCEPTIONS, needless_limits, over_budget
from tests.parity.cuda_kernels import (
    FRAME_BYTES,
    PARAMETER_BYTES,
    REGISTERS,
    SYMBOL_TABLE,
    Cubin,
    KernelResources,
    kernel_modules,
)
from tests.parity.thread_orders import LAYOUTS

KERNEL = KernelResources("echelon.sim.kernels.fire", "choose_targets", 126, 0, 35_840, 4_000)


@cache
def compiled() -> tuple[KernelResources, ...]:
    """Return what every kernel needs, compiled by another process, whose times are printed."""
    command = [sys.executable, "-m", "tests.parity.cuda_kernels", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    modules = [json.loads(line) for line in done.stdout.splitlines()]
    for module in modules:
        print(f"{module['seconds']:6.2f} s {module['name']}")
    print(f"{sum(module['seconds'] for module in modules):6.2f} s of CPU time")
    return tuple(KernelResources(**row) for module in modules for row in module["kernels"])


@pytest.mark.slow
def test_every_kernel_compiles_for_cuda_within_its_budget():
    faults = [line for row in compiled() for line in over_budget(row)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_exceptions_of_cuda_budgets_are_needed():
    found = {row.kernel for row in compiled()}
    faults = [line for row in compiled() for line in needless_limits(row)]
    faults += [f"{name}: no such kernel" for name in sorted(EXCEPTIONS.keys() - found)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRESETS, *LAYOUTS])
def test_every_launch_of_a_preset_or_layout_is_compiled(name):
    small = {"world": WorldConfig(size_x=40, size_y=40), "num_packs": 1}
    env = PRESETS[name]().env if name in PRESETS else EnvConfig(**LAYOUTS[name])
    cfg = type(env)(**{**vars(env), **small, "packs_per_team_range": None, "map_size_range": None})
    maps = stack_maps_for(cfg, [generate(cfg.world, 3, num_packs=1, zone_radius_vox=cfg.zone_radius_vox)])
    engine = Engine(cfg, 1, maps, threads=1, pilots=heuristic.install)
    engine.record([0])
    launched = {
        (launch.kernel.module.name, launch.kernel.key) for part in engine.programs for launch in engine.program(part)
    }
    assert launched <= {(row.module, row.kernel) for row in compiled()}


def test_kernel_modules_are_those_of_simulator_environment_and_pilots():
    names = {module.name for module in kernel_modules()}
    assert {"echelon.sim.kernels.motion", "echelon.env.observe.ego", "echelon.agents.tactics"} <= names
    assert all(module.kernels for module in kernel_modules())


def section(name: int, kind: int, body: bytes, at: int, link: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, len(body), link, 0, 1, 0)


def small_cubin() -> bytes:
    """Return a cubin with one kernel ``k``: 40 registers, 24 bytes of stack, 48 of code, 4,112 of parameters."""
    strings = b"\0k\0.nv.info\0.nv.info.k\0.text.k\0.symtab\0.strtab\0"
    words = {
        ".nv.info": struct.pack("<BBHII", 4, REGISTERS, 8, 1, 40) + struct.pack("<BBHII", 4, FRAME_BYTES, 8, 1, 24),
        ".nv.info.k": struct.pack("<BBH", 3, PARAMETER_BYTES, 4112),
        ".text.k": bytes(48),
        ".symtab": bytes(24) + struct.pack("<IBBHQQ", 1, 0, 0, 0, 0, 0),
        ".strtab": strings,
    }
    headers, bodies, at = section(0, 0, b"", 0), b"", 64
    for name, body in words.items():
        kind = SYMBOL_TABLE if name == ".symtab" else 1
        headers += section(strings.index(name.encode() + b"\0"), kind, body, at, link=5)
        bodies, at = bodies + body, at + len(body)
    front = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q", at) + bytes(10) + struct.pack("<HHH", 64, 6, 5)
    return front + bodies + headers


def test_cubin_reads_attributes_code_and_parameters():
    cubin = Cubin(small_cubin())
    assert cubin.symbols == ["", "k"]
    assert cubin.by_symbol(REGISTERS) == {"k": 40} and cubin.by_symbol(FRAME_BYTES) == {"k": 24}
    assert cubin.parameter_bytes("k") == 4112 and len(cubin.sections[".text.k"]) == 48


def test_cubin_refuses_other_files():
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF file"):
        Cubin(b"// PTX")


@pytest.mark.parametrize(
    ("registers", "block", "occupancy"), [(32, 256, 1.0), (40, 256, 0.75), (126, 256, 0.25), (255, 128, 0.125)]
)
def test_occupancy_follows_registers_and_block(registers, block, occupancy):
    row = KernelResources(**{**vars(KERNEL), "registers": registers})
    assert row.occupancy(block) == occupancy
