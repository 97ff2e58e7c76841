// A match with a human pilot: the counterpart of echelon/play/match.py. It is new, or continues a recorded
// match from a moment; pilots act once per environment step, inputs are read before every tick.

import { zlibSync } from "fflate";
import { PLAY_ORDERS, REASONS, WINNERS, WORLD_HEAD_BYTES } from "../protocol.gen";
import type { Header, PlayFrame, PlayStart } from "../protocol.gen";
import { type Cast, type Pilot, type Pilots, STILL, scriptsOf, teamsOf } from "./cast";
import { Seats, giveOrders, requireOrder } from "./controls";
import { Perception } from "./perception";
import type { Policy } from "./policy";
import type { RecordDescription } from "./match_state";
import { type HeaderParts, Recording } from "./recording";
import { RecordedMatch, ReplayedMatch } from "./replayed";
import { type SensedArrays, sensedArrays } from "./sensed_arrays";
import type { Simulator } from "./simulator";

const HUMAN = "human";
const GROWN_STEPS = 16; // environment steps between two looks at the recording of a watched match
const SEEN_S = 5; // time before the moment that policies see, so that their recurrent state fits the match

/** A recording of the page. */
export interface RecordedFile {
  readonly file: string;
  readonly data: Uint8Array;
}

/** What plays matches: one at a time. */
export interface Game {
  readonly simulator: Simulator;
  readonly pilots: Pilots;
  readonly policies: ReadonlyMap<string, Policy>;
}

/** The policies that fly mechs of a match. */
class Crew {
  private readonly flown: { policy: Policy; mechs: number[] }[];

  constructor(
    private readonly arrays: SensedArrays,
    { policies }: Game,
    { seats, pilots }: Cast,
  ) {
    this.flown = [...policies].flatMap(([name, policy]) => {
      const mechs = pilots.flatMap((pilot, m) => (pilot.name === name && !seats.includes(m) ? [m] : []));
      return mechs.length > 0 ? [{ policy, mechs }] : [];
    });
  }

  get isEmpty(): boolean {
    return this.flown.length === 0;
  }

  /** Begin without memory; actions are samples of the seed, without one the mean. */
  start(seed?: number): void {
    for (const { policy } of this.flown) policy.start(seed);
  }

  /** Write the actions of the living mechs. */
  act(): void {
    const { alive } = this.arrays;
    const [obs, actions] = [this.arrays.obs as Float32Array, this.arrays.actions as Float32Array];
    for (const { policy, mechs } of this.flown)
      policy.act(
        mechs.filter((m) => alive[m] === 1),
        obs,
        actions,
      );
  }

  states(): Float32Array[] {
    return this.flown.map(({ policy }) => policy.states());
  }

  restore(states: readonly Float32Array[]): void {
    for (const [i, { policy }] of this.flown.entries()) policy.restore(states[i]);
  }
}

export class PlayedMatch {
  readonly arrays: SensedArrays;
  /** What the pilot perceives: of its mech, after its end of a team mate. */
  perception: Perception;
  over = false;
  winner: "" | (typeof WINNERS)[number] = ""; // of a match that was left ""
  reason = "";
  private readonly controls: Seats;
  private readonly given = new Map<number, [order: number, named: number]>(); // from the next environment step on
  private inputs: Int8Array[] = []; // of the ticks of this environment step so far

  constructor(
    readonly simulator: Simulator,
    private readonly crew: Crew,
    private readonly recording: Recording,
    readonly seat: number,
  ) {
    this.arrays = sensedArrays(simulator);
    this.controls = new Seats(this.arrays, [seat]);
    this.perception = new Perception(this.arrays, seat);
  }

  get header(): Header {
    return this.recording.header;
  }

  get now(): number {
    return this.arrays.tick[0];
  }

  /** Play one tick with the inputs of the seats. */
  tick(inputs: Int8Array): void {
    if (this.inputs.length > 0) this.controls.tick(inputs);
    else {
      if (this.given.size > 0) giveOrders(this.arrays, this.given);
      this.given.clear();
      this.crew.act();
      this.simulator.run("pilots");
      this.controls.beginStep(inputs);
      this.controls.tick();
    }
    this.inputs.push(inputs.slice());
    if (this.inputs.length === this.simulator.description.ticks_per_step) this.endStep();
    else this.perception.collectEvents();
  }

  private endStep(): void {
    this.simulator.run("end_step");
    this.perception.collectEvents();
    this.recording.addInputs([this.seat], this.inputs);
    this.recording.afterStep();
    this.inputs = [];
    this.over = this.arrays.over[0] === 1;
    if (this.over) {
      this.winner = WINNERS[this.arrays.done_winner[0]];
      this.reason = REASONS[this.arrays.done_reason[0]];
    }
    this.perception.forgetJournal();
    this.perception.sense();
  }

  /** Let the pilot of a destroyed mech perceive what the next living team mate does, `step` -1 the previous. */
  watch(step: number): void {
    const { arrays, seat, perception } = this;
    const { alive, team } = arrays;
    const mates = Array.from(team.keys()).filter((m) => alive[m] === 1 && team[m] === team[seat] && m !== seat);
    if (alive[seat] || mates.length === 0)
      throw new Error(`mech ${seat} cannot watch a team mate, expected it destroyed and one alive`);
    const later = mates.filter((m) => (m - perception.mech) * step > 0);
    const mate = (later.length > 0 ? later : mates).at(step > 0 ? 0 : -1)!;
    this.perception = new Perception(arrays, mate, perception);
  }

  /** Order the mates of the pilot's pack; `chosen` are names of mechs, none for all. */
  order(name: string, chosen: readonly string[] = [], target = ""): void {
    const { arrays, seat, perception } = this;
    const order = (PLAY_ORDERS as readonly string[]).indexOf(name);
    if (order < 0) throw new Error(`order "${name}" does not exist, expected one of: ${PLAY_ORDERS.join(", ")}`);
    const { roster } = this.header;
    const own = name === "focus" ? arrays.focus[seat] : name === "screen" ? seat : null;
    const named =
      own === null ? -1 : target === "" ? own : roster.findIndex((row) => row.present && row.name === target);
    const mates = perception.ordered.filter(
      (m) => m !== seat && m !== named && (chosen.length === 0 || chosen.includes(roster[m].name)),
    );
    if (mates.length === 0 || (own !== null && !perception.knows(named)))
      throw new Error(`order "${name}" has no ${mates.length > 0 ? "target" : "team mate"}, expected one`);
    for (const m of mates) requireOrder(arrays, m, order, named);
    for (const m of mates) this.given.set(m, [order, named]);
  }

  /** Return a frame; it has the orders that were given since the last environment step too. */
  frame(seq: number): PlayFrame {
    const frame = this.perception.frame(seq);
    for (const [m, [order, named]] of this.given) {
      const at = this.perception.ordered.indexOf(m);
      if (at >= 0) [frame.orders[at], frame.named[at]] = [order, named];
    }
    return frame;
  }

  /** Return the recording; ticks after the last whole environment step are not in it. */
  finish(): Uint8Array {
    return this.recording.finish();
  }
}

/** A new match; a human may fly blue's first mech. */
export interface NewMatch {
  readonly map: Uint8Array;
  readonly mapSeed: number;
  readonly seed: number;
  readonly mates: Pilot;
  readonly hostiles: Pilot;
  readonly about: Partial<Header>;
}

/** Begin a match whose `seats` humans fly. */
function begin(
  game: Game,
  { map, mapSeed, seed, mates, hostiles, about }: NewMatch,
  seats: readonly number[],
): { crew: Crew; recording: Recording; arrays: SensedArrays } {
  const { simulator } = game;
  const arrays = sensedArrays(simulator);
  const pilots = Array.from({ length: arrays.mechs }, (_, m) => (2 * m < arrays.mechs ? mates : hostiles));
  const cast: Cast = { seats, pilots, labels: {} };
  simulator.start({ map, seed, scripts: scriptsOf(cast), isTutorial: hostiles.name === STILL });
  const crew = new Crew(arrays, game, cast);
  crew.start(seed);
  return { crew, recording: new Recording(simulator, partsOf(arrays, cast, mapSeed, about)), arrays };
}

export function beginMatch(game: Game, match: NewMatch): PlayedMatch {
  const { crew, recording } = begin(game, match, [0]);
  return new PlayedMatch(game.simulator, crew, recording, 0);
}

/** Play a match that nobody flies to its end; `grown` gets the recording so far, at last whole. */
export function playWatched(game: Game, match: NewMatch, grown: (data: Uint8Array, over: boolean) => void): void {
  const { crew, recording, arrays } = begin(game, match, []);
  for (let steps = 1; arrays.over[0] === 0; steps++) {
    crew.act();
    game.simulator.run("decision");
    recording.afterStep();
    if (steps % GROWN_STEPS === 0) grown(recording.soFar, false);
  }
  grown(recording.finish(), true);
}

function partsOf({ team }: SensedArrays, cast: Cast, mapSeed: number, about: Partial<Header>): HeaderParts {
  const flown = cast.pilots.map(({ name, checkpoint }, m): [string, string] =>
    cast.seats.includes(m) ? ["", ""] : [name, checkpoint],
  );
  return { created: Date.now() / 1000, teams: teamsOf(team, cast), map_seed: mapSeed, flown, about };
}

/** A moment of a recorded match in the simulator, and who plays it on. */
export class Moment {
  readonly recorded: RecordedMatch;
  readonly match: ReplayedMatch;
  readonly arrays: SensedArrays;
  readonly crew: Crew;
  readonly cast: Cast;
  readonly tick: number;
  readonly notes: string[];
  private readonly memory: Float32Array[]; // of the policies

  /** `seats` are names of mechs that humans fly; policies see the last `seenS` seconds before the moment. */
  constructor(
    readonly game: Game,
    { file, data }: RecordedFile,
    map: Uint8Array,
    { tick, pilots = {} }: { tick?: number | null; pilots?: Record<string, string> },
    seats: readonly string[],
    seenS: number,
  ) {
    const { simulator } = game;
    this.recorded = new RecordedMatch(file, data, simulator.description as RecordDescription);
    const { header, ticks } = this.recorded;
    const named = seats.map((seat) => header.roster.findIndex((row) => row.present && row.name === seat));
    if (named.includes(-1)) throw new Error(`mech "${seats.join()}" does not exist, expected one of the match`);
    this.cast = game.pilots.choose(header, pilots, named);
    this.match = new ReplayedMatch(simulator, this.recorded, map);
    this.arrays = sensedArrays(simulator);
    this.crew = new Crew(this.arrays, game, this.cast);
    this.crew.start();
    const until = tick ?? ticks;
    const seen = this.crew.isEmpty ? 0 : Math.min(seenS * header.tick_hz, until);
    const watch = () => void (this.arrays.tick[0] >= until - seen && this.crew.act());
    const moment = this.match.goTo(until, seenS === Infinity && !this.crew.isEmpty, seen, watch);
    [this.tick, this.notes] = [moment.tick, moment.notes];
    if (this.arrays.ended[0] !== 0) throw new Error("the match has ended at this moment, expected an earlier one");
    this.memory = this.crew.states();
  }

  /** Let the pilots play on with this luck, policies with their mean actions if `isMean`. */
  resume(luck: number | null, isMean = false): void {
    const { simulator } = this.game;
    const seed = simulator.array("seed");
    seed[0] = luck ?? seed[0];
    simulator.array("script").set(scriptsOf(this.cast));
    simulator.run("observe");
    this.crew.start(isMean ? undefined : seed[0]);
    this.crew.restore(this.memory);
  }

  /** Return a recording of what follows; `changed` is what differs from the recorded match. */
  record(changed: object, about: Partial<Header>): Recording {
    const parent = this.recorded.parent(this.tick, { changes: {}, ...changed });
    const parts = partsOf(this.arrays, this.cast, this.recorded.header.map_seed, { ...about, parent });
    return new Recording(this.game.simulator, parts);
  }
}

/** Return a recorded match at the moment of a request, with other pilots. */
export function takeOver(
  game: Game,
  file: RecordedFile,
  map: Uint8Array,
  request: PlayStart,
  about: Partial<Header>,
): PlayedMatch {
  const moment = new Moment(game, file, map, request, [request.seat || "B1"], SEEN_S);
  const { cast, recorded, crew } = moment;
  moment.resume(request.seed ?? null);
  const set = { ...cast.labels, [recorded.header.roster[cast.seats[0]].name]: HUMAN };
  const recording = moment.record({ set, ...(request.seed == null ? {} : { seed: request.seed }) }, about);
  return new PlayedMatch(game.simulator, crew, recording, cast.seats[0]);
}

/** Return the compressed payload of a WORLD record with materials, x fastest. */
export function packWorld(material: Uint8Array, size: readonly [number, number, number]): Uint8Array {
  const [columns, layers] = [size[0] * size[1], size[2]];
  const payload = new Uint8Array(WORLD_HEAD_BYTES + material.length);
  payload.set(new Uint8Array(Uint32Array.from(size).buffer));
  for (let at = 0; at < material.length; at++)
    payload[WORLD_HEAD_BYTES + (at % columns) * layers + Math.floor(at / columns)] = material[at];
  return zlibSync(payload, { level: 1 });
}

/** Return a header as the pilot of a mech may read it: without seeds, pilots and classes of hostiles. */
export function seatHeader(header: Header, mech: number): Header {
  const { pilots: _, insight: __, actions: ___, ...known } = header;
  const { team } = header.roster[mech];
  const roster = header.roster.map((row) => (row.team === team ? row : { ...row, chassis: 0 }));
  return { ...known, seed: 0, map_seed: 0, roster };
}
