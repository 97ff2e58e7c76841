// What each side knows: fog of war of teams and contacts of mechs, from the recorded columns. Pure. A frame's policy
// columns belong to the decision that led to it, so that knowledge at a tick is read from the next frame.

import { frameAt } from "../interpolate";
import { MechFlag } from "../protocol.gen";
import type { Fog, MatchCursor } from "./cursor";
import type { Chunk } from "./replay";

/** Return whether the file records which mechs are known to hostiles (schema 1.2 and later). */
export function recordsVisibility(match: MatchCursor): boolean {
  return match.header.flags.includes("seen");
}

/** Return whether a mech has detected another at a tick; null without policy columns. */
export function hasDetected(chunk: Chunk, tick: number, mech: number, other: number): boolean | null {
  if (!chunk.insight) return null;
  const words = Math.ceil(chunk.mechs / 8);
  const { next } = frameAt(chunk, tick);
  return (chunk.insight.sees[(next * chunk.mechs + mech) * words + (other >> 3)] & (1 << (other & 7))) !== 0;
}

/** Return the mechs in a pilot's contact slots at a tick, in order; empty without policy columns. */
export function contactsOf(chunk: Chunk, tick: number, mech: number): number[] {
  if (!chunk.insight) return [];
  const slots = chunk.insight.contact.length / (chunk.frames * chunk.mechs);
  const at = (frameAt(chunk, tick).next * chunk.mechs + mech) * slots;
  return [...chunk.insight.contact.subarray(at, at + slots)].filter((other) => other >= 0);
}

/** Return the team whose knowledge a fog shows, or -1 without fog. */
export function fogTeam(match: MatchCursor, fog: Fog, selected: number): number {
  if (fog === "blue" || fog === "red") return fog === "blue" ? 0 : 1;
  return fog === "mech" && selected >= 0 ? match.header.roster[selected].team : -1;
}

/** Return whether a mech is visible under the current fog of war. */
export function isShown({ shown }: Pick<MatchCursor, "shown">, mech: number): boolean {
  return shown[mech] >= 0.5;
}

/** Fill `shown` with the visibility of each mech under a fog, from 0 (hidden) to 1. */
export function fillVisibility(
  match: MatchCursor,
  fog: Fog,
  selected: number,
  tick: number,
  shown: Float32Array,
): Float32Array {
  if (match.pilot) return (shown.set(match.pilot.known), shown);
  const team = fogTeam(match, fog, selected);
  const { roster } = match.header;
  for (let mech = 0; mech < shown.length; mech++) {
    const own = team < 0 || (fog === "mech" ? mech === selected : roster[mech].team === team);
    shown[mech] = own || match.poses.alive[mech] < 0.5 ? 1 : visibilityOf(match, fog, selected, tick, mech);
  }
  return shown;
}

function visibilityOf(match: MatchCursor, fog: Fog, selected: number, tick: number, mech: number): number {
  const detected = fog === "mech" && match.chunk ? hasDetected(match.chunk, tick, selected, mech) : null;
  if (detected !== null) return detected ? 1 : 0;
  // without policy columns friends are known, and hostiles if anyone of the team has detected them
  const friend = match.header.roster[mech].team === fogTeam(match, fog, selected);
  return friend || !recordsVisibility(match) ? 1 : match.poses.known[mech];
}

/** Return the living mechs whose sight a fog shows. */
export function observersOf(match: MatchCursor, fog: Fog, selected: number): number[] {
  const team = fogTeam(match, fog, selected);
  if (team < 0) return [];
  const mechs =
    fog === "mech"
      ? [selected]
      : match.header.roster.map((_, mech) => mech).filter((mech) => match.header.roster[mech].team === team);
  return mechs.filter((mech) => match.header.roster[mech].present && (match.poses.flags[mech] & MechFlag.ALIVE) !== 0);
}
