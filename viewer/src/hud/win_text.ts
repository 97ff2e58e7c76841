// The win probability in words: the favoured team, what the estimate rests on, and what changed it. Pure.

import { EVEN, type WinPoint, causesOf } from "../data/winprob";
import type { AskedPoint } from "../state";
import { MOST_CAUSES, SIDES, causeText, groupText, percentText } from "../text";

const START_S = 2; // time from the start at which the estimate is that of the starting position [s]
const EVEN_SHARE = 0.05; // difference from 50 % up to which no team is the favourite

export function isEven({ p }: WinPoint): boolean {
  return Math.round(p * 100) === 50;
}

/** Return what continuations from a moment gave, e.g. "what if: blue 58 % (46 % to 70 %), 64 continuations". */
export function askedText({ p, low, high, runs }: AskedPoint): string {
  return `what if: blue ${percentText(p)} (${percentText(low)} to ${percentText(high)}), ${runs} continuations`;
}

/** Return what a probability rests on, compared with an even match. */
export function basisText(point: WinPoint, seconds: number): string {
  const from = seconds <= START_S ? "from the starting position" : "from the state of the match";
  return `Win probability of blue, estimated ${from}: ${causeText(EVEN, point) || "both teams are even"}`;
}

/** Return who is the favourite at the start and why, or that there is none; "" later. */
export function startText(point: WinPoint | null, seconds: number): string {
  if (!point || seconds > START_S) return "";
  if (Math.abs(point.p - 0.5) < EVEN_SHARE) return `Even at the start: blue ${percentText(point.p)} to win`;
  const team = point.p > 0.5 ? 0 : 1;
  const ahead = causesOf(EVEN, point).filter(({ share }) => share > 0 === (team === 0));
  const names = ahead.slice(0, MOST_CAUSES).map(({ group }) => groupText(group));
  const why = names.length > 0 ? `: ahead in ${names.join(" and ")}` : "";
  return `${SIDES[team]} is the favourite at the start${why}; blue ${percentText(point.p)} to win`;
}
