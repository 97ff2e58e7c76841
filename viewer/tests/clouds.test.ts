// Smoke clouds, point-defence shots, and the puffs of clouds.

import { Vector3 } from "three";
import { describe, expect, test } from "vitest";
import { cloudShape, cloudsAt, inSmoke, thinned } from "../src/data/clouds";
import { conditionText } from "../src/text";
import { APPEARANCES, Appearance } from "../src/palette";
import { MechFlag } from "../src/protocol.gen";
import { groundBelow } from "../src/data/voxels";
import { puffAlpha, puffsOf, revealFactor } from "../src/render/clouds";
import { TIERS, TIER_NAMES } from "../src/quality";
import { type Expected, expectedOf, replayOf, smallReplay } from "./fixtures";

const LIFE = 10;

const { header, chunks } = replayOf("smoke.ecr");

test("many clouds at a time are thinner, few keep their opacity", () => {
  expect([0, 1, 8, 16, 64].map((clouds) => thinned(0.8, clouds))).toEqual([0.8, 0.8, 0.8, 0.4, 0.1]);
});

describe("cloudsAt", () => {
  test("matches the clouds that Python wrote, in match ticks", () => {
    const expected = expectedOf<Expected>("smoke.json");
    let rows = 0;
    chunks.forEach((chunk, n) => {
      const { clouds } = expected.chunks[n].tables;
      expect([...chunk.clouds.tick]).toEqual(clouds.tick.map((tick) => tick + expected.chunks[n].tick0));
      expect([...chunk.clouds.actor]).toEqual(clouds.actor);
      for (const axis of ["x", "y", "z"] as const)
        expect([...chunk.clouds[axis]]).toEqual(clouds[axis].map((at) => at / 8));
      rows += chunk.clouds.count;
    });
    expect(rows).toBeGreaterThan(10);
  });

  test("is equal from both chunks at a chunk border", () => {
    for (let n = 0; n + 1 < chunks.length; n++)
      expect(cloudsAt(chunks[n + 1], header, chunks[n].tick1)).toEqual(cloudsAt(chunks[n], header, chunks[n].tick1));
  });

  test("shows a cloud for ten seconds in every chunk it spans", () => {
    const first = chunks.flatMap((chunk) => [...chunk.clouds.tick])[0];
    for (const chunk of chunks) {
      for (let tick = chunk.tick0; tick <= chunk.tick1; tick += 2.5) {
        const age = (tick - first) / header.tick_hz;
        expect(cloudsAt(chunk, header, tick).some((cloud) => cloud.age === age)).toBe(age >= 0 && age < LIFE);
      }
    }
  });

  test("returns no clouds for a match without smoke", () => {
    const small = smallReplay();
    for (const chunk of small.chunks) expect(cloudsAt(chunk, small.header, chunk.tick1)).toEqual([]);
  });
});

describe("cloudShape", () => {
  test("grows in half a second, stays, thins out at the end, and is continuous", () => {
    expect(cloudShape(-0.01, LIFE)).toBeNull();
    expect(cloudShape(LIFE, LIFE)).toBeNull();
    expect(cloudShape(0.5, LIFE)).toEqual({ size: 1, density: 1 });
    expect(cloudShape(8.4, LIFE)).toEqual({ size: 1, density: 1 });
    expect(cloudShape(9.99, LIFE)?.density).toBeLessThan(0.01);
    let before = cloudShape(0, LIFE);
    for (let age = 0.01; age < LIFE; age += 0.01) {
      const now = cloudShape(age, LIFE);
      expect(Math.abs((now?.size ?? 0) - (before?.size ?? 0))).toBeLessThan(0.06);
      expect(Math.abs((now?.density ?? 0) - (before?.density ?? 0))).toBeLessThan(0.1);
      before = now;
    }
  });

  test("hides points within the radius during the lifetime", () => {
    const chunk = chunks.find((one) => one.clouds.count > 0 && one.clouds.tick[0] < one.tick0);
    if (!chunk) throw new Error("no chunk begins in smoke");
    const [x, y, z] = [chunk.clouds.x[0], chunk.clouds.y[0], chunk.clouds.z[0]];
    expect(inSmoke(chunk, header, chunk.tick0, x + 3.9, y, z)).toBe(true);
    expect(inSmoke(chunk, header, chunk.clouds.tick[0] + 200, x, y, z)).toBe(false);
    expect(inSmoke(chunk, header, chunk.tick0, x + 40, y, z)).toBe(false);
  });

  test("adds 'in smoke' to the state of living mechs", () => {
    expect(conditionText(MechFlag.ALIVE, true)).toBe("in smoke");
    expect(conditionText(MechFlag.ALIVE | MechFlag.VENT, true)).toBe("venting · in smoke");
    expect(conditionText(MechFlag.ALIVE, false)).toBe("");
    expect(conditionText(0, true)).toBe("destroyed");
  });
});

describe("smoke puffs", () => {
  test("fade only in front of the revealed mech", () => {
    const [eye, mech] = [new Vector3(0, 0, 0), new Vector3(20, 0, 0)];
    const at = (x: number, y: number) => revealFactor({ x, y, z: 0, radius: 2 }, eye, mech);
    expect(at(15, 0)).toBeLessThan(0.3);
    expect(at(15, 2)).toBeGreaterThan(at(15, 0));
    expect([at(15, 9), at(25, 0), revealFactor({ x: 15, y: 0, z: 0, radius: 2 }, eye, null)]).toEqual([1, 1, 1]);
  });

  const cloud = { x: 20, y: 30, z: 5, radius: 4, age: 3, size: 1, density: 1, seed: 12.5 };

  test("are deterministic, move continuously, and fill the cloud's sphere", () => {
    for (const name of TIER_NAMES) {
      const puffs = puffsOf(cloud, TIERS[name].puffs);
      expect(puffs).toEqual(puffsOf({ ...cloud }, TIERS[name].puffs));
      const later = puffsOf({ ...cloud, age: 3.05 }, TIERS[name].puffs);
      puffs.forEach((puff, k) =>
        expect(Math.hypot(puff.x - later[k].x, puff.y - later[k].y, puff.z - later[k].z)).toBeLessThan(0.06),
      );
      const far = puffs.map((puff) => Math.hypot(puff.x - 20, puff.y - 5, puff.z + 30));
      expect(Math.max(...far)).toBeLessThan(4);
      expect(Math.max(...puffs.map((puff, k) => far[k] + puff.radius))).toBeGreaterThan(4);
    }
  });

  test("hide equally for any number of puffs", () => {
    for (const puffs of [9, 14, 44]) {
      const share = 0.5;
      const through = (1 - puffAlpha(puffs, share)) ** (puffs * share * share * 0.6);
      expect(through).toBeLessThan(0.02);
    }
  });

  test("groundBelow finds ground and roofs, and null inside walls", () => {
    const size = [4, 4, 6];
    const appearances = new Uint8Array(4 * 4 * 6);
    expect(APPEARANCES[Appearance.CONCRETE].form).toBe("block");
    for (let z = 0; z < 3; z++) appearances[1 + 4 * (1 + 4 * z)] = Appearance.CONCRETE;
    expect(groundBelow(appearances, size, 1.5, 1.5, 4.2)).toBe(3);
    expect(groundBelow(appearances, size, 1.5, 1.5, 1.2)).toBeNull();
    expect(groundBelow(appearances, size, 2.5, 1.5, 4.2)).toBe(0);
    expect(groundBelow(appearances, size, -3, 9, 4.2)).toBe(0);
  });
});
