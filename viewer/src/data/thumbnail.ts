// Thumbnail of a map for lists: voxels in parallel projection from the south, painted back to front. Pure.

import { APPEARANCES, Appearance } from "../palette";
import type { Scenery } from "./appearance";

export interface Picture {
  readonly width: number; // pixels
  readonly height: number; // pixels
  readonly pixels: Uint8ClampedArray<ArrayBuffer>;
}

const HALF = 2; // half a voxel's width in the picture [pixels]; a voxel is drawn twice as wide as deep
const RISE = 3; // a voxel's height in the picture [pixels]
const SHADES = { top: 1.08, left: 0.62, right: 0.82 } as const;

/** Paint a map of size x, y, z [vox]. */
export function paintMap(scenery: Scenery, size: readonly number[]): Picture {
  const [sizeX, sizeY] = size;
  const width = (sizeX + sizeY) * HALF;
  const height = Math.ceil(((sizeX + sizeY) * HALF) / 2) + scenery.top * RISE + 2;
  const pixels = new Uint8ClampedArray(width * height * 4);
  const spot = (x: number, y: number, colour: number, light: number) => {
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    const at = (y * width + x) * 4;
    pixels[at] = ((colour >> 16) & 255) * light;
    pixels[at + 1] = ((colour >> 8) & 255) * light;
    pixels[at + 2] = (colour & 255) * light;
    pixels[at + 3] = 255;
  };
  const layer = sizeX * sizeY;
  for (let depth = 0; depth < sizeX + sizeY - 1; depth++) {
    for (let x = Math.max(0, depth - sizeY + 1); x <= Math.min(depth, sizeX - 1); x++) {
      const y = sizeY - 1 - (depth - x); // north is far away
      const column = x + y * sizeX;
      const left = (x - (sizeY - 1 - y) + sizeY - 1) * HALF;
      const base = scenery.top * RISE + (depth * HALF) / 2;
      const ground = groundColour(scenery, column);
      for (let i = 0; i < HALF * 2; i++) for (let j = 0; j < HALF; j++) spot(left + i, base + j, ground, 0.92);
      for (let z = 0; z < scenery.top; z++) {
        const appearance = scenery.appearances[column + z * layer] as Appearance;
        if (appearance === Appearance.AIR || appearance === Appearance.GROUND) continue;
        paintVoxel(spot, left, base - z * RISE, appearance, z, scenery.tints[column]);
      }
    }
  }
  return { width, height, pixels };
}

type Spot = (x: number, y: number, colour: number, light: number) => void;

function paintVoxel(spot: Spot, left: number, base: number, appearance: Appearance, z: number, tint: number): void {
  const spec = APPEARANCES[appearance];
  const light = 0.86 + 0.018 * z + 0.03 * ((tint % 4) - 1.5);
  const flat = spec.form === "floor";
  const top = flat ? base : base - RISE;
  for (let i = 0; i < HALF * 2; i++) {
    for (let j = 0; j < HALF; j++) spot(left + i, top + j, spec.map, SHADES.top * light);
    if (flat) continue;
    for (let j = 0; j < RISE; j++)
      spot(left + i, base - RISE + HALF + j, spec.map, (i < HALF ? SHADES.left : SHADES.right) * light);
  }
}

function groundColour(scenery: Scenery, column: number): number {
  const [green, paved] = [scenery.soil[column * 4], scenery.soil[column * 4 + 1]];
  if (green > 90) return 0x55633a;
  return paved > 110 ? 0x66676a : APPEARANCES[Appearance.GROUND].map;
}
