"""Tables of a game that the play session of a page looks up: those that ``echelon.play`` takes from the engine."""

from typing import Any

from echelon import play_protocol as protocol
from echelon.actions import ECCM_ABOVE, QUANTISATION_LEVELS, TARGET_DIM, TARGET_START, ActionIndex
from echelon.agents.heuristic import SKILLS
from echelon.config import PACK_SIZE
from echelon.env import display, layout, seats
from echelon.env.engine import Engine
from echelon.play import perception
from echelon.sim.arsenal import Mechanic
from echelon.sim.tables import duration_ticks

READINGS = ("valid", "hull", "heat", "stability")


def play_tables(engine: Engine) -> dict[str, Any]:
    """Return the tables by name; viewer/src/game/sensed_arrays.ts says what they are."""
    cfg, game = engine.cfg, engine.batch.tables(0)
    contact = [feature.name for feature in layout.CONTACT]
    return {
        "pack": PACK_SIZE,
        "dt": cfg.dt_sim,
        "dt_act": cfg.dt_act,
        "levels": SKILLS,
        "sense_columns": [perception.sense_column(cfg, name) for name in protocol.SENSE_COLUMNS],
        "contacts_at": layout.offset("contacts", layout.blocks(cfg)),
        "contact_width": len(contact),
        "readings": [contact.index(name) for name in READINGS],
        "classes": [contact.index(name) for name in layout.CLASSES],
        "class_sure": perception.CLASS_SURE,
        "slots": perception.display_slots(cfg),
        "memory": display.memory_decisions(cfg),
        "marks": {"fallen": int(display.FALLEN), "legged": int(display.LEGGED)},
        "ewar_classes": [spec.has_ewar for spec in game.chassis],
        "smoke_ticks": duration_ticks(game.physics.smoke_life_s, cfg.dt_sim),
        "max_new_edits": perception.MAX_NEW_EDITS,
        "max_distances": perception.MAX_DISTANCES,
        "max_events": perception.MAX_EVENTS,
        "near_vox": perception.NEAR_VOX,
        "muzzle_vox": perception.MUZZLE_VOX,
        "sight_steps": perception.SIGHT_STEPS,
        "sight_end": perception.SIGHT_END,
        "controls": {
            "drive": list(range(seats.DRIVE.start, seats.DRIVE.stop)),
            "triggers": seats.TRIGGERS,
            "vent": ActionIndex.VENT,
            "ewar": ActionIndex.SECONDARY,
            "targets": list(range(TARGET_START, TARGET_START + TARGET_DIM)),
        },
        "quantisation": QUANTISATION_LEVELS,
        "eccm_above": ECCM_ABOVE,
        "ewar": int(Mechanic.EWAR) * cfg.enable_ewar,
        "target_selection": cfg.enable_target_selection,
    }
