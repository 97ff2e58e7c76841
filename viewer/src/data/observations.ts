// What the policy of a mech observed, row by row, as the server computes it by playing the match again (packed by
// echelon/arena/observations.py), and where it believed its contacts to be. Pure but for the requests.

import type { Header } from "../protocol.gen";
import { frameAt } from "../interpolate";
import { inflate } from "./container";
import { ReplayError } from "./payload";
import type { Chunk } from "./replay";

export interface ObservationColumn {
  readonly name: string; // block, slot and feature, e.g. "contacts[3].ahead"
  readonly low: number;
  readonly high: number;
  readonly unit: string;
}

/** Observations of one mech: a row per environment step, and one after the last. */
export interface Observations {
  readonly tick: number; // of the first row
  readonly step: number; // ticks between rows
  readonly count: number; // rows, S
  readonly columns: readonly ObservationColumn[];
  readonly values: readonly Float32Array[]; // by column, shape [S]
  readonly slots: number; // contact rows, K
  readonly contacts: Int32Array; // mech in each contact row, -1 for none, shape [S, K]
}

interface About {
  tick: number;
  step: number;
  rows: number;
  contacts: number;
  columns: [name: string, low: number, high: number, unit: string][];
}

export function unpackObservations(data: Uint8Array): Observations {
  if (data.length < 4) throw new ReplayError("the observations are empty");
  const body = inflate(data.subarray(4), new DataView(data.buffer, data.byteOffset).getUint32(0, true));
  const size = new DataView(body.buffer, body.byteOffset).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(body.subarray(4, 4 + size))) as About;
  const { tick, step, rows, contacts: slots, columns } = about;
  const end = 4 + size + 4 * rows * slots;
  if (body.length !== end + 4 * rows * columns.length) throw new ReplayError("the observations have another size");
  const words = body.slice(4 + size).buffer;
  return {
    ...{ tick, step, count: rows, slots },
    columns: columns.map(([name, low, high, unit]) => ({ name, low, high, unit })),
    contacts: new Int32Array(words, 0, rows * slots),
    values: columns.map((_, k) => new Float32Array(words, 4 * rows * (slots + k), rows)),
  };
}

/** Return the row that the policy received last at a tick. */
export function rowAt({ tick: first, step, count }: Observations, tick: number): number {
  return Math.max(0, Math.min(count - 1, Math.floor((tick - first) / step)));
}

const EDGES = "map edges";

/** Return a distance column's value in voxels, null for other units. */
export function voxels({ world }: Header, unit: string, value: number): number | null {
  if (unit === EDGES) return value * Math.max(...world.size);
  const range = /^([\d.]+) vox$/.exec(unit);
  return range ? value * Number(range[1]) : null;
}

/** Where a pilot believes a contact to be. */
export interface Belief {
  readonly mech: number;
  readonly slot: number; // row of the observation
  readonly at: readonly [number, number, number]; // [vox]
  readonly sure: number; // certainty, 0 to 1
}

/** Return the contacts in the row of a tick, where the pilot believes them. */
export function beliefsAt(found: Observations, header: Header, chunk: Chunk, tick: number, pilot: number): Belief[] {
  const row = rowAt(found, tick);
  const edge = Math.max(...header.world.size);
  const place = new Map(found.columns.map(({ name }, k) => [name, k]));
  // the row is relative to where the pilot was in its step
  const own = frameAt(chunk, found.tick + row * found.step).frame * chunk.mechs + pilot;
  const [sin, cos] = [Math.sin(chunk.mech.yaw[own]), Math.cos(chunk.mech.yaw[own])];
  const beliefs: Belief[] = [];
  for (let slot = 0; slot < found.slots; slot++) {
    const value = (name: string) => found.values[place.get(`contacts[${slot}].${name}`) ?? -1]?.[row] ?? 0;
    const mech = found.contacts[row * found.slots + slot];
    const sure = value("valid");
    if (mech < 0 || mech >= header.mechs || sure <= 0) continue;
    const [ahead, left] = [value("ahead") * edge, value("left") * edge];
    const [x, y] = [chunk.mech.x[own] + ahead * cos - left * sin, chunk.mech.y[own] + ahead * sin + left * cos];
    beliefs.push({ mech, slot, sure, at: [x, y, chunk.mech.z[own] + value("up") * edge] });
  }
  return beliefs;
}

/** Observations of the mech that was asked for last. */
export class ObservationStore {
  problem = ""; // why there are none, "" while they are awaited or there
  version = 0;
  private mech = -1;
  private found: Observations | null = null;

  constructor(private readonly read: (mech: number) => Promise<Observations>) {}

  /** Return the observations of a mech, null until they have arrived; asks for them if `wanted`. */
  of(mech: number, wanted: boolean): Observations | null {
    if (mech !== this.mech && wanted) {
      [this.mech, this.found, this.problem] = [mech, null, ""];
      this.read(mech).then(
        (found) => mech === this.mech && ((this.found = found), this.version++),
        (error: Error) => mech === this.mech && ((this.problem = error.message), this.version++),
      );
    }
    return mech === this.mech ? this.found : null;
  }
}
