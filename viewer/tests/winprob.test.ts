// The win probability is read from the index, and its curve and turning points follow the match.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { nextMoment, spanOf, topMoment } from "../src/data/moments";
import { EVEN, WinCurve, causesOf, isRated, sigmoid } from "../src/data/winprob";
import { chanceText, percentText } from "../src/text";
import { basisText, startText } from "../src/hud/win_text";
import { type Header, type Moment, type Outcome, WIN_GROUPS, type WinSeries } from "../src/protocol.gen";
import { replayOf } from "./fixtures";

interface Golden {
  replay: string;
  index: { win: WinSeries; outcome: Outcome };
}
const file = new URL("../../tests/golden/winprob.json", import.meta.url);
const golden = JSON.parse(readFileSync(file, "utf8")) as Golden;
const { header, chunks } = replayOf(golden.replay);

describe("win probability", () => {
  it("of a file attributes to the rating what the other groups leave", () => {
    const series = {
      tick: [0],
      blue: [0.6],
      low: [0.5],
      high: [0.7],
      parts: WIN_GROUPS.map((_, g) => [g === 0 ? 0.1 : 0]),
    };
    const [read] = WinCurve.of(series).points;
    expect(read.parts.at(-1)).toBeCloseTo(Math.log(0.6 / 0.4) - 0.1, 9);
    expect(causesOf(EVEN, read)).toContainEqual({ group: "rating", share: expect.any(Number) as number });
  });

  it("names where the rating of a team is unknown", () => {
    const withRatings = (...ratings: readonly (number | undefined)[]) =>
      ({ ...header, teams: header.teams.map((team, t) => ({ ...team, rating: ratings[t] })) }) as Header;
    expect([isRated(withRatings(1600)), isRated(withRatings(1600, 1600))]).toEqual([false, true]);
  });

  it("names causes largest first", () => {
    const parts = EVEN.parts.map((_, g) => (g === 0 ? 1 : g === 1 ? -0.4 : 0));
    const point = { ...EVEN, logit: 0.6, p: sigmoid(0.6), parts };
    const causes = causesOf(EVEN, point);
    expect(causes.map(({ group }) => group)).toEqual([WIN_GROUPS[0], WIN_GROUPS[1]]);
    expect(causes[0].share).toBeGreaterThan(0);
    expect(causes[1].share).toBeLessThan(0);
  });

  it("is a whole number of percent, and that of both teams adds up to 100", () => {
    expect([0, 0.004, 0.5, 0.999, 1].map(percentText)).toEqual(["0 %", "1 %", "50 %", "99 %", "100 %"]);
    for (let p = 0; p <= 1000; p++) {
      const sum = [0, 1].reduce((all, team) => all + parseInt(chanceText(p / 1000, team), 10), 0);
      expect(sum).toBe(100);
    }
  });

  it("names the favourite of the starting position and what it is ahead in", () => {
    const parts = EVEN.parts.map((_, g) => (g === 0 ? -0.8 : g === 1 ? 0.2 : 0));
    const point = { ...EVEN, logit: -0.6, p: sigmoid(-0.6), parts };
    expect(startText(point, 0)).toBe(`Red is the favourite at the start: ahead in ${WIN_GROUPS[0]}; blue 35 % to win`);
    expect(basisText(point, 0)).toContain(`from the starting position: ${WIN_GROUPS[0]} −`);
    expect([startText(point, 10), startText(EVEN, 10), startText(null, 0)]).toEqual(["", "", ""]);
    expect(startText({ ...EVEN, p: 0.53 }, 2)).toBe("Even at the start: blue 53 % to win");
    expect(basisText(EVEN, 10)).toContain("from the state of the match: both teams are even");
  });
});

describe("curve of the win probability", () => {
  it("is that of the index and ends with the result", () => {
    const { index } = golden;
    const curve = WinCurve.of(index.win);
    expect(curve.points.map(({ p }) => p)).toEqual(index.win.blue);
    const ticks = curve.points.map(({ tick }) => tick);
    expect(ticks).toEqual([...new Set(ticks)].sort((a, b) => a - b));
    expect(curve.points.at(-1)).toMatchObject({ tick: chunks.at(-1)?.tick1, p: [1, 0, 0.5][index.outcome.winner] });
    expect(curve.at(ticks[3] + 0.5)).toBe(curve.points[3]);
    expect(curve.at(-1)).toBeNull();
    for (const { p, logit } of curve.points.slice(0, -1)) expect(p).toBeCloseTo(sigmoid(logit), 2);
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

  it("are told when all of them has happened, and the most important one is the top", () => {
    const index = { chunks: [[0, 600, 0] as [number, number, number]] };
    const span = (to: number, kind = "multi_kill") => spanOf({ kind, tick: 300, to } as Moment, index, 20);
    expect([span(16.5), span(30.9)]).toEqual([
      [280, 310],
      [280, 598],
    ]);
    expect([span(31.5), span(16.5, "swing")]).toEqual([
      [280, 600],
      [300, 300],
    ]);
    expect(span(16.5, "comeback")).toEqual([300, 600]);
    expect(topMoment(moments)?.tick).toBe(300);
    expect(topMoment([])).toBeNull();
  });
});
