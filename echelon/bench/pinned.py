"""One process of the scene ``scaling``: ``python -m echelon.bench.pinned CORE``.

It prepares, prints a line, waits for one on its standard input, measures and prints agent-steps per second.
"""

import os
import sys

from echelon.bench.scaling import READY
from echelon.bench.scenes import battle, play

ENVS = 32
"""Environments of a process."""


def main(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    with battle(1, envs=ENVS, observe=True, maps=8) as env:
        print(READY, flush=True)
        sys.stdin.readline()
        print(play(env)["per_s"], flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
