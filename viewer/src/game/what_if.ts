// Continuations of a recorded match from a moment: the counterpart of echelon/arena/branch.py. Each starts from the
// state at the moment with a seed of its own, and depends on its number alone.

import { type PlayEffect, type PlaySide, type PlayWhatIf, REASONS, WINNERS } from "../protocol.gen";
import { type Game, Moment, type RecordedFile } from "./match";
import { loadState, saveState } from "./match_state";
import type { Step } from "./replayed";

const Z_95 = 1.959963984540054; // standard normal quantile of a 95 % interval
const [BLUE, RED, DRAW] = [0, 1, 2];
const RUN_STREAM = 7; // of random draws
const SEED_SALT = 0x9e3779b9;
const KEY_STEPS = [[0x85ebca6b, 1], [0xc2b2ae35, 2], [0x27d4eb2f, 3], [0x165667b1, 4]] as const; // prettier-ignore

/** What to continue, and how; the mech `without` stands still in the window. */
export type BranchPlan = Required<Pick<PlayWhatIf, "tick" | "seed" | "pilots" | "without" | "window_s">>;

/** How one continuation ended. */
export interface Continuation {
  readonly number: number;
  readonly winner: number;
  readonly reason: string;
  readonly score: readonly number[];
  readonly hp: readonly number[];
  readonly recording: RecordedFile | null;
}

/** Calls of a worker that plays continuations; `side` is that of the mech that stands still. */
export interface BranchCalls {
  open: {
    args: { recorded: RecordedFile; plan: BranchPlan; map: Uint8Array };
    value: { tick: number; notes: string[]; side: number };
  };
  play: { args: { number: number; still: boolean; records: boolean }; value: Continuation };
}

const points = ({ winner }: Continuation, side: number) => (winner === DRAW ? 0.5 : Number(winner === side));

function mix(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return x ^ (x >>> 15);
}

/** Return the seed of a continuation: a draw of echelon/sim/random.py as a 31-bit integer. */
export function seedOf(seed: number, tick: number, number: number): number {
  const absorb = (h: number, key: number, i: number) => mix(h ^ (Math.imul(key, KEY_STEPS[i][0]) + KEY_STEPS[i][1]));
  return [RUN_STREAM, tick, 0, number].reduce(absorb, mix(seed ^ SEED_SALT)) & 0x7fffffff;
}

/** Continuations of a recorded match, in a simulator of their own. */
export class Brancher {
  readonly opened: BranchCalls["open"]["value"];
  private readonly moment: Moment;
  private readonly plan: BranchPlan;
  private readonly state: Uint8Array;
  private readonly mech: number; // that stands still, -1 none
  private readonly isMean: boolean;

  constructor(game: Game, { recorded, plan, map }: BranchCalls["open"]["args"]) {
    this.plan = plan;
    this.moment = new Moment(game, recorded, map, plan, [], Infinity);
    const { tick, notes } = this.moment;
    const { roster, teams } = this.moment.recorded.header;
    this.mech = roster.findIndex(({ name, present }) => present && name === plan.without);
    if (plan.without !== "" && this.mech < 0)
      throw new Error(`without has mech "${plan.without}", expected one of the match`);
    this.isMean = teams.some(({ mean }) => mean);
    const side = roster[this.mech]?.team ?? BLUE;
    this.opened = { tick, notes: this.isMean ? [...notes, "policies play mean actions"] : notes, side };
    this.state = saveState(game.simulator);
  }

  /** Play a continuation; `still` false lets all mechs act in the window. */
  play({ number, still, records }: BranchCalls["play"]["args"]): Continuation {
    const { moment, plan, mech } = this;
    const { recorded, match, cast, crew, tick } = moment;
    const { simulator } = moment.game;
    const { created, tick_hz, frame_ticks } = recorded.header;
    match.reset();
    loadState(simulator, this.state);
    moment.resume(seedOf(plan.seed, tick, number), this.isMean);
    const changed = { set: cast.labels, still: mech < 0 ? [] : [plan.without], seed: plan.seed };
    const recording = records ? moment.record(changed, { created }) : null;
    const window = Math.max(1, Math.round((plan.window_s * tick_hz) / frame_ticks)) * frame_ticks;
    const steps = recorded.steps(tick, mech < 0 ? tick : tick + window);
    while (moment.arrays.over[0] === 0) {
      crew.act();
      const { value } = steps.next();
      const step = value && still ? without(value, mech) : value;
      if (step) match.playStep(step);
      else simulator.run("decision");
      if (step?.inputs) recording?.addInputs(step.seats, step.inputs);
      recording?.afterStep();
    }
    const row = (array: string) => [...simulator.array(array)];
    const [[winner], [reason], score, hp] = ["done_winner", "done_reason", "done_score", "done_hp"].map(row);
    const file = `${recorded.file.replace(/\.ecr$/, "")}-t${tick}-b${String(number).padStart(3, "0")}.ecr`;
    const made = recording && { file, data: recording.finish() };
    return { number, winner, reason: REASONS[reason], score, hp, recording: made };
  }
}

/** Return a step in which a mech does nothing. */
function without(step: Step, mech: number): Step {
  const width = step.actions.length / step.mechs;
  const actions = step.actions.slice().fill(0, mech * width, (mech + 1) * width);
  const seat = step.seats.indexOf(mech);
  const inputs = step.inputs?.map((levels) =>
    seat < 0 ? levels : levels.slice().fill(0, seat * width, (seat + 1) * width),
  );
  return { ...step, actions, inputs: inputs ?? null };
}

/** Return the Wilson score interval of wins. */
export function wilson(wins: number, count: number): [number, number] {
  const [rate, z2] = [wins / count, Z_95 * Z_95];
  const centre = rate + z2 / (2 * count);
  const half = Z_95 * Math.sqrt((rate * (1 - rate)) / count + z2 / (4 * count * count));
  const [low, high] = [(centre - half) / (1 + z2 / count), (centre + half) / (1 + z2 / count)];
  return [Math.max(0, Math.min(rate, low)), Math.min(1, Math.max(rate, high))];
}

/** Return win probabilities, endings, and the numbers of typical continuations. */
export function summarise(found: readonly Continuation[]) {
  const margins = (row: Continuation) => [
    points(row, BLUE),
    row.score[0] - row.score[1],
    row.hp[0] - row.hp[1],
    row.number,
  ];
  const ordered = [...found].sort((a, b) => {
    const others = margins(b);
    return (
      margins(a)
        .map((value, i) => value - others[i])
        .find((difference) => difference !== 0) ?? 0
    );
  });
  const side = (team: number): PlaySide => {
    const total = found.reduce((sum, row) => sum + points(row, team), 0);
    const [low, high] = wilson(total, found.length);
    return { score: total / found.length, low, high, wins: found.filter(({ winner }) => winner === team).length };
  };
  const endings: Record<string, number> = {};
  for (const { winner, reason } of ordered)
    endings[`${WINNERS[winner]} ${reason}`] = 1 + (endings[`${WINNERS[winner]} ${reason}`] ?? 0);
  const draws = found.filter(({ winner }) => winner === DRAW).length;
  const at = (share: number) => ordered[Math.min(ordered.length - 1, Math.floor(ordered.length * share))].number;
  const typical = { best_for_red: at(0), median: at(0.5), best_for_blue: at(1) };
  return { blue: side(BLUE), red: side(RED), draws, endings, typical };
}

/** Return how much more a side scores with the actions than without: the adjusted Wald interval of pairs by number. */
export function effectOf(acting: readonly Continuation[], still: readonly Continuation[], team: number): PlayEffect {
  const pairs = acting.map((row, i) => points(row, team) - points(still[i], team));
  const count = pairs.length + 2;
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const centre = sum(pairs) / count;
  const half = Z_95 * Math.sqrt(Math.max(0, (sum(pairs.map((x) => x * x)) + 2) / count - centre * centre) / count);
  const [low, high] = [Math.max(-1, centre - half), Math.min(1, centre + half)];
  return { side: team === BLUE ? "blue" : "red", value: sum(pairs) / pairs.length, low, high };
}
