// Win probability of blue in a frame, for matches flown in the browser and files without INDEX: the counterpart of
// echelon/replay/winprob.py with the same coefficients (winprob.json is a copy of the package's file). Swapping the
// teams gives exactly 1 - p. Pure.

import { type Header, MechFlag, WIN_GROUPS } from "../protocol.gen";
import model from "../winprob.json";
import type { Chunk } from "./replay";

const RATING_POINTS = 400 / Math.log(10); // rating points per unit of the logarithm of the odds
const MAX_SKILL = 4; // largest difference of ratings that counts [unit of the logarithm of the odds]
const TRAVEL_LIMIT_S = 30; // longest time to the zone that counts [s]
const TRAVEL_S = 10; // unit of the travel time [s]
const LEGGED_SPEED = 0.4; // speed of a mech with a destroyed leg, as a share
const SIZE = 5; // mechs per team at which features of team size are zero
const LATE_S = 10; // seconds before the time limit at which the score counts half as much as at the end
const CLOSE_S = 6; // seconds of zone points before the limit over which its attraction falls by a factor e
const HP_FLOOR = 0.05; // added to the shares of hit points
const LEAD_S = 2; // lead in zone points that is nearly as good as any other when the time is up [s]
const UNKNOWN = { hp: 100, leg_hp: 50, max_speed: 5 }; // a mech of an unknown class

const LEAST = 1 / 65535; // least probability that a file stores of a match that is not decided
const PILOTS = "rating";
/** Quantities that the probability rests on; the part of the rating is what those of WIN_GROUPS leave of the logit. */
export const GROUPS = [...WIN_GROUPS, PILOTS] as const;
type Group = (typeof GROUPS)[number];

/** Return the lead of blue's rating [unit of the logarithm of the odds], null where one is unknown. */
export function skillOf({ teams }: Header): number | null {
  const [blue, red] = teams.map(({ rating }) => rating);
  if (blue === undefined || red === undefined) return null;
  return Math.max(-MAX_SKILL, Math.min(MAX_SKILL, (blue - red) / RATING_POINTS));
}

/** A value of blue and of red. */
type Pair = [number, number];

/** State of a match in one frame: sums over each team. */
interface Situation {
  present: Pair;
  alive: Pair;
  hp: Pair; // hit points of the living
  full: Pair; // hit points of all at the start
  legs: Pair; // share of leg hit points, summed over the living
  down: Pair; // living mechs that are fallen or shut down
  painted: Pair;
  inZone: Pair; // hit points at the start of the living mechs in the zone
  travel: Pair; // seconds to the zone at full speed, summed over the living
  score: Pair;
  limit: number; // zone points that win
  left: number; // [s]
  skill: number; // lead of blue's rating, 0 unknown
}

export function situationOf(header: Header, chunk: Chunk, frame: number): Situation {
  const zero = (): Pair => [0, 0];
  const s: Situation = {
    present: zero(),
    alive: zero(),
    hp: zero(),
    full: zero(),
    legs: zero(),
    down: zero(),
    painted: zero(),
    inZone: zero(),
    travel: zero(),
    score: [chunk.score[frame * 2], chunk.score[frame * 2 + 1]],
    limit: Math.max(1, header.score_to_win),
    left: Math.max(0, Math.max(1, header.duration_s) - chunk.tick[frame] / header.tick_hz),
    skill: skillOf(header) ?? 0,
  };
  const [zoneX, zoneY, radius] = header.zone;
  const { x, y, hp, leg_hp: legs, flags } = chunk.mech;
  header.roster.forEach(({ team, chassis, present }, mech) => {
    if (present === false) return;
    const at = frame * chunk.mechs + mech;
    const spec = header.chassis[chassis] ?? UNKNOWN;
    const full = Math.max(1, spec.hp);
    s.present[team]++;
    s.full[team] += full;
    if (!(flags[at] & MechFlag.ALIVE)) return;
    const [dx, dy] = [x[at] - zoneX, y[at] - zoneY];
    const distance = Math.sqrt(dx * dx + dy * dy);
    const speed = Math.max(1, spec.max_speed) * (flags[at] & MechFlag.LEGGED ? LEGGED_SPEED : 1);
    s.alive[team]++;
    s.hp[team] += hp[at];
    s.legs[team] += Math.min(1, Math.max(0, legs[at] / Math.max(1, spec.leg_hp)));
    s.down[team] += flags[at] & (MechFlag.FALLEN | MechFlag.SHUTDOWN) ? 1 : 0;
    s.painted[team] += flags[at] & MechFlag.PAINTED ? 1 : 0;
    s.inZone[team] += distance < radius ? full : 0;
    s.travel[team] += Math.min(TRAVEL_LIMIT_S, Math.max(0, distance - radius) / speed);
  });
  return s;
}

const difference = ([blue, red]: Pair): number => blue - red;

/** Return the difference as a share of the sum, 0 where both are 0. */
const balance = ([blue, red]: Pair): number => (blue + red > 0 ? (blue - red) / (blue + red) : 0);

const pair = (of: (team: 0 | 1) => number): Pair => [of(0), of(1)];

/** Return a sum over the living as a mean of them. */
const mean = (s: Situation, total: Pair): Pair => pair((team) => total[team] / Math.max(1, s.alive[team]));

/** Return the logarithm of the ratio of the shares of hit points. */
function ratio(s: Situation): number {
  const [blue, red] = pair((team) => Math.log(s.hp[team] / Math.max(1, s.full[team]) + HP_FLOOR));
  return blue - red;
}

const late = (s: Situation): number => LATE_S / (LATE_S + s.left);

/** Return how near each team is to the points that win, 1 at the limit. */
const close = (s: Situation): Pair => pair((team) => Math.exp(-Math.max(0, s.limit - s.score[team]) / CLOSE_S));

const size = (s: Situation): number => Math.log2(Math.max(1, (s.present[0] + s.present[1]) / 2) / SIZE);

const share = ({ alive, present }: Situation): number => (alive[0] + alive[1]) / Math.max(1, present[0] + present[1]);

/** A value that changes its sign when the teams are swapped; `group` is the quantity as the page names it. */
interface Feature {
  readonly name: string;
  readonly group: Group;
  readonly value: (s: Situation) => number;
}

const feature = (name: string, group: Group, value: (s: Situation) => number): Feature => ({ name, group, value });

/** The inputs of the model, in the order of its coefficients. */
export const FEATURES: readonly Feature[] = [
  feature("alive", "mechs alive", (s) => balance(s.alive)),
  feature("alive_size", "mechs alive", (s) => balance(s.alive) * size(s)),
  feature("hp", "hit points", (s) => balance(s.hp)),
  feature("hp_ratio", "hit points", ratio),
  feature("hp_size", "hit points", (s) => balance(s.hp) * size(s)),
  feature("hp_late", "hit points", (s) => balance(s.hp) * late(s)),
  feature("lead", "zone points", (s) => difference(s.score) / s.limit),
  feature("lead_late", "zone points", (s) => Math.tanh(difference(s.score) / LEAD_S) * late(s)),
  feature("close", "zone points", (s) => difference(close(s))),
  feature("zone", "zone control", (s) => balance(s.inZone)),
  feature("zone_late", "zone control", (s) => balance(s.inZone) * late(s)),
  feature("zone_close", "zone control", (s) => balance(s.inZone) * Math.max(...close(s))),
  feature("travel", "distance to the zone", (s) => difference(mean(s, s.travel)) / -TRAVEL_S),
  feature("down", "knocked down", (s) => -difference(mean(s, s.down))),
  feature("legs", "leg damage", (s) => difference(mean(s, s.legs))),
  feature("painted", "painted", (s) => -difference(mean(s, s.painted))),
  feature("skill", PILOTS, (s) => s.skill),
  feature("skill_alive", PILOTS, (s) => s.skill * share(s)),
  feature("skill_late", PILOTS, (s) => s.skill * late(s)),
];

const GROUP_OF = FEATURES.map(({ group }) => GROUPS.indexOf(group));

/** The logistic function; sigmoid(-z) is exactly 1 - sigmoid(z). */
export function sigmoid(z: number): number {
  const upper = 1 / (1 + Math.exp(-Math.abs(z)));
  return z >= 0 ? upper : 1 - upper;
}

/** Return the logarithm of the odds of a probability, at most those of what a file can store. */
export function logitOf(p: number): number {
  const within = Math.max(LEAST, Math.min(1 - LEAST, p));
  return Math.log(within / (1 - within));
}

/** Win probability of blue at one tick. */
export interface WinPoint {
  readonly tick: number;
  readonly p: number;
  readonly low: number; // ends of the 90 % band
  readonly high: number;
  readonly logit: number;
  readonly parts: readonly number[]; // part of each of GROUPS in the logit
}

export function featuresOf(header: Header, chunk: Chunk, frame: number): number[] {
  const situation = situationOf(header, chunk, frame);
  return FEATURES.map(({ value }) => value(situation));
}

export function winPoint(header: Header, chunk: Chunk, frame: number): WinPoint {
  const parts = GROUPS.map(() => 0);
  featuresOf(header, chunk, frame).forEach((value, i) => (parts[GROUP_OF[i]] += value * model.weights[i]));
  const logit = parts.reduce((sum, part) => sum + part, 0);
  const spread = model.spread[skillOf(header) === null ? 1 : 0];
  return {
    tick: chunk.tick[frame],
    p: sigmoid(logit),
    low: sigmoid(logit - spread),
    high: sigmoid(logit + spread),
    logit,
    parts,
  };
}

/** What a group of features adds to the probability of blue, as a share: positive for blue, negative for red. */
export interface Cause {
  readonly group: string;
  readonly share: number;
}

/** Return what moved the win probability from one point to another, largest first, without what did little. */
export function causesOf(from: WinPoint, to: WinPoint, least = 0.02): Cause[] {
  return GROUPS.map((group, g) => ({ group, share: to.p - sigmoid(to.logit - (to.parts[g] - from.parts[g])) }))
    .filter(({ share }) => Math.abs(share) >= least)
    .sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
}

export const EVEN: WinPoint = { tick: 0, p: 0.5, low: 0.5, high: 0.5, logit: 0, parts: GROUPS.map(() => 0) };
