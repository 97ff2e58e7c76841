// Coordinate spaces, interpolation between frames, and labels of runs.

import { describe, expect, test } from "vitest";
import { frameAt, hermite, makePoses, sampleMech, samplePoses, scoreAt, smooth } from "../src/interpolate";
import { MechFlag } from "../src/protocol.gen";
import { runLabel } from "../src/text";
import { cellCoords, cellIndex, mixAngle, voxelPoint, worldPoint, world_from_voxel, wrapAngle } from "../src/spaces";
import { Vector3 } from "three";
import { smallReplay } from "./fixtures";

const HZ = 20;

describe("spaces", () => {
  test("round-trip between voxel and world space", () => {
    const world = worldPoint(3, 5, 7, new Vector3());
    expect(world.toArray()).toEqual([3, 7, -5]);
    expect(voxelPoint(world, new Vector3()).toArray()).toEqual([3, 5, 7]);
    expect(new Vector3(3, 5, 7).applyMatrix4(world_from_voxel).distanceTo(world)).toBeLessThan(1e-9);
  });

  test("number cells x fastest", () => {
    expect(cellCoords(cellIndex(3, 5, 7, 20, 30), 20, 30)).toEqual([3, 5, 7]);
  });

  test("mixAngle takes the short way", () => {
    expect(mixAngle(3, -3, 0.5)).toBeCloseTo(Math.PI, 5);
    expect(wrapAngle(7)).toBeCloseTo(7 - 2 * Math.PI, 9);
  });
});

describe("samplePoses", () => {
  test("returns recorded values at frame ticks", () => {
    const { chunks, header } = smallReplay();
    const off = { x: 0, hp: 0, yaw: 0, flags: 0 };
    for (const chunk of chunks) {
      for (let frame = 0; frame < chunk.frames; frame++) {
        const poses = samplePoses(chunk, chunk.tick[frame], HZ, makePoses(header.mechs));
        for (let mech = 0; mech < header.mechs; mech++) {
          const at = frame * header.mechs + mech;
          const turn = wrapAngle(poses.yaw[mech] - chunk.mech.yaw[at]);
          // one expectation for all values: thousands would take seconds
          off.x = Math.max(off.x, Math.abs(poses.x[mech] - chunk.mech.x[at]));
          off.hp = Math.max(off.hp, Math.abs(poses.hp[mech] - chunk.mech.hp[at]));
          off.yaw = Math.max(off.yaw, Math.abs(turn));
          off.flags += Number(poses.flags[mech] !== chunk.mech.flags[at]);
        }
      }
    }
    expect(off.x).toBeLessThan(5e-5);
    expect(off.hp).toBeLessThan(5e-4);
    expect(off.yaw).toBeLessThan(5e-5);
    expect(off.flags).toBe(0);
  });

  test("is continuous between chunks", () => {
    const { chunks, header } = smallReplay();
    const sample = (n: number, tick: number) => samplePoses(chunks[n], tick, HZ, makePoses(header.mechs));
    for (let n = 0; n + 1 < chunks.length; n++) {
      const [before, after] = [sample(n, chunks[n].tick1), sample(n + 1, chunks[n].tick1)];
      for (const column of ["x", "y", "z", "hp", "heat", "alive"] as const)
        expect(after[column]).toEqual(before[column]);
    }
  });

  test("moves continuously within a chunk", () => {
    const { chunks, header } = smallReplay();
    let [before, poses] = [makePoses(header.mechs), makePoses(header.mechs)];
    let farthest = 0;
    samplePoses(chunks[1], 40, HZ, before);
    for (let tick = 40.25; tick < 80; tick += 0.25) {
      samplePoses(chunks[1], tick, HZ, poses);
      for (let mech = 0; mech < header.mechs; mech++)
        farthest = Math.max(farthest, Math.hypot(poses.x[mech] - before.x[mech], poses.y[mech] - before.y[mech]));
      [before, poses] = [poses, before];
    }
    expect(farthest).toBeGreaterThan(0);
    expect(farthest).toBeLessThan(0.35);
  });

  test("agrees with sampleMech", () => {
    const { chunks, header } = smallReplay();
    const all = samplePoses(chunks[1], 51.3, HZ, makePoses(header.mechs));
    const one = sampleMech(chunks[1], 3, 51.3, HZ);
    expect([one.x, one.y, one.z].map(Math.fround)).toEqual([all.x[3], all.y[3], all.z[3]]);
  });

  test("frameAt clamps to the chunk", () => {
    const { chunks } = smallReplay();
    expect(frameAt(chunks[0], -5)).toMatchObject({ frame: 0, share: 0 });
    expect(frameAt(chunks[0], 99)).toMatchObject({ frame: chunks[0].frames - 1 });
    expect(scoreAt(chunks[3], 1e9)[1]).toBeGreaterThan(scoreAt(chunks[0], 0)[1]);
  });

  test("smooth and hermite interpolate", () => {
    expect([smooth(-1), smooth(0), smooth(0.5), smooth(1), smooth(2)]).toEqual([0, 0, 0.5, 1, 1]);
    expect(hermite(1, 0, 3, 0, 0.5)).toBe(2);
  });
});

test("dead mechs keep their position", () => {
  const { chunks, header } = smallReplay();
  const last = chunks[chunks.length - 1];
  const dead = Array.from({ length: header.mechs }, (_, mech) => mech).filter(
    (mech) => !(last.mech.flags[(last.frames - 1) * header.mechs + mech] & MechFlag.ALIVE),
  );
  expect(dead.length).toBeGreaterThan(0);
  for (const mech of dead) expect(last.mech.x[(last.frames - 1) * header.mechs + mech]).toBeGreaterThan(0);
});

test("runLabel omits the leading timestamp", () => {
  expect(runLabel("20261122-055435-standard-tidal-quail")).toBe("tidal-quail");
  for (const run of ["", "my-run", "20261122-055435-", "x20261122-055435-y"]) expect(runLabel(run)).toBe(run);
});
