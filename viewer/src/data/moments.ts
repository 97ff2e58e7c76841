// Lookups in the turning points of a match, which echelon/replay/moments.py finds. Pure.

import type { Moment } from "../protocol.gen";

const APART = 0.5; // turning points this close to the cursor count as the current one [ticks]

/** Return the first moment whose start is after a tick, or the last one before it by more than `grace`; or null. */
export function nextMoment(
  moments: readonly Moment[],
  start: (moment: Moment) => number,
  tick: number,
  step: 1 | -1,
  grace = 0,
): Moment | null {
  if (step > 0) return moments.find((moment) => start(moment) > tick + APART) ?? null;
  return moments.findLast((moment) => start(moment) < tick - grace - APART) ?? null;
}

/** Return the moment that is shown at a tick: from just before it until a few seconds later; or null. */
export function momentAt(moments: readonly Moment[], tick: number, hz: number): Moment | null {
  const [before, after] = [0.25 * hz, 4 * hz];
  return moments.findLast((moment) => tick >= moment.tick - before && tick <= moment.tick + after) ?? null;
}

/** Return the most important moment, or null. */
export function topMoment(moments: readonly Moment[]): Moment | null {
  return moments.find(({ rank }) => rank === 1) ?? null;
}
