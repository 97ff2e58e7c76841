// Time of a match: from ticks to seconds and clock text, the cursor's march through them, and the marked events that
// one can jump between. Pure.

import type { EventKind } from "./protocol.gen";

export const SPEEDS = [-8, -4, -2, -1, -0.5, 0.25, 0.5, 1, 2, 4, 8, 16] as const; // seconds of match per second
export const LIVE_MARGIN_S = 2.5; // how far behind the newest chunk a live viewer stays [s]
export const LIVE = "LIVE"; // what is said of a cursor at the live edge
const LAG_S = 2; // who is farther behind than the margin and this sees the past [s]

/** An event worth a mark on the timeline. */
export interface Marker {
  readonly tick: number;
  readonly kind: EventKind;
  readonly who: number; // mech, -1 for a hazard
  readonly whom: number; // mech, -1 for none
}

/** Seconds as m:ss. */
export function clockText(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds + 1e-6));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Where the cursor is after `elapsed` seconds at `speed`, within [0, last]; and whether it ran against an end. */
export function advance(
  tick: number, elapsed: number, speed: number, tickHz: number, last: number,
): { tick: number; stopped: boolean } {
  const moved = tick + elapsed * speed * tickHz;
  const held = Math.max(0, Math.min(last, moved));
  return { tick: held, stopped: held !== moved };
}

/** How far a cursor is behind the newest moment of a live match, in words. */
export function liveText(behind: number, following: boolean): string {
  return following && behind <= LIVE_MARGIN_S + LAG_S ? LIVE : `${Math.max(0, behind).toFixed(0)} s behind`;
}

/** The speed nearest to a wished one that plays in the same direction. */
export function nearestSpeed(wish: number): number {
  const along = SPEEDS.filter((speed) => speed * wish > 0);
  return along.reduce((best, speed) => (Math.abs(speed - wish) < Math.abs(best - wish) ? speed : best), along[0]);
}

/** The next slower or faster speed; steps pass from forward to backward. */
export function nextSpeed(speed: number, step: 1 | -1): number {
  const at = SPEEDS.findIndex((known) => known >= speed);
  return SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, at + step))];
}

/** The first marker strictly after (or before) a tick, or null. */
export function nextMarker(markers: readonly Marker[], tick: number, step: 1 | -1): Marker | null {
  const apart = 0.5; // ticks; standing on a marker counts as being at it
  if (step > 0) return markers.find((marker) => marker.tick > tick + apart) ?? null;
  return markers.findLast((marker) => marker.tick < tick - apart) ?? null;
}

/** The markers after one tick and up to another; none on the way back. */
export function passedMarkers(markers: readonly Marker[], from: number, to: number): Marker[] {
  return markers.filter((marker) => marker.tick > from && marker.tick <= to);
}

/** Tick at which each mech died, Infinity for those that did not. */
export function deathTicks(markers: readonly Marker[], kill: EventKind, mechs: number): Float64Array {
  const ticks = new Float64Array(mechs).fill(Infinity);
  for (const marker of markers) {
    if (marker.kind === kill && marker.whom >= 0 && marker.whom < mechs)
      ticks[marker.whom] = Math.min(ticks[marker.whom], marker.tick);
  }
  return ticks;
}
