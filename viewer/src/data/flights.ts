// The way of every round through the air, pieced together from where rounds were seen at frames and from the events of
// launching and striking in between, since the fastest are never seen in flight. Pure; computed once per chunk.

import { EventKind, HitFlag, type Header } from "../protocol.gen";
import { sampleOne } from "../interpolate";
import type { Chunk } from "./replay";

/** One round, or the part of its flight that lies in one chunk. */
export interface Flight {
  readonly owner: number; // mech that fired it
  readonly weapon: number; // index of its weapon
  readonly points: readonly FlightPoint[]; // in order of time, at least two
  readonly struck: boolean; // whether it ended in a hit or an impact
}

/** Where a round was [vox] and when [tick]. */
export interface FlightPoint {
  tick: number;
  x: number;
  y: number;
  z: number;
}

/** An event at which a round began or ended. */
interface End extends FlightPoint {
  owner: number;
  weapon: number;
  used: boolean;
}

/** Collect the launches or the strikes of a chunk. */
function ends(chunk: Chunk, header: Header, kinds: readonly EventKind[]): End[] {
  const { events } = chunk;
  const found: End[] = [];
  for (let i = 0; i < events.count; i++) {
    if (!kinds.includes(events.kind[i])) continue;
    const defended = events.kind[i] === EventKind.AMS;
    if (defended && !(events.flags[i] & HitFlag.STOPPED)) continue;
    const spec = header.weapons[events.weapon[i]];
    if (!spec || spec.speed <= 0) continue;
    const mech = events.kind[i] === EventKind.HIT ? events.whom[i] : events.who[i];
    const place = defended || events.kind[i] === EventKind.IMPACT
      ? { x: events.x[i], y: events.y[i], z: events.z[i] }
      : sampleOne(chunk, mech, events.tick[i], header.tick_hz);
    found.push({ tick: events.tick[i], x: place.x, y: place.y, z: place.z, owner: defended ? events.whom[i] : events.who[i], weapon: events.weapon[i], used: false });
  }
  return found;
}

/** Take the first unused end of this owner and weapon with a tick in (after, until]. */
function take(all: End[], owner: number, weapon: number, after: number, until: number): End | null {
  const found = all.find((end) => !end.used && end.owner === owner && end.weapon === weapon && end.tick > after && end.tick <= until);
  if (found) found.used = true;
  return found ?? null;
}

/** Group the rounds seen at frames by who fired them and when. */
function seen(chunk: Chunk): Map<string, { owner: number; weapon: number; birth: number; points: FlightPoint[] }> {
  const { rounds } = chunk;
  const groups = new Map<string, { owner: number; weapon: number; birth: number; points: FlightPoint[] }>();
  for (let i = 0; i < rounds.count; i++) {
    const tick = chunk.tick[rounds.frame[i]];
    const birth = tick - rounds.age[i];
    const key = `${rounds.owner[i]} ${rounds.slot[i]} ${birth} ${rounds.weapon[i]}`;
    const group = groups.get(key) ?? { owner: rounds.owner[i], weapon: rounds.weapon[i], birth, points: [] };
    group.points.push({ tick, x: rounds.x[i], y: rounds.y[i], z: rounds.z[i] });
    groups.set(key, group);
  }
  return groups;
}

const cache = new WeakMap<Chunk, readonly Flight[]>();

/** The flights of a chunk. */
export function flightsOf(chunk: Chunk, header: Header): readonly Flight[] {
  let flights = cache.get(chunk);
  if (!flights) cache.set(chunk, (flights = findFlights(chunk, header)));
  return flights;
}

/** Piece the flights of a chunk together. */
export function findFlights(chunk: Chunk, header: Header): Flight[] {
  const launches = ends(chunk, header, [EventKind.LAUNCH]);
  const strikes = ends(chunk, header, [EventKind.HIT, EventKind.IMPACT, EventKind.AMS]);
  const flights: Flight[] = [];
  for (const { owner, weapon, birth, points } of seen(chunk).values()) {
    const launch = take(launches, owner, weapon, birth - 2, birth + 2);
    if (launch && launch.tick < points[0].tick) points.unshift(launch);
    const last = points[points.length - 1].tick;
    const strike = last < chunk.tick1 ? take(strikes, owner, weapon, last - 1, last + header.frame_ticks) : null;
    if (strike && strike.tick > last) points.push(strike);
    if (points.length > 1) flights.push({ owner, weapon, points, struck: strike !== null });
  }
  for (const launch of launches) {
    if (launch.used) continue;
    const reach = (header.weapons[launch.weapon].range / header.weapons[launch.weapon].speed) * header.tick_hz;
    const strike = take(strikes, launch.owner, launch.weapon, launch.tick - 1, launch.tick + reach + 2);
    if (!strike) continue;
    // a round that strikes in the tick of its launch still flew a moment
    const end = strike.tick > launch.tick ? strike : { ...strike, tick: launch.tick + 1 };
    flights.push({ owner: launch.owner, weapon: launch.weapon, points: [launch, end], struck: true });
  }
  return flights;
}

/** Where a flight is at a tick, or null before and after it. */
export function flightAt(flight: Flight, tick: number): FlightPoint | null {
  const { points } = flight;
  if (tick < points[0].tick || tick > points[points.length - 1].tick) return null;
  let i = 0;
  while (i + 2 < points.length && points[i + 1].tick < tick) i++;
  const [a, b] = [points[i], points[i + 1]];
  const share = (tick - a.tick) / Math.max(1e-6, b.tick - a.tick);
  return { tick, x: a.x + (b.x - a.x) * share, y: a.y + (b.y - a.y) * share, z: a.z + (b.z - a.z) * share };
}
