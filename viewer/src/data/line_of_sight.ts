// Visibility of a map from given points: lines of sight to the border in all directions over a height map, and between
// two points through the voxels. Ground beyond a wall is hidden unless it, or a mech standing there, rises above the
// line over the wall.

import { type Cutaway, type Point, isCutAway } from "../framing";
import { APPEARANCES, Appearance } from "../palette";
import { cellIndex } from "../spaces";

const VISIBLE_HEIGHT = 1.6; // height above a column that must be visible [vox]
const TREES: readonly number[] = [Appearance.FOLIAGE, Appearance.BARK];
/** Whether each appearance hides what is behind it. */
const OPAQUE = Uint8Array.from(Object.values(APPEARANCES), ({ form }) => (form === "block" || form === "heap" ? 1 : 0));

/** The same without trees, which do not stop the camera behind a mech. */
export const WALLS = OPAQUE.map((opaque, appearance) => (TREES.includes(appearance) ? 0 : opaque));

/** Return whether a point lies in an opaque voxel. */
export function isInside(appearances: Uint8Array, size: readonly number[], point: Point, opaque = OPAQUE): boolean {
  const [x, y, z] = point.map(Math.floor);
  if (x < 0 || y < 0 || z < 0 || x >= size[0] || y >= size[1] || z >= size[2]) return false;
  return opaque[appearances[cellIndex(x, y, z, size[0], size[1])]] === 1;
}

/**
 * Return whether an opaque voxel, other than that of the point, stands between a point of the map and an eye; a cutaway
 * removes those in front of it.
 */
export function isHidden(
  appearances: Uint8Array,
  size: readonly number[],
  point: Point,
  eye: Point,
  cutaway: Cutaway | null = null,
): boolean {
  const [sizeX, sizeY, sizeZ] = size;
  let [x, y, z] = [Math.floor(point[0]), Math.floor(point[1]), Math.floor(point[2])];
  const [wayX, wayY, wayZ] = [eye[0] - point[0], eye[1] - point[1], eye[2] - point[2]];
  // shares of the way across one voxel, and to the next one
  const [overX, overY, overZ] = [wayX, wayY, wayZ].map((way) => Math.abs(1 / (way || 1e-9)));
  let nextX = (wayX > 0 ? x + 1 - point[0] : point[0] - x) * overX;
  let nextY = (wayY > 0 ? y + 1 - point[1] : point[1] - y) * overY;
  let nextZ = (wayZ > 0 ? z + 1 - point[2] : point[2] - z) * overZ;
  for (let share = 0; share < 1;) {
    if (x < 0 || y < 0 || z < 0 || x >= sizeX || y >= sizeY || z >= sizeZ) return false;
    if (share > 0 && OPAQUE[appearances[x + sizeX * (y + sizeY * z)]] === 1) {
      const at: Point = [point[0] + wayX * share, point[1] + wayY * share, point[2] + wayZ * share];
      if (!cutaway || !isCutAway(cutaway, eye, at)) return true;
    }
    share = Math.min(nextX, nextY, nextZ);
    if (share === nextX) {
      x += Math.sign(wayX);
      nextX += overX;
    } else if (share === nextY) {
      y += Math.sign(wayY);
      nextY += overY;
    } else {
      z += Math.sign(wayZ);
      nextZ += overZ;
    }
  }
  return false;
}

/** Return the height of the topmost opaque voxel of each column, shape [y, x] [vox]. */
export function occluderHeights(appearances: Uint8Array, size: readonly number[]): Uint8Array {
  const [sizeX, sizeY, sizeZ] = size;
  const layer = sizeX * sizeY;
  const heights = new Uint8Array(layer);
  for (let z = 0; z < Math.min(sizeZ, 255); z++) {
    for (let column = 0; column < layer; column++) {
      if (OPAQUE[appearances[column + layer * z]] === 1) heights[column] = z + 1;
    }
  }
  return heights;
}

/** Return which columns are visible from any of `eyes` (x, y, z in turn), 1 or 0, shape [y, x]. */
export function visibleColumns(heights: Uint8Array, size: readonly number[], eyes: Float32Array): Uint8Array {
  const [sizeX, sizeY] = size;
  const seen = new Uint8Array(sizeX * sizeY);
  const most = heights.reduce((a, b) => Math.max(a, b), 0) + VISIBLE_HEIGHT;
  /** Mark the columns visible along one line of sight, until the border or until nothing up to `most` is visible. */
  function castRay(eye: Point, dx: number, dy: number): void {
    const length = Math.hypot(dx, dy);
    if (length === 0) return;
    const [ux, uy] = [dx / length, dy / length];
    let [x, y] = [Math.floor(eye[0]), Math.floor(eye[1])];
    const [stepX, stepY] = [Math.sign(ux), Math.sign(uy)];
    const [overX, overY] = [Math.abs(1 / (ux || 1e-9)), Math.abs(1 / (uy || 1e-9))];
    let nextX = (ux > 0 ? x + 1 - eye[0] : eye[0] - x) * overX;
    let nextY = (uy > 0 ? y + 1 - eye[1] : eye[1] - y) * overY;
    let horizon = -Infinity; // steepest slope over any column so far
    let far = 0;
    const rise = most - eye[2];
    while (x >= 0 && y >= 0 && x < sizeX && y < sizeY) {
      const column = x + y * sizeX;
      const height = heights[column];
      const away = Math.max(0.5, (far + Math.min(nextX, nextY)) / 2);
      if ((height + VISIBLE_HEIGHT - eye[2]) / away >= horizon) seen[column] = 1;
      // the column of the eye itself does not block
      if (far > 0) horizon = Math.max(horizon, (height - eye[2]) / away);
      far = Math.min(nextX, nextY);
      if (horizon > (rise > 0 ? rise / far : 0)) return;
      if (nextX < nextY) {
        x += stepX;
        nextX += overX;
      } else {
        y += stepY;
        nextY += overY;
      }
    }
  }

  for (let at = 0; at + 2 < eyes.length; at += 3) {
    const eye = [eyes[at], eyes[at + 1], eyes[at + 2]] as const;
    for (let x = 0; x <= sizeX; x++) {
      castRay(eye, x - eye[0], -eye[1]);
      castRay(eye, x - eye[0], sizeY - eye[1]);
    }
    for (let y = 0; y <= sizeY; y++) {
      castRay(eye, -eye[0], y - eye[1]);
      castRay(eye, sizeX - eye[0], y - eye[1]);
    }
  }
  return seen;
}
