// The overlay: a canvas above the 3D picture, always at the resolution of the display, whatever that of the picture.
// Points are given in voxel space and projected with the camera of the picture.

import { Matrix4, type PerspectiveCamera } from "three";
import type { Point } from "../../framing";
import { world_from_voxel } from "../../spaces";

const SHARPEST = 2; // most pixels per CSS pixel
const NEAREST = 0.3; // distance before the camera at which lines are cut [vox]

export interface Spot {
  x: number; // [CSS px]
  y: number; // downward [CSS px]
  far: number; // distance before the camera [vox]
}

/** The canvas of one window, and the projection of the current picture. */
export class Overlay {
  readonly brush: CanvasRenderingContext2D;
  width = 1; // [CSS px]
  height = 1; // [CSS px]
  private readonly clip = new Matrix4();

  constructor(readonly canvas: HTMLCanvasElement) {
    const brush = canvas.getContext("2d");
    if (!brush) throw new Error("no 2D canvas");
    this.brush = brush;
  }

  /** Clear the canvas for a picture of a size [CSS px]. */
  begin(width: number, height: number, camera: PerspectiveCamera): void {
    const ratio = Math.min(SHARPEST, Math.max(1, window.devicePixelRatio));
    [this.width, this.height] = [width, height];
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== across || this.canvas.height !== down)
      [this.canvas.width, this.canvas.height] = [across, down];
    this.brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.brush.clearRect(0, 0, width, height);
    this.clip.multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse).multiply(world_from_voxel);
  }

  clear(): void {
    this.brush.clearRect(0, 0, this.width, this.height);
  }

  project(x: number, y: number, z: number): Spot | null {
    const at = this.clipPoint(x, y, z);
    return at[2] < NEAREST ? null : this.spot(at);
  }

  /** Return the pixels per voxel at a distance before the camera. */
  scaleAt(far: number, camera: PerspectiveCamera): number {
    return (camera.projectionMatrix.elements[5] * this.height) / 2 / Math.max(NEAREST, far);
  }

  /** Add a line through points to the current path; parts behind the camera are cut off. */
  trace(points: readonly Point[]): void {
    let before = this.clipPoint(...points[0]);
    let drawing = false;
    for (const point of points.slice(1)) {
      const at = this.clipPoint(...point);
      const [near, ahead] = [before[2] >= NEAREST, at[2] >= NEAREST];
      if (near || ahead) {
        const [from, to] = [near ? before : cutLine(at, before), ahead ? at : cutLine(before, at)].map(this.spot, this);
        if (!drawing || !near) this.brush.moveTo(from.x, from.y);
        this.brush.lineTo(to.x, to.y);
      }
      drawing = ahead;
      before = at;
    }
  }

  /** Draw a line through points, dashed if there are lengths of dashes [CSS px]. */
  stroke(points: readonly Point[], css: string, width: number, dash: readonly number[] = []): void {
    const { brush } = this;
    brush.beginPath();
    this.trace(points);
    brush.setLineDash([...dash]);
    brush.lineWidth = width;
    brush.strokeStyle = css;
    brush.stroke();
    brush.setLineDash([]);
  }

  private clipPoint(x: number, y: number, z: number): Point {
    const e = this.clip.elements;
    return [
      e[0] * x + e[4] * y + e[8] * z + e[12],
      e[1] * x + e[5] * y + e[9] * z + e[13],
      e[3] * x + e[7] * y + e[11] * z + e[15],
    ];
  }

  private spot([x, y, far]: Point): Spot {
    return { x: ((x / far + 1) / 2) * this.width, y: ((1 - y / far) / 2) * this.height, far };
  }
}

/** Return the point between a visible and a hidden one at which a line leaves the view. */
function cutLine(seen: Point, hidden: Point): Point {
  const share = (seen[2] - NEAREST) / (seen[2] - hidden[2]);
  return [seen[0] + (hidden[0] - seen[0]) * share, seen[1] + (hidden[1] - seen[1]) * share, NEAREST];
}

/** Write letters with a dark edge, so that they are read before any ground; with the brush's font and alignment. */
export function writeEdged(brush: CanvasRenderingContext2D, text: string, x: number, y: number, css: string): void {
  brush.textBaseline = "middle";
  brush.lineJoin = "round";
  brush.strokeStyle = "rgba(5, 8, 12, 0.85)";
  brush.lineWidth = 3;
  brush.strokeText(text, x, y);
  brush.fillStyle = css;
  brush.fillText(text, x, y);
}

/** Add a diamond around a point to the current path. */
export function traceDiamond(brush: CanvasRenderingContext2D, x: number, y: number, reach: number): void {
  brush.moveTo(x, y - reach);
  brush.lineTo(x + reach, y);
  brush.lineTo(x, y + reach);
  brush.lineTo(x - reach, y);
  brush.closePath();
}

export function cssColour(colour: number, alpha = 1): string {
  return `rgba(${(colour >> 16) & 255}, ${(colour >> 8) & 255}, ${colour & 255}, ${alpha})`;
}
