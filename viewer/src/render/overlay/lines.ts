// Lines of the overlay: sensor and targeting lines, the ranges of the selected mech, and its path to the zone.

import type { Point } from "../../framing";
import type { Piece } from "../../data/front_line";
import type { SensorRange } from "../../data/sensor_ranges";
import type { Poses } from "../../interpolate";
import { RANGE_STYLES } from "../../palette";
import type { Link } from "../links";
import { type Overlay, cssColour } from "./canvas";

const RING_POINTS = 144;
const LIFT = 0.1; // height of ranges above the ground [vox]
const FRONTS = [
  [5, "rgba(5, 8, 12, 0.45)"],
  [1.75, "rgba(255, 255, 255, 0.8)"],
] as const; // widths and colours of the front line, the lower first [CSS px]
const PATH = 0x9dffb8;
const PATH_HEIGHT = 0.35; // above the ground [vox]

/** Heights of a map's columns, x fastest [vox]. */
export interface Heights {
  readonly values: Uint8Array;
  readonly size: readonly number[];
}

function heightAt({ values, size }: Heights, x: number, y: number): number {
  const [i, j] = [Math.floor(x), Math.floor(y)];
  return i < 0 || j < 0 || i >= size[0] || j >= size[1] ? 0 : values[i + j * size[0]];
}

export function drawLinks(overlay: Overlay, links: readonly Link[]): void {
  for (const { from, to, colour, alpha, width, dash } of links)
    overlay.stroke([from, to], cssColour(colour, alpha), width, dash);
}

export function drawRings(overlay: Overlay, ranges: readonly SensorRange[], poses: Poses, heights: Heights): void {
  for (const { mech, kind, radius } of ranges) {
    const { colour, gap } = RANGE_STYLES[kind];
    const ring = Array.from({ length: RING_POINTS + 1 }, (_, i): Point => {
      const angle = (i / RING_POINTS) * 2 * Math.PI;
      const [x, y] = [poses.x[mech] + Math.cos(angle) * radius, poses.y[mech] + Math.sin(angle) * radius];
      return [x, y, heightAt(heights, x, y) + LIFT];
    });
    overlay.stroke(ring, cssColour(colour, 0.75), 1.5, gap > 0 ? [10 * (1 - gap), 10 * gap] : []);
  }
}

/** Draw the front line on the ground, below buildings. */
export function drawFront(overlay: Overlay, pieces: readonly Piece[]): void {
  const { brush } = overlay;
  brush.beginPath();
  for (const piece of pieces) overlay.trace(piece.map(([x, y]): Point => [x, y, LIFT]));
  brush.lineCap = "round";
  for (const [width, css] of FRONTS) {
    brush.lineWidth = width;
    brush.strokeStyle = css;
    brush.stroke();
  }
  brush.lineCap = "butt";
}

export function drawPath(overlay: Overlay, cells: readonly (readonly [number, number])[], heights: Heights): void {
  if (cells.length < 2) return;
  const points = cells.map(([x, y]): Point => [x, y, heightAt(heights, x, y) + PATH_HEIGHT]);
  overlay.stroke(points, cssColour(PATH, 0.85), 2);
}
