// Damage numbers beside hit mechs, kept apart on the screen.

import type { Box } from "../../framing";
import { type HitGroup, type HitGroupState, LIFE_S, type NumberBox, separate } from "../../data/hit_groups";
import { isBattle } from "../../data/packs";
import { smooth } from "../../interpolate";
import type { Overlay } from "./canvas";
import { liftOff } from "./layout";

const VIEW = 900; // height of the view in which sizes are given [CSS px]
const SMALLEST = 0.8; // least scale of lower views
const DIGIT = 0.6; // width of a digit relative to its height
const BESIDE = 40; // horizontal offset of numbers, past the plate; they alternate left and right [CSS px]
const RISE = 2.1; // rise of a number after its last hit [vox]
const HIGH = 0.6; // height above the mech's centre [vox]
const GROW_S = 0.12; // time to appear
const BUMP = 0.3; // enlargement when a further hit is added
const BUMP_S = 0.18; // duration of the enlargement
const LEAST_PIXELS = 14; // height of the smallest number
const MOST_PIXELS = 38;
const LEAST_MOST = 0.5; // least share of the largest height in low views
const PIXELS_PER_POINT = 0.5;
const LEAST = 1; // least damage that shows a number
const LEAST_IN_BATTLE = 12; // least damage in large battles
const MOST = 28; // most numbers at a time
const MOST_LIFT = 1.5; // most a number is moved up off a label, in its heights; without room it is not drawn
const FONT = '"Inter Variable", system-ui, sans-serif';
const COLOURS = ["#fff2d9", "#ff9e33"] as const; // of normal and of mostly critical damage

interface NumberLabel {
  at: readonly [number, number, number]; // in voxel space
  text: string;
  size: number; // height in the reference view
  alpha: number;
  critical: boolean;
  side: 1 | -1; // right or left of its mech
  weight: number; // weight in overlap removal, 0 to 1
  order: number; // newer numbers have priority
}

export class DamageNumbers {
  private readonly least: number;
  private shown: NumberLabel[] = [];

  constructor(mechs: number) {
    this.least = isBattle(mechs) ? LEAST_IN_BATTLE : LEAST;
  }

  clear(): void {
    this.shown = [];
  }

  /** Add the number of a hit group at a mech's centre in voxel space, with the opacity of the mech. */
  add(
    [x, y, z]: readonly [number, number, number],
    { target, turn, ticks }: HitGroup,
    { damage, strong, sinceFirst, sinceLatest, sinceEnd }: HitGroupState,
    drawn: number,
  ): void {
    if (damage < this.least || drawn <= 0) return;
    const share = sinceEnd / LIFE_S;
    const single = ticks[0] === ticks[ticks.length - 1];
    const bump = single ? 0 : BUMP * (1 - smooth(sinceLatest / BUMP_S)) * smooth(sinceFirst / BUMP_S);
    const grown = smooth(sinceFirst / GROW_S);
    const alpha = drawn * (1 - smooth((share - 0.45) / 0.55));
    this.shown.push({
      at: [x, y, z + HIGH + share * RISE],
      text: String(Math.round(damage)),
      size: Math.min(MOST_PIXELS, LEAST_PIXELS + damage * PIXELS_PER_POINT) * (0.55 + 0.45 * grown) * (1 + bump),
      alpha,
      critical: strong > 0.5,
      side: (target + turn) % 2 === 0 ? 1 : -1,
      weight: alpha * grown,
      order: ticks[0],
    });
  }

  /** Draw the numbers apart from each other and off the boxes taken, the largest if there are many. */
  draw(overlay: Overlay, taken: readonly Box[]): void {
    const { brush } = overlay;
    const share = Math.min(1.2, overlay.height / VIEW);
    const scale = Math.max(SMALLEST, share);
    const most = MOST_PIXELS * (1 + BUMP) * Math.max(LEAST_MOST, share);
    const placed = [...this.shown]
      .sort((a, b) => b.size * b.alpha - a.size * a.alpha)
      .slice(0, MOST)
      .flatMap((number) => {
        const spot = overlay.project(...number.at);
        if (!spot) return [];
        const size = Math.round(Math.min(most, number.size * scale));
        const wide = size * DIGIT * number.text.length + 4;
        const x = spot.x + number.side * (BESIDE + wide / 2);
        const box: NumberBox = { x, y: -spot.y, wide, high: size * 0.9, weight: number.weight, order: number.order };
        return [{ number, size, box }];
      });
    const lifts = separate(placed.map(({ box }) => box));
    brush.textAlign = "center";
    brush.textBaseline = "middle";
    brush.lineJoin = "round";
    brush.strokeStyle = "#000";
    placed.forEach(({ number, size, box }, i) => {
      const [middle, half] = [-box.y - lifts[i], box.high / 2];
      const [left, right] = [box.x - box.wide / 2, box.x + box.wide / 2];
      const lift = liftOff({ left, top: middle - half, right, bottom: middle + half }, taken, MOST_LIFT * box.high);
      if (lift === null) return;
      const y = middle - lift;
      brush.globalAlpha = number.alpha;
      brush.font = `800 ${size}px ${FONT}`;
      brush.lineWidth = Math.max(3, size * 0.16);
      brush.strokeText(number.text, box.x, y);
      brush.fillStyle = COLOURS[number.critical ? 1 : 0];
      brush.fillText(number.text, box.x, y);
    });
    brush.globalAlpha = 1;
  }
}
