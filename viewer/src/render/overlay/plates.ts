// Painters of labels on the overlay: nameplates of mechs, labels of packs in large battles, captions of teams and zone.
// Each has a size, so that the layout can give it a place.

import type { Box } from "../../framing";
import { TEAMS } from "../../palette";
import type { MatchState } from "../../state";
import { cssColour, writeEdged } from "./canvas";
import { drawFlat } from "./signs";

export const LETTERS = '700 12px "Inter Variable"'; // font of the overlay
const FONT = '"Inter Variable", system-ui, sans-serif';
const NAME_PX = [11.5, 14] as const; // height of names on the farthest and on the nearest plates [CSS px]
const MIDDLE_FAR = 48; // distance at which names are 12 px high [vox]
const BAR = 3; // width of the bars in name heights
const LETTER = 0.66; // width of a letter in name heights
const HOT = 0.8; // share of the heat cap from which heat is drawn in red
const PIPS = 10; // most mechs of a pack drawn one by one
const CAPTION_PX = 15;
const INK = "#f4f8fc";
const PANEL = "rgba(7, 11, 17, 0.84)";
const EMPTY = "rgba(150, 180, 210, 0.25)";
const STABILITY = "#cfd9e3";
const HEATS = ["#ffc65c", "#ff4d7d"] as const;

/** A label: its size, and how it is painted into a box. */
export interface Painter {
  readonly width: number; // [CSS px]
  readonly height: number;
  readonly leader?: string; // colour of a line to the anchor, if it is far away
  paint(brush: CanvasRenderingContext2D, box: Box): void;
}

/** Return the height of names on a plate at a distance before the camera [CSS px]; at least 11 px. */
export function nameHeight(far: number): number {
  return Math.max(NAME_PX[0], Math.min(NAME_PX[1], (12 * MIDDLE_FAR) / Math.max(1, far)));
}

function panel(brush: CanvasRenderingContext2D, { left, top, right, bottom }: Box, stroke: string, wide: number): void {
  brush.beginPath();
  brush.roundRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1, 3.5);
  brush.fillStyle = PANEL;
  brush.fill();
  brush.strokeStyle = stroke;
  brush.lineWidth = wide;
  brush.stroke();
}

function write(
  brush: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  px: number,
  align: CanvasTextAlign = "left",
): void {
  brush.font = `700 ${px}px ${FONT}`;
  brush.textAlign = align;
  brush.textBaseline = "middle";
  brush.fillText(text, x, y);
}

/** Return the nameplate of a mech: name, and bars of health, heat and stability. */
export function nameplate(match: MatchState, mech: number, px: number, selected: boolean, alpha: number): Painter {
  const { header, poses } = match;
  const { team, chassis } = header.roster[mech];
  const name = `${header.roster[mech].name}${match.commanded?.orders[mech]?.sign ?? ""}`;
  const spec = header.chassis[chassis];
  const css = TEAMS[team].css;
  const nameWidth = Math.ceil(px * LETTER * name.length + 5);
  const bar = Math.round(px * BAR);
  const shares = [
    poses.hp[mech] / (spec?.hp ?? 100),
    poses.heat[mech] / (spec?.heat_cap ?? 100),
    poses.stability[mech] / 100,
  ].map((share) => Math.max(0, Math.min(1, share)));
  const colours = [css, HEATS[shares[1] >= HOT ? 1 : 0], STABILITY];
  return {
    width: nameWidth + bar + 9,
    height: Math.round(px * 1.45),
    leader: cssColour(TEAMS[team].colour, 0.8),
    paint(brush, box) {
      brush.globalAlpha = alpha;
      panel(brush, box, selected ? "#fff" : cssColour(TEAMS[team].colour, 0.9), selected ? 2 : 1);
      brush.fillStyle = INK;
      write(brush, name, box.left + 4, (box.top + box.bottom) / 2 + 0.5, px);
      const [x, high] = [box.left + nameWidth + 3, box.bottom - box.top];
      for (const [i, [from, to]] of [
        [0.2, 0.5],
        [0.56, 0.68],
        [0.74, 0.84],
      ].entries()) {
        const [y, thick] = [Math.round(box.top + from * high), Math.max(1.5, Math.round((to - from) * high))];
        brush.fillStyle = EMPTY;
        brush.fillRect(x, y, bar, thick);
        brush.fillStyle = colours[i];
        brush.fillRect(x, y, bar * shares[i], thick);
      }
      brush.globalAlpha = 1;
    },
  };
}

/** Return the label of a pack: team symbol, number, and its living mechs. */
export function packLabel(team: 0 | 1, name: string, alive: number, size: number, fights: boolean): Painter {
  const px = 12;
  const pips = size <= PIPS;
  const nameWidth = Math.ceil(px * LETTER * name.length + 3);
  const counted = pips ? "" : ` ${alive}/${size}`;
  const row = pips ? size * 5 + 3 : Math.ceil(px * LETTER * counted.length);
  return {
    width: 17 + nameWidth + row,
    height: 18,
    paint(brush, box) {
      const y = (box.top + box.bottom) / 2;
      panel(brush, box, fights ? "#fff" : cssColour(TEAMS[team].colour, 0.9), fights ? 1.5 : 1);
      drawFlat(brush, box.left + 9, y, 4, team, 1);
      brush.fillStyle = INK;
      write(brush, name + counted, box.left + 16, y + 0.5, px);
      if (!pips) return;
      for (let i = 0; i < size; i++) {
        brush.fillStyle = i < alive ? TEAMS[team].css : EMPTY;
        brush.fillRect(box.left + 16 + nameWidth + i * 5, y - 4, 3.5, 8);
      }
    },
  };
}

/** Return the label of a contact; one of a lost contact has a dashed frame. */
export function tag(text: string, css: string, lost: boolean): Painter {
  const px = 12;
  return {
    width: Math.ceil(px * 0.53 * text.length + 12),
    height: 18,
    paint(brush, box) {
      brush.setLineDash(lost ? [3, 3] : []);
      panel(brush, box, css, 1);
      brush.setLineDash([]);
      brush.fillStyle = css;
      write(brush, text, (box.left + box.right) / 2, (box.top + box.bottom) / 2 + 0.5, px, "center");
    },
  };
}

export function caption(text: string, css: string, px = CAPTION_PX): Painter {
  return {
    width: Math.ceil(px * 0.6 * text.length + 8),
    height: Math.round(px * 1.35),
    paint(brush, box) {
      brush.font = `700 ${px}px ${FONT}`;
      brush.textAlign = "center";
      writeEdged(brush, text, (box.left + box.right) / 2, (box.top + box.bottom) / 2, css);
    },
  };
}
