"""Oracle of the match in plain Python: zone scores, outcome, done flags and rewards."""

import numpy as np

from echelon.env.reward import TERM_NAMES
from tests.oracles.orders import obedience
from tests.oracles.shared import MECHS, count, flat, hostile, living

ZONE, ELIMINATION, TIME = 1, 2, 3
ENGAGED_TICKS, TICKS_PER_STEP = 40, 5
BLUE, RED, DRAW, UNDECIDED = 0, 1, 2, -1


def inside(s, m: int) -> bool:
    """Return whether a mech is in the zone, at any height."""
    return flat(s.pos[m][:2] - s.zone[:2]) < s.zone[2]


def tonnage(s) -> np.ndarray:
    tons = np.zeros(2)
    for m in living(s):
        tons[s.team[m]] += MECHS[s.chassis[m]].tonnage * inside(s, m)
    return tons


def zone_ticks(tons: np.ndarray) -> np.ndarray:
    if (tons > 0).all():
        lead = (tons[0] - tons[1]) / tons.sum()
        return 0.25 + 0.75 * np.maximum(0, [lead, -lead])
    return (tons > 0).astype(float)


def larger(values, margin: float) -> int:
    if values[0] > values[1] + margin:
        return BLUE
    return RED if values[1] > values[0] + margin else UNDECIDED


def by_points(score, hp) -> int:
    """Return the winner by score, then by sum of hit points, else a draw."""
    for values in (score, hp):
        if larger(values, 1e-3) != UNDECIDED:
            return larger(values, 1e-3)
    return DRAW


def call(s, *, limit: int, win: float, dt_act: float = 0.25) -> tuple[int, int]:
    """Score a decision; return (reason, winner), 0 and UNDECIDED while the match continues."""
    s.zone_tonnage[:] = tonnage(s)
    s.zone_tick[:] = zone_ticks(tonnage(s))
    s.score[:] += s.zone_tick * np.float32(dt_act)
    s.decision += 1
    hp, alive = np.zeros(2), np.zeros(2)
    for m in living(s):
        hp[s.team[m]] += s.hp[m]
        alive[s.team[m]] += 1
    if s.score.max() >= win - 1e-4:
        return ZONE, by_points(s.score, hp)
    if not alive.all():
        return ELIMINATION, DRAW if not alive.any() else larger(alive, 0)
    if s.decision >= limit:
        return TIME, by_points(s.score, hp)
    return 0, UNDECIDED


def flags(s, reason: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (terminated, truncated) of every mech."""
    dead = s.alive == 0
    if reason == 0:
        return dead, np.zeros(count(s), bool)
    return (dead, ~dead) if reason == TIME else (np.ones(count(s), bool), np.zeros(count(s), bool))


def referee(s, *, limit: int, win: float) -> None:
    """End a step: score and verdict unless the match has ended, done flags, mechs in a fight, sums of rewards."""
    s.over = s.timed_out = 0
    if not s.ended:
        s.reason, s.winner = call(s, limit=limit, win=win)
        s.over = s.ended = int(s.reason > 0)
        s.timed_out = int(s.reason == TIME)
    s.terminated, s.truncated = flags(s, int(s.reason) if s.over else 0)
    fighting = (s.fired != 0) | (s.was_hit == 1)
    s.engaged = np.where(fighting, ENGAGED_TICKS, np.maximum(0, s.engaged - TICKS_PER_STEP))
    s.sum_return, s.sum_terms = s.sum_return + s.reward, s.sum_terms + s.terms
    if s.over:
        store_statistics(s)
        s.sum_return, s.sum_terms = 0 * s.sum_return, 0 * s.sum_terms


def store_statistics(s) -> None:
    s.done_count += 1
    s.done_seed, s.done_length, s.done_winner, s.done_reason = s.seed, s.decision, s.winner, s.reason
    s.done_score, s.done_return, s.done_terms = s.score, s.sum_return, s.sum_terms
    s.done_hp = [sum(float(s.hp[m]) for m in living(s) if s.team[m] == team) for team in (BLUE, RED)]
    s.done_alive, s.done_present = s.alive, s.present


def begin_statistics(s) -> None:
    s.ended, s.engaged, s.sum_return, s.sum_terms = 0, 0 * s.engaged, 0 * s.sum_return, 0 * s.sum_terms


def potential(s, m: int) -> float:
    """Return the negative distance to the zone in map widths, halved for each other teammate inside."""
    others = sum(1 for j in living(s) if j != m and not hostile(s, m, j) and inside(s, j))
    return -flat(s.pos[m][:2] - s.zone[:2]) / max(s.size[:2]) * 0.5**others


def terminal_reasons(cfg) -> tuple[int, ...]:
    """Endings after which the potential is 0; the time limit is one unless the learner bootstraps there."""
    return (ZONE, ELIMINATION) if cfg.truncation_bootstraps else (ZONE, ELIMINATION, TIME)


def reward_amounts(before, after, reason: int, cfg) -> np.ndarray:
    """Return the unweighted terms of one decision in the order of ``TERM_NAMES``, 0 for absent mechs."""
    w = cfg.reward
    parts = np.zeros((count(after), len(TERM_NAMES)))
    for m in np.flatnonzero(after.present):
        hot = inside(after, m) and (after.zone_tonnage > 0).all()
        gain, loss = (w.contested_offense, w.contested_death) if hot else (1.0, 1.0)
        ends = not after.alive[m] or reason in terminal_reasons(cfg)
        shaping = cfg.gamma * (0.0 if ends else potential(after, m)) - potential(before, m) if before.alive[m] else 0.0
        zone = after.zone_tick[after.team[m]] if after.alive[m] and inside(after, m) else 0.0
        amounts = {
            "approach": shaping,
            "zone": zone,
            "damage": gain * after.dealt[m],
            "kill": gain * after.kills[m],
            "assist": gain * after.assists[m],
            "death": loss * after.died[m],
            "obey": obedience(after, m, before.order_goal[m]),
            "zone_lead": after.zone_tick[after.team[m]] - after.zone_tick[1 - after.team[m]],
        }
        parts[m, :-1] = [amounts[name] for name in TERM_NAMES[:-1]]
    return parts


def rewards(before, after, reason: int, winner: int, cfg) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted terms in the order of ``TERM_NAMES``, and the rewards of one decision."""
    w = cfg.reward
    parts = reward_amounts(before, after, reason, cfg) * [*(getattr(w, name) for name in TERM_NAMES[:-1]), 0.0]
    own = parts.sum(axis=1)
    mixed = own.copy()
    for team in (BLUE, RED):
        members = after.present.astype(bool) & (after.team == team)
        if members.any():
            mixed[members] = w.team_alpha * own[members] + (1 - w.team_alpha) * own[members].mean()
    if reason:
        for m in np.flatnonzero(after.present):
            parts[m, -1] = w.draw if winner == DRAW else (w.win if winner == after.team[m] else w.loss)
    return parts, mixed + parts[:, -1]
