// The win probability equals the Python side's, is symmetric, and its curve and turning points follow the match.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { findMoments } from "../src/data/find_moments";
import { comebackText, swingText } from "../src/data/moment_text";
import { type Moment, momentAt, nextMoment, topMoment } from "../src/data/moments";
import { WinScan } from "../src/data/win_scan";
import { EVEN, FEATURES, GROUPS, causesOf, featuresOf, sigmoid, winPoint } from "../src/data/winprob";
import { percentText } from "../src/text";
import { aheadText, basisText, leaderText, startText } from "../src/hud/win_text";
import type { Header, IndexView, Outcome } from "../src/protocol.gen";
import model from "../src/winprob.json";
import { replayOf } from "./fixtures";

interface Golden {
  replay: string;
  groups: string[];
  frames: { chunk: number; p: number[]; low: number[]; high: number[]; features: number[]; parts: number[] }[];
}
const file = new URL("../../tests/golden/winprob.json", import.meta.url);
const golden = JSON.parse(readFileSync(file, "utf8")) as Golden;
const { header, chunks } = replayOf(golden.replay);
/** Moments as Python finds them, by path in the repository. */
const found = JSON.parse(readFileSync(new URL("../../tests/golden/moments.json", import.meta.url), "utf8")) as Record<
  string,
  { outcome: Outcome; ticks: number; moments: Moment[] }
>;

describe("win probability", () => {
  it("equals the values of the Python side", () => {
    expect(FEATURES.map(({ name }) => name)).toEqual(model.features);
    expect(GROUPS).toEqual(golden.groups);
    for (const frame of golden.frames) {
      const number = Number(frame.chunk);
      const found = winPoint(header, chunks[number], 0);
      featuresOf(header, chunks[number], 0).forEach((value, i) => expect(value).toBeCloseTo(frame.features[i], 9));
      expect(found.p).toBeCloseTo(frame.p[0], 9);
      expect(found.low).toBeCloseTo(frame.low[0], 9);
      expect(found.high).toBeCloseTo(frame.high[0], 9);
      found.parts.forEach((part, g) => expect(part).toBeCloseTo(frame.parts[g], 9));
    }
  });

  it("is exactly the remaining probability with the teams swapped", () => {
    const swapped = { ...header, roster: header.roster.map((mech) => ({ ...mech, team: 1 - mech.team })) } as Header;
    for (const chunk of chunks) {
      const score = Float64Array.from(chunk.score, (_, i) => chunk.score[i ^ 1]);
      expect(winPoint(swapped, { ...chunk, score }, 0).p).toBe(1 - winPoint(header, chunk, 0).p);
    }
    for (const z of [0, 1e-9, 0.3, 4, 900]) expect(sigmoid(-z)).toBe(1 - sigmoid(z));
  });

  it("names causes largest first", () => {
    const parts = EVEN.parts.map((_, g) => (g === 0 ? 1 : g === 1 ? -0.4 : 0));
    const point = { ...EVEN, logit: 0.6, p: sigmoid(0.6), parts };
    const causes = causesOf(EVEN, point);
    expect(causes.map(({ group }) => group)).toEqual([GROUPS[0], GROUPS[1]]);
    expect(causes[0].share).toBeGreaterThan(0);
    expect(causes[1].share).toBeLessThan(0);
  });

  it("is named by the leading team", () => {
    expect([0, 0.004, 0.5, 0.999, 1].map(percentText)).toEqual(["0 %", "1 %", "50 %", "99 %", "100 %"]);
    expect(leaderText({ ...EVEN, p: 0.38 })).toBe("Red 62 %");
    expect([0.496, 0.504, 0.506].map((p) => leaderText({ ...EVEN, p }))).toEqual(["Even", "Even", "Blue 51 %"]);
  });

  it("names the favourite of the starting position and what it is ahead in", () => {
    const parts = EVEN.parts.map((_, g) => (g === 0 ? -0.8 : g === 1 ? 0.2 : 0));
    const point = { ...EVEN, logit: -0.6, p: sigmoid(-0.6), parts };
    expect(startText(point, 0)).toBe(`Red is the favourite at the start, 65 %: ahead in ${GROUPS[0]}`);
    expect(basisText(point, 0)).toContain(`from the starting position: ${GROUPS[0]} +`);
    expect([startText(point, 10), startText(EVEN, 10), startText(null, 0)]).toEqual(["", "", ""]);
    expect(startText({ ...EVEN, p: 0.53 }, 2)).toBe("Even at the start: Blue 53 %, Red 47 % to win");
    expect(basisText(EVEN, 10)).toContain("from the state of the match: both teams are even");
  });
});

describe("aheadText", () => {
  /** Return a point at which red is the favourite by a group. */
  const redBy = (group: string) => {
    const parts = GROUPS.map((name) => (name === group ? -0.9 : 0));
    return { ...EVEN, logit: -0.9, p: sigmoid(-0.9), parts };
  };

  it("names what a favourite is ahead in that does not lead in points", () => {
    expect(aheadText(redBy("hit points"), 0)).toEqual({ team: 1, text: "Red ahead in hit points" });
    expect(aheadText(redBy("mechs alive"), -1)?.text).toBe("Red ahead in mechs alive");
    expect(aheadText(redBy("distance to the zone"), 0)?.text).toBe("Red closer to the zone");
    for (const group of GROUPS) expect(aheadText(redBy(group), 0)?.text).toMatch(/^Red (ahead in|closer|with) /);
  });

  it("is silent if points and probability agree or the match is even", () => {
    expect(aheadText(redBy("hit points"), 1)).toBeNull();
    expect(aheadText({ ...EVEN, p: 0.53 }, 1)).toBeNull();
  });
});

describe("curve of the win probability", () => {
  it("covers the match in order and ends with the result", async () => {
    const scan = new WinScan(header, (number) => Promise.resolve(chunks[number]));
    const spans = chunks.map(({ tick0, tick1 }) => [tick0, tick1, 0] as [number, number, number]);
    const index = { live: false, chunks: spans, markers: [], outcome: { winner: 1 } } as unknown as IndexView;
    for (let round = 0; round < 2 * chunks.length; round++) {
      scan.request(index);
      await new Promise((done) => setTimeout(done));
    }
    const ticks = scan.points.map(({ tick }) => tick);
    expect(ticks).toEqual([...ticks].sort((a, b) => a - b));
    expect(new Set(ticks).size).toBe(ticks.length);
    expect(scan.points.at(-1)).toMatchObject({ tick: chunks.at(-1)?.tick1, p: 0 });
    expect(scan.at(ticks[3] + 0.5)).toBe(scan.points[3]);
    expect(scan.at(-1)).toBeNull();
  });

  it("knows nothing of moments that have not been read", async () => {
    const { tick0, tick1 } = chunks[2];
    const scan = new WinScan(header, (number) => (number ? new Promise(() => {}) : Promise.resolve(chunks[0])));
    const spans = chunks.map((chunk) => [chunk.tick0, chunk.tick1, 0] as [number, number, number]);
    scan.request({ live: false, chunks: spans, markers: [], outcome: null } as unknown as IndexView);
    await new Promise((done) => setTimeout(done));
    expect(scan.at(tick0)).not.toBeNull();
    expect(scan.at((tick0 + tick1) / 2)).toBeNull();
  });

  it("reads a bounded number of chunks and stops after failures", async () => {
    let asked = 0;
    const spans = Array.from({ length: 5000 }, (_, i) => [i, i + 1, 0]);
    const long = { chunks: spans, outcome: null } as unknown as IndexView;
    const scan = new WinScan(header, () => Promise.reject(new Error(`no chunk ${asked++}`)));
    for (let round = 0; round < 30; round++) {
      scan.request(long);
      await new Promise((done) => setTimeout(done));
    }
    expect(asked).toBeLessThan(10);
  });
});

describe("turning points", () => {
  const moments = [100, 300, 500].map((tick, i) => ({ tick, rank: [2, 1, 3][i], caption: `at ${tick}` })) as Moment[];
  const start = ({ tick }: Moment) => tick - 30;

  it("are found before and after the cursor", () => {
    expect(nextMoment(moments, start, 70, 1)?.tick).toBe(300);
    expect(nextMoment(moments, start, 290, -1)?.tick).toBe(300);
    expect(nextMoment(moments, start, 290, -1, 30)?.tick).toBe(100);
    expect(nextMoment(moments, start, 480, 1)).toBeNull();
  });

  it("are shown for some seconds, and the most important one is the top", () => {
    expect(momentAt(moments, 299, 20)?.tick).toBe(300);
    expect(momentAt(moments, 385, 20)).toBeNull();
    expect(topMoment(moments)?.tick).toBe(300);
    expect(topMoment([])).toBeNull();
  });

  it("have points rounded down in their captions", () => {
    expect(comebackText(0, 0.1, [2, 3], [7.35, 9.99])).toMatch(/7\.3 to 9\.9 zone points$/);
    const swing = swingText("zone points", 1, [0, 0], [1.26, 7.35], 4);
    expect(swing).toBe("Red scores 7.3 zone points to 1.2 within 4 s");
  });

  it.each(Object.entries(found))("equal those of the Python side: %s", (path, { outcome, ticks, moments }) => {
    const { header, chunks } = replayOf(`../../../${path}`);
    const own = findMoments(header, chunks, ticks, outcome);
    expect(own.map(({ caption, kind, rank, team, tick }) => ({ caption, kind, rank, team, tick }))).toEqual(
      moments.map(({ caption, kind, rank, team, tick }) => ({ caption, kind, rank, team, tick })),
    );
    own.forEach((moment, i) => {
      for (const name of ["second", "from", "to"] as const) expect(moment[name]).toBeCloseTo(moments[i][name], 2);
      for (const name of ["before", "after"] as const) expect(moment[name]).toBeCloseTo(moments[i][name], 3);
    });
  });
});
