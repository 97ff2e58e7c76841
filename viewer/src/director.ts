// Where the director points the camera: for a few seconds at a time at the place where most damage is being dealt. A pure
// function of the match and the tick, so that the same moment always has the same shot.

import { chunkAt } from "./data/store";
import { type Chunk, firstAfter } from "./data/replay";
import { sampleOne } from "./interpolate";
import { EventKind, MechFlag } from "./protocol.gen";
import type { MatchState } from "./state";

const SHOT_S = 4; // length of a shot
const AHEAD_S = 3; // how far into the shot events count
const NEAR = 15; // what lies this near to its middle belongs to a fight [vox]
const KILL_WORTH = 40; // of a kill, in hit points of damage
const CLOSEST = 20; // least distance of the camera [vox]
const SPREAD = 1.7; // distance gained per voxel that a fight is wide
const TURN = 0.05; // how fast it walks around the fight [rad/s]

/** A place to look at, from where. */
export interface Shot {
  target: [number, number, number]; // [vox]
  distance: number; // [vox]
  azimuth: number; // [rad]
  elevation: number; // [rad]
}

/** The shot at a tick, or null while the chunks it depends on have not arrived. */
export function shotAt(match: MatchState, tick: number): Shot | null {
  const hz = match.header.tick_hz;
  const begin = Math.floor(tick / (SHOT_S * hz)) * SHOT_S * hz;
  const number = chunkAt(match.index.chunks, begin + hz);
  const chunks = [match.store.get(number), match.store.get(number + 1)].filter((chunk): chunk is Chunk => chunk !== undefined);
  if (chunks.length === 0) return null;
  const at = Math.min(begin + hz, chunks[0].tick1);
  const worth = worthOf(chunks, begin, begin + AHEAD_S * hz, match.header.mechs);
  const places = match.header.roster.map((_, mech) => sampleOne(chunks[0], mech, at, hz));
  const living = places.map((_, mech) => mech).filter((mech) => chunks[0].mech.flags[mech] & MechFlag.ALIVE);
  if (living.length === 0) return null;
  const apart = (a: number, b: number) => Math.hypot(places[a].x - places[b].x, places[a].y - places[b].y);
  const total = (mech: number) => living.reduce((sum, other) => sum + (apart(mech, other) < NEAR ? worth[other] + 0.01 : 0), 0);
  const best = living.reduce((a, b) => (total(b) > total(a) ? b : a));
  const fight = living.filter((mech) => apart(best, mech) < NEAR);
  const weight = fight.reduce((sum, mech) => sum + worth[mech] + 0.5, 0);
  const mean = (axis: "x" | "y" | "z") => fight.reduce((sum, mech) => sum + places[mech][axis] * (worth[mech] + 0.5), 0) / weight;
  const [x, y] = [mean("x"), mean("y")];
  const spread = Math.max(...fight.map((mech) => Math.hypot(places[mech].x - x, places[mech].y - y)));
  return { target: [x, y, mean("z") * 0.5], distance: CLOSEST + SPREAD * spread, azimuth: -2.15 + TURN * (tick / hz), elevation: 0.52 };
}

/** How much each mech is in the fight between two ticks: damage dealt and suffered. */
function worthOf(chunks: readonly Chunk[], from: number, to: number, mechs: number): Float64Array {
  const worth = new Float64Array(mechs);
  for (const { events } of chunks) {
    for (let i = firstAfter(events.tick, from); i < events.count && events.tick[i] <= to; i++) {
      const value = events.kind[i] === EventKind.KILL ? KILL_WORTH : events.kind[i] === EventKind.HIT ? events.value[i] : 0;
      for (const mech of [events.who[i], events.whom[i]]) if (mech >= 0 && mech < mechs) worth[mech] += value;
    }
  }
  return worth;
}
