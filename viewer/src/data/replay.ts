// Types of decoded replays: a chunk of frames as physical columns, with its events, rounds and voxel edits. Renderers
// read these arrays; there are no objects per mech. F is the number of frames, M of mechs.

import type { MechColumn } from "../protocol.gen";

/** The rows of a table by column: physical values, arrays of equal length, ticks of the match. */
export type Rows<Names extends string> = Record<Names, Float64Array> & { readonly count: number };

export type EventRows = Rows<"tick" | "kind" | "actor" | "target" | "weapon" | "value" | "flags" | "x" | "y" | "z">;
export type RoundRows = Rows<"frame" | "owner" | "slot" | "weapon" | "age" | "x" | "y" | "z" | "yaw" | "pitch">;
export type CloudRows = Rows<"tick" | "actor" | "x" | "y" | "z">;
/** Voxels with their materials, one row per voxel; compact, since a chunk may hold millions. */
export interface BaseRows {
  readonly cell: Uint32Array;
  readonly material: Uint8Array;
  readonly count: number;
}
export type EditRows = BaseRows & { readonly tick: Float64Array };

/** The policy columns: each frame holds the decision that led to it. K is the number of values per mech. */
export interface Insight {
  readonly action: Float32Array; // actions as applied, in [-1, 1], shape [F, M, K]
  readonly value: Float32Array; // predicted value (return), shape [F, M]
  readonly reward: Float32Array; // weighted reward terms, shape [F, M, K]
  readonly contact: Float32Array; // mech in each contact slot, -1 if empty, shape [F, M, K]
  readonly chance: Float32Array; // probabilities of the policy's choices, 0 without a policy, shape [F, M, K]
  readonly sees: Uint8Array; // bit j % 8 of byte j / 8: has detected mech j, shape [F, M, K]
}

/** About two seconds of a match, decodable on its own. */
export interface Chunk {
  readonly tick0: number; // tick of the first frame
  readonly tick1: number; // tick of the last frame, which is the first of the next chunk
  readonly frames: number; // F
  readonly mechs: number; // M
  readonly tick: Float64Array; // tick of each frame, shape [F]
  readonly score: Float64Array; // zone score of blue and red [s], shape [F, 2]
  readonly tonnage: Float64Array; // tonnage of blue and red in the zone [t], shape [F, 2]
  readonly mech: Record<MechColumn, Float32Array>; // physical values, shape [F, M]
  readonly walked: Float32Array; // distance along the heading since tick0, backward negative [vox], shape [F, M]
  readonly walkedTotal: Float32Array; // total distance since tick0 [vox], derived, shape [F, M]
  readonly cooldown: Float32Array; // remaining ticks of each cooldown, shape [F, M, K]
  readonly insight: Insight | null; // policy columns, null if not recorded
  readonly events: EventRows; // sorted by tick
  readonly rounds: RoundRows; // rounds in flight, sorted by frame
  readonly clouds: CloudRows; // clouds that exist within the chunk: burst tick, which may be before tick0, and centre
  readonly base: BaseRows; // voxels that differ from the stored world at tick0
  readonly edits: EditRows; // changes within the chunk, sorted by tick
  readonly bytes: number; // memory of the arrays [bytes]
}

export interface World {
  readonly size: readonly [number, number, number]; // x, y, z [vox]
  readonly material: Uint8Array; // material ids, x fastest, z slowest (the file has z fastest)
}

/** Return the index of the first row of a sorted column that is greater than `value`. */
export function firstAfter(column: Float64Array, value: number): number {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
