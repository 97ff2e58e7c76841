// Decodes record payloads into typed arrays. Columns, tables and their types are named by the file's header; unknown
// ones are skipped, and those that an older file lacks are zero. Ticks are converted to ticks of the match, tables
// sorted by time, and cells renumbered with x fastest.

import { decode as unpack } from "@msgpack/msgpack";
import type { ChunkRecord, FrameColumnSpec, Header, IndexRecord, IndexView, Series, TableSpec } from "../protocol.gen";
import {
  INDEX_TABLES,
  MAX_EDGE,
  MAX_FRAMES,
  MAX_MECHS,
  MAX_NAMES,
  MAX_RAW_BYTES,
  MAX_ROWS,
  MECH_COLUMNS,
  OLDEST_MAJOR,
  SCHEMA_MAJOR,
  TICK_HZ_LIMIT,
  WORLD_HEAD_BYTES,
} from "../protocol.gen";
import { decodeBlock } from "./columns";
import { type RecordHead, inflate } from "./container";
import type { Timeline } from "./series";
import type { Chunk, CloudRows, Insight, EventRows, RoundRows, Rows, World } from "./replay";

const LIMITS = { maxArrayLength: 2 ** 20, maxMapLength: 2 ** 16, maxStrLength: 2 ** 20 };
const MAX_VOXELS = MAX_RAW_BYTES - WORLD_HEAD_BYTES; // largest world that fits into a record
const MAX_TICKS = 2 ** 16 - 1; // largest distance of two frames: ticks within a chunk have 16 bits

/** Return the msgpack map in a payload; throws if it is no map. */
function unpackMap(data: Uint8Array): Record<string, unknown> {
  const value = unpack(data, LIMITS);
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new Error("record does not hold a map");
  return value as Record<string, unknown>;
}

/** Allowed range of a header field that determines memory allocation. */
interface Bound {
  readonly field: string;
  readonly of: (header: Header) => unknown;
  readonly least: number;
  readonly most: number;
}

const count = (field: string, of: Bound["of"], least: number, most: number): Bound => ({ field, of, least, most });

/** Integer fields of every header. */
const COUNTS: readonly Bound[] = [
  count("mechs", (header) => header.mechs, 1, MAX_MECHS),
  ...["x", "y", "z"].map((axis, i) => count(`world.size ${axis}`, (header) => header.world?.size?.[i], 1, MAX_EDGE)),
  count("frame_ticks", (header) => header.frame_ticks, 1, MAX_TICKS),
  count("number of cooldowns", (header) => header.cooldowns?.length, 0, MAX_NAMES),
];

/** Integer fields of headers with policy columns. */
const INSIGHT_COUNTS: readonly Bound[] = [
  count("insight.contacts", (header) => header.insight?.contacts, 0, MAX_NAMES),
  count("number of insight.actions", (header) => header.insight?.actions?.length, 0, MAX_NAMES),
  count("number of insight.terms", (header) => header.insight?.terms?.length, 0, MAX_NAMES),
];

/** Check the fields of a header that determine memory allocation; throws with a message for the user. */
export function checkHeader(header: Header): Header {
  const major = header.schema?.[0];
  if (!(major >= OLDEST_MAJOR && major <= SCHEMA_MAJOR)) {
    throw new Error(`the replay has format ${major}, this viewer reads ${OLDEST_MAJOR} to ${SCHEMA_MAJOR}`);
  }
  for (const { field, of, least, most } of header.insight ? [...COUNTS, ...INSIGHT_COUNTS] : COUNTS) {
    const value = of(header);
    const fits = Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
    if (!fits)
      throw new Error(
        `the replay's header says ${field} is ${String(value)}, expected an integer from ${least} to ${most}`,
      );
  }
  const voxels = header.world.size.reduce((product, edge) => product * edge, 1);
  if (voxels > MAX_VOXELS)
    throw new Error(
      `the replay's header says world.size is ${header.world.size.join(" x ")}, expected at most ${MAX_VOXELS} voxels`,
    );
  if (!(header.tick_hz > 0 && header.tick_hz <= TICK_HZ_LIMIT)) {
    throw new Error(
      `the replay's header says tick_hz is ${header.tick_hz}, expected more than 0 and at most ${TICK_HZ_LIMIT}`,
    );
  }
  if (header.roster?.length !== header.mechs) throw new Error("the replay's roster does not match its mechs");
  return header;
}

/** Decode a HEADER payload. */
export function decodeHeader(data: Uint8Array): Header {
  return checkHeader(unpackMap(data) as unknown as Header);
}

/** Decode a WORLD payload; the file's z-fastest order becomes x-fastest. */
export function decodeWorld(data: Uint8Array): World {
  if (data.length < WORLD_HEAD_BYTES) throw new Error("the world is truncated");
  const view = new DataView(data.buffer, data.byteOffset, WORLD_HEAD_BYTES);
  const [sizeX, sizeY, sizeZ] = [view.getUint32(0, true), view.getUint32(4, true), view.getUint32(8, true)];
  const stored = data.subarray(WORLD_HEAD_BYTES);
  if (stored.length !== sizeX * sizeY * sizeZ) throw new Error("the world's size does not match its voxels");
  const material = new Uint8Array(stored.length);
  const layer = sizeX * sizeY;
  for (let column = 0; column < layer; column++) {
    for (let z = 0; z < sizeZ; z++) material[column + layer * z] = stored[column * sizeZ + z];
  }
  return { size: [sizeX, sizeY, sizeZ], material };
}

/** Decode a world as the server sends it: a zlib stream whose size follows from the header. */
export function decodeStoredWorld(stored: Uint8Array, size: readonly number[]): World {
  return decodeWorld(inflate(stored, WORLD_HEAD_BYTES + size[0] * size[1] * size[2]));
}

/** Write integers times `scale` into an array. */
function physical<T extends Float32Array | Float64Array>(ints: ArrayLike<number>, scale: number, into: T): T {
  for (let i = 0; i < ints.length; i++) into[i] = ints[i] * scale;
  return into;
}

/** Decode the table with a name, or return an empty one; missing columns are zero. */
function table<Names extends string>(
  specs: readonly TableSpec[],
  blocks: readonly [number, Uint8Array][],
  name: string,
  columns: readonly Names[],
): Rows<Names> {
  const at = specs.findIndex((spec) => spec.name === name);
  const [count, data] = (at >= 0 ? blocks[at] : undefined) ?? [0, new Uint8Array()];
  if (!(count >= 0 && count <= MAX_ROWS)) throw new Error(`table "${name}" claims ${count} rows`);
  const decoded = at >= 0 && count > 0 ? decodeBlock(specs[at].columns, data, count, () => 1) : null;
  const result: Record<string, Float64Array | number> = { count };
  for (const column of columns) {
    const got = decoded?.get(column);
    result[column] = got ? physical(got.ints, got.spec.scale, new Float64Array(count)) : new Float64Array(count);
  }
  return result as Rows<Names>;
}

/** Return rows sorted by a column; the sort is stable. */
function sortRows<Names extends string>(rows: Rows<Names>, columns: readonly Names[], by: Names): Rows<Names> {
  const order = Array.from({ length: rows.count }, (_, i) => i).sort((a, b) => rows[by][a] - rows[by][b] || a - b);
  const sorted: Record<string, Float64Array | number> = { count: rows.count };
  for (const column of columns) sorted[column] = Float64Array.from(order, (i) => rows[column][i]);
  return sorted as Rows<Names>;
}

/** Expand the run lengths of a voxel table to one row per cell, cells numbered x fastest. */
function expandRuns(rows: Rows<"tick" | "cell" | "run" | "material">, size: readonly number[]): Chunk["edits"] {
  const [sizeX, sizeY, sizeZ] = size;
  const count = rows.run.reduce((sum, run) => sum + run, 0);
  if (count > sizeX * sizeY * sizeZ * 4) throw new Error(`a chunk edits ${count} voxels, more than the map has`);
  const cells = {
    tick: new Float64Array(count),
    cell: new Float64Array(count),
    material: new Float64Array(count),
    count,
  };
  let at = 0;
  for (let row = 0; row < rows.count; row++) {
    for (let i = 0; i < rows.run[row]; i++, at++) {
      const stored = rows.cell[row] + i;
      cells.tick[at] = rows.tick[row];
      cells.cell[at] = Math.floor(stored / sizeZ) + sizeX * sizeY * (stored % sizeZ);
      cells.material[at] = rows.material[row];
    }
  }
  return cells;
}

/**
 * Distance walked by each mech since the first frame: along its heading, backward negative, and in total; each [F, M].
 */
function walkedDistance(mech: Chunk["mech"], frames: number, mechs: number): Pick<Chunk, "walked" | "walkedTotal"> {
  const [walked, walkedTotal] = [new Float32Array(frames * mechs), new Float32Array(frames * mechs)];
  for (let at = mechs; at < walked.length; at++) {
    const [dx, dy] = [mech.x[at] - mech.x[at - mechs], mech.y[at] - mech.y[at - mechs]];
    const ahead = dx * Math.cos(mech.yaw[at]) + dy * Math.sin(mech.yaw[at]);
    const way = Math.hypot(dx, dy);
    walked[at] = walked[at - mechs] + way * (ahead < 0 ? -1 : 1);
    walkedTotal[at] = walkedTotal[at - mechs] + way;
  }
  return { walked, walkedTotal };
}

/** Bytes of the bit set `sees` per mech. */
const seesWidth = ({ mechs }: Header) => Math.ceil(mechs / 8);

/** Return the number of policy values per mech and frame. */
function insightWidth(header: Header): number {
  const { insight } = header;
  return insight ? insight.actions.length + 1 + insight.terms.length + insight.contacts + seesWidth(header) : 0;
}

/** Return the policy columns of a chunk, or null without them. */
function insightOf(
  header: Header,
  values: <T extends Float32Array | Float64Array>(name: string, empty: T) => T,
  cells: number,
): Insight | null {
  const { insight } = header;
  if (!insight) return null;
  const column = (name: string, k: number) => values(name, new Float32Array(cells * k));
  return {
    action: column("action", insight.actions.length),
    value: column("value", 1),
    reward: column("reward", insight.terms.length),
    contact: column("contact", insight.contacts),
    sees: Uint8Array.from(column("sees", seesWidth(header))),
  };
}

const EVENT_COLUMNS = ["tick", "kind", "who", "whom", "weapon", "value", "flags", "x", "y", "z"] as const;
const ROUND_COLUMNS = ["frame", "owner", "slot", "weapon", "age", "x", "y", "z", "yaw", "pitch"] as const;
const CLOUD_COLUMNS = ["tick", "who", "x", "y", "z"] as const;
const VOXEL_COLUMNS = ["tick", "cell", "run", "material"] as const;

/** Decode a CHUNK payload. */
export function decodeChunk(header: Header, head: RecordHead, data: Uint8Array): Chunk {
  const record = unpackMap(data) as unknown as ChunkRecord;
  const [frames, mechs] = [record.f, header.mechs];
  if (!(frames >= 1 && frames <= MAX_FRAMES)) throw new Error(`chunk has ${frames} frames`);
  const wide = MECH_COLUMNS.length + 2 + header.cooldowns.length + insightWidth(header);
  // every stored value takes at least a byte, so that no valid chunk holds more; missing columns are allocated too
  if (frames * mechs * wide > MAX_RAW_BYTES)
    throw new Error(
      `chunk has ${frames} frames of ${mechs} mechs with ${wide} values each, expected at most ${MAX_RAW_BYTES} in all`,
    );
  const entities = { frame: 1, team: 2, mech: mechs };
  const columns = decodeBlock(header.columns, record.c, frames, (spec: FrameColumnSpec) => entities[spec.per] * spec.k);
  const values = <T extends Float32Array | Float64Array>(name: string, empty: T): T => {
    const got = columns.get(name);
    return got && got.ints.length === empty.length ? physical(got.ints, got.spec.scale, empty) : empty;
  };
  const mech = Object.fromEntries(
    MECH_COLUMNS.map((name) => [name, values(name, new Float32Array(frames * mechs))]),
  ) as Chunk["mech"];
  const fromMatch = (ticks: Float64Array) => ticks.map((tick) => tick + head.tick0);
  const events = sortRows(table(header.tables, record.t, "events", EVENT_COLUMNS), EVENT_COLUMNS, "tick");
  const rounds = sortRows(table(header.tables, record.t, "rounds", ROUND_COLUMNS), ROUND_COLUMNS, "frame");
  const clouds = sortRows(table(header.tables, record.t, "clouds", CLOUD_COLUMNS), CLOUD_COLUMNS, "tick");
  const voxels = (name: string) => expandRuns(table(header.tables, record.t, name, VOXEL_COLUMNS), header.world.size);
  const edits = voxels("edits");
  const insight = insightOf(header, values, frames * mechs);
  const insightBytes = insight ? Object.values(insight).reduce((sum, column) => sum + column.byteLength, 0) : 0;
  return {
    tick0: head.tick0,
    tick1: head.tick1,
    frames,
    mechs,
    mech,
    ...walkedDistance(mech, frames, mechs),
    tick: fromMatch(values("tick", new Float64Array(frames))),
    score: values("score", new Float64Array(frames * 2)),
    tonnage: values("tonnage", new Float64Array(frames * 2)),
    cooldown: values("cooldown", new Float32Array(frames * mechs * header.cooldowns.length)),
    insight,
    events: { ...events, tick: fromMatch(events.tick) } as EventRows,
    rounds: rounds as RoundRows,
    clouds: { ...clouds, tick: fromMatch(clouds.tick) } as CloudRows,
    base: voxels("base"),
    edits: { ...edits, tick: fromMatch(edits.tick) },
    bytes: frames * mechs * 4 * (MECH_COLUMNS.length + 2 + header.cooldowns.length) + data.length * 8 + insightBytes,
  };
}

/** Decode an INDEX payload into the timeline that the server's index route would return. */
export function decodeIndex(data: Uint8Array): Timeline {
  const record = unpackMap(data) as unknown as IndexRecord;
  const pairs = ["score", "alive", "hp", "damage"] as const;
  const names = pairs.flatMap((name) => [`${name}_blue`, `${name}_red`]);
  const rows: Rows<string> = table(INDEX_TABLES, record.t, "series", ["second", ...names]);
  const pair = (name: string): [number[], number[]] => [[...rows[`${name}_blue`]], [...rows[`${name}_red`]]];
  const series: Series = {
    second: [...rows.second],
    score: pair("score"),
    alive: pair("alive"),
    hp: pair("hp"),
    damage: pair("damage"),
  };
  const marks = table(INDEX_TABLES, record.t, "markers", ["tick", "kind", "who", "whom"]);
  const markers: IndexView["markers"] = [];
  for (let i = 0; i < marks.count; i++) markers.push([marks.tick[i], marks.kind[i], marks.who[i], marks.whom[i]]);
  return { series, markers, outcome: record.outcome };
}
