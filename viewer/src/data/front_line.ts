// The front line of a large battle: where the strengths of both teams are equal. Pure.

import { type Header, MechFlag } from "../protocol.gen";
import type { Poses } from "../interpolate";
import { isBattle } from "./packs";

const CELLS = 28; // cells of the grid along the longer edge of the map
const REACH = 0.07; // distance at which a mech's strength has fallen to 61 %, in longer edges of the map
const LEAST = 0.5; // least strength of both teams together near the line, in mechs

/** A piece of the line, from and to [vox]. */
export type Piece = readonly [readonly [number, number], readonly [number, number]];

/** Return the pieces of the front line between living mechs that are shown; none outside of large battles. */
export function frontLine(header: Header, poses: Poses, shown: ArrayLike<number>): Piece[] {
  const living = [...header.roster.keys()].filter(
    (mech) => header.roster[mech].present && poses.flags[mech] & MechFlag.ALIVE && shown[mech] >= 0.5,
  );
  if (!isBattle(living.length)) return [];
  const [sizeX, sizeY] = header.world.size;
  const step = Math.max(sizeX, sizeY) / CELLS;
  const [columns, rows] = [Math.ceil(sizeX / step) + 1, Math.ceil(sizeY / step) + 1];
  const [lead, sum] = [new Float64Array(columns * rows), new Float64Array(columns * rows)];
  const strength = (away: number) => Math.exp(-((away / (REACH * CELLS)) ** 2) / 2);
  for (const mech of living) {
    const along = Array.from({ length: columns }, (_, i) => strength(i - poses.x[mech] / step));
    for (let j = 0; j < rows; j++) {
      const across = strength(j - poses.y[mech] / step);
      for (let i = 0; i < columns; i++) {
        sum[i + j * columns] += along[i] * across;
        lead[i + j * columns] += header.roster[mech].team === 0 ? along[i] * across : -along[i] * across;
      }
    }
  }
  const pieces: Piece[] = [];
  for (let cell = 0; cell < columns * (rows - 1); cell++) {
    if (cell % columns === columns - 1) continue;
    const corners = [cell, cell + 1, cell + 1 + columns, cell + columns];
    if (corners.some((corner) => sum[corner] < LEAST)) continue;
    const cuts = corners.flatMap((from, k) => {
      const to = corners[(k + 1) % 4];
      if (lead[from] < 0 === lead[to] < 0) return [];
      const share = lead[from] / (lead[from] - lead[to]);
      const place = (of: (corner: number) => number) => (of(from) + (of(to) - of(from)) * share) * step;
      return [[place((corner) => corner % columns), place((corner) => Math.floor(corner / columns))] as const];
    });
    for (let k = 0; k + 1 < cuts.length; k += 2) pieces.push([cuts[k], cuts[k + 1]]);
  }
  return pieces;
}
