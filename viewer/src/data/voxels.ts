// Voxels at a moment: the stored map with the edits up to a tick applied. Seeking forward or backward returns only the
// mesh chunks that changed. Independent of rendering.

import { APPEARANCES, Appearance } from "../palette";
import { CHUNK } from "./mesher";
import { cellCoords, cellIndex } from "../spaces";
import { type Chunk, firstAfter } from "./replay";

/** Appearances of a map's voxels at a tick. */
export class VoxelField {
  readonly appearances: Uint8Array; // at the current tick
  private readonly marks: Uint8Array; // a bit per voxel, all 0 between calls
  private at: { chunk: Chunk | null; edits: number } = { chunk: null, edits: 0 };

  constructor(
    private readonly stored: Uint8Array, // appearances of the stored map
    readonly size: readonly number[], // x, y, z [vox]
    private readonly appearanceOf: Uint8Array, // appearance of each material id
  ) {
    this.appearances = stored.slice();
    this.marks = new Uint8Array(Math.ceil(stored.length / 8));
  }

  /** Apply the edits up to `tick` of `chunk`; returns the numbers of the mesh chunks that changed. */
  seek(chunk: Chunk, tick: number): Set<number> {
    const edits = firstAfter(chunk.edits.tick, tick);
    const dirty = new Set<number>();
    if (chunk === this.at.chunk && edits >= this.at.edits) {
      for (let i = this.at.edits; i < edits; i++) this.put(chunk.edits.cell[i], chunk.edits.material[i], dirty);
    } else if (chunk !== this.at.chunk || edits !== this.at.edits) {
      this.replace(chunk, edits, dirty);
    }
    this.at = { chunk, edits };
    return dirty;
  }

  /** Replace what the last moment changed by what another does; memory does not depend on the number of changes. */
  private replace(chunk: Chunk, edits: number, dirty: Set<number>): void {
    const { appearances, stored, marks } = this;
    const before = this.at.chunk ? changedCells(this.at.chunk, this.at.edits) : [];
    const shown = before.map((cells) => Uint8Array.from(cells, (cell) => appearances[cell]));
    for (const cells of before) for (const cell of cells) appearances[cell] = stored[cell];
    for (let i = 0; i < chunk.base.count; i++) this.write(chunk.base.cell[i], chunk.base.material[i]);
    for (let i = 0; i < edits; i++) this.write(chunk.edits.cell[i], chunk.edits.material[i]);
    before.forEach((cells, part) => {
      for (let i = 0; i < cells.length; i++) {
        marks[cells[i] >> 3] |= 1 << (cells[i] & 7);
        if (appearances[cells[i]] !== shown[part][i]) this.touch(cells[i], dirty);
      }
    });
    for (const cells of changedCells(chunk, edits)) {
      for (const cell of cells) {
        const known = marks[cell >> 3] & (1 << (cell & 7));
        if (!known && appearances[cell] !== stored[cell]) this.touch(cell, dirty);
      }
    }
    for (const cells of before) for (const cell of cells) marks[cell >> 3] = 0;
  }

  private write(cell: number, material: number): void {
    if (cell < this.appearances.length) this.appearances[cell] = this.appearanceOf[material] ?? 0;
  }

  private touch(cell: number, dirty: Set<number>): void {
    if (cell < this.appearances.length) for (const number of touchedChunks(cell, this.size)) dirty.add(number);
  }

  private put(cell: number, material: number, dirty: Set<number>): void {
    this.set(cell, this.appearanceOf[material] ?? 0, dirty);
  }

  private set(cell: number, appearance: number, dirty: Set<number>): void {
    if (cell >= this.appearances.length || this.appearances[cell] === appearance) return;
    this.appearances[cell] = appearance;
    this.touch(cell, dirty);
  }
}

/** Return the voxels that differ from the stored map after the first edits of a chunk, some of them twice. */
function changedCells(chunk: Chunk, edits: number): Uint32Array[] {
  return [chunk.base.cell, chunk.edits.cell.subarray(0, edits)];
}

export function chunkGrid(size: readonly number[]): [number, number, number] {
  return [Math.ceil(size[0] / CHUNK), Math.ceil(size[1] / CHUNK), Math.ceil(size[2] / CHUNK)];
}

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
