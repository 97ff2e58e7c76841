// Team symbols on the ground around mechs, which point along their heading: a circle for blue, a diamond for red.
// Distant mechs have a small flat symbol instead, in large battles all have.

import type { PerspectiveCamera } from "three";
import { isBattle } from "../../data/packs";
import type { Point } from "../../framing";
import { TEAMS } from "../../palette";
import { MechFlag } from "../../protocol.gen";
import type { MatchState } from "../../state";
import type { Mechs } from "../mechs";
import { type Overlay, cssColour, traceDiamond } from "./canvas";

const LIFT = 0.07; // height above the ground [vox]
const POINTS = 28; // corners of a circle
const AROUND = [0.66, 0.35] as const; // radius: share of the mech's width, plus a constant [vox]
const DIAMOND = 1.18; // size of a diamond relative to the circle
const ARROW = [1.06, 1.38, 0.22] as const; // arrow: distance of its base and tip, half its width, in radii
const LEAST = 9; // radius below which a symbol is flat [CSS px]
const FLAT = [4.5, 3] as const; // radius of flat symbols: otherwise, in large battles [CSS px]
const HIDDEN = 0.55; // opacity of symbols of hidden mechs and of the far half of rings
const PAINT = cssColour(0xff73e0);

/** Draw the symbols of all visible living mechs; `hidden` tells which are behind walls. */
export function drawSigns(
  overlay: Overlay,
  camera: PerspectiveCamera,
  match: MatchState,
  mechs: Mechs,
  living: readonly number[],
  selected: number,
  hidden: (mech: number) => boolean,
): void {
  const { brush } = overlay;
  const { poses, header } = match;
  const battle = isBattle(living.length);
  for (const mech of living) {
    const { team } = header.roster[mech];
    const [x, y, z] = [poses.x[mech], poses.y[mech], poses.z[mech] - mechs.height(mech) / 2 + LIFT];
    const centre = overlay.project(x, y, z);
    if (!centre) continue;
    const radius = mechs.width(mech) * AROUND[0] + AROUND[1];
    const pixels = radius * overlay.scaleAt(centre.far, camera);
    const alpha = hidden(mech) ? HIDDEN : 1;
    brush.lineJoin = "round";
    const marked = mech === selected || (match.commanded?.chosen.has(mech) ?? false);
    if (!marked && (battle || pixels < LEAST)) {
      drawFlat(brush, centre.x, centre.y, FLAT[battle ? 1 : 0], team, alpha);
      continue;
    }
    const yaw = poses.yaw[mech];
    const around = (angle: number, size: number): Point => [
      x + Math.cos(yaw + angle) * radius * size,
      y + Math.sin(yaw + angle) * radius * size,
      z,
    ];
    const corners = TEAMS[team].sides || POINTS;
    const size = TEAMS[team].sides ? DIAMOND : 1;
    const ring = Array.from({ length: corners + 1 }, (_, i) => around((i / corners) * 2 * Math.PI, size));
    brush.beginPath();
    overlay.trace(ring);
    brush.fillStyle = cssColour(TEAMS[team].colour, 0.13 * alpha);
    brush.fill();
    brush.strokeStyle = cssColour(TEAMS[team].colour, alpha);
    brush.lineWidth = Math.max(1.5, Math.min(3.5, pixels * 0.07));
    brush.stroke();
    const [base, tip, wide] = ARROW;
    const [across, along] = [-Math.sin(yaw) * radius * wide, Math.cos(yaw) * radius * wide];
    const [bx, by] = around(0, base * size);
    brush.beginPath();
    overlay.trace([[bx + across, by + along, z], around(0, tip * size), [bx - across, by - along, z]]);
    brush.fillStyle = cssColour(TEAMS[team].colour, alpha);
    brush.fill();
    if (marked) {
      const outer = ring.map(([px, py]): Point => [x + (px - x) * 1.16, y + (py - y) * 1.16, z]);
      overlay.stroke(outer, "#fff", 1.5);
    }
    if (poses.flags[mech] & MechFlag.PAINTED) {
      for (const side of [0, 1, 2, 3]) {
        const angle = (side / 2 + 0.25) * Math.PI;
        overlay.stroke([around(angle, 0.7), around(angle, 1.5)], PAINT, 2.5);
      }
    }
  }
}

export function drawFlat(
  brush: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  team: 0 | 1,
  alpha: number,
): void {
  brush.beginPath();
  if (TEAMS[team].sides === 0) brush.arc(x, y, radius, 0, 2 * Math.PI);
  else traceDiamond(brush, x, y, radius * DIAMOND);
  brush.fillStyle = cssColour(TEAMS[team].colour, alpha);
  brush.fill();
  brush.strokeStyle = `rgba(5, 8, 12, ${0.8 * alpha})`;
  brush.lineWidth = 1;
  brush.stroke();
}
