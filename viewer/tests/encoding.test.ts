// Writing of replays: what is decoded of a file of Python is encoded to the same bytes.

import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { decodeBlock, encodeBlock } from "../src/data/columns";
import { packRecord, parseHead, payload, recordLength } from "../src/data/container";
import { unpackMap } from "../src/data/payload";
import { hex, sha256 } from "../src/data/sha256";
import { type ChunkRecord, type ColumnSpec, type FrameColumnSpec, RecordType } from "../src/protocol.gen";
import { ratesReplay, smallReplay } from "./fixtures";

/** Decode a block and encode it again. */
function again<Spec extends ColumnSpec>(columns: Spec[], data: Uint8Array, rows: number, widthOf: (c: Spec) => number) {
  const parts = [...decodeBlock(columns, data, rows, widthOf).values()];
  const values = Array.from({ length: rows }, (_, row) =>
    parts.flatMap(({ ints }) => Array.from(ints.slice((row * ints.length) / rows, ((row + 1) * ints.length) / rows))),
  );
  return encodeBlock(columns, values, widthOf);
}

test.each([smallReplay, ratesReplay])("frames and tables are encoded to the bytes of Python: %o", (replay) => {
  const { bytes, map, header } = replay();
  let rows = 0;
  for (const head of map.chunks) {
    const record = unpackMap(payload(bytes, head), RecordType.CHUNK) as unknown as ChunkRecord;
    const width = ({ per, k }: FrameColumnSpec) => k * { frame: 1, team: 2, mech: header.mechs }[per];
    expect(again(header.columns, record.c, record.f, width)).toEqual(Uint8Array.from(record.c));
    record.t.forEach(([count, data], i) => {
      const { columns } = header.tables[i];
      expect(again(columns, data, count, () => 1)).toEqual(Uint8Array.from(data));
      rows += count;
    });
  }
  expect(rows).toBeGreaterThan(0);
});

test("a packed record is read again", () => {
  const content = Uint8Array.from({ length: 1003 }, (_, i) => i % 7);
  const record = packRecord(RecordType.STATE, content, [40, 200]);
  const head = parseHead(record, 0);
  expect([head.type, head.tick0, head.tick1, recordLength(head)]).toEqual([RecordType.STATE, 40, 200, record.length]);
  expect(record.length % 8).toBe(0);
  expect(payload(record, head)).toEqual(content);
});

test.each([0, 3, 55, 56, 64, 1000])("the hash of %i bytes is SHA-256", (length) => {
  const data = Uint8Array.from({ length }, (_, i) => i * 31);
  expect(hex(sha256(data))).toBe(createHash("sha256").update(data).digest("hex"));
});
