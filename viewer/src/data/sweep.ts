// Reads a whole match chunk by chunk, beside what is being shown, for what can only be said of all of it: where mechs
// spent their time and were hurt, and the curves of one mech. Keeps sums and one mech's curves, never the chunks.

import { EventKind, MechFlag } from "../protocol.gen";
import type { Chunk } from "./replay";
import { pauseAfter } from "./retry";

const AT_ONCE = 8; // requests under way
const REACH = 1; // a mech is present this far around its middle [vox]

/** The curves of one mech: a value per frame, in order of time; policy columns are empty where there are none. */
export interface PilotCurves {
  mech: number;
  seconds: number[];
  hp: number[]; // shares of what it began with and of its caps
  heat: number[];
  stability: number[];
  value: number[]; // what the pilot expected
  gained: number[]; // sum of its rewards so far
  terms: number[][]; // the same by term
}

/** What must be known of the match. */
export interface Swept {
  size: readonly number[]; // of the map [vox]
  tickHz: number;
  terms: number; // reward terms, 0 without policy columns
  spec(mech: number): { hp: number; heat_cap: number }; // of its class
}

/** Sums over a match and curves of a mech, as far as read. */
export class Sweep {
  readonly presence: Float32Array; // mech-seconds by column, shape [y, x]
  readonly damage: Float32Array; // hit points lost by column, shape [y, x]
  curves: PilotCurves | null = null;
  /** Grows with every chunk taken in. */
  version = 0;
  private summed = 0; // chunks that the grids hold
  private drawn = 0; // chunks that the curves hold
  private early = new Map<number, Chunk>(); // chunks that came before their turn
  private pending = new Set<number>();
  private failures = 0; // in a row
  private until = 0; // nothing is asked for before [ms of its clock]
  private wish: [count: number, grids: boolean, mech: number] = [0, false, -1];

  constructor(private readonly fetchChunk: (number: number) => Promise<Chunk>, private readonly about: Swept, private readonly now: () => number = () => performance.now()) {
    const [x, y] = about.size;
    this.presence = new Float32Array(x * y);
    this.damage = new Float32Array(x * y);
  }

  /** Go on reading: up to chunk `count`, for the grids, and for the curves of `mech` unless that is -1. */
  want(count: number, grids: boolean, mech: number): void {
    this.wish = [count, grids, mech];
    if (mech >= 0 && this.curves?.mech !== mech) this.begin(mech);
    const next = Math.min(grids ? this.summed : count, mech >= 0 ? this.drawn : count);
    for (let number = next; number < Math.min(count, next + AT_ONCE) && this.now() >= this.until; number++) {
      if (this.pending.size >= AT_ONCE || this.pending.has(number) || this.early.has(number)) continue;
      this.pending.add(number);
      this.fetchChunk(number).then(
        (chunk) => this.take(number, chunk),
        () => this.fail(), // the player says what is wrong with a chunk when it comes there
      ).finally(() => {
        this.pending.delete(number);
        this.want(...this.wish); // on with it, however rarely the picture is drawn
      });
    }
  }

  /** Try again at once what failed, such as the end of a live match. */
  retry(): void {
    this.failures = 0;
    this.until = 0;
  }

  /** Ask for nothing for a while; requests that fail together have failed once. */
  private fail(): void {
    if (this.now() >= this.until) this.until = this.now() + pauseAfter(++this.failures);
  }

  /** Read no further. */
  rest(): void {
    this.wish = [0, false, -1];
  }

  private begin(mech: number): void {
    this.drawn = 0;
    this.early.clear();
    const { terms } = this.about;
    this.curves = { mech, seconds: [], hp: [], heat: [], stability: [], value: [], gained: [], terms: Array.from({ length: terms }, () => []) };
  }

  private take(number: number, chunk: Chunk): void {
    this.failures = 0;
    this.early.set(number, chunk);
    for (const [at, held] of [...this.early].sort((a, b) => a[0] - b[0])) {
      if (at === this.summed) this.sum(held);
      if (this.curves && at === this.drawn) this.draw(held, this.curves);
      if (at < this.summed && (!this.curves || at < this.drawn)) this.early.delete(at);
    }
    // what neither wants next is read again in its turn
    for (const at of this.early.keys()) if (at !== this.summed && at !== this.drawn && this.early.size > 2 * AT_ONCE) this.early.delete(at);
    this.version++;
  }

  private sum(chunk: Chunk): void {
    this.summed++;
    const [sizeX, sizeY] = this.about.size;
    const cell = (at: number) => {
      const [x, y] = [Math.floor(chunk.mech.x[at]), Math.floor(chunk.mech.y[at])];
      return x >= 0 && y >= 0 && x < sizeX && y < sizeY ? [x, y] : null;
    };
    const add = (grid: Float32Array, at: number, amount: number) => {
      const spot = cell(at);
      if (!spot) return;
      for (let y = Math.max(0, spot[1] - REACH); y <= Math.min(sizeY - 1, spot[1] + REACH); y++)
        for (let x = Math.max(0, spot[0] - REACH); x <= Math.min(sizeX - 1, spot[0] + REACH); x++) grid[x + y * sizeX] += amount;
    };
    for (let frame = 1; frame < chunk.frames; frame++) {
      const seconds = (chunk.tick[frame] - chunk.tick[frame - 1]) / this.about.tickHz;
      for (let mech = 0; mech < chunk.mechs; mech++) {
        const at = frame * chunk.mechs + mech;
        if (chunk.mech.flags[at] & MechFlag.ALIVE) add(this.presence, at, seconds);
      }
    }
    let frame = 0;
    for (let i = 0; i < chunk.events.count; i++) {
      while (frame < chunk.frames - 1 && chunk.tick[frame] < chunk.events.tick[i]) frame++;
      if (chunk.events.kind[i] === EventKind.HIT && chunk.events.whom[i] >= 0) add(this.damage, frame * chunk.mechs + chunk.events.whom[i], chunk.events.value[i]);
    }
  }

  private draw(chunk: Chunk, curves: PilotCurves): void {
    const { mech } = curves;
    const { hp, heat_cap } = this.about.spec(mech);
    // the first frame of a chunk repeats the last of the one before
    for (let frame = this.drawn === 0 ? 0 : 1; frame < chunk.frames; frame++) {
      const at = frame * chunk.mechs + mech;
      curves.seconds.push(chunk.tick[frame] / this.about.tickHz);
      curves.hp.push(chunk.mech.hp[at] / hp);
      curves.heat.push(chunk.mech.heat[at] / heat_cap);
      curves.stability.push(chunk.mech.stability[at] / 100);
      if (!chunk.insight) continue;
      curves.value.push(chunk.insight.value[at]);
      let total = 0;
      curves.terms.forEach((term, k) => {
        const paid = chunk.insight?.reward[at * curves.terms.length + k] ?? 0;
        total += paid;
        term.push((term.at(-1) ?? 0) + paid);
      });
      curves.gained.push((curves.gained.at(-1) ?? 0) + total);
    }
    this.drawn++;
  }
}
