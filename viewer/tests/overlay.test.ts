// The overlay: labels do not overlap, fewer of them in crowds, names of at least 11 px, few lines in large battles.

import { describe, expect, test } from "vitest";
import { frontLine } from "../src/data/front_line";
import { packsOf, recentDamage } from "../src/data/packs";
import type { Chunk } from "../src/data/replay";
import { EventKind, type Header, MechFlag } from "../src/protocol.gen";
import type { Box } from "../src/framing";
import { linksOf } from "../src/render/links";
import { type Label, leaderStart, liftOff, overlap, placeLabels, platedMechs } from "../src/render/overlay/layout";
import { nameHeight } from "../src/render/overlay/plates";
import type { MatchState } from "../src/state";
import { draws, eventRows } from "./fixtures";

const AREA: Box = { left: 100, top: 50, right: 700, bottom: 450 };

/** Return pseudo-random labels, also beyond the area. */
function scattered(count: number): Label[] {
  const next = draws();
  return Array.from({ length: count }, () => ({
    x: next() * 800,
    y: next() * 500,
    width: 30 + 50 * next(),
    height: 18,
  }));
}

describe("placeLabels", () => {
  test.each([5, 20, 200])("places %i labels without overlaps within the area", (count) => {
    const taken: Box[] = [{ left: 300, top: 200, right: 420, bottom: 260 }];
    const boxes = placeLabels(scattered(count), AREA, taken).filter((box) => box !== null);
    expect(boxes.length).toBeGreaterThan(3);
    const all = [...taken, ...boxes];
    for (const [i, a] of all.entries()) for (const b of all.slice(i + 1)) expect(overlap(a, b)).toBe(false);
    for (const { left, top, right, bottom } of boxes)
      expect(left >= AREA.left && right <= AREA.right && top >= AREA.top && bottom <= AREA.bottom).toBe(true);
  });

  test("keeps the first label of a crowd at its anchor and drops labels without room", () => {
    const crowd = Array.from({ length: 40 }, () => ({ x: 400, y: 300, width: 60, height: 18 }));
    const boxes = placeLabels(crowd, AREA);
    expect(boxes[0]).toEqual({ left: 370, top: 282, right: 430, bottom: 300 });
    expect(boxes.filter((box) => box === null).length).toBeGreaterThan(15);
  });

  test("finds room anywhere for the plates of two groups at the edges of a phone", () => {
    const phone: Box = { left: 88, top: 90, right: 756, bottom: 190 };
    const team = (x: number) => Array.from({ length: 8 }, (_, i) => ({ x, y: 150 + i, width: 64, height: 17 }));
    const near = [...team(100), ...team(740)];
    const far = near.map((label) => ({ ...label, reach: Infinity }));
    expect(placeLabels(near, phone)).toContain(null);
    expect(placeLabels(far, phone)).not.toContain(null);
  });

  test("leads a line to the anchor of a label that stands far from it", () => {
    const label = { x: 400, y: 300, width: 60, height: 18 };
    expect(leaderStart(label, { left: 370, top: 282, right: 430, bottom: 300 })).toBeNull();
    expect(leaderStart(label, { left: 370, top: 262, right: 430, bottom: 280 })).toBeNull();
    expect(leaderStart(label, { left: 370, top: 242, right: 430, bottom: 260 })).toEqual([400, 260]);
    expect(leaderStart(label, { left: 430, top: 300, right: 490, bottom: 318 })).toEqual([430, 300]);
  });

  test("drops labels of mechs under the panels", () => {
    expect(placeLabels([{ x: 90, y: 300, width: 60, height: 18 }], AREA)).toEqual([null]);
  });
});

describe("liftOff", () => {
  const box: Box = { left: 100, top: 100, right: 140, bottom: 120 };
  const other = (top: number, left = 120): Box => ({ left, top, right: left + 60, bottom: top + 18 });

  test("returns how far a box moves up off all others", () => {
    expect(liftOff(box, [other(200), other(100, 300)], 30)).toBe(0);
    expect(liftOff(box, [other(110)], 30)).toBeCloseTo(12, 1);
    expect(liftOff(box, [other(110), other(85)], 50)).toBeCloseTo(37, 1);
  });

  test("returns null without room", () => {
    expect(liftOff(box, [other(100)], 10)).toBeNull();
    expect(liftOff(box, [other(110), other(85)], 30)).toBeNull();
  });
});

test("names are at least 11 px high at any distance", () => {
  for (const far of [1, 30, 100, 1000]) expect(nameHeight(far)).toBeGreaterThanOrEqual(11);
  expect(nameHeight(10)).toBeGreaterThan(nameHeight(100));
});

describe("platedMechs", () => {
  const cases = (count: number) =>
    Array.from({ length: count }, (_, mech) => ({
      mech,
      own: mech >= count - 5,
      fights: mech % 2 === 1,
      far: mech + 1,
    }));

  test("is every living mech in small matches; 24 in crowds: the selected pack, those that fight, the nearest", () => {
    expect(platedMechs(cases(10), 10)).toHaveLength(10);
    expect(platedMechs(cases(50), 50)).toHaveLength(24);
    expect(platedMechs(cases(50), 50).slice(0, 8)).toEqual([45, 46, 47, 48, 49, 1, 3, 5]);
  });

  test("is in large battles the selected pack and at most ten mechs close to the camera, however many fight", () => {
    const far = cases(200).map((each) => ({ ...each, far: each.far + 60 }));
    expect(platedMechs(far, 200)).toEqual([195, 196, 197, 198, 199]);
    const near = platedMechs(cases(200), 200);
    expect(near).toHaveLength(10);
    expect(Math.max(...near.filter((mech) => mech < 195))).toBeLessThan(30);
  });
});

test("frontLine lies in the middle between two equal rows of mechs, and tells nothing of hidden ones", () => {
  const rows = (mechs: number) => {
    const all = (value: (mech: number) => number) => Float32Array.from({ length: mechs }, (_, mech) => value(mech));
    const header = {
      world: { size: [100, 80, 20] },
      roster: Array.from({ length: mechs }, (_, mech) => ({ team: mech % 2, present: true })),
    } as unknown as Header;
    const x = all((mech) => (mech % 2 ? 58 : 42));
    const poses = { x, y: all((mech) => 10 + (60 * mech) / mechs), flags: all(() => MechFlag.ALIVE) };
    return { header, poses: poses as unknown as MatchState["poses"], shown: all(() => 1) };
  };
  const { header, poses, shown } = rows(80);
  const ends = frontLine(header, poses, shown).flat();
  for (const [x] of ends) expect(Math.abs(x - 50)).toBeLessThan(1.5);
  const along = ends.map(([, y]) => y);
  expect(Math.max(...along) - Math.min(...along)).toBeGreaterThan(50);
  expect(
    frontLine(
      header,
      poses,
      shown.map((_, mech) => (mech % 2 ? 0 : 1)),
    ),
  ).toEqual([]);
  expect(frontLine(...(Object.values(rows(20)) as Parameters<typeof frontLine>))).toEqual([]);
});

/** A match in which everyone is painted and the first mech knows all others. */
function knownMatch(mechs: number): { match: MatchState; chunk: Chunk } {
  const roster = Array.from({ length: mechs }, (_, mech) => ({ team: mech < mechs / 2 ? 0 : 1, present: true }));
  const all = (value: (mech: number) => number) => Float32Array.from({ length: mechs }, (_, mech) => value(mech));
  const match = {
    header: { mechs, roster },
    poses: {
      x: all((mech) => mech),
      y: all(() => 5),
      z: all(() => 1),
      flags: all(() => MechFlag.ALIVE | MechFlag.PAINTED),
    },
    shown: all(() => 1),
  } as unknown as MatchState;
  const words = Math.ceil(mechs / 8);
  const chunk = {
    mechs,
    frames: 1,
    tick: Float64Array.of(0),
    mech: { painter: all((mech) => (mech + 1) % mechs), focus: all(() => mechs - 1) },
    insight: {
      contact: Int16Array.from({ length: mechs * mechs }, (_, i) => i % mechs),
      sees: new Uint8Array(mechs * words).fill(255),
    },
  } as unknown as Chunk;
  return { match, chunk };
}

describe("linksOf", () => {
  test("has at most 8 lines of the selected mech, its target first, and in large battles no others", () => {
    const { match, chunk } = knownMatch(200);
    const links = linksOf(match, chunk, 0, 0, false);
    expect(links).toHaveLength(8);
    expect(links[0].to[0]).toBe(199);
    for (const { from, to } of links) expect(from[0] === 0 || to[0] === 0).toBe(true);
    expect(linksOf(match, chunk, 0, -1, false)).toEqual([]);
  });

  test("has the painters' lines of all mechs in small matches", () => {
    const { match, chunk } = knownMatch(10);
    expect(linksOf(match, chunk, 0, -1, false)).toHaveLength(10);
    match.shown.fill(0);
    expect(linksOf(match, chunk, 0, 0, false)).toEqual([]);
  });
});

test("packsOf numbers the packs of each team from 1 and leaves out absent mechs", () => {
  const roster = [3, 3, 5, 9, 9, 4].map((pack, m) => ({ team: +(m > 2), pack, present: m !== 4, name: `M${m}` }));
  expect(packsOf({ roster } as unknown as Header)).toEqual([
    { team: 0, number: 1, mark: "M0–1", mechs: [0, 1] },
    { team: 0, number: 2, mark: "M2", mechs: [2] },
    { team: 1, number: 1, mark: "M5", mechs: [5] },
    { team: 1, number: 2, mark: "M3", mechs: [3] },
  ]);
});

test("recentDamage counts hits dealt and taken in the last seconds", () => {
  const events = eventRows([
    { tick: 5, kind: EventKind.HIT, target: 1, value: 9 },
    { tick: 50, kind: EventKind.HIT, target: 2, value: 5 },
    { tick: 60, kind: EventKind.KILL, target: 2 },
    { tick: 90, kind: EventKind.HIT, target: 1, value: 7 },
  ]);
  expect([...recentDamage([{ events } as unknown as Chunk], 80, 20, 3)]).toEqual([5, 0, 5]);
});
