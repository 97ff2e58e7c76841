// Where the director points the camera: for a few seconds at a time at the place where most damage is being dealt. A pure
// function of the match and the tick, so that the same moment always has the same shot.

import { chunkAt } from "./data/store";
import { type Chunk, firstAfter } from "./data/replay";
import { type Place, sampleOne } from "./interpolate";
import { LOOKS, type Look } from "./palette";
import { cellIndex } from "./spaces";
import { EventKind, MechFlag } from "./protocol.gen";
import type { MatchState } from "./state";

const SHOT_S = 4; // length of a shot
const AHEAD_S = 3; // how far into the shot events count
const NEAR = 15; // what lies this near to its middle belongs to a fight [vox]
const KILL_WORTH = 40; // of a kill, in hit points of damage
const CLOSEST = 20; // least distance of the camera [vox]
const SPREAD = 1.7; // distance gained per voxel that a fight is wide
const FIRST_SIDE = -2.15; // where the camera stands if nothing is in the way [rad]
const SIDES = 8; // so many are tried
const ELEVATIONS = [0.52, 0.85, 1.15]; // from the flattest, which shows most [rad]
const ASKED = 8; // fighters who are to be seen
const HEAD = 1; // of a mech above its middle [vox]
const TURN = 0.05; // how fast it walks around the fight [rad/s]

/** A place to look at, from where. */
export interface Shot {
  target: [number, number, number]; // [vox]
  distance: number; // [vox]
  azimuth: number; // [rad]
  elevation: number; // [rad]
}

let kept: { match: MatchState; begin: number; scenery: boolean; shot: (Shot & { drift: number }) | null } | null = null;

/** The shot at a tick, or null while the chunks it depends on have not arrived. */
export function shotAt(match: MatchState, tick: number): Shot | null {
  const hz = match.header.tick_hz;
  const begin = Math.floor(tick / (SHOT_S * hz)) * SHOT_S * hz;
  const scenery = match.scenery !== null;
  if (kept?.match !== match || kept.begin !== begin || kept.scenery !== scenery || kept.shot === null)
    kept = { match, begin, scenery, shot: find(match, begin) };
  if (kept.shot === null) return null;
  const { drift, ...shot } = kept.shot;
  return { ...shot, azimuth: shot.azimuth + (TURN * (tick - drift)) / hz };
}

/** The shot of the stretch that begins at a tick. */
function find(match: MatchState, begin: number): (Shot & { drift: number }) | null {
  const hz = match.header.tick_hz;
  const number = chunkAt(match.index.chunks, begin + hz);
  const wanted = [number, number + 1].filter((n) => n < match.index.chunks.length);
  const chunks = wanted.map((n) => match.store.get(n)).filter((chunk): chunk is Chunk => chunk !== undefined);
  if (chunks.length < wanted.length) return null;
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
  const shot: Shot = { target: [x, y, mean("z") * 0.5], distance: CLOSEST + SPREAD * spread, azimuth: FIRST_SIDE, elevation: ELEVATIONS[0] };
  const fighters = fight.sort((a, b) => worth[b] - worth[a]).slice(0, ASKED).map((mech) => places[mech]);
  return { ...clearest(match, shot, fighters), drift: begin };
}

/** The same shot from the side from which most of the fighters are seen, the usual side first. */
function clearest(match: MatchState, shot: Shot, fighters: readonly Place[]): Shot {
  const { scenery, header } = match;
  if (!scenery) return shot;
  let [best, most] = [shot, -1];
  for (const elevation of ELEVATIONS) {
    for (let side = 0; side < SIDES; side++) {
      const turned = { ...shot, elevation, azimuth: FIRST_SIDE + (side * 2 * Math.PI) / SIDES };
      const seen = fighters.filter((place) => sees(turned, place, scenery.looks, header.world.size)).length;
      if (seen > most) [best, most] = [turned, seen];
    }
  }
  return best;
}

/** Whether nothing stands between a shot's camera and a place. */
function sees(shot: Shot, place: Place, looks: Uint8Array, size: readonly number[]): boolean {
  const flat = Math.cos(shot.elevation) * shot.distance;
  const camera = [shot.target[0] + Math.cos(shot.azimuth) * flat, shot.target[1] + Math.sin(shot.azimuth) * flat, shot.target[2] + Math.sin(shot.elevation) * shot.distance];
  const way = [camera[0] - place.x, camera[1] - place.y, camera[2] - place.z - HEAD];
  const steps = Math.ceil(Math.hypot(...way));
  for (let step = 1; step <= steps; step++) {
    const [x, y, z] = [place.x, place.y, place.z + HEAD].map((from, axis) => Math.floor(from + (way[axis] * step) / steps));
    if (x < 0 || y < 0 || z < 0 || x >= size[0] || y >= size[1] || z >= size[2]) continue;
    const { form } = LOOKS[looks[cellIndex(x, y, z, size[0], size[1])] as Look];
    if (form === "block") return false;
  }
  return true;
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
