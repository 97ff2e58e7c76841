// What the mech of a seat perceives, as frames: the counterpart of echelon/play/perception.py, which explains it, with
// equal bytes. Sums and products are rounded to 32 bits as numpy rounds them.

import { EventKind, MechFlag, PLAY_CONTACT_COLUMNS, PLAY_EVENT_COLUMNS, type PlayFrame, TABLES } from "../protocol.gen";
import type { SensedArrays } from "./sensed_arrays";

type Columns<Names extends readonly string[]> = Record<Names[number], number>;
type Place = readonly [number, number, number];

const NO_MECH = -1;
const [KNOWN, OWN] = [1, 2]; // marks of a hostile that the pilot knows of, and of its own mech
const CLEAR = 1; // value of `sight` for a clear line
const f = Math.fround;
const indices = (names: readonly string[]) => Object.fromEntries(names.map((name, i) => [name, i]));
const AT = indices(PLAY_CONTACT_COLUMNS) as Columns<typeof PLAY_CONTACT_COLUMNS>;
const EVENT = indices(PLAY_EVENT_COLUMNS) as Columns<typeof PLAY_EVENT_COLUMNS>;
const EVENT_SCALES = TABLES.find(({ name }) => name === "events")!.columns.map(({ scale }) => f(scale));
const STATES = ["fallen", "shutdown", "painted", "suppressed", "ecm", "eccm", "vent"] as const;

const bytes = (values: readonly number[]) => new Uint8Array(Float32Array.from(values).buffer);
const norm = ([x, y, z]: Place) => f(Math.sqrt(f(f(f(x * x) + f(y * y)) + f(z * z))));
const minus = (a: Place, b: Place): Place => [f(a[0] - b[0]), f(a[1] - b[1]), f(a[2] - b[2])];
const place = (values: ArrayLike<number>, at: number): Place => [
  values[3 * at],
  values[3 * at + 1],
  values[3 * at + 2],
];

export class Perception {
  /** Mechs whose orders are shown. */
  readonly ordered: readonly number[];
  /** The map as the pilot knows it, x fastest. */
  readonly knownMaterial: Uint8Array;
  private read = 0; // rows of the journal that were read
  private sentTick = -1;
  private killer: number[] = [];
  private events: number[][] = [];
  private edits: number[] = [];
  private sensedAt = 0; // tick
  private rows: number[][] = []; // contacts, those in sight first
  private sighted = 0; // contacts in sight

  /** `before` is the perception of the pilot until its mech's end. */
  constructor(
    private readonly arrays: SensedArrays,
    readonly mech: number,
    before?: Perception,
  ) {
    const { pack } = arrays.tables;
    this.ordered = Array.from({ length: pack }, (_, i) => mech - (mech % pack) + i);
    this.knownMaterial = before?.knownMaterial ?? materialsOf(arrays);
    if (before)
      [this.read, this.killer, this.events, this.edits] = [before.read, before.killer, before.events, before.edits];
    this.sense();
  }

  /** Take the sensors' readings at the end of an environment step, and look for changed voxels. */
  sense(): void {
    const { arrays, mech: m } = this;
    const { mechs, alive, present, pack, team, decision } = arrays;
    const seen: number[][] = [];
    const remembered: number[][] = [];
    for (let j = 0; j < mechs && alive[m] === 1; j++) {
      if (j === m || alive[j] !== 1) continue;
      const isMate = team[j] === team[m] && pack[j] === pack[m] && present[j] === 1;
      const last = arrays.seen[m * mechs + j];
      const age = decision[0] - last;
      if (arrays.visible[m * mechs + j] !== 0 || isMate) seen.push(this.contact(j, 0));
      else if (last >= 0 && age > 0 && age <= arrays.tables.memory) remembered.push(this.contact(j, age));
    }
    this.rows = [...seen, ...remembered];
    [this.sensedAt, this.sighted] = [arrays.tick[0], seen.length];
    if (alive[m] === 1) this.lookForEdits();
  }

  /** Return the row of a contact that was last detected `age` environment steps ago. */
  private contact(j: number, age: number): number[] {
    const { arrays, mech: m } = this;
    const { tables, team, chassis } = arrays;
    const { fallen, legged } = tables.marks;
    const isPast = age > 0;
    const ring = arrays.edge("trace_marks", 1);
    const at = isPast ? ((arrays.decision[0] - age) % ring) * arrays.mechs + j : j;
    const [pos, vel] = isPast ? [arrays.trace_pos, arrays.trace_vel] : [arrays.pos, arrays.vel];
    const yaw = isPast ? arrays.trace_body[at * arrays.edge("trace_body", -1)] : arrays.yaw[j];
    const now = (arrays.fallen[j] > 0 ? fallen : 0) | (arrays.leg_hp[j] <= 0 ? legged : 0);
    const marks = isPast ? arrays.trace_marks[at] : now;
    const flags = MechFlag.ALIVE | (marks & fallen && MechFlag.FALLEN) | (marks & legged && MechFlag.LEGGED);
    const first = m * arrays.edge("contact", -1);
    const slot = arrays.contact.subarray(first, first + tables.slots).indexOf(j);
    const [readings, recognised] = this.readings(slot);
    const isKnown = team[j] === team[m] || (age === 0 && arrays.sight[m * arrays.mechs + j] === CLEAR);
    const seconds = f(age * tables.dt_act);
    const body = [...place(pos, at), ...place(vel, at), yaw];
    return [j, team[j], isKnown ? chassis[j] : recognised, ...body, seconds, ...readings, flags, slot];
  }

  /** Return certainty, hull, heat and stability that the display has in a slot, and the class; -1 without one. */
  private readings(slot: number): [number[], number] {
    const { tables, obs, mechs } = this.arrays;
    if (slot < 0) return [tables.readings.map(() => -1), NO_MECH];
    const start = (this.mech * obs.length) / mechs + tables.contacts_at + slot * tables.contact_width;
    const shares = tables.classes.map((column) => obs[start + column]);
    const most = Math.max(...shares);
    const known = most > tables.class_sure ? shares.indexOf(most) : NO_MECH;
    return [tables.readings.map((column) => obs[start + column]), known];
  }

  private get flags(): number {
    const { arrays, mech: m } = this;
    if (arrays.alive[m] !== 1) return 0;
    let flags: number = MechFlag.ALIVE;
    for (const name of STATES) if (arrays[name][m] > 0) flags |= MechFlag[name.toUpperCase() as Uppercase<typeof name>];
    return flags | (arrays.leg_hp[m] <= 0 ? MechFlag.LEGGED : 0);
  }

  private lookForEdits(): void {
    const { arrays, knownMaterial: known } = this;
    const { tables, material, size } = arrays;
    const changed: { flat: number; made: number; cell: Place; far: number }[] = [];
    const eye = place(arrays.pos, this.mech);
    for (let z = 0, flat = 0; z < size[2]; z++)
      for (let y = 0; y < size[1]; y++)
        for (let x = 0, at = rowOf(arrays, y, z); x < size[0]; x++, flat++, at++) {
          if (material[at] === known[flat]) continue;
          const cell: Place = [f(x + 0.5), f(y + 0.5), f(z + 0.5)];
          changed.push({ flat, made: material[at], cell, far: norm(minus(cell, eye)) });
        }
    const every = 1 + Math.floor(changed.length / tables.max_distances);
    const nearest = changed
      .filter((_, i) => i % every === arrays.decision[0] % every)
      .sort((a, b) => a.far - b.far)
      .slice(0, tables.max_new_edits);
    const seen = this.inSight(nearest.map(({ cell }) => cell));
    for (const [i, { flat, made, far }] of nearest.entries()) {
      if (far > tables.near_vox && !seen[i]) continue;
      known[flat] = made;
      this.edits.push(flat, made);
    }
  }

  /** Return which points the pilot sees along a line that no voxel blocks. */
  private inSight(points: readonly Place[]): boolean[] {
    const eye = place(this.arrays.pos, this.mech);
    const seen = points.map(() => true);
    const lines = points.map((point) => minus(point, eye));
    const lengths = lines.map(norm);
    for (const step of this.arrays.tables.sight_steps) {
      const longest = lengths.reduce((most, length, i) => (seen[i] ? Math.max(most, length) : most), 0);
      lines.forEach((line, i) => (seen[i] &&= !this.isBlocked(eye, line, lengths[i], step, longest)));
    }
    return seen;
  }

  /** Whether a line has a point in a voxel that blocks, of points `step` apart. */
  private isBlocked(eye: Place, toward: Place, length: number, step: number, longest: number): boolean {
    const { size, sight_plane: plane, tables } = this.arrays; // bytes of words with a bit for each layer
    const row = this.arrays.edge("sight_plane", -1);
    const count = Math.ceil((Math.max(longest - tables.sight_end, 0) - step) / step); // of the points of all lines
    const [first, delta, end] = [f(step), f(f(step + step) - f(step)), f(length - tables.sight_end)];
    for (let i = 0; i < count; i++) {
      const along = f(first + f(i * delta));
      if (along >= end) break;
      const share = f(along / Math.max(length, f(1e-6)));
      const x = Math.floor(f(eye[0] + f(share * toward[0]))); // no array, since this is called most often
      const y = Math.floor(f(eye[1] + f(share * toward[1])));
      const z = Math.floor(f(eye[2] + f(share * toward[2])));
      if (x < 0 || y < 0 || z < 0 || x >= size[0] || y >= size[1] || z >= size[2]) continue;
      if ((plane[8 * (y * row + x) + (z >> 3)] >>> (z & 7)) & 1) return true;
    }
    return false;
  }

  /** Read the events since the last call; call it after every tick, before the recording empties the journal. */
  collectEvents(): void {
    const { arrays } = this;
    const { journal } = arrays;
    const width = arrays.edge("journal", -1);
    const count = Math.min(arrays.journal_count[0], journal.length / width);
    if (this.read > count) this.read = 0;
    const rows = Array.from({ length: count - this.read }, (_, i) =>
      EVENT_SCALES.map((scale, column) => f(f(journal[(this.read + i) * width + column]) * scale)),
    );
    this.read = count;
    this.addSeen(rows);
    const end = rows.find((row) => row[EVENT.kind] === EventKind.KILL && row[EVENT.target] === this.mech);
    const by = end?.[EVENT.actor] ?? NO_MECH;
    if (end && this.killer.length === 0) this.killer = [by, ...(by >= 0 ? place(arrays.pos, by) : [0, 0, 0])];
    this.events = this.events.slice(-arrays.tables.max_events);
  }

  /** Begin at the journal's first row again, after the recording has emptied it. */
  forgetJournal(): void {
    this.read = Math.min(this.read, this.arrays.journal_count[0]);
  }

  private addSeen(rows: readonly number[][]): void {
    const places = rows.map((row) => row.slice(EVENT.x, EVENT.z + 1) as unknown as Place);
    const placed = places.flatMap((at, i) => (at.some((value) => value !== 0) ? [i] : []));
    const clear = this.inSight(placed.map((i) => places[i]));
    const seenPlaces = new Set(placed.filter((_, k) => clear[k]));
    for (const [i, row] of rows.entries()) {
      const [actor, target] = [row[EVENT.actor], row[EVENT.target]];
      const isOwn = actor === this.mech || target === this.mech;
      const [byKnown, atKnown] = [this.detects(actor), this.detects(target)];
      if (!isOwn && !byKnown && !atKnown && !seenPlaces.has(i)) continue;
      const seen = row.slice();
      if (!byKnown) seen[EVENT.actor] = NO_MECH;
      if (!atKnown) seen[EVENT.target] = NO_MECH;
      if (!isOwn) seen[EVENT.value] = 0;
      if (!seenPlaces.has(i) && target !== this.mech) seen.fill(0, EVENT.x, EVENT.z + 1);
      this.events.push(seen);
    }
  }

  /** Whether a mech is the pilot's or in sight; -1 is none. */
  private detects(mech: number): boolean {
    return mech === this.mech || this.rows.some((row, i) => i < this.sighted && row[AT.mech] === mech);
  }

  /** Whether a mech is the pilot's or a contact, remembered ones too; -1 is none. */
  knows(mech: number): boolean {
    return mech === this.mech || this.rows.some((row) => row[AT.mech] === mech);
  }

  /** Whether a tick was played since the last frame, or none was sent. */
  get hasNext(): boolean {
    return this.arrays.tick[0] !== this.sentTick;
  }

  frame(seq: number): PlayFrame {
    const { arrays, events, edits, ordered, mech } = this;
    this.sentTick = arrays.tick[0];
    [this.events, this.edits] = [[], []];
    const contacts = this.movedContacts();
    const hostile = contacts.filter((row) => row[AT.team] !== arrays.team[mech]);
    const row = (mech * arrays.obs.length) / arrays.mechs;
    return {
      ...{ t: "frame", tick: arrays.tick[0], mech, seq },
      own: bytes(this.body()),
      senses: bytes(arrays.tables.sense_columns.map((column) => (column >= 0 ? arrays.obs[row + column] : 0))),
      contacts: bytes(contacts.flat()),
      rounds: bytes(this.rounds()),
      events: bytes(events.flat()),
      clouds: bytes(this.clouds()),
      edits: new Uint8Array(Uint32Array.from(edits).buffer),
      score: [...arrays.score],
      holds: this.holds(hostile),
      orders: ordered.map((m) => arrays.order_kind[m]),
      named: ordered.map((m) => arrays.order_mech[m]),
      killer: [...this.killer],
    };
  }

  /** Return why each weapon would not fire, as an index in PLAY_HOLDS: echelon/play/triggers.py. */
  private holds(hostiles: readonly number[][]): number[] {
    const { known, known_at: at, hold, mechs, run } = this.arrays;
    known.fill(0);
    known[this.mech] = OWN;
    for (const row of hostiles) {
      known[row[AT.mech]] = KNOWN;
      at.set(row.slice(AT.x, AT.z + 1), 3 * row[AT.mech]);
    }
    run("explain_triggers");
    const weapons = hold.length / mechs;
    return [...hold.subarray(this.mech * weapons, (this.mech + 1) * weapons)];
  }

  private body(): number[] {
    const { arrays, mech: m } = this;
    const timers = arrays.edge("cooldown", -1);
    const painter = arrays.painted[m] > 0 && this.detects(arrays.painter[m]) ? arrays.painter[m] : NO_MECH;
    const state = [arrays.hp, arrays.leg_hp, arrays.heat, arrays.stability].map(
      (values) => values[m] * arrays.alive[m],
    );
    const cooldown = arrays.cooldown.subarray(m * timers, (m + 1) * timers);
    const moving = [...place(arrays.pos, m), ...place(arrays.vel, m), arrays.yaw[m]];
    return [...moving, ...state, this.flags, arrays.focus[m], painter, ...cooldown];
  }

  private movedContacts(): number[][] {
    const seconds = f((this.arrays.tick[0] - this.sensedAt) * this.arrays.tables.dt);
    return this.rows.map((row, i) => {
      const moved = row.slice();
      if (i >= this.sighted) moved[AT.age] = f(row[AT.age] + seconds);
      else for (const axis of [0, 1, 2]) moved[AT.x + axis] = f(row[AT.x + axis] + f(row[AT.vx + axis] * seconds));
      return moved;
    });
  }

  private rounds(): number[] {
    const { arrays } = this;
    const { round_weapon: weapon, round_age: age, tables } = arrays;
    const count = weapon.length / arrays.mechs;
    const flying = Array.from(weapon.keys()).filter((at) => weapon[at] >= 0);
    const others = flying.filter((at) => Math.floor(at / count) !== this.mech);
    const clear = this.inSight(others.map((at) => place(arrays.round_pos, at)));
    const hidden = new Set(others.filter((_, i) => !clear[i]));
    return flying.flatMap((at) => {
      const [pos, vel] = [place(arrays.round_pos, at), place(arrays.round_vel, at)];
      const owner = Math.floor(at / count);
      const isKnown = this.detects(owner);
      if (hidden.has(at) || (!isKnown && age[at] * tables.dt * norm(vel) <= tables.muzzle_vox)) return [];
      const [yaw, pitch] = [Math.atan2(vel[1], vel[0]), Math.atan2(vel[2], Math.hypot(vel[0], vel[1]))];
      return [isKnown ? owner : NO_MECH, at % count, weapon[at], age[at], ...pos, yaw, pitch];
    });
  }

  private clouds(): number[] {
    const { cloud_ticks: left, cloud_pos, mechs, tick, tables } = this.arrays;
    const there = Array.from(left.keys()).filter((at) => left[at] > 0);
    const clear = this.inSight(there.map((at) => place(cloud_pos, at)));
    return there.flatMap((at, i) => {
      const owner = Math.floor(at / (left.length / mechs));
      const burst = tick[0] - tables.smoke_ticks + left[at];
      return clear[i] ? [burst, this.detects(owner) ? owner : NO_MECH, ...place(cloud_pos, at)] : [];
    });
  }
}

/** Return the index of the first voxel of a row of the map. */
function rowOf(arrays: SensedArrays, y: number, z: number): number {
  return (z * arrays.edge("material", -2) + y) * arrays.edge("material", -1);
}

function materialsOf(arrays: SensedArrays): Uint8Array {
  const { size, material } = arrays;
  const found = new Uint8Array(size[0] * size[1] * size[2]);
  for (let row = 0; row < size[1] * size[2]; row++) {
    const at = rowOf(arrays, row % size[1], Math.floor(row / size[1]));
    found.set(material.subarray(at, at + size[0]), row * size[0]);
  }
  return found;
}
