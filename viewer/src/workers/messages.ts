// Calls of the workers and their results.

import type { Header } from "../protocol.gen";
import type { Scenery } from "../data/appearance";
import type { Chunk } from "../data/replay";
import type { Timeline } from "../data/series";
import type { Picture } from "../data/thumbnail";
import type { ChunkMesh } from "../render/mesher";

/** The type of every table of calls. */
export type Calls<Table> = { [Name in keyof Table]: { args: unknown; value: unknown } };

/** Contents of an opened file. */
export interface OpenedFile {
  header: Header;
  index: Timeline; // rebuilt from the chunks if the file was not closed
  ticks: [number, number][]; // first and last tick of each chunk
  complete: boolean; // whether the file has a valid trailer
}

/** A world as sent by the server. */
export interface StoredWorld {
  bytes: ArrayBuffer; // zlib stream
  size: readonly number[]; // x, y, z from the replay's header [vox]
  materials: readonly string[]; // name of each material id
}

/** Calls of the decoding worker. */
export interface DecodeCalls {
  /** Open a whole file; later calls read from it. */
  openFile: { args: { bytes: ArrayBuffer }; value: OpenedFile };
  /** Set the header for decoding records from a server; throws if it is invalid. */
  setHeader: { args: { header: Header }; value: null };
  /** Decode chunk `number` of the open file. */
  fileChunk: { args: { number: number }; value: Chunk };
  /** Decode a CHUNK record sent by a server. */
  record: { args: { bytes: ArrayBuffer }; value: Chunk };
  /** Prepare the world of the open file; throws if it has none. */
  fileWorld: { args: null; value: Scenery };
  /** Prepare a world sent by a server. */
  world: { args: StoredWorld; value: Scenery };
  /** Paint a thumbnail of a world sent by a server. */
  picture: { args: StoredWorld; value: Picture };
}

/** Calls of the meshing worker. */
export interface MeshCalls {
  mesh: { args: { appearances: Uint8Array; tints: Uint8Array; origin: readonly number[] }; value: ChunkMesh };
  /** Paint the tiles of the plain tiers, coarse with a step above 1. */
  tiles: { args: { step: number }; value: Uint8Array };
  /** Paint the ground texture of a map. */
  ground: { args: { soil: Uint8Array; size: readonly number[] }; value: Uint8Array };
  /** Compute which columns are visible from given points. */
  visibility: { args: { heights: Uint8Array; size: readonly number[]; eyes: Float32Array }; value: Uint8Array };
  /** Compute the height up to which the sun is hidden. */
  shadows: { args: { appearances: Uint8Array; size: readonly number[] }; value: Uint8Array };
}
