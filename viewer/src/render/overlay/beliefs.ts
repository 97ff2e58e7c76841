// Where the policy of the selected mech believes its contacts to be: a line and a diamond for each row of its
// observation, with the row's number, so that they are found in the list of the observation.

import type { Belief } from "../../data/observations";
import { TEAMS } from "../../palette";
import type { MatchState } from "../../state";
import { mechName, percentText } from "../../text";
import { type Overlay, cssColour, traceDiamond, writeEdged } from "./canvas";

const FONT = '600 11px "Inter Variable", system-ui, sans-serif';
const SIDE = 7; // half the diagonal of a diamond [CSS px]
const FAINTEST = 0.35; // opacity for an uncertain contact
const SURE = 0.995; // certainty from which it is not named

export function drawBeliefs(overlay: Overlay, match: MatchState, beliefs: readonly Belief[], pilot: number): void {
  const { brush } = overlay;
  const { header, poses } = match;
  for (const { mech, slot, at, sure } of beliefs) {
    const { team } = header.roster[mech];
    const hostile = team !== header.roster[pilot].team;
    const css = cssColour(TEAMS[team].colour, Math.max(FAINTEST, hostile ? sure : sure / 2));
    const from = [poses.x[pilot], poses.y[pilot], poses.z[pilot]] as const;
    overlay.stroke([from, at], css, hostile ? 1.5 : 1, sure < SURE ? [3, 5] : []);
    const spot = overlay.project(...at);
    if (!spot) continue;
    const { x, y } = spot;
    brush.beginPath();
    traceDiamond(brush, x, y, SIDE);
    brush.lineWidth = 2;
    brush.stroke();
    const text = `[${slot}] ${mechName(header, mech)}${sure < SURE ? ` ${percentText(sure)}` : ""}`;
    brush.font = FONT;
    brush.textAlign = "left";
    writeEdged(brush, text, x + SIDE + 4, y, TEAMS[team].css);
  }
}
