// Records a match as an .ecr file: the counterpart of echelon/replay/record.py and writer.py. The program `frame`, with
// which every step ends, leaves a frame, events and changed voxels in arrays. The file has neither win probability nor
// moments; readers of echelon compute them.

import { encode } from "@msgpack/msgpack";
import { encodeBlock } from "../data/columns";
import { packRecord, payload, type RecordHead, recordLength, scanFile } from "../data/container";
import { decodeChunk } from "../data/decode";
import { rebuildIndex, teamTotals } from "../data/series";
import { hex, sha256 } from "../data/sha256";
import {
  CODEC_NONE,
  type ColumnSpec,
  END_MAGIC,
  type FrameColumnSpec,
  type Header,
  INDEX_TABLES,
  MAGIC,
  MAX_MECHS,
  REASONS,
  RecordType,
  type RosterEntry,
  type TableSpec,
  type TeamHeader,
  WORLD_HEAD_BYTES,
} from "../protocol.gen";
import { planesOf, type RecordDescription, type RecordTables, saveState } from "./match_state";
import type { Simulator } from "./simulator";

/** Entries of a header that the simulator does not know. */
export interface HeaderParts {
  created?: number; // time [s], now unless given
  teams: [TeamHeader, TeamHeader];
  map_seed: number;
  about?: Partial<Header>; // further entries
  flown?: readonly (readonly [string, string])[]; // name and checkpoint of the pilot of each mech
}

const [TICK, KIND, CELL, MATERIAL, OWNER, SLOT] = [0, 1, 1, 2, 1, 2]; // columns of rows
const COUNTERS = ["frame_count", "journal_count", "round_count", "cloud_count", "edit_count"];
const MAX_RUN = 255;
const HASH_BYTES = 8;
const NO_OUTCOME = { winner: -1, reason: "" };
const ENTITIES = { frame: 1, team: 2 };

type Rows = number[][];

/** Return the values of a frame column in a row of a match with this header. */
export function widthIn({ mechs }: Header): (spec: FrameColumnSpec) => number {
  return ({ per, k }) => k * (per === "mech" ? mechs : ENTITIES[per]);
}

/** Records one match; made at its start, or where a loaded state is played on. */
export class Recording {
  readonly header: Header;
  private readonly tables: RecordTables;
  private readonly cells: Uint8Array; // material of each cell after the fetched edits
  private readonly firstTick: number;
  private readonly edited = new Map<number, number>(); // cells that differ from the map
  private readonly world: [number, number]; // offset and length of its record
  private parts: Uint8Array[] = [];
  private offset = 0;
  private steps = 0;
  private fetched = 0; // frames
  private last: Int32Array | null = null; // frame
  private base: Rows = [];
  private rounds: Rows = []; // of the last frame
  private clouds: Rows = []; // that may still exist
  private hash: Uint8Array = new Uint8Array(HASH_BYTES);
  private ordered: Int32Array;
  private orders: Rows = [];
  private seats: readonly number[] = [];
  private inputs: Int8Array[] = [];
  private inputsTick = 0;
  private outcome: { winner: number; reason: string } | null = null;

  constructor(
    private readonly simulator: Simulator,
    about: HeaderParts,
  ) {
    this.tables = (simulator.description as RecordDescription).record;
    for (const name of COUNTERS) simulator.array(name)[0] = 0;
    simulator.array("page_open")[0] = 1;
    simulator.run("frame");
    const world = cellsInOrder(simulator, "bank_material");
    const map = new Uint8Array(WORLD_HEAD_BYTES + world.length);
    map.set(new Uint8Array(Uint32Array.from(simulator.array("size")).buffer));
    map.set(world, WORLD_HEAD_BYTES);
    this.header = headerOf(simulator, about, hex(sha256(map)));
    this.firstTick = this.tick;
    this.cells = cellsInOrder(simulator, "material");
    this.cells.forEach((material, cell) => {
      if (material !== world[cell]) this.edited.set(cell, material);
    });
    this.base = runsOf([...this.edited]);
    this.ordered = this.orderedAt();
    if (this.firstTick === 0) this.ordered.fill(-1);
    this.append(Uint8Array.from(MAGIC));
    this.append(packRecord(RecordType.HEADER, encode(this.header)));
    this.world = [this.offset, this.append(packRecord(RecordType.WORLD, map))];
    this.writeState();
  }

  /** Keep the inputs of human pilots in the step just played, a vector of all seats for each tick. */
  addInputs(seats: readonly number[], inputs: readonly Int8Array[]): void {
    const tick = this.tick - inputs.length;
    if (seats.join() !== this.seats.join() || tick !== this.inputsTick + this.inputs.length) {
      this.writeInputs();
      [this.seats, this.inputsTick] = [[...seats], tick];
    }
    this.inputs.push(...inputs.map((input) => input.slice()));
  }

  /** Call it after every environment step. */
  afterStep(): void {
    if (this.outcome) return;
    this.steps++;
    this.addOrders();
    if (this.simulator.array("page_open")[0] === 0) {
      this.fetch();
      const [winner, reason] = ["done_winner", "done_reason"].map((name) => this.simulator.array(name)[0]);
      this.outcome = { winner, reason: REASONS[reason] };
      return;
    }
    this.writeState();
    if (this.steps % this.tables.chunk_frames === 0) this.fetch();
  }

  /** Return the file; nothing is recorded afterwards. */
  finish(): Uint8Array {
    this.fetch();
    const file = joined(this.parts);
    const { header, outcome } = this;
    const heads = scanFile(file).chunks;
    const read = (head: RecordHead) => decodeChunk(header, head, payload(file, head));
    const { series, markers } = rebuildIndex(header, heads, read);
    const { second, score, alive, hp, damage } = series;
    const columns = [second, ...score, ...alive, ...hp, ...damage];
    const chunk = read(heads[heads.length - 1]);
    const totals = teamTotals(chunk, chunk.frames - 1, header.roster.map(({ team }) => team)); // prettier-ignore
    const rows: Record<string, Rows> = {
      chunks: heads.map((head) => [head.offset, recordLength(head), head.tick0, head.tick1]),
      series: second.map((_, i) => columns.map((column) => column[i])),
      markers: markers.sort(byColumns),
      win: [],
    };
    const index = {
      t: INDEX_TABLES.map((table) => block(table.columns, inSteps(table, rows[table.name]))),
      world: this.world,
      outcome: {
        ...(outcome ?? NO_OUTCOME),
        ticks: chunk.tick1,
        score: Array.from(chunk.score.slice(-2), cents),
        ...totals,
      },
      moments: [],
    };
    const trailer = new Uint8Array(8 + END_MAGIC.length);
    new DataView(trailer.buffer).setBigUint64(0, BigInt(file.length), true);
    trailer.set(END_MAGIC, 8);
    const end = [
      packRecord(RecordType.INDEX, encode(index)),
      packRecord(RecordType.TRAILER, trailer, [0, 0], CODEC_NONE),
    ];
    this.outcome ??= NO_OUTCOME;
    return joined([file, ...end]);
  }

  /** The file without its end, up to the last whole chunk. */
  get soFar(): Uint8Array {
    return joined(this.parts);
  }

  private get tick(): number {
    return this.simulator.array("tick")[0];
  }

  private append(bytes: Uint8Array): number {
    this.parts.push(bytes);
    this.offset += bytes.length;
    return bytes.length;
  }

  private writeState(): void {
    const tick = this.tick;
    if (tick > 0 && (tick % this.tables.state_ticks === 0 || tick === this.firstTick))
      this.append(packRecord(RecordType.STATE, saveState(this.simulator), [tick, tick]));
  }

  private orderedAt(): Int32Array {
    return Int32Array.from(this.simulator.array("order_since"));
  }

  /** Keep the orders that mechs got before the step just played, or in it. */
  private addOrders(): void {
    const [since, kind, named] = ["order_since", "order_kind", "order_mech"].map((name) => this.simulator.array(name));
    since.forEach((at, mech) => {
      if (at !== this.ordered[mech] && at >= 0)
        this.orders.push([at * this.header.frame_ticks, mech, kind[mech], named[mech]]);
    });
    this.ordered = this.orderedAt();
  }

  private writeInputs(): void {
    if (this.inputs.length > 0 && this.seats.length > 0) {
      const end = this.inputsTick + this.inputs.length;
      const actions = joined(this.inputs.map((input) => new Uint8Array(input.buffer)));
      const shape = [this.inputs.length, this.seats.length, this.inputs[0].length / this.seats.length];
      this.append(packRecord(RecordType.SEAT, encode({ s: this.seats, a: [shape, actions] }), [this.inputsTick, end]));
      this.inputsTick = end;
    }
    this.inputs = [];
    if (this.orders.length > 0) {
      const values = new Uint8Array(Int32Array.from(this.orders.flat()).buffer);
      const rows = encode({ o: ["i4", [this.orders.length, 4], planesOf(values, 4)] });
      this.append(packRecord(RecordType.ORDERS, rows, [this.orders[0][TICK], this.orders.at(-1)![TICK]]));
      this.orders = [];
    }
  }

  /** Return the rows of a log since the last fetch, the first `width` values of each. */
  private take(log: string, counter: string, width?: number): Rows {
    const [values, count] = [this.simulator.array(log), this.simulator.array(counter)];
    const [, rows, stride] = this.simulator.description.arrays[log].shape;
    const found = Array.from({ length: Math.min(count[0], rows) }, (_, row) => [
      ...values.subarray(row * stride, row * stride + (width ?? stride)),
    ]);
    count[0] = 0;
    return found;
  }

  /** Write a chunk with the frames since the last one, which it repeats. */
  private fetch(): void {
    const count = this.simulator.array("frame_count")[0];
    if (count === this.fetched || this.outcome) return;
    this.writeInputs();
    const { arrays } = this.simulator.description;
    const [, ring, width] = arrays.frames.shape;
    const [frames, digests] = [this.simulator.array("frames"), this.simulator.array("digests")];
    const at = Array.from({ length: count - this.fetched }, (_, i) => (this.fetched + i) % ring);
    const firstFrame = this.fetched - (this.last ? 1 : 0);
    const rows = at.map((row) => frames.slice(row * width, (row + 1) * width) as Int32Array);
    if (this.last) rows.unshift(this.last);
    const [tick0, tick1] = [rows[0][TICK], rows[rows.length - 1][TICK]];
    const columnsOf = (table: string) => this.header.tables.find(({ name }) => name === table)!.columns.length;
    const events = this.take("journal", "journal_count", columnsOf("events"));
    const edits = this.takeEdits(tick1);
    const rounds = [...this.rounds, ...this.take("round_log", "round_count")];
    this.rounds = rounds.filter(([frame]) => frame === count - 1);
    const clouds = [...this.clouds, ...this.take("cloud_log", "cloud_count")].sort(byColumns);
    this.clouds = clouds.filter((cloud) => cloud[TICK] > tick1 - this.tables.cloud_ticks);
    const state = at.map((row) =>
      bytesOf(digests.slice((row * digests.length) / ring, ((row + 1) * digests.length) / ring)),
    );
    const long = BigInt64Array.from(clouds.flat(), BigInt);
    this.hash = sha256(joined([this.hash, ...state, new Uint8Array(long.buffer)])).slice(0, HASH_BYTES);
    const since = (table: Rows, by = tick0) => table.map(([tick, ...row]) => [tick - by, ...row]);
    const tables: Record<string, Rows> = {
      events: since(events.sort((a, b) => a[KIND] - b[KIND])),
      rounds: since(rounds, firstFrame).sort((a, b) => (a[OWNER] - b[OWNER]) * MAX_MECHS + a[SLOT] - b[SLOT]),
      base: this.base,
      edits: since(runsOf(edits)),
      clouds: since(clouds),
    };
    const relative = rows.map((row) => row.map((value, i) => (i === TICK ? value - tick0 : value)));
    const chunk = {
      f: rows.length,
      c: encodeBlock(this.header.columns, relative, widthIn(this.header)),
      t: this.header.tables.map(({ name, columns }) => block(columns, tables[name])),
      h: this.hash,
    };
    this.append(packRecord(RecordType.CHUNK, encode(chunk), [tick0, tick1]));
    if (edits.length > 0) {
      for (const edit of edits) this.edited.set(edit[CELL], edit[MATERIAL]);
      this.base = runsOf([...this.edited].sort(byColumns));
    }
    [this.fetched, this.last] = [count, rows[rows.length - 1]];
  }

  /** Return the changed voxels, sorted; where the log was full, others have changed at `tick`. */
  private takeEdits(tick: number): Rows {
    const count = this.simulator.array("edit_count")[0];
    const edits = this.take("edit_log", "edit_count");
    for (const edit of edits) this.cells[edit[CELL]] = edit[MATERIAL];
    if (count > edits.length) {
      cellsInOrder(this.simulator, "material").forEach((material, cell) => {
        if (material !== this.cells[cell]) edits.push([tick, cell, (this.cells[cell] = material)]);
      });
    }
    return edits.sort((a, b) => a[TICK] - b[TICK] || a[CELL] - b[CELL]);
  }
}

function headerOf(simulator: Simulator, about: HeaderParts, sha: string): Header {
  const { header, ratings, tutorial } = (simulator.description as RecordDescription).record;
  const values = (name: string) => Array.from(simulator.array(name));
  const [team, pack, chassis, present] = ["team", "pack", "chassis", "present"].map(values);
  const count = [0, 0];
  const roster = team.map((side, m) => {
    const name = `${"BR"[side]}${++count[side]}`;
    return { team: side, pack: pack[m], chassis: chassis[m], name, present: present[m] === 1 } as RosterEntry;
  });
  const [weapon_prob] = values("weapon_prob");
  const teams = about.teams.map((one) => {
    const known = weapon_prob === 1 ? (ratings[one.level] ?? ratings[one.checkpoint]) : undefined;
    const rating = one.rating ?? known;
    return { ...one, ...(rating === undefined ? {} : { rating }) };
  });
  const { flown } = about;
  const named = flown && { names: flown.map(([name]) => name), checkpoints: flown.map(([, checkpoint]) => checkpoint) };
  return {
    ...header[0],
    created: about.created ?? Date.now() / 1000,
    teams,
    seed: values("seed")[0],
    map_seed: about.map_seed,
    ...about.about,
    ...header[1],
    ...(simulator.isTutorial ? tutorial : {}),
    zone: values("zone"),
    pilots: { script: values("script"), weapon_prob, ...named },
    roster,
    world: { sha256: sha, size: values("size") },
  } as Header;
}

/** Return materials in the order of cells: z fastest, y slowest. */
export function cellsInOrder(simulator: Simulator, name: string): Uint8Array {
  const [sizeX, sizeY, sizeZ] = simulator.array("size");
  const material = simulator.array(name);
  const [, , rows, columns] = simulator.description.arrays[name].shape;
  const cells = new Uint8Array(sizeX * sizeY * sizeZ);
  let at = 0;
  for (let y = 0; y < sizeY; y++)
    for (let x = 0; x < sizeX; x++)
      for (let z = 0; z < sizeZ; z++) cells[at++] = material[(z * rows + y) * columns + x];
  return cells;
}

/** Join adjacent cells of equal material: rows (..., cell, material) become rows (..., cell, run, material). */
function runsOf(rows: Rows): Rows {
  const runs: Rows = [];
  for (const row of rows) {
    const [tick, cell, material] = row.length === 3 ? row : [0, ...row];
    const run = runs.at(-1);
    const [last, length, kind] = run?.slice(-3) ?? [];
    const same = run !== undefined && last + length === cell && kind === material && length < MAX_RUN;
    if (same && (row.length < 3 || run[TICK] === tick)) run[run.length - 2]++;
    else runs.push([...row.slice(0, -1), 1, material]);
  }
  return runs;
}

/** Return the physical values of a table in steps of its columns. */
function inSteps({ columns }: TableSpec, rows: Rows): Rows {
  return rows.map((row) => row.map((value, i) => toEven(cents(value) / columns[i].scale)));
}

function cents(value: number): number {
  return toEven(value * 100) / 100;
}

/** Return the nearest integer, the even one of two. */
export function toEven(value: number): number {
  const up = Math.round(value);
  return up - value === 0.5 && up % 2 !== 0 ? up - 1 : up;
}

function block(columns: readonly ColumnSpec[], rows: Rows): [number, Uint8Array] {
  return [rows.length, encodeBlock(columns, rows, () => 1)];
}

function byColumns(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, i) => value !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
}

function bytesOf(values: ArrayBufferView): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
