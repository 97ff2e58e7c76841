"""Faults of weapons: locks, targets, triggers, launches."""

from tests.kernel_mutants.mutant import Kernel, Mutant

FIRE = Kernel(
    "echelon.sim.kernels.fire",
    (
        "parity/test_combat.py::test_weapons_phase_matches_oracle",
        "parity/test_combat.py::test_sight_is_cast_from_lower_index",
    ),
    (
        Mutant("arcs widen with distance", ">= arc_cos * n", ">= arc_cos"),
        Mutant(
            "a target straight above is in no arc",
            "if n < EPS_NORM:\n        return True",
            "if n < EPS_NORM:\n        return False",
        ),
        Mutant("sight is cast from the higher index", "if i < j:", "if i > j:"),
        Mutant("paint of other packs helps", " and mechs.pack[e, by] == mechs.pack[e, shooter]", ""),
        Mutant("paint of the other team helps", "mechs.team[e, by] == mechs.team[e, shooter] and ", ""),
        Mutant("a jammed mech launches by paint", " and paint and quality >= rules.paint_quality", " and paint"),
        Mutant(
            "weapons without guidance lock by paint", "if rules.weapons[w].guidance == HOMING and paint", "if paint"
        ),
        Mutant(
            "a focus target is chosen only if nearest",
            "(j == focus or best < 0 or d < best_d)",
            "(best < 0 or d < best_d)",
        ),
        Mutant("the farthest target is chosen", "or best < 0 or d < best_d)", "or best < 0 or d > best_d)"),
        Mutant("smoke does not hide a target", "sees = sees and not smoke_blocks", "sees = sees or not smoke_blocks"),
        Mutant(
            "a focus target must lie in the narrow cone",
            "error < rules.kinetic_focus_cone_rad",
            "error < rules.kinetic_cone_rad",
        ),
        Mutant("the first target in the cone is chosen", "and (d < best_d or best < 0)", "and best < 0"),
        Mutant("hits from the side are from behind", "/ n > rules.rear_cos", "/ n > 0.0"),
        Mutant("hits from behind are taken for painted", "bits += HIT_REAR", "bits += HIT_PAINTED"),
        Mutant("hits from behind do no more damage", "return rules.rear_factor", "return 1.0"),
        Mutant("a trigger is read as a number", "(held & (1 << wp.max(trigger, 0)))", "(held & wp.max(trigger, 0))"),
        Mutant("legs are never hit", "< 2.0 * rules.leg_height - 1.0", "< rules.leg_height - 1.0"),
        Mutant("rounds are aimed for twice the drop", "0.5 * rules.gravity * t * t", "rules.gravity * t * t"),
        Mutant(
            "straight rounds are aimed for a drop",
            "if rules.weapons[w].guidance == BALLISTIC:",
            "if rules.weapons[w].guidance >= 0:",
        ),
        Mutant(
            "smoke is aimed beyond its range",
            "if wp.length(delta) <= rules.weapons[w].range_vox and xy_length",
            "if xy_length",
        ),
        Mutant("smoke is aimed up", "unit3(wp.vec3(delta[0], delta[1], 0.0))", "unit3(delta)"),
        Mutant("smoke is aimed at wrecks", "if mechs.alive[e, focus] == 1:", "if mechs.alive[e, focus] >= 0:"),
        Mutant("missiles start inside the hull", "return half_z + LAUNCHER_GAP", "return half_z"),
        Mutant("smoke starts at the gun", "if rules.weapons[w].bursts_smoke == 1:\n        return half_z\n", ""),
        Mutant(
            "the first slot is never used", "for s in range(ROUNDS_PER_MECH):", "for s in range(1, ROUNDS_PER_MECH):"
        ),
        Mutant("a fallen mech fires", "        or mechs.fallen[e, m] > 0\n", ""),
        Mutant(
            "disabled weapons fire",
            "if (rules.weapons[w].needs & episode.withheld[e]) != 0:",
            "if rules.weapons[w].needs < 0:",
        ),
        Mutant(
            "own heat stops no further weapon of the tick",
            "            or overheated(rules, c, mechs_out.heat",
            "            or 2 == overheated(rules, c, mechs_out.heat",
        ),
        Mutant("firing heats where heat is disabled", "heat_share(episode.withheld[e]) * rules", "rules"),
        Mutant(
            "cooldowns are one tick short", "rules.weapons[w].cooldown_ticks", "rules.weapons[w].cooldown_ticks - 1"
        ),
        Mutant("only the last weapon counts as fired", "events_out.fired[e, m] | (1 << w)", "1 << w"),
        Mutant("a hit is judged by the shooter's heading", "mechs.yaw[e, j])", "mechs.yaw[e, m])"),
        Mutant("weapons share one draw", "episode.tick[e], m, w))", "episode.tick[e], m, 0))"),
        Mutant(
            "loft is relative to the distance",
            "unit3(unit3(mechs.pos[e, j] - mechs.pos[e, m]) +",
            "unit3(mechs.pos[e, j] - mechs.pos[e, m] +",
        ),
        Mutant(
            "a launch counts as a tick of flight",
            "rounds_out.round_age[e, m, s] = 0",
            "rounds_out.round_age[e, m, s] = 1",
        ),
    ),
)
