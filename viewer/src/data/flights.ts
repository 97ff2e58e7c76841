// Flight paths of rounds, reconstructed from the positions recorded at frames and from launch and hit events between
// them, since the fastest rounds fly for less than a frame. Pure; computed once per chunk.

import { EventKind, HitFlag, type Header } from "../protocol.gen";
import { sampleMech } from "../interpolate";
import type { Chunk } from "./replay";

/** The flight of one round within one chunk. */
export interface Flight {
  readonly owner: number; // index of the mech that fired it
  readonly weapon: number; // index of the weapon
  readonly points: readonly FlightPoint[]; // in time order, at least two
  readonly struck: boolean; // whether it ended with a hit or an impact
}

/** Position of a round [vox] at a tick. */
export interface FlightPoint {
  tick: number;
  x: number;
  y: number;
  z: number;
}

interface End extends FlightPoint {
  owner: number;
  weapon: number;
  used: boolean;
  next: number; // of the ends of its owner and weapon, the first that may be unused from this one on
}

/** Ends in time order by owner and weapon, so that each is claimed in nearly constant time. */
type Ends = ReadonlyMap<string, End[]>;

function groupEnds(ends: readonly End[]): Ends {
  const groups = new Map<string, End[]>();
  for (const end of ends) {
    const key = `${end.owner} ${end.weapon}`;
    const group = groups.get(key);
    end.next = group?.length ?? 0;
    if (group) group.push(end);
    else groups.set(key, [end]);
  }
  return groups;
}

/** Return the events of some kinds as flight ends: launches, or hits and impacts. */
function flightEnds(chunk: Chunk, header: Header, kinds: readonly EventKind[]): End[] {
  const { events } = chunk;
  const ends: End[] = [];
  for (let i = 0; i < events.count; i++) {
    if (!kinds.includes(events.kind[i])) continue;
    const defended = events.kind[i] === EventKind.AMS;
    if (defended && !(events.flags[i] & HitFlag.STOPPED)) continue;
    const spec = header.weapons[events.weapon[i]];
    if (!spec || spec.speed <= 0) continue;
    const mech = events.kind[i] === EventKind.HIT ? events.target[i] : events.actor[i];
    const position =
      defended || events.kind[i] === EventKind.IMPACT
        ? { x: events.x[i], y: events.y[i], z: events.z[i] }
        : sampleMech(chunk, mech, events.tick[i], header.tick_hz);
    ends.push({
      tick: events.tick[i],
      x: position.x,
      y: position.y,
      z: position.z,
      owner: defended ? events.target[i] : events.actor[i],
      weapon: events.weapon[i],
      used: false,
      next: 0,
    });
  }
  return ends;
}

/** Mark and return the first unused end of an owner and weapon with a tick in (after, until], or null. */
function claimEnd(all: Ends, owner: number, weapon: number, after: number, until: number): End | null {
  const group = all.get(`${owner} ${weapon}`) ?? [];
  let [low, high] = [0, group.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (group[middle].tick > after) high = middle;
    else low = middle + 1;
  }
  let free = low;
  while (free < group.length && group[free].used) free = group[free].next;
  // later searches skip the used ends that this one passed
  for (let at = low; at < free;) {
    const { next } = group[at];
    group[at].next = free;
    at = next;
  }
  if (free === group.length || group[free].tick > until) return null;
  Object.assign(group[free], { used: true, next: free + 1 });
  return group[free];
}

/** Group the rounds recorded at frames by owner, slot, launch tick and weapon. */
function recordedRounds(
  chunk: Chunk,
): Map<string, { owner: number; weapon: number; birth: number; points: FlightPoint[] }> {
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

export function flightsOf(chunk: Chunk, header: Header): readonly Flight[] {
  let flights = cache.get(chunk);
  if (!flights) cache.set(chunk, (flights = findFlights(chunk, header)));
  return flights;
}

export function findFlights(chunk: Chunk, header: Header): Flight[] {
  const launches = flightEnds(chunk, header, [EventKind.LAUNCH]);
  const starts = groupEnds(launches);
  const strikes = groupEnds(flightEnds(chunk, header, [EventKind.HIT, EventKind.IMPACT, EventKind.AMS]));
  const flights: Flight[] = [];
  for (const { owner, weapon, birth, points } of recordedRounds(chunk).values()) {
    const launch = claimEnd(starts, owner, weapon, birth - 2, birth + 2);
    if (launch && launch.tick < points[0].tick) points.unshift(launch);
    const last = points[points.length - 1].tick;
    const strike = last < chunk.tick1 ? claimEnd(strikes, owner, weapon, last - 1, last + header.frame_ticks) : null;
    if (strike && strike.tick > last) points.push(strike);
    if (points.length > 1) flights.push({ owner, weapon, points, struck: strike !== null });
  }
  for (const launch of launches) {
    if (launch.used) continue;
    const reach = (header.weapons[launch.weapon].range / header.weapons[launch.weapon].speed) * header.tick_hz;
    const strike = claimEnd(strikes, launch.owner, launch.weapon, launch.tick - 1, launch.tick + reach + 2);
    if (!strike) continue;
    // a round that hits in the tick of its launch is drawn for one tick
    const end = strike.tick > launch.tick ? strike : { ...strike, tick: launch.tick + 1 };
    flights.push({ owner: launch.owner, weapon: launch.weapon, points: [launch, end], struck: true });
  }
  return flights;
}

/** Return the position of a flight at a tick, or null before and after it. */
export function flightAt(flight: Flight, tick: number): FlightPoint | null {
  const { points } = flight;
  if (tick < points[0].tick || tick > points[points.length - 1].tick) return null;
  let i = 0;
  while (i + 2 < points.length && points[i + 1].tick < tick) i++;
  const [a, b] = [points[i], points[i + 1]];
  const share = (tick - a.tick) / Math.max(1e-6, b.tick - a.tick);
  return { tick, x: a.x + (b.x - a.x) * share, y: a.y + (b.y - a.y) * share, z: a.z + (b.z - a.z) * share };
}
