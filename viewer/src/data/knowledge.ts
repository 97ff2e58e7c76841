// Who knows of whom: a team's fog of war and a mech's contacts, from what the file recorded. Pure. A frame tells of the
// decision that led to it, so what is known now stands in the frame that comes next.

import { frameAt } from "../interpolate";
import { MechFlag } from "../protocol.gen";
import type { Fog, MatchState } from "../state";
import type { Chunk } from "./replay";

/** Whether the file says who was known to hostiles; files before schema 1.2 do not. */
export function knowsSight(match: MatchState): boolean {
  return match.header.flags.includes("seen");
}

/** Whether a mech knew of another at a tick; null where the match has no policy columns. */
export function knewOf(chunk: Chunk, tick: number, mech: number, other: number): boolean | null {
  if (!chunk.insight) return null;
  const words = Math.ceil(chunk.mechs / 8);
  const { next } = frameAt(chunk, tick);
  return (chunk.insight.sees[(next * chunk.mechs + mech) * words + (other >> 3)] & (1 << (other & 7))) !== 0;
}

/** The mechs on a pilot's display at a tick, in its order; empty without policy columns. */
export function contactsOf(chunk: Chunk, tick: number, mech: number): number[] {
  if (!chunk.insight) return [];
  const slots = chunk.insight.contact.length / (chunk.frames * chunk.mechs);
  const at = (frameAt(chunk, tick).next * chunk.mechs + mech) * slots;
  return [...chunk.insight.contact.subarray(at, at + slots)].filter((other) => other >= 0);
}

/** The team whose knowledge counts, or -1 for nobody's. */
export function fogTeam(match: MatchState, fog: Fog, selected: number): number {
  if (fog === "blue" || fog === "red") return fog === "blue" ? 0 : 1;
  return fog === "mech" && selected >= 0 ? match.header.roster[selected].team : -1;
}

/** Whether a mech may be seen and spoken of under the fog of the moment. */
export function isShown({ shown }: Pick<MatchState, "shown">, mech: number): boolean {
  return shown[mech] >= 0.5;
}

/** Fill `shown` with how far each mech is shown under a fog: 1 fully, 0 not at all. */
export function shownMechs(match: MatchState, fog: Fog, selected: number, tick: number, shown: Float32Array): Float32Array {
  const team = fogTeam(match, fog, selected);
  const { roster } = match.header;
  for (let mech = 0; mech < shown.length; mech++) {
    const own = team < 0 || (fog === "mech" ? mech === selected : roster[mech].team === team);
    shown[mech] = own || match.poses.alive[mech] < 0.5 ? 1 : knownShare(match, fog, selected, tick, mech);
  }
  return shown;
}

function knownShare(match: MatchState, fog: Fog, selected: number, tick: number, mech: number): number {
  const knew = fog === "mech" && match.chunk ? knewOf(match.chunk, tick, selected, mech) : null;
  if (knew !== null) return knew ? 1 : 0;
  // without policy columns a friend is known, and a hostile if any of the team knew of it
  const friend = match.header.roster[mech].team === fogTeam(match, fog, selected);
  return friend || !knowsSight(match) ? 1 : match.poses.known[mech];
}

/** Mechs through whose eyes a fog is seen. */
export function eyesOf(match: MatchState, fog: Fog, selected: number): number[] {
  const team = fogTeam(match, fog, selected);
  if (team < 0) return [];
  const mechs = fog === "mech" ? [selected] : match.header.roster.map((_, mech) => mech).filter((mech) => match.header.roster[mech].team === team);
  return mechs.filter((mech) => match.header.roster[mech].present && (match.poses.flags[mech] & MechFlag.ALIVE) !== 0);
}
