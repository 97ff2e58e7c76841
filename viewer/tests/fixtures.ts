// Golden replays written by Python, and their expected contents.

import { readFileSync } from "node:fs";
import { type FileMap, payload, scanFile } from "../src/data/container";
import { decodeChunk, decodeHeader } from "../src/data/decode";
import type { Chunk } from "../src/data/replay";
import type { Header, IndexView } from "../src/protocol.gen";

const FOLDER = new URL("../../tests/golden/replays/", import.meta.url);

/** Contents of small.json: integers as stored. */
export interface Expected {
  header: Header;
  index: IndexView;
  world: { size: number[]; counts: Record<string, number> };
  chunks: {
    tick0: number;
    tick1: number;
    frames: number;
    columns: Record<string, number[]>;
    tables: Record<string, Record<string, number[]>>;
  }[];
}

export const smallFile = (): Uint8Array => new Uint8Array(readFileSync(new URL("small.ecr", FOLDER)));
export const smallExpected = (): Expected =>
  JSON.parse(readFileSync(new URL("small.json", FOLDER), "utf8")) as Expected;

/** Expected motion columns of one chunk of rates.ecr: integers as stored. */
export interface Motion {
  chunk: number;
  tick0: number;
  tick1: number;
  columns: Record<string, number[]>;
}

/** Decode a golden replay by name. */
export function replayOf(name: string): { bytes: Uint8Array; map: FileMap; header: Header; chunks: Chunk[] } {
  const bytes = new Uint8Array(readFileSync(new URL(name, FOLDER)));
  const map = scanFile(bytes);
  const header = decodeHeader(payload(bytes, map.header));
  return { bytes, map, header, chunks: map.chunks.map((head) => decodeChunk(header, head, payload(bytes, head))) };
}

/** The golden match with ECM and ECCM. */
export const sensorReplay = () => replayOf("reach.ecr");

/** The golden replay of scripted pilots on a small map. */
export const smallReplay = () => replayOf("small.ecr");

/** The golden match of pilots that move constantly, with its expected motion. */
export function ratesReplay() {
  return {
    ...replayOf("rates.ecr"),
    expected: JSON.parse(readFileSync(new URL("rates.json", FOLDER), "utf8")) as Motion,
  };
}
