// The chunks in memory: those around the cursor, fetched in the order in which they will be needed and dropped farthest
// first once they take too much room.

import type { Chunk } from "./replay";
import { pauseAfter } from "./retry";

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

/** Why a chunk could not be had, and when it is tried again. */
interface Failure {
  error: Error;
  times: number; // in a row
  until: number; // when it is tried again [ms of the store's clock]
}

/** A ring of decoded chunks around the cursor. */
export class ChunkStore {
  private chunks = new Map<number, Chunk>();
  private pending = new Set<number>();
  private failed = new Map<number, Failure>();
  private here = 0; // chunk of the cursor
  private wanted: readonly number[] = []; // chunks that the cursor needs, as it last said

  constructor(
    private readonly fetchChunk: (number: number) => Promise<Chunk>,
    private readonly budget: number = MEMORY_BYTES,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** The chunk if it is in memory. */
  get(number: number): Chunk | undefined {
    return this.chunks.get(number);
  }

  /** Whether a chunk that the cursor needs is not in memory yet; one that failed is not to be waited for. */
  coming(number: number): boolean {
    return this.wanted.includes(number) && !this.chunks.has(number) && !this.failed.has(number);
  }

  /** Why a chunk could not be had the last time, until it is here. */
  failure(number: number): Error | undefined {
    return this.failed.get(number)?.error;
  }

  /** Numbers of the chunks in memory. */
  loaded(): number[] {
    return [...this.chunks.keys()];
  }

  /** Fetch what the cursor at chunk `here` needs next. */
  want(here: number, count: number, direction: 1 | -1): void {
    this.here = here;
    this.wanted = wantedChunks(here, count, direction);
    for (const number of this.wanted) {
      if (this.pending.size >= AT_ONCE) return;
      if (this.chunks.has(number) || this.pending.has(number) || this.rests(number)) continue;
      this.pending.add(number);
      this.fetchChunk(number).then(
        (chunk) => this.settle(number, chunk),
        (error: Error) => this.fail(number, error),
      );
    }
  }

  /** Try again at once what failed. */
  retry(): void {
    for (const failure of this.failed.values()) Object.assign(failure, { times: 0, until: 0 });
  }

  private rests(number: number): boolean {
    return (this.failed.get(number)?.until ?? 0) > this.now();
  }

  private fail(number: number, error: Error): void {
    this.pending.delete(number);
    const times = (this.failed.get(number)?.times ?? 0) + 1;
    this.failed.set(number, { error, times, until: this.now() + pauseAfter(times) });
  }

  private settle(number: number, chunk: Chunk): void {
    this.pending.delete(number);
    this.failed.delete(number);
    this.chunks.set(number, chunk);
    this.evict();
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
}
