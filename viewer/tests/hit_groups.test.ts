// Hit groups and the separation of damage numbers.

import { describe, expect, test } from "vitest";
import { LIFE_S, type NumberBox, type HitGroup, findHitGroups, separate, hitGroupAt } from "../src/data/hit_groups";
import { EventKind, HitFlag } from "../src/protocol.gen";
import { eventRows, smallReplay } from "./fixtures";

const HZ = 20;
type Hit = [tick: number, target: number, value: number, flags?: number, kind?: EventKind];

const rows = (hits: readonly Hit[]) =>
  eventRows(hits.map(([tick, target, value, flags, kind = EventKind.HIT]) => ({ tick, kind, target, value, flags })));
const hitGroups = (...hits: Hit[]) => findHitGroups(rows(hits), HZ);
const shown = (hitGroup: HitGroup, tick: number) => hitGroupAt(hitGroup, tick, HZ);

describe("findHitGroups", () => {
  test("groups hits in quick succession into one growing number", () => {
    const [one, ...more] = hitGroups([100, 3, 5], [104, 3, 6], [112, 3, 7]);
    expect(more).toEqual([]);
    expect([99, 100, 103.9, 104, 111, 112, 130].map((tick) => shown(one, tick)?.damage)).toEqual([
      undefined,
      5,
      5,
      11,
      11,
      18,
      18,
    ]);
    expect(shown(one, 112 + LIFE_S * HZ)).toBeNull();
  });

  test("separates mechs, late hits and long series", () => {
    expect(hitGroups([0, 1, 5], [1, 2, 6], [2, 1, 7]).map((hitGroup) => [hitGroup.target, hitGroup.sums])).toEqual([
      [1, [5, 12]],
      [2, [6]],
    ]);
    expect(hitGroups([0, 1, 5], [12, 1, 6]).map((hitGroup) => hitGroup.turn)).toEqual([0, 1]);
    const stream = hitGroups(...Array.from({ length: 60 }, (_, i): Hit => [i * 2, 1, 1]));
    expect(stream.length).toBeGreaterThan(3);
    for (const { ticks } of stream) expect(ticks[ticks.length - 1] - ticks[0]).toBeLessThan(2.6 * HZ - LIFE_S * HZ);
  });

  test("counts only damage, and the share of critical hits", () => {
    expect(hitGroups([0, 1, 0], [1, -1, 5], [2, 1, 5, 0, EventKind.LAUNCH])).toEqual([]);
    const [hitGroup] = hitGroups([0, 1, 6], [4, 1, 2, HitFlag.REAR]);
    expect([0, 4].map((tick) => shown(hitGroup, tick)?.strong)).toEqual([0, 0.25]);
  });

  test("returns times since the first, latest and last hit", () => {
    const [hitGroup] = hitGroups([0, 1, 6], [8, 1, 2]);
    expect(shown(hitGroup, 4)).toMatchObject({ sinceFirst: 0.2, sinceLatest: 0.2, sinceEnd: 0 });
    expect(shown(hitGroup, 12)).toMatchObject({ sinceFirst: 0.6, sinceLatest: 0.2, sinceEnd: 0.2 });
  });

  test("counts all damage of a real match once, with at most two numbers per mech", () => {
    const { chunks } = smallReplay();
    let [hits, counted, most] = [0, 0, 0];
    for (const { events, tick0, tick1 } of chunks) {
      const found = findHitGroups(events, HZ);
      for (let i = 0; i < events.count; i++)
        if (events.kind[i] === EventKind.HIT && events.target[i] >= 0 && events.weapon[i] >= 0) hits += events.value[i];
      for (const hitGroup of found) counted += hitGroup.sums[hitGroup.sums.length - 1];
      for (let tick = tick0; tick <= tick1; tick++) {
        const counts = new Map<number, number>();
        for (const hitGroup of found)
          if (shown(hitGroup, tick)) counts.set(hitGroup.target, (counts.get(hitGroup.target) ?? 0) + 1);
        most = Math.max(most, ...counts.values());
      }
    }
    expect(hits).toBeGreaterThan(0);
    expect(counted).toBeCloseTo(hits, 6);
    expect(most).toBeLessThanOrEqual(2);
  });
});

const box = (x: number, y: number, more: Partial<NumberBox> = {}): NumberBox => ({
  x,
  y,
  wide: 30,
  high: 20,
  weight: 1,
  order: 0,
  ...more,
});

describe("separate", () => {
  const covered = (boxes: readonly NumberBox[], lifts: readonly number[]) =>
    boxes.some((one, a) =>
      boxes.some(
        (other, b) =>
          a < b &&
          Math.abs(one.x - other.x) < 20 &&
          Math.abs(one.y + lifts[a] - other.y - lifts[b]) < (one.high + other.high) / 2 - 1e-9,
      ),
    );

  test("keeps boxes that do not overlap", () => {
    expect(separate([box(0, 0), box(31, 0), box(0, 21), box(0, -21)])).toEqual([0, 0, 0, 0]);
  });

  test("removes all overlaps", () => {
    for (let seed = 1; seed < 40; seed++) {
      const random = (k: number) => Math.abs(Math.sin(seed * 12.9898 + k * 78.233) * 43758.5453) % 1;
      const boxes = Array.from({ length: 3 + (seed % 12) }, (_, i) =>
        box(random(i) * 6, random(i + 50) * 60, { high: 14 + random(i + 90) * 20 }),
      );
      const lifts = separate(boxes);
      expect(covered(boxes, lifts)).toBe(false);
      expect(Math.min(...lifts)).toBe(0); // the lowest box stays
    }
  });

  test("does not depend on the order of boxes", () => {
    const boxes = [
      box(0, 0, { order: 1 }),
      box(3, 4, { order: 2 }),
      box(-2, 4, { order: 3 }),
      box(9, 30, { order: 4 }),
    ];
    expect(separate([...boxes].reverse()).reverse()).toEqual(separate(boxes));
  });

  test("moves boxes continuously", () => {
    const lift = (x: number, y: number, weight: number) => separate([box(0, 0, { order: 1, weight }), box(x, y)])[1];
    const steps = Array.from({ length: 200 }, (_, i) => i / 200);
    for (const path of [
      (t: number) => lift(40 - 40 * t, 0, 1),
      (t: number) => lift(0, 30 - 30 * t, 1),
      (t: number) => lift(0, 0, t),
    ]) {
      const lifts = steps.map(path);
      expect(lifts[0]).toBe(0);
      expect(Math.max(...lifts)).toBeGreaterThan(19);
      for (let i = 1; i < lifts.length; i++) expect(Math.abs(lifts[i] - lifts[i - 1])).toBeLessThan(0.5);
    }
  });
});
