// What may be shown without telling how a match goes on. Pure.

import { lastTick } from "./control";
import type { IndexView } from "./protocol.gen";
import type { MatchState, ViewerState } from "./state";

type Seen = Pick<ViewerState, "showSpoilers" | "tick">;

/** Return whether what a recording has at a tick may be shown; without one, what lies ahead of the cursor. */
export function mayShow({ showSpoilers, tick }: Seen, at = Infinity): boolean {
  return showSpoilers || at <= tick;
}

/** Return the tick at which axes of time end: the match's last, or its time limit where that would tell its length. */
export function shownEnd(state: Seen, match: MatchState): number {
  const { duration_s, tick_hz } = match.header;
  return mayShow(state) ? lastTick(match) : Math.max(lastTick(match), duration_s * tick_hz);
}

/** Return those of some values whose times are up to a second. */
export function seenValues(values: ArrayLike<number>, seconds: ArrayLike<number>, until: number): number[] {
  return Array.from(values).filter((_, row) => seconds[row] <= until);
}

/** Return the index of a match as if it were recorded up to a second. */
export function seenIndex(index: IndexView, seconds: number): IndexView {
  const { second, ...curves } = index.series;
  const rows = second.filter((at) => at <= seconds).length;
  const seen = Object.entries(curves).map(([name, teams]) => [name, teams.map((values) => values.slice(0, rows))]);
  return { ...index, outcome: null, series: { second: second.slice(0, rows), ...Object.fromEntries(seen) } };
}
