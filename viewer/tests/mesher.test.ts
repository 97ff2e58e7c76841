// Greedy meshing of voxel chunks.

import { describe, expect, test } from "vitest";
import { APPEARANCES, Appearance } from "../src/palette";
import {
  CHUNK,
  OUTSIDE,
  PADDED,
  POSITION_STEPS,
  type QuadMesh,
  cutChunk,
  cutTints,
  meshChunk,
} from "../src/data/mesher";
import { draws } from "./fixtures";

const index = (x: number, y: number, z: number) => x + 1 + (y + 1) * PADDED + (z + 1) * PADDED * PADDED;
const tints = new Uint8Array(PADDED * PADDED);

/** Return a padded volume of air above the ground with some voxels set. */
function volume(cells: readonly [number, number, number, Appearance][]): Uint8Array {
  const appearances = new Uint8Array(PADDED ** 3);
  for (const [x, y, z, appearance] of cells) appearances[index(x, y, z)] = appearance;
  return appearances;
}
const HIGH = [0, 0, CHUNK]; // origin of a chunk that does not touch the ground

/** Return the area of a mesh in voxel faces, in total and by face. */
function areas(mesh: QuadMesh): { total: number; byFace: number[] } {
  const byFace = [0, 0, 0, 0, 0, 0];
  for (let quad = 0; quad < mesh.quads; quad++) {
    const corner = (i: number, k: number) => mesh.position[quad * 16 + i * 4 + k] / POSITION_STEPS;
    const edge = (i: number) => [0, 1, 2].map((k) => corner(i, k) - corner(0, k));
    const [a, b] = [edge(1), edge(3)];
    const cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    const face = mesh.data[quad * 16 + 1];
    const outward = cross[face >> 1] * (face & 1 ? -1 : 1);
    expect(outward, "corners run counter-clockwise seen from outside").toBeGreaterThan(0);
    byFace[face] += outward;
  }
  return { total: byFace.reduce((sum, area) => sum + area, 0), byFace };
}

/** Return the number of faces of solid voxels that are not hidden. */
function exposed(appearances: Uint8Array): number {
  let count = 0;
  const hides = (appearance: number) =>
    appearance !== OUTSIDE && APPEARANCES[appearance as Appearance].form === "block";
  for (let z = 0; z < CHUNK; z++)
    for (let y = 0; y < CHUNK; y++)
      for (let x = 0; x < CHUNK; x++) {
        const cell = index(x, y, z);
        if (!hides(appearances[cell])) continue;
        for (const step of [1, -1, PADDED, -PADDED, PADDED * PADDED, -PADDED * PADDED])
          if (!hides(appearances[cell + step])) count++;
      }
  return count;
}

describe("greedy meshing", () => {
  test("draws the six faces of a single voxel", () => {
    const { opaque, clear } = meshChunk(volume([[5, 6, 7, Appearance.CONCRETE]]), tints, HIGH);
    expect(opaque.quads).toBe(6);
    expect(clear.quads).toBe(0);
    expect(areas(opaque).byFace).toEqual([1, 1, 1, 1, 1, 1]);
  });

  test("merges a slab into one quad per side", () => {
    const cells: [number, number, number, Appearance][] = [];
    for (let x = 2; x < 12; x++) for (let y = 3; y < 8; y++) cells.push([x, y, 4, Appearance.CONCRETE]);
    const { opaque } = meshChunk(volume(cells), tints, HIGH);
    expect(opaque.quads).toBe(6);
    expect(areas(opaque).total).toBe(2 * (50 + 10 + 5));
  });

  test("covers exactly the exposed faces of random voxels", () => {
    const cells: [number, number, number, Appearance][] = [];
    const next = draws();
    for (let i = 0; i < 4000; i++)
      cells.push([
        Math.floor(next() * 32),
        Math.floor(next() * 32),
        Math.floor(next() * 16),
        next() < 0.5 ? Appearance.CONCRETE : Appearance.STEEL,
      ]);
    const appearances = volume(cells);
    const { opaque } = meshChunk(appearances, tints, HIGH);
    expect(areas(opaque).total).toBe(exposed(appearances));
    expect(opaque.quads).toBeLessThan(exposed(appearances));
  });

  test("omits faces hidden by a neighbouring chunk", () => {
    const appearances = volume([[0, 0, 0, Appearance.ROCK]]);
    appearances[index(-1, 0, 0)] = Appearance.ROCK;
    expect(areas(meshChunk(appearances, tints, HIGH).opaque).byFace[1]).toBe(0);
  });

  test("darkens corners beside a wall, and only those", () => {
    const open = meshChunk(volume([[5, 5, 5, Appearance.CONCRETE]]), tints, HIGH).opaque;
    expect(new Set(Array.from({ length: open.quads * 4 }, (_, i) => open.data[i * 4 + 2]))).toEqual(new Set([255]));
    const step = meshChunk(
      volume([
        [5, 5, 5, Appearance.CONCRETE],
        [6, 5, 6, Appearance.CONCRETE],
      ]),
      tints,
      HIGH,
    ).opaque;
    expect(Math.min(...Array.from({ length: step.quads * 4 }, (_, i) => step.data[i * 4 + 2]))).toBeLessThan(255);
  });

  test("puts glass and water into the see-through mesh", () => {
    const { opaque, clear } = meshChunk(
      volume([
        [5, 5, 5, Appearance.GLASS],
        [6, 5, 5, Appearance.GLASS],
        [9, 9, 9, Appearance.WATER],
      ]),
      tints,
      HIGH,
    );
    expect(opaque.quads).toBe(0);
    expect(areas(clear).total).toBe(10 + 1);
  });

  test("puts ground under everything that does not hide it, within the map", () => {
    const size = [20, 10, 12];
    const appearances = new Uint8Array(20 * 10 * 12);
    appearances[3 + 20 * 4] = Appearance.CONCRETE;
    const origin = [0, 0, 0];
    const { opaque } = meshChunk(
      cutChunk(appearances, size, origin),
      cutTints(new Uint8Array(200), size, origin),
      origin,
    );
    const ground = [...Array(opaque.quads).keys()].filter((quad) => opaque.data[quad * 16] === Appearance.GROUND);
    const area = ground.reduce((sum, quad) => {
      const at = (i: number, k: number) => opaque.position[quad * 16 + i * 4 + k] / POSITION_STEPS;
      return sum + Math.abs((at(2, 0) - at(0, 0)) * (at(2, 1) - at(0, 1)));
    }, 0);
    expect(area).toBe(200 - 1);
    expect(areas(opaque).byFace[5], "nothing is drawn from below").toBe(0);
  });

  test("draws a heap as closed boxes within its voxels", () => {
    const { opaque } = meshChunk(
      volume([
        [5, 5, 5, Appearance.RUBBLE],
        [6, 5, 5, Appearance.RUBBLE],
      ]),
      tints,
      HIGH,
    );
    expect(opaque.quads).toBe(12);
    expect(areas(opaque).total).toBeLessThanOrEqual(12);
  });
});
