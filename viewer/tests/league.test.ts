import { describe, expect, test, vi } from "vitest";
import type { Api } from "../src/client";
import { EVERY_BOUT, type LeagueChoice, sensible, withNewest } from "../src/data/league";
import { endText } from "../src/hud/bouts";
import { scaleOf, shareOn } from "../src/hud/league_page";
import { pairText, ringText, shade, shownOf } from "../src/hud/pairs";
import { LeagueSession } from "../src/league";
import { DUEL } from "../src/palette";
import type { LeagueMatch, Pair, Standing } from "../src/protocol.gen";
import { leagueHash, parseRoute } from "../src/routes";
import { defaults } from "../src/state";

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
    for (const entry of ["", "heuristic:medium", "a b&c=#1", "süß"]) expect(parseRoute(leagueHash({ entry })).league).toEqual({ ...EVERY_BOUT, entry });
    const choices: LeagueChoice[] = [
      { entry: "a", against: "b&c", outcome: "won" }, { entry: "a", against: "", outcome: "draw" }, { entry: "", against: "", outcome: "blue" },
    ];
    for (const choice of choices) expect(parseRoute(leagueHash(choice)).league).toEqual(choice);
    expect(leagueHash({})).toBe("#league");
  });

  test("leaves out what makes no sense", () => {
    expect(parseRoute("#league=&against=b&outcome=won").league).toEqual(EVERY_BOUT);
    expect(parseRoute("#league=a&outcome=blue").league).toEqual({ ...EVERY_BOUT, entry: "a" });
    expect(parseRoute("#league=a&against=x%00y&outcome='--").league).toEqual({ ...EVERY_BOUT, entry: "a" });
    expect(sensible({ entry: "", against: "", outcome: "lost" })).toEqual(EVERY_BOUT);
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

const row = (id: number, more: Partial<LeagueMatch> = {}) => ({ id, state: "played", winner: "blue", ...more }) as LeagueMatch;
const rows = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, i) => row(from - i));
const ids = (matches: readonly LeagueMatch[]) => matches.map((match) => match.id);

describe("a list of which the newest are asked for again", () => {
  const known = rows(500, 1);

  test("gains what is new and keeps what lies below", () => {
    expect(ids(withNewest(known, rows(510, 311), 200))).toEqual(ids(rows(510, 1)));
  });

  test("takes what came to be known of them, and what was played between them", () => {
    const fresh = rows(500, 301).filter((match) => match.id !== 400);
    const seen = withNewest(withNewest([], fresh, 199), rows(500, 301).map((match) => (match.id === 350 ? row(350, { match: "ab" }) : match)), 200);
    expect(ids(seen)).toEqual(ids(rows(500, 301)));
    expect(seen.find((match) => match.id === 350)?.match).toBe("ab");
  });

  test("is the same list where nothing changed, and forgets what is gone where all of it was told", () => {
    expect(withNewest(known, rows(500, 301), 200)).toBe(known);
    expect(withNewest(rows(9, 1), rows(9, 3), 200)).toHaveLength(7);
    const few = rows(9, 1);
    expect(withNewest(few, rows(9, 1), 200)).toBe(few);
  });
});

/** A league of so many matches behind the server's API; what it was asked for is noted. */
function served(count: number) {
  let newest = count;
  const asked: string[] = [];
  const api = {
    league: async () => ({ standings: [standing(1400, 1600)], unfinished: [], total: newest, matches: [] }),
    leaguePairs: async () => ({ entries: [], pairs: [], cycles: [] }),
    leagueMatches: async (choice: LeagueChoice, limit: number, before = Infinity) => {
      asked.push(`${choice.entry} ${limit} ${before}`);
      expect(limit).toBeLessThanOrEqual(200);
      const step = choice.entry === "" ? 1 : 2; // half of all are the entry's
      const all = rows(newest, 1).filter((match) => match.id % step === 0);
      return { total: all.length, matches: all.filter((match) => match.id < before).slice(0, limit) };
    },
  } as unknown as Api;
  const state = defaults();
  state.page = "league";
  return { state, asked, session: new LeagueSession(state, api), play: (more: number) => (newest += more) };
}

describe("paging through the league", () => {
  test("comes to the last of ten thousand matches, each once, a bounded page at a time", async () => {
    const { state, session, asked } = served(10_000);
    await session.choose(EVERY_BOUT);
    while (!state.league.ended) await session.more();
    expect(ids(state.league.bouts)).toEqual(ids(rows(10_000, 1)));
    expect(asked.length).toBeLessThan(110);
    const before = asked.length;
    await session.more();
    expect(asked.length).toBe(before);
  });

  test("loses and doubles nothing while matches are played", async () => {
    const { state, session, play } = served(900);
    await session.choose(EVERY_BOUT);
    for (let i = 0; i < 4; i++) {
      play(3);
      await session.more();
      await session.choose(EVERY_BOUT); // as is done from time to time
    }
    expect(ids(state.league.bouts)).toEqual(ids(rows(912, 912 - state.league.bouts.length + 1)));
    expect(state.league.total).toBe(912);
  });

  test("keeps to what is chosen, and drops a page that comes too late", async () => {
    const { state, session } = served(1000);
    await session.choose(EVERY_BOUT);
    const late = session.more();
    const chosen = session.choose({ ...EVERY_BOUT, entry: "even" });
    await Promise.all([late, chosen]);
    expect(state.league.bouts).toHaveLength(100);
    await session.more();
    expect(ids(state.league.bouts)).toEqual(ids(rows(1000, 401).filter((match) => match.id % 2 === 0)));
    expect(state.league.total).toBe(500);
  });

  test("says what went wrong, keeps what is known, and takes it back", async () => {
    const { state, session } = served(10);
    await session.choose(EVERY_BOUT);
    const league = vi.spyOn(session["api"], "league").mockRejectedValueOnce(new Error("gone"));
    await session.choose(EVERY_BOUT);
    expect([state.problem, state.league.bouts.length]).toEqual(["gone", 10]);
    await session.choose(EVERY_BOUT);
    expect(state.problem).toBe("");
    expect(league).toHaveBeenCalledTimes(2);
  });
});

/** Contrast of two colours (WCAG 2.2). */
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

describe("the table of who beats whom", () => {
  const INK = 0xf4f8fc; // of its cells
  const shares = Array.from({ length: 21 }, (_, i) => i / 20);

  test("is coloured only beyond doubt, and more for clearer shares", () => {
    for (const score of shares) expect(shade({ verdict: "", score })).toBe(DUEL.open);
    for (const verdict of ["won", "lost"] as const) {
      expect(shade({ verdict, score: 0.5 })).not.toBe(DUEL.open);
      const far = [0.55, 0.75, 1].map((score) => contrast(shade({ verdict, score }), DUEL.open));
      expect(far).toEqual([...far].sort((a, b) => a - b));
      expect(new Set(far).size).toBe(3);
    }
  });

  test("can be read on every colour", () => {
    for (const verdict of ["won", "lost", ""] as const) {
      for (const score of shares) expect(contrast(INK, shade({ verdict, score }))).toBeGreaterThanOrEqual(4.5);
    }
  });

  test("tells won from lost for every kind of colour blindness", () => {
    // what dichromats see of linear red, green and blue (Viénot, Brettel and Mollon, 1999; tritan: Brettel, 1997)
    const kinds = [
      [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
      [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
      [[1, 0.14461, -0.14461], [0, 0.85924, 0.14076], [0, 0.85924, 0.14076]],
    ];
    const linear = (colour: number) => [16, 8, 0].map((shift) => (((colour >> shift) & 255) / 255) ** 2.2);
    const [won, lost] = (["won", "lost"] as const).map((verdict) => linear(shade({ verdict, score: verdict === "won" ? 1 : 0 })));
    for (const kind of kinds) {
      const seen = [won, lost].map((colour) => kind.map((line) => Math.max(0, line.reduce((sum, part, i) => sum + part * colour[i], 0)) ** (1 / 2.2)));
      expect(Math.hypot(...seen[0].map((part, i) => part - seen[1][i]))).toBeGreaterThan(0.2);
    }
  });

  test("has room for the strongest and for who is chosen", () => {
    expect(shownOf(["a", "b", "c", "d", "e"], ["e", ""], 3)).toEqual(["a", "b", "e"]);
    expect(shownOf(["a", "b"], [], 3)).toEqual(["a", "b"]);
  });

  test("says in words what it shows", () => {
    const pair: Pair = { id: "a", against: "b", wins: 8, draws: 1, losses: 1, score: 0.85, low: 0.51, high: 0.94, expected: 0.7, verdict: "won" };
    expect(pairText("Anvil", "Cinder", pair)).toContain("8 won, 1 drawn, 1 lost of 10. Wins 51 to 94 %");
    expect(ringText(["A", "B", "C"])).toBe("A beats B beats C beats A");
  });
});
