// Voxel edits over time, and appearance of maps.

import { describe, expect, test } from "vitest";
import { appearanceTable, prepareScenery } from "../src/data/appearance";
import { paintMap } from "../src/data/thumbnail";
import { payload } from "../src/data/container";
import { decodeWorld } from "../src/data/decode";
import { VoxelField, chunkGrid, chunkOrigin, touchedChunks } from "../src/data/voxels";
import { Appearance } from "../src/palette";
import { CHUNK } from "../src/data/mesher";
import { MATERIAL_NAMES } from "../src/protocol.gen";
import { cellIndex } from "../src/spaces";
import { smallReplay } from "./fixtures";

function field() {
  const { bytes, map, header, chunks } = smallReplay();
  const world = decodeWorld(payload(bytes, map.world!));
  const scenery = prepareScenery(world, header.materials);
  return {
    world,
    scenery,
    chunks,
    voxels: new VoxelField(scenery.appearances, world.size, appearanceTable(header.materials)),
  };
}

describe("VoxelField", () => {
  test("depends only on the moment", () => {
    const { voxels, chunks } = field();
    const at = (n: number, tick: number) => {
      voxels.seek(chunks[n], tick);
      return voxels.appearances.slice();
    };
    const forward = chunks.map((chunk, n) => at(n, chunk.tick1));
    const backward = chunks
      .map((_, i) => chunks.length - 1 - i)
      .map((n) => at(n, chunks[n].tick1))
      .reverse();
    expect(backward).toEqual(forward);
    expect(forward.at(-1)).not.toEqual(forward[0]);
    expect(at(0, 0)).toEqual(field().scenery.appearances);
  });

  test("gives equal voxels by ticks and by one seek", () => {
    const { voxels, chunks } = field();
    const chunk = chunks.find(({ edits }) => edits.count > 0)!;
    for (let tick = chunk.tick0; tick <= chunk.tick1; tick++) voxels.seek(chunk, tick);
    const leap = field().voxels;
    leap.seek(chunk, chunk.tick1);
    expect(voxels.appearances).toEqual(leap.appearances);
  });

  test("returns the changed mesh chunks, none without changes", () => {
    const { voxels, chunks } = field();
    const chunk = chunks.find(({ edits }) => edits.count > 0)!;
    expect(voxels.seek(chunk, chunk.tick1).size).toBeGreaterThan(0);
    expect(voxels.seek(chunk, chunk.tick1).size).toBe(0);
  });

  test("touchedChunks includes neighbours at chunk borders", () => {
    const size = [100, 100, 20];
    expect(chunkGrid(size)).toEqual([4, 4, 1]);
    expect(chunkOrigin(5, size)).toEqual([CHUNK, CHUNK, 0]);
    expect(touchedChunks(cellIndex(16, 16, 4, 100, 100), size)).toEqual([0]);
    expect(touchedChunks(cellIndex(31, 16, 4, 100, 100), size)).toEqual([0, 1]);
    expect(touchedChunks(cellIndex(32, 32, 4, 100, 100), size)).toEqual([0, 1, 4, 5]);
  });
});

describe("prepareScenery", () => {
  /** Return the scenery of a world of 24 x 24 x 12 with dirt at the bottom. */
  function world(fill: (put: (x: number, y: number, z: number, name: string) => void) => void) {
    const material = new Uint8Array(24 * 24 * 12);
    material.fill(MATERIAL_NAMES.indexOf("dirt"), 0, 576);
    fill((x, y, z, name) => (material[cellIndex(x, y, z, 24, 24)] = MATERIAL_NAMES.indexOf(name as never)));
    return prepareScenery({ size: [24, 24, 12], material }, MATERIAL_NAMES);
  }
  const appearanceAt = (scenery: { appearances: Uint8Array }, x: number, y: number, z: number) =>
    scenery.appearances[cellIndex(x, y, z, 24, 24)];

  test("classifies trees, boulders and houses", () => {
    const scenery = world((put) => {
      for (let z = 0; z < 6; z++) put(4, 4, z, "solid");
      for (let x = 3; x < 6; x++) for (let y = 3; y < 6; y++) if (x !== 4 || y !== 4) put(x, y, 4, "foliage");
      for (let x = 12; x < 15; x++) for (let y = 3; y < 6; y++) put(x, y, 0, "solid");
      for (let x = 12; x < 20; x++) for (let y = 12; y < 20; y++) for (let z = 0; z < 6; z++) put(x, y, z, "solid");
    });
    expect(appearanceAt(scenery, 4, 4, 1)).toBe(Appearance.BARK);
    expect(appearanceAt(scenery, 4, 4, 5), "the tip of a trunk becomes crown").toBe(Appearance.FOLIAGE);
    expect(appearanceAt(scenery, 13, 4, 0)).toBe(Appearance.ROCK);
    expect(appearanceAt(scenery, 15, 15, 3)).toBe(Appearance.CONCRETE);
  });

  test("makes ground green under trees and paved beside houses", () => {
    const scenery = world((put) => {
      for (let x = 2; x < 8; x++) for (let y = 2; y < 8; y++) put(x, y, 4, "foliage");
      for (let x = 14; x < 22; x++) for (let y = 14; y < 22; y++) for (let z = 0; z < 6; z++) put(x, y, z, "solid");
    });
    const soil = (x: number, y: number) => scenery.soil.slice((x + 24 * y) * 4, (x + 24 * y) * 4 + 2);
    expect(soil(5, 5)[0]).toBeGreaterThan(soil(20, 5)[0]);
    expect(soil(13, 18)[1]).toBeGreaterThan(soil(5, 5)[1]);
  });

  test("treats an unknown material as concrete", () => {
    expect(appearanceTable(["air", "unobtainium"])[1]).toBe(Appearance.CONCRETE);
  });

  test("paintMap paints a thumbnail", () => {
    const { scenery, world: map } = field();
    const picture = paintMap(scenery, map.size);
    expect(picture.pixels.length).toBe(picture.width * picture.height * 4);
    const covered = picture.pixels.filter((_, i) => i % 4 === 3).filter((alpha) => alpha > 0).length;
    expect(covered).toBeGreaterThan((picture.width * picture.height) / 3);
  });
});
