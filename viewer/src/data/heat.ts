// Overlays of the ground: colours of heat maps and of distances to the zone, and the scales that the legend shows.
// Colours of values are none of a team; the split by teams mixes the colours of the teams. Pure.

import { TEAMS } from "../palette";

/** What a heat map shows: the teams in their colours, their sum, or one team. */
export type HeatSide = "teams" | "both" | "blue" | "red";
export const HEAT_SIDES: readonly HeatSide[] = ["teams", "both", "blue", "red"];

/** Values of both teams by column, shape [y, x]. */
export type TeamGrids = readonly [blue: Float32Array, red: Float32Array];

type Colour = [number, number, number, number];

const POWER = 0.45; // exponent of values, which keeps low ones visible beside peaks
const STRONGEST = 225; // opacity of the maximum
const RAMP: readonly Colour[] = [
  [38, 66, 54, 0],
  [24, 146, 116, 165],
  [196, 214, 74, 205],
  [255, 247, 196, STRONGEST],
]; // from zero to the maximum

function between(low: readonly number[], high: readonly number[], share: number): Colour {
  return [0, 1, 2, 3].map((k) => low[k] + (high[k] - low[k]) * share) as Colour;
}

export function heatColour(at: number): Colour {
  const place = Math.max(0, Math.min(1, at)) * (RAMP.length - 1);
  const low = Math.min(RAMP.length - 2, Math.floor(place));
  return between(RAMP[low], RAMP[low + 1], place - low);
}

/** Return the colour of a value that red has `redShare` of, at a position of the scale: white for equal shares. */
export function teamColour(redShare: number, at: number): Colour {
  const { colour } = TEAMS[redShare > 0.5 ? 1 : 0];
  const own = [(colour >> 16) & 255, (colour >> 8) & 255, colour & 255, 0];
  const mixed = between(own, [255, 255, 255, 0], 2 * Math.min(redShare, 1 - redShare));
  return [mixed[0], mixed[1], mixed[2], at > 0 ? 40 + (STRONGEST - 40) * at : 0];
}

/** Return the position of a value on the scale of a maximum, 0 to 1. */
export function placeOn(most: number, value: number): number {
  return most > 0 ? (value / most) ** POWER : 0;
}

export function valueAt(most: number, place: number): number {
  return most * place ** (1 / POWER);
}

function columnValue([blue, red]: TeamGrids, side: HeatSide, i: number): number {
  return side === "blue" ? blue[i] : side === "red" ? red[i] : blue[i] + red[i];
}

export function heatMaximum(grids: TeamGrids, side: HeatSide): number {
  let most = 0;
  for (let i = 0; i < grids[0].length; i++) most = Math.max(most, columnValue(grids, side, i));
  return most;
}

/** Paint a heat map, shape [y, x]. */
export function paintHeat(grids: TeamGrids, side: HeatSide, pixels: Uint8Array): void {
  const most = heatMaximum(grids, side);
  for (let i = 0; i < grids[0].length; i++) {
    const value = columnValue(grids, side, i);
    const place = placeOn(most, value);
    pixels.set(side === "teams" ? teamColour(value > 0 ? grids[1][i] / value : 0, place) : heatColour(place), i * 4);
  }
}

const NEAR_ZONE = [190, 240, 120] as const; // colours near the zone and far from it
const FAR_ZONE = [96, 52, 128] as const;
export const BAND = 5; // width of the distance bands [vox]
const BAND_ALPHA = [168, 96] as const; // opacity of bands in turn
export const NO_PATH: Colour = [24, 24, 28, 170];

/** Return the end of the scale of distances: from the zone's edge to the farthest corner, in whole bands [vox]. */
export function distanceScale([sizeX, sizeY]: readonly number[], [x, y, radius]: readonly number[]): number {
  const far = Math.hypot(Math.max(x, sizeX - x), Math.max(y, sizeY - y)) - radius;
  return Math.max(1, Math.ceil(far / BAND)) * BAND;
}

/** Return the colour of a distance to the zone on the scale of a maximum. */
export function distanceColour(most: number, far: number): Colour {
  if (!(far < Infinity)) return NO_PATH;
  const [red, green, blue] = between(NEAR_ZONE, FAR_ZONE, Math.min(1, far / most));
  return [red, green, blue, BAND_ALPHA[Math.floor(far / BAND) % 2]];
}

/** Paint distances to the zone: shades from near to far, in bands. */
export function paintZoneDistance(cost: Float32Array, most: number, pixels: Uint8Array): void {
  cost.forEach((far, i) => pixels.set(distanceColour(most, far), i * 4));
}

export function gradient(colour: (place: number) => Colour, steps = 8): string {
  const stops = Array.from({ length: steps + 1 }, (_, k) => {
    const [red, green, blue, alpha] = colour(k / steps);
    return `rgba(${red.toFixed(0)}, ${green.toFixed(0)}, ${blue.toFixed(0)}, ${(alpha / 255).toFixed(2)})`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

/** Return a number of the scale as text: at most two digits after the point, fewer for large numbers. */
export function scaleText(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : Number(value.toFixed(2)).toString();
}
