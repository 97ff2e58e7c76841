// Damage as numbers that can be read: hits on one mech that follow each other closely are one number that grows. Which
// hits belong together is a matter of the chunk alone, and what a number shows one of it and the moment, so that
// scrubbing and playing backward show the same. Pure.

import { EventKind, HitFlag } from "../protocol.gen";
import type { EventRows } from "./replay";

const GAP_S = 0.55; // hits that follow within this are one number
const LONGEST_S = 1.3; // time after which a number that still grows is done, and the next begins
export const LIFE_S = 1.1; // how long a number shows after its last hit

/** Hits that are one number, in order. */
export interface Tally {
  readonly whom: number; // mech that was hit
  readonly turn: number; // how many numbers of this mech the chunk has before
  readonly ticks: readonly number[]; // of the hits
  readonly sums: readonly number[]; // damage up to each hit, with it [hit points]
  readonly strong: readonly number[]; // of that, by hits that hurt more
}

/** What a number shows. */
export interface TallyMoment {
  damage: number; // so far [hit points]
  strong: number; // share of it by hits that hurt more
  grown: number; // time since the first hit [s]
  fresh: number; // time since the newest hit that has happened [s]
  done: number; // time since the last of all, 0 while more are to come [s]
}

/** The numbers of a chunk's events, in order of their first hit. */
export function findTallies(events: EventRows, tickHz: number): Tally[] {
  const found: { whom: number; turn: number; ticks: number[]; sums: number[]; strong: number[] }[] = [];
  const open = new Map<number, (typeof found)[number]>();
  for (let i = 0; i < events.count; i++) {
    const [tick, whom, value] = [events.tick[i], events.whom[i], events.value[i]];
    if (events.kind[i] !== EventKind.HIT || whom < 0 || events.weapon[i] < 0 || value <= 0) continue;
    let tally = open.get(whom);
    const joins = tally && tick - tally.ticks[tally.ticks.length - 1] <= GAP_S * tickHz && tick - tally.ticks[0] <= LONGEST_S * tickHz;
    if (!tally || !joins) {
      tally = { whom, turn: tally ? tally.turn + 1 : 0, ticks: [], sums: [], strong: [] };
      open.set(whom, tally);
      found.push(tally);
    }
    const hurts = (events.flags[i] & (HitFlag.REAR | HitFlag.PAINTED)) !== 0;
    tally.ticks.push(tick);
    tally.sums.push((tally.sums.at(-1) ?? 0) + value);
    tally.strong.push((tally.strong.at(-1) ?? 0) + (hurts ? value : 0));
  }
  return found;
}

/** What a number shows at a tick; null before its first hit and once it is over. */
export function tallyAt({ ticks, sums, strong }: Tally, tick: number, tickHz: number): TallyMoment | null {
  const last = ticks[ticks.length - 1];
  if (tick < ticks[0] || tick >= last + LIFE_S * tickHz) return null;
  let newest = ticks.length - 1;
  while (ticks[newest] > tick) newest--;
  const since = (then: number) => Math.max(0, tick - then) / tickHz;
  return { damage: sums[newest], strong: strong[newest] / sums[newest], grown: since(ticks[0]), fresh: since(ticks[newest]), done: since(last) };
}

/** A number on the screen, in any one unit of length. */
export interface NumberBox {
  x: number; // its middle
  y: number; // upward
  wide: number;
  high: number;
  weight: number; // how much it is there, 0 to 1: it pushes others away as far
  order: number; // of two at one height the one with more stays where it is
}

/**
 * How far up each number has to go so that none covers another: the lowest stays, and who is above gives way, little by
 * little as numbers come near, pass beside each other, and fade.
 */
export function spread(boxes: readonly NumberBox[]): number[] {
  const lifts = boxes.map(() => 0);
  const order = boxes.map((_, i) => i).sort((a, b) => boxes[a].y - boxes[b].y || boxes[b].order - boxes[a].order || a - b);
  order.forEach((at, place) => {
    const box = boxes[at];
    // from the lowest on, so that who is pushed past one is then kept off the next
    const placed = order.slice(0, place).sort((a, b) => boxes[a].y + lifts[a] - (boxes[b].y + lifts[b]));
    for (const other of placed) {
      const [across, along] = [boxes[other], (box.high + boxes[other].high) / 2];
      const beside = (box.wide + across.wide) / 2 - Math.abs(box.x - across.x);
      const above = box.y + lifts[at] - (across.y + lifts[other]);
      if (beside <= 0 || Math.abs(above) >= along) continue;
      const share = Math.min(1, beside / (0.3 * Math.min(box.wide, across.wide)));
      lifts[at] += (along - above) * share * across.weight;
    }
  });
  return lifts;
}
