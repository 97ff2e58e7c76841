"""Compiles the C++ of programs to WebAssembly with the compiler in the package ``ziglang``.

Objects of modules are kept beside Warp's compiled kernels, by content. Products and sums are not fused, as natively,
so results are equal bit for bit; the kernels call no function of a mathematical library.
"""

import hashlib
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import warp as wp

from echelon import machine
from echelon.sim.backend import start_warp
from echelon.web.program import Sources

FLAGS = (
    "-target", "wasm32-wasi", "-O2", "-msimd128", "-std=c++17", "-ffp-contract=off", "-fno-math-errno",
    "-fno-exceptions", "-D_Float16=float", "-w",
)  # fmt: skip
"""``_Float16``, which the target lacks, is declared by Warp's headers and used by no kernel."""
LINK = ("--no-entry", "--allow-multiple-definition", "--gc-sections", "--strip-all", "-z", "stack-size=1048576")
"""Modules repeat the functions of structs that they share."""
HEADER = '#define WP_TILE_BLOCK_DIM 1\n#define WP_NO_CRT\n#include "builtin.h"\n'
"""What Warp's modules begin with; the compiler reads it once, which takes half of its time."""
INCLUDED = (f"-I{Path(wp.__file__).parent / 'native'}",)
HEADER_LOCK = threading.Lock()

Progress = Callable[[int, int], None]
"""Called with the number of compiled files and the total."""


def compile_sources(sources: Sources, progress: Progress = lambda done, total: None) -> bytes:
    """Return the WebAssembly module of programs; ``ValueError`` where the compiler is missing or fails."""
    if importlib.util.find_spec("ziglang") is None:
        raise ValueError("package 'ziglang' is not installed, expected for WebAssembly; try pip install 'echelon[web]'")
    start_warp()  # which chooses the folder of kernels
    folder = Path(wp.config.kernel_cache_dir or "") / "wasm32"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {**sources.modules, "program": sources.program}
    with TemporaryDirectory(dir=folder) as scratch:
        objects = []
        with ThreadPoolExecutor(machine.cores()) as pool:
            for path in pool.map(lambda name: _compile(name, texts[name], folder, Path(scratch)), texts):
                objects.append(str(path))
                progress(len(objects), len(texts))
        target = Path(scratch) / "linked.wasm"
        _run("wasm-ld", *LINK, *(f"--export={name}" for name in sources.exports), *objects, "-o", str(target))
        return target.read_bytes()


def _compile(name: str, text: str, folder: Path, scratch: Path) -> Path:
    """Return the object of a source, compiled unless the cache has it."""
    key = "\0".join((text, *FLAGS, version("ziglang"), version("warp-lang")))
    target = folder / f"{name}_{hashlib.sha256(key.encode()).hexdigest()[:16]}.o"
    if not target.exists():
        source, made = scratch / f"{name}.cpp", scratch / f"{name}.o"
        source.write_text(text, encoding="utf-8")
        given = ("-Xclang", "-include-pch", "-Xclang", str(_header(scratch))) if '"builtin.h"' in text else ()
        _run("c++", *FLAGS, *INCLUDED, *given, "-c", str(source), "-o", str(made))
        made.replace(target)
    return target


def _header(scratch: Path) -> Path:
    """Return the compiled header of a folder, which is made once."""
    with HEADER_LOCK:
        source, made = scratch / "header.h", scratch / "header.pch"
        if not made.exists():
            source.write_text(HEADER, encoding="utf-8")
            _run("c++", *FLAGS, *INCLUDED, "-x", "c++-header", str(source), "-o", str(made))
    return made


def _run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ziglang", *arguments], capture_output=True, text=True)
    if done.returncode:
        fault = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[-200:])
        raise ValueError(
            f"zig {arguments[0]} fails with {fault!r}, expected WebAssembly; try another release of ziglang"
        )
