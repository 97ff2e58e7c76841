// What the mech of a seat perceives, as frames: the counterpart of echelon/play/perception.py, which explains it, with
// equal bytes. Sums and products are rounded to 32 bits as numpy rounds them.

import { EventKind, MechFlag, PLAY_CONTACT_COLUMNS, PLAY_EVENT_COLUMNS, type PlayFrame, TABLES } from "../protocol.gen";
import type { SensedArrays } from "./sensed_arrays";
import { holds } from "./triggers";

const NO_MECH = -1;
const CLEAR = 1; // value of `sight` for a clear line
const f = Math.fround;
const AT = Object.fromEntries(PLAY_CONTACT_COLUMNS.map((name, i) => [name, i])) as Record<
  (typeof PLAY_CONTACT_COLUMNS)[number],
  number
>;
const EVENT = Object.fromEntries(PLAY_EVENT_COLUMNS.map((name, i) => [name, i])) as Record<
  (typeof PLAY_EVENT_COLUMNS)[number],
  number
>;
const EVENT_SCALES = TABLES.find(({ name }) => name === "events")!.columns.map(({ scale }) => f(scale));
const STATES = [
  ["fallen", MechFlag.FALLEN],
  ["shutdown", MechFlag.SHUTDOWN],
  ["painted", MechFlag.PAINTED],
  ["suppressed", MechFlag.SUPPRESSED],
  ["ecm", MechFlag.ECM],
  ["eccm", MechFlag.ECCM],
  ["vent", MechFlag.VENT],
] as const;

type Place = readonly [number, number, number];

const bytes = (values: readonly number[]) => new Uint8Array(Float32Array.from(values).buffer);
const norm = ([x, y, z]: Place) => f(Math.sqrt(f(f(f(x * x) + f(y * y)) + f(z * z))));
const minus = (a: Place, b: Place): Place => [f(a[0] - b[0]), f(a[1] - b[1]), f(a[2] - b[2])];

export class Perception {
  /** Mechs whose orders are shown. */
  readonly ordered: readonly number[];
  /** The map as the pilot knows it, x fastest. */
  readonly knownMaterial: Uint8Array;
  private readonly own: readonly boolean[]; // whether the sensors are those of a mech, shape [M]
  private readonly columns: readonly number[];
  private read: number; // rows of the journal that were read
  private sentTick = -1;
  private killer: readonly number[];
  private events: number[][];
  private edits: number[];
  private sensedAt = 0; // tick
  private rows: number[][] = []; // contacts, those in sight first
  private sighted = 0; // contacts in sight

  /** `before` is the perception of the pilot until its mech's end; a commander has that of its `team`. */
  constructor(
    private readonly arrays: SensedArrays,
    readonly mech: number,
    before?: Perception,
    private readonly team: readonly number[] = [],
  ) {
    const { mechs, tables } = arrays;
    const first = mech - (mech % tables.pack);
    const end = team.length > 0 ? Math.max(...team) + 1 : first + tables.pack;
    this.ordered = Array.from({ length: end - first }, (_, i) => first + i);
    this.own = Array.from({ length: mechs }, (_, m) => (team.length > 0 ? team.includes(m) : m === mech));
    this.columns = tables.sense_columns;
    this.read = before?.read ?? 0;
    this.killer = before?.killer ?? [];
    this.events = before?.events ?? [];
    this.edits = before?.edits ?? [];
    this.knownMaterial = before?.knownMaterial ?? materialsOf(arrays);
    this.sense();
  }

  /** Take the sensors' readings at the end of an environment step, and look for changed voxels. */
  sense(): void {
    const { arrays, own, mech: m } = this;
    const { mechs, alive, present, pack, team } = arrays;
    const eyes = this.living();
    const seen: number[] = [];
    const remembered: number[] = [];
    const ages: number[] = [];
    for (let j = 0; j < mechs; j++) {
      const mate = team[j] === team[m] && pack[j] === pack[m] && present[j] === 1;
      const visible = eyes.some((i) => arrays.visible[i * mechs + j] !== 0);
      const last = eyes.reduce((latest, i) => Math.max(latest, arrays.seen[i * mechs + j]), -1);
      ages[j] = arrays.decision[0] - last;
      const isSeen = eyes.length > 0 && alive[j] === 1 && (visible || mate || own[j]);
      const fresh = last >= 0 && ages[j] > 0 && ages[j] <= arrays.tables.memory;
      if (j === m) continue;
      if (isSeen || (own[j] && present[j] === 1)) seen.push(j);
      else if (eyes.length > 0 && alive[j] === 1 && fresh) remembered.push(j);
    }
    this.rows = [...seen.map((j) => this.contact(j, 0)), ...remembered.map((j) => this.contact(j, ages[j]))];
    [this.sensedAt, this.sighted] = [arrays.tick[0], seen.length];
    if (eyes.length > 0) this.lookForEdits();
  }

  private living(): number[] {
    return this.own.flatMap((isOwn, j) => (isOwn && this.arrays.alive[j] === 1 ? [j] : []));
  }

  /** Return the mechs whose sensors these are now: that of the seat, those of a commander that are alive. */
  private eyes(): number[] {
    return this.team.length > 0 ? this.living() : [this.mech];
  }

  /** Return the row of a contact that was last detected `age` environment steps ago. */
  private contact(j: number, age: number): number[] {
    const { arrays, mech: m } = this;
    const { mechs, tables, chassis, team } = arrays;
    if (this.own[j]) {
      const { hp, heat_cap } = tables.chassis[chassis[j]];
      const shares = [
        arrays.hp[j] / f(hp),
        arrays.heat[j] / f(heat_cap),
        arrays.stability[j] / f(tables.max_stability),
      ].map(f);
      const body = [...place(arrays.pos, j), ...place(arrays.vel, j), arrays.yaw[j]];
      return [j, team[j], chassis[j], ...body, 0, 1, ...shares, this.flags(j), NO_MECH];
    }
    let [at, pos, vel, yaw] = [j, arrays.pos, arrays.vel, arrays.yaw[j]];
    let [isFallen, isLegged] = [arrays.fallen[j] > 0, arrays.leg_hp[j] <= 0];
    if (age > 0) {
      at = ((arrays.decision[0] - age) % arrays.depth) * mechs + j;
      [pos, vel, yaw] = [arrays.trace_pos, arrays.trace_vel, arrays.trace_body[at * arrays.body]];
      const marks = arrays.trace_marks[at];
      [isFallen, isLegged] = [(marks & tables.marks.fallen) !== 0, (marks & tables.marks.legged) !== 0];
    }
    const flags = MechFlag.ALIVE | (isFallen ? MechFlag.FALLEN : 0) | (isLegged ? MechFlag.LEGGED : 0);
    const eyes = this.eyes();
    let [eye, slot] = [m, NO_MECH];
    for (const i of eyes)
      for (let k = 0; k < tables.slots && slot < 0; k++)
        if (arrays.contact[i * arrays.slots + k] === j) [eye, slot] = [i, k];
    let [sure, hull, heat, stability, known] = this.readings(eye, slot);
    const isClear = age === 0 && eyes.some((i) => arrays.sight[i * mechs + j] === CLEAR);
    if (team[j] === team[m] || isClear) known = chassis[j];
    const seconds = age * tables.dt_act;
    const body = [...place(pos, at), ...place(vel, at), yaw];
    return [j, team[j], known, ...body, f(seconds), sure, hull, heat, stability, flags, slot];
  }

  /** Return certainty, hull, heat, stability and class that a mech's display has in a slot, -1 without one. */
  private readings(eye: number, slot: number): number[] {
    if (slot < 0) return [-1, -1, -1, -1, NO_MECH];
    const { tables, obs, width } = this.arrays;
    const start = eye * width + tables.contacts_at + slot * tables.contact_width;
    const shares = tables.classes.map((column) => obs[start + column]);
    const most = Math.max(...shares);
    return [
      ...tables.readings.map((column) => obs[start + column]),
      most > tables.class_sure ? shares.indexOf(most) : -1,
    ];
  }

  private flags(m: number): number {
    const { arrays } = this;
    if (arrays.alive[m] !== 1) return 0;
    const flags = STATES.reduce((found, [name, flag]) => found | (arrays[name][m] > 0 ? flag : 0), 0);
    return MechFlag.ALIVE | flags | (arrays.leg_hp[m] <= 0 ? MechFlag.LEGGED : 0);
  }

  /** Return the cells whose material differs from the known one: index in the simulator's array and in the map. */
  private changedCells(): { at: number; flat: number; cell: Place }[] {
    const { size, stride, material } = this.arrays;
    const changed: { at: number; flat: number; cell: Place }[] = [];
    for (let z = 0, flat = 0; z < size[2]; z++)
      for (let y = 0; y < size[1]; y++)
        for (let x = 0, at = z * stride[0] + y * stride[1]; x < size[0]; x++, flat++, at++)
          if (material[at] !== this.knownMaterial[flat])
            changed.push({ at, flat, cell: [f(x + 0.5), f(y + 0.5), f(z + 0.5)] });
    return changed;
  }

  private lookForEdits(): void {
    const { arrays, knownMaterial: known } = this;
    const { tables, material } = arrays;
    const eyes = this.eyes().map((i) => place(arrays.pos, i));
    const changed = this.changedCells();
    const every = 1 + Math.floor((changed.length * eyes.length) / tables.max_distances);
    const first = arrays.decision[0] % every;
    const nearest = changed
      .filter((_, i) => i >= first && (i - first) % every === 0)
      .map((row) => ({ ...row, far: Math.min(...eyes.map((eye) => norm(minus(row.cell, eye)))) }))
      .sort((a, b) => a.far - b.far)
      .slice(0, tables.max_new_edits);
    const seen = this.inSight(nearest.map(({ cell }) => cell));
    for (const [i, { at, flat, far }] of nearest.entries()) {
      if (far > tables.near_vox && !seen[i]) continue;
      known[flat] = material[at];
      this.edits.push(flat, material[at]);
    }
  }

  /** Return which points the pilot sees along a line that no voxel blocks, a commander from a mech. */
  private inSight(points: readonly Place[]): boolean[] {
    const { arrays } = this;
    const eyes = this.eyes().map((i) => place(arrays.pos, i));
    const lines = points.flatMap((point, of) =>
      eyes
        .map((eye) => {
          const toward = minus(point, eye);
          return { of, eye, toward, length: norm(toward) };
        })
        .sort((a, b) => a.length - b.length)
        .slice(0, arrays.tables.max_eyes),
    );
    const clear = arrays.tables.sight_steps.reduce((left, step) => this.unblocked(left, step), lines);
    const seen = points.map(() => false);
    for (const { of } of clear) seen[of] = true;
    return seen;
  }

  /** Return the lines without a point in a voxel that blocks, of points `step` apart. */
  private unblocked<Line extends { eye: Place; toward: Place; length: number }>(lines: Line[], step: number): Line[] {
    const { size, sight_plane: plane, plane_row: row, tables } = this.arrays;
    const longest = lines.reduce((most, { length }) => Math.max(most, length), 0);
    const count = Math.ceil((Math.max(longest - tables.sight_end, 0) - step) / step);
    const [first, delta] = [f(step), f(f(step + step) - f(step))];
    return lines.filter(({ eye, toward, length }) => {
      const [end, most] = [f(length - tables.sight_end), Math.max(length, f(1e-6))];
      for (let i = 0; i < count; i++) {
        const along = f(first + f(i * delta));
        if (along >= end) break;
        const share = f(along / most);
        const [x, y, z] = toward.map((d, axis) => Math.floor(f(eye[axis] + f(share * d))));
        if (x < 0 || y < 0 || z < 0 || x >= size[0] || y >= size[1] || z >= size[2]) continue;
        if ((plane[2 * (y * row + x) + (z >> 5)] >>> (z & 31)) & 1) return false;
      }
      return true;
    });
  }

  /** Read the events since the last call; call it after every tick, before the recording empties the journal. */
  collectEvents(): void {
    const { arrays } = this;
    const { journal, journal_row: width, tables } = arrays;
    const count = Math.min(arrays.journal_count[0], journal.length / width);
    if (this.read > count) this.read = 0;
    const rows = Array.from({ length: count - this.read }, (_, i) =>
      EVENT_SCALES.map((scale, column) => f(f(journal[(this.read + i) * width + column]) * scale)),
    );
    this.read = count;
    this.addSeen(rows);
    for (const row of rows) {
      const isEnd = row[EVENT.kind] === EventKind.KILL && row[EVENT.target] === this.mech;
      if (this.killer.length > 0 || !isEnd) continue;
      const actor = row[EVENT.actor];
      this.killer = [actor, ...(actor >= 0 ? place(arrays.pos, actor) : [0, 0, 0])];
    }
    this.events = this.events.slice(-tables.max_events);
  }

  /** Begin at the journal's first row again, after the recording has emptied it. */
  forgetJournal(): void {
    this.read = Math.min(this.read, this.arrays.journal_count[0]);
  }

  private addSeen(rows: readonly number[][]): void {
    const places = rows.map((row) => row.slice(EVENT.x, EVENT.z + 1) as unknown as Place);
    const placed = places.flatMap(([x, y, z], i) => (f(f(Math.abs(x) + Math.abs(y)) + Math.abs(z)) > 0 ? [i] : []));
    const clear = this.inSight(placed.map((i) => places[i]));
    const isPlaceSeen = new Set(placed.filter((_, k) => clear[k]));
    for (const [i, row] of rows.entries()) {
      const [actor, target] = [row[EVENT.actor], row[EVENT.target]];
      const isOwn = (this.own[actor] ?? false) || (this.own[target] ?? false);
      const [byKnown, atKnown] = [this.detects(actor), this.detects(target)];
      if (!isOwn && !byKnown && !atKnown && !isPlaceSeen.has(i)) continue;
      const seen = row.slice();
      if (!byKnown) seen[EVENT.actor] = NO_MECH;
      if (!atKnown) seen[EVENT.target] = NO_MECH;
      if (!isOwn) seen[EVENT.value] = 0;
      if (!isPlaceSeen.has(i) && !this.own[target]) seen.fill(0, EVENT.x, EVENT.z + 1);
      this.events.push(seen);
    }
  }

  /** Whether a mech is an own one or in sight; -1 is none. */
  private detects(mech: number): boolean {
    return (this.own[mech] ?? false) || this.rows.slice(0, this.sighted).some((row) => row[AT.mech] === mech);
  }

  /** Whether a mech is an own one or a contact, remembered ones too; -1 is none. */
  knows(mech: number): boolean {
    return (this.own[mech] ?? false) || this.rows.some((row) => row[AT.mech] === mech);
  }

  /** Whether a tick was played since the last frame, or none was sent. */
  get hasNext(): boolean {
    return this.arrays.tick[0] !== this.sentTick;
  }

  frame(seq: number): PlayFrame {
    const { arrays, events, edits, ordered } = this;
    this.sentTick = arrays.tick[0];
    [this.events, this.edits] = [[], []];
    const contacts = this.movedContacts();
    const hostile = contacts.filter((row) => row[AT.team] !== arrays.team[this.mech]);
    return {
      t: "frame",
      tick: arrays.tick[0],
      mech: this.mech,
      seq,
      own: bytes(this.body()),
      senses: bytes(this.senses()),
      contacts: bytes(contacts.flat()),
      rounds: bytes(this.rounds()),
      events: bytes(events.flat()),
      clouds: bytes(this.clouds()),
      edits: new Uint8Array(Uint32Array.from(edits).buffer),
      score: [...arrays.score],
      holds:
        this.team.length > 0
          ? []
          : holds(
              arrays,
              this.mech,
              hostile.map((row) => [row[AT.mech], ...row.slice(AT.x, AT.z + 1)]),
            ),
      orders: ordered.map((m) => arrays.order_kind[m]),
      named: ordered.map((m) => arrays.order_mech[m]),
      killer: [...this.killer],
    };
  }

  private body(): number[] {
    const { arrays, mech: m } = this;
    const alive = arrays.alive[m];
    const painter = arrays.painted[m] > 0 && this.detects(arrays.painter[m]) ? arrays.painter[m] : NO_MECH;
    const state = [arrays.hp, arrays.leg_hp, arrays.heat, arrays.stability].map((values) => values[m] * alive);
    const cooldown = arrays.cooldown.subarray(m * arrays.timers, (m + 1) * arrays.timers);
    const moving = [...place(arrays.pos, m), ...place(arrays.vel, m), arrays.yaw[m]];
    return [...moving, ...state, this.flags(m), arrays.focus[m], painter, ...cooldown];
  }

  private senses(): number[] {
    const { obs, width } = this.arrays;
    const row = (this.eyes()[0] ?? this.mech) * width;
    return this.columns.map((column) => (column >= 0 ? obs[row + column] : 0));
  }

  private movedContacts(): number[][] {
    const { arrays, sighted } = this;
    const seconds = f((arrays.tick[0] - this.sensedAt) * arrays.tables.dt);
    return this.rows.map((row, i) => {
      const moved = row.slice();
      if (i >= sighted) moved[AT.age] = f(row[AT.age] + seconds);
      else
        for (let axis = 0; axis < 3; axis++) moved[AT.x + axis] = f(row[AT.x + axis] + f(row[AT.vx + axis] * seconds));
      return moved;
    });
  }

  private rounds(): number[] {
    const { arrays } = this;
    const { round_weapon: weapon, round_age: age, mechs, tables } = arrays;
    const count = weapon.length / mechs;
    const flying = Array.from(weapon.keys()).filter((at) => weapon[at] >= 0);
    const owner = (at: number) => Math.floor(at / count);
    const others = flying.filter((at) => !this.own[owner(at)]);
    const clear = this.inSight(others.map((at) => place(arrays.round_pos, at)));
    const hidden = new Set(others.filter((_, i) => !clear[i]));
    return flying.flatMap((at) => {
      const [pos, vel] = [place(arrays.round_pos, at), place(arrays.round_vel, at)];
      const known = this.detects(owner(at));
      if (hidden.has(at) || (!known && age[at] * tables.dt * norm(vel) <= tables.muzzle_vox)) return [];
      const [yaw, pitch] = [Math.atan2(vel[1], vel[0]), Math.atan2(vel[2], Math.hypot(vel[0], vel[1]))];
      return [known ? owner(at) : NO_MECH, at % count, weapon[at], age[at], ...pos, yaw, pitch];
    });
  }

  private clouds(): number[] {
    const { arrays } = this;
    const { cloud_ticks: left, mechs } = arrays;
    const there = Array.from(left.keys()).filter((at) => left[at] > 0);
    const places = there.map((at) => place(arrays.cloud_pos, at));
    const clear = this.inSight(places);
    return there.flatMap((at, i) => {
      if (!clear[i]) return [];
      const owner = Math.floor(at / (left.length / mechs));
      const burst = arrays.tick[0] - arrays.tables.smoke_ticks + left[at];
      return [burst, this.detects(owner) ? owner : NO_MECH, ...places[i]];
    });
  }
}

function materialsOf({ size, stride, material }: SensedArrays): Uint8Array {
  const found = new Uint8Array(size[0] * size[1] * size[2]);
  for (let row = 0; row < size[1] * size[2]; row++) {
    const at = Math.floor(row / size[1]) * stride[0] + (row % size[1]) * stride[1];
    found.set(material.subarray(at, at + size[0]), row * size[0]);
  }
  return found;
}

function place(values: ArrayLike<number>, at: number): Place {
  return [values[3 * at], values[3 * at + 1], values[3 * at + 2]];
}
