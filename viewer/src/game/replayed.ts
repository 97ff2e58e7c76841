// A recorded match that is played again from its actions, up to any moment: the counterpart of
// echelon/arena/reconstruct.py. It is started from its seeds, or from the nearest STATE before the moment.

import { decodeBlock } from "../data/columns";
import { type RecordHead, parseHead, payload, recordLength, scanFile } from "../data/container";
import { decodeHeader, validChunks } from "../data/decode";
import { unpackMap } from "../data/payload";
import { hex, sha256 } from "../data/sha256";
import { type ChunkRecord, type Header, MAGIC, MechFlag, RecordType } from "../protocol.gen";
import { type Given, Seats, giveOrders } from "./controls";
import { type RecordDescription, loadState, planesOf } from "./match_state";
import { toEven, widthIn } from "./recording";
import { type SensedArrays, sensedArrays } from "./sensed_arrays";
import type { Simulator } from "./simulator";

const f = Math.fround;
const POSITION_STEPS = 16; // quantisation steps of a recorded position per voxel

/** What led to an environment step of a recording. */
export interface Step {
  readonly actions: Float32Array; // of all mechs
  readonly mechs: number;
  readonly seats: readonly number[];
  readonly inputs: readonly Int8Array[] | null; // of each tick
  readonly orders: Given; // given before it
}

export class RecordedMatch {
  readonly header: Header;
  readonly isTutorial: boolean;
  private readonly chunks: RecordHead[];
  private readonly recordedBytes: number;
  private readonly heads: RecordHead[] = [];
  private readonly inputs = new Map<number, { seats: number[]; levels: Int8Array[] }>(); // by first tick of a step
  private readonly orders: number[][] = []; // tick, mech, order, mech named

  /** Throws for a match that this game cannot play. */
  constructor(
    readonly file: string,
    private readonly data: Uint8Array,
    description: RecordDescription,
  ) {
    const map = scanFile(data);
    this.header = decodeHeader(payload(data, map.header));
    this.chunks = validChunks(
      this.header,
      map.chunks.filter((chunk) => !map.damaged.has(chunk)),
    );
    const { header } = this;
    // what was added after the match is no part of the recording
    const index = map.index && unpackMap(payload(data, map.index), RecordType.INDEX);
    this.recordedBytes = typeof index?.recorded === "number" ? index.recorded : data.length;
    const { tutorial, header: [, game] } = description.record; // prettier-ignore
    const isOf = ({ config }: Partial<Header>) => JSON.stringify(header.config) === JSON.stringify(config);
    this.isTutorial = isOf(tutorial);
    const wrong =
      header.sim_version !== description.sim_version
        ? `simulation version ${header.sim_version}`
        : !isOf(game) && !this.isTutorial
          ? "another game"
          : header.without.length > 0 || Object.keys(header.changes).length > 0
            ? "changed parameters"
            : (header.actions ?? header.insight?.actions ?? []).join() !== description.actions.join()
              ? "other actions, or none"
              : "";
    if (wrong !== "")
      throw new Error(
        `replay "${file}" has ${wrong}, which this page cannot play; verify it with \`echelon replay verify\``,
      );
    for (let at = MAGIC.length; at < data.length; at += recordLength(this.heads.at(-1)!))
      this.heads.push(parseHead(data, at));
    for (const head of this.of(RecordType.SEAT)) this.readInputs(head);
    for (const head of this.of(RecordType.ORDERS)) this.readOrders(head);
  }

  private of(type: number): RecordHead[] {
    return this.heads.filter((head) => head.type === type);
  }

  private readInputs(head: RecordHead): void {
    const {
      s: seats,
      a: [[ticks, count, width], bytes],
    } = unpackMap(payload(this.data, head), RecordType.SEAT) as { s: number[]; a: [number[], Uint8Array] };
    const { frame_ticks } = this.header;
    if (bytes.length !== ticks * count * width || ticks % frame_ticks !== 0)
      throw new Error(`replay "${this.file}" has inputs at tick ${head.tick0} that are no whole environment steps`);
    const levels = Array.from({ length: ticks }, (_, i) =>
      Int8Array.from(bytes.subarray(i * count * width, (i + 1) * count * width)),
    );
    for (let i = 0; i < ticks; i += frame_ticks)
      this.inputs.set(head.tick0 + i, { seats, levels: levels.slice(i, i + frame_ticks) });
  }

  private readOrders(head: RecordHead): void {
    const { o: part } = unpackMap(payload(this.data, head), RecordType.ORDERS) as { o: [string, number[], Uint8Array] };
    const values = new Int32Array(planesOf(part[2], part[1][0] * part[1][1]).slice().buffer);
    for (let i = 0; i < values.length; i += 4) this.orders.push([...values.subarray(i, i + 4)]);
  }

  get first(): number {
    return this.chunks[0]?.tick0 ?? 0;
  }

  get ticks(): number {
    return this.chunks.at(-1)?.tick1 ?? 0;
  }

  /** Return the tick at which the last environment step up to `tick` ends. */
  momentAt(tick: number): number {
    const { tick_hz, frame_ticks } = this.header;
    if (!(this.first <= tick && tick <= this.ticks))
      throw new Error(
        `moment is at ${tick / tick_hz} s, expected ${this.first / tick_hz} to ${this.ticks / tick_hz} s`,
      );
    return tick - ((tick - this.first) % frame_ticks);
  }

  /** Return the states up to a tick, the last one first. */
  statesUntil(tick: number): { tick: number; state: Uint8Array }[] {
    const heads = this.of(RecordType.STATE).filter(({ tick0 }) => this.first <= tick0 && tick0 <= tick);
    return heads.reverse().map((head) => ({ tick: head.tick0, state: payload(this.data, head) }));
  }

  private columnsOf(head: RecordHead) {
    const { f: frames, c } = unpackMap(payload(this.data, head), RecordType.CHUNK) as unknown as ChunkRecord;
    return { frames, columns: decodeBlock(this.header.columns, c, frames, widthIn(this.header)) };
  }

  /** Yield the environment steps between two ticks. */
  *steps(after: number, until: number): Generator<Step, undefined> {
    const { frame_ticks: repeat } = this.header;
    for (const head of this.chunks.filter(({ tick0, tick1 }) => tick1 > after && tick0 < until)) {
      const { frames, columns } = this.columnsOf(head);
      const { ints, spec } = columns.get("action")!;
      const width = ints.length / frames;
      for (let frame = 1; frame < frames; frame++) {
        const tick = head.tick0 + columns.get("tick")!.ints[frame] - repeat;
        if (tick < after || tick >= until) continue;
        const actions = Float32Array.from(
          ints.slice(frame * width, (frame + 1) * width),
          (value) => value * f(spec.scale),
        );
        const { seats = [], levels = null } = this.inputs.get(tick) ?? {};
        const orders = this.orders
          .filter(([at]) => at === tick)
          .map(([, m, order, named]) => [m, [order, named]] as const);
        yield { actions, mechs: this.header.mechs, seats, inputs: levels, orders: new Map(orders) };
      }
    }
  }

  /** Throw unless every mech lives where the recording has it at a tick. */
  check(tick: number, { alive, pos, present }: SensedArrays): void {
    const head = this.chunks.find(({ tick0, tick1 }) => tick0 <= tick && tick <= tick1);
    if (!head) return;
    const { frames, columns } = this.columnsOf(head);
    const frame = columns.get("tick")!.ints.indexOf(tick - head.tick0);
    const at = (name: string, m: number) =>
      columns.get(name)!.ints[frame * (columns.get(name)!.ints.length / frames) + m];
    const differs = Array.from(alive.keys()).some((m) => {
      const isMoved = ["x", "y", "z"].some(
        (axis, i) => toEven(pos[3 * m + i] * present[m] * POSITION_STEPS) !== at(axis, m),
      );
      return isMoved || ((at("flags", m) & MechFlag.ALIVE) !== 0) !== (alive[m] === 1);
    });
    if (differs) throw new Error(`replay "${this.file}" plays another match from its actions at tick ${tick}`);
  }

  /** Return the entry `parent` for the header of a match that continues this one. */
  parent(tick: number, changed: object): Header["parent"] {
    const bytes = this.data.subarray(0, this.recordedBytes);
    return { file: this.file, sha256: hex(sha256(bytes)), tick, ...changed } as Header["parent"];
  }
}

/** A recorded match in a simulator. */
export class ReplayedMatch {
  private readonly arrays: SensedArrays;

  constructor(
    private readonly simulator: Simulator,
    readonly recorded: RecordedMatch,
    private readonly map: Uint8Array,
  ) {
    this.arrays = sensedArrays(simulator);
  }

  /** Begin at the match's start. */
  reset(): void {
    const { isTutorial, header: { seed, pilots } } = this.recorded; // prettier-ignore
    this.simulator.start({ map: this.map, seed, scripts: pilots?.script ?? [], isTutorial });
    this.simulator.array("weapon_prob").fill(pilots?.weapon_prob ?? 1);
  }

  /**
   * Go to the state after the last environment step that ends at or before `tick`; `fromStart` plays from the
   * recording's first tick, else at least `seen` ticks are played where the match is that old.
   */
  goTo(tick: number, fromStart: boolean, seen: number, beforeStep: () => void): { tick: number; notes: string[] } {
    const { recorded, simulator } = this;
    const moment = recorded.momentAt(tick);
    this.reset();
    const notes: string[] = [];
    let from = 0;
    for (const { tick: at, state } of recorded.statesUntil(
      fromStart ? recorded.first : Math.max(moment - seen, recorded.first),
    ))
      try {
        loadState(simulator, state);
        from = at;
        break;
      } catch (error) {
        notes.push(`the state at tick ${at} is not used: ${error instanceof Error ? error.message : String(error)}`);
      }
    if (recorded.first > 0 && from === 0) {
      const reason = notes.at(-1) ?? "it has no state there";
      throw new Error(`replay "${recorded.file}" begins at tick ${recorded.first} and cannot be played: ${reason}`);
    }
    for (const step of recorded.steps(from, moment)) {
      beforeStep();
      this.playStep(step);
    }
    recorded.check(moment, this.arrays);
    return { tick: moment, notes };
  }

  /** Play a recorded environment step; scripted pilots only watch. */
  playStep({ actions, seats, inputs, orders }: Step): void {
    if (orders.size > 0) giveOrders(this.arrays, orders);
    this.simulator.run("pilots");
    this.arrays.actions.set(actions);
    const none = Array<Int8Array>(this.recorded.header.frame_ticks).fill(new Int8Array());
    new Seats(this.arrays, seats).step(inputs ?? none);
  }
}
