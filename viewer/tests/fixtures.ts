// Golden replays written by Python, their expected contents, and states in which they are open.

import { readFileSync } from "node:fs";
import * as control from "../src/control";
import { type FileMap, payload, scanFile } from "../src/data/container";
import { UNDAMAGED } from "../src/data/damage";
import { decodeChunk, decodeHeader } from "../src/data/decode";
import type { Chunk, EventRows } from "../src/data/replay";
import type { ReplaySource } from "../src/data/source";
import { NO_WIN } from "../src/data/winprob";
import type { Header, IndexView } from "../src/protocol.gen";
import { makeMatch } from "../src/session";
import { type ViewerState, defaults } from "../src/state";

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

/** Return the expected contents of a golden replay. */
export const expectedOf = <T>(name: string): T => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as T;
export const smallExpected = () => expectedOf<Expected>("small.json");

/** Expected columns of one chunk: integers as stored. */
export interface Columns {
  chunk: number;
  tick0: number;
  tick1: number;
  columns: Record<string, number[]>;
}

/** Resolve after pending promises, or after some milliseconds. */
export const later = (ms = 0) => new Promise((done) => setTimeout(done, ms));

/** Return shares from 0 to 1, pseudo-random and the same for every run. */
export function draws(): () => number {
  let seed = 7;
  return () => (seed = (seed * 16807) % 2147483647) / 2147483647;
}

const EVENT_COLUMNS = ["tick", "kind", "actor", "target", "weapon", "value", "flags", "x", "y", "z"] as const;
export type EventRow = Partial<Record<(typeof EVENT_COLUMNS)[number], number>>;

/** Return events as a chunk has them; what a row leaves out is 0. */
export function eventRows(rows: readonly EventRow[]): EventRows {
  const columns = EVENT_COLUMNS.map((name) => [name, Float64Array.from(rows, (row) => row[name] ?? 0)]);
  return { ...Object.fromEntries(columns), count: rows.length } as EventRows;
}

/** Return the integers that a file stores for the values of a column. */
export function stored({ columns }: Header, name: string, values: ArrayLike<number>): number[] {
  const scale = columns.find((column) => column.name === name)?.scale ?? 1;
  return Array.from(values, (value) => Math.round(value / scale) + 0);
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
  return { ...replayOf("rates.ecr"), expected: expectedOf<Columns>("rates.json") };
}

/** Return the index of a match without events. */
export function emptyIndex(chunks: readonly Pick<Chunk, "tick0" | "tick1">[]): IndexView {
  return {
    live: false,
    chunks: chunks.map(({ tick0, tick1 }): [number, number, number] => [tick0, tick1, 0]),
    outcome: null,
    markers: [],
    series: { second: [], score: [[], []], alive: [[], []], hp: [[], []], damage: [[], []] },
    win: NO_WIN,
    moments: [],
  };
}

/** Return a state with a match open at its start, all its chunks in memory; chunks beyond them never arrive. */
export async function openedState(
  { header, chunks }: { header: Header; chunks: readonly Chunk[] },
  index: Partial<IndexView> = {},
): Promise<ViewerState> {
  const none = () => Promise.reject(new Error("unused"));
  const source: ReplaySource = {
    open: none,
    refresh: none,
    chunk: (number) => (number in chunks ? Promise.resolve(chunks[number]) : new Promise(() => undefined)),
    prefetch: async () => null,
    scenery: none,
    close: () => undefined,
  };
  const opened = { header, index: { ...emptyIndex(chunks), ...index }, run: "", damage: UNDAMAGED };
  const match = makeMatch("x", source, opened, "");
  const state = defaults();
  control.openMatch(state, match);
  state.paced = false; // the pace has its own tests
  for (let i = 0; i < chunks.length; i++) {
    match.store.request(i, chunks.length, 1);
    await later();
  }
  control.updateCursor(state);
  return state;
}
