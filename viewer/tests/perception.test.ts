// What a pilot perceives: contacts with age and range, whom the first-person view shows and marks.

import { describe, expect, test } from "vitest";
import type { Contact } from "../src/data/cursor";
import { contactText, isPerceived, knowledgeOf, markedContacts, memoryOf, perceive } from "../src/data/perception";
import { chunkAt } from "../src/data/store";
import { makePoses, samplePoses } from "../src/interpolate";
import { MechFlag } from "../src/protocol.gen";
import type { MatchState } from "../src/state";
import { replayOf } from "./fixtures";

const golden = Object.fromEntries(["insight.ecr", "reach.ecr", "small.ecr"].map((name) => [name, replayOf(name)]));

/** Return a golden match with its cursor at a tick. */
function matchAt(name: string, tick: number): MatchState {
  const { header, chunks } = golden[name];
  const number = chunkAt(
    chunks.map(({ tick0, tick1 }) => [tick0, tick1]),
    tick,
  );
  const poses = samplePoses(chunks[number], tick, header.tick_hz, makePoses(header.mechs));
  const store = { get: (k: number) => chunks[k] };
  return { header, chunk: chunks[number], chunkNumber: number, poses, store } as unknown as MatchState;
}

/** Return all detections of a match: for each tick of a frame, the mechs a pilot detects. */
function detections(name: string, pilot: number): Map<number, Set<number>> {
  const found = new Map<number, Set<number>>();
  for (const chunk of golden[name].chunks)
    for (let frame = 1; frame < chunk.frames; frame++) {
      const [bytes, { sees }] = [Math.ceil(chunk.mechs / 8), chunk.insight!];
      const seen = new Set<number>();
      for (let other = 0; other < chunk.mechs; other++)
        if ((sees[(frame * chunk.mechs + pilot) * bytes + (other >> 3)] >> (other & 7)) & 1) seen.add(other);
      found.set(chunk.tick[frame - 1], seen);
    }
  return found;
}

describe("perceive", () => {
  test("returns for each hostile the last detection within the memory, at every moment", () => {
    const { header, chunks } = golden["insight.ecr"];
    const end = chunks.at(-1)!.tick1;
    let [fresh, lost] = [0, 0];
    for (const pilot of [2, 7]) {
      const known = detections("insight.ecr", pilot);
      for (let tick = 2; tick < end; tick += 9) {
        const match = matchAt("insight.ecr", tick);
        const expected = new Map<number, number>();
        const oldest = tick - memoryOf(header) * header.tick_hz;
        for (const [at, seen] of [...known].sort((a, b) => a[0] - b[0]))
          if (at <= tick && at >= oldest) for (const mech of seen) expected.set(mech, at);
        const now = tick - (tick % header.frame_ticks);
        const hostile = (mech: number) => header.roster[mech].team !== header.roster[pilot].team;
        const alive = (mech: number) => (match.poses.flags[mech] & MechFlag.ALIVE) !== 0;
        const ages = [...expected].filter(([mech]) => hostile(mech) && alive(mech));
        const contacts = perceive(match, tick, pilot);
        expect(new Map(contacts.map(({ mech, age }) => [mech, Number(age.toFixed(4))]))).toEqual(
          new Map(ages.map(([mech, at]) => [mech, at === now ? 0 : Number(((tick - at) / header.tick_hz).toFixed(4))])),
        );
        fresh += contacts.filter(({ age }) => age === 0).length;
        lost += contacts.filter(({ age }) => age > 0).length;
        expect(contacts.map(({ range }) => range)).toEqual(contacts.map(({ range }) => range).sort((a, b) => a - b));
      }
    }
    expect([fresh, lost].every((count) => count > 10)).toBe(true);
  });

  test("places lost contacts where they were", () => {
    const { header, chunks } = golden["insight.ecr"];
    for (let tick = 7; tick < chunks.at(-1)!.tick1; tick += 5) {
      const lost = perceive(matchAt("insight.ecr", tick), tick, 2).find(({ age }) => age > 0);
      if (!lost) continue;
      const then = matchAt("insight.ecr", Math.round(tick - lost.age * header.tick_hz)).poses;
      expect([lost.x, lost.y]).toEqual([expect.closeTo(then.x[lost.mech], 4), expect.closeTo(then.y[lost.mech], 4)]);
      return;
    }
    throw new Error("no contact is lost");
  });

  test("uses the team's knowledge without policy columns, and all without recorded visibility", () => {
    const names = ["insight.ecr", "reach.ecr", "small.ecr"];
    expect(names.map((name) => knowledgeOf(matchAt(name, 50)))).toEqual(["pilot", "team", "none"]);
    const everyone = matchAt("small.ecr", 50);
    const hostiles = everyone.header.roster.filter(({ team }) => team === 1).length;
    expect(perceive(everyone, 50, 0).map(({ age }) => age)).toEqual(Array(hostiles).fill(0));
  });
});

const contact = (mech: number, more: Partial<Contact>): Contact => {
  return { mech, x: 0, y: 0, z: 0, yaw: 0, age: 0, range: 10, listed: true, target: false, ...more };
};

describe("contacts", () => {
  test("are in the picture while they are detected, friends always", () => {
    const roster = [0, 0, 1, 1, 1].map((team) => ({ team }));
    const match = { header: { roster } } as unknown as MatchState;
    const known = [contact(2, {}), contact(3, { age: 2 })];
    expect([0, 1, 2, 3, 4].map((mech) => isPerceived(match, known, 0, mech))).toEqual([true, true, true, false, false]);
  });

  test("are marked if they are in a slot of the display, or near, and the target always", () => {
    const many = Array.from({ length: 30 }, (_, mech) =>
      contact(mech, { listed: mech % 2 === 0, target: mech === 29 }),
    );
    const even = Array.from({ length: 15 }, (_, k) => 2 * k);
    expect(markedContacts(many, true).map(({ mech }) => mech)).toEqual([...even, 29]);
    const all = many.map((each) => ({ ...each, listed: true }));
    expect(markedContacts(all, false).map(({ mech }) => mech)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 29]);
  });

  test("tell range, and age once they are lost", () => {
    expect([contactText(contact(1, {})), contactText(contact(1, { age: 3.21, range: 7.6 }))]).toEqual([
      "10 vox",
      "8 vox, 3.2 s ago",
    ]);
  });
});
