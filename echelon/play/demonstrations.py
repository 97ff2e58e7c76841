"""Played matches as demonstrations: what the mechs of human pilots observed, did and achieved.

A recorded match is played again from its actions and inputs, bit for bit, and the rows of its seats are stored in the
form of ``echelon demos record``. The action of a row is that of the step's last tick, since rows are environment steps.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.actions import action_dim
from echelon.arena.reconstruct import (
    ReplayedMatch,
    Step,
    config_from_header,
    play_step,
    recorded_inputs,
    recorded_steps,
)
from echelon.config.learner import env_signature
from echelon.demos import (
    NO_EPISODE,
    OUTCOMES,
    QUANTISATION_LEVELS,
    Counts,
    DemoSide,
    DemoWriter,
    Manifest,
    ObsDtype,
    empty_arrays,
)
from echelon.env import layout
from echelon.env.engine import Engine
from echelon.play.match import HUMAN
from echelon.replay.reader import Replay

Arrays = dict[str, NDArray[Any]]


def export_played(
    files: Sequence[Path],
    folder: Path,
    versions: dict[str, str],
    *,
    obs_dtype: ObsDtype = "float16",
    on_match: Callable[[int], object] = lambda exported: None,
) -> Manifest:
    """Write the seats of recorded matches into ``folder`` and return the manifest; a match per wave.

    The matches have one configuration. Raises ``ValueError`` for a match without seats, with another configuration than
    the first, or that cannot be played again. An interrupted export continues.
    """
    with Replay(files[0]) as first:
        env = config_from_header(first.header)
        opponent = " and ".join(sorted({str(team["name"]) for team in first.header["teams"]}))
        seed = int(first.header["seed"])
    manifest = Manifest(
        obs_dim=layout.obs_dim(env),
        action_dim=action_dim(env.comm_dim),
        obs_dtype=obs_dtype,
        config=env_signature(env),
        policy=DemoSide(name=HUMAN),
        opponent=DemoSide(name=opponent),
        weapon_prob=1.0,
        first_seed=seed,
        matches=len(files),
        versions=versions,
    )
    writer = DemoWriter(folder, manifest)
    for number in range(writer.recorded, len(files)):
        with Replay(files[number]) as recorded:
            if config_from_header(recorded.header) != env:
                raise ValueError(f"replay {files[number].name!r} has another configuration than {files[0].name!r}")
            writer.append(*_played(recorded, number, obs_dtype))
        on_match(number + 1)
    return writer.manifest


def _played(recorded: Replay, number: int, obs_dtype: str) -> tuple[Arrays, Counts]:
    """Return the arrays ``[T, N, ...]`` of the seats of a match, and its totals."""
    inputs = recorded_inputs(recorded)
    if not inputs:
        raise ValueError(f"replay {recorded.path.name!r} has no inputs of human pilots, expected a played match")
    seats = sorted({mech for mechs, _ in inputs.values() for mech in mechs})
    rows: list[NDArray[np.float32]] = []

    def attach(engine: Engine) -> None:
        rows.append(np.zeros((1, len(seats), engine.obs_dim), np.float32))
        engine.attach(rows[0], np.zeros_like(rows[0]))
        row_of = np.full((1, engine.num_mechs), -1, np.int32)
        row_of[0, seats] = np.arange(len(seats))
        engine.batch.set("row_of", row_of)

    first = recorded.chunks[0].tick0
    with ReplayedMatch(recorded, prepare=attach) as match:
        match.go_to(first)
        steps = list(recorded_steps(recorded, first, recorded.ticks))
        arrays = empty_arrays(
            steps=len(steps),
            rows=len(seats),
            obs_dim=match.engine.obs_dim,
            action_dim=match.engine.action_dim,
            obs_dtype=obs_dtype,
        )
        for t, step in enumerate(steps):
            _store(arrays, t, match.engine, rows[0][0], step, seats)
        ended = bool(match.engine.batch.numpy("over")[0])
        winner = int(match.engine.batch.row("done_winner", 0)) if ended else -1
    arrays["episodes"][:] = number
    arrays["dones"][-1] = 1
    outcomes = [_outcome(winner, int(recorded.header["roster"][mech]["team"])) for mech in seats]
    arrays["outcomes"][:] = [OUTCOMES[outcome] for outcome in outcomes]
    assert (arrays["episodes"] != NO_EPISODE).all()
    # a match counts with the outcome of its first seat
    return arrays, Counts.of(outcomes[:1], steps=len(steps), agent_steps=int(arrays["alive"].sum()))


def _store(arrays: Arrays, t: int, engine: Engine, rows: NDArray[np.float32], step: Step, seats: Sequence[int]) -> None:
    """Play a step and store what the seats observed before it ``rows`` [N, D], did in it and received for it."""
    arrays["obs"][t] = rows
    arrays["alive"][t] = engine.batch.row("alive", 0)[seats]
    arrays["actions"][t] = np.rint(step.actions[seats] * QUANTISATION_LEVELS)
    play_step(engine, step)
    arrays["rewards"][t] = engine.batch.row("reward", 0)[seats]


def _outcome(winner: int, side: int) -> str:
    """Return how a match ended for a side; one that was left is a draw."""
    return "draw" if winner not in (0, 1) else "win" if winner == side else "loss"
