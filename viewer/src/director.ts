// Camera shots of the director: for a few seconds at a time, the place where most damage is dealt. A pure function of
// match and tick, so that the same moment always has the same shot.

import { chunkAt } from "./data/store";
import { type Chunk, firstAfter } from "./data/replay";
import { type MechPose, sampleMech } from "./interpolate";
import { APPEARANCES, type Appearance } from "./palette";
import { cellIndex } from "./spaces";
import { EventKind, MechFlag } from "./protocol.gen";
import type { MatchState } from "./state";

const SHOT_S = 4; // length of a shot
const AHEAD_S = 3; // time from the start of a shot in which events count [s]
const NEAR = 15; // radius of a fight [vox]
const KILL_WORTH = 40; // weight of a kill, in hit points of damage
const CLOSEST = 20; // least camera distance [vox]
const SPREAD = 1.7; // additional camera distance per voxel of the fight's radius
const FIRST_SIDE = -2.15; // preferred azimuth of the camera [rad]
const SIDES = 8; // number of azimuths tried
const ELEVATIONS = [0.52, 0.85, 1.15]; // elevations tried, flattest first [rad]
const CHECKED_FIGHTERS = 8; // most fighters whose visibility is checked
const HEAD = 1; // height of a mech's head above its centre [vox]
const TURN = 0.05; // angular speed of the camera around the fight [rad/s]

/** A camera position and its target. */
export interface Shot {
  target: [number, number, number]; // [vox]
  distance: number; // [vox]
  azimuth: number; // [rad]
  elevation: number; // [rad]
}

let cached: { match: MatchState; begin: number; scenery: boolean; shot: (Shot & { drift: number }) | null } | null =
  null;

/** Return the shot at a tick, or null while its chunks have not arrived. */
export function shotAt(match: MatchState, tick: number): Shot | null {
  const hz = match.header.tick_hz;
  const begin = Math.floor(tick / (SHOT_S * hz)) * SHOT_S * hz;
  const scenery = match.scenery !== null;
  if (cached?.match !== match || cached.begin !== begin || cached.scenery !== scenery || cached.shot === null)
    cached = { match, begin, scenery, shot: findShot(match, begin) };
  if (cached.shot === null) return null;
  const { drift, ...shot } = cached.shot;
  return { ...shot, azimuth: shot.azimuth + (TURN * (tick - drift)) / hz };
}

/** Return the shot that begins at a tick. */
function findShot(match: MatchState, begin: number): (Shot & { drift: number }) | null {
  const hz = match.header.tick_hz;
  const number = chunkAt(match.index.chunks, begin + hz);
  const needed = [number, number + 1].filter((n) => n < match.index.chunks.length);
  const chunks = needed.map((n) => match.store.get(n)).filter((chunk): chunk is Chunk => chunk !== undefined);
  if (chunks.length < needed.length) return null;
  const at = Math.min(begin + hz, chunks[0].tick1);
  const worth = combatWeights(chunks, begin, begin + AHEAD_S * hz, match.header.mechs);
  const places = match.header.roster.map((_, mech) => sampleMech(chunks[0], mech, at, hz));
  const living = places.map((_, mech) => mech).filter((mech) => chunks[0].mech.flags[mech] & MechFlag.ALIVE);
  if (living.length === 0) return null;
  const apart = (a: number, b: number) => Math.hypot(places[a].x - places[b].x, places[a].y - places[b].y);
  const total = (mech: number) =>
    living.reduce((sum, other) => sum + (apart(mech, other) < NEAR ? worth[other] + 0.01 : 0), 0);
  const best = living.reduce((a, b) => (total(b) > total(a) ? b : a));
  const fight = living.filter((mech) => apart(best, mech) < NEAR);
  const weight = fight.reduce((sum, mech) => sum + worth[mech] + 0.5, 0);
  const mean = (axis: "x" | "y" | "z") =>
    fight.reduce((sum, mech) => sum + places[mech][axis] * (worth[mech] + 0.5), 0) / weight;
  const [x, y] = [mean("x"), mean("y")];
  const spread = Math.max(...fight.map((mech) => Math.hypot(places[mech].x - x, places[mech].y - y)));
  const shot: Shot = {
    target: [x, y, mean("z") * 0.5],
    distance: CLOSEST + SPREAD * spread,
    azimuth: FIRST_SIDE,
    elevation: ELEVATIONS[0],
  };
  const fighters = fight
    .sort((a, b) => worth[b] - worth[a])
    .slice(0, CHECKED_FIGHTERS)
    .map((mech) => places[mech]);
  return { ...clearestSide(match, shot, fighters), drift: begin };
}

/** Return the shot from the side with a clear view of most fighters, the preferred side first. */
function clearestSide(match: MatchState, shot: Shot, fighters: readonly MechPose[]): Shot {
  const { scenery, header } = match;
  if (!scenery) return shot;
  let [best, most] = [shot, -1];
  for (const elevation of ELEVATIONS) {
    for (let side = 0; side < SIDES; side++) {
      const turned = { ...shot, elevation, azimuth: FIRST_SIDE + (side * 2 * Math.PI) / SIDES };
      const seen = fighters.filter((place) =>
        hasLineOfSight(turned, place, scenery.appearances, header.world.size),
      ).length;
      if (seen > most) [best, most] = [turned, seen];
    }
  }
  return best;
}

/** Return whether no wall stands between a shot's camera and a mech. */
function hasLineOfSight(shot: Shot, place: MechPose, appearances: Uint8Array, size: readonly number[]): boolean {
  const flat = Math.cos(shot.elevation) * shot.distance;
  const camera = [
    shot.target[0] + Math.cos(shot.azimuth) * flat,
    shot.target[1] + Math.sin(shot.azimuth) * flat,
    shot.target[2] + Math.sin(shot.elevation) * shot.distance,
  ];
  const way = [camera[0] - place.x, camera[1] - place.y, camera[2] - place.z - HEAD];
  const steps = Math.ceil(Math.hypot(...way));
  for (let step = 1; step <= steps; step++) {
    const [x, y, z] = [place.x, place.y, place.z + HEAD].map((from, axis) =>
      Math.floor(from + (way[axis] * step) / steps),
    );
    if (x < 0 || y < 0 || z < 0 || x >= size[0] || y >= size[1] || z >= size[2]) continue;
    const { form } = APPEARANCES[appearances[cellIndex(x, y, z, size[0], size[1])] as Appearance];
    if (form === "block") return false;
  }
  return true;
}

/** Return the damage dealt and taken by each mech between two ticks, kills included [hit points]. */
function combatWeights(chunks: readonly Chunk[], from: number, to: number, mechs: number): Float64Array {
  const worth = new Float64Array(mechs);
  for (const { events } of chunks) {
    for (let i = firstAfter(events.tick, from); i < events.count && events.tick[i] <= to; i++) {
      const value =
        events.kind[i] === EventKind.KILL ? KILL_WORTH : events.kind[i] === EventKind.HIT ? events.value[i] : 0;
      for (const mech of [events.who[i], events.whom[i]]) if (mech >= 0 && mech < mechs) worth[mech] += value;
    }
  }
  return worth;
}
