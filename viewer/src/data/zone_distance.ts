// Walking distance to the zone over the lowest floor of each column. An overview of the terrain, not the navigation
// graph of the pilots, which also knows upper floors and the width of each class.

import { APPEARANCES, Appearance } from "../palette";

const HEADROOM = 3; // free voxels that a mech needs above a floor [vox]

const CLIMB = 1; // highest step up [vox]
const DROP = 2; // deepest step down [vox]
const STEPS = [
  [1, 0, 1],
  [-1, 0, 1],
  [0, 1, 1],
  [0, -1, 1],
  [1, 1, Math.SQRT2],
  [1, -1, Math.SQRT2],
  [-1, 1, Math.SQRT2],
  [-1, -1, Math.SQRT2],
] as const;

/** Return the height of the lowest floor with headroom of each column, shape [y, x] [vox]; leaves are no obstacle. */
export function floorHeights(appearances: Uint8Array, size: readonly number[]): Uint8Array {
  const [sizeX, sizeY, sizeZ] = size;
  const layer = sizeX * sizeY;
  const floors = new Uint8Array(layer);
  for (let column = 0; column < layer; column++) {
    let free = 0;
    let z = 0;
    for (; z < sizeZ && free < HEADROOM; z++) {
      const appearance = appearances[column + layer * z] as Appearance;
      const { form } = APPEARANCES[appearance];
      free = form === "none" || form === "floor" || appearance === Appearance.FOLIAGE ? free + 1 : 0;
    }
    floors[column] = z - free;
  }
  return floors;
}

/** Return whether a mech can walk from a column to its neighbour without cutting a corner that is higher than both. */
function walkable(heights: Uint8Array, sizeX: number, x: number, y: number, dx: number, dy: number): boolean {
  const [from, to] = [heights[x + y * sizeX], heights[x + dx + (y + dy) * sizeX]];
  if (to - from > CLIMB || from - to > DROP) return false;
  return (
    dx === 0 || dy === 0 || Math.max(heights[x + dx + y * sizeX], heights[x + (y + dy) * sizeX]) <= Math.max(from, to)
  );
}

/**
 * Return the length of the shortest path to the zone (x, y, radius) from each column, Infinity without one, shape [y,
 * x] [vox].
 */
export function zoneDistances(zone: readonly number[], heights: Uint8Array, size: readonly number[]): Float32Array {
  const [sizeX, sizeY] = size;
  const cost = new Float32Array(sizeX * sizeY).fill(Infinity);
  const heap = new Heap();
  for (let y = 0; y < sizeY; y++) {
    for (let x = 0; x < sizeX; x++) {
      if (Math.hypot(x + 0.5 - zone[0], y + 0.5 - zone[1]) > zone[2]) continue;
      cost[x + y * sizeX] = 0;
      heap.push(0, x + y * sizeX);
    }
  }
  for (let next = heap.pop(); next !== null; next = heap.pop()) {
    const [far, column] = next;
    if (far > cost[column]) continue;
    const [x, y] = [column % sizeX, Math.floor(column / sizeX)];
    for (const [dx, dy, way] of STEPS) {
      const [i, j] = [x + dx, y + dy];
      if (i < 0 || j < 0 || i >= sizeX || j >= sizeY) continue;
      const from = i + j * sizeX;
      const length = Math.fround(far + way); // rounded as it is stored
      if (length >= cost[from] || !walkable(heights, sizeX, i, j, -dx, -dy)) continue;
      cost[from] = length;
      heap.push(length, from);
    }
  }
  return cost;
}

/** Return the path to the zone from a point as centres of columns (x, y), empty without one. */
export function pathToZone(
  cost: Float32Array,
  heights: Uint8Array,
  size: readonly number[],
  x: number,
  y: number,
): [number, number][] {
  const [sizeX, sizeY] = size;
  let [i, j] = [Math.floor(x), Math.floor(y)];
  const way: [number, number][] = [];
  while (i >= 0 && j >= 0 && i < sizeX && j < sizeY && way.length <= sizeX * sizeY) {
    const here = cost[i + j * sizeX];
    if (!(here < Infinity)) break;
    way.push([i + 0.5, j + 0.5]);
    if (here === 0) break;
    let [best, least] = [[0, 0], here];
    for (const [dx, dy] of STEPS) {
      const [a, b] = [i + dx, j + dy];
      const there = a >= 0 && b >= 0 && a < sizeX && b < sizeY ? cost[a + b * sizeX] : Infinity;
      if (there < least && walkable(heights, sizeX, i, j, dx, dy)) [best, least] = [[dx, dy], there];
    }
    if (best[0] === 0 && best[1] === 0) break;
    [i, j] = [i + best[0], j + best[1]];
  }
  return way;
}

/** A binary heap of columns by cost. */
class Heap {
  private readonly keys: number[] = [];
  private readonly values: number[] = [];

  push(key: number, value: number): void {
    let at = this.keys.length;
    this.keys.push(key);
    this.values.push(value);
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (this.keys[above] <= this.keys[at]) return;
      this.swap(above, at);
      at = above;
    }
  }

  pop(): [number, number] | null {
    if (this.keys.length === 0) return null;
    this.swap(0, this.keys.length - 1);
    const top: [number, number] = [this.keys.pop() as number, this.values.pop() as number];
    for (let at = 0; ;) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      let least = at;
      if (left < this.keys.length && this.keys[left] < this.keys[least]) least = left;
      if (right < this.keys.length && this.keys[right] < this.keys[least]) least = right;
      if (least === at) return top;
      this.swap(least, at);
      at = least;
    }
  }

  private swap(a: number, b: number): void {
    [this.keys[a], this.keys[b]] = [this.keys[b], this.keys[a]];
    [this.values[a], this.values[b]] = [this.values[b], this.values[a]];
  }
}
