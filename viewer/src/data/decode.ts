// Decodes record payloads into typed arrays. Columns, tables and their types are named by the file's header; unknown
// ones are skipped. Ticks are converted to ticks of the match, tables sorted by time, and cells renumbered with x
// fastest.

import type { ChunkRecord, FrameColumnSpec, Header, IndexRecord, IndexView, Series, TableSpec } from "../protocol.gen";
import {
  COACHING_FORM,
  HEADER_FORM,
  INDEX_TABLES,
  MAX_CELLS,
  MAX_CHUNK_TICKS,
  MAX_CHUNKS,
  MAX_COACHINGS,
  MAX_FRAMES,
  MAX_MARKERS,
  MAX_MOMENTS,
  MAX_RAW_BYTES,
  MAX_ROWS,
  MAX_SECONDS,
  MAX_VALUES,
  MAX_WIN_POINTS,
  MECH_COLUMNS,
  MOMENT_FORM,
  OUTCOME_FORM,
  RecordType,
  SCHEMA_MAJOR,
  WIN_GROUPS,
  WORLD_HEAD_BYTES,
} from "../protocol.gen";
import { decodeBlock } from "./columns";
import { type RecordHead, inflate, payload } from "./container";
import { checkForm } from "./form";
import { ReplayError, unpackMap } from "./payload";
import type { Timeline } from "./series";
import type { BaseRows, Chunk, CloudRows, Insight, EventRows, RoundRows, Rows, World } from "./replay";

const MAX_VOXELS = MAX_RAW_BYTES - WORLD_HEAD_BYTES; // largest world that fits into a record
const MAX_TABLES = 64; // of a record

/** Check a header before anything trusts it; throws with a message for the user. */
export function checkHeader(header: Header): Header {
  const major: unknown = header.schema?.[0];
  if (typeof major === "number" && major !== SCHEMA_MAJOR)
    throw new ReplayError(`the replay has schema ${major}, this viewer reads ${SCHEMA_MAJOR}`);
  checkForm(header, HEADER_FORM, "the replay's header");
  const voxels = header.world.size.reduce((product, edge) => product * edge, 1);
  if (voxels > MAX_VOXELS)
    throw new ReplayError(
      `the replay's header says world.size is ${header.world.size.join(" x ")}, expected at most ${MAX_VOXELS} voxels`,
    );
  if (header.roster.length !== header.mechs) throw new ReplayError("the replay's roster does not match its mechs");
  return header;
}

export function decodeHeader(data: Uint8Array): Header {
  return checkHeader(unpackMap(data, RecordType.HEADER) as unknown as Header);
}

/** Decode a WORLD payload; the file's z-fastest order becomes x-fastest. */
export function decodeWorld(data: Uint8Array): World {
  if (data.length < WORLD_HEAD_BYTES) throw new ReplayError("the world is truncated");
  const view = new DataView(data.buffer, data.byteOffset, WORLD_HEAD_BYTES);
  const [sizeX, sizeY, sizeZ] = [view.getUint32(0, true), view.getUint32(4, true), view.getUint32(8, true)];
  const stored = data.subarray(WORLD_HEAD_BYTES);
  if (stored.length !== sizeX * sizeY * sizeZ || !(sizeZ > 0))
    throw new ReplayError("the world's size does not match its voxels");
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

/** Decode the WORLD record of a file, which must have the size in its header. */
export function decodeFileWorld(file: Uint8Array, head: RecordHead, size: readonly number[]): World {
  const voxels = size[0] * size[1] * size[2];
  if (head.raw !== WORLD_HEAD_BYTES + voxels)
    throw new ReplayError(`the world has ${head.raw} bytes, expected ${WORLD_HEAD_BYTES + voxels}`);
  const world = decodeWorld(payload(file, head));
  if (world.size.some((edge, axis) => edge !== size[axis]))
    throw new ReplayError("the world has another size than the header says");
  return world;
}

/** Write integers times `scale` into an array. */
function physical<T extends Float32Array | Float64Array>(ints: ArrayLike<number>, scale: number, into: T): T {
  for (let i = 0; i < ints.length; i++) into[i] = ints[i] * scale;
  return into;
}

type Blocks = readonly [number, Uint8Array][];

/** Return the blocks of a record's tables; throws unless each has a number of rows and bytes. */
function blocksOf(value: unknown): Blocks {
  const isBlock = (block: unknown) =>
    Array.isArray(block) &&
    block.length === 2 &&
    Number.isInteger(block[0]) &&
    block[0] >= 0 &&
    block[0] <= MAX_ROWS &&
    block[1] instanceof Uint8Array;
  if (!Array.isArray(value) || value.length > MAX_TABLES || !value.every(isBlock))
    throw new ReplayError(`record has invalid tables, expected each with at most ${MAX_ROWS} rows`);
  return value as Blocks;
}

/** Throw unless a record with these tables and further values stays within the limit. */
function checkValues(specs: readonly TableSpec[], blocks: Blocks, values: number): void {
  const total = specs.reduce((sum, { columns }, i) => sum + columns.length * (blocks[i]?.[0] ?? 0), values);
  if (!(total <= MAX_VALUES)) throw new ReplayError(`record has ${total} values, expected at most ${MAX_VALUES}`);
}

/** Decode the table with a name, or return an empty one; throws where one of its columns is missing. */
function table<Names extends string>(
  specs: readonly TableSpec[],
  blocks: Blocks,
  name: string,
  columns: readonly Names[],
): Rows<Names> {
  const at = specs.findIndex((spec) => spec.name === name);
  const [count, data] = blocks[at] ?? [0, new Uint8Array()];
  const decoded = count > 0 ? decodeBlock(specs[at].columns, data, count, () => 1) : null;
  const result: Record<string, Float64Array | number> = { count };
  for (const column of columns) {
    const got = decoded?.get(column);
    if (decoded && !got) throw new ReplayError(`table "${name}" has no column "${column}"`);
    result[column] = got ? physical(got.ints, got.spec.scale, new Float64Array(count)) : new Float64Array();
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

type RunRows = Rows<"cell" | "run" | "material">;

/** Return how many voxels the runs of a table cover; throws if one lies outside the map. */
function countCells(rows: RunRows, [sizeX, sizeY, sizeZ]: readonly number[]): number {
  let count = 0;
  for (let row = 0; row < rows.count; row++) {
    const [cell, run] = [rows.cell[row], rows.run[row]];
    const inside = Number.isInteger(cell) && Number.isInteger(run) && cell >= 0 && run >= 0;
    if (!inside || cell + run > sizeX * sizeY * sizeZ) throw new ReplayError("a chunk edits voxels outside the map");
    count += run;
  }
  return count;
}

/** Expand the run lengths of a voxel table to one row per cell, cells numbered x fastest. */
function expandRuns(rows: RunRows, count: number, size: readonly number[]): BaseRows {
  const [sizeX, sizeY, sizeZ] = size;
  const cells = { cell: new Uint32Array(count), material: new Uint8Array(count), count };
  let at = 0;
  for (let row = 0; row < rows.count; row++) {
    for (let i = 0; i < rows.run[row]; i++, at++) {
      const stored = rows.cell[row] + i;
      cells.cell[at] = Math.floor(stored / sizeZ) + sizeX * sizeY * (stored % sizeZ);
      cells.material[at] = rows.material[row];
    }
  }
  return cells;
}

function expandTicks(rows: Rows<"tick" | "run">, count: number, tick0: number): Float64Array {
  const ticks = new Float64Array(count);
  for (let row = 0, at = 0; row < rows.count; at += rows.run[row++]) {
    ticks.fill(rows.tick[row] + tick0, at, at + rows.run[row]);
  }
  return ticks;
}

function arrayBytes(value: unknown): number {
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (value === null || typeof value !== "object") return 0;
  return Object.values(value).reduce((sum: number, part) => sum + arrayBytes(part), 0);
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

/** Return the policy columns of a chunk, or null without them; `column` returns one with `k` values per mech. */
function insightOf(header: Header, column: (name: string, k: number) => Float32Array): Insight | null {
  const { insight } = header;
  if (!insight) return null;
  return {
    action: column("action", insight.actions.length),
    value: column("value", 1),
    reward: column("reward", insight.terms.length),
    contact: column("contact", insight.contacts),
    sees: Uint8Array.from(column("sees", Math.ceil(header.mechs / 8))),
    chance: insight.chances ? column("chance", insight.chances.length) : new Float32Array(),
  };
}

const EVENT_COLUMNS = ["tick", "kind", "actor", "target", "weapon", "value", "flags", "x", "y", "z"] as const;
const ROUND_COLUMNS = ["frame", "owner", "slot", "weapon", "age", "x", "y", "z", "yaw", "pitch"] as const;
const CLOUD_COLUMNS = ["tick", "actor", "x", "y", "z"] as const;
const BASE_COLUMNS = ["cell", "run", "material"] as const;
const EDIT_COLUMNS = ["tick", ...BASE_COLUMNS] as const;

export function decodeChunk(header: Header, head: RecordHead, data: Uint8Array): Chunk {
  const record = unpackMap(data, RecordType.CHUNK) as unknown as ChunkRecord;
  const [frames, mechs] = [record.f, header.mechs];
  if (!(Number.isInteger(frames) && frames >= 1 && frames <= MAX_FRAMES))
    throw new ReplayError(`chunk has ${String(frames)} frames`);
  if (!(record.c instanceof Uint8Array)) throw new ReplayError("chunk has no frames");
  const blocks = blocksOf(record.t);
  const entities = { frame: 1, team: 2, mech: mechs };
  const widthOf = (spec: FrameColumnSpec) => entities[spec.per] * spec.k;
  const width = header.columns.reduce((sum, spec) => sum + widthOf(spec), 0);
  checkValues(header.tables, blocks, frames * width);
  const columns = decodeBlock(header.columns, record.c, frames, widthOf);
  const column = (name: string, k: number) => {
    const got = columns.get(name);
    if (got?.ints.length !== frames * k) throw new ReplayError(`the replay has no column "${name}" of ${k} values`);
    return got;
  };
  const ofFrame = (name: string, k: number) => {
    const { ints, spec } = column(name, k);
    return physical(ints, spec.scale, new Float64Array(ints.length));
  };
  const ofMechs = (name: string, k: number) => {
    const { ints, spec } = column(name, mechs * k);
    return physical(ints, spec.scale, new Float32Array(ints.length));
  };
  const mech = Object.fromEntries(MECH_COLUMNS.map((name) => [name, ofMechs(name, 1)])) as Chunk["mech"];
  const tick = ofFrame("tick", 1);
  const [last, length] = [tick[frames - 1], head.tick1 - head.tick0];
  if (tick[0] !== 0 || last !== length || tick.some((at, f) => at < tick[Math.max(0, f - 1)]))
    throw new ReplayError(`chunk has ticks ${tick[0]} to ${last}, expected 0 to ${length}`);
  const fromMatch = (ticks: Float64Array) => ticks.map((tick) => tick + head.tick0);
  const events = sortRows(table(header.tables, blocks, "events", EVENT_COLUMNS), EVENT_COLUMNS, "tick");
  const rounds = sortRows(table(header.tables, blocks, "rounds", ROUND_COLUMNS), ROUND_COLUMNS, "frame");
  const clouds = sortRows(table(header.tables, blocks, "clouds", CLOUD_COLUMNS), CLOUD_COLUMNS, "tick");
  const baseRuns = table(header.tables, blocks, "base", BASE_COLUMNS);
  const editRuns = table(header.tables, blocks, "edits", EDIT_COLUMNS);
  const [baseCells, editCells] = [baseRuns, editRuns].map((runs) => countCells(runs, header.world.size));
  if (baseCells + editCells > MAX_CELLS) throw new ReplayError(`a chunk edits more than ${MAX_CELLS} voxels`);
  const chunk = {
    tick0: head.tick0,
    tick1: head.tick1,
    frames,
    mechs,
    mech,
    ...walkedDistance(mech, frames, mechs),
    tick: fromMatch(tick),
    score: ofFrame("score", 2),
    tonnage: ofFrame("tonnage", 2),
    cooldown: ofMechs("cooldown", header.cooldowns.length),
    insight: insightOf(header, ofMechs),
    events: { ...events, tick: fromMatch(events.tick) } as EventRows,
    rounds: rounds as RoundRows,
    clouds: { ...clouds, tick: fromMatch(clouds.tick) } as CloudRows,
    base: expandRuns(baseRuns, baseCells, header.world.size),
    edits: {
      ...expandRuns(editRuns, editCells, header.world.size),
      tick: expandTicks(editRuns, editCells, head.tick0),
    },
  };
  return { ...chunk, bytes: arrayBytes(chunk) };
}

const INDEX_ROWS: Record<string, number> = {
  chunks: MAX_CHUNKS,
  series: MAX_SECONDS,
  markers: MAX_MARKERS,
  win: MAX_WIN_POINTS,
};

/** Return the leading chunks of a match that follow each other and end within the longest match. */
export function validChunks(header: Header, heads: readonly RecordHead[]): RecordHead[] {
  const end = MAX_SECONDS * header.tick_hz;
  const wrong = heads.findIndex(({ tick0, tick1 }, i) => {
    const previous = i > 0 ? heads[i - 1].tick1 : 0;
    return !(previous <= tick0 && tick0 <= tick1 && tick1 <= Math.min(tick0 + MAX_CHUNK_TICKS, end));
  });
  return wrong < 0 ? [...heads] : heads.slice(0, wrong);
}

/** Decode an INDEX payload into the timeline that the server's index route would return. */
export function decodeIndex(data: Uint8Array): Timeline {
  const record = unpackMap(data, RecordType.INDEX) as unknown as IndexRecord;
  const blocks = blocksOf(record.t);
  checkValues(INDEX_TABLES, blocks, 0);
  INDEX_TABLES.forEach(({ name }, i) => {
    const rows = blocks[i]?.[0] ?? 0;
    if (rows > INDEX_ROWS[name]) throw new ReplayError(`index has ${rows} rows of ${name}`);
  });
  if (record.outcome) checkForm(record.outcome, OUTCOME_FORM, "the replay's outcome");
  const pairs = ["score", "alive", "hp", "damage"] as const;
  const names = pairs.flatMap((name) => [`${name}_blue`, `${name}_red`]);
  const rows: Rows<string> = table(INDEX_TABLES, blocks, "series", ["second", ...names]);
  const pair = (name: string): [number[], number[]] => [[...rows[`${name}_blue`]], [...rows[`${name}_red`]]];
  const series: Series = {
    second: [...rows.second],
    score: pair("score"),
    alive: pair("alive"),
    hp: pair("hp"),
    damage: pair("damage"),
  };
  const marks = table(INDEX_TABLES, blocks, "markers", ["tick", "kind", "actor", "target"]);
  const markers: IndexView["markers"] = [];
  for (let i = 0; i < marks.count; i++) markers.push([marks.tick[i], marks.kind[i], marks.actor[i], marks.target[i]]);
  const win = table(INDEX_TABLES, blocks, "win", ["tick", "blue", "low", "high", ...WIN_GROUPS]);
  const { moments } = record;
  if (!Array.isArray(moments) || moments.length > MAX_MOMENTS)
    throw new ReplayError(`index has no list of at most ${MAX_MOMENTS} moments`);
  for (const moment of moments) checkForm(moment, MOMENT_FORM, "a moment of the replay");
  const { coached = [] } = record;
  if (!Array.isArray(coached) || coached.length > MAX_COACHINGS)
    throw new ReplayError(`index has no list of at most ${MAX_COACHINGS} coachings`);
  for (const one of coached) checkForm(one, COACHING_FORM, "a list of mistakes of the replay");
  return {
    series,
    markers,
    outcome: record.outcome || null,
    win: {
      tick: [...win.tick],
      blue: [...win.blue],
      low: [...win.low],
      high: [...win.high],
      parts: WIN_GROUPS.map((name) => [...win[name]]),
    },
    moments,
    coached,
  };
}
