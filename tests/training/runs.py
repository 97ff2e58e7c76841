"""Small training runs: how tests start and resume them, and compare what they leave behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from echelon.config import EvalConfig, RunConfig, WorldConfig
from echelon.config.presets import get_preset
from echelon.rl.checkpoint import open_checkpoint
from echelon.telemetry.events import EventUpdate
from echelon.training import loop
from echelon.training.batch_options import Sides
from echelon.training.opponents.runner import OpponentRunner
from echelon.training.runtime.threads import ThreadPool
from echelon.training.session import Session
from echelon.training.vec_env import VectorEnv
from tests.training.fakes import FakeEnv

COMPARED = ("loss", "grad_norm", "entropy", "avg_return", "lr", "opponents", "curriculum", "episodes", "global_step")
"""Fields of ``EventUpdate`` that are equal after an exact resume."""


def run(
    config: RunConfig,
    run_dir: Path | None = None,
    *,
    stop_after: int = 10**9,
    level: int = 1,
    make_env=FakeEnv,
    **options,
) -> tuple[loop.RunResult, list[Any]]:
    """Run and return the result and all events; ask to stop after ``stop_after`` updates."""
    events: list[Any] = []

    def should_stop() -> int:
        return level * (len(of(events, EventUpdate)) >= stop_after)

    return loop.run(config, events.append, should_stop, run_dir=run_dir, make_env=make_env, **options), events


def of(events: Sequence[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def weights(result: loop.RunResult) -> dict[str, torch.Tensor]:
    """Return the weights in the last checkpoint of a run."""
    assert result.checkpoint is not None
    return open_checkpoint(result.checkpoint).weights()


def assert_equal_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def assert_equal_updates(first: Sequence[Any], second: Sequence[Any], fields: Sequence[str] = COMPARED) -> None:
    """Compare the updates among two lists of events; NaN equals NaN."""
    for a, b in zip(of(first, EventUpdate), of(second, EventUpdate), strict=True):
        for name in fields:
            own, other = getattr(a, name), getattr(b, name)
            both_nan = isinstance(own, float) and math.isnan(own) and math.isnan(other)
            assert own == other or both_nan, (name, a.update)


def assert_resumes_exactly(
    config: RunConfig,
    folder: Path,
    *cuts: int,
    fields: Sequence[str] = (),
    homes: tuple[str, str] = ("whole", "cut"),
    between: Callable[[], object] = lambda: None,
    **options,
) -> tuple[list[Any], list[Any], loop.RunResult]:
    """Compare a whole run with one that is stopped after each number of updates in ``cuts`` and resumed.

    Return the events of both, and the result of the resumed run. ``fields`` of the updates are compared beside
    ``COMPARED``, and ``between`` is called before the first resume.
    """
    for home in homes:
        (folder / home).mkdir(parents=True)
    whole, expected = run(config, folder / homes[0], **options)
    cut, events = run(config, folder / homes[1], stop_after=cuts[0], **options)
    between()
    for count in (*cuts[1:], 10**9):
        torch.manual_seed(999)
        cut, more = run(config, folder / homes[1], stop_after=count, resume="latest", **options)
        events += more
    assert (cut.update, cut.global_step, cut.episodes) == (whole.update, whole.global_step, whole.episodes)
    assert_equal_updates(expected, events, (*COMPARED, *fields))
    assert_equal_weights(weights(whole), weights(cut))
    return expected, events, cut


def battle_run(
    preset: str = "quickstart", *, edge: int = 30, env: dict | None = None, ppo: dict | None = None, **changes
) -> RunConfig:
    """Return a preset as a run of seconds in the simulator, of four updates."""
    whole = get_preset(preset)
    world = WorldConfig(size_x=edge, size_y=edge, size_z=16)
    small = {
        "num_envs": 3, "bank_maps": 2, "bank_refresh_every": 0, "threads": 1, "device": "cpu", "max_minutes": 0.0,
        "max_updates": 4,
        "env": replace(whole.env, **{"world": world, "max_episode_seconds": 4.0, **(env or {})}),
        "ppo": replace(
            whole.ppo, **{"rollout_steps": 16, "tbptt_chunk_length": 8, "num_minibatches": 2, **(ppo or {})}
        ),
        "eval": EvalConfig(seeds=1, every_updates=0, at_start=False, record_seeds=0, heat_cells=0),
    }  # fmt: skip
    return replace(whole, **{**small, **changes})


def run_battle(config: RunConfig, run_dir: Path | None = None, **options) -> tuple[loop.RunResult, list[Any]]:
    """``run`` in the simulator."""
    return run(config, run_dir, make_env=VectorEnv, **options)


def collected(config: RunConfig, make_env=FakeEnv) -> Session:
    """Return a session with one rollout that is ready for an update."""
    session = Session(config, None, make_env)
    session.collector.reset()
    session.set_progress()
    session.collector.collect()
    session.collector.bootstrap(0.95)
    return session


def update(session: Session) -> dict[str, Any]:
    """Train once on the rollout of a session and return the metrics."""
    return session.trainer.update(session.buffer, session.collector.start_state, session.collector.chunk_states)


def opposed(envs: int, source: Any, *, threads: int = 1, seed: int = 0) -> tuple[FakeEnv, OpponentRunner]:
    """Return environments whose red mechs the policies of a source control, and their runner, both reset."""
    env = FakeEnv(envs, sides=Sides("blue", opponents="red"))
    runner = OpponentRunner(env, source, ThreadPool(threads), seed=seed)
    env.reset()
    runner.reset()
    return env, runner


def advance(env: FakeEnv, runner: OpponentRunner, steps: int = 1) -> None:
    """Let the opponents act in some steps, in which no episode ends."""
    for _ in range(steps):
        runner.act()
        env.step()
        runner.after_step(torch.zeros(env.num_envs, dtype=torch.bool), False)
