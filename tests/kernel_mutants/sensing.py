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
            "1.0 - distance / rules.ewar_vox",
            "1.0 - distance * distance / (rules.ewar_vox * rules.ewar_vox)",
        ),
        Mutant(
            "a mech that is shut down senses",
            "if mechs.alive[e, m] == 0 or mechs.shutdown[e, m] == 1:",
            "if mechs.alive[e, m] == 0:",
        ),
        Mutant("an emitter aids itself", "(j != m or rules.own_eccm == 1)", "(j >= 0 or rules.own_eccm == 1)"),
        Mutant("wrecks emit", " and mechs.alive[e, j] == 1 and mechs.shutdown", " and mechs.shutdown"),
        Mutant("mechs that are shut down jam", " and mechs.shutdown[e, j] == 0:", ":"),
        Mutant("a second emitter is ignored", "controls.eccm, e, j + 1)", "controls.eccm, e, j + 1000)"),
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
            "a mech has no sight of itself", "senses_out.sight[e, m, m] = CLEAR", "senses_out.sight[e, m, m] = SMOKED"
        ),
        Mutant(
            "sight holds in one direction",
            "senses_out.sight[e, j, i] = seen",
            "senses_out.sight[e, j, i] = wp.uint8(0)",
        ),
        Mutant("glass blocks sight", "world.sight_plane", "world.shot_plane"),
        Mutant("jamming spares radar", "rules.radar_vox * q *", "rules.radar_vox *"),
        Mutant(
            "radar range is that of the target's class",
            "- p) <= radar",
            "- p) <= rules.radar_vox * q * sensor_range[mechs.chassis[e, j]]",
        ),
        Mutant("a jammed mech receives paint", "q >= rules.paint_quality and", ""),
        Mutant("friends shine through walls", "if not known and mechs.team[e, j] != team:", "if not known:"),
        Mutant("ECM that is shut down shines", "emits = mechs.shutdown[e, j] == 0 and controls", "emits = controls"),
        Mutant("heat shines at the capacity", "rules.bloom_heat * rules.chassis", "rules.chassis"),
        Mutant("smoke hides no emissions", "known = not smoke_blocks", "known = True or not smoke_blocks"),
        Mutant(
            "sightings are dated one step ahead",
            "senses_out.seen[e, m, j] = step",
            "senses_out.seen[e, m, j] = step + 1",
        ),
    ),
)

SCAN = Kernel(
    "echelon.sim.scan",
    (
        "sim/test_scan.py::test_searches_of_senses_match_plain_loops",
        "sim/test_scan.py::test_searches_match_plain_loops",
    ),
    (
        Mutant("blocks with an entry of the second array are skipped", "any |= x[k] | y[k];", "any |= x[k];"),
        Mutant("entries of the second array are skipped", "(x[i] | y[i]) == 0", "x[i] == 0"),
        Mutant("other entries are counted", "count += x[i] == value;", "count += x[i] != value;"),
        Mutant("blocks with a round in flight are skipped", "all &= x[k];", "all |= x[k];"),
        Mutant("rounds are those of the first environment", "(round_weapon, e, 0, 0)", "(round_weapon, 0, 0, 0)"),
        Mutant("the reach along y is that along x", "(p[i][1] - at[1]) < reach[1]", "(p[i][1] - at[1]) < reach[0]"),
        Mutant("blocks within reach are skipped", "(p[k][0] - at[0]) < reach[0]", "(p[k][0] - at[0]) < reach[1]"),
        Mutant("blocks with unseen mechs are skipped", "& (known[k] == 0);", "& (known[k] == 1);"),
        Mutant("blocks with hostiles in sight are skipped", "& (clear[k] == 1);", "& (clear[k] == 2);"),
        Mutant("the circle is elsewhere", "y = p[j][1] - zone[1];", "y = p[j][1] - zone[0];"),
        Mutant("the circle is a strip", "wp::sqrt(x * x + y * y)", "wp::sqrt(x * x)"),
        Mutant("mechs behind smoke are seen", "(clear[j] == 1) | (full == 1)", "(clear[j] != 0) | (full == 1)"),
        Mutant("the blind see", "known = (own == 1) & ", "known = "),
        Mutant("wrecks are seen", "(living[j] == 1) & ((clear", "((clear"),
        Mutant("a mech sees itself", " & (j != m);\n        visible_row", ";\n        visible_row"),
        Mutant("what comes into sight is not dated", "= known ? step :", "= known ? step + 1 :"),
        Mutant("what is out of sight stays visible", "visible_row[j] = known;", "visible_row[j] |= known;"),
        Mutant("wrecks are searched", "while (j < end && !(living[j] == 1 && known", "while (j < end && !(known"),
        Mutant("friends in sight are hostile", "&& side[j] != own && clear[j] == 1))", "&& clear[j] == 1))"),
        Mutant("hostiles behind smoke are in sight", "own && clear[j] == 1", "own && clear[j] != 0"),
        Mutant("hostiles in the circle are mates", "(living[j] == 1) & (side[j] == own) & (j", "(living[j] == 1) & (j"),
        Mutant("a mech is its own mate", "(side[j] == own) & (j != m)", "(side[j] == own)"),
    ),
)
