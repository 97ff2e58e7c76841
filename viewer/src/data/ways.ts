// How far it is to the zone from everywhere, walked on the lowest floor of each column; a look at the lie of the land, not
// the graph that pilots steer by, which also knows the floors above and the width of each class.

import { LOOKS, Look } from "../palette";

const HEADROOM = 3; // free voxels that a mech needs above a floor

const CLIMB = 1; // highest step up [vox]
const DROP = 2; // deepest step down [vox]
const STEPS = [[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1], [1, 1, Math.SQRT2], [1, -1, Math.SQRT2], [-1, 1, Math.SQRT2], [-1, -1, Math.SQRT2]] as const;

/** Height of the lowest floor with room above it, of each column, shape [y, x] [vox]; leaves are no obstacle. */
export function floorsOf(looks: Uint8Array, size: readonly number[]): Uint8Array {
  const [sizeX, sizeY, sizeZ] = size;
  const layer = sizeX * sizeY;
  const floors = new Uint8Array(layer);
  for (let column = 0; column < layer; column++) {
    let free = 0;
    let z = 0;
    for (; z < sizeZ && free < HEADROOM; z++) {
      const look = looks[column + layer * z] as Look;
      const { form } = LOOKS[look];
      free = form === "none" || form === "floor" || look === Look.FOLIAGE ? free + 1 : 0;
    }
    floors[column] = z - free;
  }
  return floors;
}

/** Whether one can walk from a column to its neighbour, not round a corner that is higher than both. */
function walkable(heights: Uint8Array, sizeX: number, x: number, y: number, dx: number, dy: number): boolean {
  const [from, to] = [heights[x + y * sizeX], heights[x + dx + (y + dy) * sizeX]];
  if (to - from > CLIMB || from - to > DROP) return false;
  return dx === 0 || dy === 0 || Math.max(heights[x + dx + y * sizeX], heights[x + (y + dy) * sizeX]) <= Math.max(from, to);
}

/** Length of the shortest way to the zone (x, y, radius) from each column, Infinity where there is none, shape [y, x] [vox]. */
export function waysTo(zone: readonly number[], heights: Uint8Array, size: readonly number[]): Float32Array {
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
      const length = Math.fround(far + way); // as it is kept
      if (length >= cost[from] || !walkable(heights, sizeX, i, j, -dx, -dy)) continue;
      cost[from] = length;
      heap.push(length, from);
    }
  }
  return cost;
}

/** The way to the zone from a place: middles of columns (x, y), empty where there is none. */
export function wayFrom(cost: Float32Array, heights: Uint8Array, size: readonly number[], x: number, y: number): [number, number][] {
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
    for (let at = 0; ; ) {
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
