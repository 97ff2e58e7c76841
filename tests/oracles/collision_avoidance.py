"""Plain-Python rules of collision avoidance: free steps, detours around obstacles, and escapes of stuck pilots.

A pilot's memory is in the state before a decision; its desired velocity and path are in the state after it.
"""

from math import cos, pi, sin
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from echelon.agents.levels import JetUse, StuckRecovery
from echelon.sim.random import StreamId, uniform01
from tests.oracles.levels import DT_ACT, Memory, level_of
from tests.oracles.moves import CALM_S, unit
from tests.oracles.shared import MECHS, distance, flat, hostile, living
from tests.oracles.world import box_free, others_free

STEP = np.array([0, 0, 1.1], np.float32)
DETOUR_S, ESCAPE_S = 1.5, 1.25
CHANGE_SIDE_S, OTHER_SIDE_S = 2.0, 3.5
JUMP = -2
"""Turn of a detour that jumps straight over the obstacle."""


class AvoidanceResult(NamedTuple):
    """Commanded velocity of a pilot, and the memory it keeps."""

    move: np.ndarray
    detour_s: float
    turn: int
    lost_s: float
    escape_s: float
    stay_s: float
    hops: bool = False


def turned(u: np.ndarray, eighths: float) -> np.ndarray:
    a = eighths * pi / 4
    return np.array([u[0] * cos(a) - u[1] * sin(a), u[0] * sin(a) + u[1] * cos(a)])


def step_to(s, m: int, p: np.ndarray, u: np.ndarray) -> np.ndarray | None:
    """Return the position one voxel along ``u`` from ``p``, level or a step up [vox]; None if blocked."""
    half, size = MECHS[s.chassis[m]].half, np.array(s.size[:2])
    level = (p + np.array([*u, 0.0])).astype(np.float32)
    if (level[:2] < half[:2]).any() or (level[:2] > size - half[:2]).any():
        return None
    if box_free(s, level, half) and others_free(s, m, p, level):
        return level
    if box_free(s, p + STEP, half) and box_free(s, level + STEP, half) and others_free(s, m, p, level + STEP):
        return level + STEP
    return None


def can_jump_over(s, m: int, u: np.ndarray) -> bool:
    """Return whether jets lead over the obstacle along ``u``, at most six voxels high."""
    half, p = MECHS[s.chassis[m]].half, s.pos[m]
    for rise in range(2, 7):
        above = (p + np.array([0, 0, rise])).astype(np.float32)
        beyond = (above + np.array([*u, 0.0])).astype(np.float32)
        if not box_free(s, above, half):
            return False
        if box_free(s, beyond, half) and others_free(s, m, above, beyond):
            return True
    return False


def perceived_state(memory: Memory, s, m: int) -> SimpleNamespace:
    """Return the state with hostiles at their perceived positions, and without those that are not perceived."""
    seen = SimpleNamespace(**vars(s))
    seen.pos, seen.alive = s.pos.copy(), s.alive.copy()
    for j in range(len(s.alive)):
        if hostile(s, m, j):
            known = memory.known(level_of(s, m), m, j)
            seen.alive[j] = bool(known and known.age == 0)
            seen.pos[j] = known.pos if known else s.pos[j]
    return seen


def detour(s, m: int, u: np.ndarray, detour_s: float, turn: int, lost_s: float) -> tuple[float, int | None, float]:
    """Return the time left of a detour, signed by its side, its turn (None if all are blocked), and the loss."""
    p = s.pos[m]
    jets = level_of(s, m).jets >= JetUse.OBSTACLES and MECHS[s.chassis[m]].jet > 0
    if jets and step_to(s, m, p, turned(u, 0)) is None and can_jump_over(s, m, u):
        return detour_s, JUMP, lost_s
    if turn and lost_s >= CHANGE_SIDE_S - 1e-4:
        detour_s, turn, lost_s = -np.sign(detour_s) * OTHER_SIDE_S, 0, 0.0

    def free(eighths: int) -> bool:
        return step_to(s, m, p, turned(u, eighths)) is not None

    if turn == 0 or detour_s == 0:
        if free(0):
            return detour_s, 0, lost_s
        sides = [side for side in (1, -1) if side * detour_s >= 0]
        tries = [(side, i) for i in range(1, 7) for side in sides]
        for side, i in tries:
            if free(side * i):
                return side * DETOUR_S, i, lost_s
        return -detour_s, None, lost_s
    side = 1 if detour_s > 0 else -1
    for i in range(max(0, turn - 2), 7):
        if free(side * i):
            return side * DETOUR_S, i, lost_s
    return -side * DETOUR_S, None, lost_s


def escape_direction(s, m: int, path: np.ndarray, push: np.ndarray) -> np.ndarray:
    """Return the direction of eight with most free steps, preferring the path to the zone to the one tried."""
    best, best_score = -push, -np.inf
    for i in range(8):
        u, at, steps = turned(np.array([1.0, 0.0]), i), s.pos[m], 0
        while steps < 3 and (at := step_to(s, m, at, u)) is not None:
            steps += 1
        score = (
            steps + u @ path - u @ push + 0.5 * float(uniform01(int(s.seed), StreamId.AGENT, int(s.tick), m, 48 + i))
        )
        if steps and score > best_score:
            best, best_score = u, score
    return best


def push_from_friends(s, m: int) -> np.ndarray:
    push, half = np.zeros(2), MECHS[s.chassis[m]].half[0]
    for k in living(s):
        if k != m and not hostile(s, m, k):
            gap = s.pos[m][:2].astype(float) - s.pos[k][:2]
            push += unit(gap) * max(0.0, 1 - flat(gap) / (half + 1.5 + MECHS[s.chassis[k]].half[0]))
    return push


def avoidance(memory: Memory, state, after, m: int) -> AvoidanceResult:
    """Return the commanded velocity of a pilot whose desired velocity is in ``after``."""
    velocity, first = after.pilot_desired[m].astype(float), state.decision == 0
    if level_of(state, m).stuck_recovery != StuckRecovery.FREE_DIRECTION:
        return AvoidanceResult(velocity, *(getattr(state, f"pilot_{name}")[m] for name in AvoidanceResult._fields[1:]))
    s = perceived_state(memory, state, m)
    detour_s, turn, lost_s = 0.0, 0, 0.0
    if not first:
        detour_s, turn, lost_s = float(s.pilot_detour_s[m]), int(s.pilot_turn[m]), float(s.pilot_lost_s[m])
    left = max(-CALM_S, (-CALM_S if first else float(s.pilot_escape_s[m])) - DT_ACT)
    gone = first or distance(s.pos[m], s.pilot_anchor[m]) > 1 or flat(s.pilot_move[m]) < 0.2
    stays, push = 0.0, np.zeros(2)
    if not (gone or s.fallen[m] or s.shutdown[m]):
        stays = float(s.pilot_stay_s[m]) + DT_ACT
        push = s.pilot_push[m].astype(float) + s.pilot_move[m] * DT_ACT
    if stays >= 2.5 - 1e-4:
        return AvoidanceResult(
            escape_direction(s, m, after.pilot_way[m].astype(float), unit(push)), 0.0, 0, 0.0, ESCAPE_S, 0.0
        )
    if left > 0:
        return AvoidanceResult(s.pilot_escape[m], detour_s, turn, lost_s, left, stays)
    velocity = velocity + push_from_friends(s, m)
    n = flat(velocity)
    velocity = velocity / max(1.0, n)
    n = min(1.0, n)
    detour_s, over = np.sign(detour_s) * max(0.0, abs(detour_s) - DT_ACT), False
    if n > 0.1:
        detour_s, found, lost_s = detour(s, m, unit(velocity), detour_s, turn, lost_s)
        over = found == JUMP
        turn = 0 if over else found or 0
        lost_s = lost_s if found is None or over else max(0.0, lost_s - n * DT_ACT * cos(turn * pi / 4))
        velocity = np.zeros(2) if found is None else turned(velocity, turn * (-1 if detour_s < 0 else 1))
    return AvoidanceResult(velocity, detour_s, turn, lost_s if detour_s else 0.0, left, stays, over)
