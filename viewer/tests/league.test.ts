import { describe, expect, test } from "vitest";
import { endText, scaleOf, shareOn } from "../src/hud/league_page";
import type { LeagueMatch, Standing } from "../src/protocol.gen";
import { leagueHash, parseRoute } from "../src/routes";

const standing = (low: number, high: number) => ({ low, high, rating: (low + high) / 2 }) as Standing;

describe("the scale of ratings", () => {
  test("holds every interval, with round figures few enough to be read", () => {
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

  test("is in the middle where everybody is sure", () => {
    const scale = scaleOf([standing(1500, 1500)]);
    expect(shareOn(scale, 1500)).toBe(0.5);
  });
});

describe("the address of the league", () => {
  test("goes there and back, whatever an entry is called", () => {
    for (const entry of ["", "heuristic:medium", "a b&c=#1", "süß"]) expect(parseRoute(leagueHash(entry)).league).toBe(entry);
  });

  test("is not that of the list, and nothing unprintable gets through", () => {
    expect(parseRoute("").league).toBeUndefined();
    expect(parseRoute("#match=abc").league).toBeUndefined();
    expect(parseRoute("#league=a%00b").league).toBeUndefined();
    expect(parseRoute(`#league=${"x".repeat(201)}`).league).toBeUndefined();
  });
});

describe("the end of a match", () => {
  const match = (fields: Partial<LeagueMatch>) => endText({ state: "played", reason: "zone_control", note: "", seconds: 72, ...fields } as LeagueMatch);

  test("says how and when, or why there is none", () => {
    expect(match({})).toBe("zone held, 1:12");
    expect(match({ reason: "some_new_reason", seconds: null })).toBe("some new reason");
    expect(match({ state: "void", note: "the pilot could not be loaded" })).toBe("the pilot could not be loaded");
    expect(match({ state: "void" })).toBe("void");
  });
});
