"""Faults of damage: splash, hit records, deaths, credit."""

from tests.kernel_mutants.mutant import Kernel, Mutant

DAMAGE = Kernel(
    "echelon.sim.kernels.damage",
    (
        "parity/test_combat.py::test_weapons_phase_matches_oracle",
        "parity/test_combat.py::test_explosions_match_oracle_at_limits",
        "parity/test_combat.py::test_projectile_phase_matches_oracle",
    ),
    (
        Mutant(
            "the paint bonus is added, not a factor", "damage * (1.0 + rules.paint_bonus)", "damage + rules.paint_bonus"
        ),
        Mutant("hits on legs spare the body", "return rules.leg_body_share", "return 0.0"),
        Mutant("leg damage is doubled", "mechs_out.leg_hp[e, m] - d", "mechs_out.leg_hp[e, m] - 2.0 * d"),
        Mutant("legs lose only the body's share", "leg_hp[e, m] - d", "leg_hp[e, m] - d * body_share(rules, flags)"),
        Mutant(
            "splash ends before its radius",
            "- c) <= rules.weapons[w].splash_vox:",
            "- c) < rules.weapons[w].splash_vox:",
        ),
        Mutant("a struck mech takes splash too", " and blasts.blast_skip[e, m, s] != j:", ":"),
        Mutant("splash on wrecks is credited", "(1 << s)) != 0 and mechs.alive[e, j] == 1 and", "(1 << s)) != 0 and"),
        Mutant(
            "splash passes through walls",
            "if sight_clear(world.sight_plane, e, world.size[e], c, mechs.pos[e, j]):",
            "if rules.weapons[w].splash_vox > 0.0:",
        ),
        Mutant(
            "splash does the full damage",
            "rules.weapons[w].damage * rules.weapons[w].splash_scale",
            "rules.weapons[w].damage",
        ),
        Mutant(
            "splash takes the full stability",
            "rules.weapons[w].stability * rules.weapons[w].splash_scale",
            "rules.weapons[w].stability",
        ),
        Mutant("of two explosions the last counts", "total[0] = total[0] + rules", "total[0] = rules"),
        Mutant("close explosions set no hit direction", "- c) >= NEAR:", "- c) >= 1.0:"),
        Mutant("a hit direction points away from the attacker", "unit3(delta)", "unit3(-delta)"),
        Mutant("a painted mech counts as hit", "if d > 0.0:", "if d >= 0.0:"),
        Mutant(
            "stability falls below 0",
            "wp.max(0.0, mechs_out.stability[e, m] - hits.hit_stability[e, s, k])",
            "mechs_out.stability[e, m] - hits.hit_stability[e, s, k]",
        ),
        Mutant(
            "hits heat where heat is disabled",
            "heat_factor * rules.weapons[w].target_heat",
            "rules.weapons[w].target_heat",
        ),
        Mutant(
            "heat of a hit goes to the shooter",
            "mechs_out.heat[e, m] = mechs_out.heat[e, m] + heat_factor",
            "mechs_out.heat[e, s] = mechs_out.heat[e, s] + heat_factor",
        ),
        Mutant(
            "suppression adds up",
            "wp.max(mechs_out.suppressed[e, m], rules.suppressed_ticks)",
            "mechs_out.suppressed[e, m] + rules.suppressed_ticks",
        ),
        Mutant(
            "splash of an earlier tick is applied again",
            "if blasts.blast_mask[e, s] == 0 or splash[0] <= 0.0:",
            "if splash[0] <= 0.0:",
        ),
        Mutant("of two painters the first stays", "].paints == 1:", "].paints == 1 and new_painter < 0:"),
        Mutant("a mech assists itself", "if old_painter != s and episode.tick[e]", "if episode.tick[e]"),
        Mutant(
            "the next assist is a tick late",
            "episode.tick[e] >= events_out.assist_tick[e, m]:",
            "episode.tick[e] > events_out.assist_tick[e, m]:",
        ),
        Mutant(
            "hits without damage earn assists",
            "HIT_PAINTED) != 0 and hits.hit_damage[e, s, k] > 0.0:",
            "HIT_PAINTED) != 0:",
        ),
        Mutant("splash replaces the direct damage", "lost += apply_splash(", "lost = apply_splash("),
        Mutant(
            "damage taken is that of the last phase", "took[e, m] = events_out.took[e, m] + lost", "took[e, m] = lost"
        ),
        Mutant(
            "paint adds to the paint before", "painted[e, m] = rules.", "painted[e, m] = mechs.painted[e, m] + rules."
        ),
        Mutant(
            "hits on legs are credited in full",
            "total += credited_damage(rules, flags, hits.hit_damage[e, s, k]) * body_share(rules, flags)",
            "total += credited_damage(rules, flags, hits.hit_damage[e, s, k])",
        ),
        Mutant(
            "splash of an earlier tick is credited",
            "if blasts.blast_mask[e, s] != 0:",
            "if blasts.blast_mask[e, s] >= 0:",
        ),
        Mutant(
            "heat given to any mech delays a shutdown",
            "hits.hit_target[e, s, k] == m:\n                    total += rules",
            "hits.hit_target[e, s, k] >= 0:\n                    total += rules",
        ),
        Mutant("a mech at 0 hit points lives", "if mechs.hp[e, m] > 0.0:", "if mechs.hp[e, m] >= 0.0:"),
        Mutant(
            "a mech that is down shuts down again", "if down == 1 and mechs_out.shutdown[e, m] == 0:", "if down == 1:"
        ),
        Mutant("own heat shuts down a tick late", "= 1 - overheated(rules,", "= 1 + 0 * overheated(rules,"),
        Mutant("of equal hostiles the last has the kill", "if share > most:", "if share >= most and share > 0.0:"),
        Mutant("a friend takes the kill", "elif most == 0.0 and share > most_friendly:", "elif share > most_friendly:"),
        Mutant(
            "a killer has another kill when it hits anything",
            "if events.dying[e, j] == 1 and events.killer[e, j] == m:",
            "if events.killer[e, j] == m:",
        ),
        Mutant(
            "damage to itself is not friendly fire",
            "events_out.dealt_friendly[e, m] + d",
            "events_out.dealt_friendly[e, m] + d * wp.min(1.0, float(wp.abs(m - j)))",
        ),
        Mutant(
            "assists of a step count once",
            "assists[e, m] = events_out.assists[e, m] + count_equal(events.assist_to, e, m)",
            "assists[e, m] = wp.min(1, events_out.assists[e, m] + count_equal(events.assist_to, e, m))",
        ),
        Mutant(
            "only explosions are credited",
            "hits.hit_mask[e, m] == 0 and blasts.blast_mask",
            "hits.hit_mask[e, m] == 0 or blasts.blast_mask",
        ),
    ),
)
