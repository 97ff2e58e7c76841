"""Prints what the Triton kernels need on a CUDA architecture, compiled on any machine, as lines of JSON.

``python -m tests.rl.compiled_kernels 90`` calls the operations as the largest preset does, with a driver that only
names the architecture, and compiles each launch instead of running it.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

from echelon.env.layout import CONTACT_DIM
from echelon.rl import device_kernels
from echelon.rl.deepset import DeepSetEncoder
from echelon.rl.regime import CUDA, set_regime
from echelon.rl.suite_model import TARGET_KEY_DIM, joined_width

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+)")
TENSOR_CORES = re.compile(r"wgmma|tcgen05|mma\.sync")
WARP_THREADS = 32


def main(architecture: int) -> None:
    target = GPUTarget("cuda", architecture, WARP_THREADS)
    driver.set_active(
        SimpleNamespace(
            get_current_device=lambda: 0, get_current_stream=lambda device: 0, get_current_target=lambda: target
        )
    )
    launch: Any = JITFunction.run

    def compile_only(self: JITFunction, *arguments: Any, warmup: bool, **options: Any) -> None:
        report(self.__name__, launch(self, *arguments, warmup=True, **options))

    JITFunction.run = compile_only
    encoder = DeepSetEncoder(CONTACT_DIM + joined_width("contacts"), 128, 128, key_dim=TARGET_KEY_DIM)
    set_regime(encoder, CUDA._replace(encoder="device"))
    with torch.autocast("cpu", torch.bfloat16):
        parts = encoder.encode_with_keys(torch.zeros(50, 6, encoder.phi[0].in_features), torch.zeros(50, 6), 5)
    torch.autograd.grad([part.sum() for part in parts if part is not None], list(encoder.parameters()))
    gates, memory = torch.zeros(4, 50, 768, dtype=torch.bfloat16).requires_grad_(), torch.zeros(50, 256)
    device_kernels.scan(gates, torch.ones(4, 50, 1), memory)[0].sum().backward()


def report(name: str, compiled: Any) -> None:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        listed = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True)
    found = RESOURCES.search(listed.stdout)
    assert found, listed.stdout
    row = {"kernel": name, "registers": int(found[1]), "stack_bytes": int(found[2])}
    row["shared_bytes"] = compiled.metadata.shared
    row["tensor_cores"] = bool(TENSOR_CORES.search(compiled.asm["ptx"]))
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
