"""Scenes of parts of training: scoring of a chunk, and training beside a busy process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from echelon.bench import ON_CPU, Measure, Setting
from echelon.bench.learner import MEASURED_UPDATES, WARM_UPDATES, learn, start_session
from echelon.bench.stopwatch import Stopwatch
from echelon.training.rollout import chunk_length

CHUNK_ROWS = 20
"""Sequences in parallel on a CPU, as in a micro-batch of the preset quickstart; on CUDA the rows of a minibatch."""
CHUNK_REPEATS = 8
BUSY_LOOP = "while True: pass"


@contextmanager
def chunk(setting: Setting = ON_CPU) -> Iterator[Measure]:
    """Evaluation of a 32-step chunk with gradients, and its speedup over step-by-step evaluation."""
    with start_session(threads=1, setting=setting) as session:
        learn(session, 1)
        policy, buffer, device = session.policy, session.buffer, session.device
        length = chunk_length(buffer.num_steps, session.config.ppo.tbptt_chunk_length, 1)
        rows = CHUNK_ROWS if setting.on_cpu else session.env.rows.count // session.config.ppo.num_minibatches
        obs, actions = buffer.obs[:length, :rows], buffer.actions[:length, :rows]
        dones, start = torch.zeros(length, rows, device=device), policy.initial_state(rows, device)

        def whole() -> None:
            scores = policy.score_sequence(obs, actions, dones, start)
            (scores.logprobs.mean() + scores.values.mean()).backward()

        def stepwise() -> None:
            state, total = start, torch.zeros((), device=device)
            for t in range(length):
                _, logprob, _, value, state = policy.get_action_and_value(obs[t], state, dones[t], actions[t])
                total = total + logprob.mean() + value.mean()
            (total / length).backward()

        def measure() -> dict[str, Any]:
            seconds = {whole: 0.0, stepwise: 0.0}
            for _ in range(CHUNK_REPEATS):
                for function in seconds:
                    stopwatch = Stopwatch(setting.device)
                    stopwatch.start()
                    function()
                    seconds[function] += stopwatch.stop()
            policy.zero_grad(set_to_none=True)
            per_s = CHUNK_REPEATS * length * rows / seconds[whole]
            return {"per_s": per_s, "unit": "agent-steps scored", "speedup": seconds[stepwise] / seconds[whole]}

        yield measure


@contextmanager
def crowded() -> Iterator[Measure]:
    """Training beside a process that occupies one core, relative to the speed on one free core."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        raise ValueError(f"scene 'crowded' has {len(cores)} cores, expected at least 2")

    def measure() -> dict[str, Any]:
        os.sched_setaffinity(0, {cores[0]})
        try:
            with start_session(threads=1) as alone:
                learn(alone, WARM_UPDATES)
                free = learn(alone, MEASURED_UPDATES)["per_s"]
        finally:
            os.sched_setaffinity(0, set(cores))
        neighbour = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
        try:
            with start_session(threads=len(cores)) as session:
                learn(session, WARM_UPDATES)
                beside = learn(session, MEASURED_UPDATES)["per_s"]
        finally:
            neighbour.kill()
            neighbour.wait()
        return {"per_s": beside, "unit": "learner agent-steps", "one_free_core": free, "share": beside / free}

    yield measure
