// Saves and loads the exact state of a match between two steps as the payload of a STATE record: the counterpart of
// echelon/env/match_state.py and echelon/replay/extra_records.py. Values of a foreign file are not limited: they reach
// nothing but the memory of the module.

import { encode } from "@msgpack/msgpack";
import { ReplayError, unpackMap } from "../data/payload";
import { type Header, RecordType } from "../protocol.gen";
import type { Description, Simulator } from "./simulator";

/** What echelon/web/record_tables.py adds to a description. */
export interface RecordTables {
  header: [Partial<Header>, Partial<Header>]; // entries before and after those of a match
  tutorial: Partial<Header>; // entries that differ in the tutorial
  chunk_frames: number; // environment steps of a chunk
  state_ticks: number; // ticks between two states
  cloud_ticks: number; // life of a cloud
  ratings: Record<string, number>; // of levels and checkpoints
  state: string[]; // arrays that a state has
  tracks: string[]; // those of the past of mechs
  orders: Record<string, number>; // those of orders, and their values without one
  terms: string; // names of the reward terms, one a line
  material_hp: number[];
  planes: Record<string, boolean[]>; // materials that set a bit of each plane
}

export type RecordDescription = Description & { record: RecordTables };

/** Return bytes with all first ones of the elements before all second ones. */
export function planesOf(bytes: Uint8Array, size: number): Uint8Array {
  const count = bytes.length / size;
  return bytes.map((_, i) => bytes[(i % count) * size + Math.trunc(i / count)]);
}

const TYPES: Record<string, string> = {
  float32: "f4",
  int32: "i4",
  int64: "i8",
  uint8: "u1",
  uint16: "u2",
  uint32: "u4",
};
const [EDIT_CELL, EDIT_MATERIAL, EDIT_HP, TERMS] = ["edit_cell", "edit_material", "edit_hp", "term_names"];

/** Element type, shape and planes of bytes. */
export type Stored = [string, number[], Uint8Array];

function tablesOf(simulator: Simulator): RecordTables {
  return (simulator.description as RecordDescription).record;
}

function stored(values: ArrayBufferView, type: string, shape: number[]): Stored {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return [type, shape, planesOf(bytes, Number(type[1]))];
}

export function saveState(simulator: Simulator): Uint8Array {
  const { state, tracks, orders, terms } = tablesOf(simulator);
  const ordered = simulator.array("order_kind").some((kind) => kind !== 0);
  const parts = new Map<string, Stored>();
  for (const name of state) {
    if (name in orders && !ordered) continue;
    const { dtype, shape } = simulator.description.arrays[name];
    const values = tracks.includes(name) ? readTrack(simulator, name) : simulator.array(name);
    parts.set(name, stored(values, TYPES[dtype], shape.slice(1)));
  }
  const cells = editedCells(simulator);
  for (const [name, array, type] of [
    [EDIT_MATERIAL, "material", "u1"],
    [EDIT_HP, "voxel_hp", "u2"],
  ]) {
    const values = simulator.array(array);
    const kept = values.slice(0, cells.length);
    cells.forEach((cell, i) => (kept[i] = values[cell]));
    parts.set(name, stored(kept, type, [cells.length]));
  }
  parts.set(EDIT_CELL, stored(BigInt64Array.from(cells, BigInt), "i8", [cells.length]));
  const text = new TextEncoder().encode(terms);
  parts.set(TERMS, stored(text, "u1", [text.length]));
  const a = Object.fromEntries([...parts.keys()].sort().map((name) => [name, parts.get(name)]));
  return encode({ v: simulator.description.sim_version, a });
}

/** Return a copy of the past of mechs, 0 except at the steps in which another one last saw them. */
function readTrack(simulator: Simulator, name: string) {
  const [, depth, mechs] = simulator.description.arrays[name].shape;
  const values = simulator.array(name).slice();
  const width = values.length / depth / mechs;
  const now = simulator.array("decision")[0];
  const read = new Set<number>();
  simulator.array("seen").forEach((at, i) => {
    if (at >= 0 && at > now - depth) read.add((at % depth) * mechs + (i % mechs));
  });
  for (let i = 0; i < depth * mechs; i++) if (!read.has(i)) values.fill(0, i * width, (i + 1) * width);
  return values;
}

/** Return the voxels that differ from the map. */
function editedCells(simulator: Simulator): number[] {
  const [material, hp, base] = ["material", "voxel_hp", "bank_material"].map((name) => simulator.array(name));
  const full = tablesOf(simulator).material_hp;
  const cells: number[] = [];
  for (let i = 0; i < base.length; i++) if (material[i] !== base[i] || hp[i] !== full[base[i]]) cells.push(i);
  return cells;
}

/** Give a state to a match that was started on the same map, and observe; throws before anything changes. */
export function loadState(simulator: Simulator, payload: Uint8Array): void {
  const { state, orders, terms } = tablesOf(simulator);
  const { sim_version, arrays } = simulator.description;
  const { v, a } = unpackMap(payload, RecordType.STATE) as { v: number; a: Record<string, Stored> };
  if (v !== sim_version) throw new ReplayError(`the state has simulation version ${v}, expected ${sim_version}`);
  const read = (name: string, type: string, shape: readonly number[] | null): Uint8Array => {
    const part = a?.[name];
    const count = (shape ?? part?.[1])?.reduce((product, edge) => product * edge, 1);
    const fits = part?.[0] === type && (shape ?? part[1]).join() === part[1].join();
    if (!fits || part[2]?.length !== count! * Number(type[1]))
      throw new ReplayError(`the state has no array "${name}" of this game`);
    return planesOf(part[2], part[2].length / Number(type[1]));
  };
  const found = state
    .filter((name) => !(name in orders) || name in a)
    .map((name) => [name, read(name, TYPES[arrays[name].dtype], arrays[name].shape.slice(1))] as const);
  if (new TextDecoder().decode(read(TERMS, "u1", null)) !== terms)
    throw new ReplayError("the state has other reward terms than this game");
  const cells = new BigInt64Array(read(EDIT_CELL, "i8", null).buffer);
  const material = read(EDIT_MATERIAL, "u1", [cells.length]);
  const hp = new Uint16Array(read(EDIT_HP, "u2", [cells.length]).buffer);
  const { length } = simulator.array("material");
  if (cells.some((cell) => cell < 0n || cell >= length))
    throw new ReplayError("the state changes voxels outside the map");
  for (const [name, value] of Object.entries(orders)) simulator.array(name).fill(value);
  for (const [name, bytes] of found) {
    const values = simulator.array(name);
    new Uint8Array(values.buffer, values.byteOffset, values.byteLength).set(bytes);
  }
  writeVoxels(simulator, Array.from(cells, Number), material, hp);
  simulator.run("observe");
}

/** Write the voxels of the map, changed in these cells. */
function writeVoxels(simulator: Simulator, cells: number[], material: Uint8Array, hp: Uint16Array): void {
  const { material_hp, planes } = tablesOf(simulator);
  const [grid, left, base] = ["material", "voxel_hp", "bank_material"].map((name) => simulator.array(name));
  grid.set(base);
  for (let i = 0; i < base.length; i++) left[i] = material_hp[base[i]];
  const [, , rows, columns] = simulator.description.arrays.material.shape;
  for (const [name, blocks] of Object.entries(planes)) {
    const plane = simulator.array(name); // bytes of words with a bit for each layer
    plane.set(simulator.array(name.replace(/(.*)_plane/, "bank_$1")));
    cells.forEach((cell, i) => {
      const [z, column] = [Math.trunc(cell / (rows * columns)), cell % (rows * columns)];
      const [at, bit] = [8 * column + (z >> 3), 1 << (z & 7)];
      plane[at] = blocks[material[i]] ? plane[at] | bit : plane[at] & ~bit;
    });
  }
  cells.forEach((cell, i) => {
    grid[cell] = material[i];
    left[cell] = hp[i];
  });
}
