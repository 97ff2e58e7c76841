// Curves behind the scrub bar.

import { expect, test } from "vitest";
import { BACKDROP, backdropData } from "../src/hud/charts";
import { smallExpected } from "./fixtures";

test("backdrop shows score and living mechs of both teams", () => {
  const { series } = smallExpected().index;
  expect(BACKDROP.map(({ label }) => label)).toEqual(["score", "alive"]);
  expect(backdropData(series)).toEqual([series.second, ...series.score, ...series.alive]);
});
