// Textures of the low tier: ground shadows and the tile.

import { describe, expect, it } from "vitest";
import { Appearance } from "../src/palette";
import { GROUND_TEXELS, columnTops, shadowHeights, paintGround, writeShadows } from "../src/render/ground_texture";
import { TILE, paintTile } from "../src/render/tile";

const SIZE = [24, 24, 10];

/** Return an empty map with a tower of a height at (12, 12). */
function tower(height: number): Uint8Array {
  const appearances = new Uint8Array(SIZE[0] * SIZE[1] * SIZE[2]);
  for (let z = 0; z < height; z++)
    for (let x = 11; x < 14; x++)
      for (let y = 11; y < 14; y++) appearances[x + SIZE[0] * (y + SIZE[1] * z)] = Appearance.CONCRETE;
  return appearances;
}

/** Return the height below which a point is in shadow [vox]. */
function hiddenAt(hidden: Uint8Array, x: number, y: number): number {
  return (
    (hidden[Math.floor(x * GROUND_TEXELS) + Math.floor(y * GROUND_TEXELS) * SIZE[0] * GROUND_TEXELS] / 255) * SIZE[2]
  );
}

describe("baked shadows", () => {
  it("fall away from the sun, lower the farther they reach", () => {
    const hidden = shadowHeights(tower(6), SIZE);
    const [near, far] = [hiddenAt(hidden, 15, 13.5), hiddenAt(hidden, 17, 15)];
    expect(near).toBeGreaterThan(far);
    expect(far).toBeGreaterThan(0.5);
    expect(hiddenAt(hidden, 9, 10)).toBe(0); // on the sun's side
    expect(hiddenAt(hidden, 23, 20)).toBe(0); // beyond its end
  });

  it("leave the top of their caster in the sun", () => {
    expect(hiddenAt(shadowHeights(tower(6), SIZE), 12, 12)).toBeLessThan(6);
  });

  it("are zero on an empty map", () => {
    expect(shadowHeights(tower(0), SIZE).every((height) => height === 0)).toBe(true);
  });

  it("use the highest opaque voxel of a column, not glass", () => {
    const appearances = tower(3);
    appearances[0] = Appearance.GLASS;
    const tops = columnTops(appearances, SIZE);
    expect(tops[12 + 12 * SIZE[0]]).toBe(3);
    expect(tops[0]).toBe(0);
  });

  it("are written without changing the colours", () => {
    const ground = paintGround(new Uint8Array(SIZE[0] * SIZE[1] * 4), SIZE);
    const before = ground.slice();
    const hidden = shadowHeights(tower(6), SIZE);
    writeShadows(ground, hidden);
    expect(ground.filter((_, i) => i % 4 === 3)).toEqual(hidden);
    expect(ground.every((value, i) => i % 4 === 3 || value === before[i])).toBe(true);
  });
});

describe("the tile", () => {
  it("is the same each time, with windows above the ground floor and seams between voxels", () => {
    const tile = paintTile();
    expect(tile.length).toBe(TILE * TILE * 4);
    expect(Buffer.compare(paintTile(), tile)).toBe(0);
    const texel = (x: number, y: number) => tile.subarray((y * TILE + x) * 4, (y * TILE + x) * 4 + 4);
    const windows = (storey: number) => Array.from({ length: 8 }, (_, i) => texel(32 * i + 16, 32 * storey + 16)[1]);
    expect([Math.max(...windows(0)), Math.max(...windows(3))]).toEqual([0, 255]);
    expect([texel(0, 16)[3], texel(16, 16)[3]]).toEqual([255, 0]);
  });
});
