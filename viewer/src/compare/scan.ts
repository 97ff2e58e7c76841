// Reads two matches chunk by chunk in the background: sums of their events, and where they first differ, from the first
// moment that both have; a continuation of a match begins within it.

import type { Chunk } from "../data/replay";
import type { MatchState } from "../state";
import { type Difference, type Sums, addEvents, firstDifference, hasSameRoster, noSums } from "./differences";

const RETRIES = 3;
const SIDES = [0, 1] as const;

/** Sums and first difference of two matches, as far as read. */
export class CompareScan {
  /** The first difference, null while none was found. */
  difference: Difference | null = null;
  /** The first tick that both matches have. */
  readonly start: number;
  private readonly sums: readonly [Sums[], Sums[]] = [[noSums()], [noSums()]]; // before each chunk
  private readonly next: [number, number] = [0, 0]; // chunk of each side to be read next
  private readonly held: [Chunk | null, Chunk | null] = [null, null]; // read chunks, not yet compared to their ends
  private compared = -1; // last tick up to which both were compared
  private busy = false;
  private failures = 0;
  private readonly comparable: boolean;

  constructor(private readonly matches: readonly [MatchState, MatchState]) {
    const [a, b] = matches.map(({ header }) => header);
    this.start = Math.max(...matches.map(({ index }) => index.chunks[0]?.[0] ?? 0));
    this.comparable = hasSameRoster(a, b) && a.tick_hz === b.tick_hz;
    if (!this.comparable) this.difference = { tick: this.start, what: "the mechs" };
  }

  private count(side: 0 | 1): number {
    return this.matches[side].index.chunks.length;
  }

  /** Share of the matches that was read. */
  get read(): number {
    const count = this.count(0) + this.count(1);
    return count === 0 ? 1 : Math.min(1, (this.next[0] + this.next[1]) / count);
  }

  /** Continue reading; called every frame. */
  request(): void {
    if (this.busy || this.read >= 1 || this.failures > RETRIES) return;
    this.busy = true;
    const sides = SIDES.filter((side) => !this.held[side] && this.next[side] < this.count(side));
    Promise.all(sides.map((side) => this.matches[side].source.chunk(this.next[side])))
      .then((chunks) => {
        chunks.forEach((chunk, k) => this.add(sides[k], chunk));
        this.compare();
      })
      .catch(() => this.failures++)
      .finally(() => (this.busy = false));
  }

  private add(side: 0 | 1, chunk: Chunk): void {
    const sums = this.sums[side];
    sums.push(addEvents(sums[this.next[side]], this.matches[side].header, chunk, Infinity, this.start));
    this.held[side] = chunk;
    this.next[side]++;
  }

  /** Compare the ticks of which both chunks are there, and drop the one that ends first, or both. */
  private compare(): void {
    const [a, b] = this.held;
    const ends = this.held.map((chunk) => chunk?.tick[chunk.frames - 1] ?? Infinity);
    if (a && b && this.comparable) {
      const from = Math.max(this.start, this.compared + 1);
      this.difference ??= firstDifference(this.matches[0].header, a, b, from);
    } else if (this.comparable) {
      // one match has ended
      const rest = a ?? b;
      const tick = rest?.tick.find((each) => each > this.compared);
      if (tick !== undefined) this.difference ??= { tick, what: "length of the match" };
    }
    const end = Math.min(...ends);
    if (a && b) this.compared = end;
    for (const side of SIDES) if (ends[side] === end) this.held[side] = null;
  }

  /** Return the sums of a side from the first common tick to a tick, null while they are not known. */
  at(side: 0 | 1, tick: number): Sums | null {
    const { chunk, chunkNumber, header } = this.matches[side];
    const before = this.sums[side][chunkNumber];
    return chunk && before ? addEvents(before, header, chunk, tick, this.start) : null;
  }
}
