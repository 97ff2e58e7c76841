// What a replay is once decoded: a chunk of frames as physical columns, its events, rounds and voxel edits. The
// renderer reads these arrays; nothing here is an object per mech. Legend: F frames, M mechs.

import type { MechColumn } from "../protocol.gen";

/** The rows of a table by column, physical values, all arrays equally long; ticks are those of the match. */
export type Rows<Names extends string> = Record<Names, Float64Array> & { readonly count: number };

export type EventRows = Rows<"tick" | "kind" | "who" | "whom" | "weapon" | "value" | "flags" | "x" | "y" | "z">;
export type RoundRows = Rows<"frame" | "owner" | "slot" | "weapon" | "age" | "x" | "y" | "z" | "yaw" | "pitch">;
export type CloudRows = Rows<"tick" | "who" | "x" | "y" | "z">;
export type BaseRows = Rows<"cell" | "material">;
export type EditRows = Rows<"tick" | "cell" | "material">;

/** The policy columns: each frame tells of the decision that led to it. K is the entries of a mech. */
export interface Insight {
  readonly action: Float32Array; // as applied, in [-1, 1], shape [F, M, K]
  readonly value: Float32Array; // expected return, shape [F, M]
  readonly reward: Float32Array; // weighted terms, shape [F, M, K]
  readonly contact: Float32Array; // mech in each slot of the display, -1 empty, shape [F, M, K]
  readonly sees: Uint8Array; // bit j % 8 of entry j / 8: it knew of mech j, shape [F, M, K]
}

/** About two seconds of play, complete in itself. */
export interface Chunk {
  readonly tick0: number; // tick of the first frame
  readonly tick1: number; // tick of the last frame, which is the first of the next chunk
  readonly frames: number; // F
  readonly mechs: number; // M
  readonly tick: Float64Array; // tick of each frame, shape [F]
  readonly score: Float64Array; // zone score of blue and red [s], shape [F, 2]
  readonly tonnage: Float64Array; // in the zone, blue and red [t], shape [F, 2]
  readonly mech: Record<MechColumn, Float32Array>; // physical values, shape [F, M]
  readonly walked: Float32Array; // way along the heading since tick0 [vox], derived, shape [F, M]
  readonly trodden: Float32Array; // the same with backward steps counted like others, shape [F, M]
  readonly cooldown: Float32Array; // ticks left of each timer, shape [F, M, K]
  readonly insight: Insight | null; // what pilots saw, did, expected and were paid, where it was asked for
  readonly events: EventRows; // in order of tick
  readonly rounds: RoundRows; // rounds in flight, in order of frame
  readonly clouds: CloudRows; // smoke that lives within the chunk: its burst, which may lie before tick0, and its centre
  readonly base: BaseRows; // voxels that differ from the stored world at tick0
  readonly edits: EditRows; // changes within the chunk, in order of tick
  readonly bytes: number; // memory that the arrays take
}

/** A map as stored. */
export interface World {
  readonly size: readonly [number, number, number]; // x, y, z [vox]
  readonly material: Uint8Array; // material ids, x fastest, z slowest (the file has z fastest)
}

/** Number of the first row of `column` that is greater than `value`; the column is sorted. */
export function firstAfter(column: Float64Array, value: number): number {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
