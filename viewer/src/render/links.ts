// Lines between mechs: from the selected mech to its contacts and its target, from hostiles that have detected it, and
// from painters to painted mechs. Drawn with the effects' beams, without a draw call of their own.

import { Vector3 } from "three";
import { contactsOf, hasDetected } from "../data/fog_of_war";
import type { Chunk } from "../data/replay";
import { frameAt } from "../interpolate";
import { TEAMS } from "../palette";
import { MechFlag } from "../protocol.gen";
import type { MatchState } from "../state";
import { worldPoint } from "../spaces";
import { BeamKind, type Beams } from "./quads";

const AIM = 0xffe08a;
const PAINT = 0xff5fd0;
const WATCHED = 0xffa04a; // from a hostile that has detected the selected mech
const HIGH = 0.3; // height above a mech's centre [vox]

const from = new Vector3();
const to = new Vector3();

/** Draw the lines of a moment; hidden mechs have none, nor does the mech of the first-person view (`inside`). */
export function drawLinks(
  match: MatchState,
  chunk: Chunk,
  tick: number,
  selected: number,
  inside: boolean,
  beams: Beams,
): void {
  const { header, poses, shown } = match;
  const { next } = frameAt(chunk, tick);
  const drawable = (mech: number) =>
    mech >= 0 && mech < header.mechs && (poses.flags[mech] & MechFlag.ALIVE) !== 0 && shown[mech] > 0.5;
  const join = (a: number, b: number, kind: BeamKind, width: number, colour: number, alpha: number) => {
    if (a === b || (inside && (a === selected || b === selected)) || !drawable(a) || !drawable(b)) return;
    worldPoint(poses.x[a], poses.y[a], poses.z[a] + HIGH, from);
    worldPoint(poses.x[b], poses.y[b], poses.z[b] + HIGH, to);
    beams.add(from, to, kind, width, colour, alpha);
  };
  for (let mech = 0; mech < header.mechs; mech++) {
    if (poses.flags[mech] & MechFlag.PAINTED)
      join(chunk.mech.painter[next * chunk.mechs + mech], mech, BeamKind.DOTTED, 0.03, PAINT, 0.7);
  }
  if (selected < 0) return;
  const { team } = header.roster[selected];
  for (const other of contactsOf(chunk, tick, selected)) {
    const friend = header.roster[other].team === team;
    join(
      selected,
      other,
      BeamKind.DOTTED,
      friend ? 0.012 : 0.025,
      TEAMS[header.roster[other].team].colour,
      friend ? 0.4 : 0.85,
    );
  }
  for (let other = 0; other < header.mechs; other++) {
    if (header.roster[other].team !== team && hasDetected(chunk, tick, other, selected))
      join(other, selected, BeamKind.TRACER, 0.03, WATCHED, 0.55);
  }
  join(selected, chunk.mech.focus[next * chunk.mechs + selected], BeamKind.SOLID, 0.022, AIM, 0.9);
}

/** Draw a path along the ground. */
export function drawPath(
  way: readonly [number, number][],
  height: (x: number, y: number) => number,
  beams: Beams,
): void {
  for (let i = 1; i < way.length; i++) {
    const [[x0, y0], [x1, y1]] = [way[i - 1], way[i]];
    worldPoint(x0, y0, height(x0, y0) + 0.35, from);
    worldPoint(x1, y1, height(x1, y1) + 0.35, to);
    beams.add(from, to, BeamKind.SOLID, 0.05, 0x9dffb8, 0.8);
  }
}
