// Lookups in the turning points of a match, which echelon/replay/moments.py finds. Pure.

import type { IndexView, Moment } from "../protocol.gen";

const APART = 0.5; // turning points this close to the cursor count as the current one [ticks]
const [BEFORE_S, AFTER_S] = [1, 0.5]; // time around kills between which the win probability changes by them [s]
const LEAD_OUT_S = 1.5; // time from a moment's last event to the end of what shows it [s]
export const COMEBACK = "comeback";

/** Return the first moment whose start is after a tick, or the last one before it by more than `grace`; or null. */
export function nextMoment(
  moments: readonly Moment[],
  start: (moment: Moment) => number,
  tick: number,
  step: 1 | -1,
  grace = 0,
): Moment | null {
  const sorted = [...moments].sort((a, b) => start(a) - start(b));
  if (step > 0) return sorted.find((moment) => start(moment) > tick + APART) ?? null;
  return sorted.findLast((moment) => start(moment) < tick - grace - APART) ?? null;
}

/**
 * Return the ticks whose win probability a moment's caption compares; at the second one all that it tells has happened.
 * A comeback has when the match ends.
 */
export function spanOf(
  { kind, tick, to }: Moment,
  { chunks }: Pick<IndexView, "chunks">,
  hz: number,
): [number, number] {
  const last = chunks.at(-1)?.[1] ?? 0;
  if (kind === COMEBACK) return [tick, last];
  const [before, after] = kind === "swing" || kind === "hold" ? [0, 0] : [BEFORE_S, AFTER_S];
  return [Math.max(0, tick - before * hz), Math.min(last, Math.round((to - LEAD_OUT_S + after) * hz))];
}

/** Return the most important moment, or null. */
export function topMoment(moments: readonly Moment[]): Moment | null {
  return moments.find(({ rank }) => rank === 1) ?? null;
}
