// The ground as a texture seen from above, for tiers without procedural patterns and shadow map: its colour, and the
// height up to which it is shadowed. Pure, no three.js; baked in a worker, shadows again after every edit.

import { APPEARANCES, type Appearance } from "../palette";
import { TILE, cloudNoise } from "./tile";

export const GROUND_TEXELS = 4; // per voxel
export const SUN_VOXEL: readonly [number, number, number] = [-0.52, -0.42, 0.62]; // direction to the sun, unnormalised
export const GROUND_GAIN = 2; // colours are stored as square roots of this many times the value

/** Return the height of shadow casters per column [vox], shape [y, x]. */
export function columnTops(appearances: Uint8Array, size: readonly number[]): Uint8Array {
  const layer = size[0] * size[1];
  const tops = new Uint8Array(layer);
  for (let cell = 0; cell < appearances.length; cell++) {
    const { form } = APPEARANCES[appearances[cell] as Appearance];
    if (form === "block" || form === "heap") tops[cell % layer] = Math.floor(cell / layer) + 1;
  }
  return tops;
}

/**
 * Return the height up to which the sun is hidden, as a share of the map's height (255 is 1), shape [y, x] in texels.
 * Walks away from the sun: the shadow of a texel is that of the previous one or the caster there, lowered by the slope
 * of the sun's rays.
 */
export function shadowHeights(appearances: Uint8Array, size: readonly number[]): Uint8Array {
  const [sizeX, sizeY, sizeZ] = size;
  const tops = columnTops(appearances, size);
  const [wide, high] = [sizeX * GROUND_TEXELS, sizeY * GROUND_TEXELS];
  const hidden = new Float32Array(wide * high);
  const side = SUN_VOXEL[1] / SUN_VOXEL[0]; // texels along y for one along x
  const drop = -SUN_VOXEL[2] / SUN_VOXEL[0] / GROUND_TEXELS; // [vox]
  const [whole, part] = [Math.floor(side), side - Math.floor(side)];
  const blocked = (x: number, y: number) =>
    y < 0
      ? 0
      : Math.max(hidden[x + y * wide], tops[Math.floor(x / GROUND_TEXELS) + Math.floor(y / GROUND_TEXELS) * sizeX]);
  for (let x = 1; x < wide; x++) {
    for (let y = 0; y < high; y++) {
      const before = blocked(x - 1, y - whole) * (1 - part) + blocked(x - 1, y - whole - 1) * part;
      hidden[x + y * wide] = Math.max(0, before - drop);
    }
  }
  return Uint8Array.from(hidden, (height) => Math.min(255, (height / sizeZ) * 255));
}

type Rgb = [number, number, number];
const DRY: Rgb = [0.19, 0.15, 0.108];
const SAND: Rgb = [0.285, 0.232, 0.168];
const GRASS: Rgb = [0.09, 0.145, 0.045];
const MEADOW: Rgb = [0.185, 0.235, 0.075];
const PAVED: Rgb = [0.235, 0.245, 0.26];
const BURNT: Rgb = [0.06, 0.045, 0.04];
const SLAB = 2; // size of a paving stone [vox]

const ramp = (low: number, high: number, x: number) => {
  const t = Math.max(0, Math.min(1, (x - low) / (high - low)));
  return t * t * (3 - 2 * t);
};

/** Interpolate the soil between columns into `out`, as shares. */
function soilAt(soil: Uint8Array, size: readonly number[], x: number, y: number, out: number[]): void {
  const [sizeX, sizeY] = size;
  const [fx, fy] = [Math.max(0, Math.min(sizeX - 1.001, x - 0.5)), Math.max(0, Math.min(sizeY - 1.001, y - 0.5))];
  const [i, j] = [Math.floor(fx), Math.floor(fy)];
  const [u, v] = [fx - i, fy - j];
  const at = (i + j * sizeX) * 4;
  const [right, up] = [Math.min(1, sizeX - 1 - i) * 4, Math.min(1, sizeY - 1 - j) * 4 * sizeX];
  for (let k = 0; k < 4; k++) {
    const low = soil[at + k] * (1 - u) + soil[at + right + k] * u;
    const high = soil[at + up + k] * (1 - u) + soil[at + up + right + k] * u;
    out[k] = (low * (1 - v) + high * v) / 255;
  }
}

/** Return the colour of the ground, shape [y, x, 4] in texels; the fourth channel is reserved for shadows. */
export function paintGround(soil: Uint8Array, size: readonly number[]): Uint8Array {
  const [wide, high] = [size[0] * GROUND_TEXELS, size[1] * GROUND_TEXELS];
  const ground = new Uint8Array(wide * high * 4);
  const near = [0, 0, 0, 0];
  const slabs = size[0] / SLAB;
  for (let y = 0; y < high; y++) {
    for (let x = 0; x < wide; x++) {
      const [vx, vy] = [x / GROUND_TEXELS, y / GROUND_TEXELS];
      soilAt(soil, size, vx, vy, near);
      const [broad, middle] = [cloudNoise(x >> 1, y >> 1, 2), cloudNoise(x * 2, y * 2, 5)];
      const green = ramp(0.18, 0.5, near[0] + 0.34 * (middle - 0.5) + 0.3 * (broad - 0.5));
      const paved = ramp(0.42, 0.5, near[1] - 0.55 * near[0] + 0.16 * (broad - 0.5));
      const scorch = ramp(0.08, 0.7, near[2] + 0.2 * (middle - 0.5)) * 0.9;
      const wet = 1 - 0.5 * ramp(0.12, 0.6, near[3]);
      const slab = Math.floor(vx / SLAB) + Math.floor(vy / SLAB) * slabs;
      const joint = x % (SLAB * GROUND_TEXELS) === 0 || y % (SLAB * GROUND_TEXELS) === 0 ? 0.84 : 1;
      const stone =
        (0.88 + 0.16 * cloudNoise((slab * 71) & (TILE - 1), (slab * 37) & (TILE - 1))) * (0.92 + 0.16 * middle) * joint;
      const at = (x + y * wide) * 4;
      for (let k = 0; k < 3; k++) {
        const dirt = (DRY[k] + (SAND[k] - DRY[k]) * broad) * (0.86 + 0.2 * middle);
        const grass = (GRASS[k] + (MEADOW[k] - GRASS[k]) * middle) * 0.95;
        let c = dirt + (grass - dirt) * green;
        c += (PAVED[k] * stone - c) * paved;
        c += (BURNT[k] - c) * scorch;
        ground[at + k] = Math.min(255, 255 * Math.sqrt(c * wet * GROUND_GAIN));
      }
    }
  }
  return ground;
}

export function writeShadows(ground: Uint8Array, hidden: Uint8Array): void {
  for (let i = 0; i < hidden.length; i++) ground[i * 4 + 3] = hidden[i];
}
