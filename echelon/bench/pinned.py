"""One process of the scenes of scaling: ``python -m echelon.bench.pinned KIND CORE``.

It prepares, prints a line, waits for one on its standard input, measures and prints the result as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import cast

from echelon.bench.learner import learn, start_session
from echelon.bench.scaling import READY, SIMULATE, TRAIN
from echelon.bench.scenes import battle, play
from echelon.bench.stopwatch import Stopwatch

ENVS = 32
"""Environments of a process that simulates."""
STEPS = 240
UPDATES = 4


def pin(core: int) -> None:
    """Let this process run on one core, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def simulate(wait: Callable[[], None]) -> dict[str, float]:
    """Return agent-steps per second of 5v5 with observations."""
    with battle(1, envs=ENVS, observe=True, maps=8) as env:
        wait()
        return {"per_s": cast(float, play(env, STEPS)["per_s"])}


def train(wait: Callable[[], None]) -> dict[str, float]:
    """Return learner agent-steps per second of this rank, training quickstart with the others."""
    with start_session(threads=1) as session:
        learn(session, 1)
        wait()
        stopwatch = Stopwatch()
        stopwatch.start()
        result = learn(session, UPDATES)
        session.group.all_sum(0)
        return {"per_s": result["per_s"], "seconds": stopwatch.stop()}


KINDS: dict[str, Callable[[Callable[[], None]], dict[str, float]]] = {SIMULATE: simulate, TRAIN: train}


def main(arguments: Sequence[str]) -> None:
    kind, core = arguments
    pin(int(core))

    def wait() -> None:
        print(READY, flush=True)
        sys.stdin.readline()

    print(json.dumps(KINDS[kind](wait)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
