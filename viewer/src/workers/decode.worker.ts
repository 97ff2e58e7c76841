// Worker that decodes replays: records, columns and worlds in, typed arrays out.

import { type FileMap, type RecordHead, parseHead, payload, scanFile } from "../data/container";
import {
  checkHeader,
  decodeChunk,
  decodeFileWorld,
  decodeHeader,
  decodeIndex,
  decodeStoredWorld,
  validChunks,
} from "../data/decode";
import { ReplayError } from "../data/payload";
import { type Scenery, prepareScenery } from "../data/appearance";
import type { Chunk, World } from "../data/replay";
import { paintMap } from "../data/thumbnail";
import { type Timeline, rebuildIndex } from "../data/series";
import type { Header } from "../protocol.gen";
import { serve } from "./link";
import type { DecodeCalls, OpenedFile } from "./messages";

let header: Header | null = null;
let file: { bytes: Uint8Array; map: FileMap } | null = null;

function known(): Header {
  if (header === null) throw new ReplayError("no replay is open");
  return header;
}

function chunkOf(bytes: Uint8Array, head: RecordHead): Chunk {
  return decodeChunk(known(), head, payload(bytes, head));
}

/** Return the buffers of a chunk to transfer instead of copying. */
function buffersOf(chunk: Chunk): Transferable[] {
  const columns = [
    ...Object.values(chunk.mech),
    chunk.tick,
    chunk.score,
    chunk.tonnage,
    chunk.cooldown,
    ...Object.values(chunk.insight ?? {}),
  ];
  return columns.map((array) => array.buffer as ArrayBuffer);
}

function prepared(world: World, materials: readonly string[]): [Scenery, Transferable[]] {
  const scenery = prepareScenery(world, materials);
  const arrays = [scenery.appearances, scenery.tints, scenery.soil];
  return [scenery, arrays.map((array) => array.buffer as ArrayBuffer)];
}

function openFile(bytes: Uint8Array): OpenedFile {
  const map = scanFile(bytes);
  header = decodeHeader(payload(bytes, map.header));
  map.chunks = validChunks(header, map.chunks);
  file = { bytes, map };
  const ticks = map.chunks.map((head): [number, number] => [head.tick0, head.tick1]);
  return { header, index: timelineOf(bytes, map), ticks, complete: map.complete };
}

/** Return the timeline in the index of a file, or built from its chunks if the index is missing or invalid. */
function timelineOf(bytes: Uint8Array, map: FileMap): Timeline {
  try {
    if (map.index) return decodeIndex(payload(bytes, map.index));
  } catch (error) {
    if (!(error instanceof ReplayError)) throw error;
  }
  return rebuildIndex(known(), map.chunks, (head) => chunkOf(bytes, head));
}

serve<DecodeCalls>({
  openFile: ({ bytes }) => [openFile(new Uint8Array(bytes))],
  setHeader: (args) => {
    header = checkHeader(args.header);
    return [null];
  },
  fileChunk: ({ number }) => {
    const head = file?.map.chunks[number];
    if (!file || !head) throw new ReplayError(`the replay has no chunk ${number}`);
    const chunk = chunkOf(file.bytes, head);
    return [chunk, buffersOf(chunk)];
  },
  record: ({ bytes }) => {
    const data = new Uint8Array(bytes);
    const chunk = chunkOf(data, parseHead(data, 0));
    return [chunk, buffersOf(chunk)];
  },
  fileWorld: () => {
    const head = file?.map.world;
    if (!file || !head) throw new ReplayError("the replay does not embed its world; open it through `echelon serve`");
    const { world, materials } = known();
    return prepared(decodeFileWorld(file.bytes, head, world.size), materials);
  },
  world: ({ bytes, size, materials }) => prepared(decodeStoredWorld(new Uint8Array(bytes), size), materials),
  picture: ({ bytes, size, materials }) => {
    const scenery = prepareScenery(decodeStoredWorld(new Uint8Array(bytes), size), materials);
    const picture = paintMap(scenery, size);
    return [picture, [picture.pixels.buffer]];
  },
});
