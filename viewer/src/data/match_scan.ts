// Reads a whole match chunk by chunk in the background, for data of all of it: where teams spent time and took damage,
// the figures of every mech, and the curves of one. Keeps sums and curves, not the chunks.

import { EventKind, type Header, MechFlag } from "../protocol.gen";
import { FigureScan } from "./figures";
import { type MechCurves, mechValues, recordedNames } from "./mech_series";
import type { Chunk } from "./replay";
import type { TeamGrids } from "./heat";
import { retryDelay } from "./retry";
import { isDamage } from "./store";

const MAX_REQUESTS = 8; // at the same time
const REACH = 1; // radius around a mech's centre that counts as its presence [vox]

/** What the match is read for, each from the first chunk on in order. */
interface Reader {
  wanted: boolean;
  done: number; // chunks that it has
  add(chunk: Chunk | null): void;
}

/** Background scan of a match: sums over all mechs and curves of one, as far as read. */
export class MatchScan {
  readonly presence: TeamGrids; // mech-seconds of each team by column
  readonly damage: TeamGrids; // hit points lost by each team by column
  readonly figures: FigureScan;
  curves: MechCurves | null = null;
  /** Increases with every processed chunk. */
  version = 0;
  private readonly readers: Record<"grids" | "curves" | "figures", Reader>;
  private outOfOrder = new Map<number, Chunk | null>(); // chunks that arrived out of order
  private pending = new Set<number>();
  private failures = 0; // consecutive
  private until = 0; // no request before this time [ms of the scan's clock]
  private count = 0; // chunks to be read

  constructor(
    private readonly fetchChunk: (number: number) => Promise<Chunk>,
    private readonly header: Header,
    private readonly now: () => number = () => performance.now(),
  ) {
    const [x, y] = header.world.size;
    const grids = (): TeamGrids => [new Float32Array(x * y), new Float32Array(x * y)];
    [this.presence, this.damage] = [grids(), grids()];
    this.figures = new FigureScan(header);
    const reader = (add: Reader["add"]): Reader => ({ wanted: false, done: 0, add });
    this.readers = {
      grids: reader((chunk) => chunk && this.addToGrids(chunk)),
      curves: reader((chunk) => chunk && this.curves && this.addToCurves(chunk, this.curves)),
      figures: reader((chunk) => this.figures.add(chunk)),
    };
  }

  /** Return the share of a match of `count` chunks that the grids contain. */
  gridShare(count: number): number {
    return count > 0 ? Math.min(1, this.readers.grids.done / count) : 1;
  }

  /** Continue reading up to chunk `count`: for the grids, the curves of `mech` unless it is -1, and asked figures. */
  request(count: number, grids: boolean, mech: number): void {
    if (mech >= 0 && this.curves?.mech !== mech) this.startCurves(mech);
    this.readers.grids.wanted = grids;
    this.readers.curves.wanted = mech >= 0;
    this.readers.figures.wanted = this.figures.asked;
    this.count = count;
    this.proceed();
  }

  private get wanted(): Reader[] {
    return Object.values(this.readers).filter(({ wanted, done }) => wanted && done < this.count);
  }

  private proceed(): void {
    const next = Math.min(this.count, ...this.wanted.map(({ done }) => done));
    const end = Math.min(this.count, next + MAX_REQUESTS);
    for (let number = next; number < end && this.now() >= this.until; number++) {
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
          this.proceed(); // continue even if no frame is drawn
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
    this.count = 0;
  }

  private startCurves(mech: number): void {
    this.readers.curves.done = 0;
    this.outOfOrder.clear();
    this.curves = { mech, seconds: [], values: recordedNames(this.header).map(() => []) };
  }

  /** Add a chunk, null for a damaged one. */
  private accept(number: number, chunk: Chunk | null): void {
    this.failures = 0;
    this.outOfOrder.set(number, chunk);
    const { wanted } = this;
    for (const [at, next] of [...this.outOfOrder].sort((a, b) => a[0] - b[0])) {
      for (const reader of wanted) {
        if (at !== reader.done) continue;
        reader.add(next);
        reader.done++;
      }
      if (wanted.every(({ done }) => at < done)) this.outOfOrder.delete(at);
    }
    // chunks needed later are requested again in their turn
    for (const at of this.outOfOrder.keys())
      if (this.outOfOrder.size > 2 * MAX_REQUESTS && !wanted.some(({ done }) => at === done))
        this.outOfOrder.delete(at);
    this.version++;
  }

  private addToGrids(chunk: Chunk): void {
    const { roster, tick_hz, world } = this.header;
    const [sizeX, sizeY] = world.size;
    const cell = (at: number) => {
      const [x, y] = [Math.floor(chunk.mech.x[at]), Math.floor(chunk.mech.y[at])];
      return x >= 0 && y >= 0 && x < sizeX && y < sizeY ? [x, y] : null;
    };
    const add = (grids: TeamGrids, at: number, amount: number) => {
      const spot = cell(at);
      const grid = grids[roster[at % chunk.mechs].team];
      if (!spot) return;
      for (let y = Math.max(0, spot[1] - REACH); y <= Math.min(sizeY - 1, spot[1] + REACH); y++)
        for (let x = Math.max(0, spot[0] - REACH); x <= Math.min(sizeX - 1, spot[0] + REACH); x++)
          grid[x + y * sizeX] += amount;
    };
    for (let frame = 1; frame < chunk.frames; frame++) {
      const seconds = (chunk.tick[frame] - chunk.tick[frame - 1]) / tick_hz;
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

  private addToCurves(chunk: Chunk, { mech, seconds, values }: MechCurves): void {
    const added = mechValues(this.header, chunk, mech);
    const before = recordedNames(this.header).map(({ sum }, k) => (sum ? (values[k].at(-1) ?? 0) : 0));
    // the first frame of a chunk repeats the last frame of the previous chunk
    for (let frame = this.readers.curves.done === 0 ? 0 : 1; frame < chunk.frames; frame++) {
      seconds.push(chunk.tick[frame] / this.header.tick_hz);
      values.forEach((line, k) => line.push(before[k] + added[frame][k]));
    }
  }
}
