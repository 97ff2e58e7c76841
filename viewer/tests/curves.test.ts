// The curves behind the scrub bar.

import { expect, test } from "vitest";
import { BACKDROP, backdropData } from "../src/hud/curves";
import { smallExpected } from "./fixtures";

test("the scrub bar shows the score and how many stand, of both teams", () => {
  const { series } = smallExpected().index;
  expect(BACKDROP.map(({ label }) => label)).toEqual(["score", "standing"]);
  expect(backdropData(series)).toEqual([series.second, ...series.score, ...series.alive]);
});
