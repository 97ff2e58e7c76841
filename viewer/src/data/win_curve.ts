// The win probability over a match, from the points of its index. Pure.

import { WIN_GROUPS, type WinSeries } from "../protocol.gen";
import { type WinPoint, logitOf } from "./winprob";

export class WinCurve {
  /** `points` are in order of time. */
  constructor(readonly points: readonly WinPoint[]) {}

  static of({ tick, blue, low, high, parts }: WinSeries): WinCurve {
    const points = tick.map((at, i): WinPoint => {
      const own = parts.map((part) => part[i]);
      const logit = logitOf(blue[i]);
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

export function seriesOf(points: readonly WinPoint[]): WinSeries {
  return {
    tick: points.map(({ tick }) => tick),
    blue: points.map(({ p }) => p),
    low: points.map(({ low }) => low),
    high: points.map(({ high }) => high),
    parts: WIN_GROUPS.map((_, g) => points.map(({ parts }) => parts[g])),
  };
}
