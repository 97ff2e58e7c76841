// The score in words.

import { describe, expect, test } from "vitest";
import type { Chunk } from "../src/data/replay";
import {
  aliveText,
  clockLine,
  goalLine,
  goalText,
  outcomeText,
  resultText,
  winnerText,
  zoneText,
} from "../src/score_text";
import { policyName, shortName, teamName } from "../src/text";
import type { Header, Outcome } from "../src/protocol.gen";
import { pointsText } from "../src/timeline";

const header = { tick_hz: 20, score_to_win: 30, duration_s: 60, config: {} } as Header;

/** A chunk of one frame with tonnages and scores of blue and red. */
const chunkWith = (tonnage: number[], score: number[]) =>
  ({
    frames: 1,
    tick: Float64Array.of(0),
    tonnage: Float64Array.from(tonnage),
    score: Float64Array.from(score),
  }) as unknown as Chunk;

test("goalText states every way to win", () => {
  expect(goalText(header)).toMatch(
    /^First to 30 zone points or last team alive; most points at 1:00. .* each gains 0.25,/,
  );
  const other = { ...header, score_to_win: 7.5, config: { contested_floor: 0.5 } };
  expect(goalText(other)).toMatch(/7.5 zone points.* each gains 0.5,/);
});

test("clockLine and goalLine state the time limit, of which the tutorial has none", () => {
  expect([true, false].map((hasLimits) => clockLine(header, 540, hasLimits))).toEqual([
    "0:27 / 1:00 · first to 30",
    "0:27",
  ]);
  expect(goalLine(header)).toContain("most points at 1:00.");
});

test("zoneText tells who holds the zone and the seconds to win while there is time", () => {
  expect(zoneText(header, chunkWith([0, 0], [3, 4]), 0)).toBe("Zone empty");
  expect(zoneText(header, chunkWith([40, 55], [3, 4]), 0)).toBe("Zone contested");
  expect(zoneText(header, chunkWith([0, 55], [3, 7.7]), 200)).toBe("Red holds the zone: wins in 23 s");
  expect(zoneText(header, chunkWith([40, 0], [3, 7.7]), 200)).toBe("Blue holds the zone: wins in 27 s");
  expect(zoneText(header, chunkWith([40, 0], [3, 7.7]), 50 * 20)).toBe("Blue holds the zone");
  expect(zoneText(header, chunkWith([40, 0], [3, 7.7]), 200, true)).toBe("Blue holds the zone");
});

test("pointsText has one decimal and never shows a goal that is not reached", () => {
  expect([0, 5.44, 9.8, 29.98, 30].map(pointsText)).toEqual(["0.0", "5.4", "9.8", "29.9", "30.0"]);
});

test("shortName keeps short names, and the beginning and the end of long ones", () => {
  expect(shortName("update 12 of stormy-marten")).toBe("update 12 of stormy-marten");
  expect(shortName("update 1345 of paper-baseline-lr-0.0003-s12")).toBe("update 1345 of…-0.0003-s12");
});

test("aliveText names the size of large teams", () => {
  expect([aliveText(4, 5), aliveText(87, 100)]).toEqual(["4 alive", "87/100 alive"]);
});

test("outcomeText names winner and ending, winnerText the winner", () => {
  const outcome = { winner: 0, reason: "elimination" } as Outcome;
  expect(outcomeText(outcome)).toBe("Blue wins: elimination");
  expect(outcomeText({ ...outcome, winner: -1 })).toBe("Undecided");
  expect([0, 1, 2, -1].map(winnerText)).toEqual(["Blue wins", "Red wins", "Draw", "Undecided"]);
});

describe("resultText", () => {
  const outcome = { winner: 1, reason: "elimination", ticks: 680, score: [5.44, 9.8], alive: [0, 3], hp: [0, 250] };

  test("is a sentence with reason, time, points and living mechs", () => {
    expect(resultText(header, outcome as Outcome)).toEqual({
      headline: "Red wins: elimination at 0:34",
      details: "zone 5.4 to 9.8, 0 to 3 alive",
    });
    expect(resultText(header, { ...outcome, winner: 0, reason: "zone_control" } as Outcome).headline).toBe(
      "Blue wins: zone held at 0:34",
    );
    expect(resultText(header, { ...outcome, winner: 2, reason: "time_up" } as Outcome).headline).toBe(
      "Draw: time up at 0:34",
    );
    expect(resultText(header, { ...outcome, winner: -1, reason: "" } as Outcome).headline).toBe("Undecided at 0:34");
  });

  test("names the health that decides equal points at the time limit", () => {
    const tied = { ...outcome, reason: "time_up", score: [0, 0], hp: [310.4, 421] } as Outcome;
    expect(resultText(header, tied).details).toBe("zone 0.0 to 0.0, health 310 to 421, 0 to 3 alive");
  });
});

test("teamName shows scripted levels as bots", () => {
  const teams = [
    { name: "champion", level: "" },
    { name: "expert", level: "heuristic:expert" },
  ];
  expect([0, 1].map((team) => teamName({ teams } as unknown as Header, team))).toEqual(["champion", "bot: expert"]);
  expect(teamName({ teams: [{ name: "medium", level: "medium" }, {}] } as unknown as Header, 0)).toBe("bot: medium");
  expect(teamName({ teams: [{}, { name: "" }] } as unknown as Header, 1)).toBe("Red");
});

test("a policy has one name, whoever recorded it", () => {
  const run = "20261122-055435-standard-stormy-marten";
  const names = [
    policyName("update 345", run),
    policyName("stormy-marten u345"),
    policyName(run),
    policyName("champion"),
  ];
  expect(names).toEqual(["update 345 of stormy-marten", "update 345 of stormy-marten", "stormy-marten", "champion"]);
  const teams = [
    { name: "human and update 5", level: "" },
    { name: "update 5", level: "" },
  ];
  const header = { teams, run } as unknown as Header;
  expect([0, 1].map((team) => teamName(header, team))).toEqual([
    "human and update 5 of stormy-marten",
    "update 5 of stormy-marten",
  ]);
});
