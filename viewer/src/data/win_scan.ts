// Reads a match in the background for the curve of its win probability: all chunks of a usual match, evenly spread ones
// of a long one.

import type { Header, IndexView } from "../protocol.gen";
import type { Chunk } from "./replay";
import { isDamage } from "./store";
import { type WinPoint, winPoint } from "./winprob";

const MAX_CHUNKS = 400; // most chunks that are read
const FRAMES = 4; // most points of a chunk
const AT_ONCE = 2; // most requests at the same time
const RETRIES = 3;
const RESULTS: Record<number, number> = { 0: 1, 1: 0, 2: 0.5 }; // probability of blue after the end, by winner

/** The win probability over a match, as far as read. */
export class WinScan {
  /** Points in order of time. */
  points: readonly WinPoint[] = [];
  private readonly read = new Map<number, WinPoint[]>();
  private readonly reach = new Map<WinPoint, number>(); // last tick that a point stands for
  private readonly pending = new Set<number>();
  private failures = 0;
  private ended = false;

  constructor(
    private readonly header: Header,
    private readonly fetchChunk: (number: number) => Promise<Chunk>,
  ) {}

  /** Continue reading; called every frame. */
  request(index: IndexView): void {
    const count = index.chunks.length;
    const stride = Math.max(1, Math.ceil(count / MAX_CHUNKS));
    for (let number = 0; number < count && this.pending.size < AT_ONCE; number += stride) {
      if (this.failures > RETRIES) return;
      if (this.read.has(number) || this.pending.has(number)) continue;
      this.pending.add(number);
      this.fetchChunk(number)
        .then(
          (chunk) => this.add(number, chunk, stride),
          // the player reports a failed chunk when it gets there
          (error: Error) => (isDamage(error) ? this.read.set(number, []) : this.failures++),
        )
        .finally(() => this.pending.delete(number));
    }
    if (!this.ended && index.outcome && this.pending.size === 0) this.end(index);
  }

  /** Allow failed requests to be retried at once. */
  retry(): void {
    this.failures = 0;
  }

  /** Return the point at or before a tick; null before the first one, and where the match has not been read yet. */
  at(tick: number): WinPoint | null {
    let [low, high] = [0, this.points.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.points[middle].tick <= tick) low = middle + 1;
      else high = middle;
    }
    const point = this.points[low - 1];
    return point && tick <= (this.reach.get(point) ?? Number.POSITIVE_INFINITY) ? point : null;
  }

  private add(number: number, chunk: Chunk, stride: number): void {
    const step = Math.max(1, Math.floor((chunk.frames - 1) / FRAMES));
    const points = [];
    for (let frame = 0; frame < chunk.frames; frame += step) points.push(winPoint(this.header, chunk, frame));
    this.read.set(number, points);
    // and of the chunk after it, which is on its way while a match is live
    const end = chunk.tick0 + (stride + 1) * (chunk.tick1 - chunk.tick0);
    for (const point of points) this.reach.set(point, end);
    const sorted = [...this.read].sort((a, b) => a[0] - b[0]).flatMap(([, part]) => part);
    this.points = sorted.filter(({ tick }, i) => i === sorted.length - 1 || sorted[i + 1].tick > tick);
  }

  /** Let the curve end with the result. */
  private end({ outcome, chunks }: IndexView): void {
    const p = RESULTS[outcome?.winner ?? -1];
    const last = this.points.at(-1);
    this.ended = true;
    if (p === undefined || !last) return;
    const tick = Math.max(last.tick, chunks.at(-1)?.[1] ?? 0);
    this.points = [...this.points.filter((point) => point.tick < tick), { ...last, tick, p, low: p, high: p }];
  }
}
