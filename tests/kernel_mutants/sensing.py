"""Faults of sensing: quality, sight, visibility."""

from tests.kernel_mutants.mutant import Kernel, Mutant

SENSING = Kernel(
    "echelon.sim.kernels.sensing",
    (
        "parity/test_sensing.py::test_sensor_quality_matches_oracle",
        "parity/test_sensing.py::test_sight_matches_oracle",
        "parity/test_sensing.py::test_visibility_matches_oracle",
        "parity/test_sensing.py::test_tracks_gain_one_row_per_decision",
        "parity/test_combat.py::test_weapons_phase_matches_oracle",
    ),
    (
        Mutant(
            "emissions fall with the square",
            "1.0 - distance / rules.ewar_range",
            "1.0 - distance * distance / (rules.ewar_range * rules.ewar_range)",
        ),
        Mutant(
            "a mech that is shut down senses",
            "if mechs.alive[e, m] == 0 or mechs.shutdown[e, m] == 1:",
            "if mechs.alive[e, m] == 0:",
        ),
        Mutant("an emitter aids itself", "(j != m or rules.own_eccm == 1)", "(j >= 0 or rules.own_eccm == 1)"),
        Mutant("wrecks emit", "            and mechs.alive[e, j] == 1\n", ""),
        Mutant(
            "mechs that are shut down jam",
            "            and mechs.shutdown[e, j] == 0\n            and",
            "            and",
        ),
        Mutant("friends jam", "if mechs.team[e, j] != mechs.team[e, m] and controls.ecm", "if controls.ecm"),
        Mutant("hostile ECCM jams", "!= mechs.team[e, m] and controls.ecm[e, j] == 1:", "!= mechs.team[e, m]:"),
        Mutant("friendly ECM aids", "== mechs.team[e, m] and controls.eccm[e, j] == 1:", "== mechs.team[e, m]:"),
        Mutant("jammers add up", "wp.max(jamming, strength)", "jamming + strength"),
        Mutant("the last emitter aids, not the strongest", "aid = wp.max(aid, strength)", "aid = strength"),
        Mutant(
            "ECCM takes jamming away in part",
            "+ rules.eccm_weight * aid",
            "+ rules.eccm_weight * aid * (1.0 - jamming)",
        ),
        Mutant(
            "quality has no upper bound",
            "wp.clamp(q, rules.quality_min, rules.quality_max)",
            "wp.max(q, rules.quality_min)",
        ),
        Mutant("jamming is shown as aid", "senses_out.jam[e, m] = found[1]", "senses_out.jam[e, m] = found[2]"),
        Mutant("every missile carrier senses each tick", "(1 << wp.max(t, 0))) != 0:", "(1 << wp.max(t, 0))) >= 0:"),
        Mutant(
            "wrecks are in sight", "if mechs.alive[e, i] == 1 and mechs.alive[e, j] == 1:", "if mechs.alive[e, i] == 1:"
        ),
        Mutant("smoke is taken for terrain", "seen = SMOKED", "seen = wp.uint8(0)"),
        Mutant("smoke does not hide", "seen = SMOKED", "seen = CLEAR"),
        Mutant(
            "a mech has no sight of itself", "senses_out.sight[e, i, i] = CLEAR", "senses_out.sight[e, i, i] = SMOKED"
        ),
        Mutant(
            "sight holds in one direction",
            "senses_out.sight[e, j, i] = seen",
            "senses_out.sight[e, j, i] = wp.uint8(0)",
        ),
        Mutant("glass blocks sight", "world.sight_plane", "world.shot_plane"),
        Mutant("jamming spares radar", "rules.radar * q *", "rules.radar *"),
        Mutant(
            "radar range is that of the target's class",
            "sensor_range[mechs.chassis[e, m]]",
            "sensor_range[mechs.chassis[e, j]]",
        ),
        Mutant("a jammed mech receives paint", "not known and q >= rules.paint_quality and", "not known and"),
        Mutant(
            "friends shine through walls", "if not known and mechs.team[e, j] != mechs.team[e, m]:", "if not known:"
        ),
        Mutant("ECM that is shut down shines", "emits = mechs.shutdown[e, j] == 0 and controls", "emits = controls"),
        Mutant("heat shines at the capacity", "rules.bloom_heat * rules.chassis", "rules.chassis"),
        Mutant("smoke hides no emissions", "known = not smoke_blocks", "known = True or not smoke_blocks"),
        Mutant("mechs behind smoke are seen", "senses.sight[e, m, j] == CLEAR", "senses.sight[e, m, j] != wp.uint8(0)"),
        Mutant("the blind see", "if j != m and mechs.alive[e, m] == 1 and mechs", "if j != m and mechs"),
        Mutant(
            "wrecks are seen",
            "mechs.alive[e, m] == 1 and mechs.alive[e, j] == 1:\n            q",
            "mechs.alive[e, m] == 1:\n            q",
        ),
        Mutant(
            "sightings are dated one step ahead",
            "senses_out.seen[e, m, j] = decision[e]",
            "senses_out.seen[e, m, j] = decision[e] + 1",
        ),
        Mutant(
            "what is out of sight stays visible",
            "senses_out.visible[e, m, j] = wp.uint8(0)",
            "senses_out.visible[e, m, j] = senses_out.visible[e, m, j]",
        ),
    ),
)
