// Greedy meshing of one chunk of voxels with ambient occlusion; pure, no three.js. The input is the chunk with a border
// of one voxel, so that it can be meshed without the rest of the map. Positions are fixed-point voxel coordinates;
// corners are exact integers, so that neighbouring chunks meet without cracks.

import { APPEARANCES, Appearance } from "../palette";

export const CHUNK = 32; // size of a chunk [vox]
export const PADDED = CHUNK + 2; // size including the border [vox]
export const POSITION_STEPS = 16; // fixed-point steps per voxel
const AO_BITS = 8; // two bits per corner
const APPEARANCE_BITS = 5;
export const FACES = 6;
export const GROUPS = 2 * FACES; // quads grouped by face, then trimmings by face, which are omitted at a distance
const OPEN_AO = 255; // no occlusion at any corner
const TUFTS_ON_TOP = 8; // of 16 open top faces of leaves, this many plus one have a tuft
const TUFTS_AT_SIDES = 4;
const HEAP_CUT = 9; // most inset of an open side of a heap's voxel [steps]

/** Quads of one chunk: four corners each, counter-clockwise seen from outside. */
export interface QuadMesh {
  readonly quads: number;
  readonly faces: Uint32Array; // first quad of each group (+x, -x, +y, -y, +z, -z, then trimmings), and the end
  readonly position: Uint16Array; // x, y, z, 0 in steps, shape [quads, 4 corners, 4]
  readonly data: Uint8Array; // appearance, face, occlusion (0 dark to 255 open), tint, shape [quads, 4 corners, 4]
}

export interface ChunkMesh {
  readonly opaque: QuadMesh;
  readonly clear: QuadMesh; // water and glass
}

class Builder {
  private position = new Uint16Array(4096);
  private data = new Uint8Array(4096);
  private group = new Uint8Array(256); // group of each quad
  private quads = 0;
  trimming = false;

  /** Add a quad; `corners` is 4 x 3 in steps, `ao` holds four levels from 0 to 3. */
  add(corners: Float64Array, appearance: number, face: number, ao: number, tint: number): void {
    if ((this.quads + 1) * 16 > this.position.length) this.grow();
    const level = (corner: number) => (ao >> (2 * corner)) & 3;
    // the diagonal connects the brighter corners, otherwise the interpolation shows a crease
    const turn = level(0) + level(2) < level(1) + level(3) ? 1 : 0;
    for (let i = 0; i < 4; i++) {
      const from = (i + turn) & 3;
      const at = this.quads * 16 + i * 4;
      for (let k = 0; k < 3; k++) this.position[at + k] = corners[from * 3 + k];
      this.data[at] = appearance;
      this.data[at + 1] = face;
      this.data[at + 2] = level(from) * 85;
      this.data[at + 3] = tint;
    }
    this.group[this.quads++] = face + (this.trimming ? FACES : 0);
  }

  private grow(): void {
    const [position, data, group] = [
      new Uint16Array(this.position.length * 2),
      new Uint8Array(this.data.length * 2),
      new Uint8Array(this.group.length * 2),
    ];
    position.set(this.position);
    data.set(this.data);
    group.set(this.group);
    [this.position, this.data, this.group] = [position, data, group];
  }

  finish(): QuadMesh {
    const faces = new Uint32Array(GROUPS + 1);
    for (let quad = 0; quad < this.quads; quad++) faces[this.group[quad] + 1]++;
    for (let group = 0; group < GROUPS; group++) faces[group + 1] += faces[group];
    const next = faces.slice(0, GROUPS);
    const [position, data] = [new Uint16Array(this.quads * 16), new Uint8Array(this.quads * 16)];
    for (let quad = 0; quad < this.quads; quad++) {
      const to = next[this.group[quad]]++ * 16;
      position.set(this.position.subarray(quad * 16, quad * 16 + 16), to);
      data.set(this.data.subarray(quad * 16, quad * 16 + 16), to);
    }
    return { quads: this.quads, faces, position, data };
  }
}

/** Marks cells beyond the map in padded volumes: not drawn, and hiding nothing. */
export const OUTSIDE = 2 ** APPEARANCE_BITS - 1;

const HIDES = new Uint8Array(OUTSIDE + 1); // whether faces behind it are omitted
const SHADES = new Uint8Array(OUTSIDE + 1); // whether it darkens corners
for (const [appearance, { form }] of Object.entries(APPEARANCES)) {
  HIDES[Number(appearance)] = form === "block" ? 1 : 0;
  SHADES[Number(appearance)] = form === "block" || form === "heap" ? 1 : 0;
}
const STRIDE = [1, PADDED, PADDED * PADDED];

/** Return the occlusion of the four corners of a face, two bits each; `front` is the open cell before it. */
function occlusion(appearances: Uint8Array, front: number, u: number, v: number): number {
  const [du, dv] = [STRIDE[u], STRIDE[v]];
  const [left, right] = [SHADES[appearances[front - du]], SHADES[appearances[front + du]]];
  const [low, high] = [SHADES[appearances[front - dv]], SHADES[appearances[front + dv]]];
  const corner = (a: number, b: number, at: number) => (a && b ? 0 : 3 - a - b - SHADES[appearances[at]]);
  return (
    corner(left, low, front - du - dv) |
    (corner(right, low, front + du - dv) << 2) |
    (corner(right, high, front + du + dv) << 4) |
    (corner(left, high, front - du + dv) << 6)
  );
}

/** Return whether the face of a voxel toward `front` is drawn. */
function shows(appearance: number, front: number): boolean {
  if (HIDES[appearance]) return !HIDES[front];
  return appearance === Appearance.GLASS && !HIDES[front] && front !== Appearance.GLASS;
}

/** Remove the widest, then tallest rectangle of equal cells at (i, j) from the mask and return its size. */
function takeRectangle(mask: Int32Array, i: number, j: number): [number, number] {
  const value = mask[j * CHUNK + i];
  let width = 1;
  while (i + width < CHUNK && mask[j * CHUNK + i + width] === value) width++;
  let height = 1;
  grow: for (; j + height < CHUNK; height++) {
    for (let k = 0; k < width; k++) if (mask[(j + height) * CHUNK + i + k] !== value) break grow;
  }
  for (let row = 0; row < height; row++) mask.fill(0, (j + row) * CHUNK + i, (j + row) * CHUNK + i + width);
  return [width, height];
}

/** Plane of a slice's quads: axis, direction and position. */
interface Slice {
  axis: number; // 0 x, 1 y, 2 z
  sign: 1 | -1;
  plane: number; // position from the chunk's origin, may be fractional [vox]
}

function emit(mask: Int32Array, slice: Slice, origin: readonly number[], opaque: Builder, clear: Builder): void {
  const { axis, sign, plane } = slice;
  const [u, v] = [(axis + 1) % 3, (axis + 2) % 3];
  const corners = new Float64Array(12);
  for (let j = 0; j < CHUNK; j++) {
    for (let i = 0; i < CHUNK; i++) {
      const value = mask[j * CHUNK + i];
      if (value === 0) continue;
      const [width, height] = takeRectangle(mask, i, j);
      const appearance = value & (2 ** APPEARANCE_BITS - 1);
      let ao = (value >> APPEARANCE_BITS) & (2 ** AO_BITS - 1);
      // seen from the other side the order of corners reverses
      if (sign < 0) ao = (ao & 0b00110011) | ((ao & 0b11000000) >> 4) | ((ao & 0b00001100) << 4);
      for (let corner = 0; corner < 4; corner++) {
        const c = sign > 0 ? corner : (4 - corner) & 3;
        corners[corner * 3 + axis] = (origin[axis] + plane) * POSITION_STEPS;
        corners[corner * 3 + u] = (origin[u] + i + (c === 1 || c === 2 ? width : 0)) * POSITION_STEPS;
        corners[corner * 3 + v] = (origin[v] + j + (c >= 2 ? height : 0)) * POSITION_STEPS;
      }
      const target = appearance === Appearance.GLASS || appearance === Appearance.WATER ? clear : opaque;
      target.add(corners, appearance, axis * 2 + (sign > 0 ? 0 : 1), ao, value >>> (APPEARANCE_BITS + AO_BITS));
      i += width - 1;
    }
  }
}

const index = (x: number, y: number, z: number) => x + 1 + (y + 1) * PADDED + (z + 1) * PADDED * PADDED;

/** Mesh the faces of solid voxels toward one side. */
function meshSide(
  appearances: Uint8Array,
  tints: Uint8Array,
  origin: readonly number[],
  axis: number,
  sign: 1 | -1,
  opaque: Builder,
  clear: Builder,
): void {
  const [u, v] = [(axis + 1) % 3, (axis + 2) % 3];
  const mask = new Int32Array(CHUNK * CHUNK);
  const at = [0, 0, 0];
  for (let layer = 0; layer < CHUNK; layer++) {
    let any = 0;
    at[axis] = layer;
    for (let j = 0; j < CHUNK; j++) {
      for (let i = 0; i < CHUNK; i++) {
        at[u] = i;
        at[v] = j;
        const cell = index(at[0], at[1], at[2]);
        const appearance = appearances[cell];
        const front = cell + sign * STRIDE[axis];
        if (appearance === Appearance.AIR || appearance === OUTSIDE || !shows(appearance, appearances[front])) continue;
        const tint = tints[at[0] + 1 + (at[1] + 1) * PADDED];
        mask[j * CHUNK + i] =
          appearance | (occlusion(appearances, front, u, v) << APPEARANCE_BITS) | (tint << (APPEARANCE_BITS + AO_BITS));
        any = 1;
      }
    }
    if (any) emit(mask, { axis, sign, plane: layer + (sign > 0 ? 1 : 0) }, origin, opaque, clear);
  }
}

function meshFloor(
  appearances: Uint8Array,
  origin: readonly number[],
  layer: number,
  appearance: Appearance,
  opaque: Builder,
  clear: Builder,
): void {
  const mask = new Int32Array(CHUNK * CHUNK);
  // the map's ground extends under everything that does not hide it
  const bare = appearance === Appearance.GROUND && origin[2] + layer === 0;
  let any = 0;
  for (let y = 0; y < CHUNK; y++) {
    for (let x = 0; x < CHUNK; x++) {
      const cell = index(x, y, layer);
      const here = appearances[cell];
      const drawn = bare ? !HIDES[here] && here !== Appearance.LAVA && here !== OUTSIDE : here === appearance;
      if (!drawn) continue;
      mask[y * CHUNK + x] = appearance | (occlusion(appearances, cell, 0, 1) << APPEARANCE_BITS);
      any = 1;
    }
  }
  if (any) emit(mask, { axis: 2, sign: 1, plane: layer + APPEARANCES[appearance].floor }, origin, opaque, clear);
}

/** Return a pseudo-random number from 0 to 15 from a voxel's position and a counter. */
function pick(x: number, y: number, z: number, k: number): number {
  let h = (x * 374761393 + y * 668265263 + z * 2147483647 + k * 1274126177) | 0;
  h = Math.imul(h ^ (h >>> 13), 1274126177);
  return ((h ^ (h >>> 16)) >>> 8) & 15;
}

/** Add the faces of a box; bounds are in steps, one face may be omitted (-1 for none). */
function addBox(
  low: readonly number[],
  high: readonly number[],
  hidden: number,
  appearance: Appearance,
  builder: Builder,
): void {
  const corners = new Float64Array(12);
  for (let face = 0; face < 6; face++) {
    if (face === hidden) continue;
    const [axis, sign] = [face >> 1, face & 1 ? -1 : 1];
    const [u, v] = [(axis + 1) % 3, (axis + 2) % 3];
    for (let corner = 0; corner < 4; corner++) {
      const c = sign > 0 ? corner : (4 - corner) & 3;
      corners[corner * 3 + axis] = sign > 0 ? high[axis] : low[axis];
      corners[corner * 3 + u] = c === 1 || c === 2 ? high[u] : low[u];
      corners[corner * 3 + v] = c >= 2 ? high[v] : low[v];
    }
    builder.add(corners, appearance, face, OPEN_AO, 0);
  }
}

/** Add tufts to open faces of leaves, so that trees are not boxes. */
function meshTufts(appearances: Uint8Array, origin: readonly number[], opaque: Builder): void {
  for (let z = 0; z < CHUNK; z++)
    for (let y = 0; y < CHUNK; y++)
      for (let x = 0; x < CHUNK; x++) {
        const cell = index(x, y, z);
        if (appearances[cell] !== Appearance.FOLIAGE) continue;
        const at = [origin[0] + x, origin[1] + y, origin[2] + z];
        for (let face = 0; face < 5; face++) {
          const [axis, sign] = [face >> 1, face & 1 ? -1 : 1];
          if (
            HIDES[appearances[cell + sign * STRIDE[axis]]] ||
            pick(at[0], at[1], at[2], face) > (axis === 2 ? TUFTS_ON_TOP : TUFTS_AT_SIDES)
          )
            continue;
          const low = at.map((v, k) => v * POSITION_STEPS + (pick(at[0], at[1], at[2], 10 + face * 8 + k) >> 1));
          const high = at.map((v, k) => (v + 1) * POSITION_STEPS - (pick(at[0], at[1], at[2], 14 + face * 8 + k) >> 1));
          const out = 2 + (pick(at[0], at[1], at[2], 90 + face) >> (axis === 2 ? 1 : 2));
          const plane = (at[axis] + (sign > 0 ? 1 : 0)) * POSITION_STEPS;
          low[axis] = Math.max(0, sign > 0 ? plane : plane - out);
          high[axis] = sign > 0 ? plane + out : plane;
          addBox(low, high, sign > 0 ? face + 1 : face - 1, Appearance.FOLIAGE, opaque);
        }
      }
}

/** Mesh heaps: each visible voxel is a separate box with inset open sides, so that together they look broken. */
function meshHeaps(appearances: Uint8Array, origin: readonly number[], opaque: Builder): void {
  for (let z = 0; z < CHUNK; z++)
    for (let y = 0; y < CHUNK; y++)
      for (let x = 0; x < CHUNK; x++) {
        const cell = index(x, y, z);
        const appearance = appearances[cell];
        if (appearance !== Appearance.RUBBLE && appearance !== Appearance.WRECKAGE) continue;
        const at = [origin[0] + x, origin[1] + y, origin[2] + z];
        const [low, high] = [at.map((v) => v * POSITION_STEPS), at.map((v) => (v + 1) * POSITION_STEPS)];
        let seen = false;
        for (let face = 0; face < 6; face++) {
          const [axis, sign] = [face >> 1, face & 1 ? -1 : 1];
          if (SHADES[appearances[cell + sign * STRIDE[axis]]]) continue;
          seen = true;
          if (axis !== 2 && at[2] === 0) continue; // the lowest layer has no inset, so that it touches the ground
          const inward = pick(at[0], at[1], at[2], 40 + face) >> (face === 4 ? 0 : 1);
          if (sign > 0) high[axis] -= Math.min(inward, HEAP_CUT);
          else if (at[axis] > 0) low[axis] += Math.min(inward, HEAP_CUT);
        }
        if (seen) addBox(low, high, -1, appearance, opaque);
      }
}

/** Mesh one chunk; `origin` is its corner [vox], `appearances` is padded in three axes and `tints` in two. */
export function meshChunk(appearances: Uint8Array, tints: Uint8Array, origin: readonly number[]): ChunkMesh {
  const [opaque, clear] = [new Builder(), new Builder()];
  for (let axis = 0; axis < 3; axis++) {
    for (const sign of [1, -1] as const) {
      meshSide(appearances, tints, origin, axis, sign, opaque, clear);
    }
  }
  for (let layer = 0; layer < CHUNK; layer++) {
    for (const appearance of [Appearance.GROUND, Appearance.LAVA, Appearance.WATER])
      meshFloor(appearances, origin, layer, appearance, opaque, clear);
  }
  opaque.trimming = true;
  meshTufts(appearances, origin, opaque);
  opaque.trimming = false;
  meshHeaps(appearances, origin, opaque);
  return { opaque: opaque.finish(), clear: clear.finish() };
}

/** Return the padded volume of a chunk: OUTSIDE beyond the sides, rock below, air above. */
export function cutChunk(appearances: Uint8Array, size: readonly number[], origin: readonly number[]): Uint8Array {
  const padded = new Uint8Array(PADDED ** 3).fill(OUTSIDE);
  const [sizeX, sizeY, sizeZ] = size;
  const x0 = Math.max(0, origin[0] - 1);
  const x1 = Math.min(sizeX, origin[0] + CHUNK + 1);
  for (let z = origin[2] - 1; z <= origin[2] + CHUNK; z++) {
    for (let y = Math.max(0, origin[1] - 1); y < Math.min(sizeY, origin[1] + CHUNK + 1); y++) {
      const to = index(x0 - origin[0], y - origin[1], z - origin[2]);
      if (z < 0) padded.fill(Appearance.ROCK, to, to + x1 - x0);
      else if (z >= sizeZ) padded.fill(Appearance.AIR, to, to + x1 - x0);
      else {
        const from = x0 + sizeX * (y + sizeY * z);
        padded.set(appearances.subarray(from, from + x1 - x0), to);
      }
    }
  }
  return padded;
}

export function cutTints(tints: Uint8Array, size: readonly number[], origin: readonly number[]): Uint8Array {
  const padded = new Uint8Array(PADDED * PADDED);
  for (let y = Math.max(0, origin[1] - 1); y < Math.min(size[1], origin[1] + CHUNK + 1); y++) {
    for (let x = Math.max(0, origin[0] - 1); x < Math.min(size[0], origin[0] + CHUNK + 1); x++) {
      padded[x - origin[0] + 1 + (y - origin[1] + 1) * PADDED] = tints[x + y * size[0]];
    }
  }
  return padded;
}
