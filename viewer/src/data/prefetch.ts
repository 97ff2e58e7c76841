// Fetches the chunks of a match that fits into memory, so that it plays on without the server.

import type { IndexView } from "../protocol.gen";
import { retryDelay } from "./retry";

export const PREFETCH_BYTES = 16 * 10 ** 6; // largest match that is fetched as a whole

/** Return whether the chunks of a match are fetched as a whole. */
export function fitsMemory({ chunks }: Pick<IndexView, "chunks">): boolean {
  return chunks.reduce((sum, [, , bytes]) => sum + bytes, 0) <= PREFETCH_BYTES;
}

/** Fetches one chunk after the other, while none at the cursor is missing. */
export class Prefetcher {
  private next = 0;
  private busy = false;
  private failures = 0;
  private until = 0; // time of the next attempt [ms]

  constructor(
    private readonly fetchChunk: (number: number) => Promise<unknown>,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Number of chunks fetched from the start on. */
  get done(): number {
    return this.next;
  }

  /** Continue; called every frame. `waiting` tells whether the player waits for a chunk itself. */
  request(index: IndexView, waiting: boolean): void {
    const finished = this.next >= index.chunks.length;
    if (this.busy || waiting || finished || this.now() < this.until || !fitsMemory(index)) return;
    this.busy = true;
    this.fetchChunk(this.next)
      .then(
        () => {
          this.next++;
          this.failures = 0;
        },
        () => (this.until = this.now() + retryDelay(++this.failures)),
      )
      .finally(() => (this.busy = false));
  }

  /** Allow a failed request to be retried at once. */
  retry(): void {
    this.until = 0;
  }
}
