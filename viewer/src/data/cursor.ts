// What is decoded of an open match at the cursor: fog of war, perception and sensor ranges are computed from it.

import type { Poses } from "../interpolate";
import type { Header } from "../protocol.gen";
import type { Chunk } from "./replay";
import type { ChunkStore } from "./store";

/** Fog of war: no fog, the knowledge of a team, or of the selected mech. */
export const FOGS = ["none", "blue", "red", "mech"] as const;
export type Fog = (typeof FOGS)[number];

export interface Contact {
  readonly mech: number;
  readonly x: number; // centre where it was last detected [vox]
  readonly y: number;
  readonly z: number;
  readonly yaw: number; // heading then [rad]
  readonly age: number; // time since then, 0 while it is detected [s]
  readonly range: number; // distance from the pilot [vox]
  readonly listed: boolean; // whether it is in a contact slot of the pilot's display
  readonly target: boolean; // whether the pilot aims at it
  readonly certainty?: number; // of the display, 0 to 1, -1 without a slot; undefined in replays
}

/** What the pilot of a seat knows, as its play session sends it. */
export interface PilotKnowledge {
  contacts: readonly Contact[]; // living hostiles, the nearest first
  readonly known: Float32Array; // visibility of each mech, 0 or 1
}

export interface MatchCursor {
  header: Header; // roster, rules and column coding
  store: ChunkStore; // decoded chunks around the cursor
  chunk: Chunk | null; // the chunk at the cursor, null until loaded
  chunkNumber: number; // its number
  poses: Poses; // state of all mechs at the cursor
  shown: Float32Array; // visibility of each mech under the fog, 0 hidden to 1
  pilot?: PilotKnowledge; // of a match in progress, of which only one pilot's knowledge is here
}
