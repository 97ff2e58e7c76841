// Lines of the overlay: sensor and targeting lines, the ranges of the selected mech, and its path to the zone.

import type { Point } from "../../framing";
import type { SensorRange } from "../../data/sensor_ranges";
import type { Poses } from "../../interpolate";
import { RANGE_STYLES } from "../../palette";
import type { Link } from "../links";
import { type Overlay, cssColour } from "./canvas";

const RING_POINTS = 144;
const LIFT = 0.1; // height of ranges above the ground [vox]
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
  const { brush } = overlay;
  for (const { from, to, colour, alpha, width, dash } of links) {
    brush.beginPath();
    overlay.trace([from, to]);
    brush.setLineDash([...dash]);
    brush.lineWidth = width;
    brush.strokeStyle = cssColour(colour, alpha);
    brush.stroke();
  }
  brush.setLineDash([]);
}

export function drawRings(overlay: Overlay, ranges: readonly SensorRange[], poses: Poses, heights: Heights): void {
  const { brush } = overlay;
  for (const { mech, kind, radius } of ranges) {
    const { colour, gap } = RANGE_STYLES[kind];
    const ring = Array.from({ length: RING_POINTS + 1 }, (_, i): Point => {
      const angle = (i / RING_POINTS) * 2 * Math.PI;
      const [x, y] = [poses.x[mech] + Math.cos(angle) * radius, poses.y[mech] + Math.sin(angle) * radius];
      return [x, y, heightAt(heights, x, y) + LIFT];
    });
    brush.beginPath();
    overlay.trace(ring);
    brush.setLineDash(gap > 0 ? [10 * (1 - gap), 10 * gap] : []);
    brush.lineWidth = 1.5;
    brush.strokeStyle = cssColour(colour, 0.75);
    brush.stroke();
  }
  brush.setLineDash([]);
}

export function drawPath(overlay: Overlay, cells: readonly (readonly [number, number])[], heights: Heights): void {
  if (cells.length < 2) return;
  const { brush } = overlay;
  brush.beginPath();
  overlay.trace(cells.map(([x, y]): Point => [x, y, heightAt(heights, x, y) + PATH_HEIGHT]));
  brush.lineWidth = 2;
  brush.strokeStyle = cssColour(PATH, 0.85);
  brush.stroke();
}
