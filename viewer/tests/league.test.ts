// League page: rating scale.

import { describe, expect, test } from "vitest";
import { scaleOf, shareOn } from "../src/hud/league_page";
import type { Standing } from "../src/protocol.gen";

const standing = (low: number, high: number) => ({ low, high, rating: (low + high) / 2 }) as Standing;

describe("scaleOf", () => {
  test("contains every interval and has few round ticks", () => {
    for (const rows of [[standing(812, 1290), standing(1650, 2071)], [standing(-300, 3900)], [standing(1499, 1501)]]) {
      const scale = scaleOf(rows);
      for (const row of rows) {
        expect(shareOn(scale, row.low)).toBeGreaterThanOrEqual(0);
        expect(shareOn(scale, row.high)).toBeLessThanOrEqual(1);
      }
      expect(scale.ticks.length).toBeGreaterThanOrEqual(1);
      expect(scale.ticks.length).toBeLessThanOrEqual(5);
      for (const tick of scale.ticks) {
        expect(tick % 10).toBeCloseTo(0, 9);
        expect(tick >= scale.low && tick <= scale.high).toBe(true);
      }
    }
  });

  test("centres a single certain rating", () => {
    const scale = scaleOf([standing(1500, 1500)]);
    expect(shareOn(scale, 1500)).toBe(0.5);
  });
});
