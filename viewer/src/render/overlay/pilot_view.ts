// The instruments of the first-person view: reticle, boxes around contacts, and a radar scope with its sweep.

import type { Box } from "../../framing";
import type { Contact } from "../../data/cursor";
import { isFresh } from "../../data/perception";
import { radarOf } from "../../data/sensor_ranges";
import { FIELD_OF_VIEW } from "../../spaces";
import { RANGE_STYLES, TEAMS } from "../../palette";
import { MechFlag } from "../../protocol.gen";
import type { MatchState, ViewerState } from "../../state";
import { type Overlay, cssColour, writeEdged } from "./canvas";
import { drawFlat } from "./signs";

const AIM = "#ffe08a"; // of the pilot's target, as its line
const GLASS = "rgba(225, 240, 250, 0.9)";
const FAINT = "rgba(225, 240, 250, 0.35)";
const BACK = "rgba(7, 11, 17, 0.78)";
const FONT = '600 11px "Inter Variable", system-ui, sans-serif';
const FAR = 40; // distance of the point that the reticle marks [vox]
const RETICLE = [7, 22] as const; // inner and outer length of its strokes [CSS px]
const CORNER = 0.28; // length of a box's corners, as a share of its sides
const LEAST_BOX = 14; // least side of a box [CSS px]
const SCOPE = [46, 78] as const; // least and largest radius of the radar scope [CSS px]
const SCOPE_SHARE = 0.09; // its radius, as a share of the free part's sides together
/** Distances of the scope from rosters and player: beside the feed and above the caption; a cockpit has neither. */
const SCOPE_MARGINS = { wide: [72, 64], narrow: [14, 76], low: [14, 28], cockpit: [8, -24] } as const; // [CSS px]
const LEAST_SCOPE = 34; // radius of the scope where a sheet leaves little height [CSS px]
const LOW = 300; // height of the free part of the picture below which it is low [CSS px]
const SCOPE_RANGE = 1.5; // range of the scope, in radar ranges of the class
const ANY_RANGE = 30; // range of the scope without sensor parameters [vox]
const STEP = 5; // to which the scope's range is rounded up [vox]
const TURN_S = 2.5; // time of a turn of the sweep [s]
const SWEEP = 0.9; // angle of its fading tail [rad]
const SLICES = 14;
const FADED = 0.4; // opacity of a contact about to be forgotten

function alphaOf(contact: Contact, memory: number): number {
  return isFresh(contact) ? 1 : Math.max(FADED, 0.9 * (1 - contact.age / Math.max(memory, 0.1)));
}

/** Return the least and largest of values, at least a box apart. */
function extent(values: readonly number[]): [number, number] {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const wider = Math.max(0, LEAST_BOX - (high - low)) / 2;
  return [low - wider, high + wider];
}

/** Return the box around a mech at the place of a contact, null if a part is behind the camera. */
export function contactBox(overlay: Overlay, match: MatchState, { mech, x, y, z }: Contact): Box | null {
  const { size } = match.header.chassis[match.header.roster[mech].chassis] ?? { size: [2, 2, 2] };
  const [wide, , high] = size.map((edge) => edge / 2);
  const corners = [-1, 1].flatMap((a) => [-1, 1].flatMap((b) => [-1, 1].map((c) => [a * wide, b * wide, c * high])));
  const spots = corners.map(([dx, dy, dz]) => overlay.project(x + dx, y + dy, z + dz));
  if (spots.some((spot) => spot === null)) return null;
  const [left, right] = extent(spots.map((spot) => spot!.x));
  const [top, bottom] = extent(spots.map((spot) => spot!.y));
  return { left, top, right, bottom };
}

/** Stroke the current path with a dark edge, so that it is visible before any ground. */
function outline(brush: CanvasRenderingContext2D, width: number, style: string): void {
  brush.lineWidth = width + 2.25;
  brush.strokeStyle = "rgba(5, 8, 12, 0.6)";
  brush.stroke();
  brush.lineWidth = width;
  brush.strokeStyle = style;
  brush.stroke();
}

/** Draw the corners of a contact's box: solid while it is detected, dashed where it was. */
export function drawContact(
  brush: CanvasRenderingContext2D,
  contact: Contact,
  { left, top, right, bottom }: Box,
  css: string,
  memory: number,
): void {
  const [across, along] = [(right - left) * CORNER, (bottom - top) * CORNER];
  brush.beginPath();
  for (const x of [left, right]) {
    for (const y of [top, bottom]) {
      brush.moveTo(x + (x === left ? across : -across), y);
      brush.lineTo(x, y);
      brush.lineTo(x, y + (y === top ? along : -along));
    }
  }
  brush.setLineDash(isFresh(contact) ? [] : [4, 4]);
  brush.globalAlpha = alphaOf(contact, memory);
  outline(brush, 2.25, css);
  brush.setLineDash([]);
  brush.globalAlpha = 1;
}

export function drawReticle(overlay: Overlay, match: MatchState, pilot: number, eye: readonly number[]): void {
  const yaw = match.poses.yaw[pilot];
  const spot = overlay.project(eye[0] + Math.cos(yaw) * FAR, eye[1] + Math.sin(yaw) * FAR, eye[2]);
  if (!spot) return;
  const { brush } = overlay;
  const [inner, outer] = RETICLE;
  brush.beginPath();
  for (const side of [-1, 1]) {
    brush.moveTo(spot.x + side * inner, spot.y);
    brush.lineTo(spot.x + side * outer, spot.y);
    brush.moveTo(spot.x, spot.y + side * inner);
    brush.lineTo(spot.x, spot.y + side * outer);
  }
  brush.moveTo(spot.x + 15, spot.y);
  brush.arc(spot.x, spot.y, 15, 0, 2 * Math.PI);
  outline(brush, 1.75, GLASS);
  brush.beginPath();
  brush.arc(spot.x, spot.y, 1.75, 0, 2 * Math.PI);
  brush.fillStyle = GLASS;
  brush.fill();
}

/** Return centre and radius of the scope: at the lower left of the free part of the picture. */
function scopePlace({ window: [width, height], insets, flying }: ViewerState) {
  const free = height - insets.top - insets.bottom;
  const sides = width - insets.left - insets.right + free;
  const shape = insets.left === 0 ? "narrow" : free < LOW ? "low" : "wide";
  const [right, up] = SCOPE_MARGINS[flying ? "cockpit" : shape];
  const most = shape === "wide" ? Math.max(SCOPE[0], Math.min(SCOPE[1], sides * SCOPE_SHARE, width / 6)) : SCOPE[0];
  const radius = shape === "narrow" ? Math.max(LEAST_SCOPE, Math.min(most, (free - up) / 2 - 4)) : most;
  return { x: insets.left + radius + right, y: height - insets.bottom - radius - up, radius };
}

function scopeRange({ header }: MatchState, pilot: number): number {
  const radar = header.sensing.radar[header.roster[pilot].chassis];
  return radar ? Math.ceil((radar * SCOPE_RANGE) / STEP) * STEP : ANY_RANGE;
}

/** A point of the scope for a place on the map [CSS px]. */
type Place = (x: number, y: number) => [number, number];

/** Return how the scope maps places: the pilot in its centre, ahead up. */
function placeOn({ x, y }: { x: number; y: number }, scale: number, { poses }: MatchState, pilot: number): Place {
  const [sin, cos] = [Math.sin(poses.yaw[pilot]), Math.cos(poses.yaw[pilot])];
  return (px, py) => {
    const [dx, dy] = [px - poses.x[pilot], py - poses.y[pilot]];
    return [x - (dy * cos - dx * sin) * scale, y - (dx * cos + dy * sin) * scale];
  };
}

function circle(brush: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  brush.beginPath();
  brush.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Draw the radar's range and its sweep, whose angle depends on the time alone. */
function drawSweep(brush: CanvasRenderingContext2D, x: number, y: number, reach: number, seconds: number): void {
  const at = ((seconds / TURN_S) % 1) * 2 * Math.PI;
  for (let k = 0; k < SLICES; k++) {
    brush.beginPath();
    brush.moveTo(x, y);
    brush.arc(x, y, reach, at - ((k + 1) / SLICES) * SWEEP, at - (k / SLICES) * SWEEP);
    brush.closePath();
    brush.fillStyle = cssColour(RANGE_STYLES.radar.colour, 0.34 * (1 - k / SLICES));
    brush.fill();
  }
  circle(brush, x, y, reach);
  brush.setLineDash([3, 3]);
  brush.lineWidth = 1.25;
  brush.strokeStyle = cssColour(RANGE_STYLES.radar.colour, 0.9);
  brush.stroke();
  brush.setLineDash([]);
}

/**
 * Draw the radar scope: ahead is up; contacts, friends, the zone, the field of view, and the sweep within radar range.
 * Returns its box.
 */
export function drawScope(
  overlay: Overlay,
  state: ViewerState,
  match: MatchState,
  contacts: readonly Contact[],
  memory: number,
): Box {
  const { brush } = overlay;
  const { poses, header } = match;
  const pilot = state.selected;
  const centre = scopePlace(state);
  const { x, y, radius } = centre;
  const range = scopeRange(match, pilot);
  const scale = radius / range;
  const place = placeOn(centre, scale, match, pilot);
  const radar = radarOf(header, poses, pilot);
  circle(brush, x, y, radius);
  brush.fillStyle = BACK;
  brush.fill();
  brush.save();
  brush.clip();
  circle(brush, ...place(header.zone[0], header.zone[1]), header.zone[2] * scale);
  brush.fillStyle = "rgba(255, 214, 120, 0.16)";
  brush.strokeStyle = "rgba(255, 214, 120, 0.9)";
  brush.lineWidth = 1.25;
  brush.fill();
  brush.stroke();
  if (radar !== null) drawSweep(brush, x, y, Math.min(radius, radar * scale), state.tick / header.tick_hz);
  const half = Math.atan(Math.tan(FIELD_OF_VIEW / 2) * (overlay.width / overlay.height));
  const turn = -Math.PI / 2 - state.camera.azimuth;
  brush.beginPath();
  for (const side of [-half, half]) {
    brush.moveTo(x, y);
    brush.lineTo(x + Math.cos(turn + side) * radius, y + Math.sin(turn + side) * radius);
  }
  brush.strokeStyle = FAINT;
  brush.lineWidth = 1;
  brush.stroke();
  header.roster.forEach(({ team, present }, mech) => {
    const friend = present && mech !== pilot && team === header.roster[pilot].team;
    if (!friend || !(poses.flags[mech] & MechFlag.ALIVE)) return;
    drawFlat(brush, ...place(poses.x[mech], poses.y[mech]), 3, team, 0.8);
  });
  brush.restore();
  for (const contact of [...contacts].reverse()) {
    const [px, py] = place(contact.x, contact.y);
    const [dx, dy] = [px - x, py - y];
    const far = Math.hypot(dx, dy);
    // contacts beyond the scope are at its rim
    const short = far > radius - 5 ? (radius - 5) / far : 1;
    drawFlat(brush, x + dx * short, y + dy * short, 4.2, header.roster[contact.mech].team, alphaOf(contact, memory));
    if (!contact.target) continue;
    circle(brush, x + dx * short, y + dy * short, 8);
    brush.strokeStyle = AIM;
    brush.lineWidth = 1.5;
    brush.stroke();
  }
  drawFlat(brush, x, y, 3.5, header.roster[pilot].team, 1);
  circle(brush, x, y, radius);
  brush.strokeStyle = FAINT;
  brush.lineWidth = 1.5;
  brush.stroke();
  const text = radar === null ? `${range} vox` : `radar ${radar.toFixed(0)} of ${range} vox`;
  brush.font = FONT;
  brush.textAlign = "center";
  writeEdged(brush, text, x, y + radius + 12, "#e6eef5");
  return { left: x - radius - 2, top: y - radius - 2, right: x + radius + 2, bottom: y + radius + 22 };
}

export function contactCss(match: MatchState, { mech, target }: Contact): string {
  return target ? AIM : TEAMS[match.header.roster[mech].team].css;
}
