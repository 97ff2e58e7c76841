// The win probability in words: the favoured team, what the estimate rests on, and what changed it. Pure.

import { EVEN, type WinPoint, causesOf } from "../data/winprob";
import { SIDES, percentText } from "../text";

const MOST_CAUSES = 3;
const START_S = 2; // time from the start at which the estimate is that of the starting position [s]
const EVEN_SHARE = 0.05; // difference from 50 % up to which no team is the favourite

export function isEven({ p }: WinPoint): boolean {
  return Math.round(p * 100) === 50;
}

export function leaderText(point: WinPoint): string {
  const { p } = point;
  if (isEven(point)) return "Even";
  return p >= 0.5 ? `Blue ${percentText(p)}` : `Red ${percentText(1 - p)}`;
}

/** Return what moved the probability from one point to another, e.g. "hit points +12 % blue · painted +3 % red". */
export function causeText(from: WinPoint, to: WinPoint): string {
  return causesOf(from, to)
    .slice(0, MOST_CAUSES)
    .map(({ group, share }) => `${group} +${Math.round(Math.abs(share) * 100)} % ${share > 0 ? "blue" : "red"}`)
    .join(" · ");
}

/** Return what a probability rests on, compared with an even match. */
export function basisText(point: WinPoint, seconds: number): string {
  const from = seconds <= START_S ? "from the starting position" : "from the state of the match";
  return `Win probability, estimated ${from}: ${causeText(EVEN, point) || "both teams are even"}`;
}

const ADVANTAGES: Record<string, string> = {
  "zone control": "ahead in the zone",
  "distance to the zone": "closer to the zone",
  "knocked down": "with fewer mechs down",
  "leg damage": "with less leg damage",
  painted: "with fewer mechs painted",
};

/** Return the favourite that does not lead in points, with what it is ahead in; null if the leader is the favourite. */
export function aheadText(point: WinPoint, leader: number): { team: 0 | 1; text: string } | null {
  const team = point.p > 0.5 ? 0 : 1;
  if (team === leader || Math.abs(point.p - 0.5) < EVEN_SHARE) return null;
  const cause = causesOf(EVEN, point).find(({ share }) => share > 0 === (team === 0));
  return cause ? { team, text: `${SIDES[team]} ${ADVANTAGES[cause.group] ?? `ahead in ${cause.group}`}` } : null;
}

/** Return who is the favourite at the start and why, or that there is none; "" later. */
export function startText(point: WinPoint | null, seconds: number): string {
  if (!point || seconds > START_S) return "";
  if (Math.abs(point.p - 0.5) < EVEN_SHARE)
    return `Even at the start: Blue ${percentText(point.p)}, Red ${percentText(1 - point.p)} to win`;
  const team = point.p > 0.5 ? 0 : 1;
  const ahead = causesOf(EVEN, point).filter(({ share }) => share > 0 === (team === 0));
  const names = ahead.slice(0, MOST_CAUSES).map(({ group }) => group);
  const why = names.length > 0 ? `: ahead in ${names.join(" and ")}` : "";
  return `${SIDES[team]} is the favourite at the start, ${percentText(Math.max(point.p, 1 - point.p))}${why}`;
}
