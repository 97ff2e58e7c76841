# type: ignore
"""Why a weapon does not fire when its trigger is held, as far as the pilot of its mech knows.

The conditions are the functions that the kernel ``choose_targets`` calls (``echelon.sim.kernels.fire``), here on the
hostiles that one pilot knows of, where it knows them: others give no reason away.
"""

import numpy as np
import warp as wp

from echelon.env.engine import Engine
from echelon.play_protocol import HOLDS
from echelon.sim.backend import Launch, in_phase
from echelon.sim.geometry import cos_sin
from echelon.sim.kernels.fire import HITSCAN, HOMING, in_arc, is_painted_for, locks
from echelon.sim.kernels.sensing import CLEAR
from echelon.sim.kernels.upkeep import overheated
from echelon.sim.state import Episode, Mechs, Senses
from echelon.sim.structs import Field, array_struct, fields_of
from echelon.sim.tables import Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

NO_TARGET, OUT_OF_ARC, OUT_OF_RANGE, NO_PAINT, NO_SIGHT, RELOADING, DISABLED, OVERHEATED, FALLEN, DESTROYED = range(
    1, len(HOLDS)
)
KNOWN, OWN = 1, 2
PROGRAM = "explain_triggers"


@array_struct
class HeldTriggers:
    """What one pilot knows of other mechs, and the answer for its own."""

    known = Field(wp.int32, "EM", "1 for a hostile that the pilot knows of, 2 for its own mech")
    known_at = Field(wp.vec3, "EM", "position where the pilot knows it")
    hold = Field(wp.int32, "EMW", "why a weapon would not fire, an index of HOLDS")


@wp.func
def hold_at(rules: Rules, mechs: Mechs, senses: Senses, pilot: HeldTriggers, e: int, m: int, j: int, w: int) -> int:
    """Return why weapon w does not lock on mech j, 0 if it does."""
    delta = pilot.known_at[e, j] - mechs.pos[e, m]
    d = wp.length(delta)
    if not in_arc(delta, cos_sin(mechs.yaw[e, m]), rules.weapons[w].arc_cos):
        return OUT_OF_ARC
    if d > rules.weapons[w].range_vox:
        return OUT_OF_RANGE
    if locks(rules, w, d, senses.sight[e, m, j] == CLEAR, is_painted_for(mechs, e, m, j), senses.quality[e, m]):
        return 0
    if d > rules.weapons[w].sight_range_vox:
        return NO_PAINT
    return NO_SIGHT


@wp.kernel
def explain_triggers(
    rules: Rules, mechs: Mechs, episode: Episode, senses: Senses, pilot: HeldTriggers, pilot_out: HeldTriggers
):
    """Find why each weapon would not fire; of several targets the reason of the one that comes nearest to a lock."""
    e, m, w = wp.tid()
    c = mechs.chassis[e, m]
    if pilot.known[e, m] != OWN:
        return
    hold = int(0)
    if rules.trigger_of[c, w] < 0:
        hold = 0
    elif mechs.alive[e, m] == 0:
        hold = DESTROYED
    elif mechs.fallen[e, m] > 0:
        hold = FALLEN
    elif overheated(rules, c, mechs.heat[e, m], mechs.shutdown[e, m]):
        hold = OVERHEATED
    elif (rules.weapons[w].needs & episode.withheld[e]) != 0:
        hold = DISABLED
    elif mechs.cooldown[e, m, rules.weapons[w].cooldown] > 0:
        hold = RELOADING
    elif rules.weapons[w].guidance == HITSCAN or rules.weapons[w].guidance == HOMING:
        hold = NO_TARGET
        for j in range(mechs.alive.shape[1]):
            if pilot.known[e, j] == KNOWN and hold != 0:
                at = hold_at(rules, mechs, senses, pilot, e, m, j, w)
                if at == 0:
                    hold = 0
                else:
                    hold = wp.max(hold, at)
    pilot_out.hold[e, m, w] = hold


def install(engine: Engine) -> None:
    """Add the arrays and the program to an engine."""
    engine.batch.add_fields(fields_of(HeldTriggers))
    engine.programs[PROGRAM] = lambda: in_phase(PROGRAM, [Launch(explain_triggers, "EMW")])


class Triggers:
    """The weapons of one mech in the only environment of an engine on the CPU."""

    def __init__(self, engine: Engine, mech: int) -> None:
        self._engine, self._mech = engine, mech
        install(engine)
        engine.prepare(PROGRAM)
        self._known, self._known_at, self._hold = (engine.batch.row(name, 0) for name in fields_of(HeldTriggers))

    def holds(self, hostile: np.ndarray, places: np.ndarray) -> list[int]:
        """Return the index in ``HOLDS`` of each weapon, in the order of ``Weapon``; 0 for those that would fire.

        ``hostile`` are the hostiles that the pilot knows of, ``places`` their positions as it knows them.
        """
        self._known[:] = 0
        self._known[self._mech], self._known[hostile] = OWN, KNOWN
        self._known_at[hostile] = places
        self._engine.run(PROGRAM)
        return self._hold[self._mech].tolist()
