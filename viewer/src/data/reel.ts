// Highlight reel of a match: the spans of time around its most important moments. Pure.

export const REEL_S = 20; // length of a reel [s]
const ENDING_S = 3; // time before the end of the match that every reel shows [s]
const JOIN_S = 1; // spans closer than this become one [s]
const WIDENINGS = 8; // rounds in which spans are lengthened until they fill the reel
const LEAD_SHARE = 0.6; // share of the added time that comes before a span

/** Part of a match [s]. */
export type Span = readonly [start: number, end: number];

export interface Candidate {
  readonly from: number; // [s]
  readonly to: number; // [s]
  readonly rank: number; // 1 is the most important
}

/** Return spans within a match in order of time, those that touch or nearly touch as one. */
function joined(spans: readonly Span[], seconds: number): Span[] {
  const result: Span[] = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const [start, end] = [Math.max(0, from), Math.min(seconds, to)];
    const last = result.at(-1);
    if (last && start - last[1] < JOIN_S) result[result.length - 1] = [last[0], Math.max(last[1], end)];
    else result.push([start, end]);
  }
  return result;
}

/** Return the length of spans [s]. */
export function totalLength(spans: readonly Span[]): number {
  return spans.reduce((sum, [start, end]) => sum + end - start, 0);
}

/** Return the spans of a reel in order of time; the best-ranked moments are first to be in it. */
export function chooseSpans(moments: readonly Candidate[], seconds: number, length = REEL_S): Span[] {
  if (seconds <= length) return [[0, seconds]];
  let spans: Span[] = [[Math.max(0, seconds - ENDING_S), seconds]];
  for (const { from, to } of [...moments].sort((a, b) => a.rank - b.rank)) {
    const longer = joined([...spans, [from, to]], seconds);
    if (totalLength(longer) <= length) spans = longer;
  }
  let share = 1;
  for (let round = 0; round < WIDENINGS; round++) {
    const added = (share * (length - totalLength(spans))) / spans.length;
    const [before, after] = [added * LEAD_SHARE, added * (1 - LEAD_SHARE)];
    const longer = joined(
      spans.map(([start, end]): Span => [start - before, end + after]),
      seconds,
    );
    if (totalLength(longer) <= length) spans = longer;
    else share /= 2; // joining filled gaps
  }
  return spans;
}
