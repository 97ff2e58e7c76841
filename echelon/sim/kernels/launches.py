"""Launches on the CPU: a kernel that calls compiled kernels, so that a program runs without the interpreter."""

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.func_native(
    """
    #ifndef __CUDA_ARCH__
    reinterpret_cast<void (*)(wp::uint64, wp::uint64)>(entry)(bounds, arguments);
    #endif
    """
)
def call_entry(entry: wp.uint64, bounds: wp.uint64, arguments: wp.uint64):
    """Call a compiled kernel, by the addresses of its entry point, launch bounds and arguments; nothing on CUDA."""
    ...


@wp.kernel
def run_launches(entries: wp.array2d(dtype=wp.uint64)):
    """Run a launch; on the CPU the threads, and so the launches, follow each other."""
    i = wp.tid()
    call_entry(entries[i, 0], entries[i, 1], entries[i, 2])
