// Lines between mechs: from the selected mech to its contacts and its target, from hostiles that have detected it, and
// from painters to painted mechs. Pure.

import { contactsOf, hasDetected } from "../data/fog_of_war";
import { isBattle } from "../data/packs";
import type { Chunk } from "../data/replay";
import type { Point } from "../framing";
import { frameAt } from "../interpolate";
import { TEAMS } from "../palette";
import { MechFlag } from "../protocol.gen";
import type { MatchState } from "../state";

const AIM = 0xffe08a;
const PAINT = 0xff5fd0;
const WATCHED = 0xf2f6fa; // from a hostile that has detected the selected mech
const HIGH = 0.3; // height above a mech's centre [vox]
const MOST = 8; // most lines of the selected mech
const DASHED = [5, 4] as const;

export interface Link {
  readonly from: Point;
  readonly to: Point;
  readonly colour: number;
  readonly alpha: number;
  readonly width: number; // [CSS px]
  readonly dash: readonly number[]; // [CSS px]
}

/**
 * Return the lines of a moment; hidden mechs have none, nor does the mech of the first-person view (`inside`). The
 * selected mech has its target, then the nearest mechs. Large battles have no other lines.
 */
export function linksOf(
  match: MatchState,
  chunk: Chunk,
  tick: number,
  selected: number,
  inside: boolean,
  believed = false, // whether lines to contacts are drawn to where its policy believes them
): Link[] {
  const { header, poses, shown } = match;
  const { next } = frameAt(chunk, tick);
  const drawable = (mech: number) =>
    mech >= 0 && mech < header.mechs && (poses.flags[mech] & MechFlag.ALIVE) !== 0 && shown[mech] > 0.5;
  const place = (mech: number): Point => [poses.x[mech], poses.y[mech], poses.z[mech] + HIGH];
  const found: (Link & { length: number; own: boolean })[] = [];
  const join = (a: number, b: number, colour: number, alpha: number, width: number, dash: readonly number[]) => {
    if (a === b || (inside && (a === selected || b === selected)) || !drawable(a) || !drawable(b)) return;
    const [from, to] = [place(a), place(b)];
    const length = Math.hypot(from[0] - to[0], from[1] - to[1], from[2] - to[2]);
    found.push({ from, to, colour, alpha, width, dash, length, own: a === selected || b === selected });
  };
  for (let mech = 0; mech < header.mechs; mech++) {
    if (poses.flags[mech] & MechFlag.PAINTED)
      join(chunk.mech.painter[next * chunk.mechs + mech], mech, PAINT, 0.7, 1.5, DASHED);
  }
  if (selected >= 0) {
    const { team } = header.roster[selected];
    for (const other of believed ? [] : contactsOf(chunk, tick, selected)) {
      const friend = header.roster[other].team === team;
      join(selected, other, TEAMS[header.roster[other].team].colour, friend ? 0.45 : 0.9, friend ? 1 : 1.5, DASHED);
    }
    for (let other = 0; other < header.mechs; other++) {
      if (header.roster[other].team !== team && hasDetected(chunk, tick, other, selected))
        join(other, selected, WATCHED, 0.6, 1, []);
    }
    const target = chunk.mech.focus[next * chunk.mechs + selected];
    join(selected, target, AIM, 0.95, 2, []);
    const aim = found.at(-1);
    if (aim && aim.colour === AIM) aim.length = 0; // the target is always shown
  }
  const own = found.filter((link) => link.own).sort((a, b) => a.length - b.length);
  const others = isBattle(header.mechs) ? [] : found.filter((link) => !link.own);
  return [...others, ...own.slice(0, MOST)];
}
