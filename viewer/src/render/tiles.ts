// Tile textures for tiers without procedural patterns: seamless tiles, one per kind of surface, painted once from
// noise. Pure, no three.js, so that a worker paints them while the match loads. Texels hold the square root of linear
// reflectance; the fourth channel is glow.

import { APPEARANCES, Appearance } from "../palette";

export const TILE = 256; // size of a tile [texels]
export const TILE_VOXELS = 8; // size of a tile on the terrain [vox]
const TEXELS = TILE / TILE_VOXELS; // per voxel

/** The tiles of the stack. */
export enum TileLayer {
  GROUND,
  WALL_WIDE,
  WALL_LONG,
  WALL_NARROW,
  ROOF,
  ROCK,
  BARK,
  RUBBLE,
  WRECKAGE,
  STEEL_SIDE,
  STEEL_TOP,
  FOLIAGE,
  LAVA,
  WATER,
  GLASS,
  APRON,
}
export const TILE_LAYERS = 16;

type Rgb = readonly [number, number, number];
type Texel = readonly [number, number, number, number]; // reflected light, glow

/** Return an sRGB colour as linear components. */
export function light(hex: number): Rgb {
  const share = (shift: number) => {
    const c = ((hex >> shift) & 255) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return [share(16), share(8), share(0)];
}

/** Return a pseudo-random number in [0, 1) for a lattice point. */
export function latticeRandom(x: number, y: number, seed: number): number {
  let h = Math.imul(x, 374761393) ^ Math.imul(y, 668265263) ^ Math.imul(seed, 1274126177);
  h = Math.imul(h ^ (h >>> 13), 1274126177);
  return ((h ^ (h >>> 16)) >>> 8) / 2 ** 24;
}

/** Return seamless smooth noise of TILE x TILE texels with `cells` cells along a side. */
function waves(cells: number, seed: number): Float32Array {
  const noise = new Float32Array(TILE * TILE);
  const step = TILE / cells;
  for (let y = 0; y < TILE; y++) {
    const [j, v] = [Math.floor(y / step), (y % step) / step];
    const [j1, fy] = [(j + 1) % cells, v * v * (3 - 2 * v)];
    for (let x = 0; x < TILE; x++) {
      const [i, u] = [Math.floor(x / step), (x % step) / step];
      const [i1, fx] = [(i + 1) % cells, u * u * (3 - 2 * u)];
      const low = latticeRandom(i, j, seed) + (latticeRandom(i1, j, seed) - latticeRandom(i, j, seed)) * fx;
      const high = latticeRandom(i, j1, seed) + (latticeRandom(i1, j1, seed) - latticeRandom(i, j1, seed)) * fx;
      noise[y * TILE + x] = low + (high - low) * fy;
    }
  }
  return noise;
}

const mix = (a: number, b: number, t: number) => a + (b - a) * t;
const clamp = (t: number) => Math.max(0, Math.min(1, t));
const ramp = (low: number, high: number, x: number) => clamp((x - low) / (high - low));
const blend = (a: Rgb, b: Rgb, t: number): Rgb => [mix(a[0], b[0], t), mix(a[1], b[1], t), mix(a[2], b[2], t)];
const times = (c: Rgb, f: number, glow = 0): Texel => [c[0] * f, c[1] * f, c[2] * f, glow];

/** Noise textures from which tiles are painted, a value per texel. */
export class Noise {
  private readonly broad = waves(8, 1);
  private readonly middle = waves(32, 2);
  private readonly small = waves(128, 3);

  /** Return broad noise in [0, 1]; `turn` shifts it, to decorrelate uses. */
  cloud(x: number, y: number, turn = 0): number {
    const at = (((y + turn * 37) & (TILE - 1)) << 8) | ((x + turn * 91) & (TILE - 1));
    return 0.5 * this.broad[at] + 0.33 * this.middle[at] + 0.17 * this.small[at];
  }

  /** Return fine noise in [0, 1]. */
  grain(x: number, y: number, turn = 0): number {
    const at = (((y + turn * 53) & (TILE - 1)) << 8) | ((x + turn * 29) & (TILE - 1));
    return 0.55 * this.middle[at] + 0.45 * this.small[at];
  }
}

type Painter = (x: number, y: number, noise: Noise) => Texel;

/** Return 1 on the seams of a grid with a pitch [vox]. */
function seam(x: number, y: number, pitch: number, width: number): number {
  const off = (at: number) => {
    const share = (at / TEXELS / pitch) % 1;
    return Math.min(share, 1 - share) * pitch;
  };
  return 1 - ramp(width, width + 1 / TEXELS, Math.min(off(x), off(y)));
}

const WINDOW_LIGHT: Rgb = [1, 0.66, 0.3];

/** Return the painter of a wall with a window every `pitch` voxels, without windows on the ground floor. */
function wall(pitch: number, style: number): Painter {
  return (x, y, noise) => {
    const [u, v] = [x / TEXELS / pitch, y / TEXELS];
    const [column, storey] = [Math.floor(u), Math.floor(v)];
    const [fx, fy] = [u - column, v - storey];
    let shade = (0.82 + 0.26 * noise.cloud(x, y, style)) * (fy < 0.07 ? 0.8 : 1);
    if (storey === 0) shade *= mix(0.72, 1, fy);
    const inside = fx > 0.2 && fx < 0.8 && fy > 0.3 && fy < 0.78 && storey > 0;
    if (!inside || latticeRandom(column, storey, style) < 0.12) return times([0.9, 0.9, 0.9], shade);
    if (latticeRandom(column, storey, style + 31) > 0.9) return times(WINDOW_LIGHT, 0.75, 0.8);
    return times(
      blend([0.09, 0.13, 0.17], [0.3, 0.42, 0.5], latticeRandom(column, storey, style + 7)),
      fy > 0.7 ? 0.7 : 1,
    );
  };
}

function rock(x: number, y: number, noise: Noise): Texel {
  const strata = noise.cloud(x, y * 2, 3);
  const crack = ramp(0.05, 0, Math.abs(noise.cloud(x * 2, y * 2, 8) - 0.5));
  const stone = blend(
    light(APPEARANCES[Appearance.ROCK].accent),
    light(APPEARANCES[Appearance.ROCK].colour),
    clamp(0.1 + 0.9 * strata + 0.5 * (noise.grain(x, y) - 0.5)),
  );
  return times(stone, (0.86 + 0.28 * noise.grain(x, y, 4)) * (1 - 0.28 * crack));
}

function steel(upright: boolean): Painter {
  const { colour, accent } = APPEARANCES[Appearance.STEEL];
  return (x, y, noise) => {
    const [u, v] = [x / TEXELS, y / TEXELS];
    const [i, j] = [Math.floor(u), Math.floor(v)];
    const plate =
      (0.84 + 0.22 * latticeRandom(i, j, 5)) * (0.9 + 0.2 * noise.cloud(x, y, 6)) * (1 - 0.42 * seam(x, y, 1, 0.03));
    const lamp = upright && latticeRandom(i, j, 9) > 0.93 && u - i > 0.3 && u - i < 0.7 && v - j > 0.42 && v - j < 0.58;
    if (lamp) return [0.35, 0.85, 1, 0.8];
    const stripe = upright && v > 0.12 && v < 0.62; // only near the ground
    const hazard: Rgb = ((u + v) * 0.75) % 1 > 0.5 ? light(accent) : [0.05, 0.05, 0.05];
    return times(stripe ? blend(light(colour), hazard, 0.7) : light(colour), plate);
  };
}

function foliage(x: number, y: number, noise: Noise): Texel {
  const { colour, accent } = APPEARANCES[Appearance.FOLIAGE];
  const [a, c] = [latticeRandom(x >> 3, y >> 3, 11), latticeRandom(x >> 2, y >> 2, 12)];
  const green = blend(
    times(light(colour), 0.62).slice(0, 3) as unknown as Rgb,
    light(accent),
    clamp(0.06 + 0.42 * noise.cloud(x, y, 2) + 0.34 * (a - 0.4)),
  );
  const dry = blend(green, [0.42, 0.4, 0.1], 0.22 * ramp(0.6, 0.8, noise.cloud(x, y, 9)));
  return times(dry, 0.86 + 0.26 * (c - 0.5));
}

function heap(appearance: Appearance.RUBBLE | Appearance.WRECKAGE): Painter {
  const [colour, accent] = [light(APPEARANCES[appearance].colour), light(APPEARANCES[appearance].accent)];
  const wreck = appearance === Appearance.WRECKAGE;
  return (x, y, noise) => {
    const piece = latticeRandom(Math.floor(x / TEXELS), Math.floor(y / TEXELS), 13);
    const ember = ramp(0.66, 0.86, noise.grain(x, y, 5)) * (wreck ? 0.35 : 0.55);
    const body = wreck ? blend(colour, accent, ramp(0.5, 0.8, noise.cloud(x, y, 7))) : colour;
    return times(
      blend(body, [1, 0.38, 0.1], ember * 0.6),
      (0.6 + 0.55 * piece) * (0.8 + 0.4 * noise.grain(x, y)),
      ember * 0.5,
    );
  };
}

function lava(x: number, y: number, noise: Noise): Texel {
  const n = noise.cloud(x, y, 1);
  const vein = ramp(0.1, 0, Math.abs(n - 0.5));
  const heat = ramp(0.35, 0.7, n);
  return [mix(0.5, 1, heat), mix(0.05, 0.36, heat) + 0.4 * vein * vein, 0.02 + 0.16 * vein * vein, 0.42 + 0.3 * vein];
}

function apron(x: number, y: number, noise: Noise): Texel {
  const shade = 0.84 + 0.3 * (noise.cloud(x, y) - 0.3);
  const line = Math.min(x % 128, y % 128) < 2 ? 1.12 : 1;
  return times([0.5, 0.5, 0.5], shade * line);
}

const PAINTERS: Record<TileLayer, Painter> = {
  [TileLayer.GROUND]: (x, y, noise) => times([0.5, 0.5, 0.5], 0.84 + 0.32 * noise.grain(x, y)),
  [TileLayer.WALL_WIDE]: wall(1, 0),
  [TileLayer.WALL_LONG]: wall(2, 13),
  [TileLayer.WALL_NARROW]: wall(0.5, 26),
  [TileLayer.ROOF]: (x, y, noise) =>
    times(
      [0.62, 0.62, 0.63],
      (0.86 + 0.2 * noise.cloud(x, y)) *
        (1 - 0.2 * seam(x, y, 2, 0.03)) *
        (0.93 + 0.14 * latticeRandom(x >> 6, y >> 6, 2)),
    ),
  [TileLayer.ROCK]: rock,
  [TileLayer.BARK]: (x, y, noise) =>
    times(
      blend(
        light(APPEARANCES[Appearance.BARK].accent),
        light(APPEARANCES[Appearance.BARK].colour),
        noise.grain(x * 2, y >> 2),
      ),
      0.85 + 0.3 * noise.cloud(x, y),
    ),
  [TileLayer.RUBBLE]: heap(Appearance.RUBBLE),
  [TileLayer.WRECKAGE]: heap(Appearance.WRECKAGE),
  [TileLayer.STEEL_SIDE]: steel(true),
  [TileLayer.STEEL_TOP]: steel(false),
  [TileLayer.FOLIAGE]: foliage,
  [TileLayer.LAVA]: lava,
  [TileLayer.WATER]: (x, y, noise) =>
    times(
      light(APPEARANCES[Appearance.WATER].colour),
      0.7 + 1.1 * noise.cloud(x, y),
      0.1 * ramp(0.62, 0.75, noise.cloud(x, y, 5)),
    ),
  [TileLayer.GLASS]: (x, y) =>
    times(
      blend(
        light(APPEARANCES[Appearance.GLASS].colour),
        light(APPEARANCES[Appearance.GLASS].accent),
        0.6 * seam(x, y, 1, 0.045),
      ),
      0.8,
    ),
  [TileLayer.APRON]: apron,
};

let known: Noise | null = null;

/** Return the shared noise, computed once. */
export function sharedNoise(): Noise {
  return (known ??= new Noise());
}

/** Paint all tiles, shape [layer, y, x, 4]; with a `step` above 1, blocks of step x step texels share a colour. */
export function paintTiles(step: number): Uint8Array {
  const noise = sharedNoise();
  const bytes = new Uint8Array(TILE_LAYERS * TILE * TILE * 4);
  const texels = new Uint32Array(bytes.buffer);
  for (let layer = 0; layer < TILE_LAYERS; layer++) {
    const paint = PAINTERS[layer as TileLayer];
    for (let y = 0; y < TILE; y += step) {
      const row = (layer * TILE + y) * TILE;
      for (let x = 0; x < TILE; x += step) {
        const [r, g, b, glow] = paint(x, y, noise);
        const at = row + x;
        bytes[at * 4] = 255 * Math.sqrt(clamp(r));
        bytes[at * 4 + 1] = 255 * Math.sqrt(clamp(g));
        bytes[at * 4 + 2] = 255 * Math.sqrt(clamp(b));
        bytes[at * 4 + 3] = 255 * clamp(glow);
        if (step > 1) texels.fill(texels[at], at + 1, at + step);
      }
      for (let copy = 1; copy < step; copy++) texels.copyWithin(row + copy * TILE, row, row + TILE);
    }
  }
  return bytes;
}
