// Framing: the part of the picture that no panel covers, and the camera distance at which points fit into it. Pure.

import { FIELD_OF_VIEW } from "./spaces";

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** Widths of the picture's edges that panels cover [CSS px]. */
export interface Insets {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export type Point = readonly [number, number, number];

/** Direction from the target to a camera [rad]. */
export interface Direction {
  readonly azimuth: number;
  readonly elevation: number;
}

/** What a camera looks at, and from where. */
export interface Viewpoint extends Direction {
  readonly target: Point; // [vox]
  readonly distance: number; // [vox]
}

/** A disc that is to be seen: terrain in front of it is removed, except for the foot of its walls. */
export interface Cutaway {
  readonly centre: Point; // on the floor [vox]
  readonly radius: number; // [vox]
}

export const STUB = 1; // height of walls that a cutaway leaves [vox]
const LEAST_FREE = 1 / 5; // least share of the window that counts as free, along each side
const MOST_MARGIN = 0.2; // most of the free part that a margin takes at each of its sides
const ROUNDS = 4; // iterations of centring
const CORNERS = 12; // points of a circle

/** Return where the camera of a viewpoint is [vox]. */
export function eyeOf({ target, distance, azimuth, elevation }: Viewpoint): Point {
  const flat = Math.cos(elevation) * distance;
  return [
    target[0] + Math.cos(azimuth) * flat,
    target[1] + Math.sin(azimuth) * flat,
    target[2] + Math.sin(elevation) * distance,
  ];
}

/** Return whether a point above the floor is cut away, since it hides the disc from an eye; the shaders do the same. */
export function isCutAway({ centre, radius }: Cutaway, eye: Point, point: Point): boolean {
  const foot = centre[2] + STUB;
  if (point[2] < foot || eye[2] <= point[2]) return false;
  const share = (eye[2] - foot) / (eye[2] - point[2]); // way to the height of the feet, relative to that to the point
  return Math.hypot(...[0, 1].map((axis) => eye[axis] + (point[axis] - eye[axis]) * share - centre[axis])) < radius;
}

/** Return whether a point lies within the tangents of a view. */
export function isFramed(view: Viewpoint, [across, along]: readonly [number, number], point: Point): boolean {
  const { right, up, back } = axesOf(view);
  const [x, y, near] = [right, up, back].map((axis) => dot(point, axis) - dot(view.target, axis));
  const depth = view.distance - near;
  return depth > 0 && Math.abs(x) < depth * across && Math.abs(y) < depth * along;
}

const dot = (a: Point, b: Point) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

/** Return the axes of a view to the right, up, and toward the camera. */
function axesOf({ azimuth, elevation }: Direction): { right: Point; up: Point; back: Point } {
  const [sin, cos] = [Math.sin(azimuth), Math.cos(azimuth)];
  const [high, flat] = [Math.sin(elevation), Math.cos(elevation)];
  return { right: [-sin, cos, 0], up: [-cos * high, -sin * high, flat], back: [cos * flat, sin * flat, high] };
}

/** Return the free part of a window: its size and how far its centre lies right and down of the window's [CSS px]. */
export function freeArea(
  [width, height]: readonly [number, number],
  { left, top, right, bottom }: Insets,
): { width: number; height: number; right: number; down: number } {
  const across = Math.max(width * LEAST_FREE, width - left - right);
  const along = Math.max(height * LEAST_FREE, height - top - bottom);
  return { width: across, height: along, right: (left - right) / 2, down: (top - bottom) / 2 };
}

/**
 * Return the tangents of the angles from the view's centre to the sides and to top and bottom of the free part, less a
 * margin [CSS px].
 */
export function freeTangents(window: readonly [number, number], insets: Insets, margin = 0): [number, number] {
  const area = freeArea(window, insets);
  const perPixel = (2 * Math.tan(FIELD_OF_VIEW / 2)) / Math.max(1, window[1]);
  const half = (size: number) => (size / 2 - Math.min(margin, size * MOST_MARGIN)) * perPixel;
  return [half(area.width), half(area.height)];
}

export function circlePoints([x, y, radius]: readonly number[]): Point[] {
  return Array.from({ length: CORNERS }, (_, i): Point => {
    const angle = (i / CORNERS) * 2 * Math.PI;
    return [x + Math.cos(angle) * radius, y + Math.sin(angle) * radius, 0];
  });
}

/**
 * Return the target and the least distance (at least `closest`) from which all points lie within the tangents of a view
 * from a direction.
 */
export function fitPoints(
  points: readonly Point[],
  direction: Direction,
  [across, along]: readonly [number, number],
  closest: number,
): { target: [number, number, number]; distance: number } {
  const { right, up, back } = axesOf(direction);
  const target: [number, number, number] = [0, 1, 2].map(
    (axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length,
  ) as [number, number, number];
  let distance = closest;
  for (let round = 0; round < ROUNDS; round++) {
    const seen = points.map((point) => {
      const [x, y, near] = [right, up, back].map((axis) => dot(point, axis) - dot(target, axis));
      return { x, y, near };
    });
    distance = Math.max(
      closest,
      ...seen.map(({ x, y, near }) => near + Math.max(Math.abs(x) / across, Math.abs(y) / along)),
    );
    if (round === ROUNDS - 1) break;
    // centre the points' box on the screen
    const middle = (values: number[]) => (Math.min(...values) + Math.max(...values)) / 2;
    const [x, y] = [
      middle(seen.map((point) => point.x / Math.max(1, distance - point.near))),
      middle(seen.map((point) => point.y / Math.max(1, distance - point.near))),
    ];
    for (let axis = 0; axis < 3; axis++) target[axis] += (x * right[axis] + y * up[axis]) * distance;
  }
  return { target, distance };
}
