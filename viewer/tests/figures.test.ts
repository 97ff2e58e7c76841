// Figures of mechs and the scoreboard: equal to Python's, a function of the tick, and sorted.

import { describe, expect, test } from "vitest";
import * as control from "../src/control";
import { FIGURES, type Figures } from "../src/data/figures";
import { COLUMNS, cellsOf, sortedBy } from "../src/hud/scoreboard";
import { expectedOf, later, openedState, replayOf } from "./fixtures";

const expected = expectedOf<{ figures: Record<string, Record<string, number[]>> }>("smoke.json").figures;
const replay = replayOf("smoke.ecr");

/** Return a state with the golden match open and read for its figures. */
async function opened() {
  const state = await openedState(replay);
  const { scan } = state.match!;
  scan.figures.at(state.match!, 0);
  while (scan.figures.chunks < replay.chunks.length) {
    control.updateCursor(state);
    await later();
  }
  const at = (tick: number): Figures => {
    control.seek(state, tick);
    return scan.figures.at(state.match!, state.tick)!;
  };
  return { state, at };
}

describe("figures", () => {
  test("equal those of Python at any tick, whatever the order of seeking", async () => {
    const { at } = await opened();
    const ticks = Object.keys(expected).map(Number);
    for (const tick of [...ticks, ...ticks.reverse()])
      for (const name of FIGURES)
        at(tick)[name].forEach((value, mech) =>
          expect(value, `${name} of ${mech} at ${tick}`).toBeCloseTo(expected[tick][name][mech], 6),
        );
    expect(Object.values(expected["600"]).every((values) => values.some((value) => value > 0))).toBe(true);
  });

  test("never fall, and are null until the match has been read up to the cursor", async () => {
    const { state, at } = await opened();
    let before = at(0);
    for (let tick = 3; tick <= 600; tick += 7) {
      const now = at(tick);
      for (const name of FIGURES) now[name].forEach((value, mech) => expect(value >= before[name][mech]).toBe(true));
      before = now;
    }
    const fresh = await openedState(replay);
    control.seek(fresh, 400);
    expect(fresh.match!.scan.figures.at(fresh.match!, 400)).toBeNull();
    expect(state.match!.scan.figures.chunks).toBe(replay.chunks.length);
  });
});

describe("the scoreboard", () => {
  test("sums, hides what the fog of war hides, and sorts by any column in both directions", async () => {
    const { state, at } = await opened();
    const match = state.match!;
    const figures = at(600);
    const scope = (...mechs: number[]) => ({ match, mechs, figures });
    const cell = (name: string, ...mechs: number[]) =>
      cellsOf(scope(...mechs))[COLUMNS.findIndex((c) => c.name === name)];
    expect([cell("kills", 0), cell("kills", 0, 1, 2, 3, 4)]).toEqual(["2", "4"]);
    expect([cell("accuracy", 0), cell("accuracy", 4), cell("zone_s", 1)]).toEqual(["64 % of 11", "–", "16 s"]);
    expect(cell("state", 0, 1, 2, 3, 4)).toMatch(/^\d of 5 alive$/);
    match.shown[0] = 0;
    expect([cell("kills", 0), cell("state", 0), cell("kills", 0, 1)]).toEqual(["–", "not seen", "–"]);
    expect(cellsOf({ match, mechs: [1], figures: null })[1]).toBe("–");
    const scopes = [0, 1, 2, 3, 4].map((mech) => scope(mech));
    COLUMNS.forEach(({ value, name }, column) => {
      const down = sortedBy(scopes, column, false).map((i) => value(scopes[i]));
      const up = sortedBy(scopes, column, true).map((i) => value(scopes[i]));
      const numbers = (values: number[]) => values.filter((x) => !Number.isNaN(x));
      expect(numbers(down), name).toEqual(numbers(down).sort((a, b) => b - a));
      expect(numbers(up), name).toEqual(numbers(up).sort((a, b) => a - b));
      for (const values of [down, up]) expect(values.findIndex(Number.isNaN)).toBe(values.some(Number.isNaN) ? 4 : -1);
    });
    expect(sortedBy(scopes, -1, false)).toEqual([0, 1, 2, 3, 4]);
  });
});
