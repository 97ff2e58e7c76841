// A match in progress as its pilot perceives it: the frames of a play session become one growing chunk of the last
// moments, so that picture, instruments and sounds are those of a replay. Mechs that the pilot does not know of have no
// place in it.

import type { Scenery } from "../data/appearance";
import { UNDAMAGED } from "../data/damage";
import type { Contact } from "../data/cursor";
import { FRESH_S } from "../data/perception";
import type { Chunk, CloudRows, EventRows, RoundRows } from "../data/replay";
import { type OpenedMatch, type ReplaySource, decodeWorker } from "../data/source";
import { ChunkStore } from "../data/store";
import { NO_WIN } from "../data/winprob";
import * as protocol from "../protocol.gen";
import { makeMatch } from "../session";
import type { Commanded, MatchState } from "../state";
import { ORDERS } from "./orders";

const FRAMES = 40; // frames of the chunk
const FULL_HP = 100; // hit points that a hostile counts with until its class is known
const EVENTS_S = 12; // time for which events and clouds are kept [s]
const LAST_S = 8; // time before the end of the pilot's mech that is explained

export type Row<Names extends string> = Record<Names, number>;
export type ContactRow = Row<(typeof protocol.PLAY_CONTACT_COLUMNS)[number]>;
export type Senses = Row<(typeof protocol.PLAY_SENSE_COLUMNS)[number]>;
export type EventRow = Row<(typeof protocol.PLAY_EVENT_COLUMNS)[number]>;

/** Return little-endian 32-bit floats; those that do not fill a number are left out. */
export function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice(0, bytes.length - (bytes.length % 4)).buffer);
}

/** Return rows of 32-bit floats by column. */
export function rowsOf<Names extends string>(bytes: Uint8Array, columns: readonly Names[]): Row<Names>[] {
  const values = floats(bytes);
  return Array.from({ length: Math.floor(values.length / columns.length) }, (_, row) => {
    const entries = columns.map((name, column) => [name, values[row * columns.length + column]]);
    return Object.fromEntries(entries) as Row<Names>;
  });
}

/** The pilot's mech at a tick. */
export interface Own {
  readonly tick: number;
  readonly hp: number;
  readonly heat: number;
  readonly flags: number;
}

export interface Death {
  readonly by: number; // mech, -1 none
  readonly range: number; // to it [vox]
  readonly angle: number; // of it, clockwise from ahead [rad]
  readonly past: readonly Own[]; // the last seconds, in order of time
  readonly hits: readonly EventRow[]; // in that time
  readonly mates: readonly number[]; // distances to the team mates that the pilot knew of [vox]
}

interface LiveFrame {
  readonly tick: number;
  readonly score: readonly number[];
  readonly tonnage: readonly [number, number];
  readonly mech: Record<protocol.MechColumn, Float32Array>; // shape [M]
  readonly walked: Float32Array; // distance along the heading since the first frame, shape [M]
  readonly cooldown: Float32Array; // of the pilot's mech
  readonly rounds: Row<(typeof protocol.PLAY_ROUND_COLUMNS)[number]>[];
}

/** The world of a session, without anything that a file has. */
class SessionSource implements ReplaySource {
  private readonly worker = decodeWorker();

  constructor(
    private readonly header: protocol.Header,
    private readonly world: Uint8Array,
  ) {}

  async scenery(): Promise<Scenery> {
    const { world, materials } = this.header;
    return this.worker.request("givenWorld", { bytes: this.world, size: world.size, materials });
  }

  open = (): Promise<OpenedMatch> => Promise.reject(new Error("a session has no file"));
  refresh = (): Promise<protocol.IndexView> => Promise.reject(new Error("a session has no file"));
  chunk = (): Promise<Chunk> => new Promise(() => undefined); // frames are the only chunk
  prefetch = (): Promise<unknown> => new Promise(() => undefined);

  close(): void {
    this.worker.close();
  }
}

class FrameStore extends ChunkStore {
  latest: Chunk | undefined;

  constructor() {
    super(() => new Promise(() => undefined));
  }

  override get(): Chunk | undefined {
    return this.latest;
  }

  override request(): void {
    // frames come by themselves
  }
}

const emptyIndex = (): protocol.IndexView => ({
  live: false,
  chunks: [],
  series: { second: [], score: [[], []], alive: [[], []], hp: [[], []], damage: [[], []] },
  markers: [],
  outcome: null,
  win: NO_WIN,
  moments: [],
});

export class LiveMatch {
  readonly match: MatchState;
  /** The pilot's mech. */
  readonly seat: number;
  /** The mech whose perception this is: the pilot's, after its end that of a team mate. */
  pilot: number;
  senses = Object.fromEntries(protocol.PLAY_SENSE_COLUMNS.map((name) => [name, 0])) as Senses;
  contacts: readonly ContactRow[] = [];
  /** Events of the last frames, in order of time. */
  events: EventRow[] = [];
  tick: number;
  /** Why each weapon would not fire, an index of `PLAY_HOLDS` by weapon. */
  holds: readonly number[] = [];
  /** Order of each mech of the pilot's pack. */
  orders: readonly number[] = [];
  /** Damage that the pilot has done to hostiles. */
  dealt = 0;
  /** How the pilot's mech was destroyed, null while it lives. */
  death: Death | null = null;
  private past: Own[] = []; // the pilot's mech in its last seconds
  private readonly store = new FrameStore();
  private readonly frames: LiveFrame[] = [];
  private readonly clouds = new Map<string, Row<(typeof protocol.PLAY_CLOUD_COLUMNS)[number]>>();
  private readonly cells = new Map<number, number>(); // material of the voxels that have changed
  private readonly dead = new Set<number>(); // mechs whose end the pilot has seen
  private base: Chunk["base"] = { cell: new Uint32Array(), material: new Uint8Array(), count: 0 };

  constructor(begin: protocol.PlayBegin) {
    const { roster } = begin.header;
    const { team } = roster[begin.mech];
    // the classes of hostiles are unknown until the sensors recognise them
    const header = {
      ...begin.header,
      roster: roster.map((entry) => (entry.team === team ? { ...entry } : { ...entry, chassis: -1 })),
    };
    this.seat = this.pilot = begin.mech;
    this.tick = begin.tick;
    const source = new SessionSource(header, begin.world);
    const opened: OpenedMatch = { header, index: emptyIndex(), run: "", damage: UNDAMAGED };
    this.match = makeMatch("file", source, opened, "");
    this.match.store = this.store;
    this.match.pilot = { contacts: [], known: new Float32Array(header.mechs) };
    this.match.pilot.known[begin.mech] = 1;
    if (!begin.command) return;
    const mechs = roster.flatMap((row, mech) => (row.team === team && row.present ? [mech] : []));
    this.match.commanded = { team, mechs, chosen: new Set(), orders: [] };
  }

  /** Whether the pilot watches a team mate. */
  get watching(): boolean {
    return this.pilot !== this.seat;
  }

  add(frame: protocol.PlayFrame): void {
    const { commanded } = this.match;
    if (commanded) commanded.orders = this.orderTexts(frame);
    if (commanded && frame.tick === this.frames.at(-1)?.tick) return; // orders to a match that is paused
    const left = frame.mech === this.pilot ? undefined : this.frames.at(-1);
    if (left) this.frames.length = 0;
    if (frame.tick <= (this.frames.at(-1)?.tick ?? -1)) this.restart();
    this.pilot = frame.mech;
    const { match, pilot } = this;
    if (match.pilot) match.pilot.known[pilot] = 1;
    const count = match.header.mechs;
    const before = this.frames.at(-1) ?? left;
    const own = floats(frame.own);
    const mech = Object.fromEntries(
      protocol.MECH_COLUMNS.map((name) => [name, before ? before.mech[name].slice() : new Float32Array(count)]),
    ) as LiveFrame["mech"];
    if (!before) mech.hp.fill(FULL_HP);
    protocol.PLAY_OWN_COLUMNS.forEach((name, column) => (mech[name][pilot] = own[column] ?? 0));
    const mates = this.contacts;
    this.senses = rowsOf(frame.senses, protocol.PLAY_SENSE_COLUMNS)[0] ?? this.senses;
    this.contacts = rowsOf(frame.contacts, protocol.PLAY_CONTACT_COLUMNS).filter(
      (row) => Number.isInteger(row.mech) && row.mech >= 0 && row.mech < count && row.mech !== pilot,
    );
    this.holds = frame.holds;
    this.orders = frame.orders;
    this.place(mech);
    this.addEvents(rowsOf(frame.events, protocol.PLAY_EVENT_COLUMNS), frame.tick);
    this.remember(frame, mech, mates);
    for (const row of rowsOf(frame.clouds, protocol.PLAY_CLOUD_COLUMNS))
      this.clouds.set(`${row.tick} ${row.actor}`, row);
    this.change(frame.edits);
    const walked = before ? before.walked.slice() : new Float32Array(count);
    if (before) addWalk(walked, before.mech, mech);
    const step = this.match.header.columns.find(({ name }) => name === "score")?.scale ?? 0.05;
    this.tick = frame.tick;
    this.frames.push({
      tick: frame.tick,
      score: frame.score.map((points) => Math.round(points / step) * step), // as recorded
      tonnage: this.holders(mech),
      mech,
      walked,
      cooldown: own.slice(protocol.PLAY_OWN_COLUMNS.length),
      rounds: rowsOf(frame.rounds, protocol.PLAY_ROUND_COLUMNS),
    });
    if (this.frames.length > FRAMES) this.frames.shift();
    this.store.latest = this.chunk();
    match.index.chunks = [[this.frames[0].tick, frame.tick, 0]];
  }

  /** Return the order of each mech; one that names a mech whose end is known is over. */
  private orderTexts({ orders, named, mech: first }: protocol.PlayFrame): Commanded["orders"] {
    const { roster } = this.match.header;
    return roster.map((_, mech) => {
      const { sign, word } = ORDERS[orders[mech - first] ?? 0] ?? ORDERS[0];
      const other = named[mech - first] ?? -1;
      if (sign === "" || this.dead.has(other)) return { sign: "", text: "" };
      return { sign, text: other < 0 ? word : `${word} ${roster[other]?.name}` };
    });
  }

  get previousTick(): number {
    return this.frames.at(-2)?.tick ?? this.tick;
  }

  /** Update contacts and classes at the match's cursor; its poses are those of the moment. */
  perceive(): void {
    const { match, pilot, contacts } = this;
    const { poses, header } = match;
    const focus = this.frames.at(-1)?.mech.focus[pilot] ?? -1;
    const { team } = header.roster[pilot];
    const found = contacts
      .filter((row) => row.team !== team && !this.dead.has(row.mech))
      .map((row): Contact => {
        const fresh = row.age <= FRESH_S;
        const [x, y, z] = fresh ? [poses.x[row.mech], poses.y[row.mech], poses.z[row.mech]] : [row.x, row.y, row.z];
        return {
          mech: row.mech,
          ...{ x, y, z, yaw: row.yaw },
          age: row.age,
          range: Math.hypot(x - poses.x[pilot], y - poses.y[pilot], z - poses.z[pilot]),
          listed: row.slot >= 0,
          target: row.mech === focus,
          certainty: row.certainty,
        };
      });
    if (match.pilot) match.pilot.contacts = found.sort((a, b) => a.range - b.range);
  }

  /** Write the contacts into the columns of the mechs; others keep their place, unknown. */
  private place(mech: LiveFrame["mech"]): void {
    const { match, pilot, dead } = this;
    const known = match.pilot?.known ?? new Float32Array();
    for (let m = 0; m < known.length; m++) {
      if (m === pilot) continue;
      known[m] = dead.has(m) ? 1 : 0;
      mech.flags[m] = dead.has(m) ? 0 : protocol.MechFlag.ALIVE;
      mech.focus[m] = mech.painter[m] = -1;
    }
    for (const row of this.contacts) {
      const m = row.mech;
      if (row.chassis >= 0) match.header.roster[m].chassis = row.chassis;
      if (dead.has(m)) continue;
      const friend = row.team === match.header.roster[pilot].team;
      known[m] = friend || row.age <= FRESH_S ? 1 : 0;
      for (const name of ["x", "y", "z", "vx", "vy", "vz", "yaw"] as const) mech[name][m] = row[name];
      const spec = match.header.chassis[match.header.roster[m].chassis];
      mech.hp[m] = Math.max(0, row.hull) * (spec?.hp ?? 100);
      mech.heat[m] = Math.max(0, row.heat) * (spec?.heat_cap ?? 100);
      mech.stability[m] = row.stability < 0 ? 100 : row.stability * 100;
      mech.flags[m] = row.flags;
      if (!(row.flags & protocol.MechFlag.ALIVE)) dead.add(m); // a loss of a commander
    }
  }

  /** Keep the pilot's mech in its last seconds, and at its end what led to it. */
  private remember(
    { tick, killer }: protocol.PlayFrame,
    { x, y, yaw, hp, heat, flags }: LiveFrame["mech"],
    known: readonly ContactRow[],
  ): void {
    const { match, seat } = this;
    if (this.watching || this.death) return;
    const from = tick - LAST_S * match.header.tick_hz;
    this.past = [
      ...this.past.filter((own) => own.tick >= from),
      { tick, hp: hp[seat], heat: heat[seat], flags: flags[seat] },
    ];
    if (killer.length === 0) return;
    const [by, ...place] = killer;
    const { team } = match.header.roster[seat];
    const mates = known.filter((row) => row.team === team).map((row) => Math.hypot(row.x - x[seat], row.y - y[seat]));
    const hits = this.events.filter(
      (row) => row.kind === protocol.EventKind.HIT && row.target === seat && row.tick >= from,
    );
    const [dx, dy] = [place[0] - x[seat], place[1] - y[seat]];
    this.death = { by, range: Math.hypot(dx, dy), angle: yaw[seat] - Math.atan2(dy, dx), past: this.past, hits, mates };
  }

  /** Return each team's share of the tonnage in the zone: its balance, which is 0 for an empty zone and for equals. */
  private holders({ x, y }: LiveFrame["mech"]): [number, number] {
    const { roster, zone } = this.match.header;
    const { team } = roster[this.pilot];
    const friends = [this.pilot, ...this.contacts.filter((row) => row.team === team).map(({ mech }) => mech)];
    const isIn = (mech: number) => Math.hypot(x[mech] - zone[0], y[mech] - zone[1]) < zone[2];
    const own = (1 + this.senses.zone_control) / 2;
    if (own === 0.5 && !friends.some((mech) => !this.dead.has(mech) && isIn(mech))) return [0, 0];
    return team === 0 ? [own, 1 - own] : [1 - own, own];
  }

  private addEvents(rows: readonly EventRow[], tick: number): void {
    const { match } = this;
    for (const row of rows) {
      // shots and hits of unknown mechs have no place
      if (
        (row.kind === protocol.EventKind.LAUNCH && row.actor < 0) ||
        (row.kind === protocol.EventKind.HIT && row.target < 0)
      )
        continue;
      this.events.push(row);
      if (isOwnHit(row, this)) this.dealt += row.value;
      if (row.kind !== protocol.EventKind.KILL || row.target < 0) continue;
      this.dead.add(row.target);
      match.deaths[row.target] = row.tick;
      match.markers.push({ tick: row.tick, kind: row.kind, actor: row.actor, target: row.target });
    }
    const oldest = tick - EVENTS_S * match.header.tick_hz;
    this.events = this.events.filter((row) => row.tick >= oldest);
    for (const [key, row] of this.clouds) if (row.tick < oldest) this.clouds.delete(key);
  }

  private change(bytes: Uint8Array): void {
    if (bytes.length < 8) return;
    const pairs = new Uint32Array(bytes.slice(0, bytes.length - (bytes.length % 8)).buffer);
    for (let at = 0; at < pairs.length; at += 2) this.cells.set(pairs[at], pairs[at + 1]);
    const [cell, material] = [Uint32Array.from(this.cells.keys()), Uint8Array.from(this.cells.values())];
    this.base = { cell, material, count: cell.length };
  }

  /** Forget all frames: the session's match has been taken back to an earlier one. */
  private restart(): void {
    this.frames.length = 0;
    [this.events, this.past, this.death] = [[], [], null];
    this.dead.clear();
    this.clouds.clear();
    this.match.deaths.fill(Infinity);
    this.match.markers.length = 0;
  }

  private chunk(): Chunk {
    const { frames, events } = this;
    const { header } = this.match;
    const [count, mechs] = [frames.length, header.mechs];
    const joined = (part: (frame: LiveFrame) => ArrayLike<number>, width: number) => {
      const all = new Float32Array(count * width);
      frames.forEach((frame, at) => all.set(part(frame), at * width));
      return all;
    };
    const cooldowns = header.cooldowns.length;
    const cooldown = new Float32Array(count * mechs * cooldowns);
    frames.forEach((frame, at) =>
      cooldown.set(frame.cooldown.subarray(0, cooldowns), (at * mechs + this.pilot) * cooldowns),
    );
    const rounds = frames.flatMap((each, frame) => each.rounds.map((round) => ({ ...round, frame })));
    return {
      tick0: frames[0].tick,
      tick1: frames[count - 1].tick,
      frames: count,
      mechs,
      tick: Float64Array.from(frames, ({ tick }) => tick),
      score: Float64Array.from(frames.flatMap(({ score }) => [score[0] ?? 0, score[1] ?? 0])),
      tonnage: Float64Array.from(frames.flatMap(({ tonnage }) => tonnage)),
      mech: Object.fromEntries(
        protocol.MECH_COLUMNS.map((name) => [name, joined(({ mech }) => mech[name], mechs)]),
      ) as Chunk["mech"],
      walked: joined(({ walked }) => walked, mechs),
      walkedTotal: new Float32Array(count * mechs), // the gait goes on from chunk to chunk
      cooldown,
      insight: null,
      events: table(events, protocol.PLAY_EVENT_COLUMNS) as EventRows,
      rounds: table(rounds, ["frame", ...protocol.PLAY_ROUND_COLUMNS]) as RoundRows,
      clouds: table([...this.clouds.values()], protocol.PLAY_CLOUD_COLUMNS) as CloudRows,
      base: this.base,
      edits: { cell: new Uint32Array(), material: new Uint8Array(), tick: new Float64Array(), count: 0 },
      bytes: 0,
    };
  }

  close(): void {
    this.match.source.close();
  }
}

/** Whether an event is damage that the pilot has done to a hostile. */
export function isOwnHit({ kind, actor, target }: EventRow, { match, seat }: LiveMatch): boolean {
  const { roster } = match.header;
  return kind === protocol.EventKind.HIT && actor === seat && roster[target]?.team !== roster[seat].team;
}

function table<Names extends string>(rows: readonly Row<Names>[], columns: readonly Names[]): Record<Names, unknown> {
  const entries = columns.map((name) => [name, Float64Array.from(rows, (row) => row[name])]);
  return { ...Object.fromEntries(entries), count: rows.length } as Record<Names, unknown>;
}

/** Add the distance that each mech went along its heading between two frames. */
function addWalk(walked: Float32Array, from: LiveFrame["mech"], to: LiveFrame["mech"]): void {
  for (let m = 0; m < walked.length; m++) {
    const [dx, dy] = [to.x[m] - from.x[m], to.y[m] - from.y[m]];
    const ahead = dx * Math.cos(to.yaw[m]) + dy * Math.sin(to.yaw[m]);
    walked[m] += Math.hypot(dx, dy) * (ahead < 0 ? -1 : 1);
  }
}
