// Hostile replays with right checksums: the decoder throws only `ReplayError`. Reads the kept corpus, and files that
// tests/viewer/test_sources.py generates.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { encode } from "@msgpack/msgpack";
import { describe, expect, test } from "vitest";
import { payload, scanFile } from "../src/data/container";
import { decodeChunk, decodeFileWorld, decodeHeader, decodeIndex, validChunks } from "../src/data/decode";
import { ReplayError, checkObjects, unpackMap } from "../src/data/payload";
import { rebuildIndex } from "../src/data/series";
import { BUDGETS, MAX_DEPTH, RecordType } from "../src/protocol.gen";

const CORPUS = new URL("../../tests/golden/hostile/", import.meta.url);
const GENERATED = new URL("generated.bin", CORPUS); // files, each after its length in 4 bytes

/** Run part of the decoder; returns its value, or null after a `ReplayError`. */
function tried<T>(work: () => T): T | null {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ReplayError) || error.message.includes("\n")) throw error;
    return null;
  }
}

/** Read a file in every way in which the worker does; returns whether its header is valid. */
function readAll(bytes: Uint8Array): boolean {
  const map = tried(() => scanFile(bytes));
  const header = map && tried(() => decodeHeader(payload(bytes, map.header)));
  if (!map || !header) return false;
  const heads = validChunks(header, map.chunks);
  for (const head of heads) tried(() => decodeChunk(header, head, payload(bytes, head)));
  if (map.index) tried(() => decodeIndex(payload(bytes, map.index!)));
  tried(() => rebuildIndex(header, heads, (head) => decodeChunk(header, head, payload(bytes, head))));
  if (map.world) tried(() => decodeFileWorld(bytes, map.world!, header.world.size));
  return true;
}

describe("a hostile replay", () => {
  const files = readdirSync(CORPUS).filter((name) => name.endsWith(".ecr"));
  test.each(files)("of the corpus throws only declared errors: %s", (name) => {
    readAll(new Uint8Array(readFileSync(new URL(name, CORPUS))));
  });

  test.skipIf(!existsSync(GENERATED))(
    "of the generator throws only declared errors",
    () => {
      const all = new Uint8Array(readFileSync(GENERATED));
      const view = new DataView(all.buffer, all.byteOffset, all.byteLength);
      let [count, opened] = [0, 0];
      for (let at = 0; at < all.length; count++) {
        const length = view.getUint32(at, true);
        opened += Number(readAll(all.slice(at + 4, at + 4 + length)));
        at += 4 + length;
      }
      expect(opened).toBeGreaterThan(count / 4);
      expect(opened).toBeLessThan(count);
    },
    60_000,
  );
});

describe("a msgpack payload", () => {
  const budget = BUDGETS[RecordType.CHUNK];
  const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);

  test.each([
    ["more than 4096 objects", { a: Array.from({ length: 20 }, () => Array(1000).fill(0)) }],
    ["a list of 5000 entries", { a: Array(5000).fill(0) }],
    ["nested deeper than 16 levels", { a: nested(MAX_DEPTH) }],
  ])("is rejected with %s", (words, value) => {
    expect(() => unpackMap(encode(value), RecordType.CHUNK)).toThrow(words);
  });

  test("of one-byte maps is rejected before anything is built", () => {
    const bomb = new Uint8Array(budget.rawBytes).fill(0x80);
    bomb.set([0x81, 0xa1, 0x61, 0xdc, 0x04, 0x00]);
    expect(() => checkObjects(bomb, budget)).toThrow(ReplayError);
    bomb.set([0x81, 0xa1, 0x61, 0xdd, 0x7f, 0xff, 0xff, 0xff]);
    expect(() => checkObjects(bomb, budget)).toThrow("2147483647 entries");
  });

  test.each([
    ["a key that is not a text", [0x81, 0x01, 0x02]],
    ["an extension", [0x81, 0xa1, 0x61, 0xd4, 0x05, 0x00]],
    ["a cut", [0x82, 0xa1, 0x61]],
    ["bytes after its end", [0x80, 0x80]],
    ["no map", [0x91, 0x00]],
    ["nothing", []],
  ])("is rejected with %s", (_, bytes) => {
    expect(() => unpackMap(Uint8Array.from(bytes), RecordType.CHUNK)).toThrow(ReplayError);
  });

  test("of every plain type is unpacked", () => {
    const values = [null, true, 1, -1, 300, 70000, 2 ** 40, -300, 0.5, "é", "x".repeat(300)];
    const value = { a: values, b: new Uint8Array(9) };
    expect(unpackMap(encode(value), RecordType.CHUNK)).toEqual(value);
  });
});
