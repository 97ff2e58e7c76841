// Decoding of replays written by Python, and rejection of hostile and damaged files.

import { encode } from "@msgpack/msgpack";
import { describe, expect, test, vi } from "vitest";
import { type RecordHead, parseHead, payload, recordLength, scanFile } from "../src/data/container";
import { checkHeader, decodeIndex, decodeWorld } from "../src/data/decode";
import { DAMAGED } from "../src/data/request";
import { rebuildIndex } from "../src/data/series";
import { decodeChunk } from "../src/data/decode";
import { EventKind, type Header, MECH_COLUMNS } from "../src/protocol.gen";
import { ratesReplay, smallExpected, smallReplay, stored } from "./fixtures";

describe("decoding a replay written by Python", () => {
  test("restores every frame column exactly", () => {
    const { chunks, header } = smallReplay();
    const expected = smallExpected();
    expect(chunks.length).toBe(expected.chunks.length);
    chunks.forEach((chunk, n) => {
      for (const name of MECH_COLUMNS)
        expect(stored(header, name, chunk.mech[name]), `${name} of chunk ${n}`).toEqual(
          expected.chunks[n].columns[name],
        );
      expect(Array.from(chunk.tick, (tick) => tick - chunk.tick0)).toEqual(expected.chunks[n].columns.tick);
    });
  });

  test("restores positions predicted from velocities exactly", () => {
    const { header, chunks, expected } = ratesReplay();
    const chunk = chunks[expected.chunk];
    for (const name of MECH_COLUMNS)
      if (expected.columns[name]) expect(stored(header, name, chunk.mech[name])).toEqual(expected.columns[name]);
    expect(new Set(expected.columns.x).size).toBeGreaterThan(50);
  });

  test("returns every event in time order", () => {
    const { chunks } = smallReplay();
    const expected = smallExpected();
    chunks.forEach((chunk, n) => {
      const rows = expected.chunks[n].tables.events;
      expect(chunk.events.count).toBe(rows.tick.length);
      expect([...chunk.events.tick]).toEqual(rows.tick.map((tick) => tick + chunk.tick0).sort((a, b) => a - b));
      expect([...chunk.events.kind].sort()).toEqual([...rows.kind].sort());
    });
    expect(chunks.some((chunk) => chunk.events.count > 0)).toBe(true);
  });

  test("places voxels as Python does", () => {
    const { bytes, map } = smallReplay();
    const expected = smallExpected().world;
    const world = decodeWorld(payload(bytes, map.world!));
    expect(world.size).toEqual(expected.size);
    const counts: Record<string, number> = {};
    for (const id of world.material) counts[id] = (counts[id] ?? 0) + 1;
    expect(counts).toEqual(expected.counts);
    const lowest = world.material.subarray(0, world.size[0] * world.size[1]);
    const dirt = [...lowest].filter((id) => id === 6).length;
    expect(dirt, "all dirt lies in the lowest layer").toBe(counts[6]);
  });

  test("yields the next chunk's base after applying edits", () => {
    const { chunks, header } = smallReplay();
    const [sizeX, sizeY, sizeZ] = header.world.size;
    for (let n = 0; n + 1 < chunks.length; n++) {
      const overlay = new Map<number, number>();
      chunks[n].base.cell.forEach((cell, i) => overlay.set(cell, chunks[n].base.material[i]));
      chunks[n].edits.cell.forEach((cell, i) => overlay.set(cell, chunks[n].edits.material[i]));
      const next = new Map(Array.from(chunks[n + 1].base.cell, (cell, i) => [cell, chunks[n + 1].base.material[i]]));
      expect(new Map([...overlay].sort())).toEqual(new Map([...next].sort()));
      for (const cell of overlay.keys()) expect(cell).toBeLessThan(sizeX * sizeY * sizeZ);
    }
  });

  test("returns the timeline of the index", () => {
    const { bytes, map } = smallReplay();
    const { series, markers, outcome } = decodeIndex(payload(bytes, map.index!));
    const expected = smallExpected().index;
    expect(markers).toEqual(expected.markers);
    expect(outcome).toEqual(expected.outcome);
    for (const name of ["alive", "hp", "damage"] as const) expect(series[name]).toEqual(expected.series[name]);
    series.score.forEach((team, t) =>
      team.forEach((value, i) => expect(value).toBeCloseTo(expected.series.score[t][i], 5)),
    );
  });

  test("rebuilds an equal timeline from chunks", () => {
    const { bytes, map, header } = smallReplay();
    const rebuilt = rebuildIndex(header, map.chunks, (head) => decodeChunk(header, head, payload(bytes, head)));
    const expected = smallExpected().index;
    expect(rebuilt.markers.map(String).sort()).toEqual(expected.markers.map(String).sort());
    expect(rebuilt.series.alive).toEqual(expected.series.alive);
    rebuilt.series.hp.forEach((team, t) =>
      team.forEach((value, i) => expect(Math.abs(value - expected.series.hp[t][i])).toBeLessThanOrEqual(0.51)),
    );
  });
});

test("rebuilt and written timelines do not count damage among friends", () => {
  const { bytes, map, header } = ratesReplay();
  const read = (head: RecordHead) => decodeChunk(header, head, payload(bytes, head));
  const among = map.chunks.flatMap((head) => {
    const { events } = read(head);
    return [...events.kind].filter(
      (kind, i) =>
        kind === EventKind.HIT && header.roster[events.actor[i]]?.team === header.roster[events.target[i]]?.team,
    );
  });
  expect(among.length, "the match has no friendly fire to test").toBeGreaterThan(0);
  const written = decodeIndex(payload(bytes, map.index!)).series.damage;
  rebuildIndex(header, map.chunks, read).series.damage.forEach((team, t) =>
    // what is written is rounded to whole points
    team.forEach((value, i) => expect(Math.abs(value - written[t][i]), `second ${i}`).toBeLessThanOrEqual(0.51)),
  );
});

describe("a hostile header", () => {
  const { header } = smallReplay();
  const insight = { actions: ["a"], terms: ["t"], contacts: 3, estimates: false };
  const world = (...size: number[]) => ({ world: { ...header.world, size } });
  const many = Array<string>(5000).fill("x");
  test.each([
    ["world.size[1] is 3000000000, expected an integer from 1 to 1024", world(36, 3e9, 12)],
    ["world.size is a list of 2, expected a list of 3 to 3", world(36, 36)],
    ["world.size[0] is 0.5", world(0.5, 36, 12)],
    ["world.size is 1024 x 1024 x 1024, expected at most 67108848 voxels", world(1024, 1024, 1024)],
    ["insight.contacts is 1000000000, expected an integer from 0 to 1024", { insight: { ...insight, contacts: 1e9 } }],
    ["insight.contacts is -1", { insight: { ...insight, contacts: -1 } }],
    ["insight.terms is a list of 5000", { insight: { ...insight, terms: many } }],
    ["cooldowns is a list of 5000, expected a list of 0 to 1024", { cooldowns: many }],
    ["mechs is 10000000, expected an integer from 1 to 4096", { mechs: 1e7 }],
    ["mechs is 1.5", { mechs: 1.5 }],
    ["frame_ticks is 0", { frame_ticks: 0 }],
    ["tick_hz is 0, expected a number above 0 and at most 1000", { tick_hz: 0 }],
  ])("is rejected with its invalid field: %s", (words, wrong) => {
    expect(() => checkHeader({ ...header, ...wrong } as Header)).toThrow(words);
  });

  test("with valid fields cannot allocate a chunk larger than any file", () => {
    const mechs = 4096;
    const huge = {
      ...header,
      mechs,
      roster: Array.from({ length: mechs }, () => header.roster[0]),
      insight: { ...insight, contacts: 1024 },
    };
    const record = encode({ f: 2048, c: new Uint8Array(), t: [], h: new Uint8Array(8) });
    const head = { tick0: 0, tick1: 40 } as RecordHead;
    expect(() => decodeChunk(checkHeader(huge), head, record)).toThrow("values, expected at most");
  });

  test("from a server is rejected by the worker", async () => {
    const messages: unknown[] = [];
    vi.stubGlobal("self", { postMessage: (answer: unknown) => messages.push(answer) });
    await import("../src/workers/decode.worker");
    const ask = (self as unknown as { onmessage: (message: unknown) => Promise<void> }).onmessage;
    await ask({ data: { number: 1, call: "setHeader", args: { header: { ...header, ...world(36, 3e9, 12) } } } });
    await ask({ data: { number: 2, call: "setHeader", args: { header } } });
    vi.unstubAllGlobals();
    expect(messages).toEqual([
      { number: 1, error: expect.stringContaining("world.size[1]"), status: DAMAGED },
      { number: 2, value: null },
    ]);
  });
});

describe("a damaged replay", () => {
  test("is readable up to a cut at any byte", () => {
    const { bytes, map } = smallReplay();
    for (let end = map.header.offset + recordLength(map.header); end < bytes.length; end += 97) {
      const cut = scanFile(bytes.subarray(0, end));
      const whole = map.chunks.filter((head) => head.offset + recordLength(head) <= end);
      expect(cut.chunks.length).toBeGreaterThanOrEqual(whole.length);
      expect(cut.complete).toBe(false);
    }
  });

  test("is read around a flipped bit in a chunk", () => {
    const { bytes, map } = smallReplay();
    const damaged = bytes.slice();
    damaged[map.chunks[1].offset + 40] ^= 4;
    const found = scanFile(damaged);
    expect([...found.damaged].map(({ offset }) => offset)).toEqual([map.chunks[1].offset]);
    expect([found.chunks.length, found.complete, found.fault]).toEqual([map.chunks.length, true, "none"]);
    expect(() => payload(damaged, map.chunks[1])).toThrow("damaged");
  });

  test("ends at a flipped bit in the length of a chunk", () => {
    const { bytes, map } = smallReplay();
    const damaged = bytes.slice();
    damaged[map.chunks[1].offset + 4] ^= 64;
    const found = scanFile(damaged);
    expect([found.chunks.length, found.complete, found.fault]).toEqual([1, false, "damaged"]);
  });

  test("differs from a truncated one", () => {
    const { bytes, map } = smallReplay();
    const faults = [map.chunks[1].offset + 7, map.chunks[1].offset + 100, map.chunks[2].offset].map(
      (end) => scanFile(bytes.subarray(0, end)).fault,
    );
    expect(faults).toEqual(["cut", "cut", "none"]);
  });

  test("is rejected if it is no replay", () => {
    expect(() => scanFile(new TextEncoder().encode("PK\u0003\u0004 not a replay"))).toThrow("not an Echelon replay");
    expect(() => scanFile(smallReplay().bytes.subarray(0, 60))).toThrow("truncated");
  });

  test("cannot allocate more memory than the limit", () => {
    const { bytes, map } = smallReplay();
    const bomb = bytes.slice();
    new DataView(bomb.buffer).setUint32(map.chunks[0].offset + 8, 0xffffffff, true);
    expect(() => parseHead(bomb, map.chunks[0].offset)).toThrow("more than allowed");
  });

  test("of another major version is rejected", () => {
    const { header } = smallReplay();
    expect(() => checkHeader({ ...header, schema: [2, 4] })).toThrow("schema 2, this viewer reads 3");
  });
});

test("a chunk counts the bytes of all of its arrays", () => {
  const sizes = (value: unknown): number =>
    ArrayBuffer.isView(value)
      ? value.byteLength
      : typeof value === "object" && value !== null
        ? Object.values(value).reduce((sum: number, part) => sum + sizes(part), 0)
        : 0;
  for (const chunk of smallReplay().chunks) expect(chunk.bytes).toBe(sizes(chunk));
});
