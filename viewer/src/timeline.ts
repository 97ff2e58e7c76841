// Match time and points: clock and points as text, advancing the cursor, speeds, and navigation between markers. Pure.

import type { EventKind } from "./protocol.gen";

export const SPEEDS = [-8, -4, -2, -1, -0.5, 0.25, 0.5, 1, 2, 4, 8, 16] as const; // match seconds per second
export const LIVE_MARGIN_S = 2.5; // distance of a live viewer behind the newest chunk [s]
export const LIVE = "LIVE"; // label at the live edge
const LAG_S = 2; // additional lag that still counts as live [s]

export interface Marker {
  readonly tick: number;
  readonly kind: EventKind;
  readonly actor: number; // acting mech, -1 for a hazard
  readonly target: number; // affected mech, -1 for none
}

export function clockText(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds + 1e-6));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export function pointsText(points: number): string {
  // rounded down, so that a team never seems to have won before it has
  return (Math.floor(points * 10 + 1e-3) / 10).toFixed(1);
}

/** Return the cursor after `elapsed` seconds at `speed`, limited to [0, last], and whether it reached an end. */
export function advance(
  tick: number,
  elapsed: number,
  speed: number,
  tickHz: number,
  last: number,
): { tick: number; stopped: boolean } {
  const moved = tick + elapsed * speed * tickHz;
  const limited = Math.max(0, Math.min(last, moved));
  return { tick: limited, stopped: limited !== moved };
}

/** Return the label of the live button: LIVE, or the lag in seconds. */
export function liveText(behind: number, following: boolean): string {
  return following && behind <= LIVE_MARGIN_S + LAG_S ? LIVE : `${Math.max(0, behind).toFixed(0)} s behind`;
}

/** Return the available speed nearest to a value, in the same direction. */
export function nearestSpeed(value: number): number {
  const along = SPEEDS.filter((speed) => speed * value > 0);
  return along.reduce((best, speed) => (Math.abs(speed - value) < Math.abs(best - value) ? speed : best), along[0]);
}

/** Return the next slower or faster speed, across zero. */
export function nextSpeed(speed: number, step: 1 | -1): number {
  const at = SPEEDS.findIndex((known) => known >= speed);
  return SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, at + step))];
}

/** Return the first marker after (or before) a tick, or null. */
export function nextMarker(markers: readonly Marker[], tick: number, step: 1 | -1): Marker | null {
  const apart = 0.5; // markers this close count as the current one [ticks]
  if (step > 0) return markers.find((marker) => marker.tick > tick + apart) ?? null;
  return markers.findLast((marker) => marker.tick < tick - apart) ?? null;
}

/** Return the markers after one tick and up to another; none backward. */
export function passedMarkers(markers: readonly Marker[], from: number, to: number): Marker[] {
  return markers.filter((marker) => marker.tick > from && marker.tick <= to);
}

/** Return the tick of each mech's death, Infinity without one. */
export function deathTicks(markers: readonly Marker[], kill: EventKind, mechs: number): Float64Array {
  const ticks = new Float64Array(mechs).fill(Infinity);
  for (const marker of markers) {
    if (marker.kind === kill && marker.target >= 0 && marker.target < mechs)
      ticks[marker.target] = Math.min(ticks[marker.target], marker.tick);
  }
  return ticks;
}
