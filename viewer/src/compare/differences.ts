// Differences of two matches: where they first differ, and sums of events and positions at a moment. Pure.

import type { Chunk } from "../data/replay";
import { mechName } from "../text";
import { EventKind, type Header, type MechColumn, MechFlag } from "../protocol.gen";
import { clockText } from "../timeline";

/** Values of blue and red. */
export type Pair = [number, number];

/** Sums of the events of a match. */
export interface Sums {
  readonly shots: Pair; // rounds fired, and hits of beams
  readonly damage: Pair; // dealt to hostile mechs [hit points]
  readonly kills: Pair; // mechs of the other team destroyed
}

/** The first difference of two matches. */
export interface Difference {
  readonly tick: number;
  readonly what: string; // e.g. "R4's position"
}

/** Mechs of two matches at a moment. */
export interface Apart {
  readonly mech: number;
  readonly distance: number; // between the places in both [vox]
  readonly alive: readonly [boolean, boolean];
  readonly hp: readonly [number, number];
}

const COLUMNS: readonly (readonly [MechColumn, string])[] = [
  ["x", "position"],
  ["y", "position"],
  ["z", "position"],
  ["hp", "health"],
  ["leg_hp", "leg health"],
  ["flags", "state"],
  ["heat", "heat"],
  ["yaw", "heading"],
  ["stability", "stability"],
];
const ACTED = MechFlag.VENT; // flags of the last action, which the first frame of a continuation lacks
const NEAR = 0.5; // distance that counts as a difference of places [vox]

/** Return empty sums. */
export function noSums(): Sums {
  return { shots: [0, 0], damage: [0, 0], kills: [0, 0] };
}

/** Return sums with the events of a chunk from a tick to another added. */
export function addEvents({ shots, damage, kills }: Sums, header: Header, chunk: Chunk, until: number, from = 0): Sums {
  const sums: Sums = { shots: [...shots], damage: [...damage], kills: [...kills] };
  const { events } = chunk;
  for (let i = 0; i < events.count && events.tick[i] <= until; i++) {
    if (events.tick[i] < from) continue;
    const [actor, target] = [header.roster[events.actor[i]]?.team, header.roster[events.target[i]]?.team];
    if (events.kind[i] === EventKind.KILL && target !== undefined) sums.kills[1 - target]++;
    if (actor === undefined) continue;
    const hit = events.kind[i] === EventKind.HIT;
    const beam = hit && header.weapons[events.weapon[i]]?.speed === 0;
    if (beam || events.kind[i] === EventKind.LAUNCH) sums.shots[actor]++;
    if (hit && target !== undefined && target !== actor) sums.damage[actor] += events.value[i];
  }
  return sums;
}

/** Return whether two matches have the same mechs, so that they can differ in what the mechs do. */
export function hasSameRoster(a: Header, b: Header): boolean {
  const plain = (header: Header) => header.roster.map(({ team, chassis, present }) => [team, chassis, present]);
  return JSON.stringify(plain(a)) === JSON.stringify(plain(b));
}

/** Return what two headers share, in words. */
export function sharedText(a: Header, b: Header): string {
  const map = a.world.sha256 === b.world.sha256;
  if (!map) return "Different maps: only the clock is shared";
  const mechs = hasSameRoster(a, b) ? "" : ", different mechs";
  const branches = [a, b].flatMap(({ parent, tick_hz }, side) =>
    parent ? [`${"AB"[side]} continues a match from ${clockText(parent.tick / tick_hz)}`] : [],
  );
  if (branches.length > 0) return `Same map${mechs}; ${branches.join(", ")}`;
  return `Same map${a.seed === b.seed ? " and seed" : ", different seeds"}${mechs}`;
}

/** Return the first difference of two chunks from a tick on, as far as both have frames, or null. */
export function firstDifference(header: Header, a: Chunk, b: Chunk, from = 0): Difference | null {
  const first = Math.max(from, Math.min(a.tick[0], b.tick[0]));
  let [i, j] = [a, b].map((chunk) => {
    const frame = chunk.tick.findIndex((tick) => tick >= first);
    return frame < 0 ? chunk.frames : frame;
  });
  for (; i < a.frames && j < b.frames; i++, j++) {
    const tick = a.tick[i];
    if (tick !== b.tick[j]) return { tick: Math.min(tick, b.tick[j]), what: "time of the frames" };
    for (const [column, what] of COLUMNS) {
      for (let mech = 0; mech < a.mechs; mech++) {
        const [one, other] = [a.mech[column][i * a.mechs + mech], b.mech[column][j * b.mechs + mech]];
        const equal = column === "flags" ? (one & ~ACTED) === (other & ~ACTED) : one === other;
        if (!equal) return { tick, what: `${mechName(header, mech)}'s ${what}` };
      }
    }
    for (const team of [0, 1])
      if (a.score[i * 2 + team] !== b.score[j * 2 + team]) return { tick, what: "zone points" };
  }
  return null;
}

/** Return the present mechs whose place or survival differs at a moment, the farthest apart first. */
export function mechsApart(header: Header, poses: readonly [PoseColumns, PoseColumns]): Apart[] {
  const [a, b] = poses;
  const all = header.roster.map((_, mech): Apart => ({
    mech,
    distance: Math.hypot(a.x[mech] - b.x[mech], a.y[mech] - b.y[mech], a.z[mech] - b.z[mech]),
    alive: [a.alive[mech] > 0.5, b.alive[mech] > 0.5],
    hp: [a.hp[mech], b.hp[mech]],
  }));
  const differs = ({ mech, distance, alive }: Apart) =>
    header.roster[mech].present && (alive[0] !== alive[1] || (alive[0] && distance > NEAR));
  const weight = ({ alive, distance }: Apart) => (alive[0] !== alive[1] ? 1e6 : 0) + distance;
  return all.filter(differs).sort((one, other) => weight(other) - weight(one));
}

/** Columns of poses that are compared. */
export type PoseColumns = Readonly<Record<"x" | "y" | "z" | "alive" | "hp", Float32Array>>;

/** Return a difference of one mech as text. */
export function apartText(header: Header, { mech, distance, alive, hp }: Apart): string {
  const name = mechName(header, mech);
  if (alive[0] !== alive[1]) return `${name} alive only in ${alive[0] ? "A" : "B"}`;
  const [apart, health] = [distance.toFixed(distance < 10 ? 1 : 0), hp.map((value) => value.toFixed(0)).join(" / ")];
  return `${name} ${apart} vox apart, health ${health}`;
}

/** Return the first difference as text; `read` is the share of the matches compared so far. */
export function differenceText(difference: Difference | null, read: number, hz: number): string {
  if (difference) {
    const seconds = difference.tick / hz;
    const tenths = Math.floor((seconds % 1) * 10 + 1e-6);
    return `First difference at ${clockText(seconds)}.${tenths}: ${difference.what}`;
  }
  return read < 1 ? `No difference in the first ${Math.floor(read * 100)} %` : "No difference";
}
