// What the plain tiers bake: shadows of the land, and tiles.

import { describe, expect, it } from "vitest";
import { Look } from "../src/palette";
import { LAND_TEXELS, columnTops, hiddenHeights, paintLand, shadeLand } from "../src/render/land";
import { TILE, TILE_LAYERS, paintTiles } from "../src/render/tiles";

const SIZE = [24, 24, 10];

/** An empty map with a tower of so many voxels at (12, 12). */
function tower(height: number): Uint8Array {
  const looks = new Uint8Array(SIZE[0] * SIZE[1] * SIZE[2]);
  for (let z = 0; z < height; z++) for (let x = 11; x < 14; x++) for (let y = 11; y < 14; y++) looks[x + SIZE[0] * (y + SIZE[1] * z)] = Look.CONCRETE;
  return looks;
}

/** Height below which the sun is hidden over a place [vox]. */
function hiddenAt(hidden: Uint8Array, x: number, y: number): number {
  return (hidden[Math.floor(x * LAND_TEXELS) + Math.floor(y * LAND_TEXELS) * SIZE[0] * LAND_TEXELS] / 255) * SIZE[2];
}

describe("shadows of the land", () => {
  it("fall away from the sun, lower the farther they reach", () => {
    const hidden = hiddenHeights(tower(6), SIZE);
    const [near, far] = [hiddenAt(hidden, 15, 13.5), hiddenAt(hidden, 17, 15)];
    expect(near).toBeGreaterThan(far);
    expect(far).toBeGreaterThan(0.5);
    expect(hiddenAt(hidden, 9, 10)).toBe(0); // on the sun's side
    expect(hiddenAt(hidden, 23, 20)).toBe(0); // beyond its end
  });

  it("leave the top of what throws them in the sun", () => {
    expect(hiddenAt(hiddenHeights(tower(6), SIZE), 12, 12)).toBeLessThan(6);
  });

  it("are none where nothing stands", () => {
    expect(hiddenHeights(tower(0), SIZE).every((height) => height === 0)).toBe(true);
  });

  it("take the highest voxel of a column, and no glass", () => {
    const looks = tower(3);
    looks[0] = Look.GLASS;
    const tops = columnTops(looks, SIZE);
    expect(tops[12 + 12 * SIZE[0]]).toBe(3);
    expect(tops[0]).toBe(0);
  });

  it("are laid into the land without touching its colours", () => {
    const land = paintLand(new Uint8Array(SIZE[0] * SIZE[1] * 4), SIZE);
    const before = land.slice();
    const hidden = hiddenHeights(tower(6), SIZE);
    shadeLand(land, hidden);
    expect(land.filter((_, i) => i % 4 === 3)).toEqual(hidden);
    expect(land.every((value, i) => i % 4 === 3 || value === before[i])).toBe(true);
  });
});

describe("tiles", () => {
  it("are the same every time, and roughly the same when painted roughly", () => {
    const [fine, again, rough] = [paintTiles(1), paintTiles(1), paintTiles(2)];
    expect(fine.length).toBe(TILE_LAYERS * TILE * TILE * 4);
    expect(Buffer.compare(again, fine)).toBe(0);
    expect(rough[0]).toBe(fine[0]);
    expect(rough.subarray(0, 4)).toEqual(rough.subarray(4, 8));
  });
});
