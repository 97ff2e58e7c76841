import { describe, expect, test } from "vitest";
import { parseHead, payload, recordLength, scanFile } from "../src/data/container";
import { checkHeader, decodeIndex, decodeWorld } from "../src/data/decode";
import { rebuildIndex } from "../src/data/series";
import { decodeChunk } from "../src/data/decode";
import { MECH_COLUMNS } from "../src/protocol.gen";
import { ratesReplay, smallExpected, smallFile, smallReplay } from "./fixtures";

describe("a replay written by Python", () => {
  test("has every frame column, to the last integer", () => {
    const { chunks, header } = smallReplay();
    const expected = smallExpected();
    expect(chunks.length).toBe(expected.chunks.length);
    const scale = new Map(header.columns.map((column) => [column.name, column.scale]));
    chunks.forEach((chunk, n) => {
      for (const name of MECH_COLUMNS) {
        const integers = Array.from(chunk.mech[name], (value) => Math.round(value / (scale.get(name) ?? 1)) + 0);
        expect(integers, `${name} of chunk ${n}`).toEqual(expected.chunks[n].columns[name]);
      }
      expect(Array.from(chunk.tick, (tick) => tick - chunk.tick0)).toEqual(expected.chunks[n].columns.tick);
    });
  });

  test("has positions that were predicted from speeds, to the last integer", () => {
    const { header, chunks, expected } = ratesReplay();
    const chunk = chunks[expected.chunk];
    expect(header.schema).toEqual([2, 0]);
    for (const name of MECH_COLUMNS) {
      const scale = header.columns.find((column) => column.name === name)!.scale;
      const integers = Array.from(chunk.mech[name], (value) => Math.round(value / scale) + 0);
      if (expected.columns[name]) expect(integers).toEqual(expected.columns[name]);
    }
    expect(new Set(expected.columns.x).size).toBeGreaterThan(50);
  });

  test("has every event, in the order of time", () => {
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

  test("has its voxels where Python has them", () => {
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

  test("has edits that follow the base of the next chunk", () => {
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

  test("says of the whole match what its index says", () => {
    const { bytes, map } = smallReplay();
    const { series, markers, outcome } = decodeIndex(payload(bytes, map.index!));
    const expected = smallExpected().index;
    expect(markers).toEqual(expected.markers);
    expect(outcome).toEqual(expected.outcome);
    for (const name of ["alive", "hp", "damage"] as const) expect(series[name]).toEqual(expected.series[name]);
    series.score.forEach((team, t) => team.forEach((value, i) => expect(value).toBeCloseTo(expected.series.score[t][i], 5)));
  });

  test("gives the same index when it has to be rebuilt", () => {
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

describe("a damaged replay", () => {
  test("plays up to the cut, wherever it is cut", () => {
    const { bytes, map } = smallReplay();
    for (let end = map.header.offset + recordLength(map.header); end < bytes.length; end += 97) {
      const cut = scanFile(bytes.subarray(0, end));
      const whole = map.chunks.filter((head) => head.offset + recordLength(head) <= end);
      expect(cut.chunks.length).toBeGreaterThanOrEqual(whole.length);
      expect(cut.complete).toBe(false);
    }
  });

  test("stops at a flipped bit", () => {
    const { bytes, map } = smallReplay();
    const damaged = bytes.slice();
    damaged[map.chunks[1].offset + 40] ^= 4;
    expect(scanFile(damaged).chunks.length).toBe(1);
    expect(() => payload(damaged, map.chunks[1])).toThrow("damaged");
  });

  test("is refused when it is something else", () => {
    expect(() => scanFile(new TextEncoder().encode("PK\u0003\u0004 not a replay"))).toThrow("no Echelon replay");
    expect(() => scanFile(smallFile().subarray(0, 60))).toThrow("cut short");
  });

  test("cannot claim more memory than the limit", () => {
    const { bytes, map } = smallReplay();
    const bomb = bytes.slice();
    new DataView(bomb.buffer).setUint32(map.chunks[0].offset + 8, 0xffffffff, true);
    expect(() => parseHead(bomb, map.chunks[0].offset)).toThrow("more than is allowed");
  });

  test("of another major version is refused by number", () => {
    const { header } = smallReplay();
    expect(() => checkHeader({ ...header, schema: [3, 0] })).toThrow("format 3, this viewer reads 1 to 2");
  });
});
