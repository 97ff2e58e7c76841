// Voxels at a moment: the stored map with the edits up to a tick applied. Seeking forward or backward returns only the
// mesh chunks that changed. Independent of rendering.

import { APPEARANCES, Appearance } from "../palette";
import { CHUNK } from "../render/mesher";
import { cellCoords, cellIndex } from "../spaces";
import { type Chunk, firstAfter } from "./replay";

/** Appearances of a map's voxels at a tick. */
export class VoxelField {
  readonly appearances: Uint8Array; // at the current tick
  private overlay = new Map<number, number>(); // appearance of every voxel that differs from the stored map
  private at: { chunk: Chunk | null; edits: number } = { chunk: null, edits: 0 };

  constructor(
    private readonly stored: Uint8Array, // appearances of the stored map
    readonly size: readonly number[], // x, y, z [vox]
    private readonly appearanceOf: Uint8Array, // appearance of each material id
  ) {
    this.appearances = stored.slice();
  }

  /** Apply the edits up to `tick` of `chunk`; returns the numbers of the mesh chunks that changed. */
  seek(chunk: Chunk, tick: number): Set<number> {
    const edits = firstAfter(chunk.edits.tick, tick);
    const dirty = new Set<number>();
    if (chunk === this.at.chunk && edits >= this.at.edits) {
      for (let i = this.at.edits; i < edits; i++) this.put(chunk.edits.cell[i], chunk.edits.material[i], dirty);
    } else if (chunk !== this.at.chunk || edits !== this.at.edits) {
      this.replace(this.overlayAt(chunk, edits), dirty);
    }
    this.at = { chunk, edits };
    return dirty;
  }

  /** Return the overlay of a moment: the chunk's base and its first edits. */
  private overlayAt(chunk: Chunk, edits: number): Map<number, number> {
    const overlay = new Map<number, number>();
    const { base } = chunk;
    for (let i = 0; i < base.count; i++) overlay.set(base.cell[i], this.appearanceOf[base.material[i]] ?? 0);
    for (let i = 0; i < edits; i++) overlay.set(chunk.edits.cell[i], this.appearanceOf[chunk.edits.material[i]] ?? 0);
    return overlay;
  }

  private replace(overlay: Map<number, number>, dirty: Set<number>): void {
    for (const cell of this.overlay.keys()) if (!overlay.has(cell)) this.set(cell, this.stored[cell], dirty);
    for (const [cell, appearance] of overlay) this.set(cell, appearance, dirty);
    this.overlay = overlay;
  }

  private put(cell: number, material: number, dirty: Set<number>): void {
    const appearance = this.appearanceOf[material] ?? 0;
    this.overlay.set(cell, appearance);
    this.set(cell, appearance, dirty);
  }

  private set(cell: number, appearance: number, dirty: Set<number>): void {
    if (cell >= this.appearances.length || this.appearances[cell] === appearance) return;
    this.appearances[cell] = appearance;
    for (const number of touchedChunks(cell, this.size)) dirty.add(number);
  }
}

/** Return the number of mesh chunks along each axis. */
export function chunkGrid(size: readonly number[]): [number, number, number] {
  return [Math.ceil(size[0] / CHUNK), Math.ceil(size[1] / CHUNK), Math.ceil(size[2] / CHUNK)];
}

/** Return the corner of mesh chunk `number` [vox]. */
export function chunkOrigin(number: number, size: readonly number[]): [number, number, number] {
  const [countX, countY] = chunkGrid(size);
  const [x, y, z] = cellCoords(number, countX, countY);
  return [x * CHUNK, y * CHUNK, z * CHUNK];
}

/** Return the mesh chunks whose surface or shading depends on a voxel: its own, and those it borders. */
export function touchedChunks(cell: number, size: readonly number[]): number[] {
  const [countX, countY, countZ] = chunkGrid(size);
  const [x, y, z] = cellCoords(cell, size[0], size[1]);
  const span = (at: number, count: number) => {
    const low = Math.max(0, Math.floor((at - 1) / CHUNK));
    const high = Math.min(count - 1, Math.floor((at + 1) / CHUNK));
    return low === high ? [low] : [low, high];
  };
  const touched: number[] = [];
  for (const cz of span(z, countZ))
    for (const cy of span(y, countY)) for (const cx of span(x, countX)) touched.push(cx + countX * (cy + countY * cz));
  return touched;
}

/** Return the height of the ground below a point in voxel space, or null inside a solid. */
export function groundBelow(
  appearances: Uint8Array,
  size: readonly number[],
  x: number,
  y: number,
  z: number,
): number | null {
  const [i, j] = [Math.floor(x), Math.floor(y)];
  if (i < 0 || j < 0 || i >= size[0] || j >= size[1]) return 0;
  const top = Math.min(size[2] - 1, Math.floor(z));
  for (let k = top; k >= 0; k--) {
    const appearance = appearances[cellIndex(i, j, k, size[0], size[1])] as Appearance;
    const solid = APPEARANCES[appearance].form === "block" && appearance !== Appearance.FOLIAGE;
    if (solid) return k === Math.floor(z) ? null : k + 1;
  }
  return 0;
}
