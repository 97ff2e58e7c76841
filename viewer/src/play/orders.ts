// The orders of pilots and commanders, and which one a place in the picture gives. Pure.

import type { Box } from "../framing";
import { type Header, PLAY_ORDERS } from "../protocol.gen";

export type OrderName = (typeof PLAY_ORDERS)[number];

export interface OrderRow {
  readonly order: OrderName;
  readonly sign: string;
  readonly word: string;
  readonly label: string; // to the pack of a pilot
  readonly names?: "hostile" | "mate"; // which mech it names
}

const row = (order: OrderName, sign: string, label: string, names?: OrderRow["names"]): OrderRow => ({
  ...{ order, sign, label, names },
  word: order.replace("_", " "),
});

/** In the order of `PLAY_ORDERS`; the key of each is its number. */
export const ORDERS: readonly OrderRow[] = [
  row("none", "", "No order"),
  row("hold", "■", "Order: hold your place"),
  row("advance", "↑", "Order: advance on the zone"),
  row("flank_left", "↖", "Order: flank left"),
  row("flank_right", "↗", "Order: flank right"),
  row("focus", "◎", "Order: focus my target", "hostile"),
  row("screen", "◇", "Order: screen me", "mate"),
  row("retreat", "↓", "Order: retreat"),
];

const NEAR_ZONE = 8; // distance from the zone up to which the ground stands for it [vox]

/** Return the order that a place gives to a team: the mech there, -1 none, else the ground; null off the map. */
export function orderAt(
  { roster, zone: [x, y, radius] }: Header,
  team: number,
  mech: number,
  ground: readonly number[] | null,
): { order: OrderName; target: string } | null {
  if (mech >= 0) return { order: roster[mech].team === team ? "screen" : "focus", target: roster[mech].name };
  const near = ground && Math.hypot(ground[0] - x, ground[1] - y) <= radius + NEAR_ZONE;
  return ground && { order: near ? "advance" : "hold", target: "" };
}

/** Return the mechs whose places in the picture are in a rectangle. */
export function inBox(
  mechs: readonly number[],
  { left, top, right, bottom }: Box,
  spotOf: (mech: number) => { x: number; y: number } | null,
): number[] {
  const inside = ({ x, y }: { x: number; y: number }) => x >= left && x <= right && y >= top && y <= bottom;
  return mechs.filter((mech) => inside(spotOf(mech) ?? { x: NaN, y: NaN }));
}

/** Return a choice after mechs were chosen: with `more` they are added, or removed where all of them are chosen. */
export function chosenWith(before: ReadonlySet<number>, mechs: readonly number[], more: boolean): ReadonlySet<number> {
  const rest = [...before].filter((mech) => more && !mechs.includes(mech));
  const removes = more && mechs.every((mech) => before.has(mech));
  return new Set(removes ? rest : [...rest, ...mechs]);
}
