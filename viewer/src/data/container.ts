// Records of a replay file: the counterpart of echelon/replay/codec.py. Input is untrusted: lengths are capped before
// anything is inflated, every record has a checksum, and a file without TRAILER is read up to its first fault.

import { unzlibSync, zlibSync } from "fflate";
import {
  ALIGNMENT,
  BUDGETS,
  CODEC_NONE,
  CODEC_ZLIB,
  END_MAGIC,
  HEAD_BYTES,
  MAGIC,
  MAX_CHUNKS,
  MAX_RAW_BYTES,
  MAX_STORED_BYTES,
  RecordType,
} from "../protocol.gen";
import { ReplayError } from "./payload";

export interface RecordHead {
  offset: number; // of the head in the file [bytes]
  type: number; // a RecordType, or a type of a newer version
  codec: number; // compression of the payload
  stored: number; // bytes of the payload in the file
  raw: number; // bytes of the payload after inflating
  tick0: number; // first tick of a CHUNK
  tick1: number; // last tick of a CHUNK
  crc: number; // CRC32 of the head's other fields and the stored payload
}

/** What ends the readable part of a file: nothing, its end within a record, or a damaged record. */
export type Fault = "none" | "cut" | "damaged";

export interface FileMap {
  header: RecordHead; // present in every valid file
  world: RecordHead | null; // null if the file does not embed its world
  chunks: RecordHead[]; // in time order
  damaged: Set<RecordHead>; // chunks between intact records that cannot be read
  index: RecordHead | null; // null if the file was not closed
  fault: Fault; // why nothing is read beyond the last of these records
  complete: boolean; // whether the file has a valid trailer at its end
}

const CRC_AT = HEAD_BYTES - 4;
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

/** Return the CRC32 (IEEE) of `data`, continued from `before`. */
export function crc32(data: Uint8Array, before = 0): number {
  let c = ~before;
  for (let i = 0; i < data.length; i++) c = CRC_TABLE[(c ^ data[i]) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}

export function recordLength(head: RecordHead): number {
  return HEAD_BYTES + head.stored + ((ALIGNMENT - (head.stored % ALIGNMENT)) % ALIGNMENT);
}

/** Return a record; `ticks` are the first and last one of what it covers. */
export function packRecord(type: number, payload: Uint8Array, ticks = [0, 0], codec = CODEC_ZLIB): Uint8Array {
  const stored = codec === CODEC_ZLIB ? zlibSync(payload) : payload;
  const record = new Uint8Array(Math.ceil((HEAD_BYTES + stored.length) / ALIGNMENT) * ALIGNMENT);
  const view = new DataView(record.buffer);
  record.set([type, codec]);
  [stored.length, payload.length, ...ticks].forEach((value, i) => view.setUint32(4 + 4 * i, value, true));
  record.set(stored, HEAD_BYTES);
  view.setUint32(CRC_AT, crc32(stored, crc32(record.subarray(0, CRC_AT))), true);
  return record;
}

/** Read the head at `offset`; throws if it is truncated or exceeds a limit. */
export function parseHead(file: Uint8Array, offset: number): RecordHead {
  if (offset + HEAD_BYTES > file.length) throw new ReplayError(`record at byte ${offset} is truncated`);
  const view = new DataView(file.buffer, file.byteOffset + offset, HEAD_BYTES);
  const [stored, raw] = [view.getUint32(4, true), view.getUint32(8, true)];
  const type = view.getUint8(0);
  if (stored > MAX_STORED_BYTES || raw > (BUDGETS[type] ?? BUDGETS[0]).rawBytes)
    throw new ReplayError(`record at byte ${offset} claims ${Math.max(stored, raw)} bytes, more than allowed`);
  return {
    offset,
    stored,
    raw,
    type,
    codec: view.getUint8(1),
    tick0: view.getUint32(12, true),
    tick1: view.getUint32(16, true),
    crc: view.getUint32(CRC_AT, true),
  };
}

/** Return a record's stored payload; throws if its checksum differs. */
export function storedPayload(file: Uint8Array, head: RecordHead): Uint8Array {
  const start = head.offset + HEAD_BYTES;
  if (start + head.stored > file.length) throw new ReplayError(`record at byte ${head.offset} is truncated`);
  const stored = file.subarray(start, start + head.stored);
  if (crc32(stored, crc32(file.subarray(head.offset, head.offset + CRC_AT))) !== head.crc)
    throw new ReplayError(`record at byte ${head.offset} is damaged`);
  return stored;
}

/** Inflate a zlib stream to exactly `raw` bytes; the output buffer never grows beyond that. */
export function inflate(stored: Uint8Array, raw: number): Uint8Array {
  if (raw > MAX_RAW_BYTES) throw new ReplayError(`payload claims ${raw} bytes, more than allowed`);
  let out: Uint8Array;
  try {
    out = unzlibSync(stored, { out: new Uint8Array(raw) });
  } catch (error) {
    throw new ReplayError(`payload cannot be inflated: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (out.length !== raw) throw new ReplayError(`payload inflates to ${out.length} bytes, expected ${raw}`);
  return out;
}

export function payload(file: Uint8Array, head: RecordHead): Uint8Array {
  const stored = storedPayload(file, head);
  if (head.codec === CODEC_ZLIB) return inflate(stored, head.raw);
  if (head.codec !== CODEC_NONE)
    throw new ReplayError(`record at byte ${head.offset} has codec ${head.codec}, expected 0 or 1`);
  if (stored.length !== head.raw) throw new ReplayError(`record at byte ${head.offset} has the wrong length`);
  return stored;
}

/** Return the head at `offset`, or null if there is none within the limits. */
function headAt(file: Uint8Array, offset: number): RecordHead | null {
  try {
    return parseHead(file, offset);
  } catch {
    return null;
  }
}

/** Return whether a record's checksum is right. */
function isIntact(file: Uint8Array, head: RecordHead): boolean {
  try {
    return storedPayload(file, head).length === head.stored;
  } catch {
    return false;
  }
}

function hasTrailer(file: Uint8Array, last: RecordHead | null): boolean {
  if (last?.type !== RecordType.TRAILER || last.offset + recordLength(last) !== file.length) return false;
  const end = storedPayload(file, last).subarray(-END_MAGIC.length);
  return END_MAGIC.every((byte, i) => end[i] === byte);
}

/**
 * Find the records of a file up to its end or first fault; throws if it is no replay. A chunk whose checksum differs is
 * skipped if an intact record follows where it says that it ends.
 */
export function scanFile(file: Uint8Array): FileMap {
  if (!MAGIC.every((byte, i) => file[i] === byte)) throw new ReplayError("the file is not an Echelon replay (.ecr)");
  const found: Partial<FileMap> & { chunks: RecordHead[] } = { chunks: [] };
  const damaged = new Set<RecordHead>();
  let fault: Fault = "none";
  let last: RecordHead | null = null;
  let skipped: RecordHead[] = []; // damaged chunks since the last intact record
  for (let offset = MAGIC.length; offset < file.length && found.chunks.length + skipped.length < MAX_CHUNKS;) {
    const head = headAt(file, offset);
    const end = offset + HEAD_BYTES + (head?.stored ?? 0);
    if (!head || end > file.length) {
      fault = end > file.length && skipped.length === 0 ? "cut" : "damaged";
      break;
    }
    offset += recordLength(head);
    const intact = isIntact(file, head);
    fault = intact ? "none" : "damaged";
    if (!intact && head.type !== RecordType.CHUNK) break;
    if (!intact) skipped.push(head);
    if (!intact) continue;
    const limit = head.type === RecordType.CHUNK ? head.tick0 : Infinity;
    for (const chunk of skipped) {
      // the ticks of a damaged chunk may be wrong too
      if (chunk.tick0 < (found.chunks.at(-1)?.tick1 ?? 0) || chunk.tick1 < chunk.tick0 || chunk.tick1 > limit) continue;
      damaged.add(chunk);
      found.chunks.push(chunk);
    }
    skipped = [];
    if (head.type === RecordType.HEADER) found.header ??= head;
    else if (head.type === RecordType.WORLD) found.world ??= head;
    else if (head.type === RecordType.CHUNK) found.chunks.push(head);
    else if (head.type === RecordType.INDEX) found.index = head;
    last = head;
  }
  if (!found.header) throw new ReplayError("the replay is truncated within its header");
  return {
    header: found.header,
    world: found.world ?? null,
    chunks: found.chunks,
    damaged,
    index: found.index ?? null,
    fault,
    complete: hasTrailer(file, last),
  };
}
