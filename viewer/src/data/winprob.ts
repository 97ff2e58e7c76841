// The win probability of blue over a match, as echelon/replay/winprob.py estimates it and the index stores it. Pure.

import { type Header, WIN_GROUPS, type WinSeries } from "../protocol.gen";

const LEAST = 1 / 65535; // least probability that a file stores of a match that is not decided
/** Quantities that the probability rests on; the part of the rating is what those of WIN_GROUPS leave of the logit. */
const GROUPS = [...WIN_GROUPS, "rating"] as const;

/** Return whether the ratings of both teams are known. */
export function isRated({ teams }: Header): boolean {
  return teams.every(({ rating }) => rating !== undefined);
}

/** The logistic function; sigmoid(-z) is exactly 1 - sigmoid(z). */
export function sigmoid(z: number): number {
  const upper = 1 / (1 + Math.exp(-Math.abs(z)));
  return z >= 0 ? upper : 1 - upper;
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

export class WinCurve {
  /** `points` are in order of time. */
  constructor(readonly points: readonly WinPoint[]) {}

  static of({ tick, blue, low, high, parts }: WinSeries): WinCurve {
    const points = tick.map((at, i): WinPoint => {
      const own = parts.map((part) => part[i]);
      const within = Math.max(LEAST, Math.min(1 - LEAST, blue[i]));
      const logit = Math.log(within / (1 - within));
      const pilots = logit - own.reduce((sum, part) => sum + part, 0);
      return { tick: at, p: blue[i], low: low[i], high: high[i], logit, parts: [...own, pilots] };
    });
    return new WinCurve(points);
  }

  /** Return the point at or before a tick, or null before the first one. */
  at(tick: number): WinPoint | null {
    let [low, high] = [0, this.points.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.points[middle].tick <= tick) low = middle + 1;
      else high = middle;
    }
    return this.points[low - 1] ?? null;
  }
}

/** The series of a match whose win probability is unknown. */
export const NO_WIN: WinSeries = { tick: [], blue: [], low: [], high: [], parts: WIN_GROUPS.map(() => []) };
