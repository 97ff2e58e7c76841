// Camera shots of the director, and its pace. A shot lasts a few seconds: it frames the fight with most damage, or
// both teams and the zone at the start and while there is none. Blue is on the left and red on the right (in portrait
// below and above). Pure functions of match, tick and free part of the window, so that the same moment always has the
// same shot and pace.

import { chunkAt } from "./data/store";
import { type Chunk, firstAfter } from "./data/replay";
import { type Insets, type Point, circlePoints, fitPoints, freeTangents } from "./framing";
import { type MechPose, sampleMech } from "./interpolate";
import { APPEARANCES, type Appearance } from "./palette";
import { cellIndex } from "./spaces";
import { EventKind, type Header, MechFlag } from "./protocol.gen";
import type { MatchState } from "./state";

const SHOT_S = 4; // length of a shot
const AHEAD_S = 3; // time from the start of a shot in which events count [s]
const NEAR = 15; // radius of a fight [vox]
const NEAR_ZONE = 24; // distance of a fight from the zone within which the zone is framed too [vox]
const KILL_WORTH = 40; // weight of a kill, in hit points of damage
const QUIET = 1; // least damage of a shot with a fight [hit points]
const CLOSEST = 20; // least camera distance [vox]
const TALL = 2; // height of a framed mech above its centre [vox]
const PLATE_ROOM = 40; // room for the nameplates of mechs at the edges [CSS px]
const SIDES = [0, 0.45, -0.45, 0.9, -0.9]; // azimuths tried, relative to the side view [rad]
const ELEVATIONS = [0.62, 0.85, 1.1]; // elevations tried, flattest first [rad]
const WIDE_ELEVATION = 0.85; // of shots of both teams [rad]
const CHECKED_FIGHTERS = 8; // most fighters whose visibility is checked
const HEAD = 1; // height of a mech's head above its centre [vox]
const SIDE = -2.15; // azimuth while the teams' places are unknown [rad]

const [SKIP, SLOW] = [2, 0.5];
const KILL_S = [0.9, 0.6] as const; // time before and after a kill that is slowed down [s]
const QUIET_S = [1, 2] as const; // seconds before and after the cursor without damage that are skipped

export interface Shot {
  target: [number, number, number]; // [vox]
  distance: number; // [vox]
  azimuth: number; // [rad]
  elevation: number; // [rad]
}

/** Window and its edges that panels cover, of a `ViewerState`. */
export interface View {
  readonly window: readonly [number, number];
  readonly insets: Insets;
}

/** Return the direction from blue's to red's mechs in the first frame of a chunk [rad], null without one of them. */
export function teamAxis(header: Header, chunk: Chunk): number | null {
  const centres = [0, 1].map((team) => {
    const mechs = header.roster.map((_, mech) => mech).filter((mech) => header.roster[mech].team === team);
    const present = mechs.filter((mech) => header.roster[mech].present && chunk.mech.flags[mech] & MechFlag.ALIVE);
    const mean = (column: Float32Array) => present.reduce((sum, mech) => sum + column[mech], 0) / present.length;
    return [mean(chunk.mech.x), mean(chunk.mech.y)];
  });
  const [x, y] = [centres[1][0] - centres[0][0], centres[1][1] - centres[0][1]];
  return Number.isNaN(x) || Math.hypot(x, y) < 1 ? null : Math.atan2(y, x);
}

/** Return the azimuth that shows blue on the left, or below in portrait [rad]. */
export function sideView({ axis }: MatchState, [across, along]: readonly [number, number]): number {
  if (axis === null) return SIDE;
  return across >= along ? axis - Math.PI / 2 : axis + Math.PI;
}

/** Return the factor of the playback speed at a tick: faster where no damage is dealt, slower around kills. */
export function paceAt({ index, markers, header }: MatchState, tick: number): number {
  const seconds = tick / header.tick_hz;
  const near = (at: number, [before, after]: readonly [number, number]) =>
    at > seconds - after && at < seconds + before;
  if (markers.some((marker) => marker.kind === EventKind.KILL && near(marker.tick / header.tick_hz, KILL_S)))
    return SLOW;
  const { second, damage } = index.series;
  if (seconds < SHOT_S) return 1; // the opening shot is there to be looked at
  const known = second.length > 0 && second[second.length - 1] >= seconds;
  const fought = second.some(
    (end, i) => end > seconds - QUIET_S[0] && end - 1 < seconds + QUIET_S[1] && damage[0][i] + damage[1][i] > 0,
  );
  return known && !fought ? SKIP : 1;
}

const cache = new WeakMap<MatchState, { key: string; shot: Shot | null }>(); // last shot of each open match

/** Return the shot at a tick, or null while its chunks have not arrived. */
export function shotAt(match: MatchState, tick: number, { window, insets }: View): Shot | null {
  const span = SHOT_S * match.header.tick_hz;
  const begin = Math.floor(tick / span) * span;
  const tangents = freeTangents(window, insets, PLATE_ROOM);
  const key = [begin, match.scenery !== null, match.axis, ...tangents].join(" ");
  let cached = cache.get(match);
  if (cached?.key !== key || cached.shot === null)
    cache.set(match, (cached = { key, shot: findShot(match, begin, tangents) }));
  return cached.shot && { ...cached.shot, target: [...cached.shot.target] };
}

/** Whether the shot at a tick waits for a chunk; failed ones are not awaited. */
export function awaitsShot(match: MatchState, tick: number): boolean {
  if (match.awaitsAxis) return true;
  const span = SHOT_S * match.header.tick_hz;
  return shotChunks(match, Math.floor(tick / span) * span).some((number) => match.store.isPending(number));
}

/** Return the numbers of the chunks that the shot beginning at a tick needs. */
function shotChunks({ index: { chunks }, header }: MatchState, begin: number): number[] {
  const [first, last] = [chunkAt(chunks, begin), chunkAt(chunks, begin + SHOT_S * header.tick_hz)];
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

function findShot(match: MatchState, begin: number, tangents: [number, number]): Shot | null {
  const hz = match.header.tick_hz;
  const numbers = shotChunks(match, begin);
  const chunks = numbers.map((n) => match.store.get(n)).filter((chunk): chunk is Chunk => chunk !== undefined);
  if (chunks.length < numbers.length) return null;
  const placesAt = (seconds: number) => {
    const at = begin + seconds * hz;
    const chunk = chunks.find(({ tick1 }) => at <= tick1) ?? chunks[chunks.length - 1];
    return match.header.roster.map((_, mech) => sampleMech(chunk, mech, Math.min(at, chunk.tick1), hz));
  };
  const [now, later] = [placesAt(0), placesAt(AHEAD_S)];
  const living = now
    .map((_, mech) => mech)
    .filter((mech) => match.header.roster[mech].present && isAlive(chunks[0], mech, begin));
  if (living.length === 0) return null;
  const worth = combatWeights(chunks, begin, begin + AHEAD_S * hz, match.header.mechs);
  const azimuth = sideView(match, tangents);
  const pointsOf = (mechs: readonly number[]) =>
    mechs.flatMap((mech) =>
      [now[mech], later[mech]].flatMap(({ x, y, z }): Point[] => [
        [x, y, z - 1],
        [x, y, z + TALL],
      ]),
    );
  const fit = (points: readonly Point[], direction: { azimuth: number; elevation: number }): Shot => {
    const { target, distance } = fitPoints(points, direction, tangents, CLOSEST);
    return { target, distance, ...direction };
  };
  const zone = circlePoints(match.header.zone);
  if (begin === 0 || worth.reduce((sum, value) => sum + value, 0) < QUIET)
    return fit([...pointsOf(living), ...zone], { azimuth, elevation: WIDE_ELEVATION });
  const fight = fightOf(now, living, worth);
  const [x, y] = (["x", "y"] as const).map((axis) => fight.reduce((sum, m) => sum + now[m][axis], 0) / fight.length);
  const nearZone = Math.hypot(x - match.header.zone[0], y - match.header.zone[1]) < NEAR_ZONE;
  const points = [...pointsOf(fight), ...(nearZone ? zone : [])];
  const fighters = [...fight]
    .sort((a, b) => worth[b] - worth[a])
    .slice(0, CHECKED_FIGHTERS)
    .map((mech) => now[mech]);
  return fit(points, clearestSide(match, fit(points, { azimuth, elevation: ELEVATIONS[0] }), fighters));
}

function isAlive(chunk: Chunk, mech: number, tick: number): boolean {
  const frame = Math.max(0, Math.min(chunk.frames, firstAfter(chunk.tick, tick)) - 1);
  return (chunk.mech.flags[frame * chunk.mechs + mech] & MechFlag.ALIVE) !== 0;
}

/** Return the living mechs around the one with most fighting near it. */
function fightOf(places: readonly MechPose[], living: readonly number[], worth: Float64Array): number[] {
  const apart = (a: number, b: number) => Math.hypot(places[a].x - places[b].x, places[a].y - places[b].y);
  const totals = new Map(
    living.map((mech) => [
      mech,
      living.reduce((sum, other) => sum + (apart(mech, other) < NEAR ? worth[other] + 0.01 : 0), 0),
    ]),
  );
  const best = living.reduce((a, b) => ((totals.get(b) ?? 0) > (totals.get(a) ?? 0) ? b : a));
  // opponents may fight over a longer distance
  const most = Math.max(...living.map((mech) => worth[mech]));
  return living.filter((mech) => apart(best, mech) < NEAR || (worth[mech] > most / 4 && apart(best, mech) < 2 * NEAR));
}

/** Return the direction with a clear view of most fighters, the shot's own first. */
function clearestSide(
  match: MatchState,
  shot: Shot,
  fighters: readonly MechPose[],
): { azimuth: number; elevation: number } {
  const { scenery, header } = match;
  let [best, most] = [{ azimuth: shot.azimuth, elevation: shot.elevation }, -1];
  if (!scenery) return best;
  for (const elevation of ELEVATIONS) {
    for (const side of SIDES) {
      const turned = { ...shot, elevation, azimuth: shot.azimuth + side };
      const seen = fighters.filter((place) =>
        hasLineOfSight(turned, place, scenery.appearances, header.world.size),
      ).length;
      if (seen > most) [best, most] = [{ azimuth: turned.azimuth, elevation }, seen];
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
      for (const mech of [events.actor[i], events.target[i]]) if (mech >= 0 && mech < mechs) worth[mech] += value;
    }
  }
  return worth;
}
