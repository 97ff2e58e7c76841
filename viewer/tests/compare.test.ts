// Two matches: first difference, sums of events, mechs apart, the scan over both.

import { describe, expect, test, vi } from "vitest";
import {
  addEvents,
  apartText,
  differenceText,
  firstDifference,
  mechsApart,
  noSums,
  sharedText,
} from "../src/compare/differences";
import { CompareScan } from "../src/compare/scan";
import type { Chunk } from "../src/data/replay";
import { makePoses, samplePoses } from "../src/interpolate";
import { EventKind } from "../src/protocol.gen";
import type { MatchState } from "../src/state";
import { smallReplay } from "./fixtures";

const { header, chunks } = smallReplay();

/** Return a copy of a chunk with one value of a column changed. */
function changed(chunk: Chunk, column: "x" | "hp", frame: number, mech: number): Chunk {
  const values = chunk.mech[column].slice();
  values[frame * chunk.mechs + mech] += 1;
  return { ...chunk, mech: { ...chunk.mech, [column]: values } };
}

/** Return a chunk without its first frames. */
function later(chunk: Chunk, first: number): Chunk {
  const width = (values: ArrayLike<number>) => values.length / chunk.frames;
  const cut = <T extends { slice(from: number): T } & ArrayLike<number>>(values: T) =>
    values.slice(first * width(values));
  const mech = Object.fromEntries(Object.entries(chunk.mech).map(([name, values]) => [name, cut(values)]));
  const parts = { mech: mech as unknown as Chunk["mech"], tick: cut(chunk.tick), score: cut(chunk.score) };
  return { ...chunk, ...parts, frames: chunk.frames - first };
}

describe("firstDifference", () => {
  test("finds the frame, the mech and what differs", () => {
    const [chunk] = chunks;
    expect(firstDifference(header, chunk, chunk)).toBeNull();
    const other = changed(changed(chunk, "hp", 3, 2), "x", 5, 1);
    const name = header.roster[2].name;
    expect(firstDifference(header, chunk, other)).toEqual({ tick: chunk.tick[3], what: `${name}'s health` });
    expect(firstDifference(header, chunk, other, chunk.tick[4])?.tick).toBe(chunk.tick[5]);
  });

  test("compares frames of equal time, as far as both have them", () => {
    const [chunk] = chunks;
    expect(firstDifference(header, chunk, { ...chunk, frames: chunk.frames - 1 })).toBeNull();
    expect(firstDifference(header, chunk, later(chunk, 3), chunk.tick[3])).toBeNull();
    expect(firstDifference(header, chunk, later(chunk, 3))?.what).toBe("time of the frames");
  });
});

test("addEvents counts shots, damage to hostile mechs and kills up to a tick", () => {
  const all = chunks.reduce((sums, chunk) => addEvents(sums, header, chunk, Infinity), noSums());
  const kills = [0, 0];
  for (const { events } of chunks)
    for (let i = 0; i < events.count; i++)
      if (events.kind[i] === EventKind.KILL) kills[1 - header.roster[events.target[i]].team]++;
  expect(all.kills).toEqual(kills);
  expect(Math.min(...all.damage, ...all.shots)).toBeGreaterThan(0);
  expect(addEvents(noSums(), header, chunks[0], -1)).toEqual(noSums());
});

test("mechsApart lists mechs that live in one match only first, then by distance", () => {
  const pair = [makePoses(header.mechs), makePoses(header.mechs)] as const;
  for (const poses of pair) samplePoses(chunks[0], 10, header.tick_hz, poses);
  expect(mechsApart(header, [...pair])).toEqual([]);
  pair[1].x[1] += 3;
  pair[1].y[4] += 20;
  pair[1].alive[7] = 0;
  const found = mechsApart(header, [...pair]);
  expect(found.map(({ mech }) => mech)).toEqual([7, 4, 1]);
  expect(apartText(header, found[0])).toBe(`${header.roster[7].name} alive only in A`);
  expect(apartText(header, found[2])).toContain("3.0 vox apart, health");
});

test("texts name what is shared and how far the matches were compared", () => {
  expect(sharedText(header, header)).toBe("Same map and seed");
  expect(sharedText(header, { ...header, seed: header.seed + 1 })).toBe("Same map, different seeds");
  const other = { ...header, world: { ...header.world, sha256: "0".repeat(64) } };
  expect(sharedText(header, other)).toBe("Different maps: only the clock is shared");
  const branch = { ...header, seed: 9, parent: { file: "a.ecr", sha256: "0".repeat(64), tick: 240 } };
  expect(sharedText(header, branch as typeof header)).toBe("Same map; B continues a match from 0:12");
  expect(differenceText({ tick: 245, what: "B1's heat" }, 1, 20)).toBe("First difference at 0:12.2: B1's heat");
  expect(differenceText(null, 0.5, 20)).toBe("No difference in the first 50 %");
  expect(differenceText(null, 1, 20)).toBe("No difference");
});

describe("CompareScan", () => {
  const matchOf = (list: readonly Chunk[], number = 0): MatchState =>
    ({
      header,
      index: { chunks: list.map(({ tick0, tick1 }) => [tick0, tick1, 0]) },
      source: { chunk: async (n: number) => list[n] },
      chunk: list[number],
      chunkNumber: number,
    }) as unknown as MatchState;
  const finish = async (scan: CompareScan) =>
    vi.waitFor(() => {
      scan.request();
      expect(scan.read).toBe(1);
    });

  test("reads both matches and keeps the first difference", async () => {
    const last = chunks.length - 1;
    const other = chunks.map((chunk, n) => (n >= 1 ? changed(chunk, "x", 2, n) : chunk));
    const scan = new CompareScan([matchOf(chunks, last), matchOf(other, last)]);
    await finish(scan);
    expect(scan.difference?.tick).toBe(chunks[1].tick[2]);
    const all = chunks.reduce((sums, chunk) => addEvents(sums, header, chunk, Infinity), noSums());
    expect(scan.at(0, Infinity)).toEqual(all);
  });

  test("a continuation is compared from its first tick on, whatever its chunks", async () => {
    const last = chunks.length - 1;
    const branch = [later(chunks[1], 2), ...chunks.slice(2)];
    const start = branch[0].tick[0];
    Object.assign(branch[0], { tick0: start });
    const scan = new CompareScan([matchOf(chunks, last), matchOf(branch, branch.length - 1)]);
    expect(scan.start).toBe(start);
    await finish(scan);
    expect(scan.difference).toBeNull();
    expect(scan.at(0, Infinity)).toEqual(scan.at(1, Infinity));
  });

  test("a match that ends earlier differs from there on", async () => {
    const scan = new CompareScan([matchOf(chunks), matchOf(chunks.slice(0, -1))]);
    await finish(scan);
    const end = Math.max(...chunks[chunks.length - 2].tick);
    const tick = chunks.at(-1)?.tick.find((each) => each > end);
    expect(scan.difference).toEqual({ tick, what: "length of the match" });
  });
});
