// Groups damage into readable numbers: hits on one mech in quick succession form one group, shown as one growing
// number. Groups depend on the chunk alone, and what a number shows on the group and the tick, so that seeking and
// playing backward show the same. Pure.

import { EventKind, HitFlag } from "../protocol.gen";
import type { EventRows } from "./replay";

const GAP_S = 0.55; // most time between two hits of a group [s]
const LONGEST_S = 1.3; // most duration of a group; then the next begins [s]
export const LIFE_S = 1.1; // how long a number is shown after its last hit [s]

/** Hits on one mech in quick succession, in order. */
export interface HitGroup {
  readonly target: number; // the mech that was hit
  readonly turn: number; // number of earlier groups of this mech in the chunk
  readonly ticks: readonly number[]; // ticks of the hits
  readonly sums: readonly number[]; // damage up to and including each hit [hit points]
  readonly strong: readonly number[]; // part of the sums by critical hits (rear or painted)
}

/** What a damage number shows at a tick. */
export interface HitGroupState {
  damage: number; // damage so far [hit points]
  strong: number; // share of critical damage
  sinceFirst: number; // time since the first hit [s]
  sinceLatest: number; // time since the latest hit so far [s]
  sinceEnd: number; // time since the last hit of the group, 0 before it [s]
}

/** Return the hit groups of a chunk's events, in order of their first hit. */
export function findHitGroups(events: EventRows, tickHz: number): HitGroup[] {
  const found: { target: number; turn: number; ticks: number[]; sums: number[]; strong: number[] }[] = [];
  const open = new Map<number, (typeof found)[number]>();
  for (let i = 0; i < events.count; i++) {
    const [tick, target, value] = [events.tick[i], events.target[i], events.value[i]];
    if (events.kind[i] !== EventKind.HIT || target < 0 || events.weapon[i] < 0 || value <= 0) continue;
    let hitGroup = open.get(target);
    const joins =
      hitGroup &&
      tick - hitGroup.ticks[hitGroup.ticks.length - 1] <= GAP_S * tickHz &&
      tick - hitGroup.ticks[0] <= LONGEST_S * tickHz;
    if (!hitGroup || !joins) {
      hitGroup = { target, turn: hitGroup ? hitGroup.turn + 1 : 0, ticks: [], sums: [], strong: [] };
      open.set(target, hitGroup);
      found.push(hitGroup);
    }
    const critical = (events.flags[i] & (HitFlag.REAR | HitFlag.PAINTED)) !== 0;
    hitGroup.ticks.push(tick);
    hitGroup.sums.push((hitGroup.sums.at(-1) ?? 0) + value);
    hitGroup.strong.push((hitGroup.strong.at(-1) ?? 0) + (critical ? value : 0));
  }
  return found;
}

/** Return what a group's number shows at a tick, or null before its first hit and after its end. */
export function hitGroupAt({ ticks, sums, strong }: HitGroup, tick: number, tickHz: number): HitGroupState | null {
  const last = ticks[ticks.length - 1];
  if (tick < ticks[0] || tick >= last + LIFE_S * tickHz) return null;
  let newest = ticks.length - 1;
  while (ticks[newest] > tick) newest--;
  const since = (then: number) => Math.max(0, tick - then) / tickHz;
  return {
    damage: sums[newest],
    strong: strong[newest] / sums[newest],
    sinceFirst: since(ticks[0]),
    sinceLatest: since(ticks[newest]),
    sinceEnd: since(last),
  };
}

/** Box of a number on the screen; all lengths in the same unit. */
export interface NumberBox {
  x: number; // centre
  y: number; // centre, upward
  wide: number;
  high: number;
  weight: number; // opacity, 0 to 1, which scales how far it pushes others away
  order: number; // of two boxes at the same height the one with the higher order keeps its place
}

/**
 * Return how far up each box moves so that none overlaps another: the lowest stays, boxes above it give way,
 * continuously as boxes approach, pass and fade.
 */
export function separate(boxes: readonly NumberBox[]): number[] {
  const lifts = boxes.map(() => 0);
  const order = boxes
    .map((_, i) => i)
    .sort((a, b) => boxes[a].y - boxes[b].y || boxes[b].order - boxes[a].order || a - b);
  order.forEach((at, place) => {
    const box = boxes[at];
    // from the lowest up, so that a box pushed past one is kept off the next
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
