// Calls of the workers and their results.

import type { Header } from "../protocol.gen";
import type { Scenery } from "../data/appearance";
import type { FileDamage } from "../data/damage";
import type { Chunk } from "../data/replay";
import type { Timeline } from "../data/series";
import type { Picture } from "../data/thumbnail";
import type { ChunkMesh } from "../data/mesher";

export type Calls<Table> = { [Name in keyof Table]: { args: unknown; value: unknown } };

export interface OpenedFile {
  header: Header;
  index: Timeline; // rebuilt from the chunks if the file was not closed
  ticks: [number, number][]; // first and last tick of each chunk
  damage: FileDamage; // what of the file cannot be read
}

export interface StoredWorld {
  url: string;
  size: readonly number[]; // x, y, z from the replay's header [vox]
  materials: readonly string[]; // name of each material id
}

export interface DecodeCalls {
  /** Open a whole file; later calls read from it. */
  openFile: { args: { bytes: ArrayBuffer }; value: OpenedFile };
  /** Set the header for decoding records from a server; throws if it is invalid. */
  setHeader: { args: { header: Header }; value: null };
  /** Decode chunk `number` of the open file. */
  fileChunk: { args: { number: number }; value: Chunk };
  /** Fetch and decode a CHUNK record of a server; `keep` keeps its bytes for later requests. */
  record: { args: { url: string; keep: boolean }; value: Chunk };
  /** Fetch a CHUNK record of a server and keep its bytes. */
  prefetch: { args: { url: string }; value: null };
  /** Prepare the world of the open file; throws if it has none. */
  fileWorld: { args: null; value: Scenery };
  /** Fetch and prepare a world of a server. */
  world: { args: StoredWorld; value: Scenery };
  givenWorld: { args: Omit<StoredWorld, "url"> & { bytes: Uint8Array }; value: Scenery };
  /** Paint the thumbnail of a whole file. */
  filePicture: { args: { bytes: ArrayBuffer }; value: Picture };
  /** Fetch a world of a server and paint its thumbnail. */
  picture: { args: StoredWorld; value: Picture };
}

export interface MeshCalls {
  mesh: { args: { appearances: Uint8Array; tints: Uint8Array; origin: readonly number[] }; value: ChunkMesh };
  /** Paint the ground texture of a map. */
  ground: { args: { soil: Uint8Array; size: readonly number[] }; value: Uint8Array };
  /** Compute which columns are visible from given points. */
  visibility: { args: { heights: Uint8Array; size: readonly number[]; eyes: Float32Array }; value: Uint8Array };
  /** Compute the height up to which the sun is hidden. */
  shadows: { args: { appearances: Uint8Array; size: readonly number[] }; value: Uint8Array };
}

export type FilmFormat = "mp4" | "webm" | "gif";

/** What is asked for: a format, or the best video that the browser can encode. */
export type FilmWish = FilmFormat | "video";

export interface FilmCalls {
  /** Start a film; returns its format. */
  start: { args: { width: number; height: number; fps: number; format: FilmWish }; value: { format: FilmFormat } };
  /** Add a frame; `cut` is set for the first one after a cut. */
  frame: { args: { bitmap: ImageBitmap; number: number; cut: boolean }; value: null };
  finish: { args: null; value: ArrayBuffer };
}
