// Colours and scales of the ground overlays.

import { describe, expect, test } from "vitest";
import * as heat from "../src/data/heat";
import { TEAMS } from "../src/palette";

const grids: heat.TeamGrids = [Float32Array.from([0, 8, 0, 2]), Float32Array.from([0, 0, 4, 2])];

function painted(side: heat.HeatSide): number[][] {
  const pixels = new Uint8Array(16);
  heat.paintHeat(grids, side, pixels);
  return [0, 1, 2, 3].map((i) => [...pixels.subarray(i * 4, i * 4 + 4)]);
}

describe("heat maps", () => {
  test("are transparent at zero and strongest at the maximum", () => {
    for (const side of heat.HEAT_SIDES) {
      const alphas = painted(side).map((colour) => colour[3]);
      expect(alphas[0]).toBe(0);
      expect(Math.max(...alphas)).toBe(225);
      expect(alphas[side === "red" ? 2 : 1]).toBe(225);
    }
  });

  test("show each team in its colour, and white where both were as long", () => {
    const [, blue, red, both] = painted("teams");
    const rgb = (colour: number) => [(colour >> 16) & 255, (colour >> 8) & 255, colour & 255];
    expect([blue.slice(0, 3), red.slice(0, 3), both.slice(0, 3)]).toEqual([
      rgb(TEAMS[0].colour),
      rgb(TEAMS[1].colour),
      [255, 255, 255],
    ]);
  });

  test("of one team leave the other out", () => {
    expect([painted("blue")[2][3], painted("red")[1][3]]).toEqual([0, 0]);
  });

  test("have a scale whose values return to their place", () => {
    expect(heat.heatMaximum(grids, "both")).toBe(8);
    for (const place of [0, 0.3, 1]) expect(heat.placeOn(8, heat.valueAt(8, place))).toBeCloseTo(place, 9);
    expect([0, 0.213, 3, 12.34, 480.2].map(heat.scaleText)).toEqual(["0", "0.21", "3", "12.3", "480"]);
  });

  test("of single values use no colour of a team", () => {
    const distance = (a: readonly number[], colour: number) =>
      Math.hypot(a[0] - ((colour >> 16) & 255), a[1] - ((colour >> 8) & 255), a[2] - (colour & 255));
    for (let place = 0; place <= 1; place += 0.05)
      for (const { colour } of TEAMS) {
        expect(distance(heat.heatColour(place), colour)).toBeGreaterThan(80);
        expect(distance(heat.distanceColour(100, place * 100), colour)).toBeGreaterThan(80);
      }
  });
});

test("distances to the zone are in bands up to the farthest corner", () => {
  expect(heat.distanceScale([30, 40], [0, 0, 3])).toBe(50);
  expect(heat.distanceScale([30, 40], [15, 20, 3])).toBe(25);
  expect(heat.distanceColour(50, 2)[3]).not.toBe(heat.distanceColour(50, 7)[3]);
  expect(heat.distanceColour(50, 90).slice(0, 3)).toEqual(heat.distanceColour(50, 50).slice(0, 3));
  expect(heat.distanceColour(50, Infinity)).toEqual(heat.NO_PATH);
});
