// Decoded chunks in memory: those around the cursor, requested in the order of need; above a memory budget the farthest
// are dropped.

import type { Chunk } from "./replay";
import { ApiError, DAMAGED } from "./request";
import { retryDelay } from "./retry";

export const MEMORY_BYTES = 64 * 2 ** 20; // budget of decoded chunks
const MAX_REQUESTS = 3; // at the same time
const AHEAD = 4; // chunks prefetched in the direction of playback
const SHOWN = 2; // chunks before it whose effects may show in the picture
export const BEHIND = 4; // chunks prefetched against it, for the director's shot that began there, and for reversing
const LEAST = 3; // chunks kept whatever they take: the current one and its neighbours

/** Return the chunks around the cursor in the order of need: the current one, then alternating ahead and behind. */
export function prefetchOrder(here: number, count: number, direction: 1 | -1): number[] {
  const order = [here];
  for (let step = 1; step <= AHEAD; step++) order.push(here + direction * step);
  for (let step = 1; step <= BEHIND; step++) order.splice(2 * step, 0, here - direction * step);
  return order.filter((number) => number >= 0 && number < count);
}

/** Return the chunks of the picture at chunk `here` in the order of need: earlier ones have effects that still show. */
function pictureChunks(here: number): number[] {
  const order = [];
  for (let step = 0; step <= Math.min(SHOWN, here); step++) order.push(here - step);
  return order;
}

/** Return the number of the chunk that holds `tick`; at a border the earlier one. */
export function chunkAt(ticks: readonly (readonly number[])[], tick: number): number {
  let [low, high] = [0, ticks.length - 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ticks[middle][1] < tick) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Failure {
  error: Error;
  times: number; // failures in a row
  until: number; // time of the next attempt [ms of the store's clock]
}

/** Return whether an error means that a chunk is damaged, so that no retry helps. */
export function isDamage(error: Error | undefined): boolean {
  return error instanceof ApiError && error.status === DAMAGED;
}

export class ChunkStore {
  private chunks = new Map<number, Chunk>();
  private pending = new Set<number>();
  private failed = new Map<number, Failure>();
  private here = 0; // chunk at the cursor
  private requested: readonly number[] = []; // chunks requested last

  constructor(
    private readonly fetchChunk: (number: number) => Promise<Chunk>,
    private readonly budget: number = MEMORY_BYTES,
    private readonly now: () => number = () => performance.now(),
  ) {}

  get(number: number): Chunk | undefined {
    return this.chunks.get(number);
  }

  /** Return whether a requested chunk has neither arrived nor failed. */
  isPending(number: number): boolean {
    return this.requested.includes(number) && !this.chunks.has(number) && !this.failed.has(number);
  }

  failure(number: number): Error | undefined {
    return this.failed.get(number)?.error;
  }

  /** Return the numbers of the chunks that are damaged, as far as requested. */
  damaged(): number[] {
    return [...this.failed].flatMap(([number, { error }]) => (isDamage(error) ? [number] : []));
  }

  get isWaiting(): boolean {
    return this.pending.size > 0;
  }

  loaded(): number[] {
    return [...this.chunks.keys()];
  }

  /** Request the chunks needed by a cursor at chunk `here`; with `alone` those of its picture only. */
  request(here: number, count: number, direction: 1 | -1, alone = false): void {
    this.here = here;
    this.requested = this.affordable(alone ? pictureChunks(here) : prefetchOrder(here, count, direction));
    for (const number of this.requested) {
      if (this.pending.size >= MAX_REQUESTS) return;
      if (this.chunks.has(number) || this.pending.has(number) || this.inBackoff(number)) continue;
      this.pending.add(number);
      this.fetchChunk(number).then(
        (chunk) => this.settle(number, chunk),
        (error: Error) => this.fail(number, error),
      );
    }
  }

  /** Return the first chunks of an order that fit into the budget; those not in memory count as nothing. */
  private affordable(order: readonly number[]): readonly number[] {
    let bytes = 0;
    const over = order.findIndex((number, i) => {
      bytes += this.chunks.get(number)?.bytes ?? 0;
      return i >= LEAST - 1 && bytes > this.budget;
    });
    return over < 0 ? order : order.slice(0, Math.max(LEAST, over));
  }

  retry(): void {
    for (const failure of this.failed.values())
      if (!isDamage(failure.error)) Object.assign(failure, { times: 0, until: 0 });
  }

  private inBackoff(number: number): boolean {
    return (this.failed.get(number)?.until ?? 0) > this.now();
  }

  private fail(number: number, error: Error): void {
    this.pending.delete(number);
    const times = (this.failed.get(number)?.times ?? 0) + 1;
    this.failed.set(number, { error, times, until: isDamage(error) ? Infinity : this.now() + retryDelay(times) });
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
    const needed = new Set(this.affordable(this.requested));
    const farthest = [...this.chunks.keys()].sort((a, b) => Math.abs(b - this.here) - Math.abs(a - this.here));
    for (const number of farthest) {
      if (bytes <= this.budget) return;
      if (needed.has(number)) continue;
      bytes -= this.chunks.get(number)?.bytes ?? 0;
      this.chunks.delete(number);
    }
  }
}
