// Addresses of pages, matches, moments and views.

import { expect, test } from "vitest";
import { formatRoute, parseRoute } from "../src/routes";

const EMBEDDED = { match: null, seconds: 3.5, mech: 1, camera: null };

test.each([
  { match: "0123456789abcdef", seconds: 42.3, mech: 6, camera: "follow" as const },
  EMBEDDED,
  {
    ...{ match: "abc", seconds: 3, mech: 2, camera: "free" as const, newest: "20260101-run" },
    view: [1.25, -2, 3, 0.5, -0.3, 0] as [number, number, number, number, number, number],
    ...{ fog: "mech" as const, layer: "damage" as const, loop: [1, 2.5] as [number, number] },
  },
])("are read as they were written: %o", (route) => expect(parseRoute(formatRoute(route))).toEqual(route));

test("hold only what is set", () => {
  expect(formatRoute({ match: null, seconds: null, mech: null, camera: null })).toBe("");
  expect(formatRoute(EMBEDDED)).toBe("#t=3.5&mech=1");
});

test.each([
  ["#match=../../etc&t=-5&mech=1.5&cam=upside", { match: null, seconds: null, mech: null, camera: null }],
  ["#match=abc&t=NaN", { match: "abc", seconds: null }],
  ["#match=abc&view=1~2~x~4~5~6&fog=all", { match: "abc", view: undefined, fog: undefined }],
  ["#match=abc&layer=&ab=5~2&newest=../x", { match: "abc", layer: undefined, loop: undefined, newest: undefined }],
])("lose only their invalid parts: %s", (hash, route) => expect(parseRoute(hash)).toMatchObject(route));

test("of the league and of the list differ", () => {
  expect(parseRoute("#league").league).toBe(true);
  for (const hash of ["", "#match=abc"]) expect(parseRoute(hash).league).toBeUndefined();
});
