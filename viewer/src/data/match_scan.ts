// Reads a whole match chunk by chunk in the background, for data of all of it: where teams spent time and took damage,
// and the curves of one mech. Keeps sums and curves, not the chunks.

import { EventKind, MechFlag } from "../protocol.gen";
import type { Chunk } from "./replay";
import type { TeamGrids } from "./heat";
import { retryDelay } from "./retry";
import { isDamage } from "./store";

const MAX_REQUESTS = 8; // at the same time
const REACH = 1; // radius around a mech's centre that counts as its presence [vox]

/** Curves of one mech: a value per frame in time order; policy columns are empty if not recorded. */
export interface MechCurves {
  mech: number;
  seconds: number[];
  hp: number[]; // hit points, heat and stability as shares of their maximum
  heat: number[];
  stability: number[];
  value: number[]; // predicted value
  gained: number[]; // cumulative reward
  terms: number[][]; // cumulative reward by term
}

export interface ScanContext {
  size: readonly number[]; // size of the map [vox]
  tickHz: number;
  team(mech: number): 0 | 1;
  terms: number; // number of reward terms, 0 without policy columns
  spec(mech: number): { hp: number; heat_cap: number }; // maxima of a mech's class
}

/** Background scan of a match: sums over all mechs and curves of one, as far as read. */
export class MatchScan {
  readonly presence: TeamGrids; // mech-seconds of each team by column
  readonly damage: TeamGrids; // hit points lost by each team by column
  curves: MechCurves | null = null;
  /** Increases with every processed chunk. */
  version = 0;
  private gridChunks = 0; // chunks added to the grids
  private curveChunks = 0; // chunks added to the curves
  private outOfOrder = new Map<number, Chunk | null>(); // chunks that arrived out of order
  private pending = new Set<number>();
  private failures = 0; // consecutive
  private until = 0; // no request before this time [ms of the scan's clock]
  private target: [count: number, grids: boolean, mech: number] = [0, false, -1];

  constructor(
    private readonly fetchChunk: (number: number) => Promise<Chunk>,
    private readonly context: ScanContext,
    private readonly now: () => number = () => performance.now(),
  ) {
    const [x, y] = context.size;
    const grids = (): TeamGrids => [new Float32Array(x * y), new Float32Array(x * y)];
    [this.presence, this.damage] = [grids(), grids()];
  }

  /** Return the share of a match of `count` chunks that the grids contain. */
  gridShare(count: number): number {
    return count > 0 ? Math.min(1, this.gridChunks / count) : 1;
  }

  /** Continue reading up to chunk `count`: for the grids, and for the curves of `mech` unless it is -1. */
  request(count: number, grids: boolean, mech: number): void {
    this.target = [count, grids, mech];
    if (mech >= 0 && this.curves?.mech !== mech) this.startCurves(mech);
    const next = Math.min(grids ? this.gridChunks : count, mech >= 0 ? this.curveChunks : count);
    for (let number = next; number < Math.min(count, next + MAX_REQUESTS) && this.now() >= this.until; number++) {
      if (this.pending.size >= MAX_REQUESTS || this.pending.has(number) || this.outOfOrder.has(number)) continue;
      this.pending.add(number);
      this.fetchChunk(number)
        .then(
          (chunk) => this.accept(number, chunk),
          // the player reports a failed chunk when it gets there
          (error: Error) => (isDamage(error) ? this.accept(number, null) : this.fail()),
        )
        .finally(() => {
          this.pending.delete(number);
          this.request(...this.target); // continue even if no frame is drawn
        });
    }
  }

  retry(): void {
    this.failures = 0;
    this.until = 0;
  }

  /** Delay further requests; requests that fail together count as one failure. */
  private fail(): void {
    if (this.now() >= this.until) this.until = this.now() + retryDelay(++this.failures);
  }

  stop(): void {
    this.target = [0, false, -1];
  }

  private startCurves(mech: number): void {
    this.curveChunks = 0;
    this.outOfOrder.clear();
    const { terms } = this.context;
    this.curves = {
      mech,
      seconds: [],
      hp: [],
      heat: [],
      stability: [],
      value: [],
      gained: [],
      terms: Array.from({ length: terms }, () => []),
    };
  }

  /** Add a chunk, null for a damaged one. */
  private accept(number: number, chunk: Chunk | null): void {
    this.failures = 0;
    this.outOfOrder.set(number, chunk);
    for (const [at, next] of [...this.outOfOrder].sort((a, b) => a[0] - b[0])) {
      if (at === this.gridChunks) {
        if (next) this.addToGrids(next);
        this.gridChunks++;
      }
      if (this.curves && at === this.curveChunks) {
        if (next) this.addToCurves(next, this.curves);
        this.curveChunks++;
      }
      if (at < this.gridChunks && (!this.curves || at < this.curveChunks)) this.outOfOrder.delete(at);
    }
    // chunks needed later are requested again in their turn
    for (const at of this.outOfOrder.keys())
      if (at !== this.gridChunks && at !== this.curveChunks && this.outOfOrder.size > 2 * MAX_REQUESTS)
        this.outOfOrder.delete(at);
    this.version++;
  }

  private addToGrids(chunk: Chunk): void {
    const [sizeX, sizeY] = this.context.size;
    const cell = (at: number) => {
      const [x, y] = [Math.floor(chunk.mech.x[at]), Math.floor(chunk.mech.y[at])];
      return x >= 0 && y >= 0 && x < sizeX && y < sizeY ? [x, y] : null;
    };
    const add = (grids: TeamGrids, at: number, amount: number) => {
      const spot = cell(at);
      const grid = grids[this.context.team(at % chunk.mechs)];
      if (!spot) return;
      for (let y = Math.max(0, spot[1] - REACH); y <= Math.min(sizeY - 1, spot[1] + REACH); y++)
        for (let x = Math.max(0, spot[0] - REACH); x <= Math.min(sizeX - 1, spot[0] + REACH); x++)
          grid[x + y * sizeX] += amount;
    };
    for (let frame = 1; frame < chunk.frames; frame++) {
      const seconds = (chunk.tick[frame] - chunk.tick[frame - 1]) / this.context.tickHz;
      for (let mech = 0; mech < chunk.mechs; mech++) {
        const at = frame * chunk.mechs + mech;
        if (chunk.mech.flags[at] & MechFlag.ALIVE) add(this.presence, at, seconds);
      }
    }
    let frame = 0;
    for (let i = 0; i < chunk.events.count; i++) {
      while (frame < chunk.frames - 1 && chunk.tick[frame] < chunk.events.tick[i]) frame++;
      if (chunk.events.kind[i] === EventKind.HIT && chunk.events.target[i] >= 0)
        add(this.damage, frame * chunk.mechs + chunk.events.target[i], chunk.events.value[i]);
    }
  }

  private addToCurves(chunk: Chunk, curves: MechCurves): void {
    const { mech } = curves;
    const { hp, heat_cap } = this.context.spec(mech);
    // the first frame of a chunk repeats the last frame of the previous chunk
    for (let frame = this.curveChunks === 0 ? 0 : 1; frame < chunk.frames; frame++) {
      const at = frame * chunk.mechs + mech;
      curves.seconds.push(chunk.tick[frame] / this.context.tickHz);
      curves.hp.push(chunk.mech.hp[at] / hp);
      curves.heat.push(chunk.mech.heat[at] / heat_cap);
      curves.stability.push(chunk.mech.stability[at] / 100);
      if (!chunk.insight) continue;
      curves.value.push(chunk.insight.value[at]);
      let total = 0;
      curves.terms.forEach((term, k) => {
        const reward = chunk.insight?.reward[at * curves.terms.length + k] ?? 0;
        total += reward;
        term.push((term.at(-1) ?? 0) + reward);
      });
      curves.gained.push((curves.gained.at(-1) ?? 0) + total);
    }
  }
}
