// Who flies the mechs of a recorded match that a page plays on.

import { expect, test } from "vitest";
import { Pilots, scriptsOf, teamsOf } from "../src/game/cast";
import type { Header } from "../src/protocol.gen";

const pilots = new Pilots(["trivial", "easy"], { champion: "c1" });
const team = (name: string, policy = "", checkpoint = "", level = "") => ({ name, policy, checkpoint, level });
const mech = (side: 0 | 1, name: string) => ({ team: side, pack: 0, chassis: 0, name, present: true });
const header = {
  roster: [mech(0, "B1"), mech(0, "B2"), mech(1, "R1"), mech(1, "R2")],
  teams: [team("human and trivial"), team("champion", "champion", "c1")],
  pilots: { script: [0, 1, 0, 0], weapon_prob: 1, names: ["heuristic:trivial", "heuristic:trivial", "", ""] },
} as unknown as Header;
const names = (chosen: Record<string, string>, seats: number[] = []) =>
  pilots.choose(header, chosen, seats).pilots.map(({ name }) => name);

test("mechs keep their pilots, and that of a human has those of its mates", () => {
  expect(names({})).toEqual(["heuristic:trivial", "heuristic:trivial", "champion", "champion"]);
});

test("a mech goes before its team, and seats have no script", () => {
  const cast = pilots.choose(header, { blue: "still", B2: "easy" }, [2]);
  expect(cast.pilots.map(({ name }) => name)).toEqual(["still", "heuristic:easy", "champion", "champion"]);
  expect([scriptsOf(cast), cast.labels]).toEqual([[0, 2, 0, 0], { blue: "still", B2: "easy" }]);
  const red = { ...team("champion and human", "champion", "c1") };
  expect(teamsOf([0, 0, 1, 1], cast)).toEqual([team("easy and still"), red]);
});

test("pilots that a page lacks are named, unless a human flies", () => {
  const other: Header = { ...header, teams: [header.teams[0], team("rival", "rival", "c2")] };
  const problem = /red was flown by "rival", whose policy this page lacks; choose a pilot for red/;
  expect(() => pilots.choose(other, {})).toThrow(problem);
  expect(() => pilots.choose(other, {}, [2])).toThrow(problem);
  expect(pilots.choose(other, { R2: "easy" }, [2]).pilots[2].name).toBe("still");
  expect(() => pilots.choose(header, { B9: "easy" })).toThrow(/has mech "B9", expected blue, red or one of: B1, B2/);
  expect(() => pilots.named("toString")).toThrow(/pilot "toString" is unknown/);
});
