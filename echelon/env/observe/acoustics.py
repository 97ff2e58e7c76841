# type: ignore
"""The acoustic scope (``env.observe_scope``): sound levels ahead, right, behind and left of a mech, and their changes.

The levels of the previous environment step are stored for the change; updating twice in a step changes nothing. The
four acoustic columns of the suite core cover the quadrants between these sectors.
"""

import warp as wp

from echelon.config import EnvConfig
from echelon.env import layout
from echelon.env.display import DisplayRules
from echelon.env.observe.ego import log_scale, loudness
from echelon.env.observe.helpers import ObsRows, put, row_index
from echelon.sim.backend import Launch, in_phase
from echelon.sim.geometry import cos_sin, to_heading
from echelon.sim.state import Episode, Mechs, Senses
from echelon.sim.structs import Field, array_struct, fields_of
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

AHEAD, RIGHT, BEHIND, LEFT = (wp.constant(i) for i in range(4))
SCOPE = layout.position(layout.SCOPE.features)
SECTORS = wp.constant(len(layout.SECTORS))


@array_struct
class Scope:
    """Sound levels by sector."""

    heard = Field(wp.vec4, "EM", "levels ahead, right, behind, left in the step of heard_at, each 0 to 1")
    heard_before = Field(wp.vec4, "EM", "levels one step earlier")
    heard_at = Field(wp.int32, "EM", "step of the levels")


def _has_scope(cfg: EnvConfig) -> bool:
    return cfg.obs_layout == "suite" and cfg.observe_scope


def fields(cfg: EnvConfig) -> dict[str, Field]:
    return fields_of(Scope) if _has_scope(cfg) else {}


def update_launches(cfg: EnvConfig, fresh: str) -> list[Launch]:
    return in_phase("display", [Launch(update_scope, "EM", {"fresh": fresh})]) if _has_scope(cfg) else []


@wp.func
def sector_of(rel: wp.vec3) -> int:
    if rel[0] >= wp.abs(rel[1]):
        return AHEAD
    if -rel[0] >= wp.abs(rel[1]):
        return BEHIND
    if rel[1] < 0.0:
        return RIGHT
    return LEFT


@wp.kernel
def update_scope(
    rules: Rules,
    display: DisplayRules,
    episode: Episode,
    mechs: Mechs,
    senses: Senses,
    scope: Scope,
    fresh: wp.array(dtype=wp.int32),
    scope_out: Scope,
):
    """Store the sound levels of this step and of the one before; an episode begins without a change."""
    e, m = wp.tid()
    if fresh[e] == 0:
        return
    total = wp.vec4(0.0, 0.0, 0.0, 0.0)
    if mechs.alive[e, m] == 1:
        cs = cos_sin(mechs.yaw[e, m])
        for j in range(mechs.alive.shape[1]):
            if j != m and mechs.alive[e, j] == 1 and mechs.noise[e, j] > 0.0:
                r = mechs.pos[e, j] - mechs.pos[e, m]
                k = sector_of(to_heading(r, cs))
                total[k] = total[k] + loudness(rules, mechs, senses, e, m, j, r)
    levels = log_scale(total, display.loudest)
    step = episode.decision[e]
    if step == 0:
        scope_out.heard_before[e, m] = levels
    elif scope.heard_at[e, m] != step:
        scope_out.heard_before[e, m] = scope.heard[e, m]
    scope_out.heard[e, m] = levels
    scope_out.heard_at[e, m] = step


@wp.kernel
def write_scope(display: DisplayRules, mechs: Mechs, scope: Scope, scope_at: wp.int32, rows_out: ObsRows):
    """Write the levels and changes of the four sectors; zero for a dead mech and without a scope."""
    e, m = wp.tid()
    n = row_index(rows_out, e, m)
    if n < 0:
        return
    row = rows_out.obs[rows_out.obs_row[0], n]
    on = float(display.scope * mechs.alive[e, m])
    for i in range(SECTORS):
        put(row, scope_at + SCOPE.ahead + i, on * scope.heard[e, m][i])
        put(row, scope_at + SCOPE.ahead_change + i, on * (scope.heard[e, m][i] - scope.heard_before[e, m][i]))
