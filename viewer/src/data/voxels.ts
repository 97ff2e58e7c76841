// The voxels at one moment: the stored map with the edits up to a tick laid over it. Moving the cursor, forward or back,
// yields the chunks whose mesh has changed and nothing else. Headless.

import { CHUNK } from "../render/mesher";
import { cellCoords } from "../spaces";
import { type Chunk, firstAfter } from "./replay";

/** The looks of a map at a tick. */
export class VoxelField {
  readonly looks: Uint8Array; // as they are now
  private overlay = new Map<number, number>(); // look of every voxel that differs from the stored map
  private at: { chunk: Chunk | null; edits: number } = { chunk: null, edits: 0 };

  constructor(
    private readonly stored: Uint8Array, // looks of the stored map
    readonly size: readonly number[], // x, y, z [vox]
    private readonly lookOf: Uint8Array, // look of each material id
  ) {
    this.looks = stored.slice();
  }

  /** Show the moment `tick` of `chunk`; returns the numbers of the mesh chunks that changed. */
  seek(chunk: Chunk, tick: number): Set<number> {
    const edits = firstAfter(chunk.edits.tick, tick);
    const dirty = new Set<number>();
    if (chunk === this.at.chunk && edits >= this.at.edits) {
      for (let i = this.at.edits; i < edits; i++) this.put(chunk.edits.cell[i], chunk.edits.material[i], dirty);
    } else if (chunk !== this.at.chunk || edits !== this.at.edits) {
      this.replace(this.wanted(chunk, edits), dirty);
    }
    this.at = { chunk, edits };
    return dirty;
  }

  /** The overlay of a moment: what differed when the chunk began, and its first edits. */
  private wanted(chunk: Chunk, edits: number): Map<number, number> {
    const wanted = new Map<number, number>();
    const { base } = chunk;
    for (let i = 0; i < base.count; i++) wanted.set(base.cell[i], this.lookOf[base.material[i]] ?? 0);
    for (let i = 0; i < edits; i++) wanted.set(chunk.edits.cell[i], this.lookOf[chunk.edits.material[i]] ?? 0);
    return wanted;
  }

  private replace(wanted: Map<number, number>, dirty: Set<number>): void {
    for (const cell of this.overlay.keys()) if (!wanted.has(cell)) this.set(cell, this.stored[cell], dirty);
    for (const [cell, look] of wanted) this.set(cell, look, dirty);
    this.overlay = wanted;
  }

  private put(cell: number, material: number, dirty: Set<number>): void {
    const look = this.lookOf[material] ?? 0;
    this.overlay.set(cell, look);
    this.set(cell, look, dirty);
  }

  private set(cell: number, look: number, dirty: Set<number>): void {
    if (cell >= this.looks.length || this.looks[cell] === look) return;
    this.looks[cell] = look;
    for (const number of touchedChunks(cell, this.size)) dirty.add(number);
  }
}

/** How many mesh chunks a map has along each axis. */
export function chunkGrid(size: readonly number[]): [number, number, number] {
  return [Math.ceil(size[0] / CHUNK), Math.ceil(size[1] / CHUNK), Math.ceil(size[2] / CHUNK)];
}

/** Corner of mesh chunk `number` [vox]. */
export function chunkOrigin(number: number, size: readonly number[]): [number, number, number] {
  const [countX, countY] = chunkGrid(size);
  const [x, y, z] = cellCoords(number, countX, countY);
  return [x * CHUNK, y * CHUNK, z * CHUNK];
}

/** The mesh chunks whose surface or shading a voxel takes part in: its own, and neighbours that it borders. */
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
