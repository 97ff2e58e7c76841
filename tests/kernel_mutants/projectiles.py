"""Faults of rounds in flight: point defence, guidance, impacts, smoke."""

from tests.kernel_mutants.mutant import Kernel, Mutant

PROJECTILES = Kernel(
    "echelon.sim.kernels.projectiles",
    (
        "parity/test_combat.py::test_explosions_match_oracle_at_limits",
        "parity/test_combat.py::test_projectile_phase_matches_oracle",
    ),
    (
        Mutant("a round strikes mechs beyond its step", "EPS_DIV), 0.0, 1.0)", "EPS_DIV), 0.0, 1.5)"),
        Mutant("rounds strike friends", " and mechs.team[e, j] != mechs.team[e, m]:", ":"),
        Mutant("only the end of a step strikes", "wp.length(a + d * t - mechs", "wp.length(a + d - mechs"),
        Mutant("of two mechs struck at once the last is hit", "if t < best[0] and", "if t <= best[0] and"),
        Mutant("smoke bursts only at the end of its flight", "return rules.weapons[w].bursts_smoke", "return 0"),
        Mutant("legs reach half as high", "+ rules.leg_height * 2.0 * half_z", "+ rules.leg_height * half_z"),
        Mutant(
            "point defence shoots at missiles that expire",
            "[e, m, s] < rules.weapons[w].life_ticks:",
            "[e, m, s] <= rules.weapons[w].life_ticks:",
        ),
        Mutant(
            "point defence shoots at own missiles", "mechs.team[e, j] == side", "mechs.team[e, j] == mechs.team[e, m]"
        ),
        Mutant(
            "every mech has point defence", "[mechs.chassis[e, j]].has_ams == 1", "[mechs.chassis[e, j]].has_ams >= 0"
        ),
        Mutant("point defence works while shut down", "and mechs.shutdown[e, j] == 0", "and mechs.shutdown[e, j] >= 0"),
        Mutant("point defence of wrecks works", "and mechs.alive[e, j] == 1\n", "and mechs.alive[e, j] >= 0\n"),
        Mutant("point defence has no cooldown", "cooldown[e, j, AMS_TIMER] == 0", "cooldown[e, j, AMS_TIMER] >= 0"),
        Mutant(
            "a missile shot down is shot at again",
            "and rounds_out.round_weapon[e, m, s] >= 0",
            "and rounds_out.round_weapon[e, m, s] >= -1",
        ),
        Mutant(
            "range is measured from the target",
            "- rounds.round_pos[e, m, s]) <= rules.ams_vox",
            "- mechs.pos[e, rounds.round_target[e, m, s]]) <= rules.ams_vox",
        ),
        Mutant(
            "point defence hits as often as it should miss",
            "if roll < rules.ams_chance:",
            "if roll > rules.ams_chance:",
        ),
        Mutant("the cooldown of point defence is one tick short", "= rules.ams_ticks", "= rules.ams_ticks - 1"),
        Mutant("intercepts of a step count once", "events_out.intercepts[e, j] + 1", "1"),
        Mutant("gravity acts twice", "rules.gravity * rules.dt", "2.0 * rules.gravity * rules.dt"),
        Mutant(
            "missiles home on the target of the first", "rounds.round_target[e, m, s],", "rounds.round_target[e, m, 0],"
        ),
        Mutant("missiles home on wrecks", "if mechs.alive[e, j] == 1 and wp.length(delta)", "if wp.length(delta)"),
        Mutant("missiles near their target fly on", "HOMING_NEAR = wp.constant(0.1)", "HOMING_NEAR = wp.constant(1.0)"),
        Mutant("missiles turn too slowly", "v * (1.0 - s) +", "v +"),
        Mutant(
            "rounds expire a tick early",
            "round_age[e, m, s] > rules.weapons[w].life_ticks:",
            "round_age[e, m, s] >= rules.weapons[w].life_ticks:",
        ),
        Mutant("expired missiles explode", "(rules.weapons[w].bursts_smoke << s)", "(bursts(rules, w) << s)"),
        Mutant("a round passes through the mech into a wall", "rules.dt * wp.min(struck[0], 1.0)", "rules.dt * 1.0"),
        Mutant("glass stops no rounds", "cast_ray(world.shot_plane", "cast_ray(world.sight_plane"),
        Mutant("a wall in the last cell is missed", "a, a + path, True)", "a, a + path, False)"),
        Mutant("rounds burst inside the wall", "block[0] - PULL_BACK *", "block[0] + 0.1 + PULL_BACK *"),
        Mutant(
            "explosions at a mech damage it twice",
            "blasts_out.blast_skip[e, m, s] = j",
            "blasts_out.blast_skip[e, m, s] = -1",
        ),
        Mutant("hits from behind keep their stability loss", ".stability * rear_scale(rules, rear)", ".stability"),
        Mutant(
            "explosions at a mech are where the round is",
            "blasts_out.blast_pos[e, m, s] = mechs.pos[e, j]",
            "blasts_out.blast_pos[e, m, s] = a + path",
        ),
        Mutant(
            "a hit is judged by where the shooter is",
            "is_rear(rules, v, mechs.yaw",
            "is_rear(rules, mechs.pos[e, j] - mechs.pos[e, m], mechs.yaw",
        ),
        Mutant(
            "smoke rounds pass through mechs",
            "if block[0] < 0.0 and j < 0:",
            "if block[0] < 0.0 and (j < 0 or rules.weapons[w].bursts_smoke == 1):",
        ),
        Mutant("rounds burst above the ceiling", "wp.clamp(p[2], 0.0, float(size[2]))", "wp.max(p[2], 0.0)"),
        Mutant(
            "a new cloud replaces the first",
            "if smoke.cloud_ticks[e, m, q] == 0:",
            "if smoke.cloud_ticks[e, m, q] >= 0:",
        ),
        Mutant("smoke lasts a tick longer", "= rules.smoke_ticks", "= rules.smoke_ticks + 1"),
        Mutant(
            "only new clouds are counted",
            "live += wp.min(1, smoke_out.cloud_ticks[e, m, q])",
            "live += wp.min(1, smoke_out.cloud_ticks[e, m, q] / rules.smoke_ticks)",
        ),
    ),
)
