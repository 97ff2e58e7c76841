"""The sound scope: how loud it is ahead, to the right, behind and to the left of a mech, and how that changed.

It says nothing of who makes the noise. What was heard in the last decision is kept for the change; listening twice in a
decision changes nothing. The four acoustic columns of the core lie between these sectors.
"""

# ruff: noqa: E501
from __future__ import annotations

import warp as wp

from echelon.config import EnvConfig
from echelon.env.display import Display
from echelon.env.observe.ego import gauge, loudness
from echelon.sim.backend import Launch, in_phase
from echelon.sim.geometry import cos_sin, to_heading
from echelon.sim.state import Field
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

AHEAD, RIGHT, BEHIND, LEFT = wp.constant(0), wp.constant(1), wp.constant(2), wp.constant(3)
SECTORS = wp.constant(4)

FIELDS: dict[str, Field] = {
    "heard": Field(wp.vec4, "EM", "loudness ahead, right, behind, left at the last look, each 0 to 1"),
    "heard_before": Field(wp.vec4, "EM", "that of the decision before"),
    "heard_at": Field(wp.int32, "EM", "decision of that look"),
}


def fields(cfg: EnvConfig) -> dict[str, Field]:
    """Return what the scope keeps; nothing where nobody looks at it."""
    return FIELDS if _fitted(cfg) else {}


def listened(cfg: EnvConfig, fresh: str) -> list[Launch]:
    """Return the launches that listen where array ``fresh`` says so."""
    return in_phase("display", [Launch(update_scope, "EM", {"fresh": fresh})]) if _fitted(cfg) else []


def _fitted(cfg: EnvConfig) -> bool:
    return cfg.obs_layout == "suite" and cfg.observe_scope


@wp.func
def sector_of(rel: wp.vec3) -> int:
    """The sector that a relative position in the heading frame lies in."""
    if rel[0] >= wp.abs(rel[1]):
        return AHEAD
    if -rel[0] >= wp.abs(rel[1]):
        return BEHIND
    if rel[1] < 0.0:
        return RIGHT
    return LEFT


@wp.kernel
def update_scope(
    # rules
    rules: Rules, obs_scale: wp.array(dtype=wp.float32),
    # state in
    fresh: wp.array(dtype=wp.int32), decision: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), pos: wp.array2d(dtype=wp.vec3), yaw: wp.array2d(dtype=wp.float32), noise: wp.array2d(dtype=wp.float32), sight: wp.array3d(dtype=wp.uint8),
    # state out
    heard: wp.array2d(dtype=wp.vec4), heard_before: wp.array2d(dtype=wp.vec4), heard_at: wp.array2d(dtype=wp.int32),
):
    """Note what a mech hears, and what it heard a decision ago; an episode begins without a change."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    loud = wp.vec4(0.0, 0.0, 0.0, 0.0)
    if alive[e, m] == 1:
        cs = cos_sin(yaw[e, m])
        for j in range(alive.shape[1]):
            if j != m and alive[e, j] == 1 and noise[e, j] > 0.0:
                r = pos[e, j] - pos[e, m]
                k = sector_of(to_heading(r, cs))
                loud[k] = loud[k] + loudness(rules, e, m, j, r, noise, sight)
    now = gauge(loud, obs_scale[3])
    if decision[e] == 0:
        heard_before[e, m] = now
    elif heard_at[e, m] != decision[e]:
        heard_before[e, m] = heard[e, m]
    heard[e, m] = now
    heard_at[e, m] = decision[e]


@wp.kernel
def write_scope(
    # rules
    display: Display, scope_at: wp.int32,
    # state in
    fresh: wp.array(dtype=wp.int32), row_of: wp.array2d(dtype=wp.int32), obs_row: wp.array(dtype=wp.int32), alive: wp.array2d(dtype=wp.int32), heard: wp.array2d(dtype=wp.vec4), heard_before: wp.array2d(dtype=wp.vec4),
    # out
    obs: wp.array3d(dtype=wp.float32),
):
    """Write loudness and change of the four sectors; a dead mech hears nothing, nor does one without a scope."""
    e, m = wp.tid()
    n = row_of[e, m]
    if fresh[e] == 0 or n < 0:
        return
    t = obs_row[0]
    on = float(display.scope * alive[e, m])
    for i in range(SECTORS):
        obs[t, n, scope_at + i] = on * heard[e, m][i]
        obs[t, n, scope_at + SECTORS + i] = on * (heard[e, m][i] - heard_before[e, m][i])
