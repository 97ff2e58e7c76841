// Noise, and the tile of the low tier's terrain: a texture with brightness and three masks of second colours. Pure, no
// three.js.

export const TILE = 256; // size of the tile and of the noise [texels]
export const TILE_VOXELS = 8; // size of the tile on the terrain [vox]
const TEXELS = TILE / TILE_VOXELS; // per voxel

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

let layers: readonly Float32Array[] | null = null; // broad, middle and fine noise

/** Return noise in [0, 1] that repeats after TILE texels; `turn` shifts it, to decorrelate uses. */
export function cloudNoise(x: number, y: number, turn = 0): number {
  layers ??= [waves(8, 1), waves(32, 2), waves(128, 3)];
  const at = (((y + turn * 37) & (TILE - 1)) << 8) | ((x + turn * 91) & (TILE - 1));
  return 0.5 * layers[0][at] + 0.33 * layers[1][at] + 0.17 * layers[2][at];
}

/** Return whether a texel is in a window: in the middle of most voxels above the ground floor. */
function isWindow(x: number, y: number): boolean {
  const [column, storey] = [Math.floor(x / TEXELS), Math.floor(y / TEXELS)];
  const [across, up] = [x / TEXELS - column, y / TEXELS - storey];
  const inside = across > 0.2 && across < 0.8 && up > 0.3 && up < 0.78;
  return inside && storey > 0 && latticeRandom(column, storey, 13) > 0.12;
}

/** Paint the tile, shape [y, x, 4]: brightness (255 is twice the colour), windows, veins, seams between voxels. */
export function paintTile(): Uint8Array {
  const tile = new Uint8Array(TILE * TILE * 4);
  for (let y = 0; y < TILE; y++) {
    for (let x = 0; x < TILE; x++) {
      const seam = x % TEXELS < 1 || y % TEXELS < 1;
      const block = latticeRandom(Math.floor(x / TEXELS), Math.floor(y / TEXELS), 5);
      const bright = (0.86 + 0.2 * block) * (0.8 + 0.4 * cloudNoise(x, y)) * (seam ? 0.78 : 1);
      const vein = Math.max(0, Math.min(1, 4 * cloudNoise(x * 2, y * 2, 8) - 1.6));
      tile.set([127 * bright, isWindow(x, y) ? 255 : 0, 255 * vein, seam ? 255 : 0], (y * TILE + x) * 4);
    }
  }
  return tile;
}
