// The chunks in memory: those around the cursor, fetched in the order in which they will be needed and dropped farthest
// first once they take too much room. Also carries each mech's odometer from chunk to chunk, so that legs keep step.

import type { Chunk } from "./replay";

export const MEMORY_BYTES = 64 * 2 ** 20; // decoded chunks kept
const AT_ONCE = 3; // requests under way
const AHEAD = 4; // chunks fetched in the direction of play
const BEHIND = 2; // chunks kept ready against it, for effects that began earlier and for turning round

/** Order in which chunks around the cursor are wanted: here, onward, then back. */
export function wantedChunks(here: number, count: number, direction: 1 | -1): number[] {
  const order = [here];
  for (let step = 1; step <= AHEAD; step++) order.push(here + direction * step);
  for (let step = 1; step <= BEHIND; step++) order.splice(2 * step, 0, here - direction * step);
  return order.filter((number) => number >= 0 && number < count);
}

/** Number of the chunk that holds `tick`; at a border the earlier one, which ends there. */
export function chunkAt(ticks: readonly (readonly number[])[], tick: number): number {
  let [low, high] = [0, ticks.length - 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ticks[middle][1] < tick) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A ring of decoded chunks around the cursor. */
export class ChunkStore {
  private chunks = new Map<number, Chunk>();
  private pending = new Set<number>();
  private failed = new Map<number, Error>();
  private odometers = new Map<number, Float64Array>();
  private here = 0; // chunk of the cursor

  constructor(
    private readonly fetchChunk: (number: number) => Promise<Chunk>,
    private readonly onChange: (number: number, error: Error | null) => void,
    private readonly budget: number = MEMORY_BYTES,
  ) {}

  /** The chunk if it is in memory. */
  get(number: number): Chunk | undefined {
    return this.chunks.get(number);
  }

  /** Numbers of the chunks in memory. */
  loaded(): number[] {
    return [...this.chunks.keys()];
  }

  /** Fetch what the cursor at chunk `here` needs next. */
  want(here: number, count: number, direction: 1 | -1): void {
    this.here = here;
    for (const number of wantedChunks(here, count, direction)) {
      if (this.pending.size >= AT_ONCE) return;
      if (this.chunks.has(number) || this.pending.has(number) || this.failed.has(number)) continue;
      this.pending.add(number);
      this.fetchChunk(number).then(
        (chunk) => this.settle(number, chunk),
        (error: Error) => {
          this.pending.delete(number);
          this.failed.set(number, error);
          this.onChange(number, error);
        },
      );
    }
  }

  /** Forget failures, so that they are tried again. */
  retry(): void {
    this.failed.clear();
  }

  private settle(number: number, chunk: Chunk): void {
    this.pending.delete(number);
    this.chunks.set(number, chunk);
    this.evict();
    this.onChange(number, null);
  }

  private evict(): void {
    let bytes = 0;
    for (const chunk of this.chunks.values()) bytes += chunk.bytes;
    const farthest = [...this.chunks.keys()].sort((a, b) => Math.abs(b - this.here) - Math.abs(a - this.here));
    for (const number of farthest) {
      if (bytes <= this.budget || this.chunks.size <= 1 + AHEAD + BEHIND) return;
      bytes -= this.chunks.get(number)?.bytes ?? 0;
      this.chunks.delete(number);
    }
  }

  /** Distance each mech had walked when chunk `number` began [vox]; continuous with its neighbours where known. */
  odometer(number: number): Float64Array {
    const known = this.odometers.get(number);
    if (known) return known;
    const base = this.fromNeighbour(number) ?? new Float64Array(this.chunks.get(number)?.mechs ?? 0);
    this.odometers.set(number, base);
    return base;
  }

  private fromNeighbour(number: number): Float64Array | null {
    const [before, after] = [this.odometers.get(number - 1), this.odometers.get(number + 1)];
    const [previous, here] = [this.chunks.get(number - 1), this.chunks.get(number)];
    if (before && previous) return before.map((walked, mech) => walked + total(previous, mech));
    if (after && here) return after.map((walked, mech) => walked - total(here, mech));
    return null;
  }
}

/** Distance a mech walks within a chunk [vox]. */
function total(chunk: Chunk, mech: number): number {
  return chunk.walked[(chunk.frames - 1) * chunk.mechs + mech];
}
