"""Faults of the referee: zone scores, verdict, flags, statistics."""

from tests.kernel_mutants.mutant import Kernel, Mutant

REFEREE = Kernel(
    "echelon.env.referee",
    ("env/test_referee.py::test_outcomes_and_flags_match_the_reference_on_random_states",),
    (
        Mutant(
            "a mech on the edge is in the zone",
            "pos[1] - zone[1], 0.0)) < zone[2]",
            "pos[1] - zone[1], 0.0)) <= zone[2]",
        ),
        Mutant(
            "a mech high above the zone is not in it",
            "return xy_length(wp.vec3(pos[0] - zone[0], pos[1] - zone[1], 0.0))",
            "return wp.length(wp.vec3(pos[0] - zone[0], pos[1] - zone[1], pos[2]))",
        ),
        Mutant("lead is relative to the larger tonnage", "/ (b + r)", "/ wp.max(b, r)"),
        Mutant(
            "teams swap their leads",
            "wp.max(0.0, lead), f + (1.0 - f) * wp.max(0.0, -lead)",
            "wp.max(0.0, -lead), f + (1.0 - f) * wp.max(0.0, lead)",
        ),
        Mutant(
            "the lighter team scores nothing in a contested zone",
            ", f + (1.0 - f) * wp.max(0.0, -lead)",
            ", (1.0 - f) * wp.max(0.0, -lead)",
        ),
        Mutant("a single holder counts as contested", "if b > 0.0 and r > 0.0:", "if b > 0.0 or r > 0.0:"),
        Mutant("red holding alone scores for blue", "ticks[1] = 1.0", "ticks[0] = 1.0"),
        Mutant("a blue lead within the margin decides", "if a[0] > a[1] + margin:", "if a[0] > a[1]:"),
        Mutant("a tie is broken to red", "if a[1] > a[0] + margin:", "if a[1] >= a[0]:"),
        Mutant(
            "equal scores are not decided by hit points",
            "winner = index_of_larger(hp, DECISIVE_MARGIN)",
            "winner = index_of_larger(score, 0.0)",
        ),
        Mutant("a draw goes to blue", "winner = DRAW\n    return winner", "winner = 0\n    return winner"),
        Mutant("only blue wins by the zone", "if score[0] >= target or score[1] >= target:", "if score[0] >= target:"),
        Mutant(
            "the score that wins does not win",
            "target = rules.score_to_win - SCORE_ROUNDING",
            "target = rules.score_to_win + SCORE_ROUNDING",
        ),
        Mutant(
            "elimination takes both teams",
            "if living[0] == 0.0 or living[1] == 0.0:",
            "if living[0] == 0.0 and living[1] == 0.0:",
        ),
        Mutant("mutual elimination goes to red", "survivor = DRAW", "survivor = 1"),
        Mutant("a lone survivor draws", "index_of_larger(living, 0.0)", "index_of_larger(living, 1.0)"),
        Mutant(
            "the time limit comes one step late", "if step >= rules.max_decisions:", "if step > rules.max_decisions:"
        ),
        Mutant(
            "at the time limit hit points come before the score",
            "wp.vec2i(TIME_UP, winner_of(score, hp))",
            "wp.vec2i(TIME_UP, winner_of(hp, score))",
        ),
        Mutant("a match that has ended is scored again", "if outcome.ended[e] == 1:", "if outcome.over[e] == 1:"),
        Mutant("the dead hold the zone", "if mechs.alive[e, m] == 1:\n            t =", "if m >= 0:\n            t ="),
        Mutant("hit points of a team are those of its last mech", "hp[t] = hp[t] + mechs.hp", "hp[t] = mechs.hp"),
        Mutant("mechs in the zone weigh the same", "rules.chassis[mechs.chassis[e, m]].tonnage", "1.0"),
        Mutant("a step scores the seconds of a tick", "ticks * rules.dt_act", "ticks * rules.dt"),
        Mutant("steps are not counted", "step = episode.decision[e] + 1", "step = episode.decision[e]"),
        Mutant(
            "tonnage shown is the score", "episode_out.zone_tonnage[e] = tonnage", "episode_out.zone_tonnage[e] = ticks"
        ),
        Mutant("elimination truncates", "wp.where(reason == TIME_UP, 1, 0)", "wp.where(reason >= ELIMINATION, 1, 0)"),
        Mutant(
            "statistics hold the score before the step",
            "done_score[e] = score",
            "done_score[e] = episode.score[e] - ticks",
        ),
        Mutant(
            "statistics count steps from 0", "stats_out.done_length[e] = step", "stats_out.done_length[e] = step - 1"
        ),
        Mutant("the living go on after a win", "terminated = 1 - truncated", "terminated = 1 - mechs.alive[e, m]"),
        Mutant(
            "the time limit truncates the dead",
            "truncated = outcome.cut[e] * mechs.alive[e, m]",
            "truncated = outcome.cut[e]",
        ),
        Mutant(
            "a fight is timed in steps", "outcome.engaged[e, m] - rules.ticks_per_decision", "outcome.engaged[e, m] - 1"
        ),
        Mutant(
            "a mech that is hit and holds its fire is in no fight",
            "if events.fired[e, m] != 0 or events.was_hit[e, m] == 1:",
            "if events.fired[e, m] != 0:",
        ),
        Mutant(
            "returns go on in the next episode",
            "sum_return[e, m] = total * float(1 - over)",
            "sum_return[e, m] = total",
        ),
        Mutant(
            "the reward of the last step is missing from the return",
            "stats_out.done_return[e, m] = total",
            "stats_out.done_return[e, m] = total - reward[e, m]",
        ),
        Mutant(
            "sums of reward terms hold the last step only",
            "term = stats.sum_terms[e, m, i] + terms[e, m, i]",
            "term = terms[e, m, i]",
        ),
        Mutant(
            "a reset in an episode keeps the return",
            "stats_out.sum_return[e, m] = 0.0",
            "stats_out.sum_return[e, m] = stats_out.sum_return[e, m]",
        ),
        Mutant("a reset ignores its mask", "if fresh[e] == 0:", "if fresh[e] < 0:"),
        Mutant("a new episode stays ended", "outcome_out.ended[e] = 0", "outcome_out.ended[e] = 1"),
        Mutant(
            "fights go on in the next episode",
            "outcome_out.engaged[e, m] = 0",
            "outcome_out.engaged[e, m] = outcome_out.engaged[e, m]",
        ),
    ),
)
