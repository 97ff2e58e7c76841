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

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver

from echelon.rl import device_kernels
from echelon.rl.deepset import DeepSetEncoder
from echelon.rl.regime import CUDA, set_regime

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
TENSOR_CORES = re.compile(r"wgmma|tcgen05|mma\.sync")
launch = JITFunction.run


def compile_only(self, *arguments, warmup, **options) -> None:
    compiled = launch(self, *arguments, warmup=True, **options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        listed = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    row = {"kernel": self.__name__, "stack_bytes": int(re.search(r"STACK:(\d+)", listed)[1])}
    row |= {"shared_bytes": compiled.metadata.shared, "tensor_cores": bool(TENSOR_CORES.search(compiled.asm["ptx"]))}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    target = GPUTarget("cuda", int(sys.argv[1]), 32)
    calls = {"get_current_device": lambda: 0, "get_current_stream": lambda _: 0, "get_current_target": lambda: target}
    driver.set_active(SimpleNamespace(**calls))
    JITFunction.run = compile_only
    encoder = DeepSetEncoder(33, 128, 128, key_dim=16)
    set_regime(encoder, CUDA._replace(encoder="device"))
    with torch.autocast("cpu", torch.bfloat16):
        parts = encoder.encode_with_keys(torch.zeros(50, 6, 33), torch.zeros(50, 6), 5)
    torch.autograd.grad([part.sum() for part in parts], list(encoder.parameters()))
    gates, memory = torch.zeros(4, 50, 768, dtype=torch.bfloat16).requires_grad_(), torch.zeros(50, 256)
    device_kernels.scan(gates, torch.ones(4, 50, 1), memory)[0].sum().backward()
