// League page: rating scale, addresses, paging, and head-to-head table.

import { describe, expect, test, vi } from "vitest";
import type { Api } from "../src/client";
import { ALL_MATCHES, type LeagueFilter, normalizeFilter, mergeNewest } from "../src/data/league";
import { matchEndText } from "../src/hud/league_matches";
import { scaleOf, shareOn } from "../src/hud/league_page";
import { pairText, cycleText, cellColour, visibleEntries } from "../src/hud/head_to_head";
import { LeagueSession } from "../src/league_session";
import { VERDICT_COLOURS } from "../src/palette";
import type { LeagueMatch, Pair, Standing } from "../src/protocol.gen";
import { leagueHash, parseRoute } from "../src/routes";
import { defaults } from "../src/state";

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

describe("league addresses", () => {
  test("round-trip any entry name", () => {
    for (const entry of ["", "heuristic:medium", "a b&c=#1", "süß"])
      expect(parseRoute(leagueHash({ entry })).league).toEqual({ ...ALL_MATCHES, entry });
    const choices: LeagueFilter[] = [
      { entry: "a", against: "b&c", outcome: "won" },
      { entry: "a", against: "", outcome: "draw" },
      { entry: "", against: "", outcome: "blue" },
    ];
    for (const filter of choices) expect(parseRoute(leagueHash(filter)).league).toEqual(filter);
    expect(leagueHash({})).toBe("#league");
  });

  test("ignore inconsistent filters", () => {
    expect(parseRoute("#league=&against=b&outcome=won").league).toEqual(ALL_MATCHES);
    expect(parseRoute("#league=a&outcome=blue").league).toEqual({ ...ALL_MATCHES, entry: "a" });
    expect(parseRoute("#league=a&against=x%00y&outcome='--").league).toEqual({ ...ALL_MATCHES, entry: "a" });
    expect(normalizeFilter({ entry: "", against: "", outcome: "lost" })).toEqual(ALL_MATCHES);
  });

  test("are distinct from list addresses and reject unprintable ids", () => {
    expect(parseRoute("").league).toBeUndefined();
    expect(parseRoute("#match=abc").league).toBeUndefined();
    expect(parseRoute("#league=a%00b").league).toBeUndefined();
    expect(parseRoute(`#league=${"x".repeat(201)}`).league).toBeUndefined();
  });
});

describe("matchEndText", () => {
  const match = (fields: Partial<LeagueMatch>) =>
    matchEndText({ state: "played", reason: "zone_control", note: "", seconds: 72, ...fields } as LeagueMatch);

  test("returns reason and time, or why the match was not played", () => {
    expect(match({})).toBe("zone held, 1:12");
    expect(match({ reason: "some_new_reason", seconds: null })).toBe("some new reason");
    expect(match({ state: "void", note: "the pilot could not be loaded" })).toBe("the pilot could not be loaded");
    expect(match({ state: "void" })).toBe("void");
  });
});

const row = (id: number, more: Partial<LeagueMatch> = {}) =>
  ({ id, state: "played", winner: "blue", ...more }) as LeagueMatch;
const rows = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, i) => row(from - i));
const ids = (matches: readonly LeagueMatch[]) => matches.map((match) => match.id);

describe("mergeNewest", () => {
  const known = rows(500, 1);

  test("prepends new matches and keeps older ones", () => {
    expect(ids(mergeNewest(known, rows(510, 311), 200))).toEqual(ids(rows(510, 1)));
  });

  test("updates known matches and inserts late ones", () => {
    const fresh = rows(500, 301).filter((match) => match.id !== 400);
    const seen = mergeNewest(
      mergeNewest([], fresh, 199),
      rows(500, 301).map((match) => (match.id === 350 ? row(350, { match: "ab" }) : match)),
      200,
    );
    expect(ids(seen)).toEqual(ids(rows(500, 301)));
    expect(seen.find((match) => match.id === 350)?.match).toBe("ab");
  });

  test("returns the same list without changes, and drops deleted matches", () => {
    expect(mergeNewest(known, rows(500, 301), 200)).toBe(known);
    expect(mergeNewest(rows(9, 1), rows(9, 3), 200)).toHaveLength(7);
    const few = rows(9, 1);
    expect(mergeNewest(few, rows(9, 1), 200)).toBe(few);
  });
});

/** Return a session on a fake API with a number of matches, which records its requests. */
function served(count: number) {
  let newest = count;
  const asked: string[] = [];
  const api = {
    league: async () => ({ standings: [standing(1400, 1600)], unfinished: [], total: newest, matches: [] }),
    leaguePairs: async () => ({ total: 0, entries: [], pairs: [], cycles: [] }),
    leagueMatches: async (filter: LeagueFilter, limit: number, before = Infinity) => {
      asked.push(`${filter.entry} ${limit} ${before}`);
      expect(limit).toBeLessThanOrEqual(200);
      const step = filter.entry === "" ? 1 : 2; // half of all matches are the entry's
      const all = rows(newest, 1).filter((match) => match.id % step === 0);
      return { total: all.length, matches: all.filter((match) => match.id < before).slice(0, limit) };
    },
  } as unknown as Api;
  const state = defaults();
  state.page = "league";
  return { state, asked, session: new LeagueSession(state, api), play: (more: number) => (newest += more) };
}

describe("LeagueSession", () => {
  test("loads ten thousand matches once each, in bounded pages", async () => {
    const { state, session, asked } = served(10_000);
    await session.setFilter(ALL_MATCHES);
    while (!state.league.ended) await session.more();
    expect(ids(state.league.matches)).toEqual(ids(rows(10_000, 1)));
    expect(asked.length).toBeLessThan(110);
    const before = asked.length;
    await session.more();
    expect(asked.length).toBe(before);
  });

  test("neither loses nor repeats matches while new ones are played", async () => {
    const { state, session, play } = served(900);
    await session.setFilter(ALL_MATCHES);
    for (let i = 0; i < 4; i++) {
      play(3);
      await session.more();
      await session.setFilter(ALL_MATCHES); // as polling does
    }
    expect(ids(state.league.matches)).toEqual(ids(rows(912, 912 - state.league.matches.length + 1)));
    expect(state.league.total).toBe(912);
  });

  test("applies the filter, and drops an outdated page", async () => {
    const { state, session } = served(1000);
    await session.setFilter(ALL_MATCHES);
    const late = session.more();
    const chosen = session.setFilter({ ...ALL_MATCHES, entry: "even" });
    await Promise.all([late, chosen]);
    expect(state.league.matches).toHaveLength(100);
    await session.more();
    expect(ids(state.league.matches)).toEqual(ids(rows(1000, 401).filter((match) => match.id % 2 === 0)));
    expect(state.league.total).toBe(500);
  });

  test("shows an error, keeps loaded matches, and clears the error after success", async () => {
    const { state, session } = served(10);
    await session.setFilter(ALL_MATCHES);
    const league = vi.spyOn(session["api"], "league").mockRejectedValueOnce(new Error("gone"));
    await session.setFilter(ALL_MATCHES);
    expect([state.problem, state.league.matches.length]).toEqual(["gone", 10]);
    await session.setFilter(ALL_MATCHES);
    expect(state.problem).toBe("");
    expect(league).toHaveBeenCalledTimes(2);
  });
});

/** Return the contrast of two colours (WCAG 2.2). */
function contrast(one: number, other: number): number {
  const light = (colour: number) => {
    const part = (shift: number) => {
      const share = ((colour >> shift) & 255) / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0);
  };
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

describe("head-to-head table", () => {
  const INK = 0xf4f8fc; // text colour of the cells
  const shares = Array.from({ length: 21 }, (_, i) => i / 20);

  test("colours only significant results, stronger for clearer shares", () => {
    for (const score of shares) expect(cellColour({ verdict: "", score })).toBe(VERDICT_COLOURS.open);
    for (const verdict of ["won", "lost"] as const) {
      expect(cellColour({ verdict, score: 0.5 })).not.toBe(VERDICT_COLOURS.open);
      const far = [0.55, 0.75, 1].map((score) => contrast(cellColour({ verdict, score }), VERDICT_COLOURS.open));
      expect(far).toEqual([...far].sort((a, b) => a - b));
      expect(new Set(far).size).toBe(3);
    }
  });

  test("has readable contrast on every colour", () => {
    for (const verdict of ["won", "lost", ""] as const) {
      for (const score of shares) expect(contrast(INK, cellColour({ verdict, score }))).toBeGreaterThanOrEqual(4.5);
    }
  });

  test("distinguishes won from lost for every kind of colour blindness", () => {
    // dichromat projections of linear red, green and blue (Viénot, Brettel and Mollon, 1999; tritan: Brettel, 1997)
    const kinds = [
      [
        [0.11238, 0.88762, 0],
        [0.11238, 0.88762, 0],
        [0.00401, -0.00401, 1],
      ],
      [
        [0.29275, 0.70725, 0],
        [0.29275, 0.70725, 0],
        [-0.02234, 0.02234, 1],
      ],
      [
        [1, 0.14461, -0.14461],
        [0, 0.85924, 0.14076],
        [0, 0.85924, 0.14076],
      ],
    ];
    const linear = (colour: number) => [16, 8, 0].map((shift) => (((colour >> shift) & 255) / 255) ** 2.2);
    const [won, lost] = (["won", "lost"] as const).map((verdict) =>
      linear(cellColour({ verdict, score: verdict === "won" ? 1 : 0 })),
    );
    for (const kind of kinds) {
      const seen = [won, lost].map((colour) =>
        kind.map(
          (line) =>
            Math.max(
              0,
              line.reduce((sum, part, i) => sum + part * colour[i], 0),
            ) **
            (1 / 2.2),
        ),
      );
      expect(Math.hypot(...seen[0].map((part, i) => part - seen[1][i]))).toBeGreaterThan(0.2);
    }
  });

  test("shows the strongest and the selected entries", () => {
    expect(visibleEntries(["a", "b", "c", "d", "e"], ["e", ""], 3)).toEqual(["a", "b", "e"]);
    expect(visibleEntries(["a", "b"], [], 3)).toEqual(["a", "b"]);
  });

  test("describes pairs and cycles as text", () => {
    const pair: Pair = {
      id: "a",
      against: "b",
      wins: 8,
      draws: 1,
      losses: 1,
      score: 0.85,
      low: 0.51,
      high: 0.94,
      expected: 0.7,
      verdict: "won",
    };
    expect(pairText("Anvil", "Cinder", pair)).toContain("8 won, 1 drawn, 1 lost of 10. Win rate 51 to 94 %");
    expect(cycleText(["A", "B", "C"])).toBe("A beats B beats C beats A");
  });
});
