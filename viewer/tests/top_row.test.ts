// Where the score bar stands.

import { expect, test } from "vitest";
import { placeScore } from "../src/hud/top_row";

test("the score bar stands in the middle of a wide page", () => {
  expect(placeScore(330, 1500, 1920)).toEqual({ left: 680, width: 560, top: 14 });
});

test.each([
  [327, 831, 1280],
  [54, 575, 1024],
  [54, 520, 960],
])("between a name ending at %d and tools from %d on of a page %d wide it covers neither", (left, right, width) => {
  const place = placeScore(left, right, width);
  expect(place.top).toBe(14);
  expect(place.left).toBeGreaterThanOrEqual(left);
  expect(place.left + place.width).toBeLessThanOrEqual(right);
});

test("where the tools leave too little room it stands below them", () => {
  const { left, width, top } = placeScore(54, 451, 800);
  expect(top).toBeGreaterThan(60);
  expect(left).toBeGreaterThan(0);
  expect(left + width).toBeLessThan(800);
});
