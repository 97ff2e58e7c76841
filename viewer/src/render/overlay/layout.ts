// Placing labels on the screen without overlaps: by priority, each at the first free place near its anchor. Pure.

import { isBattle } from "../../data/packs";
import type { Box } from "../../framing";

export interface Label {
  readonly x: number; // anchor [CSS px]
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly reach?: number; // most distance from its anchor, in heights
}

const GAP = 2; // least gap between labels [CSS px]
const ROUNDING = 1e-3; // added to the gap, so that rounding closes none [CSS px]
const [COLUMNS, ROWS] = [3, 9]; // most widths and heights from a label to its anchor
const SHAPE = 3; // width of a label in heights, by which distances are compared
const NEAR = 4.5; // most distance of a label without a reach of its own, in heights
/** Places tried: offsets from the anchor in widths to the right and heights upward, nearest first, not on the mech. */
const PLACES = Array.from({ length: 4 * COLUMNS + 1 }, (_, i) => i / 2 - COLUMNS)
  .flatMap((right) => Array.from({ length: 2 * ROWS + 1 }, (_, j) => [right, ROWS - j] as const))
  .filter(([right, up]) => up !== -1 || Math.abs(right) >= 1)
  .map(([right, up]) => ({ right, up, far: Math.hypot(right * SHAPE, up) }))
  .sort((a, b) => a.far - b.far);
const FAR = 1.5; // distance from its anchor at which a label needs a line to it, in heights

const CROWD = 20; // with more living mechs, not all have plates
const MOST = 24; // most plates in a crowd
const MOST_IN_BATTLE = 10;
const CLOSE = 30; // distance from the camera within which mechs have plates in a large battle [vox]

/** Return whether a number of living mechs is so large that not all have plates. */
export function isCrowd(living: number): boolean {
  return living > CROWD;
}

/** What decides whether a mech has a plate. */
export interface PlateCase {
  readonly mech: number;
  readonly own: boolean; // whether it is of the selected mech's pack
  readonly fights: boolean;
  readonly far: number; // distance from the camera [vox]
}

/**
 * Return the mechs with plates: those of the selected mech's pack, then those that fight, then the nearest. In large
 * battles the other packs have plates only close to the camera.
 */
export function platedMechs(cases: readonly PlateCase[], living: number): number[] {
  const battle = isBattle(living);
  const rank = ({ own, fights }: PlateCase) => (own ? 0 : fights ? 1 : 2);
  return cases
    .filter(({ own, far }) => !battle || own || far < CLOSE)
    .sort((a, b) => rank(a) - rank(b) || a.far - b.far)
    .slice(0, !isCrowd(living) ? living : battle ? MOST_IN_BATTLE : MOST)
    .map(({ mech }) => mech);
}

/** Return whether two boxes are closer than the least gap. */
export function overlap(a: Box, b: Box): boolean {
  return a.left < b.right + GAP && b.left < a.right + GAP && a.top < b.bottom + GAP && b.top < a.bottom + GAP;
}

/** Return the boxes of labels, highest priority first, within an area and off the boxes taken; null without room. */
export function placeLabels(labels: readonly Label[], area: Box, taken: readonly Box[] = []): (Box | null)[] {
  const placed = [...taken];
  return labels.map(({ x, y, width, height, reach = NEAR }) => {
    if (x < area.left || x > area.right || y < area.top || y > area.bottom) return null;
    for (const { right, up, far } of PLACES) {
      if (far > reach) break;
      const middle = x + right * (width + GAP);
      const left = Math.max(area.left, Math.min(area.right - width, middle - width / 2));
      const top = Math.max(area.top, Math.min(area.bottom - height, y - height - up * (height + GAP)));
      const box = { left, top, right: left + width, bottom: top + height };
      if (placed.some((other) => overlap(other, box))) continue;
      placed.push(box);
      return box;
    }
    return null;
  });
}

/** Return how far up a box moves to be off the boxes taken, null if that is more than `most` [CSS px]. */
export function liftOff(box: Box, taken: readonly Box[], most: number): number | null {
  let lift = 0;
  while (lift <= most) {
    const moved = { ...box, top: box.top - lift, bottom: box.bottom - lift };
    const other = taken.find((each) => overlap(each, moved));
    if (!other) return lift;
    lift = box.bottom + GAP - other.top + ROUNDING;
  }
  return null;
}

/** Return where the line from a label to its anchor begins, null for a label that is near it. */
export function leaderStart({ x, y, height }: Label, box: Box): readonly [x: number, y: number] | null {
  const from = [Math.max(box.left, Math.min(box.right, x)), Math.max(box.top, Math.min(box.bottom, y))] as const;
  return Math.hypot(from[0] - x, from[1] - y) > FAR * height ? from : null;
}
