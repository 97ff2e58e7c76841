// Worker that decodes replays: records, columns and worlds in, typed arrays out.

import { type FileMap, type RecordHead, parseHead, payload, scanFile } from "../data/container";
import * as decode from "../data/decode";
import type { FileDamage } from "../data/damage";
import { ReplayError } from "../data/payload";
import { DAMAGED, requestBytes } from "../data/request";
import { type Scenery, prepareScenery } from "../data/appearance";
import type { Chunk, World } from "../data/replay";
import { type Picture, paintMap } from "../data/thumbnail";
import { type Timeline, rebuildIndex } from "../data/series";
import type { Header } from "../protocol.gen";
import { serve } from "./link";
import type { DecodeCalls, OpenedFile } from "./messages";

const MOST_RETAINED_BYTES = 16 * 2 ** 20; // most bytes of chunks that are kept

let header: Header | null = null;
let retainedBytes = 0;
/** Bytes of chunks of the server by address. */
const retained = new Map<string, Promise<Uint8Array>>();
let file: { bytes: Uint8Array; map: FileMap } | null = null;

function known(): Header {
  if (header === null) throw new ReplayError("no replay is open");
  return header;
}

function chunkOf(bytes: Uint8Array, head: RecordHead): Chunk {
  return decode.decodeChunk(known(), head, payload(bytes, head));
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

function painted(world: World, materials: readonly string[]): [Picture, Transferable[]] {
  const picture = paintMap(prepareScenery(world, materials), world.size);
  return [picture, [picture.pixels.buffer]];
}

function fileWorld(): World {
  const head = file?.map.world;
  if (!file || !head) throw new ReplayError("the replay does not embed its world; open it through `echelon serve`");
  return decode.decodeFileWorld(file.bytes, head, known().world.size);
}

function openFile(bytes: Uint8Array): OpenedFile {
  const map = scanFile(bytes);
  header = decode.decodeHeader(payload(bytes, map.header));
  const found = map.chunks.length;
  map.chunks = decode.validChunks(header, map.chunks);
  file = { bytes, map };
  const ticks = map.chunks.map((head): [number, number] => [head.tick0, head.tick1]);
  const damage: FileDamage = {
    fault: map.chunks.length < found ? "damaged" : map.fault,
    complete: map.complete,
    chunks: map.chunks.flatMap((head, number) => (map.damaged.has(head) ? [number] : [])),
  };
  return { header, index: timelineOf(bytes, map), ticks, damage };
}

/** Return the bytes of a chunk of the server, kept if there is room and they are to be retained. */
function recordBytes(url: string, keep: boolean): Promise<Uint8Array> {
  const known = retained.get(url);
  if (known || !keep || retainedBytes > MOST_RETAINED_BYTES) return known ?? requestBytes(url);
  const bytes = requestBytes(url);
  retained.set(url, bytes);
  bytes.then(
    (data) => (retainedBytes += data.length),
    () => retained.delete(url),
  );
  return bytes;
}

/** Return the timeline in the index of a file, or built from its chunks if the index is missing or invalid. */
function timelineOf(bytes: Uint8Array, map: FileMap): Timeline {
  try {
    if (map.index) return decode.decodeIndex(payload(bytes, map.index));
  } catch (error) {
    if (!(error instanceof ReplayError)) throw error;
  }
  const readable = map.chunks.filter((head) => !map.damaged.has(head));
  return rebuildIndex(known(), readable, (head) => chunkOf(bytes, head));
}

const handlers: Parameters<typeof serve<DecodeCalls>>[0] = {
  openFile: ({ bytes }) => [openFile(new Uint8Array(bytes))],
  setHeader: (args) => {
    header = decode.checkHeader(args.header);
    return [null];
  },
  fileChunk: ({ number }) => {
    const head = file?.map.chunks[number];
    if (!file || !head) throw new ReplayError(`the replay has no chunk ${number}`);
    const chunk = chunkOf(file.bytes, head);
    return [chunk, buffersOf(chunk)];
  },
  record: async ({ url, keep }) => {
    const data = await recordBytes(url, keep);
    const chunk = chunkOf(data, parseHead(data, 0));
    return [chunk, buffersOf(chunk)];
  },
  prefetch: async ({ url }) => {
    await recordBytes(url, true);
    return [null];
  },
  fileWorld: () => prepared(fileWorld(), known().materials),
  world: async ({ url, size, materials }) =>
    prepared(decode.decodeStoredWorld(await requestBytes(url), size), materials),
  givenWorld: ({ bytes, size, materials }) => prepared(decode.decodeStoredWorld(bytes, size), materials),
  picture: async ({ url, size, materials }) =>
    painted(decode.decodeStoredWorld(await requestBytes(url), size), materials),
  filePicture: ({ bytes }) => {
    openFile(new Uint8Array(bytes));
    return painted(fileWorld(), known().materials);
  },
};

serve(handlers, (error) => (error instanceof ReplayError ? DAMAGED : 0));
