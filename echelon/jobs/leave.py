"""How the processes of a job and of a command line end."""

import atexit
import contextlib
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process with ``code`` once its exit functions have run and its output is written.

    Nothing is freed one by one, which takes seconds where torch is loaded and Warp has compiled kernels. Processes that
    this one has started by multiprocessing are terminated: exit functions would wait for their work, and for ever for
    one whose pool has not told it yet that it is to end.
    """
    if loaded := sys.modules.get("multiprocessing"):  # which a command line that starts no process does not load
        for process in loaded.active_children():
            process.terminate()
    atexit._run_exitfuncs()
    # a stream that cannot be written: Python says so as it ends
    with contextlib.suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
    sys.exit(code)
