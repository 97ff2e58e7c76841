"""The code by which a reset copies maps on CUDA: equal to a plain copy, run on a CPU, and compiled to 64-bit words."""

import re
from collections import Counter

import numpy as np
import pytest
import warp as wp

from echelon.sim.backend import BLOCK, start_warp
from echelon.sim.kernels import spawn
from echelon.sim.kernels.spawn import COPY_PART, FILL_PART
from echelon.sim.tables import MaterialRow
from tests.parity.cuda_kernels import ARCH

wp.set_module_options({"enable_backward": False, "fuse_fp": False, "optimization_level": 0})
MAPS, ENVS, PARTS = 3, 3, 5


def on_cuda(code: str) -> str:
    assert "#ifdef __CUDA_ARCH__" in code
    return code.replace("#ifdef __CUDA_ARCH__", "#if 1")


@wp.func_native(on_cuda(COPY_PART))
def copy_words(
    target: wp.array4d(dtype=wp.uint8), e: int, source: wp.array4d(dtype=wp.uint8), slot: int, part: int, parts: int
): ...


@wp.func_native(on_cuda(FILL_PART))
def fill_words(
    hp: wp.array4d(dtype=wp.uint16),
    e: int,
    cells: wp.array4d(dtype=wp.uint8),
    slot: int,
    materials: wp.array(dtype=MaterialRow),
    part: int,
    parts: int,
): ...


@wp.kernel
def load_words(
    bank: wp.array4d(dtype=wp.uint8),
    slots: wp.array(dtype=wp.int32),
    materials: wp.array(dtype=MaterialRow),
    parts: int,
    material_out: wp.array4d(dtype=wp.uint8),
    hp_out: wp.array4d(dtype=wp.uint16),
):
    e, part = wp.tid()
    copy_words(material_out, e, bank, slots[e], part, parts)
    fill_words(hp_out, e, bank, slots[e], materials, part, parts)


@pytest.mark.parametrize("shape", [(2, 6, 8), (1, 5, 4), (3, 5, 5)])
def test_map_copied_by_words_is_equal_whatever_its_size(shape):
    start_warp()
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 10, (MAPS, *shape), dtype=np.uint8)
    rows = np.zeros(10, MaterialRow.numpy_dtype())
    rows["hp"] = rng.integers(0, 2**16, 10)
    slots = np.array([2, 0, 1], np.int32)
    material = wp.zeros((ENVS, *shape), dtype=wp.uint8, device="cpu")
    hp = wp.zeros((ENVS, *shape), dtype=wp.uint16, device="cpu")
    given = [wp.array(v, dtype=t, device="cpu") for v, t in ((cells, wp.uint8), (slots, wp.int32), (rows, MaterialRow))]
    wp.launch(load_words, dim=(ENVS, PARTS), inputs=[*given, PARTS, material, hp], device="cpu")
    np.testing.assert_array_equal(material.numpy(), cells[slots])
    np.testing.assert_array_equal(hp.numpy(), rows["hp"][cells[slots]])


@pytest.mark.long
def test_maps_are_copied_on_cuda_by_64_bit_words(tmp_path):
    start_warp()
    module = spawn.load_map.module
    module.options["block_dim"], block = BLOCK, module.options["block_dim"]
    (path,) = wp.compile_aot_module(module, arch=ARCH, module_dir=tmp_path, use_ptx=True)
    module.options["block_dim"] = block
    entry = f".entry {spawn.load_map.get_mangled_name()}"
    code = path.read_text(encoding="utf-8").partition(entry)[2].partition(".entry ")[0]
    found = Counter(re.findall(r"\b(?:ld|st)\.global\.u64", code))
    assert found["ld.global.u64"] >= 4 and found["st.global.u64"] >= 5
