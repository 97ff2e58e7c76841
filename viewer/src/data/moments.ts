// Turning points of a match, as the server or an exported page gives them; echelon/replay/moments.py finds them.

/** A turning point; probabilities are those of blue. */
export interface Moment {
  readonly tick: number;
  readonly second: number;
  readonly from: number; // start of the time that shows it [s]
  readonly to: number; // end of that time [s]
  readonly kind: string;
  readonly rank: number; // 1 is the most important
  readonly team: number; // team that acts or gains, -1 for none
  readonly before: number;
  readonly after: number;
  readonly caption: string; // a sentence with the time
}

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

/** Return the moments embedded in an exported page; none in pages of earlier versions. */
export function embeddedMoments(): readonly Moment[] {
  const text = document.getElementById("echelon-moments")?.textContent;
  return text ? (JSON.parse(text) as { moments: Moment[] }).moments : [];
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
