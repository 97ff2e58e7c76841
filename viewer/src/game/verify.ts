// Plays a recorded match again from its actions and compares what it records with the recording, bit for bit: the
// counterpart of echelon/arena/verify.py.

import { decodeBlock } from "../data/columns";
import { payload, type RecordHead, scanFile } from "../data/container";
import { unpackMap } from "../data/payload";
import { type ChunkRecord, type Header, RecordType } from "../protocol.gen";
import { planesOf, type RecordDescription, type Stored } from "./match_state";
import { Recording, toEven, widthIn } from "./recording";
import { RecordedMatch, ReplayedMatch } from "./replayed";
import type { Simulator } from "./simulator";

/** How the verdict on an equal match begins. */
export const EQUAL = "Equal bit for bit";

/** What two recordings of a chunk have differently: a field, and its frame in the chunk. */
type Difference = { field: string; frame: number };

/** Verify a match on its map; return the verdict in one line. Throws for a match that this game cannot play. */
export function verifyMatch(simulator: Simulator, file: string, data: Uint8Array, map: Uint8Array): string {
  const description = simulator.description as RecordDescription;
  const recorded = new RecordedMatch(file, data, description);
  const match = new ReplayedMatch(simulator, recorded, map);
  const { header, first, ticks } = recorded;
  match.goTo(first, true, 0, () => {});
  const recording = new Recording(simulator, { teams: header.teams, map_seed: header.map_seed });
  const [expected, found] = [header, recording.header].map(({ world }) => world.sha256.slice(0, 12));
  if (expected !== found)
    throw new Error(
      `map ${header.map_seed} of this page has hash ${found}, expected ${expected} as in replay "${file}"`,
    );
  for (const step of recorded.steps(first, ticks)) {
    match.playStep(step);
    if (step.inputs) recording.addInputs(step.seats, step.inputs);
    recording.afterStep();
  }
  const played = recording.finish();
  const [ours, theirs] = [played, data].map((bytes) => scanFile(bytes).chunks);
  const differs = (chunk: number, tick: number, what: string) =>
    `differs (strict): chunk ${chunk}, tick ${tick}, ${what}`;
  for (const [number, head] of theirs.entries()) {
    const other = ours[number];
    if (!other || other.tick1 !== head.tick1)
      return differs(number, Math.min(head.tick1, other?.tick1 ?? ticks), "length");
    const found = difference(read(data, head, header), read(played, other, recording.header));
    if (found) return differs(number, head.tick0 + found.frame * header.frame_ticks, found.field);
  }
  const again = new Map(
    new RecordedMatch(file, played, description).statesUntil(ticks).map((row) => [row.tick, row.state]),
  );
  for (const { tick, state } of recorded.statesUntil(ticks).reverse()) {
    const field = stateDifference(state, again.get(tick));
    if (field !== null) return differs(theirs.findIndex(({ tick1 }) => tick <= tick1), tick, field); // prettier-ignore
  }
  const seconds = (toEven((10 * ticks) / header.tick_hz) / 10).toFixed(1); // as Python rounds
  return `${EQUAL} (strict): ${seconds} s, all ${theirs.length} chunks`;
}

interface Read {
  readonly header: Header;
  readonly record: ChunkRecord;
}

function read(data: Uint8Array, head: RecordHead, header: Header): Read {
  return { header, record: unpackMap(payload(data, head), RecordType.CHUNK) as unknown as ChunkRecord };
}

/** Return the first difference of two chunks; columns that only one has are not compared. */
function difference(one: Read, two: Read): Difference | null {
  const [columns, others] = [one, two].map(({ header, record }) =>
    decodeBlock(header.columns, record.c, record.f, widthIn(header)),
  );
  let first: Difference | null = null;
  for (const [field, { ints }] of columns) {
    const other = others.get(field)?.ints;
    const at = other ? ints.findIndex((value, i) => value !== other[i]) : -1;
    const frame = Math.floor((at * one.record.f) / ints.length);
    if (at >= 0 && (first === null || frame < first.frame)) first = { field, frame };
  }
  const table = one.header.tables.find((_, i) => !isEqual(one.record.t[i][1], two.record.t[i]?.[1]));
  const hash = isEqual(one.record.h, two.record.h) ? null : { field: "hash", frame: 0 };
  return first ?? (table ? { field: table.name, frame: 0 } : hash);
}

/** Return what two states have differently, null for nothing. */
function stateDifference(one: Uint8Array, two: Uint8Array | undefined): string | null {
  if (!two) return "state";
  const [ours, theirs] = [one, two].map((state) => unpackMap(state, RecordType.STATE).a as Record<string, Stored>);
  const name = Object.keys({ ...ours, ...theirs }).find((name) => !hasEqualValues(ours[name], theirs[name]));
  return name === undefined ? null : `state.${name}`;
}

/** Return whether two arrays have equal values; zeros may have any sign, since recorded actions have none. */
function hasEqualValues(one?: Stored, two?: Stored): boolean {
  if (!one || !two || one[0] !== two[0]) return false;
  if (isEqual(one[2], two[2])) return true;
  const [ours, theirs] = [one, two].map(([, , planes]) => new Float32Array(planesOf(planes, planes.length / 4).buffer));
  return one[0] === "f4" && ours.length === theirs.length && ours.every((value, i) => value === theirs[i]);
}

function isEqual(one: Uint8Array, two: Uint8Array | undefined): boolean {
  return one.length === two?.length && one.every((byte, i) => byte === two[i]);
}
