// What may be asked of the workers, and what they answer.

import type { Header } from "../protocol.gen";
import type { Scenery } from "../data/looks";
import type { Chunk, World } from "../data/replay";
import type { Timeline } from "../data/series";
import type { Picture } from "../data/thumbnail";
import type { ChunkMesh } from "../render/mesher";

/** The shape of every table of calls. */
export type Calls<Table> = { [Name in keyof Table]: { args: unknown; value: unknown } };

/** What is known of a file once it has been read. */
export interface OpenedFile {
  header: Header;
  index: Timeline; // rebuilt from the chunks where the file was never closed
  ticks: [number, number][]; // first and last tick of each chunk
  complete: boolean; // whether the file was closed in good order
}

export interface PreparedWorld {
  world: World;
  scenery: Scenery;
}

/** A world as a server sends it. */
export interface StoredWorld {
  bytes: ArrayBuffer; // zlib stream
  size: readonly number[]; // x, y, z, as its replay says [vox]
  materials: readonly string[]; // name of each material id
}

/** Calls of the worker that reads replays. */
export interface DecodeCalls {
  /** Take a whole file; later calls read from it. */
  openFile: { args: { bytes: ArrayBuffer }; value: OpenedFile };
  /** Take the header by which records from a server are read; throws in words where it cannot be. */
  setHeader: { args: { header: Header }; value: null };
  /** Decode chunk `number` of the open file. */
  fileChunk: { args: { number: number }; value: Chunk };
  /** Decode a CHUNK record as a server sends it. */
  record: { args: { bytes: ArrayBuffer }; value: Chunk };
  /** Prepare the world of the open file; throws where it has none. */
  fileWorld: { args: null; value: PreparedWorld };
  /** Prepare a world as a server sends it. */
  world: { args: StoredWorld; value: PreparedWorld };
  /** Paint a small picture of such a world. */
  picture: { args: StoredWorld; value: Picture };
}

/** Calls of the worker that meshes voxels. */
export interface MeshCalls {
  mesh: { args: { looks: Uint8Array; tints: Uint8Array; origin: readonly number[] }; value: ChunkMesh };
  /** Paint the tiles of the plain tiers, roughly with a step above 1. */
  tiles: { args: { step: number }; value: Uint8Array };
  /** Paint the ground of a map. */
  land: { args: { soil: Uint8Array; size: readonly number[] }; value: Uint8Array };
  /** Find which columns are seen from some places. */
  sight: { args: { heights: Uint8Array; size: readonly number[]; eyes: Float32Array }; value: Uint8Array };
  /** Find how high the sun is hidden over each place. */
  shade: { args: { looks: Uint8Array; size: readonly number[] }; value: Uint8Array };
}
