// Ghosts: where the mechs are in other continuations of a match, as hollow signs with the paths of the last seconds,
// drawn over the picture.

import { chunkAt } from "../../data/store";
import { TEAMS } from "../../palette";
import { MechFlag } from "../../protocol.gen";
import type { Point } from "../../framing";
import type { Ghost } from "../../state";
import { frameAt, sampleMech } from "../../interpolate";
import { type Overlay, cssColour } from "./canvas";

const TRAIL_S = 4; // length of the path behind a ghost [s]
const STEP_S = 0.25; // between two points of it [s]
const SIGN = 6; // radius of a sign [CSS px]
const DASHES: readonly (readonly number[])[] = [[], [6, 4], [2, 3]]; // of the paths, by ghost
const FONT = '600 10px "Inter Variable", system-ui, sans-serif';

/** Return the path of a mech up to a tick, empty while it is not loaded or if the mech is dead. */
function ghostPath(ghost: Ghost, mech: number, tick: number): Point[] {
  const { header, index, store } = ghost;
  const number = chunkAt(index.chunks, tick);
  const chunk = store.get(number);
  if (!chunk || tick < index.chunks[0][0]) return [];
  const { frame } = frameAt(chunk, tick);
  if (!(chunk.mech.flags[frame * chunk.mechs + mech] & MechFlag.ALIVE)) return [];
  const hz = header.tick_hz;
  const points: Point[] = [];
  for (let at = Math.max(index.chunks[0][0], tick - TRAIL_S * hz); ; at += STEP_S * hz) {
    const now = Math.min(at, tick);
    const part = store.get(chunkAt(index.chunks, now));
    if (part) {
      const { x, y, z } = sampleMech(part, mech, now, hz);
      points.push([x, y, z]);
    }
    if (at >= tick) return points;
  }
}

/** Draw the ghosts at a tick and request what they need. */
export function drawGhosts(overlay: Overlay, ghosts: readonly Ghost[], tick: number): void {
  const { brush } = overlay;
  brush.font = FONT;
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  ghosts.forEach((ghost, place) => {
    const { header, index, store, label } = ghost;
    if (index.chunks.length === 0 || tick < index.chunks[0][0]) return;
    store.request(chunkAt(index.chunks, tick), index.chunks.length, 1);
    header.roster.forEach(({ team, present }, mech) => {
      const path = present ? ghostPath(ghost, mech, tick) : [];
      const end = path.at(-1);
      const spot = end ? overlay.project(...end) : null;
      if (!spot) return;
      overlay.stroke(path, cssColour(TEAMS[team].colour, 0.5), 1.5, DASHES[place % DASHES.length]);
      brush.beginPath();
      brush.arc(spot.x, spot.y, SIGN, 0, 2 * Math.PI);
      brush.fillStyle = "rgba(7, 11, 17, 0.55)";
      brush.fill();
      brush.strokeStyle = cssColour(TEAMS[team].colour, 0.85);
      brush.stroke();
      brush.fillStyle = cssColour(TEAMS[team].colour, 1);
      brush.fillText(
        label
          .replace(/^Best for /, "")
          .slice(0, 1)
          .toUpperCase(),
        spot.x,
        spot.y + 0.5,
      );
    });
  });
}
